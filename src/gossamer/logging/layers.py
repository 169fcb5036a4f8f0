"""What came to a log, oldest first, in layers: a log of any size and age has about a thousand of them.

Of each sender a layer has only the last number that came in its time: that is all that is needed to say up to where
packets are older than the layer. A note for each run of packets would be as many as there is traffic in two days.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from gossamer.core.packet_sets import Horizon

_LAYERS = 1000
"""Into about this many the time, or the size, is divided that a log is kept for."""
_ENTRIES_MIN = 1000
"""So few entries need no tidying."""


@dataclass(slots=True)
class Layer:
    """What came between two moments."""

    began: float
    ended: float
    size_bytes: int = 0
    lasts: Horizon = field(default_factory=dict)


class Layers:
    """The layers of one log; `age` and `size_bytes` are how old and how large it is to become."""

    def __init__(self, age: float, size_bytes: float) -> None:
        self.size_bytes = 0
        self._entries = 0
        self._span_s = age / _LAYERS
        self._span_bytes = size_bytes / _LAYERS
        self._layers: deque[Layer] = deque()

    def add(self, at: float, sender: int, last: int, size_bytes: int) -> None:
        """Packets of `sender` up to `last` came."""
        top = self._layers[-1] if self._layers else None
        if top is None or at > top.began + self._span_s or top.size_bytes >= self._span_bytes:
            top = Layer(at, at)
            self._layers.append(top)
        top.ended = at
        top.size_bytes += size_bytes
        self.size_bytes += size_bytes
        before = top.lasts.get(sender, -1)
        if last > before:
            top.lasts[sender] = last
            self._entries += before < 0

    def remove(self, before: float, size_bytes: float, into: Horizon) -> None:
        """Remove what came before then, and the oldest beyond that size; of each sender the last goes `into`."""
        while self._layers and (self._layers[0].ended < before or self.size_bytes > size_bytes):
            gone = self._layers.popleft()
            self.size_bytes -= gone.size_bytes
            self._entries -= len(gone.lasts)
            for sender, last in gone.lasts.items():
                into[sender] = max(into.get(sender, -1), last)

    def retract(self, sender: int, last: int) -> None:
        """What came of `sender` above `last` was not its own."""
        for layer in self._layers:
            if layer.lasts.get(sender, -1) > last:
                layer.lasts[sender] = last

    def tidy(self, held: Collection[int]) -> None:
        """Forget senders of which the log holds nothing any more, if they may be most of those that are known."""
        if self._entries < _ENTRIES_MIN + 2 * len(held):
            return
        for layer in self._layers:
            layer.lasts = {sender: last for sender, last in layer.lasts.items() if sender in held}
        self._entries = sum(len(layer.lasts) for layer in self._layers)
