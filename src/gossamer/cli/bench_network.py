"""`gossamer bench --network`: what a live group reaches over the path between hosts, and what it does to the path.

One side serves, the other measures: it finds all that serve over the group itself, sends probes while the path is idle,
then publishes as fast as it may while the probes go on. What the probes take longer then is the queue that the group
has built; what is lost of them, the path has dropped.
"""

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.path_probe import TOKEN_BYTES, Echo, Phase, Prober
from gossamer.live.group import Group
from gossamer.settings import Settings
from gossamer.wire.events import Event

GROUP = "gossamer bench"
_HELLO, _HERE, _LOAD, _END, _REPORT = ("path.hello", "path.here", "path.load", "path.end", "path.report")
_AT_ONCE = 100
_UNSENT_MAX = 1_000
_MOMENT_S = 0.002
_FIND_S = 5.0
_REPORT_S = 60.0
_AGAIN_S = 0.5
_RUNS_MAX = 16
_IDLE_S = 1.0
_RUNGS = ("first_pass", "peer", "logger")


# The side that serves.


@dataclass(slots=True)
class _Run:
    """What a server has heard of one measurement."""

    token: str
    before: dict[str, Any]
    received: int = 0
    size_bytes: int = 0
    first_s: float = 0.0
    last_s: float = 0.0

    def take(self, event: Event) -> None:
        self.last_s = time.monotonic()
        self.first_s = self.first_s or self.last_s
        self.received += 1
        self.size_bytes += len(event.payload)

    def report(self, published: int, after: dict[str, Any]) -> dict[str, Any]:
        seconds = max(self.last_s - self.first_s, 1e-9)
        return {
            "for": self.token,
            "received": self.received,
            "lost": published - self.received,
            "events_per_s": self.received / seconds,
            "mbit_per_s": self.size_bytes * 8 / seconds / 1e6,
            **{key: after[key] - self.before[key] for key in (*_RUNGS, "duplicates")},
        }


@dataclass(slots=True)
class _Server:
    group: Group
    echo: Echo
    runs: dict[int, _Run] = field(default_factory=dict)
    """By the member that measures."""

    async def take(self, event: Event) -> str:
        """Count, or answer; returns a line about a measurement that is over."""
        if event.subject == _LOAD and event.sender in self.runs:
            self.runs[event.sender].take(event)
        elif event.subject == _HELLO:
            await self._greet(event)
        elif event.subject == _END and event.sender in self.runs:
            return await self._report(event)
        return ""

    async def _greet(self, event: Event) -> None:
        token = event.payload.decode()
        if event.sender not in self.runs or self.runs[event.sender].token != token:
            if len(self.runs) >= _RUNS_MAX:  # of those that never came to an end
                self._forget(next(iter(self.runs)))
            self.runs[event.sender] = _Run(token, self.group.stats())
            self.echo.tokens.add(bytes.fromhex(token))
        here = {"for": token, "name": self.group.settings.name, "host": _host(self.group), "port": self.echo.port}
        await self.group.publish_wait(_HERE, json.dumps(here).encode())

    async def _report(self, event: Event) -> str:
        report = self.runs[event.sender].report(int(event.payload), self.group.stats())
        self._forget(event.sender)
        await self.group.publish_wait(_REPORT, json.dumps(report).encode())
        return f"{report['received']:,} events at {report['mbit_per_s']:,.1f} Mbit/s, {report['lost']:,} lost"

    def _forget(self, sender: int) -> None:
        self.echo.tokens.discard(bytes.fromhex(self.runs.pop(sender).token))


async def serve(settings: Settings) -> int:
    """Answer those that measure, until interrupted."""
    console = Console(stderr=True)
    async with Group(GROUP, settings) as group:
        server = _Server(group, Echo(_host(group)))
        console.print(f"serving at {settings.address} on {_host(group)}; measure from another host now")
        try:
            async for item in group.subscribe("path.>"):
                if isinstance(item, Event) and (line := await server.take(item)):
                    console.print(line)
        finally:
            server.echo.close()
    return 0


# The side that measures.


@dataclass(slots=True)
class _Path:
    """The way to one server."""

    name: str
    prober: Prober
    idle: Phase = field(default_factory=Phase)
    loaded: Phase = field(default_factory=Phase)
    report: dict[str, Any] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """Everything about it, as plain numbers."""
        trips = {"idle": self.idle.trips, "loaded": self.loaded.trips}
        at_best = min((trip.there_ns for some in trips.values() for trip in some), default=0)
        waits = [(trip.there_ns - at_best) / 1e6 for trip in self.loaded.trips]
        return {
            "name": self.name,
            **{key: value for key, value in self.report.items() if key != "for"},
            "round_trip_ms": {when: spread([t.round_trip_ns / 1e6 for t in some]) for when, some in trips.items()},
            "queueing_ms": spread(waits),
            "probes_lost": {"idle": self.idle.lost, "loaded": self.loaded.lost},
        }


def spread(values: list[float]) -> dict[str, float] | None:
    """Median, 99th percentile and maximum; None if there is nothing."""
    if not values:
        return None
    hundredths = quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
    return {"p50": hundredths[49], "p99": hundredths[98], "max": max(values)}


async def measure(settings: Settings, size: int, seconds: float) -> dict[str, Any]:
    """Measure the way to every host that serves; nobody serves if `paths` is empty."""
    token = secrets.token_bytes(TOKEN_BYTES)
    async with Group(GROUP, settings) as group:
        paths = await _find(group, token)
        try:
            async with _probing(paths, "idle"):
                await asyncio.sleep(_IDLE_S if paths else 0.0)
            async with _probing(paths, "loaded"):
                published, took, held_by = await _load(group, size, seconds if paths else 0.0)
            await _collect(group, token, paths, published)
        finally:
            for path in paths.values():
                path.prober.close()
    return {
        "size": size,
        "seconds": took,
        "published": published,
        "published_per_s": published / took if published else 0.0,
        "held_by": held_by,
        "paths": [path.summary() for path in paths.values()],
    }


async def _find(group: Group, token: bytes) -> dict[int, _Path]:
    """Call until somebody answers, and once more for the others."""
    paths: dict[int, _Path] = {}
    deadline = time.monotonic() + _FIND_S
    heard = group.subscribe(_HERE)
    calls_left = 2
    while calls_left and time.monotonic() < deadline:
        await group.publish_wait(_HELLO, token.hex().encode())
        async for sender, here in _answers(heard, token, _AGAIN_S):
            if sender not in paths:
                paths[sender] = _Path(here["name"], Prober(token, _host(group), (here["host"], here["port"])))
        calls_left -= bool(paths)
    return paths


async def _answers(heard: Any, token: bytes, wait_s: float) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    """What servers say to us, until nothing comes for a while."""
    deadline = time.monotonic() + wait_s
    while (left := deadline - time.monotonic()) > 0:
        try:
            async with asyncio.timeout(left):
                item = await anext(heard)
        except TimeoutError:
            return
        if isinstance(item, Event) and (said := json.loads(item.payload))["for"] == token.hex():
            yield item.sender, said


@asynccontextmanager
async def _probing(paths: dict[int, _Path], phase: str) -> AsyncIterator[None]:
    """Send probes to all servers in the meantime."""
    over = asyncio.Event()
    probing = [asyncio.create_task(path.prober.run(over)) for path in paths.values()]
    try:
        yield
    finally:
        over.set()
        phases = await asyncio.gather(*probing)
    for path, done in zip(paths.values(), phases, strict=True):
        setattr(path, phase, done)


async def _load(group: Group, size: int, seconds: float) -> tuple[int, float, dict[str, float]]:
    """Publish as fast as the group lets us; returns how many, how long it took until all were sent, and why not faster.

    The latter is what held the sender up, each with the share of the moments at which it had to wait.
    """
    begun = time.monotonic()
    events = [bytes(size)] * _AT_ONCE
    published = 0
    held: Counter[str] = Counter()
    while time.monotonic() - begun < seconds:
        stats = group.stats()
        if stats["unsent"] > _UNSENT_MAX:  # what waits here would still have to be sent afterwards
            held[stats["pace"]["held_by"]] += 1
            await asyncio.sleep(_MOMENT_S)
            continue
        await group.publish_many(_LOAD, events)
        published += _AT_ONCE
    await group.flush()
    return published, time.monotonic() - begun, {why: times / held.total() for why, times in held.most_common()}


async def _collect(group: Group, token: bytes, paths: dict[int, _Path], published: int) -> None:
    """Ask for reports; a server that gives none has lost everything, for all we know."""
    if not paths:
        return
    heard = group.subscribe(_REPORT)
    await group.publish_wait(_END, str(published).encode())
    async for sender, report in _answers(heard, token, _REPORT_S):
        if sender in paths:
            paths[sender].report = report
        if all(path.report for path in paths.values()):
            return
    for path in paths.values():
        path.report = path.report or {"received": 0, "lost": published}


def _host(group: Group) -> str:
    """The address at which others reach this member."""
    host: str = group.profile()["address"].rpartition(":")[0]
    return host


# What is printed.


def conclude(result: dict[str, Any], as_json: bool) -> int:
    """Print the result; exit code 1 if nobody serves or an event was lost."""
    if as_json:
        typer.echo(json.dumps(result))
    elif result["paths"]:
        Console().print(_table(result))
    if not result["paths"]:
        typer.echo("gossamer bench: nobody serves; start `gossamer bench --network serve` on another host", err=True)
    return 0 if result["paths"] and not any(path["lost"] for path in result["paths"]) else 1


def _table(result: dict[str, Any]) -> Table:
    title = f"{result['published']:,} events of {result['size']} B in {result['seconds']:.1f} s"
    if result["held_by"]:
        title += f"; held up by {', '.join(f'{why} ({share:.0%})' for why, share in result['held_by'].items())}"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for path in result["paths"]:
        table.add_column(path["name"], justify="right")
    for label, show in _LINES.items():
        table.add_row(label, *(show(path) for path in result["paths"]))
    return table


def _ms(numbers: dict[str, float] | None) -> str:
    if numbers is None:
        return "no probe came back"
    return " / ".join(f"{numbers[key]:.2f}" for key in ("p50", "p99", "max")) + " ms"


_LINES: dict[str, Callable[[dict[str, Any]], str]] = {
    "events/s": lambda path: f"{path.get('events_per_s', 0):,.0f}",
    "Mbit/s of payload": lambda path: f"{path.get('mbit_per_s', 0):,.1f}",
    "events lost": lambda path: f"{path['lost']:,}",
    "events repaired": lambda path: f"{sum(path.get(key, 0) for key in _RUNGS[1:]) / max(1, path['received']):.2%}",
    "packets received twice": lambda path: f"{path.get('duplicates', 0):,}",
    "round trip, idle, p50/p99/max": lambda path: _ms(path["round_trip_ms"]["idle"]),
    "round trip, loaded": lambda path: _ms(path["round_trip_ms"]["loaded"]),
    "queueing on the way there, loaded": lambda path: _ms(path["queueing_ms"]),
    "probes lost, idle": lambda path: f"{path['probes_lost']['idle']:.2%}",
    "probes lost, loaded": lambda path: f"{path['probes_lost']['loaded']:.2%}",
}
