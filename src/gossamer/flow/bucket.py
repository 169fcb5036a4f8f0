"""A rate in bytes, as a token bucket: what may go now, and when the next packet may."""

from collections.abc import Sequence
from itertools import islice
from math import ceil, inf

HEADERS_BYTES = 80
"""About what a packet takes on the network besides its body."""
_BURST_S = 0.001
LATE_S = 0.02
LATE_BYTES = 96_000.0
"""A burst is at most a millisecond's worth. A sender that its event loop wakes late, because the host is busy, may make
up for some of the time, but with no more than the queues on its way have room for (see `lateness`): beyond that, time
that was not used is lost."""


class Bucket:
    """At most `rate` bytes a second. A packet goes as soon as the one before it is paid for, however long it is."""

    __slots__ = ("_at", "_tokens", "late_bytes", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.late_bytes = LATE_BYTES
        self._tokens = 0.0
        self._at = 0.0

    def has_room(self, now: float) -> bool:
        """Whether a packet may go now."""
        return self.room(now) > 0

    def room(self, now: float) -> float:
        """How many bytes may go now; a packet may go while this is above zero."""
        if self.rate == inf:
            return inf
        if now > self._at:
            self._tokens = min(self._burst(), self._tokens + (now - self._at) * self.rate)
            self._at = now
        return self._tokens

    def _burst(self) -> float:
        return max(_BURST_S * self.rate, min(LATE_S * self.rate, self.late_bytes))

    def spend(self, size_bytes: int) -> None:
        """This much was sent."""
        self._tokens -= size_bytes

    def wait(self, now: float) -> float:
        """How long until a packet may go, in seconds."""
        room = self.room(now)
        return 0.0 if room > 0 else max(1e-6, -room / self.rate)


def within(room: float, bodies: Sequence[bytes], most: int) -> int:
    """How many of the packets with these bodies, but at most `most`, may go: the last may be longer than what is left.

    Usually they are equally long, and nothing has to be done for each of them.
    """
    if room <= 0 or most <= 0:
        return 0
    if room == inf:
        return most
    length = len(bodies[0])
    going = min(most, ceil(room / (length + HEADERS_BYTES)))
    if [*map(len, islice(bodies, going))].count(length) == going:
        return going
    for going, body in enumerate(bodies):
        if room <= 0 or going >= most:
            return going
        room -= len(body) + HEADERS_BYTES
    return most
