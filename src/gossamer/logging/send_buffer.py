"""The sender's side of logging (000 §3.1): a packet is kept until a logger has it.

Each tick, what no logger has acknowledged is sent to one again, a limited number of packets at a time and more as they
are acknowledged; while no logger answers at all, only the oldest, as a probe. An acknowledgement that was lost is
derived from the logger's gossip instead, if it gossips (000 §5.2). Where requests are limited to what a path carries
(`request_packets`), nothing is repeated that is newer than the latest acknowledgement while these go on: such a logger
is only slow, and would be slower for it.

Once there was a logger, packets are kept whether or not there is one now: it may be restarted, or cut off. What happens
when there is no more room is a choice (`when_unlogged`).
"""

from collections.abc import Iterable, Mapping
from functools import reduce

from gossamer.core.effects import Unicast
from gossamer.core.ids import PEER
from gossamer.core.ladder import UNLIMITED, Effects, Ladder, MessageHandler
from gossamer.core.messages import Ack, Gossip, Repair
from gossamer.core.packet_sets import among
from gossamer.core.packets import Packet, Run, memory_of
from gossamer.core.parts import Keeper
from gossamer.core.ranges import RangeSet

_NOTHING = RangeSet()


class SendBuffer(Keeper):
    """Keeps what is not yet logged, and answers a logger that asks for packets which do not exist (000 §6.2)."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._kept: dict[int, Packet] = {}
        self._bytes = 0
        self._unlogged = -1
        self._expects_logger = ladder.settings.durable
        self._copies: dict[int, RangeSet] = {}  # by logger: what it has of those kept, if one logger is not enough
        self._overdue_below = 0  # numbers below this were there at the last tick already
        self._repeated_below = 0  # numbers below this were repeated since the last tick
        self._on_their_way = 0  # how many of these are still kept
        self._acknowledged_up_to = self._acknowledged_before = -1  # the latest number, now and at the last tick
        self._answered = True  # whether a logger has been heard since the last repetition
        self._timer = ladder.timer(self._tick)

    def messages(self) -> Mapping[type, MessageHandler]:
        """Acknowledgements, said and derived."""
        return {Ack: self._acknowledged, Gossip: self._gossiped}

    def full(self) -> str:
        """The send buffer is bounded. Nobody waits for loggers that have all left for good."""
        if not self._is_full():
            return ""
        settings = self.ladder.settings
        if settings.when_unlogged == "go-on" or not (self.ladder.roster.loggers or settings.durable):
            while self._is_full():
                oldest = next(iter(self._kept))
                self._let_go(oldest)
                self._unlogged = oldest
            return ""
        return "send buffer"

    def settled(self) -> int:
        """The oldest packet that no logger has."""
        return next(iter(self._kept), UNLIMITED)

    def buffered(self) -> int:
        """Packets that no logger has acknowledged."""
        return len(self._kept)

    def unlogged(self) -> int:
        """The last packet that was let go, or published while no logger was known."""
        return self._unlogged

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Keep it until a logger has it, if there is one, or was, or should be."""
        if self._expects_logger or self.ladder.roster.loggers:
            self._expects_logger = True
            self._kept.update((packet.seqno, packet) for packet in run)
            self._bytes += memory_of(run)
            self._timer.arm(now + self.ladder.settings.retry_period)
        else:
            self._unlogged = run[-1].seqno

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

    def _is_full(self) -> bool:
        settings = self.ladder.settings
        return len(self._kept) >= settings.send_buffer or 0 < settings.send_buffer_bytes <= self._bytes

    def _let_go(self, seqno: int) -> None:
        self._bytes -= memory_of([self._kept.pop(seqno)])
        if seqno < self._repeated_below:
            self._on_their_way -= 1
        assert self._bytes >= 0

    # Acknowledgements.

    def _acknowledged(self, now: float, source: int, ack: Ack, out: Effects) -> None:
        if source in self.ladder.roster.loggers:
            for first, last in ack.have.get(self.ladder.me, _NOTHING).ranges():
                self._has(source, first, last)
            self._go_on(now, out)

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if gossip.logged >= 0 and source in self.ladder.roster.loggers:
            self._has(source, 0, gossip.logged)
            self._go_on(now, out)

    def _has(self, logger: int, first: int, last: int) -> None:
        self._answered = True
        first = max(first, next(iter(self._kept), last + 1))  # numbers only grow, so the first kept is the oldest
        last = min(last, self.ladder.streams[self.ladder.me].next - 1)  # an ack beyond it is broken or hostile
        self._acknowledged_up_to = max(self._acknowledged_up_to, last)
        if first > last:
            return
        enough = self.ladder.settings.log_copies
        if enough > 1:
            self._copies.setdefault(logger, RangeSet()).add(first, last)
        for seqno in range(first, last + 1):
            if seqno in self._kept and (enough == 1 or sum(seqno in has for has in self._copies.values()) >= enough):
                self._let_go(seqno)
        if enough > 1:
            oldest = next(iter(self._kept), last + 1)
            for has in self._copies.values():
                has.discard(0, oldest - 1)

    # Repetitions.

    def _tick(self, now: float, out: Effects) -> None:
        """What was repeated before and is still here was lost again: begin with the oldest."""
        self._repeated_below = self._on_their_way = 0
        latest, goes_on = self._acknowledged_up_to, self._acknowledged_up_to > self._acknowledged_before
        self._acknowledged_before = latest
        if goes_on and self.ladder.settings.request_packets:
            self._overdue_below = min(self._overdue_below, latest + 1)
        if self.ladder.roster.loggers:
            if self._repeat(now, 0 if self._answered else 1, out):
                self._answered = False
            self._overdue_below = self.ladder.streams[self.ladder.me].next
        if self._kept:
            self._timer.set(now + self.ladder.settings.retry_period)

    def _go_on(self, now: float, out: Effects) -> None:
        """Half of what was repeated has come: repeat more."""
        if self._repeated_below and self._on_their_way <= self.ladder.settings.request_packets // 2:
            self._repeat(now, 0, out)

    def _repeat(self, now: float, most: int, out: Effects) -> bool:
        """Repeat the oldest packets that were not, at most `most` or, for 0, what may be on its way; False if none."""
        limit = self.ladder.settings.request_packets
        room = most or (limit - self._on_their_way if limit else UNLIMITED)
        loggers = self._whom()
        overdue = self._overdue(loggers, room)
        if overdue:
            self._repeated_below = overdue.last + 1
            self._on_their_way += len(overdue)
            for logger in loggers:
                lacking = overdue.difference(self._copies.get(logger, _NOTHING))
                if lacking:
                    self.ladder.repair_queue.enqueue(now, logger, {self.ladder.me: lacking}, self._send, out)
        return bool(overdue)

    def _overdue(self, loggers: list[int], room: int) -> RangeSet:
        """The oldest packets, at most `room`, that were there at the last tick and that one of these loggers lacks."""
        numbers: Iterable[int] = self._kept
        if self._copies:  # then most of what is kept may be in one log, and wait for another
            first = max(next(iter(self._kept), 0), self._repeated_below)
            span = RangeSet.span(first, self._overdue_below - 1) if first < self._overdue_below else RangeSet()
            has = [self._copies.get(logger, _NOTHING) for logger in loggers]
            numbers = span.difference(reduce(RangeSet.intersection, has)) if has else span
        overdue = RangeSet()
        for seqno in numbers:
            if seqno >= self._overdue_below or len(overdue) >= room:
                break
            if seqno >= self._repeated_below and seqno in self._kept:
                overdue.add(seqno)
        return overdue

    def _whom(self) -> list[int]:
        """One logger, or as many as there should be copies."""
        loggers = self.ladder.roster.loggers_to_ask()
        return self.ladder.rng.sample(loggers, min(len(loggers), self.ladder.settings.log_copies))

    def _send(self, to: int, sender: int, first: int, last: int, out: Effects) -> None:
        out.extend(
            Unicast(to, Repair(self._kept[seqno], PEER)) for seqno in range(first, last + 1) if seqno in self._kept
        )
