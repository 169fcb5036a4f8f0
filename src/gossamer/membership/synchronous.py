"""Virtual synchrony (004 §2, §3 and its Fig. 2): views that all members agree on, and packets within views.

The group goes from view to view, and members that go from one to the next together have delivered the same packets in
it. The oldest member that lives coordinates. To change the view it asks the others to flush: they send nothing new,
take in nothing more of members that are out, and say how far they have each sender's packets in order, and what they
keep. The most that anybody has is the cut of the view: it proposes the next view with that cut, members fetch what they
lack of it from those that have it, and agree; when most of the last view agree, the view is decided (`view_change.py`),
and installed by each member as soon as it has everything up to the cut. If the coordinator is not heard of any more,
the next one makes a further attempt. A flush always ends in a new view, if only in one with the same members.

Members of which some have a packet that others lack and nobody keeps cannot go on together: the smaller side is left
out of the next view, as if the network were cut (003 §8). A member that finds nobody to give it a packet asks for a
flush, in which that comes out.

The last view's majority goes on (its half with the oldest member, if it is cut in halves); any other part stands still,
says so, and is told that it was excluded when it hears of the others again: then its members join anew, as they do
after a crash. So do members that are left out because of a packet.

A member that is not heard for `exclude_after` is excluded. The shorter that is, the sooner the group goes on without
a member that crashed, and the more often one is excluded that was only slow: that is the trade-off of 004 §2.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from gossamer.core.declares import (
    AGREED_VIEWS,
    HOLDING_BACK,
    LOG_REPAIR,
    LOGGERS,
    NEVER_LOST,
    STABILITY_TOLD,
    UNSTABLE_KEPT,
    Declares,
)
from gossamer.core.effects import BecomeMember, BecomeStranger, JoinAnew, Multicast, Note, Unicast
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.messages import Leave
from gossamer.core.packet_sets import Horizon
from gossamer.core.parts import Membership
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings
from gossamer.core.views import EnterView, Excluded, Flush, FlushAnswer, MemberEntry, NewView, ViewBeat, ViewReady
from gossamer.membership.part import NUMBERS_MAX, Part, begin_streams, can_be, installed
from gossamer.membership.view import JOINING, MEMBER
from gossamer.membership.view_change import AgreedView, ViewChange, exceeds
from gossamer.membership.watch import Watch

_BEATS = 5
"""Signs of life in the time after which a member is excluded."""
_PATIENCES = 3
"""For so many of these times in vain a member tries to complete its last view, or to tell others of the next."""
_JOINING_MAX = 64
"""So many may wait to be in the next view; others ask again."""


class Synchronous(Membership):
    """This member's view, its part in the change of it and, if it coordinates, the change itself."""

    self_organized = True
    only_members = True
    asks = True
    agreed = True
    outside = (NewView, Excluded)
    from_strangers = (EnterView, ViewBeat, Flush, NewView, Excluded, Leave, ViewReady)

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        members = ladder.roster.members
        self._part: Part | None = None  # with the view that we are in
        if ladder.me in members:
            self._part = Part(ladder, AgreedView(1, tuple(MemberEntry(member, MEMBER, 0) for member in members)))
        self._freshness = 0
        self._leaving = False
        self._cut_off = self._settled = False
        self._departure: tuple[float, NewView] | None = None  # since when we know of a next view without us
        self._change: ViewChange | None = None
        self._decided: NewView | None = None  # the view that we are in, for members that have not heard of it
        self._past: Horizon = {}  # the cut of the last view, until we know that everybody is in this one
        self._inside: dict[int, None] = {}  # the members that have said that they are
        self._joining: dict[int, tuple[MemberEntry, int]] = {}
        self._leavers: dict[int, None] = {}
        self._beat_at = 0.0
        self._patience = ladder.settings.exclude_after
        self._watch = Watch(ladder.me, self._patience)
        self._beating = ladder.timer(self._beat)
        self._retrying = ladder.timer(self._retry)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Nothing that a member has is let go before all have it, and nothing is reported lost: there is no log."""
        return Declares(
            promises=("virtual-synchrony",),
            needs=(HOLDING_BACK, STABILITY_TOLD, UNSTABLE_KEPT, NEVER_LOST),
            provides=(AGREED_VIEWS,),
            excludes=(LOGGERS, LOG_REPAIR),
        )

    def messages(self) -> Mapping[type, MessageHandler]:
        """Everything that views are agreed on with."""
        return {
            ViewBeat: self._beat_heard,
            EnterView: self._enter_asked,
            Leave: self._leave_asked,
            Flush: self._flush_asked,
            FlushAnswer: self._flush_answered,
            NewView: self._told_view,
            ViewReady: self._told_ready,
            Excluded: self._told_excluded,
        }

    def started(self, now: float, out: Effects) -> None:
        """In the first view, or on the way into a later one."""
        self._beat_at = now
        self.ladder.is_member = self._part is not None
        if self._part is None:
            self._freshness = int(now * 1e6)
        else:
            for member in self.ladder.roster.others():
                self.ladder.streams.begin(member, 0)
            self._watch.begin(now, self._part.view.members)
            out.append(installed(self._part.view))
        self._beat(now, out)

    def leaving(self, now: float, out: Effects) -> None:
        """Ask to be left out of the next view."""
        self._leaving = True
        if self._part is None or len(self._part.view.entries) == 1:
            self._leave(out)
        else:
            self._beat(now, out)

    def reconnected(self, now: float, out: Effects) -> None:
        """Nobody could be heard."""
        self._watch.listens_since(now)

    def full(self) -> str:
        """Senders are stopped while the view changes."""
        part = self._part
        if part is None or part.flushes_since is None:
            return ""
        return f"no majority of view {part.view.number} is in reach" if self._cut_off else "the view changes"

    def changing(self) -> bool:
        """Until all members are known to be in this view, and none of them flushes."""
        return not self._settled or self._part is None or self._part.flushes_since is not None

    def stuck(self, now: float, out: Effects) -> bool:
        """Have the view changed: in the flush everybody says what it keeps, and so who can go on with whom."""
        part = self._part
        if part is None or part.flushes_since is not None:
            return False
        part.attempts = max(part.attempts, 1)
        if self._coordinates():
            self._look(now, part, out)
        else:
            out.append(Unicast(self._watch.coordinator, self._sign_of_life(part)))
        return True

    # Signs of life.

    def _beat(self, now: float, out: Effects) -> None:
        part, period = self._part, self._patience / _BEATS
        if part is None:
            self._ask_to_enter(out)
            self._beating.set(now + self.ladder.settings.retry_period)
            return
        if now - self._beat_at > 2 * period:  # we stood still
            self._watch.listens_since(now)
        self._beat_at = now
        self._beating.set(now + period)
        if self._departure is not None:
            return
        if self._watch.follow(now):
            self._begin_change(now, part, self._watch.older(), out)
        beat, to = self._sign_of_life(part), self._watch.coordinator
        out.append(Multicast(beat) if to == self.ladder.me or self._watch.doubts(now) else Unicast(to, beat))
        if self._leaving:
            self._leave_asked(now, self.ladder.me, Leave(self._freshness), out)
            out.append(Multicast(Leave(self._freshness)))
        if self._coordinates() and self._part is part:
            self._look(now, part, out)

    def _sign_of_life(self, part: Part) -> ViewBeat:
        return ViewBeat(part.view.number, max(part.attempts, part.promised[0]), self._settled)

    def _coordinates(self) -> bool:
        return self._part is not None and self._watch.coordinator == self.ladder.me

    def _look(self, now: float, part: Part, out: Effects) -> None:
        """The coordinator changes the view if anybody comes, goes or is silent, or others wait for that to happen."""
        if self._departure is not None or (self._change is not None and self._change.attempt >= part.attempts):
            return
        silent = self._watch.silent(now)
        waits = part.flushes_since is not None and now - part.flushes_since > self._patience
        if silent or self._joining or self._leavers or waits or part.attempts > part.promised[0]:
            out.extend(Note("suspect", peer=member) for member in silent)
            self._begin_change(now, part, silent, out)

    def _beat_heard(self, now: float, source: int, beat: ViewBeat, out: Effects) -> None:
        part = self._part
        if part is None or max(beat.view, beat.attempt) > NUMBERS_MAX:
            return
        if beat.view != part.view.number:
            self._set_right(source, beat.view, out)
        elif part.view.knows(source):
            self._watch.hears(now, source)
            part.attempts = max(part.attempts, beat.attempt)
            self._inside[source] = None
            if beat.settled:
                self._settle(now, out)
            if self._coordinates():
                self._settle_if_all_are_in(now, part, out)
                self._look(now, part, out)

    def _set_right(self, source: int, theirs: int, out: Effects) -> None:
        """The source is in another view: tell it of ours, or ask it to tell us of its own."""
        assert self._part is not None
        view = self._part.view
        if theirs > view.number:
            out.append(Unicast(source, self._sign_of_life(self._part)))
        else:
            out.append(Unicast(source, self._end_of(source, theirs)))

    def _end_of(self, member: int, theirs: int) -> NewView | Excluded:
        """How the view ended that `member` is in: with the cut, if that is known here."""
        assert self._part is not None
        decided = self._decided
        known = decided is not None and decided.view == theirs + 1 and member in decided.cut
        return decided if decided is not None and known else Excluded(self._part.view.number)

    def _settle_if_all_are_in(self, now: float, part: Part, out: Effects) -> None:
        others = [member for member in part.view.members if member != self.ladder.me]
        if not self._settled and all(member in self._inside for member in others):
            self._settle(now, out)
            out.append(Multicast(self._sign_of_life(part)))

    def _settle(self, now: float, out: Effects) -> None:
        """Everybody is in this view, and so has all packets of the last one."""
        self._settled = True
        past, self._past = self._past, {}
        for sender, last in past.items():
            self.ladder.stabilized(now, sender, last, out)

    # Coming and going.

    def _ask_to_enter(self, out: Effects) -> None:
        ladder = self.ladder
        entry = MemberEntry(ladder.me, JOINING, self._freshness, address=ladder.address)
        out.append(Multicast(EnterView(entry, ladder.streams[ladder.me].next)))

    def _enter_asked(self, now: float, source: int, message: EnterView, out: Effects) -> None:
        entry, part = message.entry, self._part
        if part is None or entry.member != source or not self._coordinates():
            return
        if part.view.has(source, entry.freshness):
            if self._decided is not None:
                out.append(Unicast(source, self._decided))
            return
        room = source in self._joining or len(self._joining) < _JOINING_MAX
        if room and part.view.is_news(entry) and self.ladder.gaps.can_be(now, message.first):
            member = MemberEntry(source, MEMBER, entry.freshness, address=entry.address)
            self._joining[source] = member, message.first
            self._look(now, part, out)

    def _leave_asked(self, now: float, source: int, message: Leave, out: Effects) -> None:
        part = self._part
        if part is None:
            return
        if not part.view.knows(source):
            out.append(Unicast(source, self._end_of(source, part.view.number - 1)))
        elif part.view.has(source, message.freshness):
            self._leavers[source] = None
            if self._coordinates():
                self._look(now, part, out)

    def _told_excluded(self, now: float, source: int, message: Excluded, out: Effects) -> None:
        if self._part is not None and self._part.view.number < message.view <= NUMBERS_MAX:
            known = None if self._departure is None else self._departure[1]
            why = f"excluded from view {message.view}" if known is None else self._part.why_out(known)
            self._go(why, {} if known is None else known.cut, out)

    def _depart(self, now: float, source: int, part: Part, message: NewView, out: Effects) -> None:
        """We are not in the next view, but perhaps nobody else knows of it: tell those that are until one says so."""
        since, self._change = (now if self._departure is None else self._departure[0]), None
        self._departure = since, message
        patient = now - since < _PATIENCES * self._patience
        if not patient or not message.entries or not part.took_part(message):
            self._go(part.why_out(message), message.cut, out)
            return
        part.next = source, message
        out.extend(Unicast(entry.member, message) for entry in message.entries)
        self._retrying.arm(now + self.ladder.settings.retry_period)

    def _go(self, why: str, cut: Horizon, out: Effects) -> None:
        """The group has gone on without us, as we wished or not: in order if the cut has all that we published."""
        me = self.ladder.me
        if not self._leaving:
            self._join_anew(why, out)
        elif self.ladder.streams[me].next - 1 <= cut.get(me, -1):
            self._leave(out)
        else:
            self._leave(out, unfinished=why)

    def _leave(self, out: Effects, unfinished: str = "") -> None:
        self._close()
        self.ladder.end()
        out.append(BecomeStranger(unfinished))

    def _join_anew(self, why: str, out: Effects) -> None:
        self._close()
        self.ladder.is_member = False
        out.append(JoinAnew(why))

    def _close(self) -> None:
        self._part = self._change = None
        self._freshness = -1  # no view has us in it any more, whatever comes late
        self._beating.set(inf)
        self._retrying.set(inf)

    # The coordinator.

    def _begin_change(self, now: float, part: Part, gone: list[int], out: Effects) -> None:
        replaced = [m for m in self._joining if part.view.knows(m)]  # back after a crash: out it was before
        attempt = max(part.attempts, part.promised[0]) + 1
        self._change = change = ViewChange(part.view, attempt, [*gone, *replaced], now)
        flush = Flush(part.view.number, attempt, change.out)
        out.append(Multicast(flush))
        self._retrying.arm(now + self.ladder.settings.retry_period)
        self._flush_asked(now, self.ladder.me, flush, out)

    def _flush_answered(self, now: float, source: int, answer: FlushAnswer, out: Effects) -> None:
        change = self._change
        if change is None or change.proposal is not None or source in change.out:
            return
        if (answer.view, answer.attempt) == (change.view.number, change.attempt) and change.view.knows(source):
            change.answers[source] = answer
            self._watch.hears(now, source)
            if not change.lacking():
                self._propose(now, change, out)

    def _propose(self, now: float, change: ViewChange, out: Effects) -> None:
        """All that are not out have answered; without a majority of the view, the others are waited for."""
        cut_off = not change.view.is_most(change.answers)
        if cut_off and not self._cut_off:
            out.append(Note("block", seqno=change.view.number, phase="no majority"))
        self._cut_off = cut_off
        if not cut_off:
            proposal = change.propose(self._joining, self._leavers)
            out.append(Multicast(proposal))
            self._told_view(now, self.ladder.me, proposal, out)

    def _told_ready(self, now: float, source: int, message: ViewReady, out: Effects) -> None:
        change, part = self._change, self._part
        if part is not None and message.view <= part.view.number:
            self._set_right(source, message.view - 1, out)
        elif change is not None and change.proposal is not None and message.attempt == change.attempt:
            change.ready[source] = None
            self._watch.hears(now, source)
            if change.view.is_most(change.ready):
                decided = replace(change.proposal, decided=True)
                out.append(Multicast(decided))
                self._told_view(now, self.ladder.me, decided, out)

    def _retry(self, now: float, out: Effects) -> None:
        """Whoever has not answered is asked again, and after a while taken for gone."""
        part, change = self._part, self._change
        if part is not None and change is not None and now - change.began > self._patience:
            gone = dict.fromkeys([*change.lacking(), *self._watch.silent(now)])
            self._change = None
            if self._coordinates() or change.proposal is not None:
                self._begin_change(now, part, list(gone), out)
        elif change is not None:
            message = change.proposal or Flush(change.view.number, change.attempt, change.out)
            out.extend(Unicast(member, message) for member in change.lacking() if member != self.ladder.me)
        if self._part is not None and self._departure is not None:
            self._depart(now, self.ladder.me, self._part, self._departure[1], out)
        elif self._part is not None and self._part.next is not None:
            self._complete(now, self._part, out, again=True)
        if self._change is not None or (self._part is not None and self._part.next is not None):
            self._retrying.arm(now + self.ladder.settings.retry_period)

    # A member's part.

    def _flush_asked(self, now: float, source: int, flush: Flush, out: Effects) -> None:
        part, me = self._part, self.ladder.me
        if part is None or max(flush.view, flush.attempt) > NUMBERS_MAX:
            return
        if flush.view != part.view.number:
            self._set_right(source, flush.view, out)
            return
        part.attempts = max(part.attempts, flush.attempt)
        if not part.view.knows(source) or me in flush.out:
            return
        self._watch.hears(now, source)
        if (flush.attempt, source) < part.promised:
            out.append(Unicast(source, self._sign_of_life(part)))
        elif part.next is not None and part.next[1].decided:
            out.append(Unicast(source, part.next[1]))
        else:
            self._promise(now, part, flush.attempt, source, out)
            part.stop(now, flush.out, out)
            self._say(now, source, part.answer(flush.attempt), self._flush_answered, out)

    def _say(self, now: float, to: int, message: Any, ourselves: MessageHandler, out: Effects) -> None:
        """To the coordinator, which may be this member itself."""
        if to == self.ladder.me:
            ourselves(now, to, message, out)
        else:
            out.append(Unicast(to, message))

    def _promise(self, now: float, part: Part, attempt: int, source: int, out: Effects) -> None:
        if source != self.ladder.me and (attempt, source) != part.promised:
            self._change = None
        if part.promise(now, attempt, source):
            out.append(Note("block", seqno=part.view.number, phase="flush"))

    def _told_view(self, now: float, source: int, message: NewView, out: Effects) -> None:
        part = self._part
        if not can_be(self.ladder, now, message):
            return
        among_them = any(self._is_me(entry) for entry in message.entries)
        if part is None:
            if message.decided and among_them:
                self._enter(now, message, out)
        elif message.view <= part.view.number or not (message.decided or part.may_agree(source, message)):
            if message.decided and not part.view.knows(source):
                out.append(Unicast(source, Excluded(part.view.number)))
        elif message.decided and not among_them:
            self._depart(now, source, part, message, out)
        elif message.view > part.view.number + 1:
            self._go(f"view {message.view} came after view {part.view.number}", {}, out)
        elif self._stays(message) and exceeds(part.have(), message.cut):
            if message.decided:  # told of another proposal before, which came to nothing
                self._go(f"delivered more than belongs to view {part.view.number}", message.cut, out)
        else:
            self._prepare(now, source, part, message, out)

    def _stays(self, message: NewView) -> bool:
        """Whether we have to complete this view: not if we are out anyway, and only agree that it may end."""
        return self._leaving or any(self._is_me(entry) for entry in message.entries)

    def _is_me(self, entry: MemberEntry) -> bool:
        return entry.member == self.ladder.me and entry.freshness == self._freshness

    def _prepare(self, now: float, source: int, part: Part, message: NewView, out: Effects) -> None:
        if not message.decided:
            self._watch.hears(now, source)
        if not part.prepares(message):
            self._promise(now, part, message.attempt, source, out)
            part.end_streams(now, message.cut, out)
        part.next = source, message
        self._retrying.arm(now + self.ladder.settings.retry_period)
        self._complete(now, part, out)

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """That may have been the last packet of this view; other rungs have to hear of it before the view ends."""
        if self._part is not None and self._part.next is not None and not self._part.lacks():
            self._retrying.set(now)

    def _complete(self, now: float, part: Part, out: Effects, *, again: bool = False) -> None:
        """Agree to the next view, or install it, if nothing is lacking. If nobody gives it to us, others go on."""
        assert part.next is not None
        source, message = part.next
        lacking = self._stays(message) and part.ask(message, out, again=again)
        if lacking and not part.in_vain(now, message, _PATIENCES * self._patience):
            return
        if not message.decided:
            part.agree()
            self._say(now, source, ViewReady(message.view, message.attempt), self._told_ready, out)
        elif lacking:
            self._go(part.why_out(message), message.cut, out)
        else:
            self._install(now, message, out)

    def _enter(self, now: float, message: NewView, out: Effects) -> None:
        """We are in: owed is what is sent in this view."""
        horizon = {sender: first - 1 for sender, first in message.starts.items() if sender != self.ladder.me}
        self.ladder.begin(horizon)
        out.append(BecomeMember(horizon))
        self._install(now, message, out)

    def _install(self, now: float, message: NewView, out: Effects) -> None:
        ladder, before = self.ladder, self._part
        self._settle(now, out)  # of the view before the last: whoever comes along was in the last one
        view = AgreedView(message.view, tuple(message.entries))
        self._part, self._change, self._decided = Part(ladder, view), None, message
        begin_streams(ladder, now, message, before)
        self._past = message.cut if before is not None else {}
        self._cut_off = self._settled = False
        self._inside = {}
        self._joining = {m: who for m, who in self._joining.items() if view.is_news(who[0])}
        self._leavers = {member: None for member in self._leavers if view.knows(member)}
        self._watch.begin(now, view.members)
        out.append(installed(view))
        addresses = {entry.member: entry.address for entry in view.entries if entry.address}
        ladder.install_view(now, Roster(ladder.me, tuple(sorted(view.members)), addresses=addresses), out)
        self._beat(now, out)
