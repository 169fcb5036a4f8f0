"""What was sent before: an application may ask for packets of the past, as far as loggers hold them.

The member asks every logger what it holds: one that lost its disk, or has just come, holds less than another. What any
of them holds is then awaited like any other gap; the order delivers the past before what has come since. A hole in all
of it may be on its way to a log, so loggers are asked again for a while before it counts as lost; and so may all of a
sender of which no log holds anything yet.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter

from gossamer.core.effects import PastKnown, Unicast
from gossamer.core.ids import channel_of, owner_of
from gossamer.core.inputs import RewindAsked
from gossamer.core.ladder import Effects, InputHandler, Ladder, MessageHandler, Rung
from gossamer.core.messages import Holdings, Recall
from gossamer.core.packet_sets import PacketSets
from gossamer.core.ranges import RangeSet

_TRIES = 4
"""So often loggers are asked while one has not answered, or something is missing."""
_TRIES_ALONE = 20
"""So often while none has answered at all."""


class History(Rung):
    """A wish for the past, and what loggers have answered so far."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._wish: RewindAsked | None = None
        self._answers: dict[int, dict[int, Holdings]] = {}  # by logger, by part
        self._tries = 0
        self._timer = ladder.timer(self._ask)

    def inputs(self) -> Mapping[type, InputHandler]:
        """The wish."""
        return {RewindAsked: self._asked}

    def messages(self) -> Mapping[type, MessageHandler]:
        """A logger's holdings."""
        return {Holdings: self._told}

    def _asked(self, now: float, wish: RewindAsked, out: Effects) -> None:
        self._wish = wish
        self._answers = {}
        self._tries = 0
        self._ask(now, out)

    def _ask(self, now: float, out: Effects) -> None:
        if self._wish is None:
            return
        if self._tries >= (_TRIES if self._answers else _TRIES_ALONE):
            self._conclude(now, self._wish, out)
            return
        self._tries += 1
        out.extend(Unicast(logger, Recall(self._wish.since_ns)) for logger in self.ladder.roster.loggers)
        self._timer.set(now + self.ladder.settings.retry_period)

    def _told(self, now: float, source: int, message: Holdings, out: Effects) -> None:
        wish, loggers = self._wish, self.ladder.roster.loggers
        if wish is None or message.since_ns != wish.since_ns or source not in loggers:
            return
        parts = self._answers.setdefault(source, {})
        if any(known.parts != message.parts for known in parts.values()):
            parts.clear()  # it has changed meanwhile: only what it says now counts
        parts[message.part] = message
        if all(self._complete(logger) for logger in loggers) and not self._holes(wish):
            self._conclude(now, wish, out)

    def _complete(self, logger: int) -> bool:
        parts = self._answers.get(logger, {})
        return any(len(parts) == part.parts for part in parts.values())

    def _held(self) -> PacketSets:
        """What any logger holds."""
        return self._told_by_any(attrgetter("numbers"))

    def _never_sent(self) -> PacketSets:
        """Numbers that no packet has, as any logger knows."""
        return self._told_by_any(attrgetter("never_sent"))

    def _told_by_any(self, which: Callable[[Holdings], PacketSets]) -> PacketSets:
        told: PacketSets = {}
        for parts in self._answers.values():
            for part in parts.values():
                for sender, numbers in which(part).items():
                    told.setdefault(sender, RangeSet()).update(numbers)
        return {sender: numbers for sender, numbers in told.items() if numbers}

    def _holes(self, wish: RewindAsked) -> bool:
        never, hears = self._never_sent(), self.ladder.streams.hears
        known = {s: n.union(never[s]) if s in never else n for s, n in self._held().items() if hears(s)}
        return self._lacks_a_member(wish, known) or any(
            len(numbers.within(max(numbers.first, wish.positions.get(sender, 0)), numbers.last)) > 1
            for sender, numbers in known.items()
        )

    def _elsewhere(self, wish: RewindAsked) -> int:
        """The channels that we do not hear, though a log holds something of them that is wanted; a bit for each."""
        hears = self.ladder.streams.hears
        channels = {
            channel_of(sender)
            for sender, numbers in self._held().items()
            if not hears(sender) and wish.positions.get(sender, 0) <= numbers.last
        }
        return sum(1 << channel for channel in channels if channel < self.ladder.settings.channels)

    def _lacks_a_member(self, wish: RewindAsked, known: PacketSets) -> bool:
        """Whether all is wanted, and the logs hold nothing of a member that sent something before we came.

        It may have published while no logger was there, and be about to send it again.
        """
        return wish.since_ns <= 0 and any(
            stream.start > 0 and sender not in known and sender not in wish.positions
            for sender, stream in self.ladder.streams.items()
            if owner_of(sender) in self.ladder.roster
        )

    def _conclude(self, now: float, wish: RewindAsked, out: Effects) -> None:
        self._wish = None
        if elsewhere := self._elsewhere(wish):
            out.append(PastKnown({}, elsewhere))
            return
        hears = self.ladder.streams.hears
        held = {sender: numbers for sender, numbers in self._held().items() if hears(sender)}
        if self._answers:
            self._await_unlogged(wish, held)
        out.append(PastKnown(held if self._answers else None))
        for sender, never in self._never_sent().items():
            if hears(sender):
                self.ladder.streams.of(sender).note_never_sent(never)
        for sender, numbers in held.items():
            first = max(numbers.first, wish.positions.get(sender, 0))
            if first <= numbers.last:
                self.ladder.gaps.rewind(now, sender, first, numbers, out)

    def _await_unlogged(self, wish: RewindAsked, held: PacketSets) -> None:
        """What is wanted of a sender, was sent before we came, and is in no log: it may be on its way there."""
        for sender, first in wish.positions.items():
            stream = self.ladder.streams.get(sender)
            if stream is not None and sender not in held and max(first, 0) < stream.start:
                held[sender] = RangeSet.span(max(first, 0), stream.start - 1)
