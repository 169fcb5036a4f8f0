"""Forward error correction of the first pass: after some packets their parity, from which one that was lost follows.

A repair takes a round trip, at least. Where that is long and packets are lost, a sender multicasts the parity of every
few packets (`parity_block`), and a receiver that lacks one of them has it back without asking anybody. It is then kept,
ordered and served to others like any packet that came by itself. To `core.reordering` it is one that came late, so a
receiver soon knows how long it takes until a gap is filled in this way, and asks for the rest after that. If two are
lost, the parity waits: one that is repaired brings the other.

With `parity` = -1 the number of packets follows from the loss that receivers report, k = _SHARE / loss: 5% make it 4
packets, 2% and less 10. It is the mean of all receivers, so that a single bad line does not cost everybody. Receivers
to which a repair is quick, or which lose nothing, report nothing, and then there is no parity at all. A block ends
early if its packets come slowly: a parity that comes later than a repair would is of no use.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from gossamer.core.declares import COPIES_KEPT, ONE_MULTICAST, Declares
from gossamer.core.effects import Multicast, Unicast
from gossamer.core.ids import FIRST_PASS, PacketId, Phase, channel_of, owner_of, stream_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import LossReport, Parity
from gossamer.core.packets import Packet, Run
from gossamer.core.settings import ProtocolSettings
from gossamer.dissemination.parity_block import COUNT_MIN, Block, can_be, recovered

AUTO = -1
_SHARE = 0.2
_PACKETS_MIN, _PACKETS_MAX = 3, 10
"""So parity takes a third of the bandwidth at most, and is there before a repair where packets are 1 ms apart."""
_LOSS_MIN = 0.004
_WAIT_MIN_S, _WAIT_MAX_S = 0.001, 0.01
"""How long after its first packet a block ends at the latest: half of a round trip, within these bounds."""
_REPORT_LOSSES, _REPORT_ROUNDS = 8, 20
"""A receiver reports after so many losses, or so many rounds if there were any; the very first loss at once."""
_FIRST_OF = 10
"""The first loss is one of this many packets, or of those that have come so far."""
_REPORT_VALID_S = 5.0
_WAITING_MAX = 16
"""Parities of each sender that wait until a second packet of their block has come otherwise."""
_SENDERS_MAX = 64
_RECENT_MAX = 4096
"""Packets recovered in a round that may turn out to have been late, not lost."""


class ParityPass(Rung):
    """Sends parities of what this member publishes, and recovers packets of others from theirs."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._is_fixed = ladder.settings.parity > 0
        self._packets = ladder.settings.parity if self._is_fixed else 0
        self._blocks: dict[int, Block] = {}  # by stream of ours
        self._ends: dict[int, float] = {}  # when each of them ends at the latest
        self._timer = ladder.timer(self._end_blocks)
        self._losses: dict[int, tuple[float, float]] = {}  # by receiver: the share that it loses, and when it said so
        self._waiting: dict[int, dict[int, Parity]] = {}  # by sender and first number
        self._lost: dict[int, int] = {}  # by sender: packets that did not come by themselves since the last report
        self._since: dict[int, tuple[int, int]] = {}  # by sender: its next number then, and the round
        self._has_reported: set[int] = set()  # senders that know that we lose some of their packets
        self._round = 0
        self._recent: dict[PacketId, None] = {}  # recovered in this round
        self._older: dict[PacketId, None] = {}  # and in the one before

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """One parity for all, and the rest of a block to compare it with."""
        return Declares(needs=(ONE_MULTICAST, COPIES_KEPT))

    def messages(self) -> Mapping[type, MessageHandler]:
        """Parities, and what receivers say of their losses."""
        return {Parity: self._heard, LossReport: self._reported}

    # At the sender.

    def published(self, now: float, run: Run, out: Effects) -> None:
        """After every few packets, their parity."""
        if not self._packets:
            return
        if self.ladder.pace.fills_path(now):  # what is lost now is lost in a queue, and parity would fill it
            self._drop_blocks()
            return
        sender = run[0].sender
        for packet in run:
            if sender not in self._blocks:
                self._blocks[sender], self._ends[sender] = Block(packet.seqno), now + self._wait()
                self._timer.set(min(self._ends.values()))
            self._blocks[sender].add(packet.body)
            if self._blocks[sender].count >= self._packets:
                self._end_block(sender, out)

    def _end_blocks(self, now: float, out: Effects) -> None:
        for sender in [sender for sender, at in self._ends.items() if at <= now]:
            self._end_block(sender, out)

    def _end_block(self, sender: int, out: Effects) -> None:
        block = self._blocks.pop(sender)
        del self._ends[sender]
        self._timer.set(min(self._ends.values(), default=inf))
        if 2 * block.count >= max(self._packets, 2 * COUNT_MIN):
            channel = channel_of(sender)
            out.append(Multicast(replace(block.parity(), channel=channel), channel=channel))

    def _drop_blocks(self) -> None:
        self._blocks.clear()
        self._ends.clear()

    def _wait(self) -> float:
        times = self.ladder.round_trips.times
        half = sum(times.values()) / (2 * len(times)) if times else _WAIT_MAX_S
        return min(_WAIT_MAX_S, max(_WAIT_MIN_S, half))

    def _reported(self, now: float, source: int, report: LossReport, out: Effects) -> None:
        if not 0 < report.lost <= report.of:
            self.ladder.ignored["losses that cannot be"] += 1
            return
        before = self._losses.get(source, (report.lost / report.of, now))[0]
        self._losses[source] = (before + report.lost / report.of) / 2, now
        self._choose(now)

    def _choose(self, now: float) -> None:
        """How many packets share a parity."""
        others = self.ladder.roster.others()
        valid = {m: self._losses[m] for m in others if m in self._losses and now - self._losses[m][1] < _REPORT_VALID_S}
        self._losses = valid
        loss = sum(share for share, _ in valid.values()) / max(1, len(others))
        packets = min(_PACKETS_MAX, max(_PACKETS_MIN, round(_SHARE / loss))) if loss >= _LOSS_MIN else 0
        if not self._is_fixed and packets != self._packets:
            self._packets = packets
            self._drop_blocks()

    # At the receiver.

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """Tell senders what was lost of their packets, from time to time; forget what receivers said long ago."""
        self._round = number
        for lost in self._older:
            self._count_loss(lost.sender, 1)
        self._older, self._recent = self._recent, {}
        if self._losses:
            self._choose(now)
        for sender in [*self._lost]:
            if self._lost[sender] >= _REPORT_LOSSES or number - self._since[sender][1] >= _REPORT_ROUNDS:
                self._report(sender, out)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """Count what came as a repair; with it a parity that waits may show the last packet of its block."""
        sender = run[0].sender
        if phase is not FIRST_PASS:
            self._count_loss(sender, len(run))
            if (
                sender in self._lost and sender not in self._has_reported
            ):  # until it knows, every loss takes a round trip
                self._report(sender, out)
        if sender in self._waiting:
            for parity in [*self._waiting[sender].values()]:
                if parity.first <= run[-1].seqno and run[0].seqno < parity.first + parity.count:
                    self._use(now, sender, parity, phase, out)

    def repeated(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """A packet that was recovered and comes by itself was not lost, only late; nor was it sent twice."""
        for packet in run if phase is FIRST_PASS and (self._recent or self._older) else ():
            for recovered_then in (self._recent, self._older):
                if packet.id in recovered_then:
                    del recovered_then[packet.id]
                    self.ladder.duplicates -= 1

    def retired(self, now: float, sender: int) -> None:
        """Nothing of it is missing."""
        self._has_reported.discard(sender)
        for table in (self._waiting, self._lost, self._since):
            table.pop(sender, None)

    def _heard(self, now: float, source: int, parity: Parity, out: Effects) -> None:
        if not can_be(parity):
            self.ladder.ignored["parities that cannot be"] += 1
            return
        sender = stream_of(source, parity.channel)
        if self.ladder.streams.hears(sender):
            self._keep(sender, parity)
            self._use(now, sender, parity, FIRST_PASS, out)
            self.ladder.gaps.learn(now, sender, parity.first + parity.count - 1, out)

    def _keep(self, sender: int, parity: Parity) -> None:
        if sender not in self._waiting and len(self._waiting) >= _SENDERS_MAX:
            del self._waiting[next(iter(self._waiting))]
        waiting = self._waiting.setdefault(sender, {})
        waiting[parity.first] = parity
        if len(waiting) > _WAITING_MAX:
            del waiting[next(iter(waiting))]

    def _use(self, now: float, sender: int, parity: Parity, phase: Phase, out: Effects) -> None:
        """Recover the one packet that is missing from the block, as what came just now."""
        stream = self.ladder.streams.get(sender)
        numbers = range(parity.first, parity.first + parity.count)
        absent = [] if stream is None else [seqno for seqno in numbers if not stream.has(seqno)]
        if stream is None or len(absent) > 1:
            return
        self._forget(sender, parity)
        if absent and (absent[0] in stream.missing or absent[0] >= stream.next):
            others = [self.ladder.buffer.get(sender, seqno) for seqno in numbers if seqno != absent[0]]
            packet = self._recovered(parity, Packet(sender, absent[0], b""), others)
            if packet is not None:
                if len(self._recent) < _RECENT_MAX:
                    self._recent[packet.id] = None
                self.ladder.recovered(now, packet, phase, out)

    def _recovered(self, parity: Parity, absent: Packet, others: list[Packet | None]) -> Packet | None:
        bodies = [packet.body for packet in others if packet is not None]
        if len(bodies) < len(others):
            return None  # collected
        body = recovered(parity, bodies)
        self.ladder.ignored["parities that do not fit"] += body is None
        return None if body is None else Packet(absent.sender, absent.seqno, body)

    def _forget(self, sender: int, parity: Parity) -> None:
        waiting = self._waiting.get(sender, {})
        waiting.pop(parity.first, None)
        if not waiting:
            self._waiting.pop(sender, None)

    def _count_loss(self, sender: int, packets: int) -> None:
        """Where a repair takes long, and parity could help."""
        if sender not in self.ladder.streams:
            return
        far = self.ladder.round_trips.is_far(owner_of(sender))
        if far and not self._is_fixed and (sender in self._lost or len(self._lost) < _SENDERS_MAX):
            self._lost[sender] = self._lost.get(sender, 0) + packets
            stream = self.ladder.streams.of(sender)
            first = sender not in self._has_reported
            since = max(stream.start, stream.next - _FIRST_OF) if first else stream.next
            self._since.setdefault(sender, (since, self._round))

    def _report(self, sender: int, out: Effects) -> None:
        following, _ = self._since.pop(sender)
        lost, of = self._lost.pop(sender), self.ladder.streams.of(sender).next - following
        owner = owner_of(sender)
        if of > 0 and owner in self.ladder.roster:
            out.append(Unicast(owner, LossReport(min(lost, of), of)))
            self._has_reported.add(sender)
            self._since[sender] = self.ladder.streams.of(sender).next, self._round
