"""A service ends when it is told to: SIGTERM is no failure, an interrupt no traceback. Shells complete commands."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.live.members import hear_interrupts


@pytest.fixture
def started(tmp_path):
    """Start a command and wait until it is a member."""
    env = os.environ | {"GOSSAMER_ADDRESS": f"239.192.77.13:{random.randint(20_000, 60_000)}", "GOSSAMER_NAME": "it"}
    command = [sys.executable, "-m", "gossamer"]
    running = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        told = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # even if our own parent ignores it
        line = [*command, *arguments]
        running.append(subprocess.Popen(line, env=env, cwd=tmp_path, text=True, stderr=pipe, preexec_fn=told))
        look = [*command, "members", arguments[1], "--wait", "0.2"]
        while subprocess.run(look, env=env, capture_output=True, timeout=60).returncode:
            assert running[-1].poll() is None
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


COMMANDS = [("logger", "quotes", "--store", "log"), ("sub", "quotes")]


@pytest.mark.parametrize("command", COMMANDS, ids=["logger", "sub"])
def test_a_service_that_is_terminated_has_not_failed(started, command):
    process = started(*command)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "interrupted" not in said


@pytest.mark.parametrize("command", COMMANDS, ids=["logger", "sub"])
def test_an_interrupt_is_no_traceback(started, command):
    process = started(*command)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said


def test_an_interrupt_while_modules_are_imported_is_one_line():
    """At whatever moment: here each time that a module is imported, the first, the second, and so on."""
    script = (
        "import builtins, os, signal, sys\n"
        "from gossamer.cli import main\n"
        "imports, inside = int(sys.argv.pop()), builtins.__import__\n"
        "class Lock:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGINT)\n"  # as in a callback, where nothing can be raised
        "def imported(*given):\n"
        "    global imports\n"
        "    imports -= 1\n"
        "    if not imports: Lock()\n"
        "    return inside(*given)\n"
        "builtins.__import__ = imported\n"
        "sys.argv = ['gossamer', 'members', 'nobody', '--wait', '0.1']\n"
        "main()"
    )
    for imports in (1, 20, 300):
        command = [sys.executable, "-c", script, str(imports)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, preexec_fn=hear_interrupts
        )
        assert (done.returncode, done.stderr) == (130, "gossamer: interrupted\n")


def test_a_shell_completes_commands():
    env = os.environ | {"_GOSSAMER_COMPLETE": "complete_bash", "COMP_WORDS": "gossamer do", "COMP_CWORD": "1"}
    script = "from gossamer.cli import main; import sys; sys.argv = ['gossamer']; main()"
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["doctor"]


# Waits.


def on_a_terminal(*line: str, enough: str, environment: dict[str, str]) -> str:
    """What a command shows on a terminal until it has shown `enough`; then it is interrupted."""
    pid, terminal = pty.fork()
    if not pid:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execve(sys.executable, [sys.executable, "-m", "gossamer", *line], environment)
    shown = ""
    end = time.monotonic() + 60
    try:
        with contextlib.suppress(OSError):  # it has ended
            while enough not in shown and time.monotonic() < end:
                shown += os.read(terminal, 65_536).decode()
            os.write(terminal, b"\x03")
            while time.monotonic() < end:
                shown += os.read(terminal, 65_536).decode()
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    return shown


@pytest.fixture
def alone() -> dict[str, str]:
    return os.environ | {"GOSSAMER_ADDRESS": f"239.192.77.13:{random.randint(20_000, 60_000)}"}


@pytest.mark.parametrize(
    ("line", "enough"),
    [
        ("pub quotes a --wait 3", "waiting for 3 other members of group quotes"),
        ("members quotes --wait 30", "asking the members of group quotes"),
        ("sub quotes --start beginning", "asking for the past"),
        ("bench --seconds 20", "publishing"),
        ("demo --members 2 --events 1000000", "deliveries"),
        ("simulate churn --set duration=1000", "churn"),
    ],
)
def test_a_long_wait_is_explained_on_a_terminal_and_ends_at_an_interrupt_without_a_traceback(line, enough, alone):
    shown = on_a_terminal(*line.split(), enough=enough, environment=alone)
    assert enough in shown
    assert "Traceback" not in shown


def limit_files() -> None:
    """As a disk of 40 MB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (40 << 20, 40 << 20))


def test_pub_says_that_a_disk_is_full_and_gives_up_after_its_timeout(alone, tmp_path):
    command = [sys.executable, "-m", "gossamer"]
    logger = subprocess.Popen(
        [*command, "logger", "quotes", "--store", str(tmp_path / "log")],
        env=alone | {"GOSSAMER_NAME": "keeper"},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit_files,
    )
    try:
        assert "logging group quotes" in logger.stderr.readline()
        line = [*command, "pub", "quotes", "big", "--stdin", "--timeout", "4"]
        (tmp_path / "lines").write_bytes((b"x" * 500_000 + b"\n") * 100)
        with open(tmp_path / "lines") as lines:
            pub = subprocess.Popen(line, stdin=lines, env=alone, stderr=subprocess.PIPE, text=True)
        assert "waiting for logger keeper, which accepts nothing more" in pub.stderr.readline()
        begin = time.monotonic()  # two of the four seconds are over
        said = pub.communicate(timeout=60)[1]
        assert "left with" in said
        assert pub.returncode == 1
        assert time.monotonic() - begin < 5, "it waited once more while it left"
    finally:
        logger.kill()
        logger.communicate()


def test_the_unit_for_systemd_in_the_docs_is_valid(tmp_path):
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("the unit in docs/operations.md was not verified: no systemd-analyze")
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
    unit = re.search(r"```ini\n(\[Unit\].*?)```", page, re.DOTALL)[1]
    file = tmp_path / "gossamer-quotes.service"
    file.write_text(unit.replace("/opt/gossamer/bin/gossamer", sys.executable))
    done = subprocess.run([verify, "verify", "--man=no", file], capture_output=True, text=True, timeout=60, check=False)
    said = [line for line in done.stderr.splitlines() if file.name in line]
    assert done.returncode == 0, done.stderr
    assert said == []
