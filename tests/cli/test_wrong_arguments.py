"""What cannot be meant is refused at once, with exit code 2 and one line that says what to change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 30
LINES = [
    ("members ''", "the name of a group must not be empty"),
    ("graph ''", "the name of a group must not be empty"),
    ("doctor --group ''", "the name of a group must not be empty"),
    ("graph quotes --svg nowhere/graph.svg", "there is no directory nowhere"),
    ("sub quotes --stats .", "--stats .: is a directory"),
    ("bench --impair nonsense", "nonsense"),
    ("log tail . --key-file binary", "--key-file binary: holds no keys"),
    ("log export . --out events.jsonl --key-file binary", "--key-file binary: holds no keys"),
    ("key id - < binary", "standard input: "),
]


@pytest.mark.parametrize(("line", "says"), LINES, ids=[line for line, _ in LINES])
def test_a_wrong_argument_is_one_line_and_exit_code_2(line: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    world = os.environ | {"GOSSAMER_ADDRESS": "239.192.77.13:7713", "PYTHONIOENCODING": "utf-8:strict"}
    command = f"exec {sys.executable} -m gossamer {line}"

    told = subprocess.run(
        command, shell=True, cwd=tmp_path, env=world, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )

    assert (told.returncode, told.stdout) == (2, ""), told.stderr
    assert told.stderr.count("\n") == 1, told.stderr
    assert says in told.stderr
