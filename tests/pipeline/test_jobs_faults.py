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
        [*command, "--batch", "400", "--master", master],
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


def kill_an_executor(store: Path, out: Path, at: int) -> bool:
    """Archive on a cluster, kill one of its executors on the way, see it through; whether the kill came in time."""
    with archiving(store, out, CLUSTER) as process:
        in_time = wait_for_changes(process, out, at)
        victims = executors(process) if in_time else []
        for victim in victims[:1]:
            os.kill(victim, signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err[-2000:]
    return bool(victims)


def kill_the_driver(store: Path, out: Path, at: int, delay_s: float = 0.0) -> bool:
    """Archive, and kill it all at some moment; whether it was still at work."""
    with archiving(store, out, "local[2]") as process:
        in_time = wait_for_changes(process, out, at)
        time.sleep(delay_s)
        in_time = in_time and process.poll() is None
        if in_time:
            os.killpg(process.pid, signal.SIGKILL)
    return in_time


def test_an_executor_is_killed_and_the_archive_equals_the_log(tmp_path: Path):
    expected = fill(tmp_path / "store", 800)

    assert kill_an_executor(tmp_path / "store", tmp_path / "table", at=1)

    assert contents(tmp_path / "table") == expected


def test_the_driver_is_killed_and_the_archive_equals_the_log(tmp_path: Path):
    expected = fill(tmp_path / "store", 800)

    assert kill_the_driver(tmp_path / "store", tmp_path / "table", at=1)

    finish(tmp_path / "store", tmp_path / "table")
    assert contents(tmp_path / "table") == expected


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_random_moments_the_archive_equals_the_log(tmp_path: Path, seed: int):
    rng = random.Random(seed)
    expected = fill(tmp_path / "store", 2000)
    kills = 0
    for _ in range(3):
        at = changes(tmp_path / "table") + rng.randint(0, 3)
        kills += kill_the_driver(tmp_path / "store", tmp_path / "table", at, rng.random())
    kills += kill_an_executor(tmp_path / "store", tmp_path / "table", changes(tmp_path / "table") + rng.randint(1, 2))

    finish(tmp_path / "store", tmp_path / "table")

    assert contents(tmp_path / "table") == expected
    assert kills, "everything was done before the first kill: make the log larger"
