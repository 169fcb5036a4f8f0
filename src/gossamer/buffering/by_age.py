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
    """The runs of one round. Its numbers are worked out when it is closed, its index when somebody asks."""

    __slots__ = ("_index", "count", "numbers", "runs", "time_sum")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.count = 0
        self.time_sum = 0.0
        self.numbers: PerSender = {}
        self._index: dict[tuple[int, int], Packet] | None = None

    def close(self) -> PerSender:
        """Nothing more comes: the numbers. Runs that follow on from each other, the usual case, are one range."""
        sender = first = last = -1
        for run in self.runs:
            head = run[0]
            if head.seqno != last + 1 or head.sender != sender:
                if last >= 0:
                    self._add(sender, first, last)
                sender, first = head.sender, head.seqno
            last = run[-1].seqno
        if last >= 0:
            self._add(sender, first, last)
        return self.numbers

    def _add(self, sender: int, first: int, last: int) -> None:
        if sender in self.numbers:
            self.numbers[sender].add(first, last)
        else:
            self.numbers[sender] = RangeSet(((first, last),))

    def search(self, sender: int, seqno: int) -> Packet | None:
        """Look through what came so far: little, and still growing."""
        for run in self.runs:
            if run[0].sender == sender and run[0].seqno <= seqno <= run[-1].seqno:
                return run[seqno - run[0].seqno]
        return None

    def get(self, sender: int, seqno: int) -> Packet | None:
        if sender not in self.numbers or seqno not in self.numbers[sender]:
            return None
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
        self._occupancy = Occupancy()

    def __len__(self) -> int:
        return self._occupancy.count + self._open.count

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
        for bucket in reversed(self._closed):
            found = bucket.get(sender, seqno)
            if found is not None:
                return found
        return self._open.search(sender, seqno)

    def occupancy(self, now: float) -> tuple[int, float]:
        """The most packets that were kept, and the mean until `now`."""
        return self._occupancy.so_far(now, self._open.count, self._open.time_sum)

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
        self._occupancy.entered(closing.count, closing.time_sum)
        held = self._held
        for sender, numbers in closing.close().items():
            if sender in held:
                held[sender].update(numbers)
            else:
                held[sender] = numbers.copy()
        if len(self._closed) <= self._rounds:
            return {}
        gone = self._closed.popleft()
        self._occupancy.left(now, gone.count)
        for sender, numbers in gone.numbers.items():
            held[sender].subtract(numbers)
            if not held[sender]:
                del held[sender]
        return gone.numbers
