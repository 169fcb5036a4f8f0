"""How long SRM waits before a request or a repair: an interval that grows with distance, given or adapted.

A timer is drawn uniformly from [first d, (first + width) d], d the one-way time to the source of the packet (a request:
C1, C2) or to the member that asked for it (a repair: D1, D2). `first` lets those that are near go before those that are
far; `width` spreads those that are equally far, so that one speaks and the others hear it in time to be silent.

Adapted (Floyd et al. 1997): many duplicates make the interval later and wider, few of them and long delays
earlier and narrower. A member that asked, and then heard a duplicate from one that is half as far again, is the right
one to ask, and asks sooner.
"""

from math import log10
from random import Random

from gossamer.core.ids import owner_of
from gossamer.core.ladder import Ladder

_NEAREST_S, _FARTHEST_S = 0.001, 1.0
"""Bounds of a distance: timers do not tell less apart, and a peer that lies about the time delays nothing for ever."""
_UNKNOWN_S = 0.05
"""As long as nobody was measured."""
_SMOOTHING = 0.25
_DUPLICATES, _NEARLY, _FEW = 1.0, 0.1, 0.25
"""The duplicates that are tolerated, on average; how much below that counts as fewer; and what counts as few."""
_DELAY = 1.0
"""The delay that is tolerated, on average, in round trips."""
_FIRST_MIN, _WIDTH_MIN = 0.5, 1.0


def distance(ladder: Ladder, peer: int) -> float:
    """The one-way time to `peer`, or to the owner of a stream, in seconds; one never measured may be the farthest."""
    times = ladder.round_trips.times
    seconds = times.get(owner_of(peer))
    if seconds is None:
        seconds = max(times.values(), default=2 * _UNKNOWN_S)
    return min(max(seconds / 2, _NEAREST_S), _FARTHEST_S)


class Spread:
    """One of the two intervals, in distances. A negative number stands for the logarithm of the group's size."""

    __slots__ = (
        *("_adapts", "_closest", "_delay", "_first", "_first_max", "_new", "_usual_duplicates", "_width"),
        "duplicates",
    )

    def __init__(self, first: float, width: float, first_max: float, *, adapts: bool) -> None:
        """`first_max` bounds `first` where that is adapted."""
        self._first, self._width, self._first_max = first, width, first_max
        self._adapts = adapts
        self._new = True  # nothing was seen yet
        self._usual_duplicates = self._delay = 0.0  # averages
        self.duplicates = 0
        """How often another one spoke, too, although it was done, since the last timer was set."""
        self._closest = False

    def interval(self, members: int) -> tuple[float, float]:
        """`first` and `width` in a group of this size."""
        usual = log10(max(members, 2))
        return self._first if self._first >= 0 else usual, self._width if self._width >= 0 else usual

    def draw(self, distance_s: float, members: int, rng: Random) -> float:
        """How long to wait."""
        first, width = self.interval(members)
        return distance_s * (first + width * rng.random())

    # What the adapted version learns.

    def begin(self, members: int) -> None:
        """A timer for something new is about to be set: learn from those before."""
        if not self._adapts:
            return
        if self._new:
            self._first, self._width = self.interval(members)
        else:
            self._usual_duplicates += _SMOOTHING * (self.duplicates - self._usual_duplicates)
            self._adapt()
        self._new, self._closest, self.duplicates = False, False, 0
        self._within_bounds(members)

    def spoke(self, members: int) -> None:
        """This member's timer was the first to go off, as far as it knows: it may be the right one."""
        if self._adapts:
            self._first -= 0.05
            self._within_bounds(members)

    def duplicate_from_afar(self) -> None:
        """One of the duplicates came from a member that is half as far again, after this one spoke."""
        self._closest = True

    def delayed(self, round_trips: float) -> None:
        """It took this long until anybody spoke."""
        self._delay += _SMOOTHING * (round_trips - self._delay)

    def _adapt(self) -> None:
        if self._closest:
            self._width -= 0.1
        elif self._usual_duplicates >= _DUPLICATES:
            self._first += 0.1
            self._width += 0.5
        elif self._usual_duplicates >= _DUPLICATES - _NEARLY:
            self._first += 0.05
        else:
            self._width -= 0.1 if self._delay > _DELAY else 0.0
            self._first -= 0.05 if self._usual_duplicates < _FEW else 0.0

    def _within_bounds(self, members: int) -> None:
        first_max = self._first_max if self._first_max >= 0 else log10(max(members, 2))
        self._first = min(max(self._first, _FIRST_MIN), max(first_max, _FIRST_MIN))
        self._width = min(max(self._width, _WIDTH_MIN), max(float(members), _WIDTH_MIN))
