"""Packets that others have overtaken: they are missing when a report is made, and yet not lost.

What is missing of all that was sent before the newest packet grows with every loss, and never becomes less, unless
packets come that were overtaken. So the most by which it became less again is how many of those that are missing may be
only late.
"""

_FORGET_S = 5.0
"""What was seen counts for one or two times this."""


class Overtaking:
    """How many packets may be late at once on one path."""

    __slots__ = ("_late_next", "_most", "_since", "late")

    def __init__(self, now: float) -> None:
        self.late = 0
        """As many of those that are missing may yet come."""
        self._late_next = 0
        self._most = 0  # missing at a time
        self._since = now

    def reported(self, now: float, missing: int) -> None:
        """So many of all packets up to the newest had not come when it did."""
        if now - self._since > _FORGET_S:
            self.late, self._late_next, self._since = self._late_next, 0, now
            self._most = missing
        self._most = max(self._most, missing)
        self._late_next = max(self._late_next, self._most - missing)
        self.late = max(self.late, self._late_next)
