"""A buffer by size: the newest packets, as many as there is room for (what 000 §7.2 recommends in practice)."""

from collections import deque

from gossamer.buffering.occupancy import Occupancy
from gossamer.core.messages import PerSender
from gossamer.core.packets import Packet, Run, split_into_runs
from gossamer.core.ranges import RangeSet


class BySize:
    """Keeps the last `packets` packets, in the runs in which they came; fewer, if they have more than `limit_bytes`."""

    arrivals = None  # what comes may push something out, at once

    def __init__(self, packets: int, limit_bytes: int = 0) -> None:
        self._room = packets
        self._limit_bytes = limit_bytes
        self._count = self._bytes = 0
        self._runs: deque[Run] = deque()
        self._index: dict[int, dict[int, Packet]] = {}
        self._held: PerSender = {}
        self._shown: PerSender | None = None
        self._occupancy = Occupancy()

    def __len__(self) -> int:
        return self._count

    def add(self, now: float, run: Run) -> PerSender:
        """Keep these packets; the oldest make room: those."""
        self._shown = None
        sender, first = run[0].sender, run[0].seqno
        collected: PerSender = {}
        index = self._index.get(sender)
        if index is not None and self._has_any(index, sender, first, run):
            # of the past, asked for again, and some of it still here: a packet is kept once
            for part in split_into_runs([packet for packet in run if packet.seqno not in index]):
                self._add_new(now, sender, part, collected)
        else:
            self._add_new(now, sender, run[-self._room :] if len(run) > self._room else run, collected)
        return collected

    def _has_any(self, index: dict[int, Packet], sender: int, first: int, run: Run) -> bool:
        if len(run) == 1:
            return first in index
        held = self._held[sender]
        return first <= held.last and bool(held.within(first, run[-1].seqno))

    def _add_new(self, now: float, sender: int, run: Run, collected: PerSender) -> None:
        count = len(run)
        while self._count + count > self._room:
            self._drop_oldest(now, self._count + count - self._room, collected)
        if self._limit_bytes:
            self._bytes += _bytes_of(run)
            while self._bytes > self._limit_bytes and self._count:
                self._drop_oldest(now, len(self._runs[0]), collected)
        first = run[0].seqno
        self._runs.append(run)
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

    def held(self) -> PerSender:
        """What is kept. A copy for good, made anew only after something came."""
        if self._shown is None:
            self._shown = {sender: numbers.copy() for sender, numbers in self._held.items()}
        return self._shown

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are kept now."""
        return numbers.intersection(self._held[sender]) if sender in self._held else RangeSet()

    def round_over(self, now: float) -> PerSender:
        """Age does not matter here."""
        return {}

    def _drop_oldest(self, now: float, excess: int, collected: PerSender) -> None:
        """Drop the oldest run, or as much of it as has to go."""
        run = self._runs.popleft()
        if len(run) > excess:
            self._runs.appendleft(run[excess:])
            run = run[:excess]
        sender, first, last = run[0].sender, run[0].seqno, run[-1].seqno
        self._count -= len(run)
        if self._limit_bytes:
            self._bytes -= _bytes_of(run)
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
