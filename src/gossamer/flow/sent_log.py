"""What a sender remembers of its own sending: when a packet went, and how much had gone by then.

Receivers report numbers; this turns numbers into times and bytes. One entry per burst is enough, because the packets of
a burst leave together and are about equally long.
"""

from bisect import bisect_right
from typing import NamedTuple

_BURSTS_MAX = 16_384
"""Older bursts are forgotten: at one in a millisecond, this is a quarter of a minute."""


class Sent(NamedTuple):
    """One packet: when it was sent, and how many bytes had been sent by then, itself included."""

    at: float
    total_bytes: float


class SentLog:
    """The bursts of the last while."""

    __slots__ = ("_ends", "_firsts", "_times", "_totals")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._times: list[float] = []
        self._totals: list[int] = [0]  # one more than there are bursts: before the first, and after each

    def add(self, now: float, first: int, packets: int, size_bytes: int) -> None:
        """A burst of `packets`, from number `first` on, was sent."""
        assert not self._ends or first >= self._ends[-1], "numbers ascend"
        self._firsts.append(first)
        self._ends.append(first + packets)
        self._times.append(now)
        self._totals.append(self._totals[-1] + size_bytes)
        if len(self._firsts) > _BURSTS_MAX:
            for those in (self._firsts, self._ends, self._times, self._totals):
                del those[: _BURSTS_MAX // 2]

    def find(self, seqno: int) -> Sent | None:
        """When `seqno` was sent; None if that is not known (any more)."""
        at = bisect_right(self._firsts, seqno) - 1
        if at < 0 or seqno >= self._ends[at]:
            return None
        before, after = self._totals[at], self._totals[at + 1]
        share = (seqno + 1 - self._firsts[at]) / (self._ends[at] - self._firsts[at])
        return Sent(self._times[at], before + share * (after - before))
