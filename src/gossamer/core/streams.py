"""What a member knows of each stream: how far it has seen, and which packets below that it lacks.

000 §3.3: of every sequence number up to the last one seen, exactly one of three is true: delivered,
waiting to be delivered, or missing (Property 3.5). A number is never accepted twice (Property 3.4).
"""

from collections.abc import Iterable, Mapping
from itertools import takewhile
from math import inf

from gossamer.core.ids import CHANNELS_MAX, channel_of, channels_in, owner_of, stream_of
from gossamer.core.packet_sets import Horizon
from gossamer.core.packets import Run
from gossamer.core.ranges import Range, RangeSet
from gossamer.core.settings import ProtocolSettings

RATE_MAX = 1_000_000
"""No sender sends more packets in a second."""
_LATE_PACKETS = 32
_LATE_S = 0.25
"""A sender's own packets do not come after more others of it, nor so long after them, unless those were not its own."""
_LEAP_PACKETS = 256
"""So many in a row are seldom lost, even by a receiver whose path carries a hundredth of what is sent."""

_RETIRED_MAX = 100_000
"""Of so many retired senders, the latest, it is known where they stopped."""
_NEW = 0, 0.0
_CLOSED = 1 << 62
"""The `next` of a stream that has ended: nothing that comes is above it."""
_REST = 12
"""A sender is retired after this many times `suspect_after`."""


def rest_of(settings: ProtocolSettings) -> float:
    """How long nothing is heard of a sender that left before it is retired, in seconds; 0 if it never is.

    Several times what it takes to notice that a member is away: who may have missed the sender is known by then. Where
    nobody is ever suspected that cannot be known.
    """
    return _REST * settings.suspect_after


class Stream:
    """One stream as one member sees it. `next` is the first number not yet seen.

    Below it, `missing` are awaited; `abandoned` are not and never came, because they were given up or, those in
    `never_sent`, never existed. Numbers below `start` were sent before this member joined.

    A stream that has ended takes in only what is missing: everything else, above as below, is taken for old.

    `next` lies at place `at` of the list `nexts`, because a simulation keeps the numbers of many members side by side.
    """

    __slots__ = (
        "_known",
        "abandoned",
        "at",
        "ended",
        "is_own",
        "leapt",
        "lied_about",
        "missing",
        "never_sent",
        "nexts",
        "start",
    )

    def __init__(self, start: int = 0, nexts: list[int] | None = None, at: int = 0) -> None:
        self.start = start
        self.missing = RangeSet()
        self.abandoned = RangeSet()
        self.never_sent: RangeSet | None = None
        self.ended: int | None = None
        """The last number that is taken in, if the stream has ended."""
        self.is_own = False
        """Whether it is a stream of this very member, which nobody else can add to."""
        self.leapt: Run | None = None
        """A run that came from far ahead: it is taken in when another continues it."""
        self.lied_about = False
        """Whether anything was ever retracted."""
        self._known: tuple[int, float, float] | None = None  # `next` when we last looked, when that was, and what room
        self.nexts = [start] if nexts is None else nexts
        self.at = at
        self.nexts[at] = start

    @property
    def next(self) -> int:
        """The first number not yet seen."""
        return self.nexts[self.at]

    @next.setter  # noqa: A003 - it is this property that is meant
    def next(self, value: int) -> None:
        assert value >= self.nexts[self.at], "what was seen stays seen, unless it is retracted"
        self.nexts[self.at] = value

    def believes(self, now: float, last: int, slack: int) -> bool:
        """Whether the sender can have come as far as `last`, which then counts as known.

        It can since then have sent what a second allows (`RATE_MAX`), and `slack` more, once. A number that is true but
        too far away to be believed, of a sender that was very fast while we were away, will be believed a little later.
        """
        following = self.nexts[self.at]
        jump = last + 1 - following
        if jump <= 0:
            return True
        if self._known is None:
            self._known = following, now if following else 0.0, slack  # of a new one we know nothing since the epoch
        _, since, left = self._known
        room = left + RATE_MAX * (now - since)
        if jump > room:
            return False
        self._known = last + 1, now, min(slack, room - jump)
        return True

    def look(self, now: float, slack: int) -> None:
        """Note how far the sender has come by now, if it has come any further."""
        following, since, left = self._known or (-1, now, slack)
        if following != self.next:
            self._known = self.next, now, min(slack, left + RATE_MAX * (now - since))

    def accept(self, run: Run) -> tuple[Run, Range | None]:
        """Take in a run; returns the packets that are new, and the gap that the run revealed, if any."""
        first, last = run[0].seqno, run[-1].seqno
        expected = self.nexts[self.at]
        if first >= expected:
            self.nexts[self.at] = last + 1
            if first == expected:
                return run, None
            self.missing.add(expected, first - 1)
            self.changed()
            return run, (expected, first - 1)
        if first == last:  # most repairs
            if not self.missing.discard(first, last):
                return [], None
            self.changed()
            return run, None
        fresh = [p for p in run if p.seqno >= expected or p.seqno in self.missing]
        if fresh:
            self.missing.discard(first, last)
            self.next = max(expected, last + 1)
            self.changed()
        return fresh, None

    def learn(self, last: int) -> Range | None:
        """Packets up to `last` are known to exist; returns the gap that this reveals, if any."""
        if last < self.next:
            return None
        gap = (self.next, last)
        self.missing.add(*gap)
        self.next = last + 1
        self.changed()
        return gap

    def retract(self, now: float, since: int, last: int, own: RangeSet) -> tuple[int, RangeSet]:
        """The sender says that `last` was its last number: what was seen above was a lie, but for its `own`.

        It is forgotten, as if nobody had ever spoken of it. Returns from where on the sender was not heard, `since` at
        least, and what of that was given up, or taken for heard, because of such lies: it is now awaited again.
        """
        since = min(since, last + 1)  # or it was a lie, too
        if since < self.start:  # we began too late, because of a lie
            self.abandoned.add(since, self.start - 1)
            self.start = since
        begin = self._unheard_since(since)
        end = max([last, *own.lasts[-1:]])
        for numbers in (self.missing, self.abandoned, self.never_sent or RangeSet()):
            numbers.discard(end + 1, self.next)
        again = RangeSet(self.abandoned.within(begin, end))
        again.update(RangeSet(own.gaps(last + 1, end)))
        for numbers in (self.abandoned, self.never_sent or RangeSet()):
            numbers.subtract(again)
        self.missing.update(again)
        self.nexts[self.at] = end + 1
        self._known = end + 1, now, 0.0
        self.lied_about = True
        self.leapt = None
        self.changed()
        return begin, again

    def is_ahead_of(self, now: float, last: int) -> bool:
        """Whether more was seen of the sender than can be, if its own packets only come to `last` now.

        What was seen before we first looked, we began with: that can be of any age.
        """
        if self.ended is not None:
            return False
        seen, since, _ = self._known or (self.next, -inf, 0)
        return last + _LATE_PACKETS < self.next or (last + 1 < seen and since + _LATE_S < now)

    def is_leap(self, first: int) -> bool:
        """Whether a run that begins at `first` is farther ahead than usual losses explain."""
        return first > self.next + _LEAP_PACKETS

    def continued_by(self, first: int) -> Run | None:
        """The run that came from far ahead, if what begins at `first` continues it: then it was no lie."""
        leapt, self.leapt = self.leapt, None
        return leapt if leapt and leapt[0].seqno == self.next and leapt[-1].seqno + 1 == first else None

    def _unheard_since(self, number: int) -> int:
        """The first of the numbers right before `number` of which nothing came."""
        while (part := self.abandoned.around(number - 1) or self.missing.around(number - 1)) is not None:
            number = part[0]
        return number

    def give_up(self, first: int, last: int, *, never_sent: bool = False) -> None:
        """These are missing and not awaited any more."""
        assert self.start <= first <= last < self.next, "only what is missing can be given up"
        self.missing.discard(first, last)
        self.abandoned.add(first, last)
        if never_sent:
            self.note_never_sent(RangeSet.span(first, last))
        self.changed()

    def note_never_sent(self, numbers: RangeSet) -> None:
        """No packet has these numbers, or ever will."""
        if self.never_sent is None:
            self.never_sent = RangeSet()
        self.never_sent.update(numbers)

    def changed(self) -> None:
        """Called whenever `missing` has changed."""
        lasts = self.missing.lasts
        assert not lasts or lasts[-1] < self.nexts[self.at], "missing packets were seen to exist"

    def rewind(self, first: int, held: RangeSet) -> tuple[RangeSet, RangeSet]:
        """Await everything from `first` on that is `held` by a log; returns what is awaited, and what never comes.

        What was seen here, or is above the log's last number, may not have reached the log yet: it is awaited, too.
        """
        wanted = RangeSet(held.within(first, held.last))
        came = RangeSet([(min(self.start, held.last + 1), self.next - 1)] if self.next > held.last + 1 else [])
        if self.start < self.next:
            came.add(self.start, self.next - 1)
        came.subtract(self.abandoned)
        wanted.update(RangeSet(came.within(first, self.next)))
        self.next = max(self.next, held.last + 1)
        self.start = min(self.start, first)
        holes = RangeSet([(first, self.next - 1)]).difference(wanted)
        self.missing.update(wanted)
        self.abandoned.subtract(wanted)
        self.abandoned.update(holes)
        self.changed()
        return wanted, holes

    def has(self, seqno: int) -> bool:
        """Whether this packet was received."""
        return self.start <= seqno <= self.last and seqno not in self.missing and seqno not in self.abandoned

    def received(self, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` were received."""
        had = RangeSet(numbers.within(self.start, self.last))
        had.subtract(self.missing)
        had.subtract(self.abandoned)
        return had

    def rests_since(self, before: float) -> bool:
        """Whether nothing is awaited, and nothing new was seen since `before`, as far as we have looked."""
        return not self.missing and self._known is not None and self._known[0] == self.next and self._known[1] < before

    def prefix(self) -> int:
        """The number up to which nothing is awaited."""
        firsts = self.missing.firsts
        return firsts[0] - 1 if firsts else self.last

    @property
    def last(self) -> int:
        """The last number that was seen, or that is taken in if the stream has ended."""
        return self.next - 1 if self.ended is None else self.ended

    def end(self, last: int) -> None:
        """Take in nothing above `last` any more, whoever sends it; what came above the first gap counts as lacking."""
        prefix = self.prefix()
        assert last >= prefix, "what was taken in stays"
        if self.missing:
            self.missing.discard(prefix + 1, self.missing.last)
        if last > prefix:
            self.missing.add(prefix + 1, last)
        self.ended = last
        self.nexts[self.at] = _CLOSED
        self.changed()

    def check(self) -> None:
        """Assert everything that must hold (Property 3.5), whatever it costs: for tests."""
        assert not self.missing.intersection(self.abandoned), "a packet is awaited or given up, not both"
        for numbers in (self.missing, self.abandoned):
            assert not numbers or self.start <= numbers.first <= numbers.last < self.next


class Streams(dict[int, Stream]):
    """All streams of which a member has heard in the channels that it hears, and its own; not those that are retired.

    Of a stream that is retired only the number is kept at which it goes on, should it ever: below that, nothing is new.
    """

    __slots__ = ("_retired", "channels", "only_members")

    def __init__(self, streams: Mapping[int, Stream]) -> None:
        super().__init__(streams)
        self.only_members = False
        """Whether a sender is heard only from when `begin` says so."""
        self.channels = 1
        """The channels that the member listens to, a bit for each."""
        self._retired: dict[int, tuple[int, float]] = {}  # the number, and since when; the latest comes last

    def begin(self, sender: int, start: int) -> Stream:
        """From here on `sender` is heard."""
        self._retired.pop(sender, None)
        stream = self[sender] = Stream(start)
        return stream

    def hears(self, stream: int) -> bool:
        """Whether the member listens to the channel of `stream`."""
        return bool(self.channels >> channel_of(stream) & 1)

    def of(self, sender: int) -> Stream:
        """What is known of `sender`: one that was retired goes on, one that was never heard of starts at 0.

        Of a channel that is not heard nothing is taken in, and nothing is entered here.
        """
        known = self.get(sender)
        if known is not None:
            return known
        start = self._retired.get(sender, _NEW)[0]
        if self.only_members or not self.hears(sender):
            known = Stream(start)  # and is not entered: nothing of it is taken in
            known.end(start - 1)
            return known
        return self.begin(sender, start)

    def retire(self, now: float, sender: int) -> None:
        """Forget all of `sender` but where it stopped."""
        self._retired[sender] = self.pop(sender).last + 1, now
        if len(self._retired) > _RETIRED_MAX:
            del self._retired[next(iter(self._retired))]

    def is_retired(self, sender: int, last: int = -1) -> bool:
        """Whether `sender` is retired, and had come as far as `last`."""
        return sender in self._retired and last < self._retired[sender][0]

    def retired_since(self, when: float) -> list[int]:
        """Those that were retired then or later: the latest come last."""
        late = takewhile(lambda sender: self._retired[sender][1] >= when, reversed(self._retired))
        return list(late)[::-1]

    def prefix_of(self, sender: int) -> int:
        """The number up to which nothing of `sender` is awaited."""
        known = self.get(sender)
        return self._retired.get(sender, _NEW)[0] - 1 if known is None else known.prefix()

    def horizon(self, members: Iterable[int], since: float) -> Horizon:
        """How far each sender was seen; of those retired, these members, and those that were retired since then.

        Others may have retired those a little later, and still speak of them.
        """
        lasts = {sender: self._retired[sender][0] - 1 for sender in self.retired_since(since)}
        theirs = (stream_of(member, channel) for member in members for channel in range(CHANNELS_MAX))
        lasts |= {stream: self._retired[stream][0] - 1 for stream in theirs if stream in self._retired}
        return lasts | {sender: stream.last for sender, stream in self.items()}

    def end(self, me: int) -> None:
        """The member takes part no more: forget everybody but itself."""
        own = {stream: self[stream] for stream in self if owner_of(stream) == me}
        self.clear()
        self._retired.clear()
        self.update(own)


def streams_of(member: int, streams: Streams) -> list[int]:
    """The streams of `member` among those that are known, channel 0's first."""
    if streams.channels == 1:  # the usual case: there is no other channel
        return [member] if member in streams else []
    return [stream for c in channels_in(streams.channels) if (stream := stream_of(member, c)) in streams]
