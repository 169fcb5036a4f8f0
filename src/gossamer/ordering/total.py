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
from typing import Any, ClassVar

from gossamer.core.declares import AGREED_VIEWS, HOLDING_BACK, Declares
from gossamer.core.effects import Unicast
from gossamer.core.ids import FIRST_PASS, Phase, channel_of, channels_in
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.packet_sets import Horizon, PacketSets, put
from gossamer.core.packets import Run
from gossamer.core.parts import Order
from gossamer.core.places import (
    BranchEnded,
    CloseGraph,
    EnterOrder,
    GraphClosed,
    Mark,
    OrderBegins,
    Places,
    PlacesKept,
    PlacesWanted,
    Segment,
    Sites,
    Unplaced,
)
from gossamer.core.ranges import RangeSet
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings
from gossamer.core.streams import Stream
from gossamer.ordering.branching import Branching
from gossamer.ordering.graph import greedy
from gossamer.ordering.sequence import BEATS, Sequence
from gossamer.ordering.turns import PASSED, Turns

_HISTORY = 100_000
"""Segments of settled places that are kept, for members that were away."""
_FINISHED_MAX = 8
"""Branches that are over and are kept for members that were away."""


_OF_MEMBERS = (PlacesKept, PlacesWanted, EnterOrder, OrderBegins, CloseGraph, GraphClosed, Unplaced, BranchEnded)


class Total(Order):
    """Delivery in the order of places: what is settled is handed over, in order, as far as it is here."""

    in_stream_order = False
    holds_back = True
    from_strangers = (*_OF_MEMBERS, Places)
    branches_out: ClassVar[bool] = True
    """Whether channels may have branches."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self.turns = Turns(ladder)
        self.sequence = Sequence(ladder, self)
        self.branches: dict[int, Sequence] = {}
        """Those that this member is in, or was."""
        self._at = 0  # the branch that we follow now; 0 for the trunk
        self._noticed = 0  # the first place of the trunk of which we have not seen that it is settled
        self._branching = Branching()
        self._limit = ladder.settings.hold_bytes
        self._releasing = self._more = False
        self._is_new = True  # it has to found an order, or to enter one
        self._beat_at = 0.0
        self._settled_at_beat = 0
        self._beating = ladder.timer(self._beat)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """One order, and in it that of each sender."""
        return Declares(promises=("agreement", "fifo"), provides=(HOLDING_BACK,), excludes=(AGREED_VIEWS,))

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

    def _sequences(self) -> list[Sequence]:
        return [self.sequence, *self.branches.values()]

    # The beginning, and the end.

    def begun(self) -> None:
        """The member is a new one: what order it knows, if any, is not this group's."""
        self._is_new = True

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
        for sequence in self._sequences():
            if sequence.leads():
                sequence.fit_sites(now, out)

    def leaving(self, now: float, out: Effects) -> None:
        """A primary that goes hands over first."""
        for sequence in self._sequences():
            sequence.hand_over(now, out)

    def _look(self, now: float, out: Effects) -> None:
        """Begin anew if we are new; then see to it that the beat goes on."""
        if self._is_new and self.ladder.is_member:
            self._is_new = False
            life = int(now * 1e6)
            self.sequence.forget(now, life)
            self.branches, self._at, self._noticed, self._settled_at_beat = {}, 0, 0, 0
            if self.ladder.lone_founder:
                self.sequence.found(now, life, Sites(self.ladder.me, {self.ladder.me: life}), out)
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
            self._settled_at_beat = self.sequence.settled

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
        self._came(now, sender, out)

    def rewound(self, sender: int, first: int) -> None:
        """What is held of it comes again."""
        self.turns.forget(sender, first)

    def taken_back(self, sender: int, first: int, last: int) -> None:
        """They are awaited again."""
        self.turns.await_again(sender, first, last)

    def _came(self, now: float, sender: int, out: Effects) -> None:
        for sequence in self._sequences() if self.branches else (self.sequence,):
            if sequence.covers(sender):
                sequence.came_from(now, sender, out)
        self._hand_over(now, out)

    def settled_more(self, now: float, out: Effects) -> None:
        """More of a sequence is settled: there may be a branch to begin or to end, and packets to hand over."""
        self._notice(now, out)
        self._tend_branches(now, out)
        self._hand_over(now, out)

    def _hand_over(self, now: float, out: Effects) -> None:
        """Hand over everything whose turn has come. What turns out to be missing may be given up at once, so again."""
        if self._releasing or self.sequence.log is None:
            self._more = True
            return
        self._releasing = True
        try:
            self._more = True
            while self._more:
                self._more = False
                self._notice(now, out)
                followed = self.branches.get(self._at, self.sequence)
                self._walk(now, followed, followed.settled, out)
        finally:
            self._releasing = False
        for sequence in self._sequences():
            if sequence.log is not None:
                sequence.log.drop(_HISTORY, sequence.turn)

    def _walk(self, now: float, sequence: Sequence, below: int, out: Effects) -> None:
        """Hand over places of a sequence, as far as they are here and we still follow it."""
        log, followed = sequence.log, self._at
        for place, segment in () if log is None else log.between(sequence.turn, below):
            end = min(place + segment.count, below)
            if segment.has_packets:
                number = segment.first + sequence.turn - place
                last = segment.first + end - place - 1
                under = sequence.under - 1 if sequence.branch else -1
                handed = self.turns.hand_over(now, segment.sender, number, last, sequence.turn, out, under)
                sequence.turn += handed - number
            elif segment.mark is None or self._pass(now, sequence, place, segment.mark, out):
                sequence.turn = end
            if sequence.turn < end or self._at != followed:
                break

    # Branches.

    def _pass(self, now: float, sequence: Sequence, place: int, mark: Mark, out: Effects) -> bool:
        """It is the turn of a mark; returns whether we can go on after it."""
        if mark.kind == "open" and place in self.branches:
            self._at, self._more = place, True
        elif mark.kind == "back":
            for sender, last in mark.table.items():
                self._pass_over(now, sender, last, out)
        elif mark.kind in ("trunk", "end") and sequence.branch:
            self._walk(now, self.sequence, min(mark.number, self.sequence.settled), out)
            if self.sequence.turn < mark.number:
                return False
            sequence.under = mark.number
            if mark.kind == "end":
                self._at, self._more = 0, True
        return True

    def _pass_over(self, now: float, sender: int, last: int, out: Effects) -> None:
        """These had their turn in a branch. If we were not in it, we lose what we are owed of them."""
        stream = self.ladder.streams.get(sender)
        if self.turns.passed.get(sender, -1) < last and stream is not None and not stream.is_own:
            self.ladder.gaps.learn(now, sender, last, out)
            for part in stream.missing.within(0, last):
                self.ladder.gaps.give_up(now, sender, *part, PASSED, out)
        self.turns.pass_over(sender, last, PASSED, out)

    def admits(self, channel: int) -> bool:
        """Not while it is in a branch that we are not in, or others may have had packets of it in another place.

        Nor while we are behind: others may have had what has its turn here, and keep it no more.
        """
        trunk = self.sequence
        if trunk.log is None or trunk.turn < self._settled_at_beat:
            return False
        marks = {**trunk.log.marks.before(trunk.turn).branches, **trunk.log.marks.branches}
        return not any(m.channels >> channel & 1 and branch not in self.branches for branch, m in marks.items())

    def begins_anew(self) -> None:
        """What we are told of a trunk from here on may not have the branch that we follow."""
        log = self.sequence.log
        if log is not None:
            self._noticed = max(log.begin, self._noticed) if self._noticed <= log.end else log.begin
            self._at = self._at if self._at in log.marks.branches else 0
            mine = [b for b, mark in log.marks.branches.items() if mark.table.get(self.ladder.me) == self.sequence.life]
            self._is_new |= any(branch not in self.branches for branch in mine)  # we missed how it began

    def _notice(self, now: float, out: Effects) -> None:
        """Take part in branches that were opened with us."""
        trunk = self.sequence
        if trunk.log is None or self.ladder.settings.channels == 1 or self._noticed >= trunk.settled:
            return
        for place, segment in trunk.log.between(self._noticed, trunk.settled):
            mark = segment.mark
            opened = mark is not None and mark.kind == "open" and place not in self.branches
            if opened and mark is not None and mark.table.get(self.ladder.me) == trunk.life:
                self._begin_branch(now, place, mark, out)
        self._noticed = max(self._noticed, trunk.settled)

    def _begin_branch(self, now: float, place: int, mark: Mark, out: Effects) -> None:
        trunk = self.sequence
        assert trunk.log is not None
        for old in [b for b, s in self.branches.items() if self._is_over(s)][:-_FINISHED_MAX]:
            del self.branches[old]
        branch = self.branches[place] = Sequence(self.ladder, self, place, mark)
        branch.life = trunk.life
        below = trunk.log.placed_below(place)
        placed = {s: last for s, last in below.items() if mark.channels >> channel_of(s) & 1}
        branch.found(now, trunk.order, Sites(mark.number, mark.table), out, placed)

    def _is_over(self, sequence: Sequence) -> bool:
        """Whether it is a branch that we have followed to its end, and whose channels are back."""
        trunk, log = self.sequence.log, sequence.log
        return bool(sequence.branch) and (
            trunk is None
            or (
                sequence.branch not in trunk.marks.branches and log is not None and -1 < log.marks.ended < sequence.turn
            )
        )

    def _leave_behind(self, now: float, out: Effects) -> None:
        """A branch that is over and that nobody can tell us any more: what we lack of it is lost where it went back."""
        trunk, branch = self.sequence, self.branches.get(self._at)
        if branch is None or trunk.log is None or now - branch.blocked_since < 2 * trunk.patience:
            return
        if self._at not in trunk.log.marks.before(trunk.settled).branches:
            del self.branches[self._at]
            self._at = 0
            self._hand_over(now, out)

    def _tend_branches(self, now: float, out: Effects) -> None:
        """Whoever leads a branch enters the trunk in it; whoever leads the trunk opens and closes branches."""
        trunk = self.sequence
        if trunk.log is None or self.ladder.settings.channels == 1:
            return
        for branch in list(self.branches.values()):
            if branch.log is not None and branch.log.marks.ended < 0:
                self._lead(now, branch, out)
            elif branch.log is not None and branch.settled > branch.log.marks.ended:
                self._report_end(now, branch, out)
        if self.branches_out and trunk.leads() and self._beat_at == now and len(trunk.log.sites(trunk.settled)) == 1:
            patience = 2 * trunk.patience
            lives, marks = trunk.sites().lives, trunk.log.marks
            for mark in self._branching.wanted(now, patience, self.ladder.roster, lives, marks):
                trunk.mark(now, mark, out)

    def _lead(self, now: float, branch: Sequence, out: Effects) -> None:
        trunk, log = self.sequence.log, branch.log
        assert trunk is not None
        assert log is not None
        settled = self.sequence.settled
        if not branch.leads():
            return
        unseen = trunk.between(max(log.marks.trunk, branch.seen), settled)
        branch.seen = settled
        if branch.branch in trunk.marks.closing and branch.branch in trunk.marks.before(settled).closing:
            branch.mark(now, Mark("end", settled), out)
        elif any(self._concerns(branch, segment) for _, segment in unseen):
            branch.mark(now, Mark("trunk", settled), out)

    def _concerns(self, branch: Sequence, segment: Segment) -> bool:
        """Whether somebody in the branch may have to hand this over."""
        if not segment.has_packets:
            return segment.mark is not None
        channel, roster = channel_of(segment.sender), self.ladder.roster
        return not channel or any(roster.hears(member, channel) for member in branch.opened.table)

    def _report_end(self, now: float, branch: Sequence, out: Effects) -> None:
        """The primary says it at once, the others at their beats, until the channels are back."""
        trunk = self.sequence
        assert trunk.log is not None
        assert branch.log is not None
        if branch.branch not in trunk.log.marks.branches or not (branch.leads() or self._beat_at == now):
            return
        told = BranchEnded(trunk.order, branch.branch, branch.log.placed_below(branch.log.marks.ended))
        if trunk.leads():
            self._told_ended(now, self.ladder.me, told, out)
        elif trunk.primary >= 0:
            out.append(Unicast(trunk.primary, told))

    def _told_ended(self, now: float, source: int, message: BranchEnded, out: Effects) -> None:
        """Its channels are back in the trunk."""
        trunk = self.sequence
        if not trunk.leads() or trunk.log is None or message.order != trunk.order:
            return
        marks = trunk.log.marks
        opened = marks.branches.get(message.branch)
        if opened is None or message.branch not in marks.closing or source not in opened.table:
            self.ladder.ignored["the end of a branch that has not to end"] += 1
            return
        trunk.mark(now, Mark("back", message.branch, opened.channels, message.placed), out)
        trunk.place(now, [*self.ladder.streams, *trunk.told], out)


class Central(Total):
    """One member gives all places (002 §2), whatever the channel: with one channel, the same as a propagation graph."""

    branches_out = False
