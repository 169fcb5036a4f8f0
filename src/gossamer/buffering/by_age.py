"""A buffer by age: every packet is kept for a number of rounds (000 §4.1 GCLIMIT, 004 §4).

What comes is only noted down; the end of a round makes a bucket of it and throws the oldest bucket away. So a packet
costs an append, and everything else is paid once a round.
"""

from collections import deque
from typing import Any, Final

from gossamer.buffering.occupancy import Occupancy
from gossamer.core.declares import AGEING, COPIES_KEPT, Declares
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Packet, Run, Span
from gossamer.core.parts import Buffer
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings

Arrivals = list[Any]
"""Time and run of what came: see `Buffer.arrivals`."""


class _Bucket:
    """What came in one round, never to change again. `parts` are its numbers; the index is made when it is needed."""

    __slots__ = ("_index", "_last_turn", "arrivals", "count", "numbers", "parts", "time_sum")

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
        self._last_turn: tuple[PacketSets, list[Span], PacketSets] | None = None

    def get(self, sender: int, seqno: int) -> Packet | None:
        if sender not in self.numbers or seqno not in self.numbers[sender]:
            return None
        if self._index is None:
            self._index = {(p.sender, p.seqno): p for run in self.arrivals[1::2] for p in run}
        return self._index[sender, seqno]

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


_EMPTY: Final = _Bucket([])


class _Latest:
    """The latest bucket that any member of this process has made: members that go in step would all make the same."""

    __slots__ = ("_bucket",)

    def __init__(self) -> None:
        self._bucket = _EMPTY

    def bucket_of(self, arrivals: Arrivals) -> _Bucket:
        if self._bucket.arrivals != arrivals:
            self._bucket = _Bucket(arrivals[:])
        return self._bucket


def _alike(one: PacketSets, other: PacketSets) -> bool:
    return one is other or (one == other and list(one) == list(other))


class ByAge(Buffer):
    """Keeps everything for `gc_rounds` rounds."""

    __slots__ = ("_closed", "_held", "_latest", "_occupancy", "_rounds", "arrivals")

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._rounds = ladder.settings.gc_rounds
        self._closed: deque[_Bucket] = deque()
        self._held: PacketSets = {}
        self._occupancy = Occupancy()
        self._latest: _Latest = ladder.siblings.setdefault(ByAge, _Latest())
        self.arrivals: Arrivals = []
        """What came in this round. The stack may append here instead of calling `keep`."""

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Bounded by what comes in `gc_rounds` rounds."""
        return Declares(promises=("bounded",), provides=(COPIES_KEPT, AGEING))

    def __len__(self) -> int:
        return self._occupancy.count + sum(map(len, self.arrivals[1::2]))

    def keep(self, now: float, run: Run, out: Effects) -> None:
        """Store the run; nothing has to go for it."""
        self.arrivals += (now, run)

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is kept."""
        for bucket in reversed(self._closed):
            found = bucket.get(sender, seqno)
            if found is not None:
                return found
        for run in self.arrivals[1::2]:  # little, and still growing
            if run[0].sender == sender and run[0].seqno <= seqno <= run[-1].seqno:
                packet: Packet = run[seqno - run[0].seqno]
                return packet
        return None

    def occupancy(self, now: float) -> tuple[int, float]:
        """The most packets that were kept, and the mean until `now`."""
        entering = _Bucket(self.arrivals)
        return self._occupancy.so_far(now, entering.count, entering.time_sum)

    def held(self) -> PacketSets:
        """What is kept since the last round's end or before. Neither the table nor its sets change ever after."""
        return self._held

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are kept now."""
        kept = numbers.intersection(self._held[sender]) if sender in self._held else RangeSet()
        for run in self.arrivals[1::2]:
            if run[0].sender == sender:
                for first, last in numbers.within(run[0].seqno, run[-1].seqno):
                    kept.add(first, last)
        return kept

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """One round older: the oldest bucket goes."""
        closing = going = _EMPTY
        if self.arrivals:
            closing = self._latest.bucket_of(self.arrivals)
            self.arrivals.clear()
            self._occupancy.entered(closing.count, closing.time_sum)
        self._closed.append(closing)
        if len(self._closed) > self._rounds:
            going = self._closed.popleft()
            self._occupancy.left(now, going.count)
        if closing is not _EMPTY or going is not _EMPTY:
            self._held = closing.turn(self._held, going.parts)
            assert self._occupancy.count >= 0
        if going.count:
            self.ladder.collected(now, going.numbers, True, out)


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
