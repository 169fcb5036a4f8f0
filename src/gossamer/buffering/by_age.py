"""A buffer by age: every packet is kept for a number of rounds (000 §4.1 GCLIMIT, 004 §4).

What comes is only noted down; the end of a round makes a bucket of it and throws the oldest bucket away. So a packet
costs an append, and everything else is paid once a round.
"""

from collections import deque

from gossamer.buffering.buckets import EMPTY, Arrivals, Bucket, LatestBucket
from gossamer.buffering.occupancy import Occupancy
from gossamer.core.declares import AGEING, COPIES_KEPT, Declares
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Packet, Run
from gossamer.core.parts import Buffer
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings


class ByAge(Buffer):
    """Keeps everything for `gc_rounds` rounds."""

    __slots__ = ("_closed", "_held", "_latest", "_occupancy", "_rounds", "arrivals")

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._rounds = ladder.settings.gc_rounds
        self._closed: deque[Bucket] = deque()
        self._held: PacketSets = {}
        self._occupancy = Occupancy()
        self._latest: LatestBucket = ladder.siblings.setdefault(ByAge, LatestBucket())
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
        entering = Bucket(self.arrivals)
        return self._occupancy.so_far(now, entering.count, entering.time_sum)

    def held(self) -> PacketSets:
        """What is kept since the last round's end or before. Neither the table nor its sets change ever after."""
        return self._held

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are kept now."""
        kept = numbers.intersection(self._held[sender]) if sender in self._held else RangeSet()
        if not numbers:
            return kept
        lowest, highest = numbers.first, numbers.last
        for run in self.arrivals[1::2]:
            if run[0].sender == sender and run[0].seqno <= highest and lowest <= run[-1].seqno:
                for first, last in numbers.within(run[0].seqno, run[-1].seqno):
                    kept.add(first, last)
        return kept

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """One round older: the oldest bucket goes."""
        closing = going = EMPTY
        if self.arrivals:
            closing = self._latest.bucket_of(self.arrivals)
            self.arrivals.clear()
            self._occupancy.entered(closing.count, closing.time_sum)
        self._closed.append(closing)
        if len(self._closed) > self._rounds:
            going = self._closed.popleft()
            self._occupancy.left(now, going.count)
        if closing is not EMPTY or going is not EMPTY:
            self._held = closing.turn(self._held, going.parts)
            assert self._occupancy.count >= 0
        if going.count:
            self.ladder.collected(now, going.numbers, True, out)
