"""How long a logger keeps what everybody has: not at all, for some time, up to a size, or for ever.

Retention only ever keeps more than stability asks for (000 §5.2): it protects the newest packets, by age or by size;
what it no longer protects goes when it is stable, or has been there for longer than the fail-safe allows.
"""

from collections.abc import Collection
from math import inf

from gossamer.core.inputs import LogSpan
from gossamer.core.packet_sets import Horizon
from gossamer.logging.layers import Layers


class Retention:
    """What is protected, in layers, and `free`: up to where the packets of each sender may go."""

    def __init__(self, age: float, size_bytes: int) -> None:
        self.free: Horizon = {}
        self._off = not age and not size_bytes
        self._age = age or inf
        self._limit = size_bytes or inf
        self._layers = Layers(self._age, self._limit)

    def arrived(self, stretch: LogSpan) -> None:
        """These came to the log."""
        at, sender, last, size_bytes = stretch
        if self._off:
            self.free[sender] = max(self.free.get(sender, -1), last)
        else:
            self._layers.add(at, sender, last, size_bytes)

    def retract(self, sender: int, last: int) -> None:
        """What came of `sender` above `last` was not its own."""
        self._layers.retract(sender, last)
        if self.free.get(sender, -1) > last:
            self.free[sender] = last

    def expire(self, now: float, held: Collection[int]) -> None:
        """Find out what is no longer protected by now, of the senders of which the log holds anything."""
        self._layers.tidy(held)
        self._layers.remove(now - self._age, self._limit, self.free)
