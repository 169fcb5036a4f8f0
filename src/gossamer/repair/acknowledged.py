"""The basic algorithm (001 §3): the source repeats a packet to each member until that member acknowledges it.

Simple and reliable, and the yardstick for everything else: every packet costs an acknowledgement per member,
and after a partition the source repeats everything to each member on its own.

A receiver that finds a gap waits for the source. If that takes too long it asks the source, which has let go of a
packet only if the member was away for longer than there was room for, or had left; and if the source itself is gone,
the gap goes to the next repair.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from math import inf

from gossamer.core.budget import Budget
from gossamer.core.declares import LAST_PACKETS, Declares
from gossamer.core.effects import Unicast
from gossamer.core.ids import PEER, Phase, channel_of, owner_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.messages import Ack, Collected, NeverSent, Repair, Request
from gossamer.core.packet_sets import PacketSets, among, remove, take
from gossamer.core.packets import Packet, Run, memory_of
from gossamer.core.parts import Keeper
from gossamer.core.parts import Repair as RepairRung
from gossamer.core.ranges import RangeSet
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings

_NOTHING = RangeSet()
_LOOKS = 4
"""A receiver asks a source this many times before it takes it for gone."""


_DOUBLINGS_MAX = 5
"""The period between repetitions doubles at most this often."""
_OF_USE = 0.25
"""While this share of the repetitions is acknowledged, they are worth their while."""
_TURNS = 32
"""Packets published together take turns in being repeated: together they would overflow the same queue again."""


class _Unacknowledged:
    """A packet and the members that have not acknowledged it, in their order."""

    __slots__ = ("packet", "waiting", "was_repeated")

    def __init__(self, packet: Packet, waiting: dict[int, None]) -> None:
        self.packet = packet
        self.waiting = waiting
        self.was_repeated = False


class Acknowledged(RepairRung, Keeper):
    """Both halves: a source that repeats, a receiver that acknowledges every copy it gets."""

    place = "first"

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._kept: dict[int, dict[int, _Unacknowledged]] = {}  # by stream of ours, and number
        self._count = self._bytes = 0
        self._last: dict[int, Packet] = {}  # by stream of ours
        self._retries: list[tuple[float, int, int]] = []  # (when, stream, seqno), a heap
        self._doublings = self._sent = self._acked = self._turn = 0
        self._judged_at = 0.0
        self._budget = Budget(self.ladder.settings.service_limit)
        self._missing: PacketSets = {}
        self._away_since: dict[int, float] = {}  # of sources that we miss something of and that are not in reach
        self._usual_patience = ladder.settings.peer_rounds * ladder.settings.retry_period
        self._retry = ladder.timer(self._repeat)
        self._look = ladder.timer(self._look_at_sources)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Everything comes in the end, unless a member can be taken for gone while it lives."""
        certain = settings.membership == "static"
        return Declares(promises=("eventual" if certain else "eventual-or-lost",), provides=(LAST_PACKETS,))

    def messages(self) -> Mapping[type, MessageHandler]:
        """Acknowledgements, and a source's word that it has let a packet go, or lost it with its memory."""
        return {Ack: self._acknowledged, Collected: self._told_collected, NeverSent: self._told_lost}

    # The source.

    def full(self) -> str:
        """The send buffer is bounded; but nobody waits for a member that is away."""
        if not self._reaches(1.0):
            return ""
        self._let_go_of_the_absent()
        return "send buffer" if self._reaches(1.0) else ""

    def buffered(self) -> int:
        """Packets kept until everybody has acknowledged them."""
        return self._count

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Our own packets that somebody has not acknowledged."""
        return among(self._kept[sender], numbers) if sender in self._kept else _NOTHING

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is ours and kept."""
        kept = self._kept.get(sender, {}).get(seqno)
        return None if kept is None else kept.packet

    def lost_of(self, sender: int, numbers: RangeSet, asked_by: int) -> RangeSet:
        """Our numbers of earlier lives, all at once: unused, or lost with our memory (000 §6.1 allows that)."""
        first = self.ladder.first_number if owner_of(sender) == self.ladder.me else 0
        return RangeSet.span(0, first - 1) if numbers.within(0, first - 1) else _NOTHING

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Keep them until everyone has acknowledged them that listens."""
        sender = run[0].sender
        self._last[sender] = run[-1]
        waiting = dict.fromkeys(self.ladder.roster.others_owed(channel_of(sender)))
        for packet in run if waiting else ():
            self._keep(now, packet, waiting.copy())

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """Nobody waits for a member that left; one that joined is owed what its sponsors had not seen.

        The last packet shows it whether there is more. It acknowledges what came before its time, too.
        """
        for sender in self._last:
            self._follow_listeners(now, sender, before)
        knows = self.ladder.roster.knows
        for sender in [sender for sender in self._missing if not knows(owner_of(sender))]:
            self._move_on(now, sender, self._missing[sender].copy(), "its sender has left", out)

    def _follow_listeners(self, now: float, sender: int, before: Roster) -> None:
        roster, channel = self.ladder.roster, channel_of(sender)
        owed, were_owed = set(roster.listeners_owed(channel)), set(before.listeners_owed(channel))
        kept = self._kept.get(sender, {})
        left = [member for member in before.listeners_owed(channel) if member not in owed]
        for seqno in list(kept) if left else ():
            for member in left:
                self._acknowledged_by(sender, seqno, member)
        joined = dict.fromkeys(m for m in roster.others_owed(channel) if m not in were_owed)
        if joined:
            for waits in self._kept.get(sender, {}).values():
                waits.waiting.update(joined)
            if self._last[sender].seqno not in self._kept.get(sender, {}):
                self._keep(now, self._last[sender], joined)

    def _keep(self, now: float, packet: Packet, waiting: dict[int, None]) -> None:
        self._kept.setdefault(packet.sender, {})[packet.seqno] = _Unacknowledged(packet, waiting)
        self._count += 1
        self._bytes += memory_of([packet])
        self._schedule(now, packet.sender, packet.seqno)

    def _let_go_of_the_absent(self) -> None:
        """Room for new packets: drop, oldest first, those that only members which are away still need."""
        in_reach = set(self.ladder.roster.members)
        for sender, by_number in list(self._kept.items()):
            for seqno, kept in list(by_number.items()):
                if not self._reaches(0.5):
                    return
                if not any(member in in_reach for member in kept.waiting):
                    self._let_go(sender, seqno)

    def _reaches(self, share: float) -> bool:
        """Whether this much of the send buffer is in use."""
        settings = self.ladder.settings
        packets, memory = share * settings.send_buffer, share * settings.send_buffer_bytes
        return self._count >= packets or 0 < memory <= self._bytes

    def _let_go(self, sender: int, seqno: int) -> None:
        self._count -= 1
        self._bytes -= memory_of([self._kept[sender].pop(seqno).packet])
        if not self._kept[sender]:
            del self._kept[sender]

    def _acknowledged(self, now: float, source: int, ack: Ack, out: Effects) -> None:
        for sender in [sender for sender in ack.have if sender in self._kept]:
            oldest = next(iter(self._kept[sender]))  # numbers only grow, so the first kept is the oldest
            newest = self.ladder.own[sender].next - 1  # an ack beyond it is broken or hostile
            for first, last in ack.have[sender].within(oldest, newest):
                for seqno in range(first, last + 1):
                    self._acknowledged_by(sender, seqno, source)

    def _acknowledged_by(self, sender: int, seqno: int, member: int) -> None:
        kept = self._kept.get(sender, {}).get(seqno)
        if kept is None:
            return
        self._acked += kept.was_repeated and member in kept.waiting
        kept.waiting.pop(member, None)
        if not kept.waiting:
            self._let_go(sender, seqno)

    def _repeat(self, now: float, out: Effects) -> None:
        in_reach = set(self.ladder.roster.members)
        while self._retries and self._retries[0][0] <= now:
            _, sender, seqno = heappop(self._retries)
            kept = self._kept.get(sender, {}).get(seqno)
            if kept is not None:
                waiting = [member for member in kept.waiting if member in in_reach]
                granted = self._budget.take(now, len(waiting))
                out.extend(Unicast(m, Repair(kept.packet, PEER)) for m in waiting[:granted])
                kept.was_repeated = True
                self._sent += granted
                self._schedule(now, sender, seqno)
        self._judge(now)
        self._arm()

    def _period(self) -> float:
        return float(self.ladder.settings.retry_period * 2**self._doublings)

    def _judge(self, now: float) -> None:
        """Repeat more rarely while that is of no use: a path that is full of repetitions carries nothing new any more.

        001 §3 repeats at a fixed interval; its links have no bandwidth.
        """
        if self._sent and now - self._judged_at >= self._period():
            step = -1 if self._acked >= _OF_USE * self._sent else 1
            self._doublings = min(_DOUBLINGS_MAX, max(0, self._doublings + step))
            self._judged_at, self._sent, self._acked = now, 0, 0

    def _schedule(self, now: float, sender: int, seqno: int) -> None:
        """A period from now, or up to two: packets take turns."""
        heappush(self._retries, (now + self._period() * (1 + self._turn / _TURNS), sender, seqno))
        self._turn = (self._turn + 1) % _TURNS
        if self._retries[0][1:] == (sender, seqno):
            self._arm()

    def _arm(self) -> None:
        self._retry.set(self._retries[0][0] if self._retries else inf)

    # The receiver.

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """Acknowledge what is new ..."""
        self._acknowledge(run, out)

    def repeated(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """... and what is not: the earlier acknowledgement may be the one that was lost."""
        self._acknowledge(run, out)

    def _acknowledge(self, run: Run, out: Effects) -> None:
        """But not what is above the end of a stream, of which nothing was taken in: its turn is in the next view."""
        sender, first = run[0].sender, run[0].seqno
        last = min(run[-1].seqno, self.ladder.streams.of(sender).last)
        if first <= last and sender not in self.ladder.own:
            out.append(Unicast(owner_of(sender), Ack({sender: RangeSet.span(first, last)})))

    def repair(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """Wait for the source."""
        self._missing.setdefault(sender, RangeSet()).add(first, last)
        self._look.arm(now + self._usual_patience / _LOOKS)

    def release(self, sender: int, first: int, last: int) -> None:
        """Another rung's turn."""
        remove(self._missing, sender, first, last)

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """It came, or nobody waits for it any more."""
        self.release(sender, first, last)

    def _look_at_sources(self, now: float, out: Effects) -> None:
        """Ask sources that have not repeated what is missing; those that are gone will not."""
        roster = self.ladder.roster
        patience = self.ladder.gaps.patience(self, self._usual_patience)
        for sender, numbers in list(self._missing.items()):
            if owner_of(sender) in roster:
                self._away_since.pop(sender, None)
                wanted = take({sender: numbers.copy()}, self.ladder.settings.request_packets)
                if wanted := self.ladder.gaps.worth_asking(now, wanted, out):
                    out.append(Unicast(owner_of(sender), Request(wanted)))
            elif now - self._away_since.setdefault(sender, now) >= patience:
                self._move_on(now, sender, numbers.copy(), "its sender is gone", out)
        self._look.set(now + self._usual_patience / _LOOKS if self._missing else inf)

    def _told_collected(self, now: float, source: int, message: Collected, out: Effects) -> None:
        """Only the source's own word counts: nobody else keeps its packets."""
        for sender, numbers in message.gone.items():
            if owner_of(sender) == source:
                self._move_on(now, sender, numbers, "collected", out)

    def _told_lost(self, now: float, source: int, message: NeverSent, out: Effects) -> None:
        """What its source has not got, and what is still missing, somebody else may have."""
        for sender, numbers in message.numbers.items():
            if owner_of(sender) == source:
                self._move_on(now, sender, numbers, "lost with its sender's memory", out)

    def _move_on(self, now: float, sender: int, numbers: RangeSet, why: str, out: Effects) -> None:
        missing = self._missing.get(sender)
        if missing is not None:
            for first, last in missing.intersection(numbers).ranges():
                self.release(sender, first, last)
                self.ladder.gaps.escalate(now, self, sender, first, last, why, out)
