"""The sender's side of logging (000 §3.1): a packet is kept until a logger has it.

Each tick, what no logger has acknowledged is sent to one again, a limited number of packets at a time and more as they
are acknowledged; while no logger answers at all, only the oldest, as a probe. An acknowledgement that was lost is
derived from the logger's gossip instead, if it gossips (000 §5.2). Where requests are limited to what a path carries
(`request_packets`), nothing is repeated that is newer than the latest acknowledgement while these go on: such a logger
is only slow, and would be slower for it. And while less than half of it is acknowledged, less is repeated: else senders
fill a narrow link with copies, and not even what the logger asks for comes through.

A member that comes back without its memory leaves numbers out, of which it alone can say that they never were. A logger
asks it for them when peers do not have them. Until one has, it had better not leave (`unexplained`): a logger that has
not asked after a while is told, until it says that it knows.

Once there was a logger, packets are kept whether or not there is one now: it may be restarted, or cut off. What happens
when there is no more room is a choice (`when_unlogged`).
"""

from collections.abc import Mapping

from gossamer.core.effects import Unicast
from gossamer.core.ids import PEER, owner_of, stream_of
from gossamer.core.ladder import UNLIMITED, Effects, Ladder, MessageHandler
from gossamer.core.messages import Ack, Gossip, NeverSent, Repair
from gossamer.core.packet_sets import Horizon, among
from gossamer.core.packets import Packet, Run
from gossamer.core.parts import Keeper
from gossamer.core.ranges import RangeSet
from gossamer.logging.unlogged import Unlogged

_NOTHING = RangeSet()
_JUDGED_TICKS = 4
"""After so many ticks, less is repeated if less than half of it was acknowledged meanwhile."""
_PEERS_ROUNDS = 10
"""After so many rounds peers have given a logger what they have of an earlier life of its sender."""


class SendBuffer(Keeper):
    """Keeps what is not yet logged, and answers a logger that asks for packets which do not exist (000 §6.2)."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._streams: dict[int, Unlogged] = {ladder.me: Unlogged(ladder.settings.log_copies)}
        self._expects_logger = ladder.settings.durable
        self._unexplained: Horizon = {}  # by stream: our first number, if no logger knows what became of those below
        self._explains_at = 0.0
        self._window = ladder.settings.request_packets  # repetitions that may be on their way; 0: any number
        self._repeated = self._acknowledgements = 0  # of those repeated; since that was judged
        self._ticks = 0
        self._answered = True  # whether a logger has been heard since the last repetition
        self._timer = ladder.timer(self._tick)

    def messages(self) -> Mapping[type, MessageHandler]:
        """Acknowledgements, said and derived."""
        return {Ack: self._acknowledged, Gossip: self._gossiped, NeverSent: self._was_told}

    def full(self) -> str:
        """The send buffer is bounded. Nobody waits for loggers that have all left for good."""
        if not self._expects_logger or not self._is_full():
            return ""
        settings = self.ladder.settings
        if settings.when_unlogged == "go-on" or not (self.ladder.roster.loggers or settings.durable):
            while self._is_full():
                max(self._streams.values(), key=lambda unlogged: len(unlogged.kept)).drop_oldest()
            return ""
        return "send buffer"

    def settled(self, stream: int) -> int:
        """The oldest packet that no logger has."""
        return next(iter(self._streams[stream].kept), UNLIMITED) if stream in self._streams else UNLIMITED

    def buffered(self) -> int:
        """Packets that no logger has acknowledged."""
        return sum([len(unlogged.kept) for unlogged in self._streams.values()])

    def unlogged(self, stream: int) -> int:
        """The last packet that was let go, or published while no logger was known."""
        return self._streams[stream].let_go if stream in self._streams else -1

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Keep it until a logger has it, if there is one, or was, or should be."""
        sender = run[0].sender
        if sender not in self._streams:
            self._streams[sender] = Unlogged(self.ladder.settings.log_copies)
        if self._expects_logger or self.ladder.roster.loggers:
            self._expects_logger = True
            self._streams[sender].keep(run)
            if run[0].seqno == self.ladder.first_number > 0:
                self._unexplained[sender] = self.ladder.first_number
                self._explains_at = now + _PEERS_ROUNDS * self.ladder.settings.gossip_period
            self._timer.arm(now + self.ladder.settings.retry_period)
        else:
            self._streams[sender].let_go = run[-1].seqno

    def unexplained(self) -> bool:
        """Whether no logger knows that there is nothing to come of an earlier life of ours."""
        return bool(self._unexplained)

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Our own packets that are not logged."""
        return among(self._streams[sender].kept, numbers) if sender in self._streams else _NOTHING

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is ours and not logged."""
        return self._streams[sender].kept.get(seqno) if sender in self._streams else None

    def lost_of(self, sender: int, numbers: RangeSet, asked_by: int) -> RangeSet:
        """What a logger asks for that was sent and is not kept: another logger has it, or there was none then."""
        if sender not in self.ladder.own or asked_by not in self.ladder.roster.loggers:
            return _NOTHING
        return RangeSet(numbers.within(self.ladder.first_number, self.ladder.own[sender].next - 1))

    def never_sent_of(self, sender: int, numbers: RangeSet, asked_by: int) -> RangeSet:
        """Numbers of an earlier life that a logger lacks: unused, or lost with our memory (000 §6.1 allows that).

        It is told of all of them at once, and knows itself which of them it has.
        """
        if owner_of(sender) != self.ladder.me or asked_by not in self.ladder.roster.loggers:
            return _NOTHING
        asked = numbers.within(0, self.ladder.first_number - 1)
        return RangeSet.span(0, self.ladder.first_number - 1) if asked else _NOTHING

    def _is_full(self) -> bool:
        settings = self.ladder.settings
        if self.buffered() >= settings.send_buffer:
            return True
        return 0 < settings.send_buffer_bytes <= sum([u.size_bytes for u in self._streams.values()])

    # Acknowledgements.

    def _acknowledged(self, now: float, source: int, ack: Ack, out: Effects) -> None:
        if source in self.ladder.roster.loggers:
            for sender in [sender for sender in ack.have if sender in self._streams]:
                for first, last in ack.have[sender].ranges():
                    self._has(source, sender, first, last)
            self._go_on(now, out)

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if (gossip.logged >= 0 or gossip.logged_in) and source in self.ladder.roster.loggers:
            logged = {0: gossip.logged} | gossip.logged_in if gossip.logged >= 0 else gossip.logged_in
            for channel, last in logged.items():
                self._has(source, stream_of(self.ladder.me, channel), 0, last)
            self._go_on(now, out)

    def _was_told(self, now: float, source: int, message: NeverSent, out: Effects) -> None:
        """A logger knows what became of these. That is no acknowledgement: anybody may have told it."""
        for sender in [sender for sender in message.numbers if sender in self._unexplained]:
            earlier = RangeSet.span(0, self._unexplained[sender] - 1)
            if source in self.ladder.roster.loggers and not earlier.difference(message.numbers[sender]):
                del self._unexplained[sender]

    def _has(self, logger: int, sender: int, first: int, last: int) -> None:
        self._answered = True
        if first < self._unexplained.get(sender, -1) <= last + 1:
            del self._unexplained[sender]
        if sender in self._streams and sender in self.ladder.own:  # an ack beyond its last is broken or hostile
            unlogged = self._streams[sender]
            before = unlogged.on_their_way
            unlogged.has(logger, first, min(last, self.ladder.own[sender].next - 1))
            self._acknowledgements += before - unlogged.on_their_way

    # Repetitions.

    def _tick(self, now: float, out: Effects) -> None:
        """What was repeated before and is still here was lost again: begin with the oldest."""
        self._judge()
        for unlogged in self._streams.values():
            unlogged.tick(careful=self.ladder.settings.request_packets > 0)
        if self.ladder.roster.loggers:
            if self._repeat(now, 0 if self._answered else 1, out):
                self._answered = False
            for sender, stream in self.ladder.own.items():
                if sender in self._streams:
                    self._streams[sender].age(stream.next)
            if now >= self._explains_at:
                self._explain(out)
        if self.buffered() or self._unexplained:
            self._timer.set(now + self.ladder.settings.retry_period)

    def _judge(self) -> None:
        """Less while most of it is of no use, more when it is. (A disk may be slow: one tick says little.)"""
        self._ticks += 1
        if self._window and self._repeated and self._ticks % _JUDGED_TICKS == 0:
            of_use = self._acknowledgements >= self._repeated / 2
            limit = self.ladder.settings.request_packets
            self._window = min(limit, 2 * self._window) if of_use else max(1, self._window // 2)
            self._repeated = self._acknowledgements = 0

    def _on_their_way(self) -> int:
        return sum([unlogged.on_their_way for unlogged in self._streams.values()])

    def _explain(self, out: Effects) -> None:
        past = {sender: RangeSet.span(0, first - 1) for sender, first in self._unexplained.items()}
        if past:
            out.extend(Unicast(logger, NeverSent(past)) for logger in self._whom())

    def _go_on(self, now: float, out: Effects) -> None:
        """Half of what was repeated has come: repeat more."""
        repeats = any(unlogged.repeated_below for unlogged in self._streams.values())
        if repeats and self._on_their_way() <= self._window // 2:
            self._repeat(now, 0, out)

    def _repeat(self, now: float, most: int, out: Effects) -> bool:
        """Repeat the oldest packets that were not, at most `most` or, for 0, what may be on its way; False if none."""
        room = most or (self._window - self._on_their_way() if self._window else UNLIMITED)
        loggers = self._whom()
        repeated = False
        for sender, unlogged in self._streams.items():
            overdue = unlogged.overdue(loggers, room)
            if overdue:
                repeated = True
                room -= len(overdue)
                self._repeated += 0 if most else len(overdue)  # a probe says nothing of the path
                unlogged.repeat(overdue)
                for logger in loggers:
                    lacking = unlogged.lacking(logger, overdue)
                    if lacking:
                        self.ladder.repair_queue.enqueue(now, logger, {sender: lacking}, self._send, out)
        return repeated

    def _whom(self) -> list[int]:
        """One logger, or as many as there should be copies."""
        loggers = self.ladder.roster.loggers_to_ask()
        return self.ladder.rng.sample(loggers, min(len(loggers), self.ladder.settings.log_copies))

    def _send(self, to: int, sender: int, first: int, last: int, out: Effects) -> None:
        kept = self._streams[sender].kept
        out.extend(Unicast(to, Repair(kept[seqno], PEER)) for seqno in range(first, last + 1) if seqno in kept)
