"""The application's say (000 §2.2, §3.3): whether a missing packet is worth asking for, before each request."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gossamer.core.packet_sets import PacketSets
from gossamer.core.ranges import RangeSet


class Gap(NamedTuple):
    """Packets that are about to be asked for."""

    sender: int
    first: int
    last: int
    age: float
    """Seconds since they were found missing."""
    times_asked: int
    """How often the application was asked about them before, and said yes."""


WorthRepairing = Callable[[Gap], bool]
"""Given by the application: False gives the packets up, and reports them as lost."""


@dataclass(slots=True)
class _Found:
    """A gap as it was found; parts of it may have come since."""

    first: int
    last: int
    at: float
    times_asked: int = 0


class ApplicationSay:
    """Asks the application, and remembers what it needs to know."""

    __slots__ = ("_found", "_worth")

    def __init__(self, worth: WorthRepairing) -> None:
        self._worth = worth
        self._found: dict[int, list[_Found]] = {}  # by sender

    def gap_found(self, now: float, sender: int, first: int, last: int, missing: RangeSet) -> None:
        """A gap to ask about; what is not `missing` any more of older ones is forgotten."""
        known = [found for found in self._found.get(sender, ()) if missing.within(found.first, found.last)]
        self._found[sender] = [*known, _Found(first, last, now)]

    def declined(self, now: float, wanted: PacketSets) -> PacketSets:
        """What of `wanted` the application does not want any more."""
        declined: PacketSets = {}
        for sender, numbers in wanted.items():
            for found, part in self._parts(now, sender, numbers):
                if not self._worth(Gap(sender, *part, now - found.at, found.times_asked)):
                    declined.setdefault(sender, RangeSet()).add(*part)
            for found in self._found.get(sender, ()):
                found.times_asked += bool(numbers.within(found.first, found.last))
        return declined

    def _parts(self, now: float, sender: int, numbers: RangeSet) -> Iterator[tuple[_Found, tuple[int, int]]]:
        known = self._found.get(sender, [])
        for found in known:
            for part in numbers.within(found.first, found.last):
                yield found, part
        found_before = RangeSet()
        for found in known:
            found_before.add(found.first, found.last)
        for part in numbers.difference(found_before).ranges():  # asked for again, from the past
            yield _Found(*part, now), part
