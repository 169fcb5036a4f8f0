"""Approximate membership with sponsors (000 §5.3, §6.2).

To join, a process multicasts its wish until k members (or all, if they are fewer), or one logger, have answered that it
is in their view; if nobody ever answers, it may found the group itself. Each of these sponsors says how far it has seen
every sender; the join takes effect at the element-wise maximum of that, t_join. Nothing sent after t_join is collected
before the new member has it: a sponsor acknowledges to a logger only in gossip that carries its view, and so the logger
learns of the new member first. Then it says that it is in: until it does, it is joining, and what is published
meanwhile may come before t_join.

Nobody may have answered because all were busy for a moment, or cut off. So who has founded a group goes on to say that
it is there; until it has met somebody, it takes in no packets, of which it could not tell the old from the new; and
when it meets members of another group, the younger of two founders, or the one who is alone, joins as if it were new.
If they do not answer (some can be heard and do not hear), it goes on as the founder that it is, and the views merge. A
logger does so at once: it takes whatever it can get, and knows what was sent before it came. So do larger groups that
were founded apart, in each of which somebody says now and then that it is there: what either side has sent is then
repaired as after a partition.

Views travel by gossip: a hash of the view in every gossip, the views themselves where hashes differ. Who has left is
told only to those who speak of it as a member: many come, publish and go, and would be in every view. To leave is to
join in reverse. A member that will be away says so, keeps its claim on the log, and says when it is back; who is not
back when everything that it could claim has timed out is taken to have left.
"""

from collections.abc import Mapping

from gossamer.core.effects import BecomeMember, BecomeStranger, Multicast, Note, Unicast
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung, TimerHandler
from gossamer.core.messages import Entry, Gossip, Horizon, Join, Leave, Members
from gossamer.membership.view import DISCONNECTED, JOINING, LEFT, MEMBER, STATUS_NAMES, View

_ANNOUNCE = "sponsored.announce"
_LOOK = "sponsored.look"
_BEACON = "sponsored.beacon"
_BEACON_S = 1.0
"""About so often somebody of a group that may have been founded says that it is there."""
_LOOKS = 16
"""So many times within the log's time-out it is looked who is still away."""
_REMEMBERED_S = 7200.0
"""Who has left is remembered for so long: who is away for longer still knows it as a member, and brings it back."""
_EAGERNESS = 4
"""Of n members about this many times k offer to sponsor, so that a join in a large group is no implosion."""

_PATIENCE = 16
"""Who hears others announces itself so many times as often, before it founds a group all the same."""

STRANGER, ASKING, IN, LEAVING = range(4)


class Sponsored(Rung):
    """This member's own standing, and its view of all the others."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        members = ladder.peers.all()
        self._standing = IN if ladder.me in members else ASKING
        self._view = View(Entry(m, MEMBER, 0, m in ladder.peers.loggers) for m in members)
        self._freshness = 0
        self._sponsors: dict[int, None] = {}
        self._t_join: Horizon = {}
        self._resume = False
        self._announced = 0
        self._silence = 0  # announcements since the others were heard
        self._has_founded = False
        self._away: dict[tuple[int, int], float] = {}  # by member and freshness: since when, as far as we have looked

    def messages(self) -> Mapping[type, MessageHandler]:
        """Joins, leaves, views, and the hash in every gossip."""
        return {Join: self._join_asked, Leave: self._leave_told, Members: self._told, Gossip: self._gossiped}

    def alarms(self) -> Mapping[str, TimerHandler]:
        """The next time to say that we want in, or out, or are there; and to look who is away."""
        return {_ANNOUNCE: self._announce, _BEACON: self._beacon, _LOOK: self._look}

    def started(self, now: float, out: Effects) -> None:
        """A member from the first moment, or one that has to join."""
        self.ladder.is_member = self._standing == IN
        self._publish_view()
        self.ladder.timers.set(_LOOK, now + self.ladder.settings.log_timeout / _LOOKS)
        if self.ladder.settings.found_after:
            self._beacon(now, out)
        if self._standing == ASKING:
            restored = self.ladder.restored
            self._resume = restored.recovers and self.ladder.settings.recovery == "at-least-once"
            self._begin(now, ASKING, out)

    def leave_asked(self, now: float, out: Effects) -> None:
        """Say goodbye until somebody has heard it."""
        self._begin(now, LEAVING, out)

    def disconnecting(self, now: float, out: Effects) -> None:
        """Tell whoever hears it that we shall be back; who is not in yet, or on its way out, has no place to keep."""
        if self._standing == IN:
            self._declare(now, DISCONNECTED, out)

    def reconnected(self, now: float, out: Effects) -> None:
        """Tell everybody that we are back."""
        if self._standing == IN:
            self._declare(now, MEMBER, out)

    def overheard(self, now: float, source: int) -> None:
        """Somebody is there, and should answer: it is not for us to found the group."""
        self._silence = 0

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """The hash of our view, in which who left long ago is forgotten: without that, it would grow for ever."""
        self._view.forget_before(int((now - _REMEMBERED_S) * 1e6))
        gossip.view = self._view.signature()

    def suspected(self, now: float, member: int, out: Effects) -> None:
        """Put down as disconnected who is not heard any more; who lives refutes it."""
        entry = self._view.get(member)
        if entry is not None and entry.status in (MEMBER, JOINING) and self._standing == IN:
            doubt = Entry(member, DISCONNECTED, entry.freshness + 1, entry.logger, entry.address)
            self._merge([doubt], out)
            out.append(Multicast(Members([doubt])))

    def _look(self, now: float, out: Effects) -> None:
        """Who has been away for longer than any log keeps anything for it is not waited for: it may join again."""
        away = {(e.member, e.freshness): e for e in self._view.away()}
        self._away = {which: self._away.get(which, now) for which in away}
        before = now - self.ladder.settings.log_timeout
        gone = [away[which] for which, since in self._away.items() if since < before and self._standing == IN]
        if gone:
            fresh = int(now * 1e6)
            left = [Entry(e.member, LEFT, max(e.freshness + 1, fresh), e.logger) for e in gone]
            self._merge(left, out)
            out.append(Multicast(Members(left)))
        self.ladder.timers.set(_LOOK, now + self.ladder.settings.log_timeout / _LOOKS)

    # This member's own wishes.

    def _begin(self, now: float, standing: int, out: Effects) -> None:
        self._standing = standing
        self._sponsors = {}
        self._t_join = {}
        self._announced = self._silence = 0
        self._refresh(now)
        self._announce(now, out)

    def _announce(self, now: float, out: Effects) -> None:
        self._announced += 1
        self._silence += 1
        if self._standing == ASKING and self._nobody_answers():
            self._settle(now, out)
            self.ladder.alone = not (self._sponsors or self._has_founded or self.ladder.is_logger)
            self._has_founded = True
        elif self._standing == ASKING:
            out.append(Multicast(Join(self._entry(JOINING), self._resume)))
        elif self._standing == LEAVING:
            out.append(Multicast(Leave(self._freshness)))
        if self._standing == IN:
            met = len(self.ladder.peers) > 1 or not self.ladder.settings.found_after
            if met and not self.ladder.alone:
                return
            out.append(Multicast(Members([self._entry(MEMBER)], answer=True)))  # somebody else may found one, too
        self.ladder.timers.set(_ANNOUNCE, now + self.ladder.settings.gossip_period)

    def _beacon(self, now: float, out: Effects) -> None:
        """Each of n members speaks once in about n periods. Whoever knows it does nothing."""
        if self._standing == IN:
            out.append(Multicast(Members([self._entry(MEMBER)])))
        wait = _BEACON_S * (0.5 + self.ladder.rng.random()) * max(1, len(self.ladder.peers))
        self.ladder.timers.set(_BEACON, now + wait)

    def _nobody_answers(self) -> bool:
        """Whether to found the group ourselves."""
        enough = self.ladder.settings.found_after
        return 0 < enough < max(self._silence, self._announced // _PATIENCE)

    def _refresh(self, now: float) -> None:
        """Incarnations are told apart by the clock, which goes on over a crash (000 §5.3)."""
        self._freshness = max(self._freshness + 1, int(now * 1e6))

    def _declare(self, now: float, status: int, out: Effects) -> None:
        self._refresh(now)
        entry = self._entry(status)
        self._merge([entry], out)
        out.append(Multicast(Members([entry])))

    def _entry(self, status: int) -> Entry:
        return Entry(self.ladder.me, status, self._freshness, self.ladder.is_logger, self.ladder.address)

    def _count_sponsor(self, now: float, source: int, message: Members, out: Effects) -> None:
        mine = next((e for e in message.entries if e.member == self.ladder.me), None)
        wanted = {ASKING: JOINING, LEAVING: LEFT}.get(self._standing)
        if mine is None or mine.freshness != self._freshness or mine.status != wanted:
            return
        logger = source in self.ladder.peers.loggers
        if self._resume and self._standing == ASKING and not logger:
            return  # only a logger knows where we stopped
        self._sponsors[source] = None
        for sender, seen in message.seen.items():
            self._t_join[sender] = max(self._t_join.get(sender, -1), seen)
        others = self._others(message.entries)
        if logger or len(self._sponsors) >= min(self.ladder.settings.sponsors, max(1, len(others))):
            self._settle(now, out)

    def _settle(self, now: float, out: Effects) -> None:
        if self._standing == ASKING:
            self._standing = IN
            self.ladder.begin(self._t_join)
            self._declare(now, MEMBER, out)
            out.append(BecomeMember(dict(self._t_join)))
        else:
            self._standing = STRANGER
            self.ladder.end()
            out.append(BecomeStranger())

    def _join_elders(self, now: float, entries: list[Entry], out: Effects) -> None:
        """We have founded a group, and there is another: the younger of two goes, or who is alone."""
        others = self._others(entries)
        self.ladder.alone = not others
        if len(others) > 1 or (others and (others[0].freshness, others[0].member) < (self._freshness, self.ladder.me)):
            self.ladder.is_member = False
            self._begin(now, ASKING, out)

    def _others(self, entries: list[Entry]) -> list[Entry]:
        return [e for e in entries if e.status == MEMBER and e.member != self.ladder.me]

    # The others' wishes.

    def _join_asked(self, now: float, source: int, message: Join, out: Effects) -> None:
        if self._standing != IN:
            return  # only members sponsor
        if message.entry.member != source or message.entry.status != JOINING:
            return
        self.ladder.alone = False
        self._merge([message.entry], out)
        if self._offers(message.resume):
            seen = {sender: stream.next - 1 for sender, stream in self.ladder.streams.items()}
            self.ladder.sponsor(source, message.resume, seen)
            out.append(Unicast(source, Members(self._view.alive(), seen=seen, sponsors=True)))

    def _leave_told(self, now: float, source: int, message: Leave, out: Effects) -> None:
        if self._standing != IN:
            return
        known = self._view.get(source)
        self._merge([Entry(source, LEFT, message.freshness, known is not None and known.logger)], out)
        entry = self._view.get(source)
        if entry is not None and self._offers(False):
            out.append(Unicast(source, Members([entry], sponsors=True)))

    def _offers(self, resume: bool) -> bool:
        if self.ladder.is_logger:
            return True
        share = _EAGERNESS * self.ladder.settings.sponsors / max(1, len(self.ladder.peers))
        return not resume and self.ladder.rng.random() < share

    # Views.

    def _told(self, now: float, source: int, message: Members, out: Effects) -> None:
        if message.sponsors:
            self._count_sponsor(now, source, message, out)
        if self.ladder.alone:
            self._join_elders(now, message.entries, out)
        elif self._others(message.entries):
            self.overheard(now, source)
        lacking = self._view.fresher_than(message.entries) if message.answer else []
        lacking += self._view.tombstones_of(message.entries)
        if lacking:
            out.append(Unicast(source, Members(lacking)))
        self._merge(message.entries, out)
        self._refute(now, out)

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if gossip.view and gossip.view != self._view.signature() and self._standing == IN:
            out.append(Unicast(source, Members(self._view.alive(), answer=True)))

    def _refute(self, now: float, out: Effects) -> None:
        """Somebody holds a fresher but wrong entry of us (of an earlier life, or by suspicion): correct it.

        Who is about to join or to leave begins anew: no sponsor would put an older entry in the place of that one.
        """
        mine = self._view.get(self.ladder.me)
        if mine is None:
            return
        wrong = mine.status != MEMBER and mine.freshness > self._freshness
        if self._standing == IN and (wrong or mine.status == LEFT):
            self._freshness = max(self._freshness, mine.freshness)
            self._declare(now, MEMBER, out)
        elif self._standing in (ASKING, LEAVING) and mine.freshness > self._freshness:
            self._freshness = mine.freshness
            self._begin(now, self._standing, out)

    def _merge(self, entries: list[Entry], out: Effects) -> None:
        taken = self._view.merge(entries)
        if taken:
            self._publish_view()
            for entry in taken:
                out.append(Note("view", peer=entry.member, phase=STATUS_NAMES[entry.status]))

    def _publish_view(self) -> None:
        self.ladder.peers.replace(self._view.members(), self._view.claimants())
        if self._view.knows_loggers():  # before, those are in charge that were given
            self.ladder.peers.loggers = self._view.loggers()
        self.ladder.peers.joining = self._view.joining()
        self.ladder.peers.addresses = {e.member: e.address for e in self._view.alive() if e.address}
        self.ladder.peers.signature = self._view.signature()
