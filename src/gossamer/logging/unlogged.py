"""What one stream of a member has that no logger has acknowledged, oldest first."""

from collections.abc import Iterable
from functools import reduce

from gossamer.core.packets import Packet, Run, memory_of
from gossamer.core.ranges import RangeSet

_NOTHING = RangeSet()


class Unlogged:
    """The packets, and which of them were repeated to a logger."""

    __slots__ = (
        "_acknowledged_before",
        "_acknowledged_up_to",
        "_copies",
        "_enough",
        "_overdue_below",
        "kept",
        "let_go",
        "on_their_way",
        "repeated_below",
        "size_bytes",
    )

    def __init__(self, copies: int) -> None:
        """A packet is kept until so many loggers have it."""
        self.kept: dict[int, Packet] = {}
        self.size_bytes = 0
        self.let_go = -1
        """The last packet that was let go, or published while no logger was known."""
        self.repeated_below = 0
        """Numbers below this were repeated since the last tick."""
        self.on_their_way = 0
        """How many of these are still kept."""
        self._enough = copies
        self._copies: dict[int, RangeSet] = {}  # by logger: what it has of those kept, if one logger is not enough
        self._overdue_below = 0  # numbers below this were there at the last tick already
        self._acknowledged_up_to = self._acknowledged_before = -1  # the latest number, now and at the last tick

    def keep(self, run: Run) -> None:
        """These were published."""
        self.kept.update((packet.seqno, packet) for packet in run)
        self.size_bytes += memory_of(run)

    def remove(self, seqno: int) -> None:
        """A logger has it, or nobody waits for one."""
        self.size_bytes -= memory_of([self.kept.pop(seqno)])
        if seqno < self.repeated_below:
            self.on_their_way -= 1
        assert self.size_bytes >= 0

    def drop_oldest(self) -> None:
        """Make room."""
        self.let_go = next(iter(self.kept))
        self.remove(self.let_go)

    def has(self, logger: int, first: int, last: int) -> None:
        """`logger` has these, of which all exist."""
        first = max(first, next(iter(self.kept), last + 1))  # numbers only grow, so the first kept is the oldest
        self._acknowledged_up_to = max(self._acknowledged_up_to, last)
        if first > last:
            return
        if self._enough > 1:
            self._copies.setdefault(logger, RangeSet()).add(first, last)
        for seqno in range(first, last + 1):
            if seqno in self.kept and (self._enough == 1 or self._copies_of(seqno) >= self._enough):
                self.remove(seqno)
        if self._enough > 1:
            oldest = next(iter(self.kept), last + 1)
            for has in self._copies.values():
                has.discard(0, oldest - 1)

    def _copies_of(self, seqno: int) -> int:
        return sum(seqno in has for has in self._copies.values())

    def lacking(self, logger: int, numbers: RangeSet) -> RangeSet:
        """What of `numbers` this logger has not acknowledged."""
        return numbers.difference(self._copies.get(logger, _NOTHING))

    def tick(self, *, careful: bool) -> None:
        """What was repeated before and is still here was lost again: begin with the oldest.

        If one is `careful`, nothing is overdue that is newer than the latest acknowledgement while these go on.
        """
        self.repeated_below = self.on_their_way = 0
        latest, goes_on = self._acknowledged_up_to, self._acknowledged_up_to > self._acknowledged_before
        self._acknowledged_before = latest
        if goes_on and careful:
            self._overdue_below = min(self._overdue_below, latest + 1)

    def age(self, following: int) -> None:
        """At the next tick everything below `following` is overdue."""
        self._overdue_below = following

    def repeat(self, numbers: RangeSet) -> None:
        """These are on their way to loggers again."""
        self.repeated_below = numbers.last + 1
        self.on_their_way += len(numbers)

    def overdue(self, loggers: list[int], room: int) -> RangeSet:
        """The oldest packets, at most `room`, that were there at the last tick and that one of these loggers lacks."""
        numbers: Iterable[int] = self.kept
        if self._copies:  # then most of what is kept may be in one log, and wait for another
            first = max(next(iter(self.kept), 0), self.repeated_below)
            span = RangeSet.span(first, self._overdue_below - 1) if first < self._overdue_below else RangeSet()
            has = [self._copies.get(logger, _NOTHING) for logger in loggers]
            numbers = span.difference(reduce(RangeSet.intersection, has)) if has else span
        overdue = RangeSet()
        for seqno in numbers:
            if seqno >= self._overdue_below or len(overdue) >= room:
                break
            if seqno >= self.repeated_below and seqno in self.kept:
                overdue.add(seqno)
        return overdue
