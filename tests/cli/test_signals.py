"""A service ends when it is told to: SIGTERM is no failure, an interrupt no traceback. Shells complete commands."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest


@pytest.fixture
def started(tmp_path):
    """Start a command and wait until it is a member."""
    env = os.environ | {"GOSSAMER_ADDRESS": f"239.192.77.13:{random.randint(20_000, 60_000)}", "GOSSAMER_NAME": "it"}
    command = [sys.executable, "-m", "gossamer"]
    running = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        running.append(subprocess.Popen([*command, *arguments], env=env, cwd=tmp_path, text=True, stderr=pipe))
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


def test_a_shell_completes_commands():
    env = os.environ | {"_GOSSAMER_COMPLETE": "complete_bash", "COMP_WORDS": "gossamer do", "COMP_CWORD": "1"}
    script = "from gossamer.cli import main; import sys; sys.argv = ['gossamer']; main()"
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["doctor"]
