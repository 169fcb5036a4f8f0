"""Digest gossip (004 §4, appendix B): a member says what it has, and whoever lacks some of it asks for it.

Anti-entropy in two phases. In every round a member sends a digest of its buffer to one other member, drawn at random;
whoever finds in it what it lacks solicits that, under the number of the *gossiper's* round, and gets it while that
round lasts. A packet is gossiped about for `gc_rounds` rounds, then collected and taken to be stable. A gap that
is older than that is given up: it is reported as lost, in its place, and delivery goes on.

The seven optimizations of 004 §4 are settings, marked below by number. What a digest names is compared as ranges: a
digest of a member that lacks nothing costs the same however many packets it names.
"""

from collections import deque
from collections.abc import Mapping

from gossamer.core.effects import MarkStable, Multicast, Unicast
from gossamer.core.ids import PEER, Phase
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung, TimerHandler
from gossamer.core.messages import Digest, Horizon, PerSender, Repair, Solicit
from gossamer.core.packets import Packet, Run
from gossamer.core.ranges import Range, RangeSet
from gossamer.repair.partial_view import PartialView

_ROUND = "digest.round"
_PATIENCE_ROUNDS = 2
"""A gap is given up so many rounds after everyone who got it in time has collected it."""
_ASSUMED_BYTES = 1500
"""What a packet of a sender takes of whom nothing is at hand to measure."""
_IDLE_MAX = 64
"""Senders of whom a digest says only how far they have come; more of them take turns."""

Part = tuple[int, int, int]
"""sender, first, last"""


def digest_gossip(ladder: Ladder) -> "DigestGossip":
    """The rung that the settings ask for: who does not multicast again does not pay for looking at what came."""
    return RegionalDigestGossip(ladder) if ladder.settings.region_rtt else DigestGossip(ladder)


_latest = Digest(0, {})


def _digest_of(number: int, held: PerSender, idle: Horizon) -> Digest:
    """Members of one process that go in step would all say the same: they share the latest digest."""
    global _latest
    alike = _latest.buffered is held and _latest.round == number
    if not alike or _latest.idle != idle or list(_latest.idle) != list(idle):  # in the same order, too
        _latest = Digest(number, held, idle)
    return _latest


class DigestGossip(Rung):
    """Gossiper, solicitor and server of repairs in one."""

    __slots__ = (  # a simulation of thousands goes round and round: the less memory it visits, the faster
        "_asked",
        "_asked_bytes",
        "_askers",
        "_began",
        "_found",
        "_idle_turn",
        "_round",
        "_sent_bytes",
        "_view",
    )

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._round = 0
        self._began = 0.0  # when the round began
        self._view = PartialView(ladder)  # opt. 6
        self._found: deque[tuple[int, int, int, int]] = deque()  # round, sender, first, last
        self._asked: deque[tuple[float, PerSender]] = deque()  # solicited of late, oldest first
        self._asked_bytes = 0
        self._sent_bytes = 0
        self._askers: dict[tuple[int, int], list[int]] = {}  # who solicited a packet that is still buffered
        self._idle_turn = 0

    def messages(self) -> Mapping[type, MessageHandler]:
        """The two phases."""
        return {Digest: self._digested, Solicit: self._solicited}

    def alarms(self) -> Mapping[str, TimerHandler]:
        """The round."""
        return {_ROUND: self._gossip}

    def started(self, now: float, out: Effects) -> None:
        """Each member counts its own rounds, and begins them when it likes (opt. 5)."""
        settings = self.ladder.settings
        if settings.unsynchronized:
            first = now + self.ladder.rng.random() * settings.gossip_period
        else:
            first = self._next_round(now)
        self.ladder.timers.set(_ROUND, first)

    def gap_found(self, now: float, source: int, sender: int, first: int, last: int, out: Effects) -> None:
        """Wait for a digest that has it, but not for ever."""
        self._found.append((self._round, sender, first, last))

    # The gossiper.

    def _gossip(self, now: float, out: Effects) -> None:
        ladder = self.ladder
        self._round += 1
        self._began = now
        self._asked_bytes = self._sent_bytes = 0
        collected = ladder.round_over(now, out)
        if collected:
            self._settle(collected, out)
        if self._found:
            self._give_up_old(now, out)
        if ladder.is_member:
            self._send_digest(out)
        ladder.timers.set(_ROUND, self._next_round(now))

    def _next_round(self, now: float) -> float:
        period = self.ladder.settings.gossip_period
        if self.ladder.settings.unsynchronized:
            return now + period
        return (int(now / period + 1e-6) + 1) * period

    def _settle(self, collected: PerSender, out: Effects) -> None:
        """004 §3: what was gossiped about for long enough is stable, and the application is told."""
        for sender, numbers in collected.items():
            for first, last in zip(numbers.firsts, numbers.lasts, strict=True):
                out.append(MarkStable(sender, first, last))
        if self._askers:
            gone = [key for key in self._askers if key[1] in collected.get(key[0], ())]
            for key in gone:
                del self._askers[key]

    def _give_up_old(self, now: float, out: Effects) -> None:
        """Others have collected it by now. Without a logger behind us it is lost."""
        oldest = self._round - self.ladder.settings.gc_rounds - _PATIENCE_ROUNDS
        while self._found and self._found[0][0] < oldest:
            _, sender, first, last = self._found.popleft()
            self.ladder.escalate(now, sender, first, last, out)

    def _send_digest(self, out: Effects) -> None:
        held = self.ladder.buffer.held()
        idle = self._idle(held)
        if not held and not idle:
            return
        digest = _digest_of(self._round, held, idle)
        for _ in range(self.ladder.settings.fanout):
            target = self._view.target()
            if target is not None:
                out.append(Unicast(target, digest))

    def _idle(self, held: PerSender) -> Horizon:
        """How far those have come of whom nothing is buffered: without it nobody would miss a lost last packet."""
        idle = {}
        for sender, stream in self.ladder.streams.items():
            if sender not in held and stream.next:
                idle[sender] = stream.next - 1
        return idle if len(idle) <= _IDLE_MAX else self._some_of(idle)

    def _some_of(self, idle: Horizon) -> Horizon:
        self._idle_turn = (self._idle_turn + _IDLE_MAX) % len(idle)
        turned = list(idle.items())
        turned = turned[self._idle_turn :] + turned[: self._idle_turn]
        return dict(turned[:_IDLE_MAX])

    # The member that hears a digest.

    def _digested(self, now: float, source: int, digest: Digest, out: Effects) -> None:
        if not self.ladder.is_member:
            return
        streams = self.ladder.streams
        lacks = False
        for sender, numbers in digest.buffered.items():
            stream = streams.get(sender)
            if not numbers.lasts or (
                stream is not None and numbers.lasts[-1] < stream.next and not stream.missing.firsts
            ):
                continue  # the usual case: nothing new
            self.ladder.learn(now, source, sender, numbers.last, out)
            lacks = True
        for sender, last in digest.idle.items():
            self.ladder.learn(now, source, sender, last, out)
        if lacks:
            self._solicit(now, source, digest, out)

    def _solicit(self, now: float, source: int, digest: Digest, out: Effects) -> None:
        lacking: PerSender = {}
        for sender, numbers in digest.buffered.items():
            missing = self.ladder.stream(sender).missing
            if missing:
                lacking[sender] = missing.intersection(numbers)
        if self.ladder.settings.cyclic:
            self._leave_out_asked(now, lacking)
        wanted: PerSender = {}
        for sender, first, last in self._in_order(lacking):
            part = self._affordable(sender, first, last)
            if part is None:
                break
            wanted.setdefault(sender, RangeSet()).add(*part)
        if wanted:
            if self.ladder.settings.cyclic:
                self._asked.append((now, wanted))
            self._ask(now, source, Solicit(digest.round, wanted), out)

    def _leave_out_asked(self, now: float, lacking: PerSender) -> None:
        """Opt. 3: what was solicited less than a round ago may be on its way; the turn is another's."""
        while self._asked and now - self._asked[0][0] >= self.ladder.settings.gossip_period:
            self._asked.popleft()
        for _, asked in self._asked:
            for sender, numbers in asked.items():
                if sender in lacking:
                    lacking[sender].subtract(numbers)

    def _ask(self, now: float, source: int, solicit: Solicit, out: Effects) -> None:
        out.append(Unicast(source, solicit))

    def _in_order(self, numbers: PerSender) -> list[Part]:
        """All parts, the most recent first (opt. 4): those least far behind the last number of their sender."""
        recent_first = self.ladder.settings.recent_first
        aged = []
        for sender, of_sender in numbers.items():
            following = self.ladder.stream(sender).next if of_sender else 0
            for first, last in of_sender.ranges():
                age = following - last if recent_first else first - following
                aged.append((age, sender, first, last))
        aged.sort()
        return [(sender, first, last) for _, sender, first, last in aged]

    def _affordable(self, sender: int, first: int, last: int) -> Range | None:
        """As much of a part as may still be solicited in this round (opt. 2, as appendix B has it)."""
        limit = self.ladder.settings.round_bytes
        if not limit:
            return first, last
        size = self._expected_bytes(sender)
        room = (limit - self._asked_bytes) // size if self._asked_bytes else max(1, limit // size)
        count = min(last - first + 1, room)
        if count <= 0:
            return None
        self._asked_bytes += count * size
        if self.ladder.settings.recent_first:
            return last - count + 1, last
        return first, first + count - 1

    def _expected_bytes(self, sender: int) -> int:
        """Packets of a sender are much alike: look at the last one."""
        held = self.ladder.buffer.held().get(sender)
        packet = self.ladder.buffer.get(sender, held.last) if held else None
        return len(packet.body) if packet and packet.body else _ASSUMED_BYTES

    # The member that is solicited.

    def _solicited(self, now: float, source: int, solicit: Solicit, out: Effects) -> None:
        if solicit.round == self._round:
            self._view.measured(source, now - self._began)
        elif self.ladder.settings.same_round:
            return  # opt. 1: who answers so late is not well, or the network is not
        kept = {s: self.ladder.buffer.kept_of(s, numbers) for s, numbers in solicit.wanted.items()}
        for sender, first, last in self._in_order(kept):
            newest_first = range(last, first - 1, -1)
            for seqno in newest_first if self.ladder.settings.recent_first else reversed(newest_first):
                packet = self.ladder.buffer.get(sender, seqno)
                if packet is None or not self._may_send(now, packet):
                    return  # what cannot go now is dropped: it will be solicited again, or of somebody else
                self._send(source, packet, out)

    def _may_send(self, now: float, packet: Packet) -> bool:
        """Within the bytes of this round (opt. 2) and within what the member may serve at all."""
        limit = self.ladder.settings.round_bytes
        if limit and self._sent_bytes and self._sent_bytes + len(packet.body) > limit:
            return False
        if not self.ladder.service.take(now, 1):
            return False
        self._sent_bytes += len(packet.body)
        return True

    def _send(self, to: int, packet: Packet, out: Effects) -> None:
        """Opt. 7: that several ask one member for the same is unlikely, unless very many lack it."""
        threshold = self.ladder.settings.multicast_after
        if threshold:
            askers = self._askers.setdefault((packet.sender, packet.seqno), [])
            if to not in askers:
                askers.append(to)
            if len(askers) >= threshold:
                askers.clear()
                out.append(Multicast(Repair(packet, PEER)))
                return
        out.append(Unicast(to, Repair(packet, PEER)))


class RegionalDigestGossip(DigestGossip):
    """The same, and a repair that came from afar is multicast again in the region (opt. 7).

    Most gossip is between neighbours, so a packet that had to be fetched from afar was probably lost by the whole
    region. How far a peer is, is the time from our solicitation to its repair.
    """

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._solicits: dict[int, tuple[float, PerSender]] = {}  # the last one to each peer

    def _ask(self, now: float, source: int, solicit: Solicit, out: Effects) -> None:
        self._solicits[source] = (now, solicit.wanted)
        super()._ask(now, source, solicit, out)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """Pass on what we solicited from afar, once; what others solicited or passed on is theirs."""
        if phase != PEER or source not in self._solicits:
            return
        asked_at, wanted = self._solicits[source]
        if now - asked_at <= self.ladder.settings.region_rtt:
            return
        for packet in run:
            if packet.seqno in wanted.get(packet.sender, _NOTHING) and self._may_send(now, packet):
                out.append(Multicast(Repair(packet, PEER), self.ladder.settings.region_hops))


_NOTHING = RangeSet()
