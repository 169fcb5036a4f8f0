"""kill -9 in the middle of an archive, of an executor and of the driver: the table equals the log, event for event."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from gossamer.store import open_store
from tests.pipeline.log_makers import expected_values, in_fragments, simple

CLUSTER = "local-cluster[2,1,1024]"
A, B = 11, 12
EVENTS = 10
PATIENCE_S = 240.0
BATCH = "4000"
"""In rows: the table of the short test takes three changes, which is enough to be killed twice."""


def fill(store: Path, packets: int) -> Counter[bytes]:
    """A log of two senders; what the archive must hold."""
    big = b"x" * 30_000
    with open_store(store) as log:
        log.append(simple(A, range(packets), events=EVENTS))
        log.append(simple(B, range(packets), events=EVENTS))
        log.append(in_fragments(B, packets, big))
    return Counter(value for sender in (A, B) for value in expected_values(sender, range(packets), EVENTS)) + Counter(
        [big]
    )


def contents(path: Path) -> Counter[bytes]:
    return Counter(ds.dataset(path, partitioning="hive").to_table(["value"]).column("value").to_pylist())


@contextmanager
def archiving(store: Path, out: Path, master: str) -> Iterator[subprocess.Popen[str]]:
    """`gossamer pipeline archive` in a process group of its own, which does not survive this block."""
    command = [sys.executable, "-m", "gossamer", "pipeline", "archive", str(store), "--out", str(out)]
    process = subprocess.Popen(
        [*command, "--batch", BATCH, "--master", master],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)


def changes(out: Path) -> int:
    return len(list((out / "_log").glob("*.json")))


def wait_for_changes(process: subprocess.Popen[str], out: Path, count: int) -> bool:
    """Whether the table came so far before the process ended."""
    deadline = time.monotonic() + PATIENCE_S
    while changes(out) < count and process.poll() is None:
        assert time.monotonic() < deadline, "the archive makes no progress"
        time.sleep(0.02)
    return process.poll() is None


def executors(process: subprocess.Popen[str]) -> list[int]:
    """The executor processes of this driver: they are in its group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                if b"CoarseGrainedExecutorBackend" in command and os.getpgid(int(entry.name)) == process.pid:
                    found.append(int(entry.name))
            except OSError:  # it ended while we looked
                continue
    return found


def finish(store: Path, out: Path, master: str = "local[2]") -> None:
    with archiving(store, out, master) as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err[-2000:]


def kill_an_executor(process: subprocess.Popen[str], out: Path, at: int) -> int:
    """Once the table has so many changes; how many executors it cost, 0 if the archive was done before."""
    victims = executors(process)[:1] if wait_for_changes(process, out, at) else []
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    return len(victims)


def kill_the_driver(process: subprocess.Popen[str], out: Path, at: int, delay_s: float = 0.0) -> int:
    """And all that belongs to it, once the table has so many changes; 0 if the archive was done before."""
    wait_for_changes(process, out, at)
    time.sleep(delay_s)
    if process.poll() is not None:
        return 0
    os.killpg(process.pid, signal.SIGKILL)
    return 1


def test_an_executor_and_then_the_driver_are_killed_and_the_archive_equals_the_log(tmp_path: Path):
    store, out = tmp_path / "store", tmp_path / "table"
    expected = fill(store, 600)

    with archiving(store, out, CLUSTER) as process:
        assert kill_an_executor(process, out, at=1)
        assert kill_the_driver(process, out, at=2)
    finish(store, out)

    assert contents(out) == expected


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_random_moments_the_archive_equals_the_log(tmp_path: Path, seed: int):
    store, out, rng = tmp_path / "store", tmp_path / "table", random.Random(seed)
    expected = fill(store, 2000)
    kills = 0

    for master in ("local[2]", CLUSTER, "local[2]"):
        with archiving(store, out, master) as process:
            if master == CLUSTER:
                kills += kill_an_executor(process, out, changes(out) + rng.randint(0, 2))
            kills += kill_the_driver(process, out, changes(out) + rng.randint(0, 3), rng.random())
    finish(store, out, CLUSTER)

    assert contents(out) == expected
    assert kills, "everything was done before the first kill: make the log larger"
