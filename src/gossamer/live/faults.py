"""Errors inside a member: counted and logged; too many of them in a short time, and the application has to know."""

import logging
from collections import Counter, deque
from collections.abc import Callable
from time import monotonic

_MOST, _WITHIN_S = 20, 10.0
"""A member that meets with so many errors of its own in this time cannot go on."""
_log = logging.getLogger("gossamer")


class Faults:
    """The errors of one member. What it did before one stands, and what it kept from coming is repaired."""

    def __init__(self, me: int, stats: Counter[str], failed: Callable[[Exception], None]) -> None:
        """`failed` is called, once, if the member cannot go on."""
        self._me = me
        self._stats = stats
        self._failed = failed
        self._times: deque[float] = deque(maxlen=_MOST)
        self._is_over = False

    def happened(self, error: Exception) -> None:
        """Count it and log it."""
        now = monotonic()
        self._stats["faults"] += 1
        self._times.append(now)
        _log.error("member %d: an error of its own; please report it", self._me, exc_info=error)
        if len(self._times) == _MOST and now - self._times[0] < _WITHIN_S and not self._is_over:
            self._is_over = True
            self._failed(error)
