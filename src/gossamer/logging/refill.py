"""Several loggers for one group: each fills what its log lacks from the others'.

A logger asks another for its holdings when it starts and from time to time, and requests what it lacks, a limited
number of packets at a time. So one that lost its disk, or was away, is as good as the others after a while.
"""

from collections.abc import Callable, Mapping

from gossamer.core.asking import Asking
from gossamer.core.effects import TellHoldings, Unicast
from gossamer.core.ids import Phase
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import Holdings, Recall, Request
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Run
from gossamer.core.ranges import RangeSet

_COMPARE_ROUNDS = 40
_AT_A_TIME = 256
"""Packets requested at a time, unless `request_packets` says otherwise."""


class Refill(Rung):
    """What this logger lacks (as `lacking` says of any packets) and another has.

    `never_sent` are the numbers that no packet has, as this logger knows; it learns of them from others, too.
    """

    def __init__(self, ladder: Ladder, lacking: Callable[[PacketSets], PacketSets], never_sent: PacketSets) -> None:
        super().__init__(ladder)
        self._lacking = lacking
        self._never_sent = never_sent
        self._asking = Asking(ladder.settings.request_packets or _AT_A_TIME, window=ladder.request_window)
        self._source = -1
        self._timer = ladder.timer(self._compare)
        self._soon = ladder.timer(self._ask_again)

    def messages(self) -> Mapping[type, MessageHandler]:
        """Questions for our holdings, and the answers to ours."""
        return {Recall: self._recalled, Holdings: self._told}

    def started(self, now: float, out: Effects) -> None:
        """Compare as soon as the others are known."""
        self._timer.set(now + self.ladder.settings.gossip_period)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """It may be what we lacked."""
        self._arrived(now, source, run, out)

    def repeated(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """What was sent before we came is logged, but not new to the stream."""
        self._arrived(now, source, run, out)

    def _compare(self, now: float, out: Effects) -> None:
        others = self.ladder.roster.other_loggers()
        if others and self.ladder.is_member:
            out.append(Unicast(self.ladder.rng.choice(others), Recall(0)))
        rounds = _COMPARE_ROUNDS if others else 1
        self._timer.set(now + rounds * self.ladder.settings.gossip_period)

    def _recalled(self, now: float, source: int, message: Recall, out: Effects) -> None:
        never_sent = {sender: numbers.copy() for sender, numbers in self._never_sent.items()}
        out.append(TellHoldings(source, message.since_ns, never_sent))

    def _told(self, now: float, source: int, message: Holdings, out: Effects) -> None:
        if source not in self.ladder.roster.loggers:
            return
        if not message.part:
            self._asking.clear()
        for sender, numbers in self._lacking(message.never_sent).items():
            self._never_sent.setdefault(sender, RangeSet()).update(numbers)
        for sender, numbers in self._lacking(message.numbers).items():
            for part in numbers.ranges():
                self._asking.add(sender, *part)
        self._source = source
        self._request(now, out)

    def _request(self, now: float, out: Effects) -> None:
        wanted = self._asking.choose()
        if wanted:
            self._asking.asked(now, self._source, wanted)
            out.append(Unicast(self._source, Request(wanted)))
            self._soon.arm(self._asking.overdue(now))

    def _arrived(self, now: float, source: int, run: Run, out: Effects) -> None:
        wanted = self._asking.wanted
        if wanted and run[0].sender in wanted:
            self._asking.came(now, source, run)
            self._asking.remove(run[0].sender, run[0].seqno, run[-1].seqno)
            if self._asking.wants_more():
                self._request(now, out)

    def _ask_again(self, now: float, out: Effects) -> None:
        """Some of it was lost on its way."""
        self._soon.set(self._asking.overdue(now))
        if self._asking.wants_more():
            self._request(now, out)
