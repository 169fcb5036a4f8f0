"""The deadlines of one automaton: few, named, and the earliest always at hand."""

from math import inf


class Timers:
    """Named deadlines. `next` is the earliest, a plain attribute because it is read after every step."""

    __slots__ = ("_deadlines", "next")

    def __init__(self) -> None:
        self._deadlines: dict[str, float] = {}
        self.next = inf

    def set(self, name: str, deadline: float) -> None:
        """Arm (or move) one timer; infinity disarms it."""
        deadlines = self._deadlines
        before = deadlines.get(name, inf)
        deadlines[name] = deadline
        if deadline <= self.next:
            self.next = deadline
        elif before <= self.next:  # it was the earliest
            self.next = min(deadlines.values())

    def get(self, name: str) -> float:
        """When `name` will fire; infinity if it is not armed."""
        return self._deadlines.get(name, inf)

    def due(self, now: float) -> list[str]:
        """The names whose time has come, earliest first, now disarmed."""
        deadlines = self._deadlines
        ready = []
        for name, at in deadlines.items():
            if at <= now:
                ready.append(name)
        if len(ready) > 1:
            ready.sort(key=lambda name: (deadlines[name], name))
        for name in ready:
            del deadlines[name]
        self.next = min(deadlines.values()) if deadlines else inf
        return ready
