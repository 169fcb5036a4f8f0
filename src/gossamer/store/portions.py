"""What is to be collected, in portions for one transaction each: a sweep of many senders is few transactions."""

from collections.abc import Iterator

from gossamer.core.packet_sets import PacketSets
from gossamer.core.ranges import RangeSet

Stretch = tuple[int, int, int]
"""A sender, and a range of its numbers."""
_NOTHING = RangeSet()


def portions(wanted: list[Stretch], held: PacketSets, entries_max: int) -> Iterator[list[Stretch]]:
    """The same packets in portions, in each of which at most `entries_max` are held, and as many stretches."""
    portion: list[Stretch] = []
    room = entries_max
    for sender, first, last in wanted:
        while first <= last:
            until = _shortened(RangeSet(held.get(sender, _NOTHING).within(first, last)), last, room)
            portion.append((sender, first, until))
            room -= 1 + len(RangeSet(held.get(sender, _NOTHING).within(first, until)))
            first = until + 1
            if room <= 0:
                yield portion
                portion, room = [], entries_max
    if portion:
        yield portion


def _shortened(held: RangeSet, last: int, entries_max: int) -> int:
    """Where a sweep up to `last` over `held` must end to take at most `entries_max`."""
    for first, end in held.ranges():
        if end - first + 1 >= entries_max:
            return first + entries_max - 1
        entries_max -= end - first + 1
    return last
