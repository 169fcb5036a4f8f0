"""A group of many processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live.members import settings

MEMBERS = 120


@pytest.mark.soak
def test_many_idle_processes_suspect_nobody_but_the_one_that_is_killed():
    program = [sys.executable, str(Path(__file__).with_name("crowd.py")), settings().address, str(MEMBERS)]
    crowd = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 300
        while {known for known, _ in _say(crowd, "look")} != {MEMBERS}:
            assert time.monotonic() < until, "they never all met"
            time.sleep(2)
        time.sleep(30)
        assert _say(crowd, "look") == [[MEMBERS, 0]] * MEMBERS
        after = _say(crowd, "kill")
        assert {known for known, _ in after} == {MEMBERS - 1}
        assert 1 <= sum(suspicions for _, suspicions in after) <= 3
    finally:
        crowd.communicate(timeout=30)


def _say(crowd: subprocess.Popen[str], word: str) -> Any:
    assert crowd.stdin is not None
    assert crowd.stdout is not None
    crowd.stdin.write(word + "\n")
    crowd.stdin.flush()
    return json.loads(crowd.stdout.readline())
