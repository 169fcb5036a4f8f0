"""What an application has taken and not read yet, by packet; however often it is asked, each event is looked at once.

Events of one packet stand side by side, and no packet comes twice. So its end is found by looking further and further.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from gossamer.core.packet_sets import Horizon

Place = tuple[int, int]
"""A sender and the number of a packet."""
PLACE = itemgetter(3, 4)
"""Where an event, a tuple, has its place."""


def count_places(items: Iterable[Any], kind: type[Any]) -> Counter[Place]:
    """How many events each packet has among these items; the others are no events."""
    events: list[Any] = [item for item in items if isinstance(item, kind)]
    return Counter(map(PLACE, events))


def runs(items: Sequence[Any], kind: type[Any], at: int) -> Iterator[tuple[int, int, int]]:
    """The packets among these items from `at` on: where each ends, its sender and its number."""
    total = len(items)
    while at < total:
        if not isinstance(items[at], kind):
            at += 1
            continue
        place: Place = PLACE(items[at])

        def differs(item: Any, place: Place = place) -> bool:
            return not isinstance(item, kind) or PLACE(item) != place

        width = 1
        while at + width < total and not differs(items[at + width]):
            width *= 2
        at = bisect_left(items, True, at + (width + 1) // 2, min(at + width, total), key=differs)
        yield at, *place


class Unread:
    """The items of one list, which are read from its beginning."""

    def __init__(self, items: Sequence[Any], kind: type[Any]) -> None:
        self._items = items
        self._kind = kind
        self._read = 0
        self._left: Counter[Place] | None = None  # few applications stop in the middle
        self._runs: dict[int, deque[tuple[int, int]]] | None = None  # by sender: where a packet ends, and its number

    def first(self, count: int) -> Horizon:
        """By sender: the packet of the first of its events among the last `count` items. `count` never grows."""
        if not count:
            return {}
        upto = len(self._items) - count
        if self._runs is None:
            self._runs = {}
            for end, sender, seqno in runs(self._items, self._kind, upto):
                self._runs.setdefault(sender, deque()).append((end, seqno))
        for sender, some in list(self._runs.items()):
            while some and some[0][0] <= upto:
                some.popleft()
            if not some:
                del self._runs[sender]
        return {sender: some[0][1] for sender, some in self._runs.items()}

    def rest(self, count: int) -> tuple[Any, int]:
        """All items, and where the last `count` of them begin."""
        return self._items, len(self._items) - count

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
