"""One measurement of one system: start its processes, warm up, time rounds, and end every process by its id.

A measurement that does not finish in time, or whose events are not complete and in order at every subscriber, gives
`Failed` with the reason, never a number.
"""

import asyncio
import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from live_systems import System
from live_worker import Plan

WORKER = Path(__file__).with_name("live_worker.py")
START_TIMEOUT_S = 40.0
ROUND_TIMEOUT_S = 40.0
END_TIMEOUT_S = 3.0
PILOT_EVENTS = 2_000
GROWTH_MAX = 20.0
ROUND_BYTES_MAX = 1 << 30
ROUND_EVENTS_MAX = 4_000_000
"""A limit, because all payloads of a round are made before it starts."""

DIE_WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"

NATS_CONFIG = """
listen: {host}:{port}
max_pending: 4GB
write_deadline: "60s"
"""


class Failed(Exception):
    """Why a measurement has no number."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the two sides run: a prefix of the command and an address for each."""

    publisher: tuple[str, ...] = ()
    subscriber: tuple[str, ...] = ()
    publisher_address: str = "127.0.0.1"
    subscriber_address: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured."""

    size: int
    subscribers: int
    rate: float = 0.0
    """Events/s for latency; 0 is as fast as possible."""
    lone: bool = False
    """One event per turn of the publisher's loop, in place of many at once."""
    seconds: float = 2.0
    loop: str = "asyncio"
    place: Place = field(default_factory=Place)


@dataclass(frozen=True, slots=True)
class Measured:
    """A round, at the slowest of the subscribers."""

    events: int
    seconds: float
    publisher_cpu_us: float
    """Per event, in the publisher's process only, without a server's. Other programs disturb this less than a rate."""
    subscriber_cpu_us: float
    """The same for the subscriber that used most."""
    p50_us: float = 0.0
    p99_us: float = 0.0
    max_us: float = 0.0

    @property
    def rate(self) -> float:
        """Events/s from the publisher's first call until the slowest subscriber had the last event."""
        return self.events / self.seconds


class Worker:
    """A child process that takes orders and sends reports, line by line."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self.name = name
        self._process = process
        self._errors = errors

    def order(self, **order: Any) -> None:
        """Tell it what to do next."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def report(self) -> dict[str, Any]:
        """Its next line."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise Failed(f"{self.name} ended: {self._last_words()}")
        report: dict[str, Any] = json.loads(line)
        return report

    async def end(self) -> None:
        """Close its input; kill it if it does not exit."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_TIMEOUT_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._errors.close()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"


class Crew:
    """The publisher and the subscribers of one system, warmed up."""

    def __init__(self, publisher: Worker, subscribers: list[Worker]) -> None:
        self.publisher = publisher
        self.subscribers = subscribers
        self._next = 0

    async def open_the_way(self) -> None:
        """Publish warm-up events until every subscriber has heard one."""
        hearing = asyncio.gather(*(worker.report() for worker in self.subscribers))
        while not hearing.done():
            self.publisher.order(kind="warm")
            await asyncio.wait([hearing], timeout=0.05)
        await hearing

    async def round(self, count: int, rate: float, *, lone: bool = False) -> Measured:
        """Publish this many events and wait until every subscriber has all of them."""
        kind = "paced" if rate else "lone" if lone else "burst"
        order = {"kind": kind, "first": self._next, "count": count, "rate": rate}
        self._next += count
        for worker in (*self.subscribers, self.publisher):
            worker.order(**order)
        sent, *heard = await asyncio.gather(*(w.report() for w in (self.publisher, *self.subscribers)))
        for worker, report in zip(self.subscribers, heard, strict=True):
            if report["wrong"] or report["skipped"]:
                raise Failed(f"{worker.name}: {report['skipped']} events missing, {report['wrong']} out of order")
        seconds = (max(report["finished"] for report in heard) - sent["started"]) / 1e9
        cpu_us = [cpu / 1e3 / count for cpu in (sent["cpu"], max(report["cpu"] for report in heard))]
        if not rate:
            return Measured(count, seconds, *cpu_us)
        publishing = (sent["ended"] - sent["started"]) / 1e9
        if count / publishing < 0.95 * rate:
            raise Failed(f"the publisher reached only {count / publishing:,.0f} of {rate:,.0f} events/s")
        return Measured(count, seconds, *cpu_us, *(max(r[k] for r in heard) for k in ("p50_us", "p99_us", "max_us")))


@asynccontextmanager
async def crew(system: System, cell: Cell) -> AsyncIterator[Crew]:
    """All processes of a measurement; none is left at the end, whatever happens."""
    place = cell.place
    plan = Plan(
        system=system.key,
        host=place.publisher_address,
        port=free_port(),
        interface=place.publisher_address,
        size=cell.size,
        paced=cell.rate > 0,
        loop=cell.loop if system.asynchronous else "asyncio",
        key=secrets.token_hex(32),
        limit_s=int(START_TIMEOUT_S + 6 * ROUND_TIMEOUT_S),
        parent=os.getpid(),
    )
    heard = replace(plan, interface=place.subscriber_address)
    async with AsyncExitStack() as stack:
        if system.server:
            await stack.enter_async_context(nats_server(plan, place.publisher))
        roles = [("publisher", place.publisher, plan)] + [("subscriber", place.subscriber, heard)] * cell.subscribers
        workers = [await stack.enter_async_context(worker(f"{r}-{n}", r, p, w)) for n, (r, p, w) in enumerate(roles)]
        members = Crew(workers[0], workers[1:])
        async with asyncio.timeout(START_TIMEOUT_S):
            await asyncio.gather(*(w.report() for w in workers))
            await members.open_the_way()
        yield members


@asynccontextmanager
async def worker(name: str, role: str, prefix: Sequence[str], plan: Plan) -> AsyncIterator[Worker]:
    """One process."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the process has ended)
    command = (*prefix, sys.executable, str(WORKER), role, plan.dump())
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=errors)
    child = Worker(name, process, errors)
    try:
        yield child
    finally:
        await child.end()


@asynccontextmanager
async def nats_server(plan: Plan, prefix: Sequence[str]) -> AsyncIterator[None]:
    """Run a NATS server, which gets half a second to start listening."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
        config.write(NATS_CONFIG.format(host=plan.host, port=plan.port))
        config.flush()
        nothing = asyncio.subprocess.DEVNULL
        command = (*prefix, sys.executable, "-c", DIE_WITH_PARENT, "nats-server", "-c", config.name)
        process = await asyncio.create_subprocess_exec(*command, stdout=nothing, stderr=nothing)
        try:
            await asyncio.sleep(0.5)
            yield
        finally:
            if process.returncode is None:
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), END_TIMEOUT_S)
            except TimeoutError:
                process.kill()
                await process.wait()


async def measure(system: System, cell: Cell) -> Measured:
    """Measure one system, with rounds that grow until one is long enough to trust."""
    try:
        async with crew(system, cell) as members:
            if cell.rate:
                await timed(members, max(100, int(cell.rate * 0.3)), cell.rate)
                return await timed(members, int(cell.rate * cell.seconds), cell.rate)
            most = min(ROUND_EVENTS_MAX, ROUND_BYTES_MAX // cell.size)
            measured = await timed(members, PILOT_EVENTS, 0.0, lone=cell.lone)  # never counts: everything is cold
            while True:
                growth = min(GROWTH_MAX, cell.seconds / measured.seconds)
                count = max(PILOT_EVENTS, min(most, int(measured.events * growth)))
                measured = await timed(members, count, 0.0, lone=cell.lone)
                if measured.seconds > 0.5 * cell.seconds or count >= most:
                    return measured
    except TimeoutError:
        raise Failed(f"not started after {START_TIMEOUT_S:.0f} s") from None


async def timed(members: Crew, count: int, rate: float, *, lone: bool = False) -> Measured:
    """One round; raises Failed if it takes too long."""
    limit = ROUND_TIMEOUT_S + (count / rate if rate else 0.0)
    try:
        return await asyncio.wait_for(members.round(count, rate, lone=lone), limit)
    except TimeoutError:
        raise Failed(f"{count:,} events not complete after {limit:.0f} s") from None


def free_port() -> int:
    """A port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def be_quiet() -> None:
    """Keep a library's log off standard error; child processes inherit this."""
    os.environ.setdefault("RUST_LOG", "error")
