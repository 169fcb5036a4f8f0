"""The unit for systemd in the docs, and the shell's completion: what people copy and never look at again."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.members import settings

ROOT = Path(__file__).resolve().parents[2]
UNIT = re.search(r"```ini\n(\[Unit\].*?)```", (ROOT / "docs" / "operations.md").read_text("utf-8"), re.DOTALL)[1]
"""As the docs have it."""


def value_of(name: str) -> str:
    return re.search(rf"^{name}=(.*)$", UNIT, re.MULTILINE)[1]


def test_systemd_accepts_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("THE UNIT WAS NOT VERIFIED: no systemd-analyze")
    program = shlex.split(value_of("ExecStart"))[0]
    here = UNIT.replace(program, sys.executable).replace("User=gossamer", "User=root")
    (tmp_path / "gossamer-quotes.service").write_text(here)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "gossamer-quotes.service")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "gossamer-quotes" in line]
    assert (done.returncode, ours) == (0, [])


def test_the_unit_starts_a_logger_that_stops_as_systemd_stops_it(tmp_path):
    """systemd itself is not here: the command and the environment of the unit are, with a key and a store of ours."""
    subprocess.run([sys.executable, "-m", "gossamer", "key", "new", "--out", tmp_path / "group.key"], check=True)
    moved = {"/var/lib/gossamer": str(tmp_path), "/etc/gossamer": str(tmp_path), "eth0": "lo"}
    line, environment = value_of("ExecStart"), value_of("Environment")
    for there, here in moved.items():
        line, environment = line.replace(there, here), environment.replace(there, here)
    given = dict(word.split("=", 1) for word in environment.split())
    logger = subprocess.Popen(
        [sys.executable, "-m", "gossamer", *shlex.split(line)[1:]],
        env={**os.environ, **given, "GOSSAMER_ADDRESS": settings().address},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert logger.stdout.readline().startswith("logging group quotes to ")
        logger.send_signal(signal.SIGTERM)
        assert logger.wait(int(value_of("TimeoutStopSec"))) == 0
    finally:
        logger.kill()
        logger.wait()


@pytest.mark.parametrize(("typed", "offered"), [("gossamer su", "sub"), ("gossamer log ta", "tail")])
def test_the_shell_completes_commands(typed, offered):
    words = {"_GOSSAMER_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['gossamer']; from gossamer.cli import main; main()"],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert offered in done.stdout.split(), done.stderr
