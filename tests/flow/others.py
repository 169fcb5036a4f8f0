"""Flows that share a link with us, as much of them as matters here: one like TCP Reno, and one like BBR.

A flow is asked in every step what it brings, given what waits in the queue; then it is told what was taken.
"""

from __future__ import annotations

from collections import deque
from math import inf

PACKET = 1500
STEP = 0.001
BURST_S = 0.001


class Nobody:
    """No other flow."""

    def bring(self, now: float, queued: float) -> float:
        return 0.0

    def taken(self, now: float, wait: float, brought: float, taken: float) -> None:
        pass


class Greedy(Nobody):
    """Fills the queue: a packet more per round trip, and less by a part when it loses one."""

    def __init__(self, rate: float, delay: float) -> None:
        self.rate, self.round_trip = rate, 2 * delay
        self.window = 20.0 * PACKET
        self.cut_at = 0.0
        self.has_lost = self.loses = False

    def bring(self, now: float, queued: float) -> float:
        round_trip = self.round_trip + queued / self.rate
        if self.loses and now - self.cut_at > round_trip:
            self.window *= 0.7
            self.cut_at, self.has_lost = now, True
        else:
            self.window += (PACKET if self.has_lost else self.window) * STEP / round_trip
        return self.window / round_trip * STEP

    def taken(self, now: float, wait: float, brought: float, taken: float) -> None:
        self.loses = taken < brought


class Bbr(Nobody):
    """Sends at the highest rate that was delivered lately, tries a quarter more in every eighth round trip, and then
    a quarter less; at most two bandwidth-delay products are on their way. Losses do not matter to it."""

    GAINS = (1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)

    def __init__(self, rate: float, delay: float) -> None:
        self.delay = delay
        self.best_rtt, self.best_at, self.rtt = inf, 0.0, 2 * delay
        self.rates: deque[tuple[float, float]] = deque([(0.0, rate / 10)])
        self.acks: deque[tuple[float, float, float]] = deque()
        self.delivered: deque[tuple[float, float]] = deque([(0.0, 0.0)])
        self.inflight = 0.0
        self.turn, self.turn_at = 0, 0.0
        self.starting, self.full_at, self.full = True, 0, 0.0
        self.probes_until = 0.0

    @property
    def bandwidth(self) -> float:
        return max(rate for _, rate in self.rates)

    def bring(self, now: float, queued: float) -> float:
        self._hear(now)
        if now - self.turn_at > self.rtt:
            self._turn(now)
        gain = 2.9 if self.starting else self.GAINS[self.turn % 8]
        least = min(self.rtt, self.best_rtt)
        most = self.bandwidth * ((2.9 if self.starting else 2.0) * least + 3 * BURST_S)
        if now < self.probes_until:
            most = 4.0 * PACKET
        room = max(0.0, max(4.0 * PACKET, most) - self.inflight)
        return min(room, gain * self.bandwidth * STEP)

    def _turn(self, now: float) -> None:
        self.turn, self.turn_at = self.turn + 1, now
        if self.starting:
            self.full_at = self.full_at + 1 if self.bandwidth < 1.25 * self.full else 0
            self.full = max(self.full, self.bandwidth)
            self.starting = self.full_at < 3
        if now - self.best_at > 10.0:
            self.best_at, self.best_rtt = now, self.rtt
            self.probes_until = now + 0.2 + self.rtt

    def _hear(self, now: float) -> None:
        while self.acks and self.acks[0][0] <= now:
            _, sent, got = self.acks.popleft()
            self.inflight -= sent
            self.delivered.append((now, self.delivered[-1][1] + got))
        while len(self.delivered) > 2 and self.delivered[1][0] < now - self.rtt:
            self.delivered.popleft()
        (first, before), (last, after) = self.delivered[0], self.delivered[-1]
        if last - first > self.rtt / 2 and now > self.probes_until:
            self.rates.append((now, (after - before) / (last - first)))
        while len(self.rates) > 1 and self.rates[0][0] < now - 10 * self.rtt:
            self.rates.popleft()

    def taken(self, now: float, wait: float, brought: float, taken: float) -> None:
        self.rtt = wait + 2 * self.delay
        if self.rtt <= self.best_rtt:
            self.best_rtt, self.best_at = self.rtt, now
        if brought:
            self.inflight += brought
            self.acks.append((now + self.rtt, brought, taken))
