"""What a worker of a queue has taken and not read yet, by packet; each event is looked at once, at the most twice.

It may get a packet in several parts, since others of the queue may leave parts of it to this one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

Place = tuple[int, int]
"""A sender and the number of a packet."""
PLACE = itemgetter(3, 4)
"""Where an event, a tuple, has its place."""


def count_places(items: Iterable[Any], kind: type[Any]) -> Counter[Place]:
    """How many events each packet has among these items; the others are no events."""
    events: list[Any] = [item for item in items if isinstance(item, kind)]
    return Counter(map(PLACE, events))


class Unread:
    """The items of one list, which are read from its beginning."""

    def __init__(self, items: Sequence[Any], kind: type[Any]) -> None:
        self._items = items
        self._kind = kind
        self._read = 0
        self._left: Counter[Place] | None = None  # few applications stop in the middle

    def last(self, count: int) -> Counter[Place]:
        """The places of the last `count` items: the ones before them were read. `count` never grows."""
        if not count:
            return Counter()
        upto = len(self._items) - count
        if self._left is None:
            self._left = count_places(self._items[upto:], self._kind)
        else:
            self._left -= count_places(self._items[self._read : upto], self._kind)
        self._read = upto
        return self._left
