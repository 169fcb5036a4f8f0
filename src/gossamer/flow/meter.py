"""What the reports of one receiver say about the path to it: delay, delivered rate, loss.

From two reports follows the rate at which the path delivers, from one the delay of the newest packet. The least delay
of the last seconds is the path's own, what is above that is time in a queue. Clocks need not agree, because only
differences count.
"""

from collections import deque
from math import inf, sqrt
from typing import NamedTuple

_SPAN_S = 0.03
"""Rates are measured over about this time, as bursts and reports are milliseconds apart."""
_BASE_S = 5.0
"""The least delay is that of the last one or two times this."""
_DELAYS = 3
"""A queue is as long as the shortest of the last few reports says: hosts and reports are late at times."""
_BACKGROUND = 0.02
"""The share of the latest report in what is known of losses that no queue explains."""
_EMPTY_S = 0.005
FEEDBACK_S = 0.03
"""What a report says is about this old, besides the round trip: half a span, and the time between reports."""


class Report(NamedTuple):
    """What a receiver said, joined with what the sender remembers of the newest packet."""

    at: float
    """When the newest packet came to the receiver, by its clock."""
    newest: int
    received: int
    """Packets of the first pass that it got in all."""
    sent_at: float
    sent_bytes: float
    """What had been sent up to the newest packet."""


class Meter:
    """One path, as reports show it. Rates are in bytes per second."""

    __slots__ = (
        "_base",
        "_base_next",
        "_delays",
        "_packets",
        "_reports",
        "_round_trip_next",
        "_since",
        "background",
        "came",
        "high",
        "latest_loss",
        "loss",
        "queueing",
        "round_trip",
        "sent",
    )

    def __init__(self, now: float) -> None:
        self.queueing = 0.0
        """Seconds that packets spend in queues."""
        self.high = 0.0
        """The longest time in queues in the last seconds."""
        self.came = 0.0
        """How fast packets came, and how fast the same packets had been `sent`."""
        self.sent = 0.0
        self.loss = self.latest_loss = 0.0
        """The share of packets that did not come: over the last span, and since the last report."""
        self._packets = 0
        self.background = 0.0
        """The share of packets that are lost while there is no queue that could overflow."""
        self.round_trip = 0.0
        self._round_trip_next = inf
        self._reports: deque[Report] = deque()
        self._delays: deque[float] = deque(maxlen=_DELAYS)
        self._base = self._base_next = inf
        self._since = now

    @property
    def feedback(self) -> float:
        """After this time we hear of what we do now."""
        return self.round_trip + FEEDBACK_S

    @property
    def oldest_sent_at(self) -> float:
        """When the first of the packets was sent from which rates are known."""
        return self._reports[0].sent_at

    def loses_more_than(self, share: float) -> bool:
        """Whether more is lost than this share, and not by chance (three standard deviations)."""
        return self.loss > share + 3 * sqrt(share * (1 - share) / max(1, self._packets))

    def reported(self, now: float, report: Report) -> bool:
        """Take in a report; returns whether there is anything new to know."""
        reports = self._reports
        if reports and (report.newest <= reports[-1].newest or report.at <= reports[-1].at):
            return False  # nothing new, or a clock that jumped
        self._measure_delay(now, report)
        reports.append(report)
        while len(reports) > 2 and reports[1].at <= report.at - _SPAN_S:
            reports.popleft()
        if len(reports) < 2:
            return False
        self._measure_rates()
        return True

    def _measure_delay(self, now: float, report: Report) -> None:
        delay, round_trip = report.at - report.sent_at, now - report.sent_at
        if now - self._since > _BASE_S:
            self._base, self._base_next, self._since = self._base_next, inf, now
            self.round_trip, self._round_trip_next = self._round_trip_next, inf
            self.high /= 2
        self._base_next = min(self._base_next, delay)
        self._base = min(self._base, delay)
        self._round_trip_next = min(self._round_trip_next, round_trip)
        self.round_trip = min(self.round_trip or round_trip, round_trip)
        self._delays.append(delay)
        self.queueing = min(self._delays) - self._base
        self.high = max(self.high, self.queueing)

    def _measure_rates(self) -> None:
        first, before, last = self._reports[0], self._reports[-2], self._reports[-1]
        size = last.sent_bytes - first.sent_bytes
        self._packets = last.newest - first.newest
        got = min(1.0, max(0.0, (last.received - first.received) / self._packets))
        self.loss = 1.0 - got
        self.latest_loss = min(1.0, max(0.0, 1.0 - (last.received - before.received) / (last.newest - before.newest)))
        self.came = got * size / (last.at - first.at)
        self.sent = size / max(1e-6, last.sent_at - first.sent_at)
        if self.queueing < max(_EMPTY_S, self.high / 2):
            self.background += _BACKGROUND * (self.latest_loss - self.background)
