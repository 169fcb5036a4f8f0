"""One measurement on the emulated switch: who got what, how fast, and what the queues did meanwhile."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns
from typing import Any, Self

from live_runner import PILOT_EVENTS, ROUND_TIMEOUT_S, Cell, Crew, Failed, Host, Place, Worker, child, crew, free_port
from live_systems import System
from network_rows import SIZE, Row
from switch import Switch, worst_queue

STREAM = Path(__file__).with_name("tcp_stream.py")
SAMPLE_S = 0.1
FIRST_NS = 1_000_000_000
TCP_ALONE_S = 1.5
"""How long the TCP connection has the bottleneck to itself, to find its pace."""
PLAY_TIMEOUT_S = 120.0
LIMIT_FACTOR = 3.0
"""The publisher stops when it takes so much longer than the link needs."""
UNFINISHED: dict[str, Any] = {"skipped": 0, "wrong": 0, "finished": 0, "stats": {}}
"""The report of a subscriber that waits for ever."""
EVENTS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Sample:
    """The network at one time; counters since the start."""

    at: int
    queues: list[dict[str, Any]]
    tcp_bytes: int
    cpu: tuple[int, int]
    """Ticks: idle and all."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round has shown."""

    events: int
    sent: dict[str, Any]
    heard: list[dict[str, Any]]
    samples: list[Sample]
    healthy: int
    unread: int
    """Frames that the switch was too slow for."""
    overrun: int
    """Datagrams that processes were too slow for."""

    def rate(self, subscriber: int) -> float:
        """Events/s that it got."""
        report = self.heard[subscriber]
        if not report["finished"]:
            return 0.0
        return (self.events - report["skipped"]) / max((report["finished"] - self.sent["started"]) / 1e9, 1e-9)

    @property
    def slowest(self) -> float:
        """Events/s of the slowest healthy subscriber."""
        return min(self.rate(n) for n in range(self.healthy))

    @property
    def lost(self) -> list[int]:
        """Events that each subscriber has not got."""
        return [report["skipped"] for report in self.heard]

    def reasons(self) -> list[str]:
        """Why anything was lost, as far as the subscribers were told."""
        stats = [report["stats"] for report in self.heard if report["stats"]]
        return sorted({reason for one in stats for reason in one.get("lost", ())})

    @property
    def finished(self) -> int:
        """When the last healthy subscriber had everything."""
        return max(report["finished"] for report in self.heard[: self.healthy])

    def crossed(self) -> bool:
        """Whether all that the healthy subscribers got has passed their ports, which follow the publisher's."""
        first, last = self.samples[0].queues, self.samples[-1].queues
        return all(
            last[1 + n]["down"]["bytes"] - first[1 + n]["down"]["bytes"] >= (self.events - self.lost[n]) * SIZE
            for n in range(self.healthy)
        )

    def during(self) -> tuple[Sample, Sample, Sample]:
        """The network when the round began, a second later, and when the healthy ones were through."""
        began = max((s for s in self.samples if s.at <= self.sent["started"]), key=lambda s: s.at)
        later = [s for s in self.samples if s.at >= self.sent["started"] + FIRST_NS] or self.samples[-1:]
        ended = [s for s in self.samples if s.at >= self.finished] or self.samples[-1:]
        return began, later[0], max(ended[0], later[0], key=lambda s: s.at)

    def drops(self) -> tuple[float, float, str]:
        """The share that the worst queue has dropped: in the round, and after its first second; which queue."""
        began, later, ended = self.during()
        share, which = worst_queue(began.queues, ended.queues)
        return share, worst_queue(later.queues, ended.queues)[0], which

    def wait_ms(self) -> tuple[float, float]:
        """How long packets have waited in the queue in which they waited longest: on average, and at most."""
        began, _, ended = self.during()
        links = [(number, way) for number in range(len(began.queues)) for way in ("up", "down")]
        waited, packets = (
            [ended.queues[n][way][key] - began.queues[n][way][key] for n, way in links]
            for key in ("waited_us", "packets")
        )
        between = [s for s in self.samples if began.at < s.at <= ended.at]
        most = max((s.queues[n][way]["waited_max_us"] for s in between for n, way in links), default=0)
        return max(w / max(1, p) for w, p in zip(waited, packets, strict=True)) / 1e3, most / 1e3

    def busy(self) -> float:
        """The share of all processors' time that was used, by anybody."""
        began, _, ended = self.during()
        idle, whole = (new - old for new, old in zip(ended.cpu, began.cpu, strict=True))
        return 1.0 - idle / max(1, whole)

    def tcp_mbit(self) -> float:
        """What the TCP connection beside has received."""
        began, _, ended = self.during()
        return (ended.tcp_bytes - began.tcp_bytes) * 8e3 / max(1, ended.at - began.at)

    def repaired(self) -> float | None:
        """The share of deliveries that were repairs, at the healthy subscriber with most of them; None if not known."""
        shares = [
            (stats["peer"] + stats["logger"]) / max(1, stats["received"])
            for stats in (report["stats"] for report in self.heard[: self.healthy])
            if stats
        ]
        return max(shares, default=None)

    def repeated(self) -> float:
        """What came more than once, as a share of deliveries, at the healthy subscriber with most of that."""
        stats = [report["stats"] for report in self.heard[: self.healthy] if report["stats"]]
        return max((one["duplicates"] / max(1, one["received"]) for one in stats), default=0.0)


class Recorder:
    """Looks at the network at short intervals: `async with` it while something happens."""

    def __init__(self, switch: Switch, sink: Worker | None) -> None:
        self.samples: list[Sample] = []
        self.switch, self._sink = switch, sink
        self._over = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.look()
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._over.set()
        await self._watching

    async def look(self) -> None:
        """Take one sample."""
        received = 0
        if self._sink is not None:
            self._sink.order()
            received = (await self._sink.report())["bytes"]
        self.samples.append(Sample(monotonic_ns(), self.switch.stats(), received, processor_ticks()))

    async def _watch(self) -> None:
        while not self._over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), SAMPLE_S)
            await self.look()


def processor_ticks() -> tuple[int, int]:
    """Of all processors since the machine started: idle or used by what makes room for others, and all."""
    ticks = [int(word) for word in Path("/proc/stat").read_text("ascii").splitlines()[0].split()[1:9]]
    _, nice, _, idle, waiting, *_ = ticks
    return idle + waiting + nice * (os.nice(0) <= 0), sum(ticks)


async def observe(system: System, row: Row, seconds: float, loop: str, tcp: str = "") -> Outcome:
    """Measure one system on one network; raises Failed if it does not finish."""
    with Switch(row.ports()) as switch:
        hosts = [Host.on(node) for node in switch.nodes]
        subscribers = tuple(hosts[1 : 1 + row.subscribers])
        place = Place(hosts[0], subscribers, hosts[1 + row.subscribers] if row.logger else None)
        cell = Cell(SIZE, row.subscribers, rate=row.rate, seconds=seconds, loop=loop, place=place)
        try:
            async with crew(system, cell) as members, stream(row, hosts, tcp) as sink:
                count = await events(members, system, row, seconds)
                return await record(members, Recorder(switch, sink), row, count, seconds)
        except TimeoutError:
            raise Failed("did not finish in time") from None


async def events(members: Crew, system: System, row: Row, seconds: float) -> int:
    """How many events to publish; a trial tells if it does not follow from the links."""
    if row.rate:
        return int(row.rate * seconds)
    if count := row.events(seconds, copies=not system.ours):
        return count
    trial = await asyncio.wait_for(members.round(PILOT_EVENTS, 0.0), PLAY_TIMEOUT_S)
    return min(EVENTS_MAX, max(PILOT_EVENTS, int(trial.rate * seconds)))


@asynccontextmanager
async def stream(row: Row, hosts: Sequence[Host], tcp: str) -> AsyncIterator[Worker | None]:
    """The TCP connection beside, from the last host to the first subscriber's, if there is one; gives its sink."""
    if not row.tcp:
        yield None
        return
    where = (hosts[1].address, str(free_port()))
    async with child("sink", hosts[1], str(STREAM), "sink", *where) as sink:
        await sink.report()
        async with child("source", hosts[-1], str(STREAM), "source", *where, tcp) as source:
            await source.report()
            await asyncio.sleep(TCP_ALONE_S)
            yield sink


async def record(members: Crew, recorder: Recorder, row: Row, count: int, seconds: float) -> Outcome:
    """One round, with all that the switch says meanwhile; the publisher stops when it takes far too long."""
    async with recorder, asyncio.timeout(PLAY_TIMEOUT_S):
        sent, reports = await members.play(count, row.rate, LIMIT_FACTOR * seconds)
    if None in reports[: row.healthy]:
        raise Failed(f"not through {ROUND_TIMEOUT_S:.0f} s after the last event was published")
    heard = [report or UNFINISHED for report in reports]
    switch = recorder.switch
    outcome = Outcome(sent["count"], sent, heard, recorder.samples, row.healthy, switch.unread(), switch.overrun())
    if not outcome.crossed():
        raise Failed("what the subscribers got did not come through the switch: this is no measurement of the network")
    return outcome
