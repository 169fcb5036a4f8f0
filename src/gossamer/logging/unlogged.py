"""What one stream of a member has that no logger has acknowledged, oldest first."""

from collections.abc import Iterable

from gossamer.core.packets import Packet, Run, memory_of
from gossamer.core.ranges import RangeSet

_NOTHING = RangeSet()


class Unlogged:
    """The packets, and which of them a logger should have by now."""

    __slots__ = (
        "_acknowledged_before",
        "_acknowledged_up_to",
        "_copies",
        "_enough",
        "_there_before",
        "kept",
        "let_go",
        "overdue_below",
        "size_bytes",
    )

    def __init__(self, copies: int) -> None:
        """A packet is kept until so many loggers have it."""
        self.kept: dict[int, Packet] = {}
        self.size_bytes = 0
        self.let_go = -1
        """The last packet that was let go, or published while no logger was known."""
        self.overdue_below = 0
        """A logger should have acknowledged everything below this."""
        self._enough = copies
        self._copies: dict[int, RangeSet] = {}  # by logger: what it has of those kept, if one logger is not enough
        self._there_before = 0  # numbers below this were there at the last tick
        self._acknowledged_up_to = self._acknowledged_before = -1  # the latest number, now and at the last tick

    def keep(self, run: Run) -> None:
        """These were published."""
        self.kept.update((packet.seqno, packet) for packet in run)
        self.size_bytes += memory_of(run)

    def remove(self, seqno: int) -> None:
        """A logger has it, or nobody waits for one."""
        self.size_bytes -= memory_of([self.kept.pop(seqno)])
        assert self.size_bytes >= 0

    def drop_oldest(self) -> None:
        """Make room."""
        self.let_go = next(iter(self.kept))
        self.remove(self.let_go)

    def has(self, logger: int, first: int, last: int) -> list[tuple[int, int]]:
        """`logger` has these, of which all exist; returns what of it is kept no longer."""
        first = max(first, next(iter(self.kept), last + 1))  # numbers only grow, so the first kept is the oldest
        self._acknowledged_up_to = max(self._acknowledged_up_to, last)
        if first > last:
            return []
        settled = RangeSet.span(first, last)
        if self._enough > 1:
            self._copies.setdefault(logger, RangeSet()).add(first, last)
            settled = RangeSet((s, s) for s in range(first, last + 1) if self._copies_of(s) >= self._enough)
        for part in settled.ranges():
            for seqno in range(part[0], part[1] + 1):
                if seqno in self.kept:
                    self.remove(seqno)
        if self._enough > 1:
            oldest = next(iter(self.kept), last + 1)
            for has in self._copies.values():
                has.discard(0, oldest - 1)
        return settled.ranges()

    def _copies_of(self, seqno: int) -> int:
        return sum(seqno in has for has in self._copies.values())

    def tick(self, following: int, *, careful: bool) -> None:
        """What was there at the last tick and is still here is overdue; everything below `following` is there now.

        If one is `careful`, nothing is overdue that is newer than the latest acknowledgement while these go on.
        """
        latest, goes_on = self._acknowledged_up_to, self._acknowledged_up_to > self._acknowledged_before
        self._acknowledged_before = latest
        self.overdue_below = min(self._there_before, latest + 1) if goes_on and careful else self._there_before
        self._there_before = following

    def overdue(self, logger: int, most: int) -> RangeSet:
        """The oldest packets that are overdue and that `logger` lacks, at most so many."""
        numbers: Iterable[int] = self.kept
        if logger in self._copies:  # then most of what is kept may be in its log, and wait for another
            first = next(iter(self.kept), self.overdue_below)
            span = RangeSet.span(first, self.overdue_below - 1) if first < self.overdue_below else RangeSet()
            numbers = span.difference(self._copies[logger])
        overdue = RangeSet()
        for seqno in numbers:
            if seqno >= self.overdue_below or len(overdue) >= most:
                break
            if seqno in self.kept:
                overdue.add(seqno)
        return overdue
