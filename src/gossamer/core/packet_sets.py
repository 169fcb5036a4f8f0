"""Sets of packets: for each stream, the numbers that are meant. What members lack, have, ask for and forget."""

from typing import Any

from gossamer.core.ids import channel_of
from gossamer.core.ranges import RangeSet

PacketSets = dict[int, RangeSet]
"""For each sender a set of its sequence numbers."""

Horizon = dict[int, int]
"""For each sender one sequence number: a vector time (000 §5.3)."""

_NO_LIMIT = 1 << 62


def put(table: PacketSets, sender: int, numbers: RangeSet) -> None:
    """Enter `numbers`, unless there are none."""
    if numbers:
        table[sender] = numbers


def count(table: PacketSets) -> int:
    """How many packets are in it."""
    return sum(len(numbers) for numbers in table.values())


def remove(table: PacketSets, sender: int, first: int, last: int) -> int:
    """Take `first..last` of `sender` out; returns how many of them were in."""
    numbers = table.get(sender)
    if numbers is None:
        return 0
    there = numbers.discard(first, last)
    if not numbers.firsts:
        del table[sender]
    return there


def difference(table: PacketSets, other: PacketSets) -> PacketSets:
    """What is in `table` and not in `other`."""
    if not other:
        return table
    left = {s: n.difference(other[s]) if s in other else n for s, n in table.items()}
    return {sender: numbers for sender, numbers in left.items() if numbers}


def intersection(table: PacketSets, other: PacketSets) -> PacketSets:
    """What is in both."""
    return {s: both for s, n in table.items() if s in other and (both := n.intersection(other[s]))}


def union(table: PacketSets, other: PacketSets) -> PacketSets:
    """What is in either; a new table with new sets."""
    both = {sender: numbers.copy() for sender, numbers in table.items()}
    for sender, numbers in other.items():
        both.setdefault(sender, RangeSet()).update(numbers)
    return both


def among(kept: dict[int, Any], numbers: RangeSet) -> RangeSet:
    """Which of `numbers` are keys of `kept`, whose keys ascend."""
    if not kept:
        return RangeSet()
    possible = RangeSet(numbers.within(next(iter(kept)), next(reversed(kept))))
    return RangeSet((number, number) for number in possible if number in kept)


def take(table: PacketSets, packets: int, ranges: int = 300) -> PacketSets:
    """The first part of it: at most `packets` (0: no limit) and `ranges` ranges of each sender."""
    taken: PacketSets = {}
    left = packets or _NO_LIMIT
    for sender, numbers in table.items():
        if left <= 0:
            break
        some = RangeSet()
        for first, last in numbers.ranges()[:ranges]:
            last = min(last, first + left - 1)
            some.add(first, last)
            left -= last - first + 1
            if left <= 0:
                break
        put(taken, sender, some)
    return taken


def in_channel_0(table: PacketSets) -> PacketSets:
    """What of it is in the channel that all members hear."""
    return {sender: numbers for sender, numbers in table.items() if not channel_of(sender)}


def by_channel(table: PacketSets) -> dict[int, PacketSets]:
    """The same packets by their channels."""
    found: dict[int, PacketSets] = {}
    for sender, numbers in table.items():
        found.setdefault(channel_of(sender), {})[sender] = numbers
    return found


def in_parts(table: PacketSets, ranges_max: int) -> list[PacketSets]:
    """The same packets as several tables (at least one), none with more than `ranges_max` ranges."""
    parts: list[PacketSets] = [{}]
    room = ranges_max
    for sender, numbers in table.items():
        ranges = numbers.ranges()
        while ranges:
            if not room:
                parts.append({})
                room = ranges_max
            parts[-1][sender] = RangeSet(ranges[:room])
            ranges, room = ranges[room:], room - min(room, len(ranges))
    return parts
