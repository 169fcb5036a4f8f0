"""A sequence of places as everybody follows it: what a primary gives is entered, kept and, once settled, stays.

A *sequence* is one replicated order: a log of places (`place_log.py`), the graph that gives them now, and how far they
are settled. Here is what every member does for it; `giving.py` has what its primary does, and `sequence.py` what its
sites do when they miss the primary.
"""

from math import inf
from typing import NamedTuple, Protocol

from gossamer.core.effects import Multicast, Note, ReportBlocked, Unicast
from gossamer.core.ids import channel_of, channels_in
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.messages import Message
from gossamer.core.places import (
    EVERYBODY,
    EnterOrder,
    GraphClosed,
    Mark,
    OrderBegins,
    Places,
    PlacesKept,
    PlacesWanted,
    Segment,
    Sites,
)
from gossamer.core.roster import Roster
from gossamer.ordering.closing import GRAPHS_AHEAD, Closing, below, can_be
from gossamer.ordering.marks import Marks
from gossamer.ordering.place_log import PLACES_MAX, PlaceLog
from gossamer.ordering.turns import Turns

PART = 200
"""Segments in one message."""
_ELSEWHERE = 10
"""For so many times `order_patience` other sites are asked for places that the primary does not keep."""


_NO_SITES = Sites(-1, {})


class _Word(NamedTuple):
    """What the word of this member counts for the sites that decide, while another one is the primary."""

    sites: Sites | None
    primary: int
    counts: bool
    """Whether it is one of those sites."""
    is_enough: bool
    """Whether it and the primary are most of them."""
    bit: int
    """The bit by which it is asked."""


class Host(Protocol):
    """What a sequence asks of the order that it is part of."""

    turns: Turns

    def settled_more(self, now: float, out: Effects) -> None:
        """More places of a sequence are settled."""

    def knows_more(self, now: float, out: Effects) -> None:
        """More places of a sequence are known, though not settled."""

    def undo_from(self, place: int, out: Effects) -> None:
        """What was handed over from this place on, before it was settled, has other places now."""

    def look_for_answers(self, at: float) -> None:
        """At this time a primary has to look whether those that it asked have answered."""

    def begins_anew(self) -> None:
        """A sequence begins at another place than it had come to."""


class Follower:
    """What a member knows of a sequence, and how it learns more."""

    def __init__(self, ladder: Ladder, host: Host, branch: int = 0, opened: Mark | None = None) -> None:
        self.ladder = ladder
        self.host = host
        self.is_atomic = ladder.settings.order_failures == "atomic"
        """Whether nothing is handed over that may have to be undone."""
        self.branch = branch
        """The place of the trunk with which it was opened; 0 for the trunk."""
        self.opened = Mark("open") if opened is None else opened
        self._audience: tuple[Roster | None, list[int]] = None, [0]
        self.life = 0
        self.goes = False
        """Whether this member is about to leave, and should be no site any more."""
        self.order = 0
        """Tells sequences apart that were founded apart."""
        self.log: PlaceLog | None = None
        self.settled = 0
        """Places below this one stay as they are."""
        self.turn = 0
        """The first place that was not handed over."""
        self.under = 0
        """Of a branch: places of the trunk below this one come before that."""
        self.graph = 0
        """The graph that we are in, and its primary."""
        self.primary = -1
        self.seen = 0
        """Of a branch: places of the trunk below this one were looked at."""
        self.promised = 0, -1  # the latest graph that somebody may open as far as we are concerned, and who
        self._word = _Word(None, -1, counts=False, is_enough=False, bit=0)
        self._said = 0, 0, 0  # to the primary of which graph, below which place we keep all, and what was settled then
        self.closing: Closing | None = None
        self._elsewhere = -1, 0.0  # from which place on others are asked what the primary does not know, and since when
        self.heard_at = 0.0  # when we last heard of a primary, or of somebody that is about to be one
        self.went_on_at = 0.0  # when we last knew that the sequence goes on
        self.blocked_since = inf
        self.blocked_s = 0.0
        """How long it was blocked before that, in all."""

    def begin_at(self, place: int, log: PlaceLog) -> None:
        """The sequence begins here, with everything below this place settled."""
        self.log = log
        self.settled = self.turn = place
        self.under = log.marks.trunk

    def sites(self) -> Sites:
        """The sites as the last places have them."""
        return _NO_SITES if self.log is None else self.log.last_sites

    def is_site(self) -> bool:
        """Whether this member is one of those that may decide."""
        log = self.log
        return log is not None and any(sites.has(self.ladder.me, self.life) for sites in log.sites(self.settled))

    def may_go(self) -> bool:
        """Whether the others do without this member, or nobody can say that they do."""
        return not self.is_site() or self.blocked_since < inf or self._is_alone()

    def _is_alone(self) -> bool:
        """Whether nobody else knows the sequence, or is about to: one that has just come would be left without."""
        newcomers = [m for m in self.members() if m != self.ladder.me and m not in self.ladder.roster.joining]
        return list(self.sites().lives) == [self.ladder.me] and not newcomers

    def covers(self, stream: int) -> bool:
        """Whether packets of this stream have their places here, as the last places have it."""
        channel = channel_of(stream)
        if self.branch:
            return bool(self.opened.channels >> channel & 1) and self.log is not None and self.log.marks.ended < 0
        return not channel or self.log is None or not self.log.marks.channels >> channel & 1

    def members(self) -> list[int]:
        """Those in reach that may be sites."""
        return [m for m in self.ladder.roster.members if not self.branch or m in self.opened.table]

    # What is said of places.

    def told_places(self, now: float, source: int, message: Places, out: Effects) -> None:
        """Somebody tells places: the primary gives them, others answer."""
        log = self.log
        if log is not None and self._is_next(source, message, log):
            self._take_next(now, source, message, log, out)
            return
        if source != self.primary and not self.ladder.roster.knows(source):  # one that has just left may tell the end
            self.ladder.ignored["places from a stranger"] += 1
            return
        if log is None or not self._is_ours(message.order, out) or not self.believes(message.graph):
            return
        if not can_be(message):
            self.ladder.ignored["places from the future"] += 1
            return
        if message.graph:
            if message.graph < self.promised[0]:
                out.append(Unicast(source, self.closed()))
                return
            self._follow(now, message.graph, source, out)
        elif self.closing is None and message.settled <= log.end:
            return
        if not log.begin <= message.first <= log.end or log.graph_before(message.first) != message.before:
            self.ask(source, self.settled if message.first <= log.end else log.end, out)
            return
        closing = self.closing
        takes_over = closing is not None and source == closing.source
        matches = self._take(now, source, message, message.graph > 0 or takes_over, out)
        if takes_over:
            assert closing is not None
            closing.taken = max(matches, closing.taken)
            self.go_on_closing(now, out)

    def _is_next(self, source: int, message: Places, log: PlaceLog) -> bool:
        """Whether the primary that we follow goes on where our log ends, with packets of one sender or none.

        Nearly all places come so. What is told then changes nothing that we have, and nobody can be about to close the
        graph, so most of what else may be wrong need not be looked at.
        """
        graph, end, segments = message.graph, log.end, message.segments
        if (
            (message.first != end or source != self.primary or message.order != self.order)
            or not (graph == self.graph == message.before == self.promised[0] == log.graph_before(end))
            or (self.closing is not None or self.blocked_since < inf or len(segments) > 1)
        ):
            return False
        if not segments:
            return True
        one = segments[0]
        return one.has_packets and one.graph == graph and end + one.count <= PLACES_MAX

    def _take_next(self, now: float, source: int, message: Places, log: PlaceLog, out: Effects) -> None:
        """What `told_places` does, for a message that `_is_next`."""
        self.heard_at = self.went_on_at = now
        for segment in message.segments:
            log.append(segment)
        end, settled, word = log.end, message.settled, self._word_beside(source, log)
        now_settled = end if word.is_enough else min(settled, end)
        if now_settled > self.settled:
            self.settled = now_settled
            self.host.settled_more(now, out)
        elif end > self.settled:
            self.host.knows_more(now, out)
        if end > settled and self._has_to_answer(message, end, word):
            kept = PlacesKept(self.order, message.graph, self.life, end, self.branch)
            out.append(Unicast(source, kept, later=word.is_enough))  # then all but the primary settle by themselves
        elif settled > end:
            self.ask(source, end, out)

    def _take(self, now: float, source: int, message: Places, everything: bool, out: Effects) -> int:
        """Enter places, from a member that is not the primary only what is settled; returns up to where it agrees."""
        log = self.log
        assert log is not None
        segments = message.segments if everything else below(message, message.settled)
        if not log.take(message.first, segments, self.settled):
            self.ladder.ignored["other places than those that are settled"] += 1
            return 0
        if log.cut_at < PLACES_MAX:
            self._undo_what_was_cut(log, out)
        matches = message.first + sum([segment.count for segment in segments])
        enough = message.graph and self._word_beside(source, log).is_enough and log.graph_before(matches) == self.graph
        settled = matches if enough else min(message.settled, matches)
        if settled > self.settled:
            self.settled = settled
            self.host.settled_more(now, out)
        elif matches > self.settled:
            self.host.knows_more(now, out)
        asks = matches > message.settled and message.graph
        if asks and self._has_to_answer(message, matches, self._word_beside(source, log)):
            out.append(Unicast(source, PlacesKept(self.order, message.graph, self.life, matches, self.branch)))
        if message.settled > log.end:
            self.ask(source, log.end, out)
        return matches

    def _has_to_answer(self, message: Places, matches: int, word: _Word) -> bool:
        """Whether we are a site that should say now that it keeps these."""
        asked = word.counts and message.asked & (EVERYBODY | word.bit)
        awaited = asked and (self.is_atomic or self._is_awaited(message.segments))
        return bool(awaited) and self._is_news(message, matches)

    def _word_beside(self, primary: int, log: PlaceLog) -> _Word:
        """What our word counts while this one is the primary: found out once for the same sites.

        If we and the primary are most of those that decide, what both keep stays. So it is in groups of up to four,
        which thus deliver as soon as they are told a place.
        """
        alone = log.alone(self.settled)
        if alone is None or alone is not self._word.sites or primary != self._word.primary:
            deciding = log.sites(self.settled)
            me, last = self.ladder.me, deciding[-1]
            has = [sites.has(me, self.life) for sites in deciding]
            most = all(has) and all(sites.are_most((primary, me)) for sites in deciding)
            bit = 2 << sum(member < me for member in last.lives) if me in last.lives else 0
            self._word = _Word(alone, primary, any(has), most, bit)
        return self._word

    def _is_news(self, message: Places, matches: int) -> bool:
        """Whether the primary may not know that we keep these: if only more is settled now, it need not be told again.

        If we have said so and nothing more is settled, our word was lost, and the primary asks for it by its beat.
        """
        graph, kept, settled = self._said
        is_known = message.graph == graph and matches <= kept and message.settled > settled
        self._said = message.graph, max(matches, kept) if message.graph == graph else matches, message.settled
        return not is_known

    def _undo_what_was_cut(self, log: PlaceLog, out: Effects) -> None:
        if log.cut_at < self.turn:
            self.host.undo_from(log.cut_at, out)
            self.turn = log.cut_at  # also of what was passed over, as others' channels are
        log.cut_at = PLACES_MAX

    def _is_awaited(self, segments: list[Segment]) -> bool:
        """Whether somebody waits until these are settled: with non-atomic failures nobody does for packets.

        So they cost no further messages (002 §5.2.1); they are settled when the primary asks, at its next beat.
        """
        return self.is_atomic or not segments or not all(segment.has_packets for segment in segments)

    def may_hand_over(self) -> int:
        """The place below which packets have their turn: what is settled, or what is known but not after a mark.

        Marks say which sequence has its turn, so they stay. Nor is anything handed over that nobody may ever keep.
        """
        if self.is_atomic or self.log is None or self.blocked_since < inf or self.host.turns.is_far_ahead:
            return self.settled
        marks = self.log.marks.between(self.settled, self.log.end)
        return marks[0][0] if marks else self.log.end

    def believes(self, graph: int) -> bool:
        """Whether there can be a graph of this number; if not, it is counted."""
        known = 0 if self.log is None else self.log.graph_before(self.log.end)
        if graph <= max(self.promised[0], known) + GRAPHS_AHEAD:
            return True
        self.ladder.ignored["graphs from the future"] += 1
        return False

    def _is_ours(self, order: int, out: Effects) -> bool:
        """Whether this is about our order. Of two that were founded apart, the older one stays, if it lets us in."""
        if order < self.order:
            self.ladder.ignored["an order founded apart"] += 1
            self.say(EnterOrder(self.life, True, self._starts(), self.branch), out)
        return order == self.order and self.log is not None

    def _follow(self, now: float, graph: int, primary: int, out: Effects) -> None:
        if (graph, primary) != (self.graph, self.primary):
            out.append(Note("graph", seqno=graph, peer=primary, phase="follows"))
        self.graph, self.primary, self.promised = graph, primary, (graph, primary)
        self.closing = None
        self.heard_at = self.went_on_at = now
        self.unblock(now)

    def ask(self, to: int, first: int, out: Effects) -> None:
        """Please tell us the places from `first` on."""
        out.append(Unicast(to, PlacesWanted(self.order, first, self.branch)))

    def say(self, message: Message, out: Effects) -> None:
        """To everybody that follows."""
        if self.branch and self._audience[0] is not self.ladder.roster:
            self._audience = self.ladder.roster, self._reaching()
        for channel in self._audience[1]:
            out.append(Multicast(message, channel=channel))

    def _reaching(self) -> list[int]:
        """The channels by which everybody is reached that follows a branch, few if possible."""
        roster, found = self.ladder.roster, list[int]()
        left = {member for member in self.opened.table if member != roster.me and roster.knows(member)}
        while left:
            heard = {c: {m for m in left if roster.hears(m, c)} for c in channels_in(self.opened.channels)}
            channel = max(heard, key=lambda c: len(heard[c]))
            if not heard[channel]:
                return [0]  # one of them has stopped to listen
            found.append(channel)
            left -= heard[channel]
        return found

    # A member that comes.

    def enter(self, out: Effects) -> None:
        """Ask to be a site and, if we know nothing, where we begin."""
        begins = self.log is None
        self.say(EnterOrder(self.life, begins, self._starts() if begins else {}, self.branch), out)

    def _starts(self) -> dict[int, int]:
        return {sender: stream.start - 1 for sender, stream in self.ladder.streams.items()}

    def told_beginning(self, now: float, source: int, message: OrderBegins, out: Effects) -> None:
        """Here the sequence begins for us, if that was asked for or we are too far behind."""
        behind = self.log is not None and message.life == 0 and message.first > self.log.end
        behind |= self.log is not None and message.life == self.life and message.order < self.order
        if (message.life != self.life and not behind) or message.first > PLACES_MAX:
            return
        if self.log is not None and not behind:
            return
        if message.life == 0 and self._asks_elsewhere(now, source, out):
            return
        if message.order != self.order:  # what was promised was about another order
            self.order, self.closing, self.primary, self.promised = message.order, None, -1, (0, -1)
        self.host.undo_from(0, out)
        sites = Sites(message.primary, message.lives)
        branches = {told.graph: told.mark for told in message.branches if told.mark is not None}
        at = branches.pop(0, None)  # of a branch: how far the trunk is there
        marks = Marks(branches, 0 if at is None else at.number)
        self.begin_at(message.first, PlaceLog(message.first, message.before, message.placed, sites, marks))
        self.host.begins_anew()
        self.host.turns.begin(message.placed, out)
        self.heard_at = self.went_on_at = now
        self.unblock(now)
        self.ask(source, message.first, out)

    def _asks_elsewhere(self, now: float, source: int, out: Effects) -> bool:
        """Whether another site is asked first: a primary that came later than we did does not know what came before."""
        assert self.log is not None
        sites = self.sites().lives
        others = [m for m in self.members() if m in sites and m not in (self.ladder.me, source)]
        if self._elsewhere[0] != self.log.end:
            self._elsewhere = self.log.end, now
        if not others or now - self._elsewhere[1] > _ELSEWHERE * self.ladder.settings.order_patience:
            return False
        self.ask(self.ladder.rng.choice(others), self.log.end, out)
        return True

    # What is done by those that close a graph.

    def closed(self) -> GraphClosed:
        """What we have promised, and what we keep."""
        assert self.log is not None
        end = self.log.end
        last = self.log.graph_before(end)
        return GraphClosed(self.order, *self.promised, self.life, last, end, self.settled, self.branch)

    def go_on_closing(self, now: float, out: Effects) -> None:
        """We have more of what others keep: perhaps it is enough to open the next graph."""
        raise NotImplementedError

    # Whether it goes on.

    def blocked(self) -> str:
        """Why nothing can be delivered now, though there may be something; empty if nothing is in the way."""
        if self.blocked_since == inf:
            return ""
        if self.log is None:
            return "the order has not begun for this member"
        where = f" of branch {self.branch}" if self.branch else ""
        return f"graph {self.graph}{where} has no primary in reach, or not most of its {len(self.sites().lives)} sites"

    def block(self, now: float, why: str, out: Effects) -> None:
        """It cannot go on."""
        if self.blocked_since == inf:
            self.blocked_since = now
            out.append(Note("block", seqno=self.graph, phase=why))
            out.append(ReportBlocked(self.blocked()))

    def unblock(self, now: float) -> None:
        """It goes on."""
        if self.blocked_since < inf:
            self.blocked_s += now - self.blocked_since
            self.blocked_since = inf

    def blocked_seconds(self, now: float) -> float:
        """How long it was blocked, in all."""
        return self.blocked_s + (now - self.blocked_since if self.blocked_since < inf else 0.0)

    def hears(self, member: int, stream: int) -> bool:
        """Whether `member` hears the channel of `stream`, as far as we know."""
        return self.ladder.roster.hears(member, channel_of(stream))
