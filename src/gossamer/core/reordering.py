"""How late the packets of a sender come that others have overtaken, so that nobody asks for what is only late.

A packet that overtakes others shows a gap. If the gap is filled by the first pass after all, the link reorders, and it
was late by the time between the two. Where a good share of gaps end like this, a new one is given as much time as the
latest of the last packets needed before anybody is asked (as RACK does in TCP, RFC 8985). Where gaps are losses it is
given none. As long as no gap has ended, nobody knows: then it is given a part of a round trip, if that is long.
"""

from bisect import bisect_right

_SMOOTHING = 0.125
_SHARE_MIN = 0.125
"""If fewer gaps than this were only late it is better to ask at once: that repeats few packets and delays none."""
_MARGIN = 1.125
_SAMPLES = 64
"""The latest of this many late packets counts, and of as many before them."""
_UNKNOWN, _LONG_S = 0.25, 0.15
"""The part of a round trip that the first gaps are given (as in RACK), where it takes this long or longer."""
_GAPS_MAX = 512
"""So many gaps of a sender are remembered; one that is older is not late but lost."""


class Reordering:
    """The gaps of one sender: when they were found, and how they ended."""

    __slots__ = ("_before", "_count", "_firsts", "_found", "_is_known", "_lasts", "_latest", "_share")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._found: list[float] = []
        self._share = 0.0  # of gaps that were filled by a late packet
        self._latest = self._before = 0.0
        self._count = 0
        self._is_known = False  # how any gap has ended

    def gap_found(self, now: float, first: int, last: int) -> None:
        """A gap: numbers ascend from one to the next."""
        if self._lasts and first <= self._lasts[-1]:
            return  # known, and found again
        self._firsts.append(first)
        self._lasts.append(last)
        self._found.append(now)
        if len(self._firsts) >= 2 * _GAPS_MAX:
            for numbers in (self._firsts, self._lasts, self._found):
                del numbers[:_GAPS_MAX]

    def repaired(self) -> None:
        """Something of a gap came as a repair: it was lost, as far as we know."""
        self._is_known = True
        self._share -= _SMOOTHING * self._share

    def came_late(self, now: float, seqno: int) -> None:
        """A first pass came; it was late if its number was in a gap."""
        at = bisect_right(self._firsts, seqno) - 1
        if at < 0 or seqno > self._lasts[at]:
            return
        self._is_known = True
        self._share += _SMOOTHING * (1 - self._share)
        self._latest = max(self._latest, now - self._found[at])
        self._count += 1
        if self._count == _SAMPLES:
            self._before, self._latest, self._count = self._latest, 0.0, 0

    def tolerance(self, round_trip_s: float = 0.0) -> float:
        """How long to wait before a new gap counts as a loss, in seconds."""
        if not self._is_known:
            return _UNKNOWN * round_trip_s if round_trip_s >= _LONG_S else 0.0
        return _MARGIN * max(self._latest, self._before) if self._share > _SHARE_MIN else 0.0
