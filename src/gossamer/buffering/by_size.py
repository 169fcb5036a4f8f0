"""A buffer by size: the newest packets, as many as there is room for (what 000 §7.2 recommends in practice)."""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from operator import attrgetter

from gossamer.buffering.occupancy import Occupancy
from gossamer.core.declares import COPIES_KEPT, Declares
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Packet, Run, split_into_runs
from gossamer.core.parts import Buffer
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings

_BODY = attrgetter("body")
_GONE_MAX = 256


class _Kept:
    """What is kept of one sender: runs by their first numbers, so that nothing is paid for each packet."""

    __slots__ = ("_firsts", "_gone", "_runs", "numbers")

    def __init__(self) -> None:
        self.numbers = RangeSet()
        self._firsts: list[int] = []  # sorted
        self._gone = 0  # so many of these at the beginning: to take them out one by one would move all others
        self._runs: dict[int, Run] = {}

    def add(self, run: Run) -> None:
        """None of these is here."""
        first, firsts = run[0].seqno, self._firsts
        if not firsts or first > firsts[-1]:
            firsts.append(first)
        else:
            insort(firsts, first, self._gone)
        self._runs[first] = run
        self.numbers.add(first, first + len(run) - 1)

    def drop(self, first: int, packets: int) -> None:
        """Forget so many packets, from `first` on, with which a run begins, or what is left of one."""
        firsts, run, left = self._firsts, self._runs.pop(first), first + packets
        at = self._gone if firsts[self._gone] == first else bisect_left(firsts, first, self._gone)
        if left <= run[-1].seqno:
            firsts[at] = left
            self._runs[left] = run  # to cut it each time would take longer than all the rest
        elif at > self._gone:
            del firsts[at]
        else:
            self._gone += 1
            if self._gone == _GONE_MAX:
                del firsts[:_GONE_MAX]
                self._gone = 0
        self.numbers.discard(first, left - 1)

    def get(self, seqno: int) -> Packet | None:
        """The packet, if it is here."""
        at = bisect_right(self._firsts, seqno, self._gone) - 1
        if at < self._gone:
            return None
        run = self._runs[self._firsts[at]]
        return run[seqno - run[0].seqno] if seqno <= run[-1].seqno else None

    def replace(self, packet: Packet) -> None:
        """This one is here, and has come again; others may share the run in which it came."""
        first = self._firsts[bisect_right(self._firsts, packet.seqno, self._gone) - 1]
        run = self._runs[first] = self._runs[first].copy()
        run[packet.seqno - run[0].seqno] = packet


class BySize(Buffer):
    """Keeps the last `buffer_packets` packets, in the runs in which they came; fewer, if `buffer_bytes` are reached."""

    __slots__ = ("_bytes", "_count", "_kept", "_limit_bytes", "_occupancy", "_room", "_runs", "_shown")

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._room = ladder.settings.buffer_packets
        self._limit_bytes = ladder.settings.buffer_bytes
        self._count = self._bytes = 0
        self._runs: deque[tuple[Run, int, int]] = deque()  # as they came; the first number that is left, and bytes
        self._kept: dict[int, _Kept] = {}  # by sender
        self._shown: PacketSets | None = None
        self._occupancy = Occupancy()

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Bounded by its size."""
        bound = settings.buffer_packets
        return Declares(promises=("bounded",), provides=(COPIES_KEPT,), buffer_packets_max=bound)

    def __len__(self) -> int:
        return self._count

    def keep(self, now: float, run: Run, out: Effects) -> None:
        """Store the run, evicting the oldest packets for it."""
        self._shown = None
        collected: PacketSets = {}
        kept = self._kept.get(run[0].sender)
        if kept is not None and run[0].seqno <= kept.numbers.last and kept.numbers.within(run[0].seqno, run[-1].seqno):
            # of the past, asked for again, and some of it still here: a packet is kept once, and the last one counts
            new = [packet for packet in run if packet.seqno not in kept.numbers]
            for packet in run:
                if packet.seqno in kept.numbers:
                    kept.replace(packet)
            for part in split_into_runs(new):
                self._add_new(now, part, collected)
        else:
            self._add_new(now, run[-self._room :] if len(run) > self._room else run, collected)
        assert self._count <= self._room
        if collected:
            self.ladder.collected(now, collected, False, out)

    def _add_new(self, now: float, run: Run, collected: PacketSets) -> None:
        count = len(run)
        while self._count + count > self._room:
            self._drop_oldest(now, self._count + count - self._room, collected)
        size_bytes = _bytes_of(run) if self._limit_bytes else 0
        self._bytes += size_bytes
        while self._bytes > self._limit_bytes > 0 and self._count:
            self._drop_oldest(now, len(self._runs[0][0]), collected)
        self._runs.append((run, run[0].seqno, size_bytes))
        self._count += count
        kept = self._kept.get(run[0].sender)
        if kept is None:
            kept = self._kept[run[0].sender] = _Kept()
        kept.add(run)
        self._occupancy.entered(count, count * now)

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is kept."""
        kept = self._kept.get(sender)
        return None if kept is None else kept.get(seqno)

    def occupancy(self, now: float) -> tuple[int, float]:
        """The most packets that were kept, and the mean until `now`."""
        return self._occupancy.so_far(now)

    def held(self) -> PacketSets:
        """What is kept: a copy that does not change, made only if something came since the last one."""
        if self._shown is None:
            self._shown = {sender: kept.numbers.copy() for sender, kept in self._kept.items()}
        return self._shown

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are kept now."""
        return numbers.intersection(self._kept[sender].numbers) if sender in self._kept else RangeSet()

    def _drop_oldest(self, now: float, excess: int, collected: PacketSets) -> None:
        """Drop the oldest run, or as much of it as has to go."""
        run, first, size_bytes = self._runs.popleft()
        sender, there = run[0].sender, run[-1].seqno + 1 - first
        if there > excess:  # they count as equally long: to look at each takes longer than all the rest
            all_bytes, size_bytes, there = size_bytes, size_bytes * excess // there, excess
            self._runs.appendleft((run, first + excess, all_bytes - size_bytes))
        self._count -= there
        self._bytes -= size_bytes
        kept = self._kept[sender]
        kept.drop(first, there)
        if not kept.numbers:
            del self._kept[sender]
        collected.setdefault(sender, RangeSet()).add(first, first + there - 1)
        self._occupancy.left(now, there)


def _bytes_of(run: Run) -> int:
    return len(run[0].body) if len(run) == 1 else sum(map(len, map(_BODY, run)))
