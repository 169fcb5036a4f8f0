"""A buffer by age: every packet is kept for a number of rounds (000 §4.1 GCLIMIT, 004 §4).

Packets go into the bucket of the round in which they came; a round's end closes the bucket and throws the oldest
one away. So a packet costs one append, and everything else is paid once a round.
"""

from collections import deque

from gossamer.buffering.occupancy import Occupancy
from gossamer.core.messages import PerSender
from gossamer.core.packets import Packet, Run
from gossamer.core.ranges import RangeSet

_NOTHING: PerSender = {}


class _Bucket:
    """The runs of one round. Numbers and index are worked out when somebody asks, once."""

    __slots__ = ("_index", "count", "runs", "time_sum")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.count = 0
        self.time_sum = 0.0
        self._index: dict[tuple[int, int], Packet] | None = None

    def numbers(self) -> PerSender:
        found: PerSender = {}
        for run in self.runs:
            found.setdefault(run[0].sender, RangeSet()).add(run[0].seqno, run[-1].seqno)
        return found

    def get(self, sender: int, seqno: int, closed: bool) -> Packet | None:
        if not closed:
            return next(
                (p for run in self.runs for p in run if p.seqno == seqno and p.sender == sender), None
            )
        if self._index is None:
            self._index = {(p.sender, p.seqno): p for run in self.runs for p in run}
        return self._index.get((sender, seqno))


class ByAge:
    """Keeps everything for `rounds` rounds."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._open = _Bucket()
        self._closed: deque[_Bucket] = deque()
        self._held: PerSender = {}
        self.occupancy = Occupancy()

    def __len__(self) -> int:
        return self.occupancy.count + self._open.count

    def add(self, now: float, run: Run) -> PerSender:
        """Keep these packets; nothing has to go for them."""
        bucket = self._open
        count = len(run)
        bucket.runs.append(run)
        bucket.count += count
        bucket.time_sum += count * now
        return _NOTHING

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is kept."""
        found = self._open.get(sender, seqno, closed=False)
        for bucket in self._closed if found is None else ():
            found = found or bucket.get(sender, seqno, closed=True)
        return found

    def held(self) -> PerSender:
        """What is kept since the last round's end or before."""
        return self._held

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are kept now."""
        kept = numbers.intersection(self._held[sender]) if sender in self._held else RangeSet()
        for run in self._open.runs:
            if run[0].sender == sender:
                for first, last in numbers.within(run[0].seqno, run[-1].seqno):
                    kept.add(first, last)
        return kept

    def round_over(self, now: float) -> PerSender:
        """One round older: what is collected now."""
        closing, self._open = self._open, _Bucket()
        self._closed.append(closing)
        self.occupancy.entered(closing.count, closing.time_sum)
        for sender, numbers in closing.numbers().items():
            self._held.setdefault(sender, RangeSet()).update(numbers)
        if len(self._closed) <= self._rounds:
            return {}
        gone = self._closed.popleft()
        self.occupancy.left(now, gone.count)
        collected = gone.numbers()
        for sender, numbers in collected.items():
            self._held[sender].subtract(numbers)
            if not self._held[sender]:
                del self._held[sender]
        return collected
