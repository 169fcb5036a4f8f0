"""What `pip install gossamer` gives: a wheel, built here and installed into an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("pyproject.toml", "README.md", "LICENSE", "src", "scenarios", "experiments")
HEAVY = ("numpy", "scipy", "pyarrow", "pandas", "pyspark", "matplotlib")
PATIENCE_S = 120
NOT_OURS = shutil.ignore_patterns("__pycache__", "*.egg-info")

LIVE = """
import gossamer
with gossamer.join_sync("wheel") as group:
    heard = group.subscribe("quotes.>")
    group.publish("quotes.nyse.ibm", b"101.5", price=101.5)
    print(heard.get(timeout=30).payload.decode())
"""


def ran(*line: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        list(map(str, line)),
        cwd=cwd,
        env=outside | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def pip(*words: str | Path, cwd: Path, python: str | Path = sys.executable) -> subprocess.CompletedProcess[str]:
    return ran(python, "-m", "pip", "--disable-pip-version-check", "-q", *words, cwd=cwd)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    reached = pip("download", "--no-deps", "--dest", folder / "probe", "setuptools>=77", cwd=folder)
    if reached.returncode:
        pytest.skip(f"no wheel was built: no package index can be reached: {reached.stderr.strip().splitlines()[-1]}")
    for name in PARTS:
        part, copy = ROOT / name, folder / "tree" / name
        if part.is_dir():
            shutil.copytree(part, copy, symlinks=True, ignore=NOT_OURS)
        else:
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(part, copy)
    built = pip("wheel", "--no-deps", "--wheel-dir", folder / "dist", folder / "tree", cwd=folder)
    assert built.returncode == 0, built.stderr
    (file,) = (folder / "dist").glob("gossamer-*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with nothing but the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("clean")
    assert ran(sys.executable, "-m", "venv", folder / "venv", cwd=folder).returncode == 0
    done = pip("install", wheel, cwd=folder, python=folder / "venv" / "bin" / "python")
    assert done.returncode == 0, done.stderr
    return folder / "venv" / "bin"


def test_a_wheel_has_the_scenarios_the_experiments_and_the_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for kind in ("scenarios", "experiments"):
        ours = {str(path.relative_to(ROOT)) for path in (ROOT / kind).rglob("*") if path.is_file()}
        assert {f"gossamer/{name}" for name in ours} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any("tests/" in name for name in names)


def test_a_wheel_finds_its_scenarios_and_experiments_wherever_one_is(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "unpacked")
    where = {"PYTHONPATH": str(tmp_path / "unpacked")}
    result = ran(sys.executable, "-m", "gossamer", "simulate", "heal", "--json", cwd=tmp_path, **where)
    assert result.returncode == 0, result.stderr
    listed = ran(sys.executable, "-m", "gossamer", "experiment", "list", "--json", cwd=tmp_path, **where)
    assert '"redelivery"' in listed.stdout, listed.stderr
    assert str(tmp_path / "unpacked") in listed.stdout


def test_a_clean_environment_is_small_and_has_live_groups(installed: Path, tmp_path: Path) -> None:
    packages = {path.name for path in (installed.parent / "lib").glob("python*/site-packages/*")}
    assert packages.isdisjoint(HEAVY)
    live = ran(installed / "python", "-c", LIVE, cwd=tmp_path)
    assert (live.stdout, live.stderr) == ("101.5\n", "")


LOGGED = """
import asyncio, gossamer
from gossamer.live.logger_group import logger

async def main():
    async with logger("wheel", "log") as log:
        log.publish("quotes.nyse.ibm", b"101.5")
        await log.flush(30)

asyncio.run(main())
"""


def test_a_log_is_made_and_read_in_a_clean_environment(installed: Path, tmp_path: Path) -> None:
    made = ran(installed / "python", "-c", LOGGED, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    for words, says in (
        (("tail",), "quotes.nyse.ibm 101.5\n"),
        (("info", "--verify"), "0 of 1 packets are damaged"),
        (("consumers",), "no durable readers"),
        (("compact",), "bytes before"),
    ):
        command, *options = words
        shown = ran(installed / "gossamer", "log", command, "log", *options, cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        assert says in shown.stdout


def test_the_demo_runs_in_a_clean_environment(installed: Path, tmp_path: Path) -> None:
    shown = ran(installed / "gossamer", "demo", "--members", "2", "--events", "500", cwd=tmp_path)
    assert "every one of 2 subscribers got all 500 events, once, in order" in shown.stdout, shown.stderr


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("simulate thesis", "sim"),
        ("check trace.parquet", "sim"),
        ("plan --members 10 --loss 0.1", "sim"),
        ("experiment list", "spark"),
        ("pub group a --count 1 --trace mine.parquet", "sim"),
        ("pipeline archive log --out archive", "spark"),
    ],
)
def test_a_command_whose_extra_is_missing_says_in_one_line_what_to_install(
    line: str, extra: str, installed: Path, tmp_path: Path
) -> None:
    told = ran(installed / "gossamer", *line.split(), cwd=tmp_path)
    assert told.returncode == 2
    assert told.stderr.count("\n") == 1
    assert f"pip install 'gossamer[{extra}]'" in told.stderr
