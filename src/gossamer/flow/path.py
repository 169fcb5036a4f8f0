"""The path to one receiver: how fast the sender may be because of it.

While a queue stands, what the path delivers is what it carries for us, so the rate is steered around that:

    rate = carried * (1 + (target - queueing) / tau)

which keeps a short queue (`target`), so the link is never idle and packets are never late. Without a queue the path may
carry more, and the rate grows. Random loss shortens what is delivered; as it comes without a queue, too, it is known as
such, and what it takes is added again (decision 008 has the reasons, and what else was considered).

Four things need more than this law.
- What was delivered while the application had no more to send is what was published, and says nothing about the path
  (BBR marks such samples). A queue counts then only if it is long and what was sent does not come through.
- A queue so short that it overflows before it is seen shows as loss: the rate is cut, and if the loss does not get less
  for it, it is not ours, and is tolerated.
- A queue that stands although we send less is kept full by others (`share`).
- Our own queue hides the path's own delay, so it is drained every few seconds.
"""

from collections import deque
from math import inf

from gossamer.flow.meter import Meter, Report
from gossamer.flow.share import Share

INITIAL_BYTES_PER_S = 4e6
"""A first guess, doubled with every report while nothing speaks against it."""
RATE_MIN = 16e3
TARGET_S = 0.005
"""The queue that we keep, if the path's queue is at least twice as long."""
_TARGET_MIN_S = 0.001
_CUT_MAX = 0.5
_START_CUT = 0.7
_GROWTH, _GROWTH_BEYOND = 0.5, 0.1
"""How much the rate grows while there is no queue, in the time after which we hear of one."""
_KNOWN = 0.9
"""Up to this share of what the path has delivered lately, growth is quick."""
_AHEAD = 4.0
"""The rate may be this many times what was delivered: a sender on a busy host gets less than it may."""
_AS_INTENDED = 0.85
_MEMORY_S = 0.2
_DRAIN_EVERY_S = 5.0
_DRAIN_S = 0.15
_DRAIN_SHARE = 0.75
_LOSS_SUSPECT = 0.08
"""A larger share of losses than this is a reason to try a lower rate."""
_LOSS_CUT = 0.8
_LOSS_FULL = 0.02
_COMES_THROUGH, _LONG = 0.98, 2.0
"""A path is overloaded if less than this share of what was sent comes through, and its queue is so many times as long
as we want it."""
TRICKLE, _TRICKLE_QUEUE = 0.35, 4.0
_TRICKLES = 4
"""A path trickles if in so many reports on end less than this share of what was sent comes through, at its own pace,
and a queue that is so many times as long as we want it has built up."""


class Path:
    """One receiver, as its sender sees it. `rate` is in bytes per second."""

    __slots__ = (
        "_adapted_at",
        "_best",
        "_cut_at",
        "_drain_until",
        "_drained_at",
        "_full",
        "_loss_before_cut",
        "_rate_before_cut",
        "_rate_before_drain",
        "_starting",
        "_tolerated",
        "_trickled",
        "delivered",
        "heard_at",
        "meter",
        "rate",
        "share",
    )

    def __init__(self, now: float, rate: float) -> None:
        self.rate = rate
        self.meter = Meter(now)
        self.share = Share(now)
        self.delivered = 0.0
        self.heard_at = now
        self._starting = True
        self._adapted_at = now
        self._best: deque[tuple[float, float]] = deque()  # when, and the delivered rates that were the best since
        self._full = inf  # the longest queue at which there were losses: there may not be room for more
        self._drain_until = self._drained_at = now
        self._cut_at = -inf
        self._loss_before_cut = self._rate_before_cut = self._rate_before_drain = 0.0
        self._tolerated = _LOSS_SUSPECT
        self._trickled = 0  # reports on end in which it did

    @property
    def target(self) -> float:
        """The queue to keep: short, and at most half of what there is room for."""
        return max(_TARGET_MIN_S, min(TARGET_S, self._full / 2))

    @property
    def is_congested(self) -> bool:
        """Whether this path carries no more."""
        return self.meter.queueing > self.target / 2 or self.share.is_contested or self._loss_before_cut > 0

    @property
    def trickles(self) -> bool:
        """Whether this path carries far less than was sent, whoever else uses it.

        A queue serves everybody in proportion: a path that others fill, but do not overfill, passes on C / (C + s) of
        what we send. If that is less than a third, the path carries in all less than half of what we sent.
        """
        return self._trickled >= _TRICKLES

    @property
    def overflows(self) -> bool:
        """Whether more was lost since the last report than is lost anyway."""
        return self.meter.lost_more_just_now(_LOSS_FULL)

    @property
    def is_overloaded(self) -> bool:
        """Whether this path carries less than was sent, whatever the sender might have sent."""
        meter = self.meter
        grows = meter.came < _COMES_THROUGH * meter.sent and meter.queueing > _LONG * self.target
        return grows or meter.loses_more_than(_LOSS_FULL + 2 * meter.background)

    def reported(self, now: float, report: Report, *, limited_at: float) -> None:
        """Take in a report; `limited_at` is when the sender last had to wait because of its rate."""
        self.heard_at = now
        meter = self.meter
        if meter.reported(now, report):
            self.share.measured(now, meter, self.target)
            self.delivered = min(meter.came, max(meter.sent, self.share.capacity))
            self._remember(now)
            trickles = meter.came < TRICKLE * meter.sent and meter.queueing > _TRICKLE_QUEUE * self.target
            self._trickled = self._trickled + 1 if trickles else 0
            self._adapt(now, limited=limited_at >= meter.oldest_sent_at)
            self._adapted_at = now

    def _remember(self, now: float) -> None:
        """The best of the last moments; and how long the queue was when it lost something, while it was longest."""
        best = self._best
        while best and best[-1][1] <= self.delivered:
            best.pop()
        best.append((now, self.delivered))
        while best[0][0] < now - _MEMORY_S - self.meter.round_trip:
            best.popleft()
        if self.overflows and not self._starting:
            self._full = min(self._full, self.meter.high)
        elif self._full < inf:
            self._full *= 1 + (now - self._adapted_at) / _DRAIN_EVERY_S

    def _adapt(self, now: float, *, limited: bool) -> None:
        if self._starting:
            self._start(now, limited)
        elif probe := self.share.probe(now, self.rate, self.meter):
            self.rate = probe
        elif not self._suspect_loss(now, limited):
            self._steer(now, limited)
        self.rate = max(RATE_MIN, self.rate)

    def _start(self, now: float, limited: bool) -> None:
        """Double until a queue builds up or much is lost."""
        queues = self.meter.queueing > self.target and (limited or self.is_overloaded)
        if queues or self.meter.loses_more_than(self._tolerated):
            self._starting = False
            if limited or queues:  # else what was delivered is what was published
                self.rate = self._carried() * _START_CUT
        elif limited:
            self._grow(now, 2 * self.delivered)

    def _steer(self, now: float, limited: bool) -> None:
        """The law of this module."""
        queueing, target = self.meter.queueing, self.target
        if not limited and not self.is_overloaded:
            return
        if self._drains(now):
            self.rate = self.share.insist(now, _DRAIN_SHARE * self._rate_before_drain, self.meter)
        elif queueing > target / 2:
            change = max(-_CUT_MAX, (target - queueing) / (2 * self.meter.feedback))
            self.rate = self.share.insist(now, self._carried() * (1 + change), self.meter)
        elif limited:
            self._grow(now, self.delivered)

    def _grow(self, now: float, least: float) -> None:
        """More, but not so much that a queue fills before we hear of it; quickly only up to what is known to work."""
        share = min(1.0, (now - self._adapted_at) / self.meter.feedback)
        growth = _GROWTH if self._starting or self.rate < _KNOWN * self.share.capacity else _GROWTH_BEYOND
        most = max(self.rate, _AHEAD * self._best[0][1])
        self.rate = max(least, min(self.rate * (1 + growth * share), most))

    def _carried(self) -> float:
        """What the path carries for us: what it delivers, if we sent as much as we might, and what it loses anyway.

        Else (our host stood still for a moment) it is the most that was delivered in the last moments.
        """
        as_intended = self.meter.sent > _AS_INTENDED * self.rate
        return (self.delivered if as_intended else self._best[0][1]) / (1 - min(0.5, self.meter.background))

    def _drains(self, now: float) -> bool:
        """Whether to empty the queue for a moment, because its length has not been known for sure for long."""
        if self.meter.queueing <= self.target / 4:
            self._drained_at = self._drain_until = now
        elif now - self._drained_at > _DRAIN_EVERY_S:
            self._drained_at, self._rate_before_drain = now, self._carried()
            self._drain_until = now + _DRAIN_S + self.meter.round_trip
        return now < self._drain_until

    def _suspect_loss(self, now: float, limited: bool) -> bool:
        """Whether a loss without a queue is dealt with: by a cut, and by a look at what the cut has changed."""
        loss = self.meter.loss
        if self._loss_before_cut:
            if now - self._cut_at < 2 * self.meter.feedback:
                return True
            if loss > self._loss_before_cut / 2:  # it does not depend on our rate
                self._tolerated = min(0.9, 1.5 * loss)
                self.rate = max(self.rate, self._rate_before_cut)
            self._loss_before_cut = 0.0
        elif limited and self._loses_without_a_queue() and not self.share.is_contested:
            self._loss_before_cut, self._rate_before_cut, self._cut_at = loss, self.rate, now
            self.rate = min(self.rate, self.delivered) * _LOSS_CUT
            return True
        return False

    def _loses_without_a_queue(self) -> bool:
        return self.meter.queueing <= self.target and self.meter.loses_more_than(self._tolerated)
