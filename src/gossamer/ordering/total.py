"""One order for all members (002): the primary of a numbered graph gives every packet its place.

Packets travel as they do without it, by the first pass and the repairs; only places travel here. The primary gives them
in the order of each sender's numbers, as it has the packets or knows that it will not get them, and multicasts them.
The *sites* of the graph keep them and say so; a place that most of them keep is settled, and whatever is settled is
delivered, in order, once the packet is there (`turns.py`). With one channel the propagation graph of 002 is a star
around its primary destination, which is that primary.

If the primary is not heard for `order_patience`, another site manages (002 §5.1, §5.2): it closes the graph, by asking
all sites to do nothing for it any more; when most have said so, it takes over the longest order that any of them keeps,
and opens the next graph with itself as the primary. Since most sites keep what is settled, the new graph has it, so
members never deliver in different orders; a part of the group without most sites delivers nothing and says why. Who is
a site is itself written in the order, and a change of it counts when most of the old sites and most of the new ones
keep it. A member that comes, comes back, or has lost its memory is told where the order begins for it, delivers what is
settled from there on, and becomes a site when the primary has entered it.
"""

from collections.abc import Mapping

from gossamer.core.effects import Multicast, Note, Unicast
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.packet_sets import Horizon
from gossamer.core.places import (
    CloseGraph,
    EnterOrder,
    GraphClosed,
    OrderBegins,
    Places,
    PlacesKept,
    PlacesWanted,
    Segment,
    Sites,
    Unplaced,
)
from gossamer.core.roster import Roster
from gossamer.ordering.closing import GRAPHS_MAX, Closing, below, can_be
from gossamer.ordering.graph import greedy
from gossamer.ordering.in_places import InPlaces
from gossamer.ordering.place_log import PLACES_MAX, PlaceLog

_BEATS = 10
"""A primary speaks this often in the time after which it is missed."""
_PART = 200
"""Segments in one message."""


class Total(InPlaces):
    """This member's part in the order: it always delivers, and may be a site, the primary, or close a graph."""

    from_strangers = (Places,)

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._patience = ladder.settings.order_patience
        self._is_new = True  # it has to found an order, or to enter one
        self._life = 0
        self._order = 0
        self._promised = 0, -1  # the latest graph that somebody may open as far as we are concerned, and who
        self._heard_at = 0.0  # when we last heard of a primary, or of somebody that is about to be one
        self._went_on_at = 0.0  # when we last knew that the order goes on
        self._beat_at = 0.0
        self._settled_before = -1  # of a primary: what was settled at the last beat
        self._waited_for: Horizon = {}  # what had no place at the last beat
        self._closing: Closing | None = None
        self._kept: dict[int, int] = {}  # of a primary: below which place each site keeps everything
        self._entering: Horizon = {}  # of a primary: members that want to be sites, with their lives
        self._beating = ladder.timer(self._beat)

    def messages(self) -> Mapping[type, MessageHandler]:
        """Places, and what graphs are closed and opened with."""
        return {
            Places: self._told_places,
            PlacesKept: self._told_kept,
            PlacesWanted: self._asked_places,
            EnterOrder: self._asked_to_enter,
            OrderBegins: self._told_beginning,
            CloseGraph: self._asked_to_close,
            GraphClosed: self._told_closed,
            Unplaced: self._told_unplaced,
        }

    # The beginning.

    def begun(self) -> None:
        """The member is a new one: what order it knows, if any, is not this group's."""
        self._is_new = True

    def started(self, now: float, out: Effects) -> None:
        """With the group from its first moment, or into one that has an order."""
        founders = self.ladder.roster.members
        if now == 0.0 and self.ladder.me in founders and not self.ladder.restored.recovers:
            self._is_new = False
            primary = greedy({0: founders}).primaries[0]
            self._found(now, 0, Sites(primary, dict.fromkeys(founders, 0)), out)
        self._look(now, out)

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """The primary enters new members as sites, and strikes out those that left."""
        self._look(now, out)
        if self._leads():
            self._fit_sites(now, out)

    def leaving(self, now: float, out: Effects) -> None:
        """A primary that goes writes down who the sites are then, before it says goodbye: two could not do without."""
        log = self._log
        lives = {} if log is None else {m: life for m, life in self._sites(log).lives.items() if m != self.ladder.me}
        if self._leads() and log is not None and lives:
            first, last_words = log.end, Effects()
            log.append(Segment(self._graph, sites=Sites(next(iter(lives)), lives)))
            self._give(now, first, last_words)
            out[:0] = last_words

    def _look(self, now: float, out: Effects) -> None:
        """Begin anew if we are new; then see to it that the beat goes on."""
        if self._is_new and self.ladder.is_member:
            self._is_new = False
            self._life = int(now * 1e6)
            self._heard_at = self._went_on_at = now
            self._log, self._closing, self._primary = None, None, -1
            if self.ladder.lone_founder:
                self._found(now, self._life, Sites(self.ladder.me, {self.ladder.me: self._life}), out)
        self._beating.arm(now + self._patience / _BEATS)

    def _found(self, now: float, order: int, sites: Sites, out: Effects) -> None:
        self._order = order
        self._begin_at(0, PlaceLog(0, 0, {}, sites))
        self._graph, self._primary, self._promised = 1, sites.primary, (1, sites.primary)
        self._heard_at = self._went_on_at = now
        if self._leads():
            self._open(now, 1, sites, out)

    # The primary.

    def _came_from(self, now: float, sender: int, out: Effects) -> None:
        if self._leads():
            self._place(now, [sender], out)

    def _leads(self) -> bool:
        return self._primary == self.ladder.me and self._closing is None and self._log is not None

    def _open(self, now: float, graph: int, sites: Sites, out: Effects) -> None:
        """The first place of a graph says who its sites are."""
        assert self._log is not None
        out.append(Note("graph", seqno=graph, peer=self.ladder.me, phase=" ".join(map(str, sites.lives))))
        self._closing = None
        self._went_on_at = now
        self._graph, self._primary = graph, self.ladder.me
        self._kept = {}
        first = self._log.end
        self._log.append(Segment(graph, sites=Sites(self.ladder.me, sites.lives)))
        self._give(now, first, out)
        self._place(now, list(self.ladder.streams), out)
        self._fit_sites(now, out)

    def _place(self, now: float, senders: list[int], out: Effects) -> None:
        """Give places to what is here of these senders, without gaps."""
        log = self._log
        assert log is not None
        begin = log.end
        for sender in senders:
            first, last = log.placed.get(sender, -1) + 1, self.ladder.streams.prefix_of(sender)
            if first <= last:
                log.append(Segment(self._graph, sender, first, last - first + 1))
        if log.end > begin:
            self._give(now, begin, out)

    def _give(self, now: float, first: int, out: Effects) -> None:
        """Tell everybody the places from `first` on, and settle what can be."""
        assert self._log is not None
        self._settle(now, out)
        while True:
            message = self._places(self._graph, first)
            out.append(Multicast(message))
            first += sum(segment.count for segment in message.segments)
            if first >= self._log.end:
                break

    def _places(self, graph: int, first: int) -> Places:
        assert self._log is not None
        segments = self._log.part(first, _PART)
        return Places(self._order, graph, first, self._log.graph_before(first), self._settled, segments)

    def _settle(self, now: float, out: Effects) -> bool:
        """Settle what most sites keep: of all sites that may decide. Returns whether anything was."""
        assert self._log is not None
        kept = {**self._kept, self.ladder.me: self._log.end}
        settled = min(sites.kept_by_most(kept) for sites in self._log.sites(self._settled))
        if settled <= self._settled or self._log.graph_before(settled) != self._graph:
            return False  # places of earlier graphs are settled only with one of this
        self._settled = settled
        self._release(now, out)
        return True

    def _told_kept(self, now: float, source: int, message: PlacesKept, out: Effects) -> None:
        log = self._log
        if not self._leads() or log is None or (message.order, message.graph) != (self._order, self._graph):
            return
        if message.below > log.end:
            self.ladder.ignored["places that nobody gave"] += 1
            return
        known = any(sites.has(source, message.life) for sites in log.sites(self._settled))
        if known and message.below > self._kept.get(source, 0):
            self._kept[source] = message.below
            if self._settle(now, out):
                out.append(Multicast(self._places(self._graph, log.end)))
                self._fit_sites(now, out)

    def _fit_sites(self, now: float, out: Effects) -> None:
        """Let the sites be the members, as far as we see them; one change at a time."""
        log = self._log
        assert log is not None
        if len(log.sites(self._settled)) > 1 or not self._leads():
            return
        now_in = self._sites(log).lives
        lives = {**now_in, **self._entering}
        wanted = {member: lives[member] for member in self.ladder.roster.members if member in lives}
        self._entering = {m: life for m, life in self._entering.items() if wanted.get(m) != life}
        if wanted != now_in and self.ladder.me in wanted:
            first = log.end
            log.append(Segment(self._graph, sites=Sites(self.ladder.me, wanted)))
            out.append(Note("graph", seqno=self._graph, peer=self.ladder.me, phase=" ".join(map(str, wanted))))
            self._give(now, first, out)

    def _asked_to_enter(self, now: float, source: int, message: EnterOrder, out: Effects) -> None:
        log = self._log
        if not self._leads() or log is None:
            return
        if message.begins:
            begins = log.begins_for(message.horizon, list(self.ladder.streams))
            first = max(log.begin, min(begins, self._settled))  # what is not settled may be another's in the next graph
            sites = log.sites_at(first)
            placed = {s: last for s, last in log.placed_below(first).items() if s in self.ladder.streams}
            before = log.graph_before(first)
            told = OrderBegins(self._order, message.life, first, before, placed, sites.primary, sites.lives)
            out.append(Unicast(source, told))
        if not self._sites(log).has(source, message.life) and source in self.ladder.roster:
            self._entering[source] = message.life
            self._fit_sites(now, out)

    def _told_unplaced(self, now: float, source: int, message: Unplaced, out: Effects) -> None:
        """Packets exist that others have: if they do not come by themselves, they are repaired, or lost here."""
        if self._leads():
            for sender, last in message.lasts.items():
                self.ladder.gaps.learn(now, sender, last, out)
            self._place(now, list(message.lasts), out)  # of one that left, all may be here

    # Members.

    def _told_places(self, now: float, source: int, message: Places, out: Effects) -> None:
        log = self._log
        if not self.ladder.roster.knows(source) and source != self._primary:  # one that has just left may tell the end
            self.ladder.ignored["places from a stranger"] += 1
            return
        if log is None or not self._is_ours(now, message.order, out) or not can_be(message):
            return
        if message.graph:
            if message.graph < self._promised[0]:
                out.append(Unicast(source, self._closed()))
                return
            self._follow(now, message.graph, source, out)
        elif self._closing is None and message.settled <= log.end:
            return
        if not log.begin <= message.first <= log.end or log.graph_before(message.first) != message.before:
            self._ask(source, self._settled if message.first <= log.end else log.end, out)
            return
        closing = self._closing
        takes_over = closing is not None and source == closing.source
        matches = self._take(now, source, message, message.graph > 0 or takes_over, out)
        if takes_over:
            assert closing is not None
            closing.taken = max(matches, closing.taken)
            self._go_on_closing(now, out)

    def _take(self, now: float, source: int, message: Places, everything: bool, out: Effects) -> int:
        """Enter places, from a member that is not the primary only what is settled; returns up to where it agrees."""
        log = self._log
        assert log is not None
        segments = message.segments if everything else below(message, message.settled)
        if not log.take(message.first, segments, self._settled):
            self.ladder.ignored["other places than those that are settled"] += 1
            return 0
        matches = message.first + sum(segment.count for segment in segments)
        settled = min(message.settled, matches)
        if settled > self._settled:
            self._settled = settled
            self._release(now, out)
        if message.graph and matches > message.settled and self._is_site(log):
            out.append(Unicast(source, PlacesKept(self._order, message.graph, self._life, matches)))
        if message.settled > log.end:
            self._ask(source, log.end, out)
        return matches

    def _sites(self, log: PlaceLog) -> Sites:
        return log.sites_at(log.end)

    def _is_site(self, log: PlaceLog) -> bool:
        return any(sites.has(self.ladder.me, self._life) for sites in log.sites(self._settled))

    def _is_ours(self, now: float, order: int, out: Effects) -> bool:
        """Whether this is about our order. Of two that were founded apart, the older one stays, if it lets us in."""
        if order < self._order:
            self.ladder.ignored["an order founded apart"] += 1
            horizon = {sender: stream.start - 1 for sender, stream in self.ladder.streams.items()}
            out.append(Multicast(EnterOrder(self._life, True, horizon)))
        return order == self._order and self._log is not None

    def _follow(self, now: float, graph: int, primary: int, out: Effects) -> None:
        if (graph, primary) != (self._graph, self._primary):
            out.append(Note("graph", seqno=graph, peer=primary, phase="follows"))
        self._graph, self._primary, self._promised = graph, primary, (graph, primary)
        self._closing = None
        self._heard_at = self._went_on_at = now
        self._unblock(now)

    def _ask(self, to: int, first: int, out: Effects) -> None:
        out.append(Unicast(to, PlacesWanted(self._order, first)))

    def _asked_places(self, now: float, source: int, message: PlacesWanted, out: Effects) -> None:
        log = self._log
        if log is None or message.order != self._order:
            return
        if self._leads() and message.first < log.begin:
            self._asked_to_enter(now, source, EnterOrder(0, True, log.placed_below(log.begin)), out)
        elif log.begin <= message.first <= log.end:
            out.append(Unicast(source, self._places(self._graph if self._leads() else 0, message.first)))

    def _enter(self, now: float, out: Effects) -> None:
        log, streams = self._log, self.ladder.streams
        horizon = {} if log is not None else {sender: stream.start - 1 for sender, stream in streams.items()}
        out.append(Multicast(EnterOrder(self._life, log is None, horizon)))

    def _told_beginning(self, now: float, source: int, message: OrderBegins, out: Effects) -> None:
        behind = self._log is not None and message.life == 0 and message.first > self._log.end
        behind |= self._log is not None and message.life == self._life and message.order < self._order
        if (message.life != self._life and not behind) or message.first > PLACES_MAX:
            return
        if self._log is not None and not behind:
            return
        if message.order != self._order:  # what was promised was about another order
            self._order, self._closing, self._primary, self._promised = message.order, None, -1, (0, -1)
        sites = Sites(message.primary, message.lives)
        self._begin_at(message.first, PlaceLog(message.first, message.before, message.placed, sites))
        self.turns.begin(message.placed, out)
        self._heard_at = self._went_on_at = now
        self._unblock(now)
        self._ask(source, message.first, out)

    # A graph is closed, and the next one opened.

    def _asked_to_close(self, now: float, source: int, message: CloseGraph, out: Effects) -> None:
        if self._log is None or not self._is_ours(now, message.order, out) or message.graph > GRAPHS_MAX:
            return
        if message.graph > self._promised[0]:
            self._promised = message.graph, source
            self._closing = None
            self._heard_at = now  # it has its time to open the next one
            if self._primary == self.ladder.me:
                self._primary = -1
        out.append(Unicast(source, self._closed()))

    def _closed(self) -> GraphClosed:
        assert self._log is not None
        end = self._log.end
        last = self._log.graph_before(end)
        return GraphClosed(self._order, *self._promised, self._life, last, end, self._settled)

    def _close(self, now: float, out: Effects) -> None:
        before = self._closing
        again = before is not None and not before.heard and self._promised == (before.graph, self.ladder.me)
        graph = self._promised[0] + (not again)
        self._promised = graph, self.ladder.me
        self._primary = -1
        self._closing = closing = Closing(graph)
        closing.answers[self.ladder.me] = self._closed()
        out.append(Multicast(CloseGraph(self._order, graph)))
        self._go_on_closing(now, out)

    def _told_closed(self, now: float, source: int, message: GraphClosed, out: Effects) -> None:
        closing = self._closing
        if self._log is None or message.order != self._order or message.graph > GRAPHS_MAX:
            return
        if message.graph > self._promised[0]:
            self._promised = message.graph, message.opener
            self._primary = -1 if self._primary == self.ladder.me else self._primary
            if closing is not None:
                closing.heard.add(source)
        elif closing is not None and message.graph == closing.graph:
            closing.heard.add(source)
            if message.opener == self.ladder.me:
                closing.answers[source] = message
                self._go_on_closing(now, out)

    def _go_on_closing(self, now: float, out: Effects) -> None:
        """Open the next graph, if most sites have closed the last one and we have what any of them keeps."""
        closing, log = self._closing, self._log
        assert closing is not None
        assert log is not None
        if self._promised != (closing.graph, self.ladder.me):
            return
        lives = {member: answer.life for member, answer in closing.answers.items()}
        deciding = log.sites(self._settled)
        if not all(s.are_most([m for m, life in lives.items() if s.has(m, life)]) for s in deciding):
            return
        source, best = closing.best()
        if (best.last, best.below) > (log.graph_before(log.end), log.end):
            if source != closing.source:
                closing.source, closing.taken = source, self._settled
            self._ask(source, closing.taken, out)
        elif (settled := max(answer.settled for answer in closing.answers.values())) > self._settled:
            self._settled = settled  # ours is the longest order, and has all that is settled
            self._go_on_closing(now, out)
        else:
            self._unblock(now)
            self._open(now, closing.graph, self._sites(log), out)

    # Time.

    def _beat(self, now: float, out: Effects) -> None:
        period = self._patience / _BEATS
        self._beating.set(now + period)
        if now - self._beat_at > 2 * period:  # we stood still, or begin: nobody could be heard
            self._heard_at = self._went_on_at = now
        self._beat_at = now
        if self._is_new:
            self._look(now, out)
        if not self.ladder.is_member:
            return
        log = self._log
        if log is None:
            self._enter(now, out)
            if now - self._went_on_at > 2 * self._patience:
                self._block(now, "not begun", out)
        elif self._leads():
            self._beat_as_primary(now, out)
        else:
            self._beat_as_member(now, log, out)

    def _beat_as_primary(self, now: float, out: Effects) -> None:
        assert self._log is not None
        out.append(Multicast(self._places(self._graph, self._log.end)))
        self._fit_sites(now, out)
        if self._settled in (self._log.end, max(self._settled, self._settled_before + 1)):
            self._went_on_at = now
            self._unblock(now)
        elif now - self._went_on_at > 2 * self._patience:
            self._block(now, "no majority", out)
        self._settled_before = self._settled

    def _beat_as_member(self, now: float, log: PlaceLog, out: Effects) -> None:
        if not self._sites(log).has(self.ladder.me, self._life):
            self._enter(now, out)
        silence = now - self._heard_at
        if self._primary >= 0 and not self.ladder.hearing.on:
            self._ask(self._primary, log.end, out)
        placed = log.placed
        late = {s: last for s, last in self._waited_for.items() if last > placed.get(s, -1)}
        self._waited_for = {s: last for s, last in self.turns.lasts().items() if last > placed.get(s, -1)}
        if late and self._primary >= 0:
            out.append(Unicast(self._primary, Unplaced(late)))
        if silence > self._patience * (1 + self._rank(log) / 2) and self._is_site(log):
            self._heard_at = now - self._patience / 2 if self._closing is None else now
            self._close(now, out)
        elif self._closing is not None:
            self._close_again(out)
        if now - self._went_on_at > 2 * self._patience:
            self._block(now, "no primary", out)

    def _close_again(self, out: Effects) -> None:
        """Whoever has not answered may not have heard of it."""
        closing, log = self._closing, self._log
        assert closing is not None
        assert log is not None
        if closing.source >= 0:
            self._ask(closing.source, closing.taken, out)
        out.append(Multicast(CloseGraph(self._order, closing.graph)))

    def _rank(self, log: PlaceLog) -> int:
        """When it is our turn to manage: the sites take turns, so that two do not close a graph at once."""
        others = [member for member in sorted(self._sites(log).lives) if member != self._primary]
        return others.index(self.ladder.me) if self.ladder.me in others else len(others)


class Central(Total):
    """One member gives all places (002 §2), whatever the channel: with one channel, the same as a propagation graph."""
