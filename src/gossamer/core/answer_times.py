"""How long answers to requests take, and when one that has not come is lost.

A request is given up after twice the usual time, or more if that varies (as in RFC 6298). A requester to which nothing
comes by which it could tell the time may be too impatient: it waits twice as long each time, up to a second.
"""

_MIN_S, _MAX_S = 0.01, 5.0
_PATIENCE_MAX = 64
_BLIND_MAX_S = 1.0
"""A requester that can time nothing waits no longer than this: perhaps nobody has what it asks for."""
_UNKNOWN = 0.05, 0.05
_SMOOTHING = 0.125


class AnswerTimes:
    """The time from request to repair, as one requester has seen it."""

    __slots__ = ("_blind", "_known", "_patience")

    def __init__(self) -> None:
        self._known: tuple[float, float] | None = None  # how long answers take, and how much that varies
        self._blind = 0  # packets that did not come, since an answer was timed
        self._patience = 1  # by which a timeout is longer than usual

    @property
    def usual(self) -> float:
        """How long an answer usually takes; 0 if that is not known."""
        return self._known[0] if self._known else 0.0

    def measured(self, seconds: float) -> None:
        """An answer has taken this long."""
        usual, varies = self._known or (seconds, seconds / 2)
        varies += _SMOOTHING * 2 * (abs(seconds - usual) - varies)
        self._known = usual + _SMOOTHING * (seconds - usual), varies
        self._patience, self._blind = 1, 0

    def missed(self, packets: int, many: int) -> bool:
        """These have not come in time; returns whether `many` have not, and nothing has by which to tell the time."""
        self._blind += packets
        if self._blind < many:
            return False
        self._patience = min(2 * self._patience, _PATIENCE_MAX)
        self._blind = 0
        return True

    def timeout(self) -> float:
        """What was asked for and has not come for this long is lost."""
        usual, varies = self._known or _UNKNOWN
        known = usual + max(usual, 4 * varies, _MIN_S)
        return min(_MAX_S, max(known, min(self._patience * known, _BLIND_MAX_S)))
