"""The sender's side of logging (000 §3.1): a packet is kept until a logger has it.

Each tick, what no logger has acknowledged is sent to one again; while no logger answers at all, only the oldest of
it, as a probe. An acknowledgement that was lost is derived from the logger's gossip instead, if it gossips (000 §5.2).
"""

from collections.abc import Mapping

from gossamer.core.effects import Unicast
from gossamer.core.ids import PEER
from gossamer.core.ladder import UNLIMITED, Effects, Ladder, MessageHandler
from gossamer.core.messages import Ack, Gossip, Repair
from gossamer.core.packet_sets import among
from gossamer.core.packets import Packet, Run
from gossamer.core.parts import Keeper
from gossamer.core.ranges import RangeSet

_NOTHING = RangeSet()


class SendBuffer(Keeper):
    """Keeps what is not yet logged, and answers a logger that asks for packets which do not exist (000 §6.2)."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._kept: dict[int, Packet] = {}
        self._overdue_below = 0  # numbers below this were there at the last tick already
        self._answered = True  # whether a logger has been heard since the last repetition
        self._timer = ladder.timer(self._repeat)

    def messages(self) -> Mapping[type, MessageHandler]:
        """Acknowledgements, said and derived."""
        return {Ack: self._acknowledged, Gossip: self._gossiped}

    def full(self) -> str:
        """The send buffer is bounded."""
        return "send buffer" if len(self._kept) >= self.ladder.settings.send_buffer else ""

    def settled(self) -> int:
        """The oldest packet that no logger has."""
        return next(iter(self._kept), UNLIMITED)

    def buffered(self) -> int:
        """Packets that no logger has acknowledged."""
        return len(self._kept)

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Keep it until a logger has it, if there is one."""
        if self.ladder.roster.loggers:
            self._kept.update((packet.seqno, packet) for packet in run)
            self._timer.arm(now + self.ladder.settings.retry_period)

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Our own packets that are not logged."""
        return among(self._kept, numbers) if sender == self.ladder.me else _NOTHING

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is ours and not logged."""
        return self._kept.get(seqno) if sender == self.ladder.me else None

    def lost_of(self, sender: int, numbers: RangeSet, asked_by: int) -> RangeSet:
        """What a logger asks for that was sent and is not kept: another logger has it, or there was none then."""
        if sender != self.ladder.me or asked_by not in self.ladder.roster.loggers:
            return _NOTHING
        return RangeSet(numbers.within(self.ladder.first_number, self.ladder.streams[sender].next - 1))

    def never_sent_of(self, sender: int, numbers: RangeSet, asked_by: int) -> RangeSet:
        """Numbers of an earlier life that a logger lacks: unused, or lost with our memory (000 §6.1 allows that).

        It is told of all of them at once, and knows itself which of them it has.
        """
        if sender != self.ladder.me or asked_by not in self.ladder.roster.loggers:
            return _NOTHING
        asked = numbers.within(0, self.ladder.first_number - 1)
        return RangeSet.span(0, self.ladder.first_number - 1) if asked else _NOTHING

    def _acknowledged(self, now: float, source: int, ack: Ack, out: Effects) -> None:
        if source in self.ladder.roster.loggers:
            for first, last in ack.have.get(self.ladder.me, _NOTHING).ranges():
                self._release(first, last)

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if gossip.logged >= 0 and source in self.ladder.roster.loggers:
            self._release(0, gossip.logged)

    def _release(self, first: int, last: int) -> None:
        self._answered = True
        oldest = next(iter(self._kept), last + 1)  # numbers only grow, so the first kept is the oldest
        newest = self.ladder.streams[self.ladder.me].next - 1  # an ack beyond it is broken or hostile
        for seqno in range(max(first, oldest), min(last, newest) + 1):
            self._kept.pop(seqno, None)

    def _repeat(self, now: float, out: Effects) -> None:
        if not self.ladder.roster.loggers:  # the last one has left: nobody keeps anything any more
            self._kept.clear()
            return
        overdue = RangeSet()
        for seqno in self._kept:
            if seqno >= self._overdue_below:
                break
            overdue.add(seqno)
            if not self._answered:
                break  # one is enough to find out whether a logger is there again
        if overdue:
            self._answered = False
            logger = self.ladder.rng.choice(self.ladder.roster.loggers)
            self.ladder.repair_queue.enqueue(now, logger, {self.ladder.me: overdue}, self._send, out)
        self._overdue_below = self.ladder.streams[self.ladder.me].next
        if self._kept:
            self._timer.set(now + self.ladder.settings.retry_period)

    def _send(self, to: int, sender: int, first: int, last: int, out: Effects) -> None:
        out.extend(
            Unicast(to, Repair(self._kept[seqno], PEER)) for seqno in range(first, last + 1) if seqno in self._kept
        )
