"""Digest gossip (004 §4, appendix B): a member says what it has, and members that lack some of it ask for it.

Anti-entropy in two phases. In every round a member sends a digest of its buffer to one other member, drawn at random; a
member that finds in it what it lacks solicits that, under the number of the *gossiper's* round, and gets it while that
round lasts. A packet is gossiped about for as long as it is buffered. A gap that is older than `gc_rounds` rounds is
passed on to the next repair: if there is none, it is reported as lost, in its place, and delivery goes on.

Each channel is a gossip of its own: a round's gossip to any member speaks of channel 0, which all hear, and one of the
listeners gets a digest of each other channel.

The seven optimizations of 004 §4 are settings, marked below by number. What a digest names is compared as ranges: a
digest of a member that lacks nothing costs the same however many packets it names.
"""

from collections import deque
from collections.abc import Mapping

from gossamer.core.declares import COPIES_KEPT, LAST_PACKETS, Declares
from gossamer.core.demand import Demand
from gossamer.core.effects import Multicast, Unicast
from gossamer.core.ids import PEER, Phase, channel_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.messages import Digest, Gossip, Repair, Solicit
from gossamer.core.packet_sets import Horizon, PacketSets, difference, in_channel_0
from gossamer.core.packets import Packet, Run, Span
from gossamer.core.parts import Repair as RepairRung
from gossamer.core.ranges import Range, RangeSet
from gossamer.core.settings import ProtocolSettings

_PATIENCE_ROUNDS = 2
"""A gap is passed on this many rounds after every member that got it in time has collected it."""
_ASSUMED_BYTES = 1500
"""The size of a packet, where there is none of its sender to measure."""
_IDLE_MAX = 64
"""Idle senders that one digest lists; if there are more, they take turns."""
_NOTHING = RangeSet()


def digest_gossip(settings: ProtocolSettings) -> "type[DigestGossip]":
    """The rung that the settings ask for: without regional multicasts they cost nothing."""
    return RegionalDigestGossip if settings.region_rtt else DigestGossip


class _Latest:
    """The latest digest that any member of this process has made: members that go in step would all say the same."""

    __slots__ = ("_digest",)

    def __init__(self) -> None:
        self._digest = Digest(0, {})

    def digest_of(self, number: int, held: PacketSets, idle: Horizon) -> Digest:
        latest = self._digest
        alike = latest.buffered is held and latest.round == number
        if not alike or latest.idle != idle or list(latest.idle) != list(idle):  # in the same order, too
            self._digest = latest = Digest(number, held, idle)
        return latest


class DigestGossip(RepairRung):
    """Gossiper, solicitor and server of repairs in one."""

    __slots__ = (  # a simulation of thousands goes round and round: the less memory it visits, the faster
        "_asked",
        "_asked_bytes",
        "_demand",
        "_digest",
        "_found",
        "_idle_turn",
        "_latest",
        "_round",
        "_sent_bytes",
    )

    gossips = True
    asks = False  # it solicits, by rules of its own

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._round = 0
        self._digest: Digest | None = None
        self._latest: _Latest = ladder.siblings.setdefault(DigestGossip, _Latest())
        self._found: deque[tuple[int, int, int, int]] = deque()  # round, sender, first, last
        self._asked: deque[tuple[float, PacketSets]] = deque()  # solicited in the last period, oldest first
        self._asked_bytes = 0
        self._sent_bytes = 0
        self._demand = Demand(ladder.settings.multicast_after)
        self._idle_turn = 0

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Peers fill what they still keep; the rest is known to be lost. Digests show last packets, too."""
        return Declares(promises=("eventual-or-lost",), needs=(COPIES_KEPT,), provides=(LAST_PACKETS,))

    def messages(self) -> Mapping[type, MessageHandler]:
        """The two phases."""
        return {Gossip: self._gossiped, Solicit: self._solicited}

    def repair(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """Wait for a digest that has it, but not for ever."""
        self._found.append((self._round, sender, first, last))

    # The gossiper.

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """The bytes of a new round, old gaps, and what there is to say."""
        self._round = number
        self._asked_bytes = self._sent_bytes = 0
        if self._found:
            self._pass_on_old(now, out)
        held = self.ladder.buffer.held()
        if any(map(self.ladder.streams.is_retired, held)):  # a newcomer would ask for what it is not owed
            held = {sender: numbers for sender, numbers in held.items() if sender in self.ladder.streams}
        idle = self._idle(held)
        if self.ladder.settings.channels > 1 and any(map(channel_of, (*held, *idle))):
            self._gossip_in_channels(number, held, idle, out)
            held = in_channel_0(held)
            idle = {sender: last for sender, last in idle.items() if not channel_of(sender)}
        self._digest = self._latest.digest_of(number, held, idle) if held or idle else None

    def _gossip_in_channels(self, number: int, held: PacketSets, idle: Horizon, out: Effects) -> None:
        digests: dict[int, Digest] = {}
        for sender, numbers in held.items():
            digests.setdefault(channel_of(sender), Digest(number, {}, {})).buffered[sender] = numbers
        for sender, last in idle.items():
            digests.setdefault(channel_of(sender), Digest(number, {}, {})).idle[sender] = last
        for channel, digest in digests.items():
            target = self.ladder.peers.target(channel) if channel and self.ladder.is_member else None
            if target is not None:
                out.append(Unicast(target, Gossip(digest=digest)))

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """Say what is here."""
        gossip.digest = self._digest

    def _pass_on_old(self, now: float, out: Effects) -> None:
        """Others have collected it by now."""
        period = self.ladder.settings.gossip_period
        usual = (self.ladder.settings.gc_rounds + _PATIENCE_ROUNDS) * period
        oldest = self._round - round(self.ladder.gaps.patience(self, usual) / period)
        while self._found and self._found[0][0] < oldest:
            _, sender, first, last = self._found.popleft()
            self.ladder.gaps.escalate(now, self, sender, first, last, "collected", out)

    def _idle(self, held: PacketSets) -> Horizon:
        """The last numbers of senders from which nothing is buffered: else nobody would notice a lost last packet."""
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

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        digest = gossip.digest
        if digest is None:
            return
        streams = self.ladder.streams
        lacks = False
        for sender, numbers in digest.buffered.items():
            stream = streams.get(sender)
            if not numbers.lasts or (
                stream is not None and numbers.lasts[-1] < stream.next and not stream.missing.firsts
            ):
                continue  # the usual case: nothing new
            self.ladder.gaps.learn(now, sender, numbers.last, out)
            lacks = True
        for sender, last in digest.idle.items():
            self.ladder.gaps.learn(now, sender, last, out)
        if lacks:
            self._solicit(now, source, digest, out)

    def _solicit(self, now: float, source: int, digest: Digest, out: Effects) -> None:
        lacking: PacketSets = {}
        for sender, numbers in digest.buffered.items():
            stream = self.ladder.streams.get(sender)
            if stream is not None and stream.missing:
                lacking[sender] = stream.missing.intersection(numbers)
        if self.ladder.settings.cyclic:
            self._leave_out_asked(now, lacking)
        wanted: PacketSets = {}
        for sender, first, last in self._in_order(lacking):
            part = self._affordable(sender, first, last)
            if part is None:
                break
            wanted.setdefault(sender, RangeSet()).add(*part)
        wanted = self.ladder.gaps.worth_asking(now, wanted, out)
        if wanted:
            if self.ladder.settings.cyclic:
                self._asked.append((now, wanted))
            self._ask(now, source, Solicit(digest.round, wanted), out)

    def _leave_out_asked(self, now: float, lacking: PacketSets) -> None:
        """Opt. 3: what was solicited less than a round ago may be on its way; the turn is another's."""
        while self._asked and now - self._asked[0][0] >= self.ladder.settings.gossip_period:
            self._asked.popleft()
        for _, asked in self._asked:
            for sender, numbers in asked.items():
                if sender in lacking:
                    lacking[sender].subtract(numbers)

    def _ask(self, now: float, source: int, solicit: Solicit, out: Effects) -> None:
        out.append(Unicast(source, solicit))

    def _in_order(self, numbers: PacketSets) -> list[Span]:
        """All parts, the most recent first (opt. 4): those closest to the last number of their sender."""
        recent_first = self.ladder.settings.recent_first
        aged = []
        for sender, of_sender in numbers.items():
            following = self.ladder.streams.of(sender).next if of_sender else 0
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
        if solicit.round != self._round and self.ladder.settings.same_round:
            return  # opt. 1: a member that answers so late is not well, or the network is not
        kept = {s: self.ladder.buffer.kept_of(s, numbers) for s, numbers in solicit.wanted.items()}
        self._send_kept(now, source, kept, out)
        rest = difference(solicit.wanted, kept)
        if rest:
            self.ladder.buffer.pass_on(now, source, rest, out)

    def _send_kept(self, now: float, source: int, kept: PacketSets, out: Effects) -> None:
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
        if not self.ladder.repair_queue.take(now, 1):
            return False
        self._sent_bytes += len(packet.body)
        return True

    def _send(self, to: int, packet: Packet, out: Effects) -> None:
        """Opt. 7: that several ask one member for the same is unlikely, unless very many lack it."""
        repair = Repair(packet, PEER)
        out.append(Multicast(repair) if self._demand.is_high(packet, to) else Unicast(to, repair))


class RegionalDigestGossip(DigestGossip):
    """The same, and a repair that came from afar is multicast again in the region (opt. 7).

    Most gossip is between neighbours, so a packet that had to be fetched from afar was probably lost by the whole
    region. How far a peer is, is the time from our solicitation to its repair.
    """

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._solicits: dict[int, tuple[float, PacketSets]] = {}  # the last one to each peer

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
