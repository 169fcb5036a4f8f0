"""Buckets: what came in one round, or in a part of it, for buffers that let go of packets in the order they came.

Members that go in step would all make the same buckets, and the same tables of what they hold: those of one process
share them.
"""

from typing import Any, Final

from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Packet, Run, Span
from gossamer.core.ranges import RangeSet

Arrivals = list[Any]
"""Time and run of what came: see `Buffer.arrivals`."""


class Bucket:
    """What came in one round, never to change again. `parts` are its numbers; the index is made when it is needed."""

    __slots__ = ("_index", "_last_turn", "_packets", "arrivals", "count", "numbers", "parts", "time_sum")

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        times, runs = arrivals[::2], arrivals[1::2]
        self.parts = _parts(runs)
        self.numbers: PacketSets = {}
        self.count = 0
        for sender, first, last in self.parts:
            self.numbers.setdefault(sender, RangeSet()).add(first, last)
            self.count += last - first + 1
        if self.count != len(times):  # not one packet at a time, as usual
            times = [len(run) * at for run, at in zip(runs, times, strict=True)]
        self.time_sum = sum(times, 0.0)
        self._index: dict[tuple[int, int], Packet] | None = None
        self._packets: list[Packet] | None = None
        self._last_turn: tuple[PacketSets, list[Span], PacketSets] | None = None

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is in it."""
        if sender not in self.numbers or seqno not in self.numbers[sender]:
            return None
        if self._index is None:
            self._index = {(packet.sender, packet.seqno): packet for packet in self.packets()}
        return self._index[sender, seqno]

    def packets(self) -> list[Packet]:
        """Everything in it, in the order of `parts`."""
        if self._packets is None:
            self._packets = [packet for run in self.arrivals[1::2] for packet in run]
        return self._packets

    def turn(self, held: PacketSets, going: list[Span]) -> PacketSets:
        """What is held once this bucket has come and `going` has gone; one table for all buffers that held the same."""
        last = self._last_turn
        if last is None or last[1] is not going or not _alike(last[0], held):
            self._last_turn = last = held, going, _changed(held, self.parts, going)
        return last[2]


def _parts(runs: list[Run]) -> list[Span]:
    """The numbers of some runs; what follows on from each other, the usual case, is one part."""
    parts = []
    sender = first = last = -1
    for run in runs:
        head = run[0]
        if head.seqno != last + 1 or head.sender != sender:
            if last >= 0:
                parts.append((sender, first, last))
            sender, first = head.sender, head.seqno
        last = run[-1].seqno
    if last >= 0:
        parts.append((sender, first, last))
    return parts


EMPTY: Final = Bucket([])


class LatestBucket:
    """The latest bucket that any member of this process has made: members that go in step would all make the same."""

    __slots__ = ("_bucket",)

    def __init__(self) -> None:
        self._bucket = EMPTY

    def bucket_of(self, arrivals: Arrivals) -> Bucket:
        """The bucket of what came; a copy, so `arrivals` may be used again."""
        if self._bucket.arrivals != arrivals:
            self._bucket = Bucket(arrivals[:])
        return self._bucket


def _alike(one: PacketSets, other: PacketSets) -> bool:
    return one is other or (one == other and list(one) == list(other))


def _changed(held: PacketSets, coming: list[Span], going: list[Span]) -> PacketSets:
    """What is held now. A new table with new sets where they differ: digests on their way still show the old ones."""
    changed = held.copy()
    for sender, first, last in coming:
        numbers = changed.get(sender)
        if numbers is None:
            changed[sender] = RangeSet.span(first, last)
            continue
        if numbers is held.get(sender):
            numbers = changed[sender] = numbers.copy()
        numbers.add(first, last)
    for sender, first, last in going:
        numbers = changed.get(sender)
        if numbers is None:
            continue
        if numbers is held.get(sender):
            numbers = changed[sender] = numbers.copy()
        numbers.discard(first, last)
        if not numbers.firsts:
            del changed[sender]
    return changed
