"""What the primary of a graph does: it gives places, settles what most sites keep, and enters members as sites.

It gives a place to a packet that it has, or knows that it will not get. Of channels that it does not hear, a member
that does tells it how far senders have come (002 §3.2: from the source to the primary destination).
"""

from gossamer.core.effects import Note, Unicast
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import Horizon
from gossamer.core.places import (
    EVERYBODY,
    EnterOrder,
    Mark,
    OrderBegins,
    Places,
    PlacesKept,
    PlacesWanted,
    Segment,
    Sites,
    Unplaced,
)
from gossamer.core.roster import Roster
from gossamer.ordering.answering import Answering
from gossamer.ordering.following import PART, Follower, Host
from gossamer.ordering.place_log import PlaceLog


class Primary(Follower):
    """A member that gives places, while it leads."""

    def __init__(self, ladder: Ladder, host: Host, branch: int = 0, opened: Mark | None = None) -> None:
        super().__init__(ladder, host, branch, opened)
        self.kept: dict[int, int] = {}  # below which place each site keeps everything
        self._alike: tuple[Roster, Sites, bool] | None = None  # the last answer to `_settle_alone`, and about whom
        self.answering = Answering()
        self.told: Horizon = {}  # how far senders have come in channels that it does not hear
        self.entering: Horizon = {}  # members that want to be sites, with their lives
        self.going: Horizon = {}  # sites that are about to leave, with their lives
        self.again_at = -1  # the place at which a primary that goes has said again who stays
        self.settled_before = -1  # what was settled at the last beat

    def leads(self) -> bool:
        """Whether this member is the primary."""
        return self.primary == self.ladder.me and self.closing is None and self.log is not None

    def open(self, now: float, graph: int, sites: Sites, out: Effects) -> None:
        """The first place of a graph says who its sites are."""
        assert self.log is not None
        out.append(Note("graph", seqno=graph, peer=self.ladder.me, phase=" ".join(map(str, sites.lives))))
        self.closing = None
        self.went_on_at = now
        self.graph, self.primary = graph, self.ladder.me
        self.kept, self.answering = {}, Answering()
        first = self.log.end
        self.log.append(Segment(graph, sites=Sites(self.ladder.me, sites.lives)))
        self._give(now, first, out)
        self.place(now, [*self.ladder.streams, *self._unheard()], out)
        self.fit_sites(now, out)

    # Places.

    def place(self, now: float, senders: list[int], out: Effects) -> None:
        """Give places to what is here of these senders, without gaps."""
        log = self.log
        assert log is not None
        begin, before = log.end, log.graph_before(log.end)
        given: list[Segment] = []
        for sender in senders:
            first, last = log.placed.get(sender, -1) + 1, self._complete_up_to(sender)
            if first <= last and self.covers(sender):
                given.append(Segment(self.graph, sender, first, last - first + 1))
                log.append(given[-1])
        if len(given) == 1:
            asked = self._look_for_settled(now, out)
            told = self.order, self.graph, begin, before, self.settled, given, self.branch, asked
            self.say(Places(*told), out)
            self.host.knows_more(now, out)
        elif given:
            self._give(now, begin, out)

    def mark(self, now: float, mark: Mark, out: Effects) -> None:
        """Give a place to a mark."""
        assert self.log is not None
        first = self.log.end
        self.log.append(Segment(self.graph, mark=mark))
        out.append(Note("graph", seqno=self.graph, peer=self.ladder.me, phase=f"{mark.kind} {mark.number}"))
        self._give(now, first, out)

    def _complete_up_to(self, sender: int) -> int:
        """The number up to which everything of `sender` is here, or need not be."""
        if self.ladder.streams.hears(sender):
            return self.ladder.streams.prefix_of(sender)
        return self.told.get(sender, -1)

    def _unheard(self) -> list[int]:
        return [sender for sender in self.told if not self.ladder.streams.hears(sender)]

    def told_unplaced(self, now: float, source: int, message: Unplaced, out: Effects) -> None:
        """Packets exist that others have: if they do not come by themselves, they are repaired, or lost here."""
        if not self.leads():
            return
        for sender, last in message.lasts.items():
            if self.ladder.streams.hears(sender):
                self.ladder.gaps.learn(now, sender, last, out)
            elif self.hears(source, sender) and self.ladder.gaps.can_be(now, last):
                self.told[sender] = max(last, self.told.get(sender, -1))
        self.place(now, list(message.lasts), out)  # of one that left, all may be here

    def _give(self, now: float, first: int, out: Effects) -> None:
        """Tell everybody the places from `first` on, and settle what can be."""
        assert self.log is not None
        asked = self._look_for_settled(now, out)
        while True:
            message = self.places(self.graph, first, asked)
            self.say(message, out)
            first += sum(segment.count for segment in message.segments)
            if first >= self.log.end:
                break
        self.host.knows_more(now, out)

    def _look_for_settled(self, now: float, out: Effects) -> int:
        """Places were given: settle what can be, and say who should answer at once, and look whether they do."""
        log = self.log
        assert log is not None
        self._settle(now, out)
        asked = self._asked(now)
        if self.settled < log.end and self.is_atomic:
            due = self.answering.given(now, log.end)
            if asked != EVERYBODY:
                self.host.look_for_answers(due)
        return asked

    def _asked(self, now: float) -> int:
        """Who should answer at once; all while sites change, when more of them may have to."""
        alone = None if self.log is None or not self.is_atomic else self.log.alone(self.settled)
        return EVERYBODY if alone is None else self.answering.asked(now, self.ladder.me, alone)

    def look_for_answers(self, now: float, out: Effects) -> None:
        """If those that were asked take long, ask everybody."""
        if self.leads() and self.log is not None:
            at = self.answering.late(now, self.ladder.settings.order_patience)
            if at:
                self.host.look_for_answers(at)
            else:
                self.ask_everybody(out)

    def ask_everybody(self, out: Effects) -> None:
        """Say again how far places go; whoever lacks some asks for them, and all say what they keep."""
        assert self.log is not None
        self.answering.everybody()
        self.say(self.places(self.graph, self.log.end), out)

    def places(self, graph: int, first: int, asked: int = EVERYBODY) -> Places:
        """The places from `first` on, as many as fit into a message."""
        assert self.log is not None
        segments = self.log.part(first, PART)
        return Places(
            self.order, graph, first, self.log.graph_before(first), self.settled, segments, self.branch, asked
        )

    def asked_places(self, now: float, source: int, message: PlacesWanted, out: Effects) -> None:
        """Tell them; one that is too far behind is told where it begins anew."""
        log = self.log
        if log is None or message.order != self.order:
            return
        if self.leads() and message.first < log.begin:
            self.asked_to_enter(now, source, EnterOrder(0, True, log.placed_below(log.begin), self.branch), out)
        elif log.begin <= message.first <= log.end:
            out.append(Unicast(source, self.places(self.graph if self.leads() else 0, message.first)))

    def told_kept(self, now: float, source: int, message: PlacesKept, out: Effects) -> None:
        """A site keeps places."""
        log = self.log
        if not self.leads() or log is None or (message.order, message.graph) != (self.order, self.graph):
            return
        if message.below > log.end:
            self.ladder.ignored["places that nobody gave"] += 1
            return
        before, alone = self.settled, log.alone(self.settled)
        deciding = log.sites(before) if alone is None else (alone,)
        if not deciding[0].has(source, message.life) and not any(s.has(source, message.life) for s in deciding):
            return
        self.answering.answered(source)
        if message.below > self.kept.get(source, 0):
            self.kept[source] = message.below
            change = alone is None
            if message.below > before and self._may_be_enough(before, alone) and self._settle(now, out):
                if not self._settle_alone(log) and (self.is_atomic or self._is_awaited(log.part(before, PART))):
                    self.say(self.places(self.graph, log.end, self._asked(now)), out)
                if change or self.entering or self.going:
                    self.fit_sites(now, out)

    def _may_be_enough(self, settled: int, alone: Sites | None) -> bool:
        """Whether as many have said that they keep more than this as are half of the sites: a quick first look."""
        return alone is None or 2 * sum(map(settled.__lt__, self.kept.values())) >= len(alone.lives)

    def _settle_alone(self, log: PlaceLog) -> bool:
        """Whether all members settle by themselves what they are told, because each of them and we are most."""
        roster, alone = self.ladder.roster, log.alone(self.settled)
        if self._alike is not None and self._alike[0] is roster and self._alike[1] is alone:
            return self._alike[2]
        me, others = self.ladder.me, [member for member in self.members() if member != self.ladder.me]
        alike = all(m in s.lives and s.are_most((me, m)) for s in log.sites(self.settled) for m in others)
        self._alike = None if alone is None else (roster, alone, alike)
        return alike

    def _settle(self, now: float, out: Effects) -> bool:
        """Settle what most sites keep: of all sites that may decide. Returns whether anything was."""
        assert self.log is not None
        self.kept[self.ladder.me] = self.log.end
        settled = min([sites.kept_by_most(self.kept) for sites in self.log.sites(self.settled)])
        if settled <= self.settled or self.log.graph_before(settled) != self.graph:
            return False  # places of earlier graphs are settled only with one of this
        self.settled = settled
        self.answering.settled(now, settled)
        self.host.settled_more(now, out)
        return True

    # Sites.

    def fit_sites(self, now: float, out: Effects) -> None:
        """Let the sites be the members, as far as we see them; one change at a time."""
        log = self.log
        assert log is not None
        if len(log.sites(self.settled)) > 1 or not self.leads():
            return
        now_in = self.sites().lives
        lives = {**now_in, **self.entering}
        stay = [m for m in self.members() if m in lives and self.going.get(m) != lives[m]]
        wanted = {member: lives[member] for member in stay}
        self.entering = {m: life for m, life in self.entering.items() if wanted.get(m) != life}
        changes, me = wanted != now_in, self.ladder.me
        if wanted and (changes or self.again_at < 0) and (me in self.going or (changes and me in wanted)):
            first, self.again_at = log.end, -1 if changes else log.end
            log.append(Segment(self.graph, sites=Sites(me if me in wanted else stay[0], wanted)))
            out.append(Note("graph", seqno=self.graph, peer=me, phase=" ".join(map(str, wanted))))
            self._give(now, first, out)

    def may_go(self) -> bool:
        """A primary says again who stays: when most of these keep that, they know that they are enough."""
        if super().may_go():
            return not (self.leads() and self.goes) or len(self.sites().lives) < 2 or -1 < self.again_at < self.settled
        return False

    def asked_to_enter(self, now: float, source: int, message: EnterOrder, out: Effects) -> None:
        """Tell a member where it begins, if it asks, and enter it as a site."""
        if not self.leads() or (self.branch and message.life and self.opened.table.get(source) != message.life):
            return
        if message.goes:
            self.going[source] = message.life
            self.fit_sites(now, out)
            return
        if message.begins:
            out.append(Unicast(source, self._beginning(source, message)))
        if not self.sites().has(source, message.life) and source in self.ladder.roster:
            self.entering[source] = message.life
            self.fit_sites(now, out)

    def _beginning(self, source: int, message: EnterOrder) -> OrderBegins:
        log, streams = self.log, self.ladder.streams
        assert log is not None
        known = [*streams, *(sender for sender in log.placed if not streams.hears(sender))]
        begins = log.begins_for(message.horizon, [sender for sender in known if self.hears(source, sender)])
        first = max(log.begin, min(begins, self.settled))  # what is not settled may be another's in the next graph
        sites = log.sites_at(first)
        placed = {s: last for s, last in log.placed_below(first).items() if s in streams or not streams.hears(s)}
        marks = log.marks.before(first)
        branches = [Segment(place, mark=mark) for place, mark in marks.branches.items()]
        branches += [Segment(0, mark=Mark("trunk", marks.trunk))] if self.branch else []
        told = self.order, message.life, first, log.graph_before(first), placed, sites.primary, sites.lives
        return OrderBegins(*told, self.branch, branches)

    def go(self, now: float, out: Effects) -> None:
        """Ask the primary to strike us out."""
        self.goes = True
        asked = EnterOrder(self.life, False, {}, self.branch, goes=True)
        if self.leads():
            self.asked_to_enter(now, self.ladder.me, asked, out)
        elif self.primary >= 0 and not self.may_go():
            out.append(Unicast(self.primary, asked))

    def hand_over(self, now: float, out: Effects) -> None:
        """A primary that goes writes down who the sites are then, before it says goodbye: two could not do without."""
        log = self.log
        lives = {member: life for member, life in self.sites().lives.items() if member != self.ladder.me}
        if self.leads() and log is not None and lives and self.ladder.me in self.sites().lives:
            first, last_words = log.end, Effects()
            log.append(Segment(self.graph, sites=Sites(next(iter(lives)), lives)))
            self._give(now, first, last_words)
            out[:0] = last_words
