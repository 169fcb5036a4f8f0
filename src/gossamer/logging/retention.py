"""How long a logger keeps what everybody has: not at all, for some time, up to a size, or for ever.

Retention only ever keeps more than stability asks for (000 §5.2): it protects the newest packets, by age or by size;
what it no longer protects goes when it is stable, or has been there for longer than the fail-safe allows.
"""

from collections import deque
from math import inf

from gossamer.core.inputs import LogSpan
from gossamer.core.packet_sets import Horizon


class Retention:
    """What came, oldest first, for as long as it is protected."""

    def __init__(self, age: float, size_bytes: int) -> None:
        self.off = not age and not size_bytes
        self._age = age or inf
        self._limit = size_bytes or inf
        self._protected: deque[LogSpan] = deque()
        self._bytes = 0
        self._free: Horizon = {}

    def arrived(self, stretch: LogSpan) -> None:
        """These came to the log."""
        if not self.off:
            self._protected.append(stretch)
            self._bytes += stretch.size_bytes

    def free_below(self, now: float, sender: int, stable: int) -> int:
        """The number up to which the packets of `sender` may go, of those up to `stable`."""
        if self.off:
            return stable
        while self._protected and (self._protected[0].at < now - self._age or self._bytes > self._limit):
            _, owner, last, size_bytes = self._protected.popleft()
            self._bytes -= size_bytes
            self._free[owner] = max(self._free.get(owner, -1), last)
        return min(stable, self._free.get(sender, -1))
