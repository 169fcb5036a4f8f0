"""The one server of requests: from the buffer, then from whatever else keeps packets, then with the truth.

A request comes as such or as what a gossip says is missing. What this member keeps it sends, within its service limit,
from memory if it can and from its log if it must. Of the rest it says what it knows: that it had the packet and has
collected it (000 §4.3: the note that moves a gap on, sent exactly when that is so), that the packet is gone for good,
or that there never was one (000 §6.2). Of what it never had it says nothing.
"""

from collections.abc import Mapping

from gossamer.core.demand import Demand
from gossamer.core.effects import Multicast, Replay, Unicast
from gossamer.core.ids import PEER
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import Collected, Gossip, NeverSent, Repair, Request
from gossamer.core.packet_sets import PacketSets, difference, put
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet


class Server(Rung):
    """Answers all requests for packets to this member."""

    __slots__ = ("_demand",)

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._demand = Demand(ladder.settings.multicast_after)

    def messages(self) -> Mapping[type, MessageHandler]:
        """Requests in both forms."""
        return {Request: self._requested, Gossip: self._gossiped}

    def _requested(self, now: float, source: int, request: Request, out: Effects) -> None:
        self._serve(now, source, request.wanted, out)

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if gossip.missing:
            self._serve(now, source, gossip.missing, out)

    def _serve(self, now: float, source: int, wanted: PacketSets, out: Effects) -> None:
        in_memory: PacketSets = {}
        on_disk: PacketSets = {}
        rest: PacketSets = {}
        for sender, numbers in wanted.items():
            for keeper in self.ladder.keepers:
                kept = keeper.kept_of(sender, numbers)
                if kept and not keeper.on_disk:
                    kept = self._its_own(sender, kept)
                if kept:
                    where = on_disk if keeper.on_disk else in_memory
                    where.setdefault(sender, RangeSet()).update(kept)
                    numbers = numbers.difference(kept)
            put(rest, sender, numbers)
        if in_memory:
            self.ladder.repair_queue.enqueue(now, source, in_memory, self._send, out)
        if on_disk:
            self.ladder.repair_queue.enqueue(now, source, on_disk, self._replay, out)
        if rest:
            self._tell(now, source, rest, out)

    def _its_own(self, sender: int, kept: RangeSet) -> RangeSet:
        """What is kept under numbers that we await was somebody's lie, as long as the packet has not come."""
        stream = self.ladder.streams.get(sender)
        if stream is None or sender in self.ladder.own or (kept.last < stream.next and not stream.missing.firsts):
            return kept
        return RangeSet(kept.within(0, stream.next - 1)).difference(stream.missing)

    def _tell(self, now: float, source: int, rest: PacketSets, out: Effects) -> None:
        """The truth about what cannot be served."""
        unknowns: PacketSets = {}
        lost: PacketSets = {}
        never_sent: PacketSets = {}
        for sender, numbers in rest.items():
            gone, never = RangeSet(), RangeSet()
            for keeper in self.ladder.keepers:
                gone.update(keeper.lost_of(sender, numbers, source))
                never.update(keeper.never_sent_of(sender, numbers, source))
            stream = self.ladder.streams.get(sender)
            if stream is not None and stream.never_sent is not None:
                never.update(stream.never_sent.touching(numbers))  # a member that misses one also misses its neighbours
            gone.subtract(never)
            unknown = numbers.difference(gone).difference(never)
            put(lost, sender, gone)
            put(never_sent, sender, never)
            if unknown:
                put(unknowns, sender, unknown)
                for keeper in self.ladder.keepers:
                    keeper.asked_in_vain(now, sender, unknown, out)
        collected = {} if self.ladder.is_logger else self._collected(now, source, unknowns, out)
        if collected:
            out.append(Unicast(source, Collected(collected)))
        if lost:
            out.append(Unicast(source, NeverSent(lost, lost=True)))
        if never_sent:
            out.append(Unicast(source, NeverSent(never_sent)))

    def _collected(self, now: float, source: int, unknown: PacketSets, out: Effects) -> PacketSets:
        """What was here and is kept by nobody, as far as we know (a logger has no note to send: it has a log).

        Where members keep different packets, others may have the rest, and are asked to send it (003 §4).
        """
        elsewhere = self.ladder.buffer.pass_on(now, source, unknown, out) if unknown else {}
        collected: PacketSets = {}
        for sender, numbers in difference(unknown, elsewhere).items():
            if sender in self.ladder.streams:
                put(collected, sender, self.ladder.streams[sender].received(numbers))
        return collected

    def _send(self, to: int, sender: int, first: int, last: int, out: Effects) -> None:
        for seqno in range(first, last + 1):
            packet = self._packet(sender, seqno)
            if packet is None:  # collected while the request waited
                self._send_late(to, sender, seqno, out)
            elif self._demand.is_high(packet, to):
                out.append(Multicast(Repair(packet, PEER)))
            else:
                out.append(Unicast(to, Repair(packet, PEER)))

    def _send_late(self, to: int, sender: int, seqno: int, out: Effects) -> None:
        one = RangeSet.span(seqno, seqno)
        if any(keeper.on_disk and keeper.kept_of(sender, one) for keeper in self.ladder.keepers):
            self._replay(to, sender, seqno, seqno, out)
        else:
            out.append(Unicast(to, Collected({sender: one})))

    def _packet(self, sender: int, seqno: int) -> Packet | None:
        found = (keeper.get(sender, seqno) for keeper in self.ladder.keepers if not keeper.on_disk)
        return next((packet for packet in found if packet is not None), None)

    def _replay(self, to: int, sender: int, first: int, last: int, out: Effects) -> None:
        out.append(Replay(to, sender, first, last))
