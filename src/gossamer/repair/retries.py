"""Negative gossip that does not wait for a round when a request has brought nothing.

The member that was asked may lack the same packets (members that are near each other often do), or a request or its
answer was lost. Without order a late packet hurts only itself; in FIFO order everything after it waits. So what was
asked for and has not come after the usual time is asked for again, first of the packet's own sender, which surely had
it (but in a large group only by some members, which can then pass it on: if all have lost it, the sender could not
serve them all), then of anybody, each time with a longer pause, until it is time for a round. On the way the member
learns which peers have what others have (`Peers.helper`), and how long they take: from a request until a packet that
was in it comes, even if that is too late.
"""

from heapq import heappop, heappush
from itertools import count as counter
from math import inf
from typing import NamedTuple

from gossamer.core.ids import FIRST_PASS, Phase
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import PacketSets, count
from gossamer.core.packets import Packet, Run
from gossamer.core.settings import ProtocolSettings
from gossamer.repair.negative import NegativeGossip

_AT_THE_SENDER = 16
"""About this many members ask the sender of a packet that all have lost, if there are more."""


def negative_gossip(settings: ProtocolSettings) -> type[NegativeGossip]:
    """The rung that the settings ask for: without retries they cost nothing."""
    return RetryingNegativeGossip if settings.ask_again else NegativeGossip


class _Asked(NamedTuple):
    """A request that may have brought nothing."""

    due: float
    """When to look whether it has."""
    number: int
    """Decides between requests that are due at the same time."""
    times: int
    """How often this was asked for, including this request."""
    target: int
    wanted: PacketSets


class RetryingNegativeGossip(NegativeGossip):
    """The same, with requests that are repeated."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._asked: list[_Asked] = []  # a heap: the next that is due comes first
        self._numbers = counter()
        self._timed: dict[int, tuple[int, int, float]] = {}  # of each peer one packet that it was asked for, and when
        self._retry = ladder.timer(self._ask_again)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """How long a peer takes, if this was asked for."""
        if phase != FIRST_PASS and source in self._timed:
            self._measure(now, source, run[0])

    def repeated(self, now: float, source: int, run: Run, out: Effects) -> None:
        """It came too late, and tells all the more."""
        if source in self._timed:
            self._measure(now, source, run[0])

    def _measure(self, now: float, source: int, packet: Packet) -> None:
        sender, seqno, when = self._timed[source]
        if packet.seqno == seqno and packet.sender == sender:
            del self._timed[source]
            self.ladder.round_trips.measured(source, now - when)

    def _whom(self) -> int | None:
        return self.ladder.peers.helper()

    def _request(self, now: float, target: int, wanted: PacketSets, out: Effects, times: int = 1) -> None:
        super()._request(now, target, wanted, out)
        period = self.ladder.settings.gossip_period
        self._begin_to_measure(now, target, wanted, period)
        patience = self.ladder.settings.ask_again * 2 ** (times - 1) + 2 * self.ladder.round_trips.of(target)
        if patience < period:
            heappush(self._asked, _Asked(now + patience, next(self._numbers), times, target, wanted))
            self._retry.set(self._asked[0].due)

    def _begin_to_measure(self, now: float, target: int, wanted: PacketSets, period: float) -> None:
        """One packet of one request to each peer at a time; if it has not come for a while, it will not."""
        self._timed = {peer: timed for peer, timed in self._timed.items() if timed[2] > now - period}
        sender, numbers = next(iter(wanted.items()))
        self._timed.setdefault(target, (sender, numbers.first, now))

    def _ask_again(self, now: float, out: Effects) -> None:
        while self._asked and self._asked[0].due <= now:
            _, _, times, asked, wanted = heappop(self._asked)
            left = self._asking.still(wanted)
            self.ladder.peers.answered(asked, 1.0 - count(left) / count(wanted))
            for sender, numbers in self.ladder.gaps.worth_asking(now, left, out).items():
                target = sender if times == 1 and asked != sender and self._may_ask_sender(sender) else self._whom()
                if target is not None:
                    self._request(now, target, {sender: numbers}, out, times + 1)
        self._retry.set(self._asked[0].due if self._asked else inf)

    def _may_ask_sender(self, sender: int) -> bool:
        roster = self.ladder.roster
        return self.ladder.rng.random() * len(roster) < _AT_THE_SENDER and sender in roster
