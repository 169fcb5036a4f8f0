"""A buffer by size: the newest packets, as many as there is room for (what 000 §7.2 recommends in practice).

Nearly everything that is kept goes again without anybody having asked for it. So what comes is only noted down, and put
in its place when somebody asks.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from operator import attrgetter

from gossamer.buffering.occupancy import Occupancy
from gossamer.core.declares import COPIES_KEPT, Declares
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Packet, Run, Span, split_into_runs
from gossamer.core.parts import Buffer
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings

_BODY = attrgetter("body")
_GONE_MAX = 256


class _Kept:
    """What is kept of one sender: runs by their first numbers, so that nothing is paid for each packet."""

    __slots__ = ("_firsts", "_gone", "_numbers", "_runs", "last", "new")

    def __init__(self) -> None:
        self.last = -1
        """The highest number that has come."""
        self.new: deque[Run] = deque()
        """Runs that came since somebody asked, each of packets that were not here; all others came before them."""
        self._numbers = RangeSet()
        self._firsts: list[int] = []  # sorted
        self._gone = 0  # so many of these at the beginning: to take them out one by one would move all others
        self._runs: dict[int, Run] = {}

    def numbers(self) -> RangeSet:
        """Those that are here."""
        while self.new:
            self._enter(self.new.popleft())
        return self._numbers

    def _enter(self, run: Run) -> None:
        first, firsts = run[0].seqno, self._firsts
        if not firsts or first > firsts[-1]:
            firsts.append(first)
        else:
            insort(firsts, first, self._gone)
        self._runs[first] = run
        self._numbers.add(first, first + len(run) - 1)

    def drop(self, first: int, packets: int) -> bool:
        """Forget so many packets, from `first` on, with which the oldest run begins, or what is left of it.

        Returns whether anything is left.
        """
        if not self._runs:  # nobody has asked for the oldest one
            oldest = self.new.popleft()
            if len(oldest) == packets:
                return bool(self.new)
            self._enter(oldest)
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
        self._numbers.discard(first, left - 1)
        return bool(self._runs or self.new)

    def get(self, seqno: int) -> Packet | None:
        """The packet, if it is here."""
        if self.new:
            self.numbers()
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

    __slots__ = ("_bytes", "_kept", "_limit_bytes", "_occupancy", "_room", "_runs", "_shown")

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._room = ladder.settings.buffer_packets
        self._limit_bytes = ladder.settings.buffer_bytes
        self._bytes = 0
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
        return self._occupancy.count

    def keep(self, now: float, run: Run, out: Effects) -> None:
        """Store the run, evicting the oldest packets for it."""
        self._shown = None
        gone: list[Span] = []
        first, kept = run[0].seqno, self._kept.get(run[0].sender)
        if kept is not None and first <= kept.last and kept.numbers().within(first, run[-1].seqno):
            self._keep_again(now, run, kept, gone)
        else:
            self._add_new(now, run[-self._room :] if len(run) > self._room else run, gone)
        if gone and self.ladder.tells_collected:
            self.ladder.collected(now, _sets_of(gone), False, out)

    def _keep_again(self, now: float, run: Run, kept: _Kept, gone: list[Span]) -> None:
        """Of the past, asked for again, and some of it still here: a packet is kept once, and the last one counts."""
        numbers = kept.numbers()
        new = [packet for packet in run if packet.seqno not in numbers]
        for packet in run:
            if packet.seqno in numbers:
                kept.replace(packet)
        for part in split_into_runs(new):
            self._add_new(now, part, gone)

    def _add_new(self, now: float, run: Run, gone: list[Span]) -> None:
        sender, came, size_bytes = run[0].sender, len(run), 0
        if self._limit_bytes:
            size_bytes = len(run[0].body) if came == 1 else sum(map(len, map(_BODY, run)))
        left = self._make_room(came, size_bytes, gone)
        self._runs.append((run, run[0].seqno, size_bytes))
        self._bytes += size_bytes
        kept = self._kept.get(sender)
        if kept is None:
            kept = self._kept[sender] = _Kept()
        kept.new.append(run)
        kept.last = max(kept.last, run[-1].seqno)
        self._occupancy.exchanged(now, came, left)

    def _make_room(self, packets: int, size_bytes: int, gone: list[Span]) -> int:
        """Drop the oldest runs, or as much of one as has to go, for so many packets and bytes; how many that were."""
        runs, left = self._runs, 0
        excess = self._occupancy.count + packets - self._room
        while runs and (excess > left or self._bytes + size_bytes > self._limit_bytes > 0):
            run, first, run_bytes = runs.popleft()
            sender, there = run[0].sender, run[-1].seqno + 1 - first
            if 0 < excess - left < there:  # they count as equally long: to look at each takes longer than all the rest
                part, all_bytes = excess - left, run_bytes
                run_bytes = all_bytes * part // there
                runs.appendleft((run, first + part, all_bytes - run_bytes))
                there = part
            left += there
            self._bytes -= run_bytes
            if not self._kept[sender].drop(first, there):
                del self._kept[sender]
            gone.append((sender, first, first + there - 1))
        assert excess <= left
        return left

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
            self._shown = {sender: kept.numbers().copy() for sender, kept in self._kept.items()}
        return self._shown

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are kept now."""
        return numbers.intersection(self._kept[sender].numbers()) if sender in self._kept else RangeSet()


def _sets_of(spans: list[Span]) -> PacketSets:
    sets: PacketSets = {}
    for sender, first, last in spans:
        sets.setdefault(sender, RangeSet()).add(first, last)
    return sets
