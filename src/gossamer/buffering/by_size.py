"""A buffer by size: the newest packets, as many as there is room for (what 000 §7.2 recommends in practice)."""

from collections import deque

from gossamer.buffering.occupancy import Occupancy
from gossamer.core.declares import COPIES_KEPT, Declares
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Packet, Run, split_into_runs
from gossamer.core.parts import Buffer
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings


class BySize(Buffer):
    """Keeps the last `buffer_packets` packets, in the runs in which they came; fewer, if `buffer_bytes` are reached."""

    __slots__ = ("_bytes", "_count", "_held", "_index", "_limit_bytes", "_occupancy", "_room", "_runs", "_shown")

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._room = ladder.settings.buffer_packets
        self._limit_bytes = ladder.settings.buffer_bytes
        self._count = self._bytes = 0
        self._runs: deque[tuple[Run, int]] = deque()  # and their bytes
        self._index: dict[int, dict[int, Packet]] = {}
        self._held: PacketSets = {}
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
        sender, first = run[0].sender, run[0].seqno
        collected: PacketSets = {}
        index = self._index.get(sender)
        if index is not None and self._has_any(index, sender, first, run):
            # of the past, asked for again, and some of it still here: a packet is kept once, and the last one counts
            index.update((packet.seqno, packet) for packet in run if packet.seqno in index)
            for part in split_into_runs([packet for packet in run if packet.seqno not in index]):
                self._add_new(now, sender, part, collected)
        else:
            self._add_new(now, sender, run[-self._room :] if len(run) > self._room else run, collected)
        assert self._count <= self._room
        if collected:
            self.ladder.collected(now, collected, False, out)

    def _has_any(self, index: dict[int, Packet], sender: int, first: int, run: Run) -> bool:
        if len(run) == 1:
            return first in index
        held = self._held[sender]
        return first <= held.last and bool(held.within(first, run[-1].seqno))

    def _add_new(self, now: float, sender: int, run: Run, collected: PacketSets) -> None:
        count = len(run)
        while self._count + count > self._room:
            self._drop_oldest(now, self._count + count - self._room, collected)
        size_bytes = _bytes_of(run) if self._limit_bytes else 0
        self._bytes += size_bytes
        while self._bytes > self._limit_bytes > 0 and self._count:
            self._drop_oldest(now, len(self._runs[0][0]), collected)
        first = run[0].seqno
        self._runs.append((run, size_bytes))
        self._count += count
        if sender not in self._held:
            self._held[sender], self._index[sender] = RangeSet(), {}
        if count == 1:
            self._index[sender][first] = run[0]
        else:
            self._index[sender].update(zip(range(first, first + count), run, strict=True))
        self._held[sender].add(first, first + count - 1)
        self._occupancy.entered(count, count * now)

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is kept."""
        return self._index.get(sender, {}).get(seqno)

    def occupancy(self, now: float) -> tuple[int, float]:
        """The most packets that were kept, and the mean until `now`."""
        return self._occupancy.so_far(now)

    def held(self) -> PacketSets:
        """What is kept: a copy that does not change, made only if something came since the last one."""
        if self._shown is None:
            self._shown = {sender: numbers.copy() for sender, numbers in self._held.items()}
        return self._shown

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are kept now."""
        return numbers.intersection(self._held[sender]) if sender in self._held else RangeSet()

    def _drop_oldest(self, now: float, excess: int, collected: PacketSets) -> None:
        """Drop the oldest run, or as much of it as has to go."""
        run, size_bytes = self._runs.popleft()
        if len(run) > excess:
            rest, run = run[excess:], run[:excess]
            left_bytes = _bytes_of(rest) if self._limit_bytes else 0
            self._runs.appendleft((rest, left_bytes))
            size_bytes -= left_bytes
        sender, first, last = run[0].sender, run[0].seqno, run[-1].seqno
        self._count -= len(run)
        self._bytes -= size_bytes
        index = self._index[sender]
        for seqno in range(first, last + 1):
            del index[seqno]
        self._held[sender].discard(first, last)
        if not self._held[sender]:
            del self._held[sender], self._index[sender]
        collected.setdefault(sender, RangeSet()).add(first, last)
        self._occupancy.left(now, len(run))


def _bytes_of(run: Run) -> int:
    return len(run[0].body) if len(run) == 1 else sum([len(packet.body) for packet in run])
