"""How far senders had come a little while ago.

A process that nobody answered has founded a group, and its application was told that it is a member. When it meets the
group that was there before, it is owed what was sent since then, not since the meeting: its sponsors tell it how far
everything was at that time.
"""

from collections import deque

from gossamer.core.packet_sets import Horizon

KEPT_S = 60.0
"""What was longer ago is not known."""
_STEP_S = 0.5
"""What happened in between is not told apart: there may be many senders, and this is kept for each."""


class Recently:
    """What changed from time to time, and what was before."""

    __slots__ = ("_changes", "_lasts", "_next_at")

    def __init__(self) -> None:
        self._lasts: Horizon = {}
        self._changes: deque[tuple[float, Horizon]] = deque()
        self._next_at = 0.0

    def is_due(self, now: float) -> bool:
        """Whether it is time to note how far senders are."""
        return now >= self._next_at

    def note(self, now: float, lasts: Horizon) -> None:
        """How far senders are now."""
        self._next_at = now + _STEP_S
        before = {sender: self._lasts.get(sender, -1) for sender, last in lasts.items()}
        changed = {sender: last for sender, last in before.items() if last != lasts[sender]}
        if changed:
            self._changes.append((now, changed))
        self._lasts = lasts
        while self._changes and self._changes[0][0] < now - KEPT_S:
            self._changes.popleft()

    def at(self, when: float, lasts: Horizon) -> Horizon:
        """How far senders were at `when`, or a little before, if they are so far now."""
        then = {sender: self._lasts.get(sender, -1) for sender in lasts}
        for at, before in reversed(self._changes):
            if at <= when:
                break
            then.update((sender, last) for sender, last in before.items() if sender in then)
        return then
