"""A buffer of what is not stable: a packet is kept until every member has it (004 §2).

Whoever survives a sender can therefore give its last packets to those that lack them. The buffer has no bound of its
own: the senders' windows bound what is not stable (`flow.slowest`).
"""

from collections import deque
from typing import Any

from gossamer.buffering.occupancy import Occupancy
from gossamer.core.declares import COPIES_KEPT, STABILITY_TOLD, UNSTABLE_KEPT, Declares
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Packet, Run
from gossamer.core.parts import Buffer
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings


class UntilStable(Buffer):
    """By sender the runs that came, about in their order."""

    __slots__ = ("_occupancy", "_runs", "arrivals")

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._runs: dict[int, deque[Run]] = {}
        self._occupancy = Occupancy()
        self.arrivals: list[Any] = []

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Somebody has to say what is stable."""
        return Declares(needs=(STABILITY_TOLD,), provides=(COPIES_KEPT, UNSTABLE_KEPT))

    def __len__(self) -> int:
        self._sort()
        return self._occupancy.count

    def keep(self, now: float, run: Run, out: Effects) -> None:
        """Store the run."""
        self.arrivals += (now, run)

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is kept."""
        self._sort()
        for run in self._runs.get(sender, ()):
            if run[0].seqno <= seqno <= run[-1].seqno:
                return run[seqno - run[0].seqno]
        return None

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are kept now."""
        self._sort()
        kept = RangeSet()
        for run in self._runs.get(sender, ()):
            for first, last in numbers.within(run[0].seqno, run[-1].seqno):
                kept.add(first, last)
        return kept

    def held(self) -> PacketSets:
        """Everything that is kept."""
        self._sort()
        return {s: RangeSet((run[0].seqno, run[-1].seqno) for run in runs) for s, runs in self._runs.items() if runs}

    def occupancy(self, now: float) -> tuple[int, float]:
        """The most packets that were kept, and the mean until `now`."""
        self._sort()
        return self._occupancy.so_far(now)

    def stabilized(self, now: float, sender: int, last: int, out: Effects) -> None:
        """Nobody will ask for these any more. One that came late goes when those before it do."""
        self._sort()
        runs = self._runs.get(sender)
        gone = RangeSet()
        while runs and runs[0][-1].seqno <= last:
            run = runs.popleft()
            self._occupancy.left(now, len(run))
            gone.add(run[0].seqno, run[-1].seqno)
        if gone:
            self.ladder.collected(now, {sender: gone}, True, out)

    def drop(self, now: float, sender: int, first: int, out: Effects) -> None:
        """Nobody was told of these."""
        self._sort()
        gone, left = RangeSet(), deque[Run]()
        for run in self._runs.get(sender, ()):
            stays = [packet for packet in run if packet.seqno < first]
            if stays:
                left.append(stays)
            if len(stays) < len(run):
                gone.add(run[len(stays)].seqno, run[-1].seqno)
        if gone:
            self._runs[sender] = left
            self._occupancy.left(now, len(gone))
            self.ladder.note("collect", "buffer", [(sender, gone)], out)

    def retired(self, now: float, sender: int) -> None:
        """Nothing of it is left to sort; what others may still need of it stays until it is stable."""
        self._sort()
        if not self._runs.get(sender):
            self._runs.pop(sender, None)

    def _sort(self) -> None:
        arrivals = self.arrivals
        for at in range(0, len(arrivals), 2):
            run = arrivals[at + 1]
            sender = run[0].sender
            if sender not in self._runs:
                self._runs[sender] = deque()
            self._runs[sender].append(run)
            self._occupancy.entered(len(run), len(run) * arrivals[at])
        arrivals.clear()
