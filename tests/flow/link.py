"""A link by hand: one bottleneck with a queue, a sender with its controller, receivers that report, and other traffic.

Time goes in steps of a millisecond. It is a model of its own, beside the simulator's network, so that a mistake in one
of them does not hide in the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from gossamer.core.messages import SeenReport
from gossamer.flow.bucket import Bucket
from gossamer.flow.rate import RateController
from tests.flow.others import STEP, Nobody

PACKET = 1180
REPORT_EVERY = 0.005


@dataclass
class Link:
    """A drop-tail queue in front of a line, which we may share with `others`."""

    rate: float
    delay: float
    queue_bytes: float = 256_000
    loss: float = 0.0
    jitter: float = 0.0
    others: Nobody = field(default_factory=Nobody)
    queued: float = 0.0
    owed: float = 0.0
    carried_of_others: float = 0.0

    def step(self, now: float, packets: int) -> tuple[int, float, float]:
        """Bring packets of ours and of others; returns how many of ours got in, how long the first and the last wait.

        What others bring in the same step is among ours.
        """
        theirs = self.others.bring(now, self.queued)
        room = self.queue_bytes + self.rate * STEP - self.queued
        wanted = packets * PACKET + theirs
        share = min(1.0, room / wanted) if wanted else 1.0
        self.owed = packets * share + self.owed % 1.0  # packets are whole, shares are not
        ours = min(packets, int(self.owed))
        self.carried_of_others += theirs * share
        before = self.queued / self.rate
        self.queued += ours * PACKET + theirs * share
        wait = self.queued / self.rate
        self.others.taken(now, wait, theirs, theirs * share)
        self.queued = max(0.0, self.queued - self.rate * STEP)
        return ours, before + (wait - before) / max(1, ours), wait


@dataclass
class Lab:
    """One sender that always has something to send, and a link to each receiver."""

    links: dict[int, Link]
    seed: int = 1
    clock_offset: float = 1000.0
    now: float = 100.0
    sent: int = 0
    dropped: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    stalled_until: float = 0.0
    wakes_every: float = STEP
    reads_every: float = STEP
    """On a busy host a process is late: a sender sends, and a receiver reads, only this often."""
    wants: Callable[[float], float] = lambda now: 1e12
    lagging: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.controller = RateController()
        self.bucket = Bucket(float("inf"))
        self.arriving: dict[int, list[tuple[float, int]]] = {m: [] for m in self.links}  # heaps
        self.newest = dict.fromkeys(self.links, -1)
        self.reports: deque[tuple[float, int, SeenReport]] = deque()
        self.due = dict.fromkeys(self.links, 0.0)
        self.dropped = dict.fromkeys(self.links, 0)
        self.received = dict.fromkeys(self.links, 0)
        self.owed = 0.0
        self.sends_at = 0.0
        self.reads_at = dict.fromkeys(self.links, 0.0)
        self.controller.view_changed(self.now, list(self.links), self.bucket.rate)
        self.bucket.rate = self.controller.rate(self.now, self.lagging)

    def run(self, seconds: float) -> Lab:
        """Let time pass."""
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            self.hear()
            packets = 0 if self.now < max(self.stalled_until, self.sends_at) else self.send()
            for member, link in self.links.items():
                self.carry(member, link, packets)
        return self

    def send(self) -> int:
        self.owed = min(self.owed + self.wants(self.now) * STEP, 64e6)
        self.sends_at = self.now + self.late(self.wakes_every)
        packets = size = 0
        room = self.bucket.room(self.now)
        while room > size and self.owed >= PACKET:
            size += PACKET
            packets += 1
            self.owed -= PACKET
        if self.owed >= PACKET:
            self.controller.had_to_wait(self.now)
        if packets:
            self.bucket.spend(size)
            self.controller.sent(self.now, self.sent, packets, size)
            self.sent += packets
        return packets

    def late(self, every: float) -> float:
        return every * self.rng.uniform(0.5, 1.5) if every > STEP else 0.0

    def carry(self, member: int, link: Link, packets: int) -> None:
        got, first, last = link.step(self.now, packets)
        self.dropped[member] += packets - got
        for n in range(got):
            if self.rng.random() >= link.loss:
                wait = first + (last - first) * n / max(1, got - 1)
                arrives = self.now + wait + link.delay + link.jitter * self.rng.random()
                heappush(self.arriving[member], (arrives, self.sent - packets + n))
        if self.now >= self.reads_at[member]:
            self.reads_at[member] = self.now + self.late(self.reads_every)
            self.receive(member, link)

    def receive(self, member: int, link: Link) -> None:
        arriving, newest, at = self.arriving[member], -1, 0.0
        while arriving and arriving[0][0] <= self.now:
            came_at, seqno = heappop(arriving)
            self.received[member] += 1
            if seqno > self.newest[member]:
                at, newest = came_at, seqno
                self.newest[member] = seqno
        if newest >= 0 and self.now >= self.due[member]:
            self.due[member] = self.now + REPORT_EVERY
            at_us = round((at + self.clock_offset) * 1e6)
            report = SeenReport(newest + 1, newest, self.received[member], at_us)
            self.reports.append((self.now + link.delay, member, report))

    def hear(self) -> None:
        while self.reports and self.reports[0][0] <= self.now:
            _, member, report = self.reports.popleft()
            if self.controller.reported(self.now, member, report):
                self.controller.judge(self.now, self.lagging, self.lagging.add, self.lagging.remove)
                self.bucket.rate = self.controller.rate(self.now, self.lagging)
                self.bucket.late_bytes = self.controller.late_bytes

    def over(self, seconds: float) -> dict[int, tuple[float, float]]:
        """Run on; by receiver: bytes per second that came, and the share of packets that the queue dropped."""
        before, drops, sent = dict(self.received), dict(self.dropped), self.sent
        self.run(seconds)
        packets = max(1, self.sent - sent)
        return {
            m: ((self.received[m] - before[m]) * PACKET / seconds, (self.dropped[m] - drops[m]) / packets)
            for m in self.links
        }
