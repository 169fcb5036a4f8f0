"""What a coordinator did, for those who look: an operator can see a group divide, and heal."""

from typing import Any


class Account:
    """Counts from the beginning, and as they were when the last side came back."""

    __slots__ = ("_divided_at", "_healed", "addressed", "filled", "received")

    def __init__(self) -> None:
        self.filled = 0
        """Packets that were sent on, each to however many members."""
        self.addressed = 0
        """The members that they were sent to."""
        self.received = 0
        """Packets that came because they were asked for."""
        self._divided_at: float | None = None
        self._healed: tuple[float, int, int, int, int] | None = None

    def looked(self, now: float, whole: bool) -> None:
        """The coordinator has looked whether anybody is missing."""
        if whole:
            self._divided_at = None
        elif self._divided_at is None:
            self._divided_at = now

    def healed(self, now: float, members: int, *, ongoing: bool) -> None:
        """A side of so many members has come back, if any was missing; `ongoing` if others of it were back before."""
        if ongoing and self._healed is not None:
            at, before, filled, addressed, received = self._healed
            self._healed = at, max(before, members), filled, addressed, received
        elif self._divided_at is not None:
            self._healed = now, members, self.filled, self.addressed, self.received

    def counts(self) -> dict[str, int]:
        """What was sent on since the beginning."""
        return {"filled": self.filled, "addressed": self.addressed}

    def of_divisions(self, now: float) -> dict[str, Any]:
        """For how long somebody has been missing, and what was exchanged since a side last came back."""
        found: dict[str, Any] = {}
        if self._divided_at is not None:
            found["divided_s"] = now - self._divided_at
        if self._healed is not None:
            at, members, filled, addressed, received = self._healed
            found["healed"] = {
                "ago_s": now - at,
                "members": members,
                "filled": self.filled - filled,
                "addressed": self.addressed - addressed,
                "received": self.received - received,
            }
        return found
