"""What a member can tell from clocks: whether what was sealed is from now, and whether its own clock is right.

Time is counted in ticks, quarters of a second since 2020, as the upper halves of counters are (see `sealing`). Clocks
are set: what one that was ahead has left behind must not count once it is right.
"""

from collections.abc import Callable
from typing import Final

Clock = Callable[[], float]
"""Seconds since the epoch."""

CLOCK_BEGINS: Final = 1_577_836_800
TICKS_PER_S: Final = 4
"""In 32 bits, that is enough until 2054."""
_ALIVE_TICKS: Final = 60 * TICKS_PER_S
"""How far the clocks of a group may differ."""
AGREED_TICKS: Final = _ALIVE_TICKS // 2
"""Clocks that differ by less agree."""


def timeless() -> float:
    """For those who read what was stored: nothing in it is new."""
    return float(CLOCK_BEGINS)


def ticks_of(clock: Clock) -> int:
    """The time."""
    return int((clock() - CLOCK_BEGINS) * TICKS_PER_S)


class Liveness:
    """What one receiver knows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = ticks_of(clock)
        self._agreed_at: int | None = None

    def is_alive(self, ticks: int) -> bool:
        """Whether a sealer of which we know nothing is there now, not only in a recording."""
        now = ticks_of(self._clock)
        self._since = min(self._since, now + 1)  # the clock was set back, and we would be deaf for as long
        return ticks >= self._since and abs(ticks - now) <= _ALIVE_TICKS

    def forgot(self) -> None:
        """A sealer was forgotten: what it has sealed before must not be taken for new."""
        self._since = max(self._since, ticks_of(self._clock) + 1)

    def heard(self, ticks: int) -> None:
        """A sealer that is alive has sealed at this time."""
        now = ticks_of(self._clock)
        if abs(ticks - now) <= AGREED_TICKS:
            self._agreed_at = now

    def is_agreed(self) -> bool:
        """Whether others have lately sealed at the time that our clock shows now."""
        return self._agreed_at is not None and abs(ticks_of(self._clock) - self._agreed_at) <= AGREED_TICKS
