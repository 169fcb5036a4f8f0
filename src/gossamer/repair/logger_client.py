"""Repair by a logger (000 §3.3, §4.3): what peers cannot repair is asked of a logger until it comes.

The first request goes at once, the next each retry period for all that is still missing. A logger that misses
something itself asks the other loggers in turn with the sender, who keeps it until it is logged.
"""

from collections.abc import Mapping
from math import inf

from gossamer.core.effects import Unicast
from gossamer.core.ladder import UNLIMITED, Effects, Ladder, MessageHandler, Rung, TimerHandler
from gossamer.core.messages import Gossip, Never, PerSender, Request, count, remove, take
from gossamer.core.ranges import RangeSet

_RETRY = "logger_client.retry"
_CONGESTED_UNANSWERED = 0.5
_CONGESTED_S = 2.0
"""A logger that answers less than half of what it is asked in a retry period counts as congested for a while."""


class LoggerClient(Rung):
    """The second missing set: what is asked of loggers."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._asking: PerSender = {}
        self._pending: PerSender = {}  # of these, what a logger was asked for and has not answered
        self._pending_count = 0
        self._overdue: PerSender = {}  # what was pending at the last tick already
        self._limit = ladder.settings.request_packets or UNLIMITED
        self._asked = 0  # packets asked for at the last tick
        self._tries = 0
        self._congested_until = 0.0

    def messages(self) -> Mapping[type, MessageHandler]:
        """A logger's word that something will not come."""
        return {Never: self._told_never}

    def alarms(self) -> Mapping[str, TimerHandler]:
        """The next request."""
        return {_RETRY: self._ask_again}

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """A logger is told everything that is seen and missing: the derived acknowledgement (000 §5.2)."""
        if to in self.ladder.peers.loggers:
            for sender, stream in self.ladder.streams.items():
                gossip.seen[sender] = stream.next - 1
                if stream.missing:
                    gossip.missing[sender] = stream.missing.copy()
            if self._limit < UNLIMITED:  # it also serves what is missing: but not more than we can take
                gossip.missing = take(gossip.missing, self._limit)
                gossip.seen = {s: n for s, n in gossip.seen.items() if s in gossip.missing or not self._misses(s)}

    def reconnected(self, now: float, out: Effects) -> None:
        """Ask without waiting for the next tick."""
        self._ask_again(now, out)

    def gap_escalated(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """Ask a logger at once, and again until it comes."""
        self._asking.setdefault(sender, RangeSet()).add(first, last)
        self._ask_for({sender: RangeSet([(first, last)])}, out)
        if self.ladder.timers.get(_RETRY) == inf:
            self.ladder.timers.set(_RETRY, now + self.ladder.settings.retry_period)

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """It came, or nobody waits for it any more: if most of what was asked for has come, ask for more."""
        if sender not in self._asking:
            return
        remove(self._asking, sender, first, last)
        self._pending_count -= remove(self._pending, sender, first, last)
        if self._asking and self._pending_count <= self._limit // 2 < UNLIMITED // 2:
            self._ask_for({s: n.difference(self._pending.get(s, RangeSet())) for s, n in self._asking.items()}, out)

    def _ask_for(self, wanted: PerSender, out: Effects) -> None:
        """As much of it as may be outstanding at a time."""
        if self._pending_count >= self._limit:
            return
        some = take(wanted, self._limit - self._pending_count)
        for sender, numbers in some.items():
            self._pending.setdefault(sender, RangeSet()).update(numbers)
        self._pending_count = count(self._pending)
        self._asked += count(some)
        if some:
            self._send(some, out)

    def _ask_again(self, now: float, out: Effects) -> None:
        if not self.ladder.peers.loggers:
            return self._nobody_left(now, out)
        waiting = count(self._pending)
        self._judge(now, waiting)
        self._asked = 0
        if self._asking:
            self._tries += 1
            self._forget_overdue()
            self._ask_for({s: n.difference(self._pending.get(s, RangeSet())) for s, n in self._asking.items()}, out)
            self._overdue = {sender: numbers.copy() for sender, numbers in self._pending.items()}
            self.ladder.timers.set(_RETRY, now + self.ladder.settings.retry_period)
        return None

    def _forget_overdue(self) -> None:
        """What was not answered is asked for again; where requests are limited, not what was asked for a moment ago."""
        if self._limit == UNLIMITED:
            self._pending = {}
        for sender, numbers in self._overdue.items():
            for first, last in numbers.ranges():
                remove(self._pending, sender, first, last)
        self._pending_count = count(self._pending)

    def _nobody_left(self, now: float, out: Effects) -> None:
        """The last logger has left: what only it could repair is lost."""
        for sender, numbers in list(self._asking.items()):
            for first, last in numbers.ranges():
                self.ladder.give_up(now, sender, first, last, "no logger", out)

    def _misses(self, sender: int) -> bool:
        return bool(self.ladder.streams[sender].missing)

    def _judge(self, now: float, waiting: int) -> None:
        """000 §8: notice a congested logger by what it leaves unanswered."""
        if self._asked and waiting > _CONGESTED_UNANSWERED * self._asked:
            self._congested_until = now + _CONGESTED_S
        self.ladder.logger_congested = now < self._congested_until

    def _send(self, wanted: PerSender, out: Effects) -> None:
        others = self.ladder.peers.other_loggers()
        if not self.ladder.is_logger or (others and self._tries % 2):
            out.append(Unicast(self.ladder.rng.choice(others), Request(wanted)))
        else:
            out.extend(Unicast(sender, Request({sender: numbers})) for sender, numbers in wanted.items())

    def _told_never(self, now: float, source: int, message: Never, out: Effects) -> None:
        if self.ladder.is_logger or source not in self.ladder.peers.loggers:
            return
        for sender, numbers in message.numbers.items():
            for first, last in numbers.ranges():
                if message.lost:
                    self.ladder.give_up(now, sender, first, last, "collected", out)
                else:
                    self.ladder.skip(now, sender, first, last, out)
