"""One order for all members (002): the primary of a numbered graph gives every packet its place.

Packets travel as they do without it, by the first pass and the repairs; only places travel here. The primary gives them
in the order of each sender's numbers, as it has the packets or knows that it will not get them, and multicasts them.
The *sites* of the graph keep them and say so; a place that most of them keep is settled, and whatever is settled is
delivered, in order, once the packet is there (`turns.py`). With one channel the propagation graph of 002 is a star
around its primary destination, which is that primary.

Members never deliver in different orders, whoever fails (`sequence.py`); a part of the group without most sites
delivers nothing and says why. Who is a site is itself written in the order, and a change of it counts when most of the
old sites and most of the new ones keep it. A member that comes, comes back, or has lost its memory is told where the
order begins for it, delivers what is settled from there on, and becomes a site when the primary has entered it.

With several channels, this sequence is the *trunk*. Members pass over places of channels that they do not hear. A part
of the group whose channels nobody else hears gets a *branch* (`branching.py`): a sequence of its own, with these
members as its sites, that says where the places of the trunk have their turn. So two members that both deliver two
packets follow the same branch, or both packets are in the trunk. Where a branch begins and ends is a place of the trunk
and of the branch (002 §5.1: Open and Close are ordered among the other messages).
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any

from gossamer.core.declares import AGREED_VIEWS, HOLDING_BACK, PROPAGATION_GRAPH, Declares
from gossamer.core.ids import FIRST_PASS, Phase, channel_of, channels_in
from gossamer.core.inputs import GoAsked
from gossamer.core.ladder import Effects, InputHandler, Ladder, MessageHandler
from gossamer.core.packet_sets import Horizon, PacketSets, put
from gossamer.core.packets import Run
from gossamer.core.places import (
    BranchEnded,
    CloseGraph,
    EnterOrder,
    GraphClosed,
    OrderBegins,
    Places,
    PlacesKept,
    PlacesWanted,
    Sites,
    Unplaced,
)
from gossamer.core.ranges import RangeSet
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings
from gossamer.core.streams import Stream
from gossamer.ordering.graph import greedy
from gossamer.ordering.paths import Paths
from gossamer.ordering.sequence import BEATS, Sequence
from gossamer.ordering.trunk import Trunk

_OF_MEMBERS = (PlacesKept, PlacesWanted, EnterOrder, OrderBegins, CloseGraph, GraphClosed, Unplaced, BranchEnded)


class Total(Trunk):
    """Delivery in the order of places: what is settled is handed over, in order, as far as it is here."""

    in_stream_order = False
    holds_back = True
    from_strangers = (*_OF_MEMBERS, Places)

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._limit = ladder.settings.hold_bytes
        self._beating = ladder.timer(self._beat)
        self._paths = Paths(ladder)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """One order, and in it that of each sender."""
        provides = HOLDING_BACK, PROPAGATION_GRAPH
        return Declares(promises=("agreement", "fifo"), provides=provides, excludes=(AGREED_VIEWS,))

    def messages(self) -> Mapping[type, MessageHandler]:
        """Places, and what graphs are closed and opened with."""
        of_members: dict[type, MessageHandler] = {
            PlacesKept: self._for(Sequence.told_kept),
            PlacesWanted: self._for(Sequence.asked_places),
            EnterOrder: self._for(Sequence.asked_to_enter),
            OrderBegins: self._for(Sequence.told_beginning),
            CloseGraph: self._for(Sequence.asked_to_close),
            GraphClosed: self._for(Sequence.told_closed),
            Unplaced: self._told_unplaced,
            BranchEnded: self._told_ended,
        }
        checked = {kind: partial(self._from_member, handler) for kind, handler in of_members.items()}
        return {Places: self._for(Sequence.told_places), **checked}

    def _from_member(self, handler: MessageHandler, now: float, source: int, message: Any, out: Effects) -> None:
        if self.ladder.roster.knows(source):
            handler(now, source, message, out)
        else:
            self.ladder.ignored["about the order, from a stranger"] += 1

    def _for(self, handle: Callable[[Sequence, float, int, Any, Effects], None]) -> MessageHandler:
        """What is said of one sequence concerns that."""

        def told(now: float, source: int, message: Any, out: Effects) -> None:
            sequence = self.branches.get(message.branch) if message.branch else self.sequence
            if sequence is not None:
                handle(sequence, now, source, message, out)

        return told

    def _told_unplaced(self, now: float, source: int, message: Unplaced, out: Effects) -> None:
        for sequence in self._sequences():
            sequence.told_unplaced(now, source, message, out)

    # The beginning, and the end.

    def begun(self, founds: bool) -> None:
        """The member is a new one: what order it knows, if any, is not this group's."""
        self._is_new, self._founds = True, founds

    def started(self, now: float, out: Effects) -> None:
        """With the group from its first moment, or into one that has an order."""
        founders = self.ladder.roster.members
        if now == 0.0 and self.ladder.me in founders and not self.ladder.restored.recovers:
            self._is_new = False
            sites = Sites(self._first_primary(), dict.fromkeys(founders, 0))
            self.sequence.found(now, 0, sites, out)
        self._look(now, out)

    def _first_primary(self) -> int:
        roster = self.ladder.roster
        listeners = {channel: roster.listeners(channel) for channel in range(self.ladder.settings.channels)}
        return greedy(listeners).primaries[0]

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """The primary enters new members as sites, and strikes out those that left."""
        self._look(now, out)
        if any(member not in self.ladder.roster for member in before.members):
            self.sequence.somebody_went()
        for sequence in self._sequences():
            if sequence.leads():
                sequence.fit_sites(now, out)

    def inputs(self) -> Mapping[type, InputHandler]:
        """A member that is about to leave."""
        return {GoAsked: self._go}

    def _go(self, now: float, happened: GoAsked, out: Effects) -> None:
        for sequence in self._sequences():
            sequence.go(now, out)

    def may_go(self) -> bool:
        """Whether it is a site nowhere any more: a leave is no failure, and half of the sites may leave at once."""
        return all(sequence.may_go() for sequence in self._sequences() if not self._is_over(sequence))

    def leaving(self, now: float, out: Effects) -> None:
        """A primary that goes hands over first."""
        for sequence in self._sequences():
            sequence.hand_over(now, out)

    def _look(self, now: float, out: Effects) -> None:
        """Begin anew if we are new; then see to it that the beat goes on."""
        if self._is_new and self.ladder.is_member:
            self._is_new = False
            self.undo_from(0, out)
            life = int(now * 1e6)
            self.sequence.forget(now, life)
            self.branches, self._at, self._noticed, self._settled_at_beat = {}, 0, 0, 0
            if self._founds:
                self._founds = False
                self.sequence.found_alone(now, out)
        self._beating.arm(now + self.sequence.patience / BEATS)

    def _beat(self, now: float, out: Effects) -> None:
        period = self.sequence.patience / BEATS
        self._beating.set(now + period)
        stood_still = now - self._beat_at > 2 * period  # or we begin
        self._beat_at = now
        if self._is_new:
            self._look(now, out)
        if self.ladder.is_member:
            for sequence in self._sequences():
                if not self._is_over(sequence):
                    sequence.beat(now, stood_still, out)
            self._tend_branches(now, out)
            self._leave_behind(now, out)
            if self.turns.is_overdue():
                self._hand_over(now, out)
            self._settled_at_beat = self.sequence.settled
            self._forget_history()

    # What others may want to know.

    def blocked(self) -> str:
        """Why nothing can be delivered now, though there may be something; empty if nothing is in the way."""
        return next((why for s in self._sequences() if not self._is_over(s) and (why := s.blocked())), "")

    def standing(self, now: float) -> dict[str, Any]:
        """What this member knows of the order."""
        sequence = self.sequence
        sites = sequence.sites()
        return {
            "graph": sequence.graph,
            "primary": sequence.primary,
            "sites": list(sites.lives),
            "depth": min(1, len(sites.lives) - 1) + any(not self._is_over(s) for s in self.branches.values()),
            "places": sequence.settled,
            "delivered": sequence.turn,
            "undone": self.turns.undone,
            "blocked": self.blocked(),
            "blocked_seconds": sum(s.blocked_seconds(now) for s in self._sequences()),
            **({"branches": self._standing_of_branches()} if self.ladder.settings.channels > 1 else {}),
        }

    def _standing_of_branches(self) -> list[dict[str, Any]]:
        log = self.sequence.log
        return [
            {
                "channels": channels_in(mark.channels),
                "primary": self.branches[branch].primary if branch in self.branches else mark.number,
                "sites": list(mark.table),
                "places": self.branches[branch].settled if branch in self.branches else None,
            }
            for branch, mark in ({} if log is None else log.marks.branches).items()
        ]

    def full(self) -> str:
        """Nothing is published while the order cannot go on: it would wait here without bound."""
        if not self.branches and self.sequence.blocked_since == inf:
            return ""  # asked for each packet
        why = self.blocked()
        return f"the order is blocked: {why}" if why else ""

    def is_full(self) -> bool:
        """Whether as much waits as may."""
        return 0 < self._limit <= self.turns.bytes

    def urgent(self, wanted: PacketSets) -> PacketSets:
        """If it is full, only those whose turn it is."""
        if not self.is_full():
            return wanted
        for sequence in self._sequences():
            if urgent := self._next_of(sequence, wanted):
                return urgent
        return wanted if self.sequence.log is None else {}

    def _next_of(self, sequence: Sequence, wanted: PacketSets) -> PacketSets:
        """The first of `wanted` in the order of their places."""
        urgent: PacketSets = {}
        log = sequence.log
        for _, segment in () if log is None else log.between(sequence.turn, sequence.settled):
            if urgent:
                break
            if segment.has_packets and segment.sender in wanted:
                parts = wanted[segment.sender].within(segment.first, segment.first + segment.count - 1)
                put(urgent, segment.sender, RangeSet(parts))
        return urgent

    def begins_after(self, horizon: Horizon, channels: int) -> Horizon:
        """Whoever begins to listen is owed all that has its turn from now on, also what others have and await.

        If nobody else listens, nothing of what was sent has had a place, and it is not wanted.
        """
        others, passed = self.ladder.roster.others, self.turns.passed
        known = {s: last for s, last in passed.items() if channels >> channel_of(s) & 1}
        alone = {s: max(last, known.get(s, -1)) for s, last in horizon.items() if not others(channel_of(s))}
        return {**horizon, **known, **alone}

    def done_with(self, stream: int) -> int:
        """What waits for its turn may be needed again: a member that begins to listen is owed it, too."""
        return self.turns.done_with(stream)

    # Packets.

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Our own packets need a place like any other; those of channels that we do not hear concern others."""
        if self.ladder.streams.hears(run[0].sender):
            self.turns.wait(run, FIRST_PASS, out)
            self._came(now, run[0].sender, out)

    def arrived(self, now: float, parts: list[Run], phase: Phase, stream: Stream, out: Effects) -> None:
        """They wait for their turn; the primary gives them their places."""
        for run in parts:
            self.turns.wait(run, phase, out)
        self._came(now, parts[0][0].sender, out)

    def given_up(self, now: float, sender: int, first: int, last: int, why: str, stream: Stream, out: Effects) -> None:
        """A loss has its place in the order."""
        self.turns.lose(sender, first, last, why, out)
        here = self.ladder.streams.prefix_of(sender)
        if here <= last or self.turns.knows(sender, here):  # else what showed that they are lost is about to come
            self._came(now, sender, out)

    def onward(self, stream: int) -> tuple[int, ...]:
        """To the primary of the sequence in which they have their places, and down the tree from there."""
        return self._paths.onward(stream, self._primary_of(stream))

    def _primary_of(self, stream: int) -> int:
        """Who gives places to this stream; of a branch that we are not in, who began to."""
        trunk = self.sequence
        if own := next((branch for branch in self.branches.values() if branch.covers(stream)), None):
            return own.primary
        channel, marks = channel_of(stream), {} if trunk.log is None else trunk.log.marks.branches
        return next((mark.number for mark in marks.values() if mark.channels >> channel & 1), trunk.primary)

    def rewound(self, sender: int, first: int) -> None:
        """What is held of it comes again."""
        self.turns.forget(sender, first)

    def taken_back(self, sender: int, first: int, last: int) -> None:
        """They are awaited again."""
        self.turns.await_again(sender, first, last)

    def _came(self, now: float, sender: int, out: Effects) -> None:
        me, channel = self.ladder.me, channel_of(sender)
        for sequence in self._sequences() if self.branches else (self.sequence,):
            if (channel or sequence.primary == me) and sequence.covers(sender):  # the primary hears channel 0 itself
                sequence.came_from(now, sender, out)
        followed = self._followed()
        if followed.turn < followed.settled or (not followed.is_atomic and followed.turn < followed.may_hand_over()):
            self._hand_over(now, out)  # packets that come before their places wait for these


class Central(Total):
    """One member gives all places (002 §2), whatever the channel: with one channel, the same as a propagation graph."""

    branches_out = False
