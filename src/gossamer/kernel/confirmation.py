"""Does everybody have what this member published? Asked before it leaves, since nobody else may be able to repair it.

Gossip tells it in the end, but with many members that takes many rounds. So the member asks all of them at once, after
its last packet and on the same way, and then, each round, those that have not said that they have everything. The
question tells the last number: a member that lacks the last packets learns of them while their sender is there. What
one lacks first is sent with the next question: a repair that waits longer the less it hears may not come in time.
"""

from collections.abc import Mapping
from math import inf

from gossamer.core.effects import Multicast, Unicast
from gossamer.core.ids import PEER, channel_of, stream_of
from gossamer.core.inputs import ConfirmAsked
from gossamer.core.ladder import Effects, InputHandler, Ladder, MessageHandler, Rung
from gossamer.core.messages import Confirm, Confirmed, Repair
from gossamer.core.packet_sets import Horizon
from gossamer.core.timers import Timer


class Confirmation(Rung):
    """How far the others have this member's packets, as they said when they were asked."""

    __slots__ = ("_has", "_timer")

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._has: dict[int, Horizon] = {}  # by member: how far it has each of our streams
        self._timer: Timer | None = None  # few members ever ask

    def messages(self) -> Mapping[type, MessageHandler]:
        """The question, and its answer."""
        return {Confirm: self._asked, Confirmed: self._answered}

    def inputs(self) -> Mapping[type, InputHandler]:
        """The application wants to know."""
        return {ConfirmAsked: self._begin}

    def unconfirmed(self) -> dict[int, int]:
        """The members in reach that have not said that they have everything of ours, and how much each may lack."""
        found: dict[int, int] = {}
        for member, (sender, has) in self._lacking():
            lacks = self.ladder.own[sender].next - max(has + 1, self.ladder.first_number)
            found[member] = found.get(member, 0) + lacks
        return found

    def _lacking(self) -> list[tuple[int, tuple[int, int]]]:
        """The members that may lack packets of one of our streams, each with the stream and how far it has it."""
        ladder, found = self.ladder, []
        for sender, stream in ladder.own.items():
            last = stream.next - 1
            if last < ladder.first_number:
                continue  # nothing was published
            for member in ladder.roster.others(channel_of(sender)):
                told = (self._has.get(member, {}), ladder.acknowledged.get(member, {}))
                has = max(table.get(sender, -1) for table in told)
                if has < last and member not in ladder.roster.joining:
                    found.append((member, (sender, has)))
        return found

    def leaving(self, now: float, out: Effects) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.set(inf)

    def _begin(self, now: float, happened: ConfirmAsked, out: Effects) -> None:
        lacking = self._lacking()
        for sender in dict.fromkeys(sender for _, (sender, _) in lacking):
            out.append(Multicast(self._question(sender), channel=channel_of(sender)))
        if lacking:
            self._timer = self._timer or self.ladder.timer(self._ask_again)
            self._timer.set(now + self.ladder.settings.gossip_period)

    def _ask_again(self, now: float, out: Effects) -> None:
        waiting_for = self._lacking()
        for member, (sender, has) in waiting_for:
            lacks = self.ladder.buffer.get(sender, has + 1) if sender in self._has.get(member, {}) else None
            if lacks is not None:
                out.append(Unicast(member, Repair(lacks, PEER)))
            out.append(Unicast(member, self._question(sender)))
        if waiting_for and self._timer is not None:
            self._timer.set(now + self.ladder.settings.gossip_period)

    def _question(self, sender: int) -> Confirm:
        return Confirm(self.ladder.own[sender].next - 1, channel_of(sender))

    def _asked(self, now: float, source: int, message: Confirm, out: Effects) -> None:
        sender = stream_of(source, message.channel)
        if not self.ladder.streams.hears(sender):
            return
        self.ladder.gaps.come_to(now, sender, message.last, out)
        has = self.ladder.streams.of(sender).prefix()  # more than there is, if somebody lied to us
        out.append(Unicast(source, Confirmed(min(has, message.last), message.channel)))

    def _answered(self, now: float, source: int, message: Confirmed, out: Effects) -> None:
        sender = stream_of(self.ladder.me, message.channel)
        stream = self.ladder.own.get(sender)
        if source in self.ladder.roster and stream is not None and message.last < stream.next:
            known = self._has.setdefault(source, {})
            known[sender] = max(known.get(sender, -1), message.last)
