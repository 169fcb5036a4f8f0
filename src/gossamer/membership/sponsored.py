"""Approximate membership with sponsors (000 §5.3, §6.2).

To join, a process multicasts its wish until k members (or all, if they are fewer), or one logger, have answered that it
is in their view; if nobody ever answers, it may found the group itself. Each of these sponsors says how far it has seen
every sender; the join takes effect at the element-wise maximum of that, t_join. Nothing sent after t_join is collected
before the new member has it: a sponsor acknowledges to a logger only in gossip that carries its view, and so the logger
learns of the new member first. Then the new member says that it is in: until it does, it is joining, and what is
published meanwhile may come before t_join.

It may be that nobody answered because all were busy for a moment, or cut off. A process that founded a group therefore
keeps announcing itself; until it has met somebody, it takes in no packets, of which it could not tell the old from the
new; and when it meets members of another group, the younger of two founders, or the one that is alone, joins as if it
were new, but is owed what was sent since its application was told that it is a member (`recently.py`). If they do not
answer (some can be heard and do not hear), it goes on as the founder that it is, and the views merge. A logger does so
at once: it takes whatever it can get, and knows what was sent before it came. So do larger groups that were founded
apart, in each of which somebody announces itself now and then: what either side has sent is then repaired as after a
partition. `standing.py` has all of this as a table.

Views travel by gossip: a hash of the view in every gossip, the views themselves where hashes differ. That a member has
left is told only to those that speak of it as a member: many come, publish and go, and would be in every view. To leave
is to join in reverse. A member that will be away says so, keeps its claim on the log, and says when it is back; one
that is not back when everything that it could claim has timed out is taken to have left.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from gossamer.core.channels import unlisten
from gossamer.core.declares import JOINING as JOINING_ALLOWED
from gossamer.core.declares import LOGGERS, Declares
from gossamer.core.effects import BecomeMember, BecomeStranger, Multicast, NameTaken, Note, Unicast
from gossamer.core.ids import owner_of
from gossamer.core.inputs import NamesakeHeard
from gossamer.core.ladder import Effects, InputHandler, Ladder, MessageHandler
from gossamer.core.messages import Gossip, Join, Leave, ViewUpdate
from gossamer.core.packet_sets import Horizon
from gossamer.core.parts import Membership
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings
from gossamer.core.streams import rest_of
from gossamer.core.views import MemberEntry
from gossamer.membership.absentees import Absentees
from gossamer.membership.recently import KEPT_S, Recently
from gossamer.membership.standing import TRANSITIONS, Event, Standing
from gossamer.membership.view import DISCONNECTED, JOINING, LEFT, MEMBER, STATUS_NAMES, View

_BEACON_S = 1.0
"""About this often some member announces itself, if groups may be founded or members suspected."""
_LOOKS = 16
"""A member looks this often, within the log's time-out, for members that are still away."""
_REMEMBERED_S = 7200.0
"""A member that left is remembered for this long: one that is away for longer still knows it, and brings it back."""
_EAGERNESS = 4
"""Of n members about this many times k offer to sponsor, so that a join in a large group is no implosion."""
_NEWS_S, _NEWS_MAX = 10.0, 50
"""Where there is no logger to remember it, a member that leaves tells in its goodbye who has left within this time."""
_WRITTEN_S, _AHEAD_S = 1.77e9, 100 * 365 * 86_400.0
"""An entry is at most a century ahead of our clock, or of 2026 if our clock was never set; else it is ignored. So a lie
about a member leaves it room to refute it, and clocks may differ by years."""
_PATIENCE = 16
"""A process that hears others announces itself this many times as often before it founds a group all the same."""


class Sponsored(Membership):
    """This member's own standing, and its view of all the others."""

    gossips = True
    self_organized = True
    outside = (Join, Leave, ViewUpdate)
    from_strangers = (Join, Leave, ViewUpdate, Gossip)

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        members = ladder.roster.members
        self._standing = Standing.IN if ladder.me in members else Standing.JOINING
        listens, loggers = ladder.roster.listening, ladder.roster.loggers
        self._view = View(MemberEntry(m, MEMBER, 0, m in loggers, channels=listens.get(m, 0)) for m in members)
        self._loggers_given = loggers
        self._freshness = 0
        self._sponsors: dict[int, None] = {}
        self._t_join: Horizon = {}
        self._resume = False
        self._announced = 0
        self._silence = 0  # announcements since the others were heard
        self._has_founded = False
        self._alone_since = inf  # when its application was told that it is a member, though it had met nobody
        self._recently = Recently()
        self._sponsored = False  # whether it has enough sponsors, and waits for a moment before it is in
        self._absentees = Absentees()
        self._announcing = ladder.timer(self._announce)
        self._answering = ladder.timer(self._answer_namesake)
        self._looking = ladder.timer(self._look)
        self._beaconing = ladder.timer(self._beacon)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Members come and go, loggers among them; those that reach each other agree on who is there."""
        return Declares(promises=("one-view",), provides=(JOINING_ALLOWED, LOGGERS))

    def messages(self) -> Mapping[type, MessageHandler]:
        """Joins, leaves, views, and the hash in every gossip."""
        return {Join: self._join_asked, Leave: self._leave_told, ViewUpdate: self._told, Gossip: self._gossiped}

    def inputs(self) -> Mapping[type, InputHandler]:
        """Another process under our name."""
        return {NamesakeHeard: self._namesake_heard}

    def started(self, now: float, out: Effects) -> None:
        """A member from the first moment, or one that has to join."""
        self.ladder.is_member = self._standing.is_inside
        self._install(now, out)
        self._looking.set(now + self.ladder.settings.log_timeout / _LOOKS)
        if self.ladder.settings.found_after or self.ladder.settings.suspect_after:
            self._beacon(now, out)
        if self._standing is Standing.JOINING:
            recovers = self.ladder.restored.recovers and not self.ladder.is_logger  # which goes on with its log
            self._resume = recovers and self.ladder.settings.recovery == "at-least-once"
            self._begin(now, out)

    def leaving(self, now: float, out: Effects) -> None:
        """Say goodbye until somebody has heard it."""
        self._happens(Event.WANTS_OUT)
        self._begin(now, out)

    def disconnecting(self, now: float, out: Effects) -> None:
        """Say that we shall be back; a process that is not in yet, or on its way out, has no place to keep."""
        if self._standing.is_inside:
            self._declare(now, DISCONNECTED, out)

    def reconnected(self, now: float, out: Effects) -> None:
        """Tell everybody that we are back."""
        if self._standing.is_inside:
            self._declare(now, MEMBER, out)

    def overheard(self, now: float, source: int) -> None:
        """Somebody is there, and should answer: it is not for us to found the group."""
        self._silence = 0

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """Forget those that wanted to join and never came; note where everything is, for those that come late."""
        if self.ladder.settings.found_after and self._standing.is_inside and self._recently.is_due(now):
            self._recently.note(now, self._lasts())
        if self._absentees.anybody_joins or self.ladder.roster.joining:
            self._forget_newcomers(now, out)

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """The hash of our view, without members that left long ago: else it would grow for ever."""
        self._view.forget_left(now, _REMEMBERED_S)
        gossip.view = self._view.signature()

    def suspect(self, now: float, member: int, out: Effects) -> None:
        """Put down as disconnected a member that is not heard any more; if it lives, it refutes that."""
        entry = self._view.get(member)
        if entry is not None and entry.status in (MEMBER, JOINING) and self._standing.is_inside:
            doubt = self._unheard(entry)
            self._merge(now, [doubt], out)
            out.append(Multicast(ViewUpdate([doubt])))

    def _unheard(self, entry: MemberEntry) -> MemberEntry:
        """What becomes of a member that is not heard: it may be back, but one that never was a member has no claim."""
        fresher = entry.freshness + 1
        if entry.status == JOINING and entry.member not in self._absentees:
            return MemberEntry(entry.member, LEFT, fresher, entry.logger)
        return replace(entry, status=DISCONNECTED, freshness=fresher, name="")

    def _forget_newcomers(self, now: float, out: Effects) -> None:
        gone = self._absentees.never_came(now, [e for e in self._view.newcomers() if e.member != self.ladder.me])
        if gone and self._standing.is_inside:
            self.ladder.ignored["joins that came to nothing"] += len(gone)
            self._merge(now, list(map(self._unheard, gone)), out)

    def _look(self, now: float, out: Effects) -> None:
        """A member that has been away for longer than any log keeps anything for it has left: it may join again."""
        gone = self._absentees.gone_since(now, self._view.away(), now - self.ladder.settings.log_timeout)
        if gone and self._standing.is_inside:
            fresh = int(now * 1e6)
            left = [MemberEntry(e.member, LEFT, max(e.freshness + 1, fresh), e.logger) for e in gone]
            self._merge(now, left, out)
            out.append(Multicast(ViewUpdate(left)))
        self._looking.set(now + self.ladder.settings.log_timeout / _LOOKS)

    # This member's own wishes.

    def _happens(self, event: Event) -> bool:
        """Change our standing as the table says; returns whether the table has anything to say."""
        becomes = TRANSITIONS.get((self._standing, event))
        if becomes is not None:
            self._standing = becomes
            self.ladder.lone_founder = becomes is Standing.ALONE
        return becomes is not None

    def _begin(self, now: float, out: Effects) -> None:
        """Ask for sponsors, to get in or out."""
        self._sponsors = {}
        self._t_join = {}
        self._announced = self._silence = 0
        self._sponsored = False
        self._refresh(now)
        self._announce(now, out)

    def _announce(self, now: float, out: Effects) -> None:
        self._announced += 1
        self._silence += 1
        if self._sponsored:
            self._sponsored = False
            self._settle(now, out)
            return
        if self._standing is Standing.JOINING and self._nobody_answers():
            knows_new = self._sponsors or self._has_founded or self.ladder.is_logger
            self._happens(Event.UNANSWERED_AGAIN if knows_new else Event.UNANSWERED)
            self._has_founded = True
            self._alone_since = min(now, self._alone_since)
            self._become_member(now, out)
        elif self._standing is Standing.JOINING:
            out.append(Multicast(Join(self._entry(JOINING), self._resume, self._alone_us(now))))
        elif self._standing is Standing.LEAVING:
            left = self._view.left_since(int((now - _NEWS_S) * 1e6))[-_NEWS_MAX:]
            out.append(Multicast(Leave(self._freshness, [] if self.ladder.roster.loggers else left)))
        if self._standing.is_inside:
            met = len(self.ladder.roster) > 1 or not self.ladder.settings.found_after
            if met and self._standing is Standing.IN:
                return
            out.append(Multicast(ViewUpdate([self._entry(MEMBER)], answer=True)))  # somebody else may found one, too
        self._announcing.set(now + self.ladder.settings.gossip_period)

    def _alone_us(self, now: float) -> int:
        return max(0, int((now - self._alone_since) * 1e6)) if self._alone_since < inf else 0

    def _beacon(self, now: float, out: Effects) -> None:
        """Each of n members speaks once in about n periods. Members that know it do nothing; others answer.

        So groups that were founded apart, or took each other for dead while they were cut off, find each other again.
        """
        if self._standing.is_inside:
            out.append(Multicast(ViewUpdate([self._entry(MEMBER)])))
        wait = _BEACON_S * (0.5 + self.ladder.rng.random()) * max(1, len(self.ladder.roster))
        self._beaconing.set(now + wait)

    def _nobody_answers(self) -> bool:
        """Whether to found the group ourselves."""
        enough = self.ladder.settings.found_after
        return 0 < enough < max(self._silence, self._announced // _PATIENCE)

    def _refresh(self, now: float) -> None:
        """Incarnations are told apart by the clock, which goes on over a crash (000 §5.3); else we hear of it."""
        self._freshness = max(self._freshness + 1, int(now * 1e6))

    def _declare(self, now: float, status: int, out: Effects) -> None:
        self._refresh(now)
        entry = self._entry(status)
        self._merge(now, [entry], out)
        out.append(Multicast(ViewUpdate([entry])))

    def _entry(self, status: int) -> MemberEntry:
        me = self.ladder
        wanted = 0 if me.is_logger else me.wanted_channels & ~1
        return MemberEntry(me.me, status, self._freshness, me.is_logger, me.address, me.name, wanted, me.known_map)

    def declare_channels(self, now: float, out: Effects) -> None:
        """Tell everybody what this member wants to listen to now."""
        if self._standing.is_inside:
            self._declare(now, MEMBER, out)

    def own_entry(self) -> MemberEntry | None:
        """This member as it says it is; None if it is none."""
        return self._entry(MEMBER) if self._standing.is_inside else None

    def take_in(self, now: float, entry: MemberEntry, out: Effects) -> bool:
        """A member says this of itself; returns whether it is what we hold of it now."""
        if self._credible(now, [entry]):
            self._merge(now, [entry], out)
        known = self._view.get(entry.member)
        return known is not None and known.freshness == entry.freshness

    def is_back(self, member: int) -> bool:
        """Whether it crashed and is back, so that there is something to go on with."""
        return member in self._absentees

    def _count_sponsor(self, now: float, source: int, message: ViewUpdate, out: Effects) -> None:
        mine = next((e for e in message.entries if e.member == self.ladder.me), None)
        wanted = {Standing.JOINING: JOINING, Standing.LEAVING: LEFT}.get(self._standing)
        if mine is None or mine.freshness != self._freshness or mine.status != wanted:
            return
        is_logger = source in self.ladder.roster.loggers
        loggers = any(e.logger and e.status != LEFT for e in message.entries)
        if self._resume and self._standing is Standing.JOINING and loggers and not is_logger:
            return  # only a logger knows where we stopped; where there is none, there is nothing to go on with
        self._sponsors[source] = None
        for sender, seen in message.seen.items():
            if self.ladder.gaps.can_be(now, seen):
                self._t_join[sender] = max(self._t_join.get(sender, -1), seen)
        joins, roster = self._standing is Standing.JOINING, self.ladder.roster
        others = len(self._others(message.entries)) if joins else len(set(roster.others()) - roster.joining)
        if is_logger or len(self._sponsors) >= min(self.ladder.settings.sponsors, max(1, others)):
            if self._resume and self._standing is Standing.JOINING and self._announced == 1:
                self._sponsored = True  # a member that lives under our name has until the next announcement to say so
            else:
                self._settle(now, out)

    def _settle(self, now: float, out: Effects) -> None:
        self._happens(Event.SPONSORED)
        if self._standing is Standing.IN:
            self._become_member(now, out)
        else:
            self.ladder.end()
            out.append(BecomeStranger())

    def _become_member(self, now: float, out: Effects) -> None:
        """In channel 0; to others the member listens once it knows from where on (`listeners`)."""
        if not self.ladder.is_logger:
            unlisten(self.ladder, now, self.ladder.streams.channels, out)
        hears, me = self.ladder.streams.hears, self.ladder.me
        self._t_join = {s: last for s, last in self._t_join.items() if hears(s) or owner_of(s) == me}
        self.ladder.begin(self._t_join, founds=not self._sponsors)
        before_us = any(last >= 0 for sender, last in self._t_join.items() if owner_of(sender) != me)
        missed = "sent while alone" if before_us and self._alone_us(now) > KEPT_S * 1e6 else ""
        # first: what waited to be published goes with the new view
        out.append(BecomeMember(dict(self._t_join), missed))
        self._declare(now, MEMBER, out)

    def _meet(self, now: float, entries: list[MemberEntry], out: Effects) -> None:
        """We have founded a group, and there is another: the younger of two goes, or the one that is alone."""
        others = self._others(entries)
        if not others:
            return
        elder = (others[0].freshness, others[0].member) < (self._freshness, self.ladder.me)
        if len(others) > 1 or elder:
            self._happens(Event.MET_ELDERS)
            self.ladder.is_member = False
            self._begin(now, out)
        else:
            self._happens(Event.MET_YOUNGER)

    def _others(self, entries: list[MemberEntry]) -> list[MemberEntry]:
        return [e for e in entries if e.status == MEMBER and e.member != self.ladder.me]

    def _namesake_heard(self, now: float, happened: NamesakeHeard, out: Effects) -> None:
        """A member that lives answers for its name; a process that wants its name, or was replaced, gives up."""
        message = happened.message
        if self._standing is Standing.JOINING:
            out.append(NameTaken())
        elif isinstance(message, Join):  # if we stood still, what it said since is heard before we answer
            self._answering.arm(now + self.ladder.settings.gossip_period / 4)
        elif isinstance(message, ViewUpdate) and any(
            e.member == self.ladder.me and e.status == MEMBER and e.freshness > self._freshness for e in message.entries
        ):
            self._answering.set(inf)
            out.append(NameTaken())

    def _answer_namesake(self, now: float, out: Effects) -> None:
        if self._standing.is_inside:
            self._declare(now, MEMBER, out)

    # The others' wishes.

    def _join_asked(self, now: float, source: int, message: Join, out: Effects) -> None:
        if message.entry.member != source or message.entry.status != JOINING:
            return
        if not self._credible(now, [message.entry]):
            return
        if not self._happens(Event.ASKED_TO_SPONSOR):
            return  # only members sponsor
        self._absentees.note_return(source, self._view.get(source))
        self._merge(now, [message.entry], out)
        self._contradict(source, [message.entry], out)
        if self._offers(message.resume):
            streams = self.ladder.streams
            seen = streams.horizon([source], now - rest_of(self.ladder.settings))
            if message.resume and source in self._absentees:
                # it goes on after what it had acknowledged (000 §6.2, at least once)
                known = self.ladder.acknowledged.get(source, {})
                seen |= {sender: known.get(sender, -1) for sender in streams if owner_of(sender) != source}
            elif message.alone_us:
                seen |= self._seen_before(now - message.alone_us * 1e-6)
            entries = self._view.alive() + self._view.tombstones_of([message.entry])  # then it begins again, fresher
            out.append(Unicast(source, ViewUpdate(entries, seen=seen, sponsors=True)))

    def _lasts(self) -> Horizon:
        return {sender: stream.next - 1 for sender, stream in self.ladder.streams.items()}

    def _seen_before(self, when: float) -> Horizon:
        """How far everything was then, or when we came ourselves; a little earlier, since a message takes its time."""
        then = self._recently.at(when - self.ladder.settings.gossip_period, self._lasts())
        return {sender: max(last, self.ladder.streams[sender].start - 1) for sender, last in then.items()}

    def _leave_told(self, now: float, source: int, message: Leave, out: Effects) -> None:
        if message.entries:
            self._told(now, source, ViewUpdate(message.entries), out)
        if not self._standing.is_inside:
            return
        known = self._view.get(source)
        left = MemberEntry(source, LEFT, message.freshness, known is not None and known.logger)
        if not self._credible(now, [left]):
            return
        if source == self.ladder.me:
            self._freshness = max(self._freshness, message.freshness)
            self._declare(now, MEMBER, out)
            return
        self._merge(now, [left], out)
        entry = self._view.get(source)
        if entry is not None and self._offers(False):
            out.append(Unicast(source, ViewUpdate([entry], sponsors=True)))

    def _offers(self, resume: bool) -> bool:
        if self.ladder.is_logger:
            return True
        if resume and self.ladder.roster.loggers:
            return False  # that is for them
        share = _EAGERNESS * self.ladder.settings.sponsors / max(1, len(self.ladder.roster))
        return self.ladder.rng.random() < share

    # Views.

    def _told(self, now: float, source: int, message: ViewUpdate, out: Effects) -> None:
        entries = self._credible(now, message.entries)
        if message.sponsors:
            self._count_sponsor(now, source, message, out)
        if self._standing is Standing.ALONE:
            self._meet(now, entries, out)
        elif self._others(entries):
            self.overheard(now, source)
        lacking = self._view.fresher_than(entries) if message.answer else []
        lacking += self._view.tombstones_of(entries)
        if lacking:
            out.append(Unicast(source, ViewUpdate(lacking)))
        self._contradict(source, entries, out)
        self._merge(now, entries, out)
        self._refute(now, out)

    def _contradict(self, source: int, entries: list[MemberEntry], out: Effects) -> None:
        """What a member says of itself is older than what we hold: tell it, or it cannot refute it.

        It was taken for disconnected while it was cut off; or its clock was set back since its earlier life: then we
        only know where it was in that life, and nothing but a multicast is sure to reach it.
        """
        said = next((entry for entry in entries if entry.member == source), None)
        known = self._view.get(source)
        if said is None or known is None or known.freshness <= said.freshness or not self._standing.is_inside:
            return
        if known.address != said.address or known.status == LEFT:
            out.extend([Multicast(ViewUpdate([known]))] if self._offers(False) else [])
        elif known.status != MEMBER and said.status == MEMBER:
            out.append(Unicast(source, ViewUpdate([known])))

    def _credible(self, now: float, entries: list[MemberEntry]) -> list[MemberEntry]:
        """Those that are not too far ahead of any clock; the others are counted."""
        latest = int((max(now, _WRITTEN_S) + _AHEAD_S) * 1e6)
        credible = [entry for entry in entries if entry.freshness <= latest]
        if len(credible) < len(entries):
            self.ladder.ignored["entries ahead of our clock"] += len(entries) - len(credible)
        return credible

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if gossip.view and gossip.view != self._view.signature() and self._standing.is_inside:
            known = self._view.get(source)
            if self.ladder.roster.knows(source):
                entries = self._view.alive()
            else:  # as little as makes it say who it is, or that it has not left
                entries = [self._entry(MEMBER) if known is None else known]
            out.append(Unicast(source, ViewUpdate(entries, answer=True)))

    def _refute(self, now: float, out: Effects) -> None:
        """Somebody holds a fresher but wrong entry of us (of an earlier life, or by suspicion): correct it.

        A process that is joining or leaving starts over: no sponsor would put an older entry in the place of that one.
        """
        mine = self._view.get(self.ladder.me)
        if mine is None:
            return
        elsewhere = mine.address != self.ladder.address and not self.ladder.restored.recovers
        wrong = mine.freshness > self._freshness and (mine.status != MEMBER or elsewhere)
        if self._standing.is_inside and (wrong or mine.status == LEFT):
            self._freshness = max(self._freshness, mine.freshness)
            self._declare(now, MEMBER, out)
        elif self._standing in (Standing.JOINING, Standing.LEAVING) and mine.freshness > self._freshness:
            self._freshness = mine.freshness
            self._begin(now, out)

    def _merge(self, now: float, entries: list[MemberEntry], out: Effects) -> None:
        taken = self._view.merge(entries)
        if taken:
            self._install(now, out)
            for entry in taken:
                out.append(Note("view", peer=entry.member, phase=STATUS_NAMES[entry.status]))

    def _install(self, now: float, out: Effects) -> None:
        view = self._view
        roster = Roster(
            self.ladder.me,
            view.members(),
            view.loggers() if view.knows_loggers() else self._loggers_given,
            view.owed(),
            view.joining(),
            {e.member: e.address for e in view.alive() if e.address},
            view.signature(),
            {e.member: e.channels for e in view.alive() if e.channels},
            {e.member: e.map for e in view.alive() if e.map},
        )
        self.ladder.install_view(now, roster, out)
