"""How much a sender that its event loop wakes late may make up for at once.

A burst stands in the queue of the slowest link on its way, and how long that queue may be is known only by trying. So
bursts become longer while the ones that were as long as allowed have come through, up to 20 ms' worth, and shorter when
one of them was cut off. A sender that is seldom late tries nothing: there is little to win for what it may cost.
"""

from math import inf

from gossamer.flow.bucket import LATE_BYTES, LATE_S

_LEAST = 0.5 * LATE_BYTES
"""Or beside others, who keep a queue full, a late sender would get next to nothing."""
_AS_ALLOWED = 0.8
_OFTEN_S = 0.05
_LONGER, _SHORTER = 1.1, 0.7
_CAREFULLY = 1.01
"""After the first burst that was too long: each of them costs packets."""


class Lateness:
    """The longest burst, in bytes, and the last one that was as long as that."""

    __slots__ = ("_at", "_last_of_burst", "_longer", "most_bytes")

    def __init__(self) -> None:
        self.most_bytes = LATE_BYTES
        self._at = -inf
        self._last_of_burst = -1
        self._longer = _LONGER

    def sent(self, now: float, last: int, size_bytes: int) -> None:
        """A burst has left, up to packet `last`."""
        if size_bytes < _AS_ALLOWED * self.most_bytes:
            return
        if self._last_of_burst < 0 and now - self._at < _OFTEN_S:
            self._last_of_burst = last
        self._at = now

    def reported(self, newest: int, rate: float, *, overflowed: bool) -> None:
        """What a receiver says of everything up to packet `newest`."""
        if not 0 <= self._last_of_burst <= newest:
            return
        self._last_of_burst = -1
        wanted = self.most_bytes * (_SHORTER if overflowed else self._longer)
        self._longer = _CAREFULLY if overflowed else self._longer
        self.most_bytes = max(_LEAST, min(wanted, LATE_S * rate))
