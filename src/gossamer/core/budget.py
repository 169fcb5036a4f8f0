"""How much a member may do per second: a token bucket, with time given from outside."""

BURST_SHARE = 0.02
"""Of a second's worth: what may go at once. The rest flows evenly, so that no second sees more than the limit."""


class Budget:
    """Allows at most `per_second` units in any second, spread out. A rate of 0 means no limit.

    000 §7.1 limits the requests that a node can serve in a second. A burst of 2% and a flow of 98% of the limit
    keep it in every window of one second, and keep a busy server from overrunning the queues on its way.
    """

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, per_second: float, burst: float = 0.0) -> None:
        """`burst` is what may go at once, if not the usual share."""
        self._burst = burst or max(1.0, per_second * BURST_SHARE)
        self._rate = per_second if burst else max(0.0, per_second - self._burst) or per_second
        self._tokens = self._burst
        self._at = 0.0

    def take(self, now: float, wanted: int = 1) -> int:
        """How many of `wanted` units may be spent at `now`; they are spent."""
        if self._rate == 0:
            return wanted
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        granted = min(wanted, int(self._tokens))
        self._tokens -= granted
        return granted

    def when(self, now: float) -> float:
        """When the next unit may be spent."""
        missing = 1.0 - self._tokens
        return now if self._rate == 0 or missing <= 0 else self._at + missing / self._rate
