"""Every example of README.md and of the pages of docs runs as it is written there."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import gossamer

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
NAMED = {match[1]: code for code in PYTHON if (match := re.match(r"# (\w+\.py)\n", code))}
COMMANDS = [line.split("  #")[0].strip() for line in re.findall(r"^    (gossamer .*)$", README, re.MULTILINE)]
PATIENCE_S = 60


@pytest.fixture
def world(tmp_path: Path) -> dict[str, str]:
    """An environment in which the examples meet nobody else, and their folder."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GOSSAMER_ADDRESS": f"239.192.77.12:{random.randint(20_000, 60_000)}",
        "GOSSAMER_TUNING_RETRY_PERIOD": "0.05",  # so that it is soon clear that there is no logger
        "PYTHONUNBUFFERED": "1",
        "PWD": str(tmp_path),
    }


def started(world: dict[str, str], *command: str) -> subprocess.Popen[str]:
    told = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # even if our own parent ignores it
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=world["PWD"], env=world, text=True, stdout=pipe, stderr=pipe, preexec_fn=told)


def ended(process: subprocess.Popen[str]) -> str:
    """What it printed, when it has been told to stop; it does so without a traceback."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in err or err.rstrip().endswith("KeyboardInterrupt"), err
    return out


def test_what_one_terminal_publishes_the_other_prints(world):
    subscriber = started(world, sys.executable, "-c", NAMED["subscriber.py"])
    try:
        with gossamer.join_sync("quotes", gossamer.Settings(address=world["GOSSAMER_ADDRESS"])) as watcher:
            while len(watcher.members()) < 2:
                pass
        subprocess.run([sys.executable, "-c", NAMED["publisher.py"]], env=world, check=True, timeout=PATIENCE_S)
        assert subscriber.stdout.readline() == "quotes.nyse.ibm 101.5 {'price': 101.5}\n"
        assert "`quotes.nyse.ibm 101.5 {'price': 101.5}`" in README
    finally:
        ended(subscriber)


@pytest.mark.parametrize("code", [code for code in PYTHON if code not in NAMED.values()], ids=range(len(PYTHON) - 2))
def test_a_python_example_runs_to_its_end(world, code):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=world["PWD"], env=world, capture_output=True, text=True, timeout=PATIENCE_S
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_example_without_a_logger_says_so_and_goes_on(world):
    code = next(code for code in PYTHON if "isinstance(event, gossamer.Lost)" in code)

    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=world["PWD"], env=world, capture_output=True, text=True, timeout=PATIENCE_S
    ).stdout

    assert shown.startswith("lost -1 -1 -1 no logger answered")
    assert "quotes.nyse.ibm b'101.5' {'price': 101.5}" in shown


def test_the_commands_of_a_live_group_run_one_after_the_other(world):
    live = [command for command in COMMANDS if " quotes" in command]
    assert len(live) >= 5, COMMANDS
    running = []
    try:
        for command in live:
            process = started(world, *shlex.split(command.removesuffix("&")))
            if command.endswith("&") or "--start beginning" in command:
                running.append(process)
                if "gossamer logger" in command:  # one who types is slower than a logger starts
                    assert "logging group quotes" in process.stderr.readline()
            else:
                out, err = process.communicate(timeout=PATIENCE_S)
                assert process.returncode == 0, f"{command}: {out}{err}"
        read = running[-1].stdout.readline()
        assert '"subject": "quotes.nyse.ibm"' in read
    finally:
        for process in reversed(running):
            ended(process)
