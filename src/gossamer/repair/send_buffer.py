"""The sender's side of logging (000 §3.1): a packet is kept until a logger has it.

Each tick, what no logger has acknowledged is sent to one again; while no logger answers at all, only the oldest of
it, as a probe. An acknowledgement that was lost is derived from the logger's gossip instead, if it gossips (000 §5.2).
"""

from collections.abc import Mapping
from math import inf

from gossamer.core.effects import Unicast
from gossamer.core.ids import PEER
from gossamer.core.ladder import UNLIMITED, Effects, Ladder, MessageHandler, Rung, TimerHandler
from gossamer.core.messages import Ack, Gossip, Never, Repair, Request
from gossamer.core.packets import Packet, Run
from gossamer.core.ranges import RangeSet

_RETRY = "send_buffer.retry"


class SendBuffer(Rung):
    """Keeps what is not yet logged, and answers a logger that asks for what is not there (000 §6.2)."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._kept: dict[int, Packet] = {}
        self._overdue_below = 0  # numbers below this were there at the last tick already
        self._first_of_this_life = 0
        self._answered = True  # whether a logger has been heard since the last repetition

    def messages(self) -> Mapping[type, MessageHandler]:
        """Acknowledgements, said and derived, and requests of loggers."""
        return {Ack: self._acknowledged, Gossip: self._gossiped, Request: self._requested}

    def alarms(self) -> Mapping[str, TimerHandler]:
        """The tick."""
        return {_RETRY: self._repeat}

    def full(self) -> str:
        """The send buffer is bounded."""
        return "send buffer" if len(self._kept) >= self.ladder.settings.send_buffer else ""

    def settled(self) -> int:
        """The oldest packet that no logger has."""
        return next(iter(self._kept), UNLIMITED)

    def buffered(self) -> int:
        """Packets that no logger has acknowledged."""
        return len(self._kept)

    def started(self, now: float, out: Effects) -> None:
        """Numbers below this were given to packets of an earlier life, or to none."""
        self._first_of_this_life = self.ladder.streams[self.ladder.me].next

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Keep it until a logger has it, if there is one."""
        if not self.ladder.peers.loggers:
            return
        self._kept.update((packet.seqno, packet) for packet in run)
        if self.ladder.timers.get(_RETRY) == inf:
            self.ladder.timers.set(_RETRY, now + self.ladder.settings.retry_period)

    def _acknowledged(self, now: float, source: int, ack: Ack, out: Effects) -> None:
        if source in self.ladder.peers.loggers:
            for first, last in ack.have.get(self.ladder.me, RangeSet()).ranges():
                self._release(first, last)

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if source in self.ladder.peers.loggers and self.ladder.me in gossip.seen:
            self._release(0, gossip.seen[self.ladder.me])

    def _release(self, first: int, last: int) -> None:
        self._answered = True
        oldest = next(iter(self._kept), last + 1)  # numbers only grow, so the first kept is the oldest
        newest = self.ladder.streams[self.ladder.me].next - 1  # an ack beyond it is broken or hostile
        for seqno in range(max(first, oldest), min(last, newest) + 1):
            self._kept.pop(seqno, None)

    def _requested(self, now: float, source: int, request: Request, out: Effects) -> None:
        """A logger asks: it gets what is there, and is told of what is not and never will be."""
        wanted = request.wanted.get(self.ladder.me)
        if wanted is None or source not in self.ladder.peers.loggers:
            return
        sent = RangeSet(wanted.within(self._first_of_this_life, self.ladder.streams[self.ladder.me].next - 1))
        # what the buffer still has, peer repair answers
        sent.subtract(self.ladder.buffer.kept_of(self.ladder.me, sent))
        here = RangeSet((seqno, seqno) for seqno in sent if seqno in self._kept)
        if here:
            self.ladder.service.offer(now, source, {self.ladder.me: here}, self._send, out)
        sent.subtract(here)
        if sent:  # another logger has it, or there was none when it was sent
            out.append(Unicast(source, Never({self.ladder.me: sent}, lost=True)))
        unused = wanted.within(0, self._first_of_this_life - 1)
        if unused:
            out.append(Unicast(source, Never({self.ladder.me: RangeSet(unused)})))

    def _repeat(self, now: float, out: Effects) -> None:
        if not self.ladder.peers.loggers:  # the last one has left: nobody keeps anything any more
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
            logger = self.ladder.rng.choice(self.ladder.peers.loggers)
            self.ladder.service.offer(now, logger, {self.ladder.me: overdue}, self._send, out)
        self._overdue_below = self.ladder.streams[self.ladder.me].next
        if self._kept:
            self.ladder.timers.set(_RETRY, now + self.ladder.settings.retry_period)

    def _send(self, to: int, sender: int, first: int, last: int, out: Effects) -> None:
        out.extend(
            Unicast(to, Repair(self._kept[seqno], PEER)) for seqno in range(first, last + 1) if seqno in self._kept
        )
