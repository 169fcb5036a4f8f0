"""The deadlines of one automaton: few, and the earliest always at hand."""

from collections.abc import Callable
from math import inf
from typing import Any

_AFTER_ERROR_S = 1.0
Alarm = Callable[[float, list[Any]], None]
"""Called with the time and the list that takes the effects."""


class Timer:
    """One deadline and what to do then; made by `Timers.new`. Once it has gone off it is not armed any more."""

    __slots__ = ("_timers", "alarm", "deadline")

    def __init__(self, timers: "Timers", alarm: Alarm) -> None:
        self._timers = timers
        self.alarm = alarm
        self.deadline = inf
        """When it goes off; infinity while it is not armed."""

    def set(self, deadline: float) -> None:
        """Arm it, or move it; infinity disarms it."""
        before, self.deadline = self.deadline, deadline
        timers = self._timers
        if deadline <= timers.next:
            timers.next = deadline
        elif before <= timers.next:  # it was the earliest
            timers.find_next()

    def arm(self, deadline: float) -> None:
        """Set it, unless it is armed."""
        if self.deadline == inf:
            self.set(deadline)


class Timers:
    """All timers of one automaton. `next` is the earliest deadline, a plain attribute: it is read after every step."""

    __slots__ = ("_timers", "next")

    def __init__(self) -> None:
        self._timers: list[Timer] = []
        self.next = inf

    def new(self, alarm: Alarm) -> Timer:
        """A timer that calls `alarm` when it goes off."""
        timer = Timer(self, alarm)
        self._timers.append(timer)
        return timer

    def find_next(self) -> None:
        """Work out `next`."""
        self.next = min([timer.deadline for timer in self._timers])

    def go_off(self, now: float, out: list[Any]) -> None:
        """Call the alarms whose time has come, the earliest first, and of those the one that was made first."""
        ready = [timer for timer in self._timers if timer.deadline <= now]
        if len(ready) > 1:
            ready.sort(key=_deadline)
        for timer in ready:
            timer.deadline = inf
        self.find_next()
        for at, timer in enumerate(ready):
            try:
                timer.alarm(now, out)
            except Exception:  # an alarm that fails must neither silence the others nor itself
                for late in ready[at + 1 :]:
                    late.arm(now)
                timer.arm(now + _AFTER_ERROR_S)
                raise


def _deadline(timer: Timer) -> float:
    return timer.deadline
