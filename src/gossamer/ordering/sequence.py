"""One sequence of places, whole: what its sites do if they miss the primary, and what is done when nothing happens.

If the primary is not heard for `order_patience`, another site manages (002 §5.1, §5.2): it closes the graph, by asking
all sites to do nothing for it any more; when most have said so, it takes over the longest order that any of them keeps,
and opens the next graph with itself as the primary. Since most sites keep what is settled, the new graph has it.
A site that publishes most of what is placed, for as long as that, does so, too: then places travel with packets.

Whoever founds a group founds its order. If the last member that knew the order is gone, and others had not entered it
yet, there is none: where all members say that it has not begun for them, the one with the lowest number founds another.
"""

from gossamer.core.effects import Unicast
from gossamer.core.ids import channel_of
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import Horizon
from gossamer.core.places import CloseGraph, EnterOrder, GraphClosed, Mark, Sites, Unplaced
from gossamer.ordering.closing import Closing
from gossamer.ordering.following import Host
from gossamer.ordering.giving import Primary
from gossamer.ordering.marks import Marks
from gossamer.ordering.place_log import PlaceLog

BEATS = 10
"""A primary speaks this often in the time after which it is missed."""
_HEARD_BEATS = 3
"""That the order has not begun for a member holds for so many beats, unless it says so again."""
_FOUNDERS = 1 << 12
"""Founders of the same microsecond are told apart by so much of their numbers."""


class Sequence(Primary):
    """This member's part in a sequence: it follows, and may be a site, the primary, or close a graph."""

    def __init__(self, ladder: Ladder, host: Host, branch: int = 0, opened: Mark | None = None) -> None:
        super().__init__(ladder, host, branch, opened)
        self.patience = ladder.settings.order_patience
        self._waited_for: Horizon = {}  # what had no place at the last beat
        self._looked_at: tuple[int, int, int] = 0, 0, 0  # at the last beat: graph, end, and how much of it was ours
        self._beats_with_most = 0  # in which most of what was placed was ours
        self._without: dict[int, float] = {}  # members for which it has not begun, and when they last said so
        self._with_those_gone: Horizon = {}  # how far everything was when one went that may have known the order

    def found(self, now: float, order: int, sites: Sites, out: Effects, placed: Horizon | None = None) -> None:
        """Begin it, with these sites; whoever is to be the primary opens the first graph."""
        self.order = order
        self.begin_at(0, PlaceLog(0, 0, placed or {}, sites, Marks({}, self.branch + 1)))
        self.graph, self.primary, self.promised = 1, sites.primary, (1, sites.primary)
        self.heard_at = self.went_on_at = now
        self.unblock(now)
        if self.leads():
            self.open(now, 1, sites, out)

    def found_alone(self, now: float, out: Effects) -> None:
        """Begin it with this member; of orders that were founded apart, the oldest one stays.

        It begins after what was sent before we came (a logger knows that from its log), what has had its turn here, and
        what members that are gone may have had in an order that nobody knows any more.
        """
        me, known = self.ladder.me, self.ladder.streams.items()
        before = [self.host.turns.passed, self._with_those_gone, {s: stream.start - 1 for s, stream in known}]
        placed = {s: max(horizon.get(s, -1) for horizon in before) for s, _ in known}
        self.host.turns.begin(placed, out)
        order = int(now * 1e6) * _FOUNDERS + me % _FOUNDERS
        self.found(now, order, Sites(me, {me: self.life}), out, placed)

    def somebody_went(self) -> None:
        """If the order has not begun for us, it may have for a member that is gone."""
        if self.log is None:
            self._with_those_gone = {sender: stream.last for sender, stream in self.ladder.streams.items()}

    def _nobody_has_it(self, now: float) -> bool:
        """Whether it has not begun for any member in reach, and it is for us to begin it."""
        since = now - _HEARD_BEATS * self.patience / BEATS
        members = [m for m in self.ladder.roster.members if m not in self.ladder.roster.joining]
        lowest, others = members[:1], members[1:]
        return lowest == [self.ladder.me] and all(self._without.get(m, since) > since for m in others)

    def asked_to_enter(self, now: float, source: int, message: EnterOrder, out: Effects) -> None:
        """Its primary answers; whoever knows as little of it notes that."""
        if self.log is None and message.begins:
            self._without[source] = now
        super().asked_to_enter(now, source, message, out)

    def forget(self, now: float, life: int) -> None:
        """We are new, and know nothing of it."""
        self.life, self.goes = life, False
        self.heard_at = self.went_on_at = now
        self.log, self.closing, self.primary = None, None, -1
        self._without, self._with_those_gone = {}, {}

    def came_from(self, now: float, sender: int, out: Effects) -> None:
        """Something of `sender` is here, or will never be: it may get its place, or the primary has to be told of it.

        One that hears a channel which the primary does not hear speaks for all; if it fails, the others' beats do.
        """
        if self.leads():
            self.place(now, [sender], out)
        elif self.primary >= 0 and not self.hears(self.primary, sender) and self._speaks_for(sender):
            last = self.ladder.streams.prefix_of(sender)
            if self.log is None or last > self.log.placed.get(sender, -1):
                out.append(Unicast(self.primary, Unplaced({sender: last})))

    def _speaks_for(self, sender: int) -> bool:
        sites = self.sites().lives
        listeners = [member for member in self.ladder.roster.listeners(channel_of(sender)) if member in sites]
        return min(listeners, default=-1) == self.ladder.me

    # A graph is closed, and the next one opened.

    def asked_to_close(self, now: float, source: int, message: CloseGraph, out: Effects) -> None:
        """Promise to do nothing for earlier graphs, and tell what we keep."""
        if self.log is None or not self._is_ours(message.order, out) or not self.believes(message.graph):
            return
        if message.graph > self.promised[0]:
            self.promised = message.graph, source
            self.closing = None
            self.heard_at = now  # it has its time to open the next one
            if self.primary == self.ladder.me:
                self.primary = -1
        out.append(Unicast(source, self.closed()))

    def _close(self, now: float, out: Effects, *, misses_primary: bool = True) -> None:
        before = self.closing
        again = before is not None and not before.heard and self.promised == (before.graph, self.ladder.me)
        graph = self.promised[0] + (not again)
        self.promised = graph, self.ladder.me
        self.primary = -1
        self.closing = closing = Closing(graph, misses_primary=misses_primary)
        closing.answers[self.ladder.me] = self.closed()
        self.say(CloseGraph(self.order, graph, self.branch), out)
        self.go_on_closing(now, out)

    def told_closed(self, now: float, source: int, message: GraphClosed, out: Effects) -> None:
        """A site has closed the graph, for us or for another."""
        closing = self.closing
        if self.log is None or message.order != self.order or not self.believes(message.graph):
            return
        if message.graph > self.promised[0]:
            self.promised = message.graph, message.opener
            self.primary = -1 if self.primary == self.ladder.me else self.primary
            if closing is not None:
                closing.heard.add(source)
        elif closing is not None and message.graph == closing.graph:
            closing.heard.add(source)
            if message.opener == self.ladder.me:
                closing.answers[source] = message
                self.go_on_closing(now, out)

    def go_on_closing(self, now: float, out: Effects) -> None:
        """Open the next graph, if most sites have closed the last one and we have what any of them keeps."""
        closing, log = self.closing, self.log
        assert closing is not None
        assert log is not None
        if self.promised != (closing.graph, self.ladder.me):
            return
        lives = {member: answer.life for member, answer in closing.answers.items()}
        deciding = log.sites(self.settled)
        if not all(s.are_most([m for m, life in lives.items() if s.has(m, life)]) for s in deciding):
            return
        if not self.is_atomic and closing.beats < 2 and not closing.has_all(self.sites()):
            return  # what a survivor alone has should not be undone (002 §5.2.1: all of them report)
        source, best = closing.best()
        if (best.last, best.below) > (log.graph_before(log.end), log.end):
            if source != closing.source:
                closing.source, closing.taken = source, self.settled
            self.ask(source, closing.taken, out)
        elif (settled := max(answer.settled for answer in closing.answers.values())) > self.settled:
            self.settled = settled  # ours is the longest order, and has all that is settled
            self.go_on_closing(now, out)
        else:
            self.unblock(now)
            self.open(now, closing.graph, self.sites(), out)

    # Time.

    def beat(self, now: float, stood_still: bool, out: Effects) -> None:
        """A tenth of our patience is over."""
        if stood_still:  # nobody could be heard
            self.heard_at = self.went_on_at = now
        if self.log is None and self._nobody_has_it(now):
            self.found_alone(now, out)
        elif self.log is None:
            self.enter(out)
            if now - self.went_on_at > 2 * self.patience:
                self.block(now, "not begun", out)
        elif self.leads():
            self._beat_as_primary(now, self.log, out)
        else:
            self._beat_as_member(now, self.log, out)

    def _beat_as_primary(self, now: float, log: PlaceLog, out: Effects) -> None:
        self.ask_everybody(out)
        self.fit_sites(now, out)
        if self.settled in (log.end, max(self.settled, self.settled_before + 1)):
            self.went_on_at = now
            self.unblock(now)
        elif now - self.went_on_at > 2 * self.patience:
            self.block(now, "no majority", out)
        self.settled_before = self.settled

    def _beat_as_member(self, now: float, log: PlaceLog, out: Effects) -> None:
        if self.goes:
            self.go(now, out)
        elif not self.sites().has(self.ladder.me, self.life):
            self.enter(out)
        silence = now - self.heard_at
        if self.primary >= 0 and not self.ladder.hearing.on:
            self.ask(self.primary, log.end, out)
        self._remind(log, out)
        if silence > self.patience * (1 + self._rank() / 2) and self.is_site():
            self.heard_at = now - self.patience / 2 if self.closing is None else now
            self._close(now, out)
        elif self.closing is not None:
            self._close_again(now, self.closing, out)
        elif self._publishes_most(log):
            self._close(now, out, misses_primary=False)
        if now - self.went_on_at > 2 * self.patience:
            self.block(now, "no primary", out)

    def _publishes_most(self, log: PlaceLog) -> bool:
        """Whether most places of this graph are our packets', at every beat for as long as a primary may be silent.

        Packets that go by way of the primary do so because of who that is, so then it stays.
        """
        ours = sum(log.placed.get(stream, -1) + 1 for stream in self.ladder.own)
        graph, end, before = self._looked_at
        self._looked_at = self.graph, log.end, ours
        most = graph == self.graph and 2 * (ours - before) > log.end - end >= 0
        self._beats_with_most = self._beats_with_most + 1 if most else 0
        stays = self.goes or self.ladder.settings.dissemination == "graph" or not self.ladder.hearing.on
        if self._beats_with_most < BEATS or stays or self.primary < 0 or not self.is_site():
            return False
        self._beats_with_most = 0
        return True

    def _remind(self, log: PlaceLog, out: Effects) -> None:
        """Tell the primary of what waited for its place at the last beat, too."""
        placed = log.placed
        late = {s: last for s, last in self._waited_for.items() if last > placed.get(s, -1)}
        self._waited_for = {s: last for s, last in self._waiting().items() if last > placed.get(s, -1)}
        if late and self.primary >= 0:
            out.append(Unicast(self.primary, Unplaced(late)))

    def _waiting(self) -> Horizon:
        """By sender: up to where something waits; if the primary does not hear it, without gaps."""
        prefix_of = self.ladder.streams.prefix_of
        return {
            sender: last if self.hears(self.primary, sender) else min(last, prefix_of(sender))
            for sender, last in self.host.turns.lasts().items()
            if self.covers(sender)
        }

    def _close_again(self, now: float, closing: Closing, out: Effects) -> None:
        """Whoever has not answered may not have heard of it."""
        closing.beats += 1
        if closing.source >= 0:
            self.ask(closing.source, closing.taken, out)
        self.say(CloseGraph(self.order, closing.graph, self.branch), out)
        if closing.beats == 2:
            self.go_on_closing(now, out)

    def _rank(self) -> int:
        """When it is our turn to manage: the sites take turns, so that two do not close a graph at once."""
        others = [member for member in sorted(self.sites().lives) if member != self.primary]
        return others.index(self.ladder.me) if self.ladder.me in others else len(others)
