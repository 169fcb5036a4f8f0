"""The tutorial, word for word: its programs and commands on two hosts with a key, a logger and Spark."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.netns import ROOT, Network, Node, Unavailable

PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
PROGRAMS = {m[1]: m[0] for m in re.finditer(r"# (\w+\.py)\n.*?(?=```)", PAGE, re.DOTALL)}
COMMANDS = [line.split(" #")[0].strip() for line in re.findall(r"^    (gossamer .*)$", PAGE, re.MULTILINE)]
PATIENCE_S = 120


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        with Network(2) as network:
            yield network
    except Unavailable as reason:
        pytest.skip(f"THE TUTORIAL WAS NOT TRIED ON TWO HOSTS: {reason}")


@pytest.fixture
def world(tmp_path: Path) -> dict[str, str]:
    """An environment as a reader has it: the programs in a folder, the command in PATH."""
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{plain['PATH']}"
    return plain | {"PWD": str(tmp_path), "PATH": path, "PYTHONUNBUFFERED": "1"}


def words(command: str) -> list[str]:
    """The command as a process; `gossamer` is the one that is tested."""
    line = shlex.split(command)
    start = {"gossamer": [sys.executable, "-m", "gossamer"], "python": [sys.executable]}
    return [*start[line[0]], *line[1:]]


def started(node: Node, world: dict[str, str], command: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    line = node.command(*words(command))
    return subprocess.Popen(line, cwd=world["PWD"], env=world, text=True, stdout=pipe, stderr=pipe)


def ran(node: Node, world: dict[str, str], command: str) -> str:
    process = started(node, world, command)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, f"{command}: {out}{err}"
    return out


def command(beginning: str) -> str:
    return next(line for line in COMMANDS if line.startswith(beginning))


def test_the_tutorial_works_on_two_hosts_with_a_logger_and_spark(network, world):
    here, there = network.nodes
    assert "written to group.key" in ran(here, world, command("gossamer key new"))
    world["GOSSAMER_KEY"] = re.search(r"export GOSSAMER_KEY=(\S+)", PAGE)[1]
    running = []
    try:
        running.append(logger := started(here, world, command("gossamer logger")))
        assert "logging group quotes" in logger.stderr.readline()
        running.append(listener := started(here, world, "python listen.py"))
        while ran(here, world, "gossamer members quotes --json").count('"name"') < 2:
            pass
        ran(there, world, "python ticker.py")
        heard = [listener.stdout.readline() for _ in range(50)]
        assert all(line.startswith("quotes.nyse.") for line in heard)
        late = ran(here, world, command("gossamer sub")).splitlines()
        assert len(late) == 5
        assert all(float(line.split("price=")[1]) > 100 for line in late)
        assert "group quotes" in ran(here, world, command("gossamer stats"))
        assert "50" in ran(here, world, command("gossamer log info"))
        shown = ran(here, world, "python averages.py")
        assert "avg(price)" in shown
        assert shown.count("quotes.nyse.") == len({line.split()[0] for line in heard})
    finally:
        for process in reversed(running):
            process.terminate()
            process.communicate(timeout=PATIENCE_S)
