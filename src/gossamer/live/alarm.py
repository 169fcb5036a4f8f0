"""A timer that is finer than an event loop's, where the kernel has one (timerfd, Linux).

Event loops count milliseconds. A sender that is paced at a gigabit sends a hundred packets in one, so it would either
wait too long, or send a few packets at a time and use all of a processor for that.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from contextlib import suppress

_CLOCK_MONOTONIC = 1
_NS = 1_000_000_000
TICK_S = 0.001
"""Event loops count milliseconds, and may round: a timer set half of one later is never early."""


class Alarm:
    """Rings once after each `set`, unless it is cancelled before."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ring = ring
        self._coarse: asyncio.Handle | None = None
        self._libc = ctypes.CDLL(None)
        self._fd = _timer_of(self._libc)
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._rang)

    def set(self, delay_s: float) -> None:
        """Ring after `delay_s` seconds, more than zero, and not at any other time."""
        if self._fd >= 0:
            self._arm(max(1, int(delay_s * _NS)))
        else:
            self.cancel()
            self._coarse = self._loop.call_later(delay_s + TICK_S / 2, self._ring)

    def cancel(self) -> None:
        """Do not ring."""
        if self._coarse is not None:
            self._coarse.cancel()
        if self._fd >= 0:
            self._arm(0)

    def close(self) -> None:
        """Give back what belongs to the kernel."""
        self.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _arm(self, delay_ns: int) -> None:
        times = (ctypes.c_long * 4)(0, 0, *divmod(delay_ns, _NS))
        self._libc.timerfd_settime(self._fd, 0, times, None)

    def _rang(self) -> None:
        with suppress(BlockingIOError):  # cancelled or set again meanwhile
            os.read(self._fd, 8)
            self._ring()


def _timer_of(libc: ctypes.CDLL) -> int:
    """A timer's file descriptor; -1 if this kernel has none."""
    create = getattr(libc, "timerfd_create", None)
    return -1 if create is None else int(create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
