"""Negative gossip that does not wait for a round when a request has brought nothing.

Whoever was asked may lack the same (members that are near each other often do), or a request or its answer was lost.
Without order a late packet hurts only itself; in FIFO order everything behind it waits. So what was asked for and has
not come after the usual time is asked for again, first of the packet's own sender, who surely had it (but of a large
group only by some, who can then pass it on: if all have lost it, the sender could not serve them all), then of anybody,
each time with a longer pause, until it is time for a round. On the way it is learned which peers have what others have
(`Peers.helper`), and how long they take: from a request until a packet that was in it comes, even if that is too late.
"""

from heapq import heappop, heappush
from itertools import count as counter
from math import inf
from typing import NamedTuple

from gossamer.core.ids import FIRST_PASS, Phase
from gossamer.core.ladder import Effects, Ladder, TimerHandler
from gossamer.core.messages import PerSender, count
from gossamer.core.packets import Packet, Run
from gossamer.repair.negative import NegativeGossip

_AGAIN = "negative.again"
_AT_THE_SENDER = 16
"""So many members ask the sender of a packet that all have lost, on average, if there are more."""


def negative_gossip(ladder: Ladder) -> NegativeGossip:
    """The rung that the settings ask for: who does not ask again does not pay for it."""
    return AskingAgain(ladder) if ladder.settings.ask_again else NegativeGossip(ladder)


class _Asked(NamedTuple):
    """A request that may have brought nothing."""

    due: float
    """When to look whether it has."""
    number: int
    """Decides between requests that are due at the same time."""
    times: int
    """How often this was asked for, with it."""
    target: int
    wanted: PerSender


class AskingAgain(NegativeGossip):
    """The same, with requests that are repeated."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._asked: list[_Asked] = []  # a heap: the next that is due comes first
        self._numbers = counter()
        self._timed: dict[int, tuple[int, int, float]] = {}  # of each peer one packet that it was asked for, and when

    def alarms(self) -> dict[str, TimerHandler]:
        """Time to look whether requests have brought anything, too."""
        return {**super().alarms(), _AGAIN: self._ask_again}

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
            self.ladder.peers.measured(source, now - when)

    def _whom(self) -> int | None:
        return self.ladder.peers.helper(self.ladder.rng)

    def _request(self, now: float, target: int, wanted: PerSender, out: Effects, times: int = 1) -> None:
        super()._request(now, target, wanted, out)
        period = self.ladder.settings.gossip_period
        self._begin_to_measure(now, target, wanted, period)
        patience = self.ladder.settings.ask_again * 2 ** (times - 1) + 2 * self.ladder.peers.round_trip(target)
        if patience < period:
            heappush(self._asked, _Asked(now + patience, next(self._numbers), times, target, wanted))
            self.ladder.timers.set(_AGAIN, self._asked[0].due)

    def _begin_to_measure(self, now: float, target: int, wanted: PerSender, period: float) -> None:
        """One packet of one request to each peer at a time; if it has not come for a while, it will not."""
        self._timed = {peer: timed for peer, timed in self._timed.items() if timed[2] > now - period}
        sender, numbers = next(iter(wanted.items()))
        self._timed.setdefault(target, (sender, numbers.first, now))

    def _ask_again(self, now: float, out: Effects) -> None:
        while self._asked and self._asked[0].due <= now:
            _, _, times, asked, wanted = heappop(self._asked)
            left = self._still_asking(wanted)
            self.ladder.peers.answered(asked, 1.0 - count(left) / count(wanted))
            for sender, numbers in left.items():
                target = sender if times == 1 and asked != sender and self._may_ask_sender(sender) else self._whom()
                if target is not None:
                    self._request(now, target, {sender: numbers}, out, times + 1)
        self.ladder.timers.set(_AGAIN, self._asked[0].due if self._asked else inf)

    def _may_ask_sender(self, sender: int) -> bool:
        peers = self.ladder.peers
        return self.ladder.rng.random() * len(peers) < _AT_THE_SENDER and sender in peers
