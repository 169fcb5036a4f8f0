"""A window that waits for the slowest member (004 §2): a sender has at most so many packets that are not stable.

This is what a virtually synchronous protocol does, and what 004 measures: buffers stay small, nobody is left behind,
and one member that is slow to acknowledge slows down all. What may not go yet waits, in order, in a queue of at most
`queue_packets`; beyond that publishing is refused.
"""

from collections import deque
from collections.abc import Sequence

from gossamer.core.declares import STABILITY_TOLD, Declares
from gossamer.core.effects import Refuse
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.parts import Pace, PaceLimits
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings


class SlowestWindow(Pace):
    """The queue of what is published and has to wait, and how far everybody has what was sent."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._size = ladder.settings.unstable_packets
        self._queue: deque[bytes] = deque()
        self._floor = 0
        self._held_by = "application"
        self._timer = ladder.timer(self._release)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Somebody has to say what is stable."""
        return Declares(needs=(STABILITY_TOLD,))

    def started(self, now: float, out: Effects) -> None:
        """Nothing was sent yet."""
        self._floor = self.ladder.first_number

    def stabilized(self, now: float, sender: int, last: int, out: Effects) -> None:
        """There may be room."""
        if sender == self.ladder.me and last >= self._floor:
            self._floor = last + 1
            self._release(now, out)

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """Senders were stopped while the view changed."""
        self._release(now, out)

    def admit(self, now: float, bodies: Sequence[bytes], out: Effects, channel: int = 0) -> Sequence[bytes]:
        """Take what may not go yet, or has others in front of it."""
        going = 0 if self._queue else min(len(bodies), self._may_go())
        waiting = bodies[going:]
        if waiting and self.ladder.is_member:
            room = max(0, self.room())
            out.extend(Refuse(body, self._held_by) for body in waiting[room:])
            self._queue.extend(waiting[:room])
            self._timer.arm(now + self.ladder.settings.retry_period)
            return bodies[:going]
        return bodies

    def room(self) -> int:
        """How many more packets the queue takes."""
        return self.ladder.settings.queue_packets - len(self._queue)

    def unsent(self) -> int:
        """These have no number yet."""
        return len(self._queue)

    def buffered(self) -> int:
        """What waits is kept here."""
        return len(self._queue)

    def limits(self) -> PaceLimits:
        """What the sender waits for."""
        return PaceLimits(held_by=self._held_by)

    def leaving(self, now: float, out: Effects) -> None:
        """What still waits will not be sent: say so."""
        out.extend(Refuse(body, "leaving") for body in self._queue)
        self._queue.clear()

    def _release(self, now: float, out: Effects) -> None:
        while self._queue and (going := min(len(self._queue), self._may_go())):
            self.ladder.publish(now, [self._queue.popleft() for _ in range(going)], out)
        if self._queue:
            self._timer.set(now + self.ladder.settings.retry_period)
        else:
            self._held_by = "application"

    def _may_go(self) -> int:
        reason = self.ladder.full()
        room = self._floor + self._size - self.ladder.streams[self.ladder.me].next
        if reason or room <= 0:
            self._held_by = reason or "the slowest member"
            return 0
        return room
