"""The path to one receiver: how much it carries, and how fast the sender may be because of it.

A receiver reports how many packets of the first pass it got, and when the newest came. From two reports follows the
rate at which the path *delivers*; from one, the delay of the newest packet. The least delay of the last seconds is the
path's own, what is above that is time in a queue. Clocks need not agree, because only differences count.

While a queue stands, what the path delivers is what it carries for us, so the rate is steered around that:

    rate = delivered * (1 + (target - queueing) / tau)

which keeps a short queue (`target`), so the link is never idle and packets are never late. Without a queue the path may
carry more, and the rate grows. Random loss shortens `delivered` by the share that is lost, but as no queue comes with
it, the rate still grows (decision 008 has the reasons, and what else was considered).

Three things need more than this law.
- A queue so short that it overflows before it is seen shows as loss: the rate is cut, and if the loss does not get less
  for it, it is not ours, and is tolerated.
- A queue that stands although we send less is kept full by others, who would drive us out. So the rate does not fall
  below a third of what the path is known to carry, unless so much is lost that it cannot carry that any more.
- Our own queue hides the path's own delay, so it is drained every few seconds.
"""

from collections import deque
from math import inf
from typing import NamedTuple

INITIAL_BYTES_PER_S = 4e6
"""A first guess, doubled with every report while nothing speaks against it."""
RATE_MIN = 16e3
TARGET_S = 0.005
"""The queue that we keep, if the path's queue is at least twice as long."""
TARGET_MIN_S = 0.001
_SPAN_S = 0.03
"""The delivered rate is measured over about this time: bursts and reports are milliseconds apart."""
_FEEDBACK_S = 0.03
"""What a report says is about this old, besides the round trip."""
_CUT_MAX = 0.3
_GROWTH, _GROWTH_BEYOND = 0.5, 0.1
"""How much the rate grows while there is no queue, in the time after which we hear of one."""
_KNOWN = 0.9
_BASE_S = 5.0
"""The least delay is that of the last one or two times this."""
_DRAIN_S = 0.15
_DRAIN_SHARE = 0.75
_LOSS_SUSPECT = 0.08
"""A larger share of losses than this is a reason to try a lower rate."""
_LOSS_CUT = 0.8
_LOSS_FULL = 0.02
_AHEAD = 4.0
"""The rate may be this many times what was delivered: a sender on a busy host gets less than it may."""
_MEMORY_S = 0.2
_AS_INTENDED = 0.85
_INSIST = 1 / 3
"""The share of what the path carries that we do not leave to others."""
_ALONE = 0.6
"""Less than this share of what the path carries, and still a queue: there are others."""
_CAPACITY_S = 15.0
_PROBE_EVERY_S = 2.0
_PROBE_EVERY_MAX_S = 32.0
_PROBE = 2.5
_SURPRISE = 0.3
_GUESS_MAX = 4.0
_LOSS_OVERLOAD = 0.1
_OVERLOAD_S = 0.5
_ERODE = 0.03
"""With more losses than that for so long, the path carries less than we thought: by this share at each report."""


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


class Path:
    """One receiver, as its sender sees it. `rate` is in bytes per second."""

    __slots__ = (
        "_adapted_at",
        "_base",
        "_base_next",
        "_base_since",
        "_before_probe",
        "_best",
        "_capacity",
        "_capacity_next",
        "_capacity_since",
        "_cut_at",
        "_delays",
        "_drain_until",
        "_drained_at",
        "_full",
        "_high",
        "_last_rate_before_cut",
        "_loss_before_cut",
        "_overload_since",
        "_peak",
        "_probe_every",
        "_probe_until",
        "_probed_at",
        "_reports",
        "_round_trip_next",
        "_starting",
        "_tolerated",
        "delivered",
        "heard_at",
        "is_competing",
        "loss",
        "queueing",
        "rate",
        "round_trip",
    )

    def __init__(self, now: float, rate: float) -> None:
        self.rate = rate
        self.delivered = 0.0
        self.queueing = 0.0
        """Seconds that packets spend in queues, as the last reports agree."""
        self.loss = 0.0
        """The share of packets that did not come, over the last span."""
        self.round_trip = 0.0
        self._round_trip_next = inf
        self.heard_at = now
        self._reports: deque[Report] = deque()
        self._delays: deque[float] = deque(maxlen=3)
        self._base = self._base_next = inf
        self._base_since = now
        self._high = 0.0  # the longest queue of late
        self._full = inf  # the longest queue at which there were losses: there may not be room for more
        self._best: deque[tuple[float, float]] = deque()  # when, and the delivered rates that were the best since
        self._peak = 0.0  # the highest delivered rate of late
        self._starting = True
        self._adapted_at = now
        self._drain_until = self._drained_at = now
        self._capacity = self._capacity_next = 0.0  # the most that was delivered, in the last while
        self._capacity_since = self._overload_since = now
        self.is_competing = False
        """Whether others keep the queue full, so that we only get what we insist on."""
        self._cut_at = -inf
        self._probed_at = self._probe_until = now
        self._before_probe = 0.0
        self._probe_every = _PROBE_EVERY_S
        self._loss_before_cut = 0.0
        self._last_rate_before_cut = 0.0
        self._tolerated = _LOSS_SUSPECT

    @property
    def is_congested(self) -> bool:
        """Whether this path carries no more."""
        return self.queueing > self.target / 2 or self.is_competing or self._loss_before_cut > 0

    @property
    def target(self) -> float:
        """The queue to keep: short, and at most half of what there is room for."""
        return max(TARGET_MIN_S, min(TARGET_S, self._full / 2))

    def reported(self, now: float, report: Report, *, limited_at: float) -> None:
        """Take in a report; `limited_at` is when the sender last had to wait because of its rate."""
        reports = self._reports
        if reports and (report.newest <= reports[-1].newest or report.at <= reports[-1].at):
            return  # nothing new, or a clock that jumped
        self.heard_at = now
        self._measure_delay(now, report)
        reports.append(report)
        while len(reports) > 2 and reports[1].at <= report.at - (_SPAN_S / 3 if self._starting else _SPAN_S):
            reports.popleft()
        if len(reports) > 1:
            self._measure_rate(now)
            self._adapt(now, limited=limited_at >= reports[0].sent_at)

    def _measure_delay(self, now: float, report: Report) -> None:
        delay = report.at - report.sent_at
        if now - self._base_since > _BASE_S:
            self._base, self._base_next, self._base_since = self._base_next, inf, now
            self.round_trip, self._round_trip_next = self._round_trip_next, inf
            self._high /= 2
            self._full *= 2
            self._peak /= 2
        self._base_next = min(self._base_next, delay)
        self._base = min(self._base, delay)
        self._delays.append(delay)
        self.queueing = min(self._delays) - self._base
        self._high = max(self._high, delay - self._base)
        round_trip = now - report.sent_at
        self._round_trip_next = min(self._round_trip_next, round_trip)
        self.round_trip = min(self.round_trip or round_trip, round_trip)

    def _measure_rate(self, now: float) -> None:
        """The delivered rate, and the loss."""
        first, before, last = self._reports[0], self._reports[-2], self._reports[-1]
        share = min(1.0, (last.received - first.received) / (last.newest - first.newest))
        came, sent = share * (last.sent_bytes - first.sent_bytes) / (last.at - first.at), self._sent()
        self._learn_capacity(now, min(came, sent))
        self.delivered = min(came, max(sent, self._capacity))  # what was held up somewhere comes all at once
        self._peak = max(self._peak, self.delivered)
        self._remember(now)
        self.loss = 1.0 - share
        latest = 1.0 - (last.received - before.received) / (last.newest - before.newest)
        if latest > _LOSS_FULL and not self._starting:
            self._full = min(self._full, self._high)

    def _remember(self, now: float) -> None:
        best = self._best
        while best and best[-1][1] <= self.delivered:
            best.pop()
        best.append((now, self.delivered))
        while best[0][0] < now - _MEMORY_S - self.round_trip:
            best.popleft()

    def _learn_capacity(self, now: float, rate: float) -> None:
        self._capacity = max(self._capacity, rate)
        self._capacity_next = max(self._capacity_next, rate)
        if now - self._capacity_since > _CAPACITY_S:
            self._capacity, self._capacity_next, self._capacity_since = self._capacity_next, 0.0, now

    def _adapt(self, now: float, *, limited: bool) -> None:
        if self._starting:
            self._start(now, limited)
        elif not self._suspect_loss(now, limited):
            self._steer(now, limited)
        self._adapted_at = now
        self.rate = max(RATE_MIN, self.rate)

    def _start(self, now: float, limited: bool) -> None:
        """Double until a queue builds up or much is lost."""
        if self.queueing > self.target or self.loss > self._tolerated:
            self._starting = False
            self._guess_capacity()
            self.rate = self._insist(now, self._carried() * (1 - _CUT_MAX))
        elif limited:
            self._grow(now, 2 * self.delivered)

    def _guess_capacity(self) -> None:
        """How much the path carries if others had filled it before we came.

        A queue serves everybody in proportion to what they send. If we have b of a full link of capacity C, and then
        send s, it delivers d = s * C / (C - b + s) to us, so C = d * (s - b) / (s - d). At the start b is 0. (If we are
        alone, d is C, and this is too much.)
        """
        self._capacity = max(self._capacity, self._guess(0.0))

    def _guess(self, before: float) -> float:
        """What a full path carries: from the share that we get of it now, and that we had when we sent `before`."""
        sent, delivered = self._sent(), self.delivered
        more = max(0.0, sent - before)
        return delivered * min(_GUESS_MAX, more / (sent - delivered) if sent > delivered else _GUESS_MAX)

    def _steer(self, now: float, limited: bool) -> None:
        """The law of this module."""
        queueing, target = self.queueing, self.target
        if self._probing(now):
            return
        if self._drains(now):
            self.rate = _DRAIN_SHARE * self._carried()
            return
        tau = 2 * (self.round_trip + _FEEDBACK_S)
        change = max(-_CUT_MAX, (target - queueing) / tau)
        if queueing > target / 2:
            self.rate = self._insist(now, self._carried() * (1 + change))
            return
        self.is_competing = False
        if limited:
            self._grow(now, self.delivered)

    def _grow(self, now: float, least: float) -> None:
        """More, but not so much that a queue fills before we hear of it; quickly only up to what is known to work."""
        share = min(1.0, (now - self._adapted_at) / (self.round_trip + _FEEDBACK_S))
        growth = _GROWTH if self.rate < _KNOWN * self._capacity or self._starting else _GROWTH_BEYOND
        most = _AHEAD * max(self._peak, self.delivered)
        self.rate = max(least, min(self.rate * (1 + growth * share), max(most, self.rate)))

    def _carried(self) -> float:
        """What the path carries for us: what it delivers, if we sent as much as we might.

        Else (our host stood still for a moment) it is the most that was delivered in the last moments.
        """
        return self.delivered if self._sent() > _AS_INTENDED * self.rate else self._best[0][1]

    def _sent(self) -> float:
        """The rate at which the packets were sent whose delivery was measured last."""
        first, last = self._reports[0], self._reports[-1]
        return (last.sent_bytes - first.sent_bytes) / max(1e-6, last.sent_at - first.sent_at)

    def _insist(self, now: float, rate: float) -> float:
        """At least our share of what the path carries, unless it overflows with that."""
        least = _INSIST * self._capacity
        self.is_competing = rate < _ALONE * self._capacity
        if self.is_competing:  # what we get now is not what the path carries
            self._capacity_next, self._capacity_since = self._capacity, now
        if self.loss < _LOSS_OVERLOAD:
            self._overload_since = now
        elif self.is_competing and now - self._overload_since > _OVERLOAD_S:
            self._capacity *= 1 - _ERODE
        return max(rate, least)

    def _probing(self, now: float) -> bool:
        """Whether we send more for a moment, to see what share of the path we get for it: only among others."""
        if now < self._probe_until:
            return True
        if self._probe_until > self._probed_at:  # it is over
            self._probed_at = now
            wrong = self._guess(self._before_probe) - self._capacity
            self._capacity += wrong / 2
            surprised = abs(wrong) > _SURPRISE * self._capacity
            self._probe_every = _PROBE_EVERY_S if surprised else min(2 * self._probe_every, _PROBE_EVERY_MAX_S)
            self.rate = self._before_probe
        elif self.is_competing and now - self._probed_at > self._probe_every:
            self._before_probe = self.rate
            self._probe_until = now + self.round_trip + 2 * _SPAN_S
            self.rate *= _PROBE
            return True
        return False

    def _drains(self, now: float) -> bool:
        """Whether to empty the queue for a moment, because its length has not been known for sure for long."""
        if self.queueing <= self.target / 4:
            self._drained_at = now
            self._drain_until = now
        elif now - self._drained_at > _BASE_S:
            self._drained_at = now
            self._drain_until = now + _DRAIN_S + self.round_trip
        return now < self._drain_until

    def _suspect_loss(self, now: float, limited: bool) -> bool:
        """Whether a loss without a queue is dealt with: by a cut, and by a look at what the cut has changed."""
        if self._loss_before_cut:
            if now - self._cut_at < 2 * (self.round_trip + _FEEDBACK_S):
                return True
            if self.loss > self._loss_before_cut / 2:  # it does not depend on our rate
                self._tolerated = min(0.9, 1.5 * self.loss)
                self.rate = max(self.rate, self._last_rate_before_cut)
            self._loss_before_cut = 0.0
        elif limited and self.loss > self._tolerated:
            self._loss_before_cut, self._last_rate_before_cut, self._cut_at = self.loss, self.rate, now
            self.rate = self._insist(now, min(self.rate, self.delivered) * _LOSS_CUT)
            return True
        return False
