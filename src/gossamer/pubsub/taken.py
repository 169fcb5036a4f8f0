"""What a durable reader has taken, by packet.

Events of one packet stand side by side, and no packet comes twice. So its events are a part of a list, of which only
the ends are looked for; and the events need not be kept, so that their memory is there for the next ones.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from gossamer.core.packet_sets import Horizon
from gossamer.pubsub.unread import PLACE, Place

_END = attrgetter("end")


class Part(NamedTuple):
    """The events of one packet among some items."""

    begin: int
    end: int
    place: Place


def parts(items: Sequence[Any], kind: type[Any]) -> Iterator[Part]:
    """The packets among these items, in their order; those that are no events are left out."""
    at, total = 0, len(items)
    width = 1  # of the packet before: most are alike
    while at < total:
        if not isinstance(items[at], kind):
            at += 1
            continue
        place: Place = PLACE(items[at])

        def differs(item: Any, place: Place = place) -> bool:
            return not isinstance(item, kind) or PLACE(item) != place

        if at + width > total or differs(items[at + width - 1]):
            width = 1
        known = width
        while at + width < total and not differs(items[at + width]):
            known, width = width + 1, 2 * width
        if width > known:
            width = bisect_left(items, True, at + known, min(at + width, total), key=differs) - at
        yield Part(at, at + width, place)
        at += width


class Taken:
    """The items of one list, which are read from its beginning."""

    def __init__(self, items: Sequence[Any] = (), kind: type[Any] = object) -> None:
        self.parts = list(parts(items, kind))
        self._total = len(items)
        self._unread: dict[int, deque[Part]] | None = None  # by sender; few applications stop in the middle

    def places(self, count: int | None = None) -> Counter[Place]:
        """How many events each packet has among the last `count` items, or among all."""
        begin = 0 if count is None else self._total - count
        return Counter({part.place: part.end - max(part.begin, begin) for part in self._from(begin)})

    def first(self, count: int) -> Horizon:
        """By sender: the packet of the first of its events among the last `count` items. `count` never grows."""
        begin = self._total - count
        if self._unread is None and count:
            self._unread = {}
            for part in self._from(begin):
                self._unread.setdefault(part.place[0], deque()).append(part)
        found: Horizon = {}
        for sender, some in (self._unread or {}).items():
            while some and some[0].end <= begin:
                some.popleft()
            if some:
                found[sender] = some[0].place[1]
        return found

    def _from(self, begin: int) -> list[Part]:
        """The packets that end behind this item."""
        return self.parts[bisect_left(self.parts, begin + 1, key=_END) :]
