"""Scalable reliable multicast (Floyd, Jacobson, Liu, McCanne, Zhang 1995; 004 §1.1, §7): everything is said to all.

A member that lacks packets waits for a time that grows with its distance to their sender, and then asks everybody
(`srm_losses`); anybody who has them waits for a time that grows with its distance to the member that asked, and then
sends them to everybody (`srm_answers`). A member that hears its own request or repair from another is silent. Session
messages tell of last packets, and of distances (`srm_sessions`).

SRM has no end: a gap that nobody fills would be asked for for ever. Here it goes to the next repair of the chain after
`request_tries` requests, so that a logger can help (000 §4.3: missing packets move on in the end); and if there is
none, it is lost after `peer_rounds` rounds, or after `loss_patience`.
"""

from collections.abc import Mapping
from math import inf

from gossamer.core.declares import COPIES_KEPT, LAST_PACKETS, Declares
from gossamer.core.effects import Multicast, Unicast
from gossamer.core.ids import channel_of, owner_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.messages import AskAll, Session
from gossamer.core.packet_sets import PacketSets, by_channel, take
from gossamer.core.packets import Run
from gossamer.core.parts import Repair
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings
from gossamer.repair.srm_answers import PACKETS_MAX, Answers
from gossamer.repair.srm_losses import Loss, Losses, merged
from gossamer.repair.srm_sessions import Sessions
from gossamer.repair.srm_timers import Spread, distance

_WINDOW_PACKETS = 1024
"""Packets that may be on their way, if `request_packets` does not say it."""
_SENDERS_MAX, _RANGES_MAX = 64, 300
"""What one request may name; more of it is ignored."""
_REQUEST_FIRST_MAX = 2.0


class Srm(Repair):
    """All sides of it: a member that lacks packets, one that has them, and one that tells how far it is."""

    asks = False  # those that have a packet answer by rules of their own
    by_multicast = True
    from_strangers = (Session,)  # the last word of one that has left may come late

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        settings = ladder.settings
        adapts = settings.adaptive_timers
        requests = Spread(settings.request_wait, settings.request_spread, _REQUEST_FIRST_MAX, adapts=adapts)
        repairs = Spread(settings.repair_wait, settings.repair_spread, -1.0, adapts=adapts)
        self.losses = Losses(ladder, requests, self._patience)
        self.answers = Answers(ladder, repairs)
        self.sessions = Sessions(ladder)
        self._request = ladder.timer(self._requests_due)
        self._repair = ladder.timer(self._repairs_due)
        self._session = ladder.timer(self._tell)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Members fill what they still keep; the rest is known to be lost. Session messages show last packets."""
        return Declares(promises=("eventual-or-lost",), needs=(COPIES_KEPT,), provides=(LAST_PACKETS,))

    def messages(self) -> Mapping[type, MessageHandler]:
        """Requests to everybody, and session messages."""
        return {AskAll: self._asked, Session: self._told}

    # Session messages.

    def started(self, now: float, out: Effects) -> None:
        """Members speak out of step."""
        self._session.set(now + self.ladder.rng.random() * self.ladder.settings.session_period)

    def reconnected(self, now: float, out: Effects) -> None:
        """Others may have missed us."""
        self.started(now, out)

    def leaving(self, now: float, out: Effects) -> None:
        """The last word: members that missed our last packets learn of it while somebody can still repair them."""
        self._say(now, out)
        self._session.set(inf)

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """Newcomers should soon know how far everybody is."""
        self.sessions.keep_only_members()
        if set(self.ladder.roster.members).difference(before.members):
            soon = now + self.ladder.rng.random() * self.ladder.settings.session_period
            self._session.set(min(self._session.deadline, soon))

    def _tell(self, now: float, out: Effects) -> None:
        if self.ladder.is_member:
            self._say(now, out)
        self._session.set(now + self.sessions.pause())

    def _say(self, now: float, out: Effects) -> None:
        for channel, message in self.sessions.messages(now).items():
            out.append(Multicast(message, channel=channel))

    def _told(self, now: float, source: int, message: Session, out: Effects) -> None:
        if not self.ladder.roster.knows(source):
            for sender in [sender for sender in message.lasts if owner_of(sender) == source]:
                self.ladder.gaps.learn(now, sender, message.lasts[sender], out)
            return
        self.sessions.heard(now, source, message)
        streams = self.ladder.streams
        for sender, last in message.lasts.items():
            stream = streams.get(sender)
            if stream is None or last >= stream.next:
                self.ladder.gaps.learn(now, sender, last, out)

    # A member that lacks packets.

    def repair(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """Wait for a while: it may only be late, or another may ask."""
        self.losses.found(now, sender, first, last)
        self._request.set(self.losses.next_due())

    def release(self, sender: int, first: int, last: int) -> None:
        """Another rung's turn."""
        self.losses.remove(sender, first, last)

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """It came, or nobody waits for it any more."""
        if self.losses.remove(sender, first, last):
            self._request.set(self.losses.next_due())

    def _requests_due(self, now: float, out: Effects) -> None:
        if not self.ladder.is_member:
            self.losses.clear()
        due = self.losses.take_due(now)
        asked: list[Loss] = []
        room = self._room(due)
        for loss in due:
            if not loss.numbers:
                continue  # it has joined another one
            if self._is_over(now, loss):
                self._pass_on(now, loss, out)
                continue
            part = self._part(now, loss, room) if room > 0 and len(asked) < _SENDERS_MAX else None
            if part is not None:
                asked.append(part)
                room -= 0 if part.is_futile else len(part.numbers)
            if part is not loss:  # what there is no room for draws another time
                self.losses.set(now, loss)
        if asked:
            self._ask(now, asked, out)
        self._request.set(self.losses.next_due())

    def _part(self, now: float, loss: Loss, room: int) -> Loss:
        """What to ask for of a loss: as much as there is room for, or all that is futile, since little of it comes."""
        if not loss.is_futile:
            return self.losses.cut(loss, room)
        self.losses.rejoin(now, loss, PACKETS_MAX)
        return self.losses.cut(loss, PACKETS_MAX)

    def _ask(self, now: float, losses: list[Loss], out: Effects) -> None:
        wanted = self.ladder.gaps.worth_asking(now, take(merged(losses), PACKETS_MAX), out)
        if wanted:
            for channel, part in by_channel(wanted).items():
                far = {sender: round(distance(self.ladder, sender) * 1e6) for sender in part}
                out.append(Multicast(AskAll(part, far), channel=channel))
                self._ask_owners(part, out)
        for loss in losses:
            if loss.sender in wanted and loss.numbers:
                self.losses.asked_by_us(now, loss)
            else:
                self.losses.set(now, loss)  # there is no room for it now

    def _ask_owners(self, wanted: PacketSets, out: Effects) -> None:
        """A sender that does not listen to its channel does not hear requests there."""
        roster = self.ladder.roster
        for sender, numbers in wanted.items():
            owner = owner_of(sender)
            if owner in roster and not roster.hears(owner, channel_of(sender)):
                out.append(Unicast(owner, AskAll({sender: numbers})))

    def _room(self, due: list[Loss]) -> int:
        """How many packets one request may ask for now; what is asked for again is not on its way."""
        limit = self.ladder.settings.request_packets or _WINDOW_PACKETS
        return min(PACKETS_MAX, limit - self.losses.asked_for(except_for=due))

    def _patience(self) -> float:
        settings = self.ladder.settings
        return self.ladder.gaps.patience(self, settings.peer_rounds * settings.gossip_period)

    def _is_over(self, now: float, loss: Loss) -> bool:
        tries = self.ladder.settings.request_tries
        relieved = loss.tries >= tries and self.ladder.gaps.is_relieved(self)
        return relieved or now >= loss.found_at + self._patience()

    def _pass_on(self, now: float, loss: Loss, out: Effects) -> None:
        for first, last in loss.numbers.ranges():
            self.losses.remove(loss.sender, first, last)
            self.ladder.gaps.escalate(now, self, loss.sender, first, last, "nobody has it", out)

    # A member that has them.

    def _asked(self, now: float, source: int, message: AskAll, out: Effects) -> None:
        if not self.ladder.roster.knows(source):
            self.ladder.ignored["not from a member"] += 1
            return
        for _, (sender, asked) in zip(range(_SENDERS_MAX), message.wanted.items(), strict=False):
            numbers = asked.front(_RANGES_MAX)
            if not numbers:
                continue
            self.ladder.gaps.learn(now, sender, numbers.last, out)
            self.losses.asked_by_other(now, sender, numbers, message.distances.get(sender, 0) / 1e6)
            self.answers.asked(now, source, sender, numbers)
        self._request.set(self.losses.next_due())
        self._repair.set(self.answers.next_due())

    def repaired(self, now: float, source: int, run: Run) -> None:
        """It came by a repair, which all have heard."""
        self.repair_heard(now, run)

    def repair_heard(self, now: float, run: Run) -> None:
        """A repair of packets that are here: we need not send it."""
        if self.answers.heard(now, run):
            self._repair.set(self.answers.next_due())

    def _repairs_due(self, now: float, out: Effects) -> None:
        self.answers.send_due(now, out)
        self._repair.set(self.answers.next_due())
