"""Packets that will not come: whose word counts that a number never was, or that a packet is gone for good.

A sender that lost its memory knows which numbers it gave to no packet (000 §6.2), a logger what it lacks and will not
get. But another logger may have what one lacks. So a gap is closed without its packets only when everybody who may have
them has said that it does not: all loggers, and for a logger itself the sender, too; without loggers the sender alone.
What a peer says is what it has found out in this way.
"""

from collections.abc import Mapping

from gossamer.core.ids import owner_of
from gossamer.core.ladder import UNLIMITED, Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import NeverSent
from gossamer.core.ranges import RangeSet

_NOTHING = RangeSet()


class _Denial:
    """What one authority has said of one sender."""

    __slots__ = ("lost", "never_sent")

    def __init__(self) -> None:
        self.never_sent = RangeSet()
        self.lost = RangeSet()


class Absences(Rung):
    """Closes gaps that cannot be filled."""

    __slots__ = ("_denials",)

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._denials: dict[int, dict[int, _Denial]] = {}  # by sender, by authority

    def messages(self) -> Mapping[type, MessageHandler]:
        """Somebody's word that packets will not come."""
        return {NeverSent: self._told}

    def retired(self, now: float, sender: int) -> None:
        """Nobody waits for its packets."""
        self._denials.pop(sender, None)

    def retracted(self, now: float, sender: int, last: int, own: RangeSet) -> None:
        """Nobody can say of numbers that are still to come what became of them."""
        for denial in self._denials.get(sender, {}).values():
            for numbers in (denial.never_sent, denial.lost):
                numbers.discard(last + 1, UNLIMITED)

    def _told(self, now: float, source: int, message: NeverSent, out: Effects) -> None:
        for sender, numbers in message.numbers.items():
            stream = self.ladder.streams.get(sender)
            if stream is None or sender in self.ladder.own:
                continue
            authorities = self._authorities(sender)
            numbers = RangeSet(numbers.within(0, stream.next - 1))  # of later ones nobody can know
            if source in authorities:
                self._deny(source, sender, numbers, message.lost)
                self._judge(now, sender, numbers.intersection(stream.missing), authorities, out)
            elif source != owner_of(sender) and source not in self.ladder.roster.loggers and not message.lost:
                self._close(now, sender, numbers.intersection(stream.missing), "", out)

    def _authorities(self, sender: int) -> list[int]:
        loggers = self.ladder.roster.other_loggers()
        if owner_of(sender) in self.ladder.roster and (self.ladder.is_logger or not loggers):
            loggers.append(owner_of(sender))
        return loggers

    def _deny(self, source: int, sender: int, numbers: RangeSet, lost: bool) -> None:
        denial = self._denials.setdefault(sender, {}).setdefault(source, _Denial())
        (denial.lost if lost else denial.never_sent).update(numbers)

    def _judge(self, now: float, sender: int, missing: RangeSet, authorities: list[int], out: Effects) -> None:
        """What all of them deny is closed: as never sent if any of them knows that, else as lost.

        Where the sender alone decides and has forgotten a packet, peers may still have it.
        """
        denials = [self._denials[sender].get(authority) for authority in authorities]
        never_sent = RangeSet()
        for denial in denials:
            if denial is None:
                return
            never_sent.update(denial.never_sent)
            missing = missing.intersection(denial.never_sent.union(denial.lost))
        self._close(now, sender, missing.intersection(never_sent), "", out)
        if authorities != [owner_of(sender)]:
            self._close(now, sender, missing.difference(never_sent), "collected", out)
        elif self.ladder.is_logger:
            self._close(now, sender, missing.difference(never_sent), "sent before the logger came", out)

    def _close(self, now: float, sender: int, numbers: RangeSet, why: str, out: Effects) -> None:
        for first, last in numbers.ranges():
            self.ladder.gaps.give_up(now, sender, first, last, why, out)
