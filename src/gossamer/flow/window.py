"""The credit window: a sender is at most `window` packets ahead of the receivers it follows.

Receivers report how far they have seen a sender, eight times a window. A sender follows the receivers that keep up, and
never the slowest (004's throughput stability): a receiver that holds up the sender while most are well ahead of it is
blamed for the time, and let go when the blame exceeds `patience` and most have caught up. It then falls back to repair,
and is followed again when it has caught up. Blame wears off while a receiver does not hold up the sender: one that does
so for less than half of the time is waited for, one that does so for longer is not. If most are slow, the sender waits
for them: there is nobody whose rate would suffer. A receiver that makes no progress at all for a long time is let go in
any case.

Without a logger, a receiver that is let go may lose what peers do not keep for long. Then one that moves, though
slowly, is given more time; and when it is about to fall out of the `reach` of its peers, the sender stops until it has
caught up. Both are blamed on it as well.
"""

from math import inf

_STRIDES = 8
_DEAD_PATIENCES = 10
"""Without progress for this many times `patience`, a receiver is let go, whatever the others do."""
_MOVING_PATIENCES = 10
"""A receiver that moves is blamed for this many times `patience` before it is let go, if no logger could help it."""


class Window:
    """What a sender knows of its receivers."""

    __slots__ = (
        "_blame",
        "_blocked_at",
        "_closed_at",
        "_given_up",
        "_heard_at",
        "_held_for",
        "_not_before",
        "_patience",
        "_reported",
        "floor",
        "lagging",
        "reach",
        "size",
    )

    def __init__(self, size: int, patience: float, reach: int = 0) -> None:
        self.size = size
        self.reach = reach
        """How far behind a receiver can be without losing anything, if there is no logger."""
        self.floor = 0
        """Every receiver that is followed has seen everything below."""
        self.lagging: dict[int, None] = {}
        self._held_for: dict[int, None] = {}  # of these, those that the sender waits for at the end of its reach
        self._not_before: dict[int, float] = {}  # and when they may be followed again, if they keep up
        self._given_up: dict[int, None] = {}  # and those that it does not wait for there any more
        self._patience = patience
        self._reported: dict[int, int] = {}
        self._heard_at: dict[int, float] = {}
        self._blame: dict[int, tuple[float, float]] = {}  # how much, and when that was worked out
        self._blocked_at = inf
        self._closed_at = inf

    @staticmethod
    def stride(size: int) -> int:
        """A receiver reports each time that it has seen this many more packets."""
        return max(1, size // _STRIDES)

    def closed(self, now: float, head: int, *, logged: bool = True) -> bool:
        """Whether the packet `head` has to wait; `logged` if there is a logger for receivers that are let go."""
        if self.lagging and self.reach and not logged:
            self._hold_for(now, head)
        if not self._shut(head):
            return False
        if self._blocked_at == inf:
            self._blocked_at = self._closed_at = now
        self._let_go(now, head, logged)
        self._settle(head)
        return self._shut(head)

    @property
    def holds(self) -> bool:
        """Whether the sender waits for one that is about to lose something."""
        return bool(self._held_for)

    def again(self) -> float:
        """How long to wait, without a report, before asking again."""
        return self._patience / 4

    def reported(self, now: float, member: int, seen: int, head: int) -> None:
        """`member` has seen everything of ours below `seen`."""
        if member not in self._reported or seen > head:
            return  # not a member, or hostile
        behind = self._behind(head) if self._blocked_at < inf else []
        if seen > self._reported[member]:
            self._reported[member] = seen
            self._heard_at[member] = now
        if behind:
            self._charge(now, head, behind)
        if member in self.lagging and head - seen <= self.size // 2 and now >= self._not_before.get(member, now):
            self.follow(member, head)
        self._settle(head)
        if not self._shut(head):
            self._blocked_at = inf

    def slowest(self) -> int | None:
        """The receiver that is followed and has seen least, if there is any."""
        return min(self._followed(), key=self._reported.__getitem__, default=None)

    def let_go(self, member: int, head: int, not_before: float) -> None:
        """Do not wait for `member`, whose path carries much less than the others', until it has caught up.

        It has everything as yet: we went at its pace. Whether it keeps up with the others shows only after a while.
        """
        self._not_before[member] = not_before
        self._stop_waiting(member)
        self._settle(head)

    def follow(self, member: int, head: int) -> None:
        """Wait for `member` again."""
        for those in (self.lagging, self._held_for, self._given_up):
            those.pop(member, None)
        self._not_before.pop(member, None)
        self._settle(head)

    def view_changed(self, now: float, others: list[int], head: int) -> None:
        """These are the receivers now; a new one begins where we are."""
        self._reported = {m: self._reported.get(m, head) for m in others}
        self._heard_at = {m: self._heard_at.get(m, now) for m in self._reported}
        self._blame = {m: blame for m, blame in self._blame.items() if m in self._reported}
        self.lagging = {m: None for m in self.lagging if m in self._reported}
        self._held_for = {m: None for m in self._held_for if m in self._reported}
        self._given_up = {m: None for m in self._given_up if m in self._reported}
        self._not_before = {m: at for m, at in self._not_before.items() if m in self._reported}
        self._settle(head)

    def _shut(self, head: int) -> bool:
        return head - self.floor >= self.size or bool(self._held_for)

    def _moves(self, now: float, member: int) -> bool:
        return now - self._heard_at[member] <= self._patience

    def _hold_for(self, now: float, head: int) -> None:
        """Receivers that move and have just come to the end of the reach: one beyond it has lost something anyway."""
        for member in self.lagging:
            beyond = head - self._reported[member] - self.reach
            if 0 <= beyond < self.size and member not in self._given_up and self._moves(now, member):
                self._held_for[member] = None

    def _followed(self) -> list[int]:
        return [member for member in self._reported if member not in self.lagging]

    def _settle(self, head: int) -> None:
        assert self.lagging.keys() <= self._reported.keys()
        assert self._held_for.keys() <= self.lagging.keys()
        self.floor = min((self._reported[m] for m in self._followed()), default=head)
        assert self.floor <= head, "nobody has seen what was not sent"

    def _behind(self, head: int) -> list[int]:
        """The receivers that keep the window closed."""
        return [*self._held_for, *(m for m in self._followed() if head - self._reported[m] >= self.size)]

    def _most_are_within(self, distance: int, head: int) -> bool:
        seen = sorted(self._reported[m] for m in self._followed())
        return bool(seen) and seen[len(seen) // 2] >= head - distance

    def _charge(self, now: float, head: int, behind: list[int]) -> None:
        """Blame the receivers that held up the sender since the last look, if most others are well ahead of them."""
        since = now - self._blocked_at
        self._blocked_at = now
        if self._most_are_within(self.size // 2, head):
            for member in behind:
                blame, at = self._blame.get(member, (0.0, now - since))
                in_peace = now - at - since
                self._blame[member] = max(0.0, blame - in_peace) + since, now

    def _let_go(self, now: float, head: int, logged: bool) -> None:
        behind = self._behind(head)
        if not behind:
            return
        self._charge(now, head, behind)
        for member in behind if self._most_are_within(self.size // 4, head) else ():
            moves = self._moves(now, member)
            limit = self._patience * (_MOVING_PATIENCES if moves and not logged else 1)
            if self._blame.get(member, (0.0, now))[0] > limit:
                self._stop_waiting(member)
        for member in [m for m in self._held_for if not self._moves(now, m)]:
            self._stop_waiting(member)
        for member in self._followed():
            shut = head - self._reported[member] >= self.size
            waited = now - max(self._heard_at[member], self._closed_at)  # before, there was nothing to report
            if shut and waited > _DEAD_PATIENCES * self._patience:
                self.lagging[member] = None

    def _stop_waiting(self, member: int) -> None:
        if member in self._held_for:
            del self._held_for[member]
            self._given_up[member] = None
        self.lagging[member] = None
