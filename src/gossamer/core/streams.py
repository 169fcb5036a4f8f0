"""What a member knows of each sender: how far it has seen, and which packets below that it lacks.

000 §3.3: of every sequence number up to the last one seen, exactly one of three is true: delivered,
waiting to be delivered, or missing (Property 3.5). A number is never accepted twice (Property 3.4).
"""

from gossamer.core.packets import Run
from gossamer.core.ranges import Range, RangeSet


class Stream:
    """One sender as one member sees it. `next` is the first number not yet seen.

    Below it, `missing` are awaited; `absent` are not and never came (given up, never sent); numbers below
    `start` were sent before this member joined.
    """

    __slots__ = ("absent", "missing", "next", "start")

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.next = start
        self.missing = RangeSet()
        self.absent = RangeSet()

    def accept(self, run: Run) -> tuple[Run, Range | None]:
        """Take in a run: the packets that are new, and the gap that the run revealed, if any."""
        first, last = run[0].seqno, run[-1].seqno
        expected = self.next
        if first == expected:
            self.next = last + 1
            return run, None
        if first > expected:
            self.next = last + 1
            self.missing.add(expected, first - 1)
            return run, (expected, first - 1)
        fresh = [p for p in run if p.seqno >= expected or p.seqno in self.missing]
        if fresh:
            self.missing.discard(first, last)
            self.next = max(expected, last + 1)
        return fresh, None

    def learn(self, last: int) -> Range | None:
        """Packets up to `last` are known to exist: the gap that this reveals, if any."""
        if last < self.next:
            return None
        gap = (self.next, last)
        self.missing.add(*gap)
        self.next = last + 1
        return gap

    def rewind(self, first: int, held: RangeSet) -> tuple[RangeSet, RangeSet]:
        """Await everything from `first` on anew that is `held` by a log; what is awaited, and what never comes.

        What was seen here, or is behind the log's last, may not have reached the log yet: that is awaited, too.
        """
        wanted = RangeSet(held.within(first, held.last))
        came = RangeSet([(min(self.start, held.last + 1), self.next - 1)] if self.next > held.last + 1 else [])
        if self.start < self.next:
            came.add(self.start, self.next - 1)
        came.subtract(self.absent)
        wanted.update(RangeSet(came.within(first, self.next)))
        self.next = max(self.next, held.last + 1)
        self.start = min(self.start, first)
        holes = RangeSet([(first, self.next - 1)]).difference(wanted)
        self.missing.update(wanted)
        self.absent.subtract(wanted)
        self.absent.update(holes)
        return wanted, holes

    def has(self, seqno: int) -> bool:
        """Whether this packet was received."""
        return self.start <= seqno < self.next and seqno not in self.missing and seqno not in self.absent

    def received(self, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` were received."""
        had = RangeSet(numbers.within(self.start, self.next - 1))
        had.subtract(self.missing)
        had.subtract(self.absent)
        return had

    def prefix(self) -> int:
        """The number up to which nothing is awaited."""
        return (self.missing.first if self.missing else self.next) - 1


Streams = dict[int, Stream]
"""All senders of which a member has heard, by id."""
