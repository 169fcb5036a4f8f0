"""What a member knows of each sender: how far it has seen, and which packets below that it lacks.

000 §3.3: of every sequence number up to the last one seen, exactly one of three is true: delivered,
waiting to be delivered, or missing (Property 3.5). A number is never accepted twice (Property 3.4).
"""

from gossamer.core.packets import Run
from gossamer.core.ranges import Range, RangeSet


class Lane:
    """One sender as the members of one process see it: the `next` of each, side by side.

    A simulation has thousands of members, and a packet that reaches them all would otherwise fetch a dozen objects of
    each from all over the memory, only to add one to a number.
    """

    __slots__ = ("gapped", "nexts")

    def __init__(self, members: int) -> None:
        self.nexts = [-1] * members  # -1 of those who have never heard of the sender
        self.gapped: set[int] = set()
        """Members that miss something of the sender."""


class Stream:
    """One sender as one member sees it. `next` is the first number not yet seen.

    Below it, `missing` are awaited; `absent` are not and never came (given up, never sent); numbers below
    `start` were sent before this member joined.
    """

    __slots__ = ("_gapped", "absent", "at", "missing", "nexts", "start")

    def __init__(self, start: int = 0, lane: Lane | None = None, at: int = 0) -> None:
        self.start = start
        self.missing = RangeSet()
        self.absent = RangeSet()
        self.nexts = [start] if lane is None else lane.nexts
        self.at = at
        self._gapped = None if lane is None else lane.gapped
        self.next = start
        self.mark()

    @property
    def next(self) -> int:
        """The first number not yet seen. It is kept at place `at` of a list that members may share (see `Lane`)."""
        return self.nexts[self.at]

    @next.setter  # noqa: A003 - it is this property that is meant
    def next(self, value: int) -> None:
        self.nexts[self.at] = value

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
            self.mark()
            return run, (expected, first - 1)
        fresh = [p for p in run if p.seqno >= expected or p.seqno in self.missing]
        if fresh:
            self.missing.discard(first, last)
            self.next = max(expected, last + 1)
            self.mark()
        return fresh, None

    def learn(self, last: int) -> Range | None:
        """Packets up to `last` are known to exist: the gap that this reveals, if any."""
        if last < self.next:
            return None
        gap = (self.next, last)
        self.missing.add(*gap)
        self.next = last + 1
        self.mark()
        return gap

    def give_up(self, first: int, last: int) -> None:
        """These are missing and not awaited any more."""
        self.missing.discard(first, last)
        self.absent.add(first, last)
        self.mark()

    def mark(self) -> None:
        """Tell those who look at the lane whether anything is missing: due whenever `missing` has changed."""
        if self._gapped is not None:
            if self.missing:
                self._gapped.add(self.at)
            else:
                self._gapped.discard(self.at)

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
        self.mark()
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
