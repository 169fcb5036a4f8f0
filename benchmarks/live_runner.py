"""One measurement of one system: start its processes, warm up, time rounds, and end every process by its id.

A measurement that does not finish in time, or whose events are not complete and in order at every subscriber, gives
`Failed` with the reason, never a number.
"""

import asyncio
import itertools
import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Self

from live_systems import System
from live_worker import Plan

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.netns import Node

WORKER = Path(__file__).with_name("live_worker.py")
START_TIMEOUT_S = 40.0
ROUND_TIMEOUT_S = 40.0
END_TIMEOUT_S = 3.0
GRACE_S = 1.0
END_PERIOD_S = 0.2
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
class Host:
    """Where a process runs: what to write before its command, and its address."""

    prefix: tuple[str, ...] = ()
    address: str = "127.0.0.1"

    @classmethod
    def on(cls, node: Node) -> Self:
        """A namespace."""
        return cls(tuple(node.command()), node.address)


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything runs; subscribers take the hosts in turn."""

    publisher: Host = field(default_factory=Host)
    subscribers: tuple[Host, ...] = field(default_factory=lambda: (Host(),))
    logger: Host | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured."""

    size: int
    subscribers: int
    _: KW_ONLY
    rate: float = 0.0
    """Events/s for latency; 0 is as fast as possible."""
    lone: bool = False
    """One event per turn of the publisher's loop, in place of many at once."""
    seconds: float = 2.0
    warm_s: float = 0.3
    """Latency: for how long events are published before those that count."""
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

    async def play(
        self, count: int, rate: float, limit_s: float = ROUND_TIMEOUT_S, *, lone: bool = False
    ) -> tuple[dict[str, Any], list[dict[str, Any] | None]]:
        """Publish this many events, or as many as the limit allows; returns the reports of publisher and subscribers.

        A subscriber that still waits a while after everything was sent is told that nothing more will come. One that
        waits even then gives None.
        """
        kind = "paced" if rate else "lone" if lone else "burst"
        order = {"kind": kind, "first": self._next, "count": count, "rate": rate}
        for worker in (*self.subscribers, self.publisher):
            worker.order(**order, limit_s=limit_s)
        hearing = [asyncio.create_task(worker.report()) for worker in self.subscribers]
        try:
            sent = await self.publisher.report()
            self._next += sent["count"]
            await self._come_to_an_end(hearing)
            return sent, [await task if task.done() else None for task in hearing]
        finally:
            for task in hearing:
                task.cancel()

    async def _come_to_an_end(self, hearing: Sequence[asyncio.Task[Any]]) -> None:
        _, waiting = await asyncio.wait(hearing, timeout=GRACE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(ROUND_TIMEOUT_S):
                while waiting:
                    self.publisher.order(kind="end", first=self._next)
                    _, waiting = await asyncio.wait(waiting, timeout=END_PERIOD_S)

    async def round(self, count: int, rate: float, *, lone: bool = False) -> Measured:
        """Publish this many events; every subscriber must have all of them."""
        sent, reports = await self.play(count, rate, lone=lone)
        heard = [report for report in reports if report is not None]
        if len(heard) < len(reports):
            raise TimeoutError
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
        host=place.publisher.address,
        port=free_port(),
        interface=place.publisher.address,
        size=cell.size,
        paced=cell.rate > 0,
        loop=cell.loop if system.asynchronous else "asyncio",
        key=secrets.token_hex(32),
        limit_s=int(START_TIMEOUT_S + 6 * ROUND_TIMEOUT_S),
        parent=os.getpid(),
    )
    hosts = itertools.islice(itertools.cycle(place.subscribers), cell.subscribers)
    roles = [("publisher", place.publisher), *(("subscriber", host) for host in hosts)]
    if place.logger and system.logger:
        roles.append(("logger", place.logger))
    async with AsyncExitStack() as stack:
        if system.server:
            await stack.enter_async_context(nats_server(plan, place.publisher.prefix))
        workers = [
            await stack.enter_async_context(worker(f"{role}-{n}", role, host, plan, system.command))
            for n, (role, host) in enumerate(roles)
        ]
        members = Crew(workers[0], workers[1 : 1 + cell.subscribers])
        async with asyncio.timeout(START_TIMEOUT_S):
            await asyncio.gather(*(w.report() for w in workers))
            await members.open_the_way()
        yield members


def worker(
    name: str, role: str, host: Host, plan: Plan, command: Callable[[str, Plan], Sequence[str]] | None = None
) -> AbstractAsyncContextManager[Worker]:
    """One end of a system, in a process of its own."""
    if command is not None:
        return child(name, host, "-c", DIE_WITH_PARENT, *command(role, plan))
    return child(name, host, str(WORKER), role, replace(plan, interface=host.address).dump())


@asynccontextmanager
async def child(name: str, host: Host, *arguments: str) -> AsyncIterator[Worker]:
    """A script in a process of its own."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the process has ended)
    command = (*host.prefix, sys.executable, *arguments)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=errors)
    started = Worker(name, process, errors)
    try:
        yield started
    finally:
        await started.end()


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
                await timed(members, max(100, int(cell.rate * cell.warm_s)), cell.rate)
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
