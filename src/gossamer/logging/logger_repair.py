"""Repair by a logger (000 §3.3, §4.3): what peers cannot repair is asked of a logger until it comes.

The first request goes at once, the next each retry period for all that is still missing. A logger that misses
something itself asks another logger or the sender, which keeps it until it is logged. Which of them is drawn: by turns,
a packet may always be asked for when it is the other loggers' turn, which may lack it, too, and never of its sender.

A logger may be away for a while: nothing is given up for that. But if none has sent anything for `loss_patience`, what
is asked of them is lost, and so is at once what is asked for after that, until one answers again. Meanwhile a peer may
have it: where it is known who lives, what is asked of loggers that are silent goes back to the repair before this one.
"""

from collections.abc import Mapping
from itertools import islice

from gossamer.core.asking import Asking
from gossamer.core.declares import LAST_PACKETS, LOG_REPAIR, LOGGERS, Declares
from gossamer.core.effects import Unicast
from gossamer.core.ids import owner_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.messages import Gossip, NeverSent, Request
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.packets import Run
from gossamer.core.parts import Repair
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings

_CONGESTED_UNANSWERED = 0.5
_CONGESTED_S = 2.0
"""A logger that answers less than half of what it is asked in a retry period counts as congested for a while."""

_SILENT_TICKS = 2
"""A logger that was not heard at all for so many retry periods is silent."""

_LOGGERS_SHARE = 0.5
"""So often a logger asks another one, and not the sender."""

_SEEN_MAX = 500
"""Senders that one gossip acknowledges; if there are more, they take turns."""


class LoggerRepair(Repair):
    """The second missing set of 000 §4.3: what is asked of loggers."""

    place = "last"
    from_log = True

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._asking = Asking(
            ladder.settings.request_packets,
            counted=ladder.settings.adaptive,
            window=ladder.request_window,
        )
        self._next_seen = 0
        self._vain_ticks = 0  # since a logger has sent anything that was asked for
        self._connected = True
        self._silent = False  # whether no logger in reach was heard of late
        self._alive = ladder.signs_of_life() if ladder.settings.suspect_after else None
        self._congested_until = 0.0
        self._timer = ladder.timer(self._tick)
        self._soon = ladder.timer(self._ask_again)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Everything comes in the end, if there always is a logger: it keeps it until everybody has it.

        What is said to be durable is in its log.
        """
        promise = "eventual" if settings.loggers and not settings.loss_patience else "eventual-or-lost"
        return Declares(promises=(promise, "durable"), needs=(LOGGERS, LAST_PACKETS), provides=(LOG_REPAIR,))

    def messages(self) -> Mapping[type, MessageHandler]:
        """That a packet cannot be sent is an answer, too."""
        return {NeverSent: self._declined}

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """A logger is told how far we have everything, and had its turn: the derived acknowledgement (000 §5.2)."""
        if to in self.ladder.roster.loggers:
            gossip.seen = self._seen()

    def _seen(self) -> Horizon:
        streams = self.ladder.streams
        first = self._next_seen if self._next_seen < len(streams) else 0
        self._next_seen = first + _SEEN_MAX
        return {stream: self.ladder.order.done_with(stream) for stream in islice(streams, first, self._next_seen)}

    def disconnecting(self, now: float, out: Effects) -> None:
        """Nobody can answer now."""
        self._connected = False

    def reconnected(self, now: float, out: Effects) -> None:
        """Ask without waiting for the next tick."""
        self._connected = True
        self._tick(now, out)

    def eager(self, now: float) -> bool:
        """000 §8: with `adaptive`, the logger is asked first while there is one and it is not congested."""
        return self.ladder.settings.adaptive and bool(self.ladder.roster.loggers) and now >= self._congested_until

    def ready(self) -> bool:
        """Whether anybody in reach can be asked; a logger can turn to the senders themselves."""
        roster = self.ladder.roster
        in_reach = any(logger in roster.members for logger in roster.loggers)
        return self.ladder.is_logger or (in_reach and not self._silent)

    def _hopes(self) -> bool:
        """Whether there is anybody to wait for: a logger that is away will be back."""
        return self.ladder.is_logger or bool(self.ladder.roster.loggers)

    def repair(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """Ask a logger at once, and again until it comes."""
        if not self._hopes():
            self.ladder.gaps.escalate(now, self, sender, first, last, "no logger", out)
            return
        self._asking.add(sender, first, last)
        self._ask(now, {sender: RangeSet.span(first, last)}, out)
        self._timer.arm(now + self.ladder.settings.retry_period)

    def release(self, sender: int, first: int, last: int) -> None:
        """Another rung's turn."""
        self._asking.remove(sender, first, last)

    def repaired(self, now: float, source: int, run: Run) -> None:
        """How long that took says how much may be asked for at a time."""
        self._asking.came(now, source, run)

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """It came, or nobody waits for it any more: if most of what was asked for has come, ask for more."""
        if self._asking.remove(sender, first, last):
            self._vain_ticks = 0
            if self._asking.wants_more():
                self._ask(now, None, out)

    def _ask(self, now: float, among: PacketSets | None, out: Effects) -> None:
        some = self.ladder.gaps.worth_asking(now, self._asking.choose(among), out)
        if some:
            self._asking.asked(now, self._send(some, out), some)
            self._soon.arm(self._asking.overdue(now))

    def _declined(self, now: float, source: int, message: NeverSent, out: Effects) -> None:
        """Others may still send them (`absences`); but nobody waits for these answers, and there is room for more."""
        self._asking.declined(now, source, message.numbers)
        if self._asking.wants_new():
            self._ask(now, None, out)

    def _ask_again(self, now: float, out: Effects) -> None:
        """Some of it was lost on its way, or its answer was: that need not wait for the next tick."""
        self._soon.set(self._asking.overdue(now))
        if self._asking.wants_more():
            self._ask(now, None, out)

    def _tick(self, now: float, out: Effects) -> None:
        if not self._hopes():
            self._pass_on_everything(now, "no logger", out)
            return
        self._silent = self._are_silent(now)
        if self._is_out_of_patience():
            self._pass_on_everything(now, "no logger answered", out)
        elif self._silent:
            self._hand_back(now, out)
        self._judge(now)
        self._asking.tick(now)
        if self._asking.wanted:
            self._ask(now, None, out)
            self._asking.age()
        if self._asking.wanted or self._silent:
            self._vain_ticks += self._connected
            self._timer.set(now + self.ladder.settings.retry_period)

    def _are_silent(self, now: float) -> bool:
        """Whether a peer may do more than any logger: there is another repair, and no logger is heard."""
        if self._alive is None or self.ladder.is_logger or self.ladder.gaps.repairs[0] is self:
            return False
        before = now - _SILENT_TICKS * self.ladder.settings.retry_period
        return all(self._alive.get(logger, 0.0) < before for logger in self.ladder.roster.loggers)

    def _hand_back(self, now: float, out: Effects) -> None:
        """The first repair tries for as long as there is no logger, and then it is our turn again."""
        for sender, first, last in self._everything():
            self._asking.remove(sender, first, last)
            self.ladder.gaps.repairs[0].repair(now, sender, first, last, out)

    def _is_out_of_patience(self) -> bool:
        """Ticks are counted, not time: a member that stood still itself has not waited."""
        patience = self.ladder.settings.loss_patience
        return 0 < patience <= self._vain_ticks * self.ladder.settings.retry_period and not self.ladder.is_logger

    def _pass_on_everything(self, now: float, why: str, out: Effects) -> None:
        """What only a logger could repair is lost, unless another repair follows."""
        for sender, first, last in self._everything():
            self._asking.remove(sender, first, last)
            self.ladder.gaps.escalate(now, self, sender, first, last, why, out)

    def _everything(self) -> list[tuple[int, int, int]]:
        return [(s, *part) for s, numbers in self._asking.wanted.items() for part in numbers.ranges()]

    def _judge(self, now: float) -> None:
        """000 §8: notice a congested logger by what it leaves unanswered."""
        asked = self._asking.asked_since_tick
        if asked and self._asking.on_their_way > _CONGESTED_UNANSWERED * asked:
            self._congested_until = now + _CONGESTED_S

    def _send(self, wanted: PacketSets, out: Effects) -> int:
        """Request these; returns of whom, or -1 if of several."""
        others = self.ladder.roster.loggers_to_ask()
        if others and (not self.ladder.is_logger or self.ladder.rng.random() < _LOGGERS_SHARE):
            target = self.ladder.rng.choice(others)
            out.append(Unicast(target, Request(wanted)))
            return target
        if self.ladder.is_logger:
            out.extend(Unicast(owner_of(sender), Request({sender: numbers})) for sender, numbers in wanted.items())
        return -1
