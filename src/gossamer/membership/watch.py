"""Who was heard when, and whom to follow: the oldest member of the view that lives.

Members tell the coordinator that they live, and it tells them. While it is silent they tell everybody, so that each
knows who is there by the time when the coordinator is given up, and the oldest of those takes over.
"""

from collections.abc import Sequence
from math import inf


class Watch:
    """What one member has heard of the others in its view."""

    __slots__ = ("_heard", "_me", "_members", "_patience", "_rank", "_since")

    def __init__(self, me: int, patience: float) -> None:
        self._me = me
        self._patience = patience
        self._members: Sequence[int] = (me,)
        self._heard: dict[int, float] = {}
        self._since = 0.0
        self._rank = 0

    def begin(self, now: float, members: Sequence[int]) -> None:
        """A view begins: nobody is doubted before it had time to be heard."""
        self._members = members
        self._heard = {}
        self._since = now
        self._rank = 0

    def listens_since(self, now: float) -> None:
        """Before that we did not listen: that nobody was heard means nothing."""
        self._since = now

    def hears(self, now: float, member: int) -> None:
        """`member` lives; if it is older than the one we follow, we follow it."""
        self._heard[member] = now
        if member in self._members[: self._rank]:
            self._rank = self._members.index(member)

    @property
    def coordinator(self) -> int:
        """The member that we follow."""
        return self._members[self._rank]

    def follow(self, now: float) -> bool:
        """Go on to the next member that was heard lately if the coordinator is silent; returns whether we take over."""
        if self.coordinator == self._me or now - self._last_heard(self.coordinator) <= self._patience:
            return False
        while self.coordinator != self._me:
            self._rank += 1
            if self._heard.get(self.coordinator, -inf) > now - self._patience / 2:
                break
        if self.coordinator == self._me:
            self._since = now  # the others tell us only from now on
            return True
        return False

    def older(self) -> list[int]:
        """The members that were given up before the coordinator."""
        return list(self._members[: self._rank])

    def doubts(self, now: float) -> bool:
        """Whether the coordinator has been silent for a while."""
        return now - self._last_heard(self.coordinator) > self._patience / 2

    def silent(self, now: float) -> list[int]:
        """The members that were not heard for too long."""
        before = now - self._patience
        return [member for member in self._members if member != self._me and self._last_heard(member) < before]

    def _last_heard(self, member: int) -> float:
        return max(self._heard.get(member, self._since), self._since)
