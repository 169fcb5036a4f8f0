"""Every program in `examples/` runs as it is written there."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.members import hear_interrupts

EXAMPLES = Path(__file__).parents[1] / "examples"
PATIENCE_S = 60


@pytest.fixture
def world() -> dict[str, str]:
    """An environment in which the examples meet nobody else."""
    return os.environ | {
        "GOSSAMER_ADDRESS": f"239.192.77.14:{random.randint(20_000, 60_000)}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONUNBUFFERED": "1",
    }


def ran(world: dict[str, str], *line: str) -> str:
    done = subprocess.run(
        [sys.executable, *line], env=world, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_every_example_is_described_and_tested():
    tested = Path(__file__).read_text("utf-8")
    described = (EXAMPLES / "README.md").read_text("utf-8")
    for path in EXAMPLES.iterdir():
        if path.suffix in (".py", ".ipynb"):
            assert f"({path.name})" in described, path.name
            assert path.name in tested, path.name


def test_the_ticker_prints_what_each_listener_wants(world):
    shown = ran(world, str(EXAMPLES / "ticker.py")).splitlines()
    prices = [float(line.split()[-1]) for line in shown if line.startswith("expensive")]
    assert prices
    assert min(prices) > 120
    assert all("quotes.nyse." in line for line in shown if line.startswith("nyse"))


def test_state_is_the_same_at_every_member_and_at_one_that_joins_later(world, tmp_path):
    logger = subprocess.Popen(
        [sys.executable, "-m", "gossamer", "logger", "shared-state", "--store", str(tmp_path / "log")],
        env=world,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "logging group" in logger.stderr.readline()
        program = str(EXAMPLES / "replicated_state.py")
        assert json.loads(ran(world, program, "kitchen", "21.5")) == {"kitchen": 21.5}
        assert json.loads(ran(world, program, "office", "19")) == {"kitchen": 21.5, "office": 19.0}
        assert json.loads(ran(world, program, "kitchen", "22")) == {"kitchen": 22.0, "office": 19.0}
    finally:
        logger.terminate()
        logger.communicate(timeout=PATIENCE_S)


def test_each_job_is_done_by_a_worker(world, tmp_path):
    line = [sys.executable, str(EXAMPLES / "worker_queue.py"), "work"]
    files = [tmp_path / name for name in ("one", "two")]
    workers = []
    try:
        for file in files:
            with file.open("w") as out:
                workers.append(subprocess.Popen(line, env=world, stdout=out, preexec_fn=hear_interrupts))
        _until(lambda: all(file.read_text().startswith("ready") for file in files))
        _until(lambda: all(len(m["members"]) == 2 for m in json.loads(ran(world, *MEMBERS_OF_JOBS))))
        ran(world, str(EXAMPLES / "worker_queue.py"), "send", "20")
        wanted = {f"done {n}" for n in range(20)}
        _until(lambda: {line for file in files for line in file.read_text().splitlines()} >= wanted)
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGINT)
            worker.wait(PATIENCE_S)
    assert all(len(file.read_text().splitlines()) > 1 for file in files), "both have worked"


MEMBERS_OF_JOBS = ("-m", "gossamer", "members", "jobs", "--json")


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_billing_goes_on_where_it_was_and_bills_each_order_once(world, tmp_path):
    logger = subprocess.Popen(
        [sys.executable, "-m", "gossamer", "logger", "shop", "--store", str(tmp_path / "log")],
        env=world,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "logging group" in logger.stderr.readline()
        ran(world, "-m", "gossamer", "pub", "shop", "order.placed", "--count", "10")
        program = [str(EXAMPLES / "durable_billing.py"), str(tmp_path / "bills")]
        billed = ran(world, *program, "4") + ran(world, *program, "6")
        assert billed.splitlines() == [f"billed order {n}" for n in range(10)]
    finally:
        logger.terminate()
        logger.communicate(timeout=PATIENCE_S)


def test_the_notebook_runs_from_top_to_bottom(world, monkeypatch, capsys):
    monkeypatch.setenv("GOSSAMER_ADDRESS", world["GOSSAMER_ADDRESS"])
    cells = json.loads((EXAMPLES / "explore.ipynb").read_text("utf-8"))["cells"]
    seen: dict[str, object] = {}

    async def run() -> None:
        for cell in cells:
            if cell["cell_type"] == "code":
                code = compile("".join(cell["source"]), "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                result = eval(code, seen)
                if inspect.isawaitable(result):
                    await result

    asyncio.run(run())
    assert capsys.readouterr().out.startswith("99 events, the first is b'101' from ")
    assert seen["stats"]["published"] == 200


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_the_web_service_streams_what_it_is_sent(world):
    pytest.importorskip("fastapi", reason="examples/web.py was not run: pip install 'gossamer[examples]'")
    port = free_port()
    here = f"http://127.0.0.1:{port}"
    line = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "web:app", "--port", str(port)]
    service = subprocess.Popen(line, env=world, stderr=subprocess.PIPE, text=True)
    try:
        while "Uvicorn running" not in service.stderr.readline():
            assert service.poll() is None
        with urllib.request.urlopen(f"{here}/events/quotes.nyse.*", timeout=PATIENCE_S) as stream:
            request = urllib.request.Request(f"{here}/publish/quotes.nyse.ibm", data=b"101.5", method="POST")
            packet = json.load(urllib.request.urlopen(request, timeout=PATIENCE_S))
            assert packet["seqno"] == 0
            assert [stream.readline() for _ in range(2)] == [b"event: quotes.nyse.ibm\n", b"data: 101.5\n"]
        wrong = urllib.request.Request(f"{here}/publish/a..b", data=b"", method="POST")
        with pytest.raises(urllib.error.HTTPError, match="422"):
            urllib.request.urlopen(wrong, timeout=PATIENCE_S)
        assert json.load(urllib.request.urlopen(f"{here}/stats", timeout=PATIENCE_S))["published"] == 1
    finally:
        service.terminate()
        service.communicate(timeout=PATIENCE_S)


def test_the_bank_has_the_same_balances_though_a_main_computer_was_killed_and_came_back(world):
    """Reference: 002 §1"""
    shown = ran(world, str(EXAMPLES / "bank.py")).splitlines()
    balances = [json.loads(line.partition(": ")[2]) for line in shown if "balances" in line]
    assert len(balances) == 2
    assert balances[0] == balances[1]
    assert len(balances[0]["balances"]) == 5
