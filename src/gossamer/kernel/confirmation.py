"""Does everybody have what this member published? Asked before it leaves, since nobody else may be able to repair it.

Gossip tells it in the end, but with many members that takes many rounds. So the member asks all of them at once, after
its last packet and on the same way, and then, each round, those that have not said that they have everything. The
question tells the last number: a member that lacks the last packets learns of them while their sender is there.
"""

from collections.abc import Mapping
from math import inf

from gossamer.core.effects import Multicast, Unicast
from gossamer.core.inputs import ConfirmAsked
from gossamer.core.ladder import Effects, InputHandler, Ladder, MessageHandler, Rung
from gossamer.core.messages import Confirm, Confirmed
from gossamer.core.packet_sets import Horizon
from gossamer.core.timers import Timer


class Confirmation(Rung):
    """How far the others have this member's packets, as they said when they were asked."""

    __slots__ = ("_has", "_timer")

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._has: Horizon = {}
        self._timer: Timer | None = None  # few members ever ask

    def messages(self) -> Mapping[type, MessageHandler]:
        """The question, and its answer."""
        return {Confirm: self._asked, Confirmed: self._answered}

    def inputs(self) -> Mapping[type, InputHandler]:
        """The application wants to know."""
        return {ConfirmAsked: self._begin}

    def unconfirmed(self) -> Horizon:
        """The members in reach that have not said that they have everything of ours, and how far each has it."""
        ladder, me = self.ladder, self.ladder.me
        last = ladder.streams[me].next - 1
        if last < ladder.first_number:
            return {}  # nothing was published
        found = {}
        for member in ladder.roster.others():
            has = max(self._has.get(member, -1), ladder.acknowledged.get(member, {}).get(me, -1))
            if has < last and member not in ladder.roster.joining:
                found[member] = has
        return found

    def leaving(self, now: float, out: Effects) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.set(inf)

    def _begin(self, now: float, happened: ConfirmAsked, out: Effects) -> None:
        if self.unconfirmed():
            out.append(Multicast(self._question()))
            self._timer = self._timer or self.ladder.timer(self._ask_again)
            self._timer.set(now + self.ladder.settings.gossip_period)

    def _ask_again(self, now: float, out: Effects) -> None:
        waiting_for = self.unconfirmed()
        out.extend(Unicast(member, self._question()) for member in waiting_for)
        if waiting_for and self._timer is not None:
            self._timer.set(now + self.ladder.settings.gossip_period)

    def _question(self) -> Confirm:
        return Confirm(self.ladder.streams[self.ladder.me].next - 1)

    def _asked(self, now: float, source: int, message: Confirm, out: Effects) -> None:
        self.ladder.gaps.come_to(now, source, message.last, out)
        has = self.ladder.streams.of(source).prefix()  # more than there is, if somebody lied to us
        out.append(Unicast(source, Confirmed(min(has, message.last))))

    def _answered(self, now: float, source: int, message: Confirmed, out: Effects) -> None:
        if source in self.ladder.roster and message.last < self.ladder.streams[self.ladder.me].next:
            self._has[source] = max(self._has.get(source, -1), message.last)
