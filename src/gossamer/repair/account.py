"""What a coordinator did, for those who look: an operator can see a group divide, and heal."""

from collections import deque
from typing import Any, NamedTuple

_REMEMBERED = 8
"""Heals of which something is known: one that matters must not be hidden by a member that was away for a moment."""


class _Counts(NamedTuple):
    """What was exchanged: packets sent on, the members that they were sent to, packets that came."""

    filled: int
    addressed: int
    received: int


class _Heal(NamedTuple):
    """A side has come back; `before` are the counts of that moment."""

    at: float
    members: int
    before: _Counts


class Account:
    """Counts from the beginning, and as they were whenever a side came back."""

    __slots__ = ("_divided_at", "_heals", "addressed", "filled", "received")

    def __init__(self) -> None:
        self.filled = 0
        """Packets that were sent on, each to however many members."""
        self.addressed = 0
        """The members that they were sent to."""
        self.received = 0
        """Packets that came because they were asked for."""
        self._divided_at: float | None = None
        self._heals: deque[_Heal] = deque(maxlen=_REMEMBERED)

    def looked(self, now: float, whole: bool) -> None:
        """The coordinator has looked whether anybody is missing."""
        if whole:
            self._divided_at = None
        elif self._divided_at is None:
            self._divided_at = now

    def healed(self, now: float, members: int, *, ongoing: bool) -> None:
        """A side of so many members has come back, if any was missing; `ongoing` if others of it were back before."""
        if ongoing and self._heals:
            last = self._heals.pop()
            self._heals.append(last._replace(members=max(last.members, members)))
        elif self._divided_at is not None:
            self._heals.append(_Heal(now, members, self._now()))

    def counts(self) -> dict[str, int]:
        """What was sent on since the beginning."""
        return {"filled": self.filled, "addressed": self.addressed}

    def of_divisions(self, now: float) -> dict[str, Any]:
        """For how long somebody has been missing, and what was exchanged after the last times that a side came back.

        `healed` is the last in which anything was exchanged, or simply the last.
        """
        found: dict[str, Any] = {}
        if self._divided_at is not None:
            found["divided_s"] = now - self._divided_at
        if self._heals:
            found["heals"] = heals = self._exchanged(now)
            found["healed"] = next((h for h in reversed(heals) if h["filled"] or h["received"]), heals[-1])
        return found

    def _now(self) -> _Counts:
        return _Counts(self.filled, self.addressed, self.received)

    def _exchanged(self, now: float) -> list[dict[str, Any]]:
        """What each heal has brought until the next one, or until now; the oldest first."""
        ends = [*[heal.before for heal in self._heals][1:], self._now()]
        return [
            {"ago_s": now - heal.at, "members": heal.members}
            | {name: getattr(end, name) - getattr(heal.before, name) for name in _Counts._fields}
            for heal, end in zip(self._heals, ends, strict=True)
        ]
