"""One timer for a stack's next deadline: a fine one, if there is something to send that only the pace holds back."""

import asyncio
from collections.abc import Callable
from math import inf

from gossamer.live.alarm import TICK_S, Alarm
from gossamer.stack import Stack

_SLACK_S = 0.0005
"""A timer that is this close to the deadline is not rearmed."""
_FINE_S = 0.005
"""What the pace waits for is not worth a fine timer if it is later than this."""


class Wakeups:
    """Calls `wake` when the stack's deadline has come, by the clock `now`."""

    def __init__(self, stack: Stack, now: Callable[[], float], wake: Callable[[], None]) -> None:
        self._stack, self._now, self._wake = stack, now, wake
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | Alarm | None = None
        self._alarm = Alarm(self._due)
        self._at = 0.0

    def close(self) -> None:
        """Wake nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._alarm.close()

    def arm(self) -> None:
        """The deadline may have changed."""
        deadline = self._stack.next_deadline()
        if self._timer is not None and self._at <= deadline + _SLACK_S:
            return  # fires early enough, and is rearmed if nothing is due then
        if self._timer is not None:
            self._timer.cancel()
        self._at = deadline
        wait = deadline - self._now()
        self._timer = self._loop.call_soon(self._due) if wait <= 0 else self._later(wait)

    def _later(self, wait: float) -> asyncio.Handle | Alarm | None:
        if wait < _FINE_S and self._stack.pace.unsent():
            self._alarm.set(wait)
            return self._alarm
        return self._loop.call_later(wait + TICK_S / 2, self._due) if wait < inf else None

    def _due(self) -> None:
        self._timer = None
        if self._stack.next_deadline() <= self._now():
            self._wake()
        else:
            self.arm()
