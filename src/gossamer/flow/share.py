"""Our share of a path beside others, who may keep its queue full: what we do not leave to them.

A queue that stands although we send less and less is kept full by others. A sender that only looked at the queue would
be driven out, so we insist on a third of what the path carries. What it carries is the most that it ever delivered, if
we once had it to ourselves. If others were first, it follows from what we get for what we send, because a queue serves
everybody in proportion. If we have b of a full link of capacity C, and then send s, it delivers to us

    d = s * C / (C - b + s)    so    C = d * (s - b) / (s - d)

which the start of a path shows (b is 0), and then a moment now and then in which we send more. That is a guess. It is
used only beside others; on our own the queue goes when we send less, so nothing of this happens.
"""

from gossamer.flow.meter import Meter

INSIST = 1 / 3
"""The share of what the path carries that we do not leave to others."""
_MEMORY_S = 15.0
_GUESS_MAX = 4.0
_EVIDENCE_S = 0.4
_STANDING = 1.4
"""A queue that is this many times as long as we want it, for so long, is not ours."""
_PROBE = 2.5
_PROBE_S = 0.06
_PROBE_EVERY_S, _PROBE_EVERY_MAX_S = 2.0, 32.0
_SURPRISE = 0.3
_LOSS_OVERLOAD = 0.1
_OVERLOAD_S = 0.5
_LOSS_MOST = 0.4
_ERODE = 0.03
"""With more losses than that for so long, the path carries less than we thought: by this share at each report."""


class Share:
    """What one path carries in all, and whether there are others on it."""

    __slots__ = (
        "_at",
        "_before_probe",
        "_evidence",
        "_guessed",
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
        self._next = 0.0
        self._since = self._at = now
        self._evidence = 0.0
        self._guessed = 0.0
        self._overload_since = now
        self._probed_at = self._probe_until = now
        self._probe_every = _PROBE_EVERY_S
        self._before_probe = 0.0

    def measured(self, now: float, meter: Meter, target: float) -> None:
        """Take in what the meter shows now."""
        rate = min(meter.came, meter.sent)  # what was held up somewhere comes all at once, and says nothing
        self.capacity = max(self.capacity, rate)
        self._next = max(self._next, rate)
        if now - self._since > _MEMORY_S and not self.is_contested:
            self.capacity, self._next, self._since = self._next, 0.0, now
        self._look_for_others(now, meter, target)

    def guess(self, meter: Meter, before: float = 0.0) -> float:
        """What the path carries if it is full: from what we get for what we send, and sent `before`."""
        sent, came = meter.sent, meter.came
        share = max(0.0, sent - before) / (sent - came) if sent > came else _GUESS_MAX
        return came * min(_GUESS_MAX, share)

    def started(self, meter: Meter) -> None:
        """The rate has grown until a queue stood: if there are others, this is what the path carries."""
        self._guessed = self.guess(meter)

    def insist(self, now: float, rate: float, meter: Meter) -> float:
        """The rate, but beside others not less than our share, unless the path overflows with that."""
        if not self.is_contested:
            return rate
        if meter.loss < _LOSS_OVERLOAD + meter.background:
            self._overload_since = now
        elif now - self._overload_since > _OVERLOAD_S or meter.loss > _LOSS_MOST:
            self.capacity *= 1 - _ERODE
        return max(rate, INSIST * self.capacity)

    def probe(self, now: float, rate: float, meter: Meter) -> float:
        """The rate for a look at what the path carries; 0 if it is not the time for one."""
        if now < self._probe_until:
            return rate
        if self._probe_until > self._probed_at:
            self._end_probe(now, meter)
            return self._before_probe
        if not self.is_contested or now - self._probed_at < self._probe_every:
            return 0.0
        self._before_probe, self._probe_until = rate, now + meter.round_trip + _PROBE_S
        return _PROBE * rate

    def _end_probe(self, now: float, meter: Meter) -> None:
        self._probed_at = now
        wrong = self.guess(meter, self._before_probe) - self.capacity
        self.capacity += wrong / 2
        surprised = abs(wrong) > _SURPRISE * self.capacity
        self._probe_every = _PROBE_EVERY_S if surprised else min(2 * self._probe_every, _PROBE_EVERY_MAX_S)

    def _look_for_others(self, now: float, meter: Meter, target: float) -> None:
        """Evidence grows while a long queue stands, and goes twice as slowly."""
        passed, self._at = min(0.1, now - self._at), now
        limit = _EVIDENCE_S + 4 * meter.round_trip + 2 * meter.high  # our own queue would be gone by then
        self._evidence += passed if meter.queueing > _STANDING * target else -passed / 2
        self._evidence = min(2 * limit, max(0.0, self._evidence))
        if self._evidence > limit and not self.is_contested:
            self.is_contested = True
            self.capacity = max(self.capacity, self._guessed)
        elif self._evidence == 0.0 and self.is_contested:
            self.is_contested = False
            self._next, self._since = self.capacity, now
