"""Our share of a path beside others, who may keep its queue full: what we do not leave to them.

A queue that stands although we send less and less is kept full by others. A sender that only looked at the queue would
be driven out, so we insist on a good third of what the path carries. What it carries is the most that it ever
delivered, if we once had it to ourselves. If others were first, it follows from what we get for what we send, because a
queue serves everybody in proportion. If others bring o to a full link of capacity C, and we b at first, then s, we get

    a = b * C / (o + b)  and  d = s * C / (o + s)    so    o = (d - a) / (a / b - d / s)  and  C = d * (o + s) / s

which a moment now and then shows in which we send more: a probe. It also shows whether there are others at all: on our
own d does not grow with s. So a queue that has stood for a while is a reason for a probe, and the probe decides.
"""

from math import inf
from typing import NamedTuple

from gossamer.flow.meter import Meter

INSIST = 0.36
"""The share of what the path carries that we do not leave to others."""
_MEMORY_S = 15.0
_EVIDENCE_S = 0.4
_STANDING = 1.4
_MOST = 0.7
"""A queue that is this many times as long as we want it, for so long, is not ours; nor is one that stands although we
get less than this share of what the path was seen to carry."""
_STANDS = 0.7, 1.15
"""A queue stands if packets come about as fast as they were sent; our own grows, or goes when we send less."""
_SUSPECT_S = 0.1
_PROBE = 2.0
_PROBE_S = 0.06
_CONTENT = 1.25
"""One that gets so much more than it insists on need not know what the path carries."""
_TRIED = 1.3
_RISES = 0.25
_RISES_AT_LEAST = 0.2
"""If less than this share of what we send more arrives, there is nobody who makes room for it; where much is lost
anyway, if what arrives grows by less than this share."""
_FALLS = 0.05
"""If our share of what we send falls by less, the others have made room: that says nothing of how much there is."""
_PROBE_EVERY_S, _PROBE_EVERY_MAX_S = 0.5, 4.0
_SURPRISE = 0.3
_CORRECT = 0.8, 1.5
"""The least and the most by which one probe changes what we think the path carries: too much shows as loss, too little
does not show."""
_LOSS_OVERLOAD = 0.2
_OVERLOAD_S = 0.5
_LOSS_MOST = 0.4
_ERODE_PER_S = 0.3
"""With more losses than that for so long, the path may carry less than we thought, by so much a second: beside one that
does not mind losses there are many, and a probe tells the two apart."""


class _Before(NamedTuple):
    """What we sent before a probe, and what came of it."""

    rate: float
    sent: float
    came: float


class Share:
    """What one path carries in all, and whether there are others on it."""

    __slots__ = (
        "_at",
        "_before",
        "_came",
        "_content_at",
        "_evidence",
        "_insisted_at",
        "_next",
        "_overload_since",
        "_probe_every",
        "_probe_until",
        "_probed_at",
        "_since",
        "capacity",
        "is_contested",
    )

    def __init__(self, now: float) -> None:
        self.capacity = 0.0
        """The most that the path has delivered lately, in bytes per second; beside others, what it carries in all."""
        self.is_contested = False
        """Whether others keep the queue full."""
        self._came = self._next = 0.0
        self._since = self._at = now
        self._evidence = 0.0
        self._overload_since = self._insisted_at = now
        self._probed_at = self._probe_until = -inf
        self._probe_every = _PROBE_EVERY_S
        self._before = _Before(0.0, 0.0, 0.0)
        self._content_at = now  # when we last got more than we insist on

    def measured(self, now: float, meter: Meter, target: float) -> None:
        """Take in what the meter shows now."""
        rate = min(meter.came, meter.sent)  # what was held up somewhere comes all at once, and says nothing
        self._came = rate
        self.capacity = max(self.capacity, rate)
        self._next = max(self._next, rate)
        if now - self._since > _MEMORY_S and not self.is_contested:
            self.capacity, self._next, self._since = self._next, 0.0, now
        self._look_for_others(now, meter, target)

    @property
    def is_suspect(self) -> bool:
        """Whether there may be others: a queue has stood for a while."""
        return self.is_contested or self._evidence > _SUSPECT_S

    def has_less_than(self, share: float) -> bool:
        """Whether others have so much of the path that we get less than this share of it."""
        return self.is_contested and self._came < share * self.capacity

    def insist(self, now: float, rate: float, meter: Meter) -> float:
        """The rate, but beside others not less than our share, unless the path overflows with that."""
        if not self.is_contested:
            return rate
        passed, self._insisted_at = min(0.1, now - self._insisted_at), now
        if meter.loss < _LOSS_OVERLOAD + meter.background:
            self._overload_since = now
        elif now - self._overload_since > _OVERLOAD_S or meter.loss > _LOSS_MOST:
            self.capacity *= 1 - _ERODE_PER_S * passed
        if meter.came > _CONTENT * INSIST * self.capacity:
            self._content_at = now
        return max(rate, INSIST * self.capacity)

    def probe(self, now: float, rate: float, meter: Meter) -> float:
        """The rate for a look at what the path carries; 0 if it is not the time for one."""
        if now < self._probe_until:
            return rate
        if self._probe_until > self._probed_at:
            self._probed_at = now
            self._end_probe(meter)
            return self._before.rate
        is_little = now - self._content_at > _PROBE_EVERY_S if self.is_contested else meter.came < _MOST * self.capacity
        wanted = is_little and self._evidence > self._limit(meter)
        if not wanted or now - self._probed_at < self._probe_every:
            return 0.0
        self._before, self._probe_until = _Before(rate, meter.sent, meter.came), now + meter.round_trip + _PROBE_S
        return _PROBE * rate

    def _end_probe(self, meter: Meter) -> None:
        """If more brings no more, the queue is our own, and what comes is all that the path carries."""
        sent, came, before = meter.sent, meter.came, self._before
        if sent < _TRIED * before.sent:
            return  # there was not so much to send, or our host stood still
        self.is_contested = came - before.came > min(_RISES * (sent - before.sent), _RISES_AT_LEAST * before.came)
        if not self.is_contested:
            self._evidence, self.capacity, surprised = 0.0, came, False
        else:
            falls = before.came / before.sent - came / sent
            guess = came * (1 + (came - before.came) / falls / sent) if falls > _FALLS else self.capacity
            surprised = abs(guess - self.capacity) > _SURPRISE * self.capacity
            self.capacity *= min(_CORRECT[1], max(_CORRECT[0], guess / self.capacity))
        self._probe_every = _PROBE_EVERY_S if surprised else min(2 * self._probe_every, _PROBE_EVERY_MAX_S)

    def _look_for_others(self, now: float, meter: Meter, target: float) -> None:
        """Evidence grows while a long queue stands, and goes twice as slowly."""
        passed, self._at = min(0.1, now - self._at), now
        is_share = meter.came < _MOST * self.capacity and meter.queueing > target / 2
        if meter.queueing <= _STANDING * target and not is_share:
            self._evidence -= passed / 2
        elif _STANDS[0] * meter.sent < meter.came < _STANDS[1] * meter.sent:
            self._evidence += passed
        self._evidence = min(2 * self._limit(meter), max(0.0, self._evidence))
        if self._evidence == 0.0 and self.is_contested:
            self.is_contested = False
            self._next, self._since = self.capacity, now

    def _limit(self, meter: Meter) -> float:
        """Evidence beyond this asks for a probe: our own queue would be gone by then."""
        return _EVIDENCE_S + 4 * meter.round_trip + 2 * meter.high
