"""The commands of docs/operations.md run as they are written there, in the order of the page."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import PATIENCE_S, ended, started, world

__all__ = ["world"]  # a fixture

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
LINES = [line.split("  #")[0].strip() for line in re.findall(r"^    (gossamer .*)$", PAGE, re.MULTILINE)]
CONSUMER = next(code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "open_store" in code)
SAYS = {
    "gossamer logger": "logging group quotes",
    "gossamer bench --network serve": "serving at",
}
"""What a service says when it is there; `sub` says nothing until something comes."""


class Shell:
    """One who follows the page in a folder of its own: services in terminals of their own, everything else in one."""

    def __init__(self, world: dict[str, str]) -> None:
        self.world = world
        self.running: list[subprocess.Popen[str]] = []
        self.done: list[str] = []

    def start(self, line: str) -> None:
        process = started(self.world, *shlex.split(line))
        self.running.append(process)
        said = next((says for begins, says in SAYS.items() if line.startswith(begins)), "")
        if said:
            assert said in process.stderr.readline(), line

    def run(self, line: str, expected: int = 0) -> str:
        done = subprocess.run(
            line, shell=True, cwd=self.world["PWD"], env=self.world, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == expected, f"{line}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    def stop(self) -> None:
        """End all services, as systemd would."""
        for process in reversed(self.running):
            process.terminate()
            err = process.communicate(timeout=PATIENCE_S)[1]
            assert process.returncode == 0, err
        self.running.clear()


@pytest.fixture
def shell(world):
    one = Shell(world)
    yield one
    for process in one.running:
        ended(process)


def here(line: str, folder: str) -> str:
    return line.replace("/var/lib/gossamer", folder).replace("eth0", "lo")


def of(*words: str) -> list[str]:
    """The lines of the page that have all these words, without those that were done."""
    found = [line for line in LINES if all(word in line for word in words)]
    assert found, words
    return found


def test_the_commands_of_the_page_run_in_the_order_of_the_page(shell, tmp_path):
    folder = str(tmp_path)
    logger, retire = of("gossamer logger", "--store")[0], of("--retire")[0]
    shell.start(here(logger, folder))
    shell.run("gossamer pub quotes quotes.nyse.ibm 101.5 -a price=101.5")
    for line in of("gossamer stats"):
        if "jq" not in line or shutil.which("jq"):
            assert "quotes" in shell.run(line) or '"refusing": ""' in shell.run(line)
    for line in of("gossamer log info"):
        assert shell.run(here(line, folder))
    code = here(CONSUMER, folder)
    subprocess.run([sys.executable, "-c", code], env=shell.world, check=True, timeout=PATIENCE_S)
    assert "billing" in shell.run(here("gossamer log info /var/lib/gossamer/quotes", folder))
    assert "has no coordinators" in shell.run(of("gossamer partitions")[0])
    shell.run(of("gossamer who-buffers")[0], expected=1)  # there is no member of this name
    shell.stop()
    shell.run(here(of("gossamer log compact")[0], folder))
    shell.run(here(retire, folder))


def test_the_traces_of_all_members_are_checked_together(shell, tmp_path):
    pytest.importorskip("pyarrow")
    traced = of("--trace")
    for line in traced[:-1]:
        shell.start(here(line, str(tmp_path)))
    shell.run("gossamer members quotes")
    shell.run(traced[-1])
    shell.stop()
    assert "fails" not in shell.run(of("gossamer check")[0])


def test_a_path_is_measured_between_two_terminals(shell):
    shell.run("gossamer key new --out group.key")
    serve, measure = of("bench --network")
    shell.start(here(serve, ""))
    assert "events lost" in shell.run(here(measure, ""))
    shell.stop()


def test_every_command_of_the_page_was_run():
    tried = ("logger", "log", "stats", "partitions", "who-buffers", "bench", "sub", "pub", "check")
    assert [line for line in LINES if line.split()[1] not in tried] == []
