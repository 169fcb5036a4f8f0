"""Several loggers for one group: each fills what its log lacks from the others'.

A logger asks another for its holdings when it starts and from time to time, and requests what it lacks, a limited
number of packets at a time. So one that lost its disk, or was away, is as good as the others after a while.
"""

from collections.abc import Mapping

from gossamer.core.effects import TellHoldings, Unicast
from gossamer.core.ids import Phase
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung, TimerHandler
from gossamer.core.messages import Holdings, PerSender, Recall, Request, count, take
from gossamer.core.packets import Run
from gossamer.core.ranges import RangeSet

_COMPARE = "refill.compare"
_COMPARE_ROUNDS = 40
_AT_A_TIME = 256
"""Packets requested at a time, unless `request_packets` says otherwise."""


class Refill(Rung):
    """What this logger lacks and another has."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._lacking: PerSender = {}
        self._source = -1
        self._outstanding = 0

    def messages(self) -> Mapping[type, MessageHandler]:
        """Questions for our holdings, and the answers to ours."""
        return {Recall: self._recalled, Holdings: self._told}

    def alarms(self) -> Mapping[str, TimerHandler]:
        """The next comparison."""
        return {_COMPARE: self._compare}

    def started(self, now: float, out: Effects) -> None:
        """Compare as soon as the others are known."""
        self.ladder.timers.set(_COMPARE, now + self.ladder.settings.gossip_period)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """It may be what we lacked."""
        self._arrived(run, out)

    def repeated(self, now: float, source: int, run: Run, out: Effects) -> None:
        """What was sent before we came is logged, but not new to the stream."""
        self._arrived(run, out)

    def _compare(self, now: float, out: Effects) -> None:
        others = self.ladder.peers.other_loggers()
        if others and self.ladder.is_member:
            out.append(Unicast(self.ladder.rng.choice(others), Recall(0)))
        rounds = _COMPARE_ROUNDS if others else 1
        self.ladder.timers.set(_COMPARE, now + rounds * self.ladder.settings.gossip_period)

    def _recalled(self, now: float, source: int, message: Recall, out: Effects) -> None:
        out.append(TellHoldings(source, message.since_ns))

    def _told(self, now: float, source: int, message: Holdings, out: Effects) -> None:
        if source not in self.ladder.peers.loggers:
            return
        if not message.part:
            self._lacking = {}
        for sender, numbers in self.ladder.lacking(message.numbers).items():
            self._lacking.setdefault(sender, RangeSet()).update(numbers)
        self._source = source
        self._request(out)

    def _request(self, out: Effects) -> None:
        wanted = take(self._lacking, self.ladder.settings.request_packets or _AT_A_TIME)
        self._outstanding = count(wanted)
        if wanted:
            out.append(Unicast(self._source, Request(wanted)))

    def _arrived(self, run: Run, out: Effects) -> None:
        lacking = self._lacking.get(run[0].sender)
        if lacking is None:
            return
        before = len(lacking)
        lacking.discard(run[0].seqno, run[-1].seqno)
        self._outstanding -= before - len(lacking)
        if not lacking:
            del self._lacking[run[0].sender]
        if self._outstanding <= 0 and self._lacking:
            self._request(out)
