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

A packet of any channel has its place in the one order, and members pass over those of channels that they do not hear.
"""

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any

from gossamer.core.declares import AGREED_VIEWS, HOLDING_BACK, Declares
from gossamer.core.ids import FIRST_PASS, Phase
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.packet_sets import Horizon, PacketSets, put
from gossamer.core.packets import Run
from gossamer.core.parts import Order
from gossamer.core.places import (
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
from gossamer.ordering.place_log import PlaceLog
from gossamer.ordering.sequence import BEATS, Sequence
from gossamer.ordering.turns import Turns

_HISTORY = 100_000
"""Segments of settled places that are kept, for members that were away."""


_OF_MEMBERS = (PlacesKept, PlacesWanted, EnterOrder, OrderBegins, CloseGraph, GraphClosed, Unplaced)


class Total(Order):
    """Delivery in the order of places: what is settled is handed over, in order, as far as it is here."""

    in_stream_order = False
    holds_back = True
    from_strangers = (*_OF_MEMBERS, Places)

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self.turns = Turns(ladder)
        self.sequence = Sequence(ladder, self)
        self._limit = ladder.settings.hold_bytes
        self._releasing = self._more = False
        self._is_new = True  # it has to found an order, or to enter one
        self._beat_at = 0.0
        self._beating = ladder.timer(self._beat)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """One order, and in it that of each sender."""
        return Declares(promises=("agreement", "fifo"), provides=(HOLDING_BACK,), excludes=(AGREED_VIEWS,))

    def messages(self) -> Mapping[type, MessageHandler]:
        """Places, and what graphs are closed and opened with."""
        sequence = self.sequence
        of_members: dict[type, MessageHandler] = {
            PlacesKept: sequence.told_kept,
            PlacesWanted: sequence.asked_places,
            EnterOrder: sequence.asked_to_enter,
            OrderBegins: sequence.told_beginning,
            CloseGraph: sequence.asked_to_close,
            GraphClosed: sequence.told_closed,
            Unplaced: sequence.told_unplaced,
        }
        checked = {kind: partial(self._from_member, handler) for kind, handler in of_members.items()}
        return {Places: sequence.told_places, **checked}

    def _from_member(self, handler: MessageHandler, now: float, source: int, message: Any, out: Effects) -> None:
        if self.ladder.roster.knows(source):
            handler(now, source, message, out)
        else:
            self.ladder.ignored["about the order, from a stranger"] += 1

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
            self.sequence.found(now, 0, sites, {}, out)
        self._look(now, out)

    def _first_primary(self) -> int:
        roster = self.ladder.roster
        listeners = {channel: roster.listeners(channel) for channel in range(self.ladder.settings.channels)}
        return greedy(listeners).primaries[0]

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """The primary enters new members as sites, and strikes out those that left."""
        self._look(now, out)
        if self.sequence.leads():
            self.sequence.fit_sites(now, out)

    def leaving(self, now: float, out: Effects) -> None:
        """A primary that goes hands over first."""
        self.sequence.hand_over(now, out)

    def _look(self, now: float, out: Effects) -> None:
        """Begin anew if we are new; then see to it that the beat goes on."""
        if self._is_new and self.ladder.is_member:
            self._is_new = False
            life = int(now * 1e6)
            self.sequence.forget(now, life)
            if self.ladder.lone_founder:
                self.sequence.found(now, life, Sites(self.ladder.me, {self.ladder.me: life}), {}, out)
        self._beating.arm(now + self.sequence.patience / BEATS)

    def _beat(self, now: float, out: Effects) -> None:
        period = self.sequence.patience / BEATS
        self._beating.set(now + period)
        stood_still = now - self._beat_at > 2 * period  # or we begin
        self._beat_at = now
        if self._is_new:
            self._look(now, out)
        if self.ladder.is_member:
            self.sequence.beat(now, stood_still, out)

    # What others may want to know.

    def blocked(self) -> str:
        """Why nothing can be delivered now, though there may be something; empty if nothing is in the way."""
        return self.sequence.blocked()

    def standing(self, now: float) -> dict[str, Any]:
        """What this member knows of the order."""
        sequence = self.sequence
        sites = sequence.sites()
        return {
            "graph": sequence.graph,
            "primary": sequence.primary,
            "sites": list(sites.lives),
            "depth": min(1, len(sites.lives) - 1),
            "places": sequence.settled,
            "delivered": sequence.turn,
            "blocked": self.blocked(),
            "blocked_seconds": sequence.blocked_seconds(now),
        }

    def full(self) -> str:
        """Nothing is published while the order cannot go on: it would wait here without bound."""
        return f"the order is blocked: {self.blocked()}" if self.sequence.blocked_since < inf else ""

    def is_full(self) -> bool:
        """Whether as much waits as may."""
        return 0 < self._limit <= self.turns.bytes

    def urgent(self, wanted: PacketSets) -> PacketSets:
        """If it is full, only those whose turn it is."""
        log, settled = self.sequence.log, self.sequence.settled
        if not self.is_full() or log is None:
            return wanted
        urgent: PacketSets = {}
        for place, segment in log.walk(self.sequence.turn):
            if place >= settled or urgent:
                break
            if segment.sites is None and segment.sender in wanted:
                parts = wanted[segment.sender].within(segment.first, segment.first + segment.count - 1)
                put(urgent, segment.sender, RangeSet(parts))
        return urgent

    def passed(self) -> Horizon:
        """By stream: the highest number that has had its turn, so that nobody who begins to listen is owed it."""
        return self.turns.passed

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
        self.sequence.came_from(now, sender, out)
        self.settled_more(now, out)

    def settled_more(self, now: float, out: Effects) -> None:
        """Hand over everything whose turn has come. What turns out to be missing may be given up at once, so again."""
        log = self.sequence.log
        if self._releasing or log is None:
            self._more = True
            return
        self._releasing = True
        try:
            self._more = True
            while self._more:
                self._more = False
                self._hand_over(now, log, out)
        finally:
            self._releasing = False
        log.drop(_HISTORY, self.sequence.turn)

    def _hand_over(self, now: float, log: PlaceLog, out: Effects) -> None:
        sequence = self.sequence
        for place, segment in log.walk(sequence.turn):
            if place >= sequence.settled:
                break
            end = min(place + segment.count, sequence.settled)
            if segment.sites is None:
                number = segment.first + sequence.turn - place
                last = segment.first + end - place - 1
                handed = self.turns.hand_over(now, segment.sender, number, last, sequence.turn, out)
                sequence.turn += handed - number
            else:
                sequence.turn = end
            if sequence.turn < end:
                break


class Central(Total):
    """One member gives all places (002 §2), whatever the channel: with one channel, the same as a propagation graph."""
