"""What the reports of one receiver say about the path to it: delay, delivered rate, loss.

From two reports follows the rate at which the path delivers, from one the delay of the newest packet. The least delay
of the last seconds is the path's own, what is above that is time in a queue. Clocks need not agree, because only
differences count.
"""

from collections import deque
from itertools import islice
from math import inf, sqrt
from typing import NamedTuple

from gossamer.flow.overtaking import Overtaking

_SPAN_S = 0.03
"""Rates are measured over about this time, as bursts and reports are milliseconds apart."""
_BASE_S = 5.0
"""The least delay is that of the last one or two times this."""
_DELAYS, _DELAYS_MAX = 3, 40
"""A queue is as long as the shortest of the last few reports says: hosts and reports are late at times."""
_REPORTS_PER_SWING_S, _SPANS_PER_SWING = 5_000.0, 50.0
"""On a line whose delay varies from packet to packet it takes more reports to know how long the queue is, and a longer
span to know what was lost and not only overtaken. A queue grows or goes; jitter does both at once. With so many reports
for each second by which the delay swings, the shortest of them is a millisecond too long."""
_SMOOTHING = 1 / 16
_SWINGS_S = 0.001
_STEPS = 5
_OVERTAKEN = 0.1
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
        "_began",
        "_delays",
        "_latest_packets",
        "_overtaken",
        "_overtaking",
        "_packets",
        "_reports",
        "_round_trip_next",
        "_since",
        "_step",
        "_steps",
        "_swing",
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
        self._packets = self._latest_packets = 0
        self.background = 0.0
        """The share of packets that are lost while there is no queue that could overflow."""
        self.round_trip = 0.0
        self._round_trip_next = inf
        self._reports: deque[Report] = deque()
        self._delays: deque[float] = deque(maxlen=_DELAYS_MAX)
        self._swing = self._step = 0.0  # by how much the delay goes up and down again, and its last change
        self._overtaken = 0.0  # the share of reports that show that packets overtake each other
        self._overtaking = Overtaking(now)
        self._began = inf  # when the first packet came
        self._steps = 0
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
        """Whether more is lost than this share, and not by chance."""
        return self.loss > share + _by_chance(share, self._packets)

    def lost_more_just_now(self, share: float) -> bool:
        """Whether since the last report more was lost than is lost anyway, by this share, and not by chance."""
        return self.latest_loss > share + 2 * self.background + _by_chance(self.background, self._latest_packets)

    def has_missed_most(self, report: Report) -> bool:
        """Whether less than half of what was sent since the last report has come."""
        before = self._reports[-1] if self._reports else report
        return 2 * (report.received - before.received) < report.newest - before.newest

    def reported(self, now: float, report: Report) -> bool:
        """Take in a report; returns whether there is anything new to know."""
        reports = self._reports
        if reports and (report.newest <= reports[-1].newest or report.at <= reports[-1].at):
            return False  # nothing new, or a clock that jumped
        if reports:
            self._look_for_overtaking(reports[-1], report)
        self._overtaking.reported(now, report.newest + 1 - report.received)
        self._measure_delay(now, report)
        reports.append(report)
        self._began = min(self._began, report.at)
        span = _SPAN_S + _SPANS_PER_SWING * self._jitter
        while len(reports) > 2 and reports[1].at <= report.at - span:
            reports.popleft()
        if len(reports) < 2:
            return False
        self._measure_rates()
        return True

    @property
    def _jitter(self) -> float:
        """By how much delays swing if packets overtake each other; in a queue they do not, however it swings."""
        return self._swing if self._overtaken > _OVERTAKEN else 0.0

    def _look_for_overtaking(self, before: Report, report: Report) -> None:
        """More has come than could have if all that was sent before the last report's newest had come before it."""
        overtaken = report.received - before.received > report.newest - before.newest
        self._overtaken += max(_SMOOTHING, 1 / (self._steps + 1)) * (overtaken - self._overtaken)

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
        if self._delays:
            self._measure_swing(delay - self._delays[-1])
        self._delays.append(delay)
        self.queueing = max(0.0, self._shortest() - self._base - self._jitter)
        self.high = max(self.high, self.queueing)

    def _shortest(self) -> float:
        """The shortest delay of the last reports, of more where it swings; the least ever as long as these are few."""
        wanted = min(_DELAYS_MAX, max(_DELAYS, int(_REPORTS_PER_SWING_S * self._jitter)))
        if len(self._delays) < wanted > _DELAYS:
            return self._base
        return min(islice(reversed(self._delays), wanted))

    def _measure_swing(self, step: float) -> None:
        swung = min(abs(step), abs(self._step)) if step * self._step < 0 else 0.0
        self._steps += 1
        self._swing += max(_SMOOTHING, 1 / self._steps) * (swung - self._swing)
        self._step = step

    def _knows_loss(self) -> bool:
        """Not before it can be told from reordering: what was overtaken on a new path has yet to come."""
        first, last = self._reports[0].at, self._reports[-1].at
        known = first if self._overtaking.late else last
        is_new = self._steps < _STEPS or known - self._began < self.round_trip / 3
        return not is_new and last - first >= _SPANS_PER_SWING * self._jitter

    def _measure_rates(self) -> None:
        first, before, last = self._reports[0], self._reports[-2], self._reports[-1]
        size = last.sent_bytes - first.sent_bytes
        self._packets = last.newest - first.newest
        got = min(1.0, max(0.0, (last.received - first.received) / self._packets))
        late = self._overtaking.late / self._packets
        self.loss = max(0.0, 1.0 - got - late) if self._knows_loss() else 0.0
        self._latest_packets = last.newest - before.newest
        latest = 1.0 - (last.received - before.received) / self._latest_packets
        self.latest_loss = min(1.0, max(0.0, latest)) if self._jitter < _SWINGS_S else self.loss
        self.came = got * size / (last.at - first.at)
        self.sent = size / max(1e-6, last.sent_at - first.sent_at)
        if self.queueing < max(_EMPTY_S, self.high / 2):
            self.background += _BACKGROUND * (self.latest_loss - self.background)


def _by_chance(share: float, packets: int) -> float:
    """So much more than its usual share is seldom lost of so many packets: three standard deviations."""
    return 3 * sqrt(max(0.0, share * (1 - share)) / max(1, packets))
