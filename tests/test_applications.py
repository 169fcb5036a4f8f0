"""Every example of docs/applications.md runs as it is written there, and prints what it should."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "applications.md").read_text("utf-8")
EXAMPLES = {
    code.split("\n", 1)[0].removeprefix("# "): code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
}
PRINTS = {
    "prices.py": r"b'101.5' {'currency': 'USD'} from \S+\none of many: b'101.5'\ngroup 'shop': nobody subscribes to "
    r"'weather.oslo', so nobody can reply\n",
    "durable.py": "".join(f"{who}: b'{n}'\n" for n, who in enumerate(["first"] * 3 + ["second"] * 3)),
    "workers.py": re.escape(f"{list(range(20))}\n"),
    "durable_queue.py": "".join(f"done: {n}\n" for n in range(6)),
    "latest.py": r"\[b'8', b'9'\]\n",
    "values.py": 'tea customer-7 b\'{"item":"tea","count":2}\'\n',
}


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_runs_and_prints_what_it_should(name, tmp_path):
    for each, code in EXAMPLES.items():  # all in one folder, as a reader saves them: none may stand in another's way
        (tmp_path / each).write_text(code, "utf-8")
    world = {**os.environ, "GOSSAMER_ADDRESS": f"239.192.77.13:{random.randint(20_000, 60_000)}"}

    done = subprocess.run([sys.executable, name], cwd=tmp_path, env=world, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert re.fullmatch(PRINTS[name], done.stdout), done.stdout


def test_no_example_is_left_out():
    assert EXAMPLES.keys() == PRINTS.keys()
