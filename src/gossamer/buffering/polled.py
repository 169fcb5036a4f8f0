"""Polled stability: a sender asks all members how far they have its packets, and tells all of them what all have.

It asks with a multicast after every few packets and, while not everything is stable, after `poll_period` again; each
member answers with one number. So a packet that all have costs its sender a share of n small answers, and a packet that
one member lacks is found out by the question, which also tells the last number. Each sender hears each member: of the
ways to learn what is stable this is the one from all to all, as far as there are senders.

A member may be a while behind: what it says counts whatever its view is, because no number is used in two views.
"""

from collections.abc import Mapping
from math import inf

from gossamer.core.declares import LAST_PACKETS, STABILITY_TOLD, Declares
from gossamer.core.effects import MarkStable, Multicast, Unicast
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import Confirmed, StablePoll
from gossamer.core.packet_sets import Horizon
from gossamer.core.packets import Run
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings

_POLLS_PER_WINDOW = 4
_STRIDE = 16
"""A sender asks after this many packets, where no window says what is few."""


class PolledStability(Rung):
    """How far the others have this member's packets, and how far all have everybody's."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        window = ladder.settings.unstable_packets
        self._stride = max(1, window // _POLLS_PER_WINDOW) if window else _STRIDE
        self._has: Horizon = {}
        self._slowest = 0  # members that have no more than what is stable
        self._stable = self._told = self._polled = -1
        self._marked: Horizon = {}  # by sender: what the application was told of
        self._timer = ladder.timer(self._poll_again)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """The question shows the last packet."""
        return Declares(provides=(STABILITY_TOLD, LAST_PACKETS))

    def messages(self) -> Mapping[type, MessageHandler]:
        """The question, and the answers."""
        return {StablePoll: self._asked, Confirmed: self._answered}

    def started(self, now: float, out: Effects) -> None:
        """Whatever was sent before is nobody's concern."""
        self._stable = self._told = self._polled = self.ladder.first_number - 1
        self._count_slowest()

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """Nobody waits for a member that left; one that comes has to say what it has."""
        members = {*self.ladder.roster.others_owed()}
        self._has = {member: last for member, last in self._has.items() if member in members}
        self._settle(now, out)

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Ask, if that was not long ago."""
        self._timer.arm(now + self.ladder.settings.poll_period)
        if run[-1].seqno - self._polled >= self._stride:
            self._poll(out)

    def _poll_again(self, now: float, out: Effects) -> None:
        """Once more, until everything is stable and everybody was told so."""
        self._settle(now, out)
        if self._last() > self._stable or self._stable > self._told:
            self._poll(out)
            self._timer.set(now + self.ladder.settings.poll_period)

    def _poll(self, out: Effects) -> None:
        self._polled, self._told = self._last(), self._stable
        out.append(Multicast(StablePoll(self._polled, self._stable)))

    def _asked(self, now: float, source: int, message: StablePoll, out: Effects) -> None:
        self.ladder.gaps.learn(now, source, message.last, out)
        stream = self.ladder.streams.get(source)
        if stream is None or source == self.ladder.me:
            return
        has = stream.prefix()
        if message.stable < message.last:
            out.append(Unicast(source, Confirmed(min(has, message.last))))
        if self._marked.get(source, -1) < message.stable <= has:
            self.ladder.stabilized(now, source, message.stable, out)

    def _answered(self, now: float, source: int, message: Confirmed, out: Effects) -> None:
        before = self._has.get(source, -1)
        if source in self.ladder.roster and before < message.last <= self._last():
            self._has[source] = message.last
            if before <= self._stable < message.last:
                self._slowest -= 1
                if self._slowest <= 0:  # the minimum is worked out only when it has moved
                    self._settle(now, out)

    def _settle(self, now: float, out: Effects) -> None:
        others = self.ladder.roster.others_owed()  # one that is away has to be asked when it is back
        stable = min([self._has.get(member, -1) for member in others], default=self._last())
        if stable > self._stable:
            self._stable = stable
            self.ladder.stabilized(now, self.ladder.me, stable, out)
        self._count_slowest()

    def _count_slowest(self) -> None:
        has = self._has
        self._slowest = sum([has.get(member, -1) <= self._stable for member in self.ladder.roster.others_owed()])

    def stabilized(self, now: float, sender: int, last: int, out: Effects) -> None:
        """However it was found out: tell the application."""
        if sender == self.ladder.me:
            self._stable = max(self._stable, last)
        stream = self.ladder.streams.get(sender)
        first = max(self._marked.get(sender, -1) + 1, 0 if stream is None else min(stream.start, last))
        if first <= last:
            self._marked[sender] = last
            out.append(MarkStable(sender, first, last))

    def retired(self, now: float, sender: int) -> None:
        """It has left."""
        self._marked.pop(sender, None)

    def leaving(self, now: float, out: Effects) -> None:
        """Ask no more, once everything is stable."""
        if self._last() <= self._stable:
            self._timer.set(inf)

    def _last(self) -> int:
        return self.ladder.streams[self.ladder.me].next - 1
