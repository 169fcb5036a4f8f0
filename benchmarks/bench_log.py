"""Durable events per second: 1 KB each, counted when the server has said that they are on disk.

Side by side in one run, in alternating rounds, of which the median counts: NATS JetStream (`sync_interval: always`),
Redis Streams (`appendfsync always`), a publisher and a logger of Gossamer, each started here as real processes on
loopback with a store of their own, and the log store by itself. The peers are used as a careful user would use them:
JetStream with a window of asynchronous publishes, Redis with pipelines of 100. A contestant whose server or client is
not installed is skipped, and the table says so.

What the numbers do not show: several publishers, subscribers that read at the same time, a network, another disk. A
nats-server older than 2.10 (Debian 12 has 2.9) cannot sync every write: it acknowledges what is not on disk yet, and
its row says NOT DURABLE. The store by itself has no network and no publisher in front of it: it shows what a logger
could do at best, not what it does.

    python benchmarks/bench_log.py [--quick]

Needs, for the peers: apt install nats-server redis-server; pip install nats-py redis
"""

import asyncio
import importlib.util
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import perf_counter
from typing import NamedTuple

import gossamer
from gossamer.core.messages import Data
from gossamer.core.packets import Packet
from gossamer.store import LogEntry, open_store
from gossamer.wire import Header, encode
from gossamer.wire.events import Packer

QUICK = "--quick" in sys.argv
SECONDS = 1.0 if QUICK else 4.0
ROUNDS = 2 if QUICK else 3
PAYLOAD = Random(1).randbytes(1_024)
SUBJECT = "quotes.nyse.ibm"
PIPELINE = 100
"""Events sent to Redis at a time."""
WINDOW = 1_000
"""JetStream publishes that may be unanswered."""
PACKET_BYTES = 60_000
"""Size of a packet on loopback, which a publisher fills under load."""
GROUP_COMMIT = 20
"""Packets appended to the store at a time."""


class Contestant(NamedTuple):
    """One row of the table. `run` gets a folder of its own; returns how many events became durable, and the seconds."""

    name: str
    run: Callable[[Path], tuple[int, float]]
    why_not: str = ""
    """Why it cannot take part; empty if it can."""
    ours: bool = False


# JetStream


def jetstream() -> Contestant:
    """NATS, if it is installed; its name says whether it can sync."""
    missing = _missing("nats-server", "nats", "apt install nats-server; pip install nats-py")
    if missing:
        return Contestant("NATS JetStream", run_jetstream, missing)
    synced = "synced" if _nats_can_sync() else "NOT DURABLE: too old to sync"
    return Contestant(f"NATS JetStream ({synced})", run_jetstream)


def run_jetstream(folder: Path) -> tuple[int, float]:
    """One round."""
    port = _free_port()
    config = folder / "nats.conf"
    config.write_text(_nats_config(folder, port, sync=_nats_can_sync()))
    with _server(["nats-server", "-c", str(config)], port):
        return asyncio.run(_publish_to_jetstream(port))


async def _publish_to_jetstream(port: int) -> tuple[int, float]:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{port}")
    stream = client.jetstream(publish_async_max_pending=WINDOW)
    await stream.add_stream(name="quotes", subjects=["quotes.>"])
    started, count = perf_counter(), 0
    while perf_counter() - started < SECONDS:
        answers = [await stream.publish_async(SUBJECT, PAYLOAD, wait_stall=60) for _ in range(PIPELINE)]
        count += len(answers)
    await stream.publish_async_completed()
    took = perf_counter() - started
    assert (await stream.stream_info("quotes")).state.messages == count
    await client.close()
    return count, took


def _nats_config(folder: Path, port: int, *, sync: bool) -> str:
    always = ", sync_interval: always" if sync else ""
    return f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}"{always} }}\n'


def _nats_can_sync() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "nats.conf")
        config.write_text(_nats_config(Path(folder), 4222, sync=True))
        return not subprocess.run(["nats-server", "-t", "-c", str(config)], capture_output=True, check=False).returncode


# Redis


def redis_streams() -> Contestant:
    """Redis, if it is installed."""
    missing = _missing("redis-server", "redis", "apt install redis-server; pip install redis")
    return Contestant("Redis Streams (appendfsync always)", run_redis, missing)


def run_redis(folder: Path) -> tuple[int, float]:
    """One round."""
    import redis

    port = _free_port()
    options = {
        "port": port,
        "bind": "127.0.0.1",
        "dir": folder,
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
    }
    with _server(
        ["redis-server", *(text for name, value in options.items() for text in (f"--{name}", f"{value}"))], port
    ):
        client = redis.Redis(port=port)
        started, count = perf_counter(), 0
        while perf_counter() - started < SECONDS:
            pipeline = client.pipeline(transaction=False)
            for _ in range(PIPELINE):
                pipeline.xadd(SUBJECT, {"payload": PAYLOAD})
            count += len(pipeline.execute())
        took = perf_counter() - started
        assert client.xlen(SUBJECT) == count
        client.close()
        return count, took


# Ours


def run_store(folder: Path) -> tuple[int, float]:
    """The store by itself: events are packed, encoded and appended, with one sync per group of packets."""
    packer, header, seqno, count = Packer(PACKET_BYTES), Header(1, 1), 0, 0
    with open_store(folder / "store") as store:
        started = perf_counter()
        while perf_counter() - started < SECONDS:
            batch = []
            for _ in range(GROUP_COMMIT):
                while packer.add(SUBJECT, PAYLOAD):
                    count += 1
                now = time.time_ns()
                packet = Packet(1, seqno, packer.body(now))
                batch.append(LogEntry(1, seqno, now, encode(header, Data(packet))))
                seqno += 1
            store.append(batch)
        return count, perf_counter() - started


def run_group(folder: Path) -> tuple[int, float]:
    """A publisher and a logger in two processes, through the public API, until all events are acknowledged."""
    settings = gossamer.Settings(address=f"239.192.77.7:{_free_port()}")
    command = [sys.executable, "-m", "gossamer", "logger", "bench", "--store", str(folder / "store")]
    logger = subprocess.Popen([*command, "--address", settings.address], stderr=subprocess.PIPE)
    try:
        assert logger.stderr is not None
        logger.stderr.readline()  # it prints a line when it has joined
        return asyncio.run(_publish_to_group(settings))
    finally:
        logger.terminate()
        logger.wait(30)


async def _publish_to_group(settings: gossamer.Settings) -> tuple[int, float]:
    async with gossamer.join("bench", settings) as group:
        assert group.loggers()
        started, count, batch = perf_counter(), 0, [PAYLOAD] * PIPELINE
        while perf_counter() - started < SECONDS:
            await group.publish_many(SUBJECT, batch)
            count += len(batch)
        await group.flush()
        took = perf_counter() - started
        assert group.stats()["unlogged"] == 0
        return count, took


CONTESTANTS: list[Callable[[], Contestant]] = [
    jetstream,
    redis_streams,
    lambda: Contestant("Gossamer: publisher and logger", run_group, ours=True),
    lambda: Contestant("the log store by itself", run_store, ours=True),
]
"""To add one, add a line: a name and a function from a folder to (events, seconds)."""


# Shared by all contestants


def _missing(program: str, module: str, install: str) -> str:
    lacking = [
        name
        for name, there in ((program, shutil.which(program)), (module, importlib.util.find_spec(module)))
        if not there
    ]
    return f"no {' and no '.join(lacking)}: {install}" if lacking else ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _server(command: list[str], port: int) -> Iterator[None]:
    """Run a server for as long as it is needed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(process, port)
        yield
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(200):
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} ended with status {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{process.args!r} does not listen")


def main() -> None:
    """Measure and print everything."""
    contestants = [make() for make in CONTESTANTS]
    rates: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for _ in range(ROUNDS):
        for contestant in contestants:
            if not contestant.why_not:
                with tempfile.TemporaryDirectory() as folder:
                    count, took = contestant.run(Path(folder))
                rates[contestant.name].append(count / took)
    fastest = max((statistics.median(rates[c.name]) for c in contestants if rates[c.name] and not c.ours), default=None)
    print(f"durable events of {len(PAYLOAD):,} bytes, median of {ROUNDS} rounds of {SECONDS:g} s\n")
    for contestant in contestants:
        if contestant.why_not:
            print(f"{contestant.name:46} SKIPPED, {contestant.why_not}")
            continue
        rate = statistics.median(rates[contestant.name])
        beside = f"{rate / fastest:7.2f} x the fastest peer" if contestant.ours and fastest else ""
        print(f"{contestant.name:46} {rate:12,.0f} events/s {beside}")


if __name__ == "__main__":
    main()
