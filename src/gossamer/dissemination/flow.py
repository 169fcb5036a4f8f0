"""Flow control at the sender (004 §5): how fast, and how much at a time, a member may publish.

`rate_limit` spaces packets evenly, 1/rate_limit apart, so that no second sees more than the limit. `admission` holds
new packets back while that many, of any sender, are buffered here: as old ones are collected, new ones are admitted.
What may not go yet waits, in order, in a queue of at most `send_buffer`; beyond that publishing is refused.
"""

from collections import deque
from collections.abc import Mapping

from gossamer.core.effects import Refuse
from gossamer.core.ladder import Effects, Ladder, Rung, TimerHandler

_TIMER = "flow"


class Flow(Rung):
    """The queue of what is published and may not be sent yet."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._queue: deque[bytes] = deque()
        self._interval = 1.0 / ladder.settings.rate_limit if ladder.settings.rate_limit else 0.0
        self._free_at = 0.0  # when the rate allows the next packet

    def alarms(self) -> Mapping[str, TimerHandler]:
        """The time at which the next packet may go."""
        return {_TIMER: self._release}

    def buffered(self) -> int:
        """What waits is kept here."""
        return len(self._queue)

    def holds(self, now: float, body: bytes, out: Effects) -> bool:
        """Take what may not go yet, or has others in front of it."""
        if not self._queue and self._wait(now) == 0:
            self._pay(now)
            return False
        if len(self._queue) >= self.ladder.settings.send_buffer:
            out.append(Refuse(body, "send buffer"))
            return True
        self._queue.append(body)
        if len(self._queue) == 1:
            self.ladder.timers.set(_TIMER, now + self._wait(now))
        return True

    def leave_asked(self, now: float, out: Effects) -> None:
        """What still waits will not be sent: say so."""
        out.extend(Refuse(body, "leaving") for body in self._queue)
        self._queue.clear()

    def _release(self, now: float, out: Effects) -> None:
        while self._queue:
            wait = self._wait(now)
            if wait > 0:
                self.ladder.timers.set(_TIMER, now + wait)
                return
            self._pay(max(self._free_at, now - self._interval))  # a late timer does not slow the sender down
            self.ladder.publish(now, self._queue.popleft(), out)

    def _wait(self, now: float) -> float:
        """How long the next packet has to wait; for a collection it is looked at again after a round."""
        settings = self.ladder.settings
        if settings.admission and len(self.ladder.buffer) >= settings.admission:
            return settings.gossip_period
        return max(0.0, self._free_at - now)

    def _pay(self, at: float) -> None:
        self._free_at = at + self._interval
