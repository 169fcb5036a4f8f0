"""The basic algorithm (001 §3): the source repeats a packet to each member until that member acknowledges it.

Simple and reliable, and the yardstick for everything else: every packet costs an acknowledgement per member,
and after a partition the source repeats everything to each member on its own.
"""

from collections import deque
from collections.abc import Mapping

from gossamer.core.budget import Budget
from gossamer.core.effects import Unicast
from gossamer.core.ids import PEER, Phase
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung, TimerHandler
from gossamer.core.messages import Ack, Repair
from gossamer.core.packets import Packet, Run
from gossamer.core.ranges import RangeSet

_RETRY = "acknowledged.retry"


class _Unacknowledged:
    """A packet and the members that have not acknowledged it, in their order."""

    __slots__ = ("packet", "waiting")

    def __init__(self, packet: Packet, waiting: dict[int, None]) -> None:
        self.packet = packet
        self.waiting = waiting


class Acknowledged(Rung):
    """Both halves: a source that repeats, a receiver that acknowledges every copy it gets."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._kept: dict[int, _Unacknowledged] = {}
        self._retries: deque[tuple[float, int]] = deque()  # (when, seqno), in order of time
        self._budget = Budget(self.ladder.settings.service_limit)

    def messages(self) -> Mapping[type, MessageHandler]:
        """Acknowledgements come here."""
        return {Ack: self._acknowledged}

    def alarms(self) -> Mapping[str, TimerHandler]:
        """One timer: the earliest repetition."""
        return {_RETRY: self._repeat}

    def full(self) -> str:
        """The send buffer is bounded."""
        return "send buffer" if len(self._kept) >= self.ladder.settings.send_buffer else ""

    def buffered(self) -> int:
        """Packets kept until everybody has acknowledged them."""
        return len(self._kept)

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Keep them until everyone has acknowledged them."""
        waiting = {member: None for member in self.ladder.peers.all() if member != self.ladder.me}
        for packet in run if waiting else ():
            self._kept[packet.seqno] = _Unacknowledged(packet, dict(waiting))
            self._schedule(now, packet.seqno)

    def view_changed(self, now: float, joined: tuple[int, ...], left: tuple[int, ...], out: Effects) -> None:
        """Nobody waits for a member that left."""
        for seqno in list(self._kept):
            for member in left:
                self._count(seqno, member)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """Acknowledge what is new ..."""
        self._acknowledge(source, run, out)

    def _acknowledge(self, source: int, run: Run, out: Effects) -> None:
        out.append(Unicast(source, Ack({run[0].sender: RangeSet([(run[0].seqno, run[-1].seqno)])})))

    def repeated(self, now: float, source: int, run: Run, out: Effects) -> None:
        """... and what is not: the earlier acknowledgement may be the one that was lost."""
        self._acknowledge(source, run, out)

    def _acknowledged(self, now: float, source: int, ack: Ack, out: Effects) -> None:
        oldest = next(iter(self._kept), 0)  # numbers only grow, so the first kept is the oldest
        newest = self.ladder.streams[self.ladder.me].next - 1  # an ack beyond it is broken or hostile
        for first, last in ack.have.get(self.ladder.me, RangeSet()).within(oldest, newest):
            for seqno in range(first, last + 1):
                self._count(seqno, source)

    def _count(self, seqno: int, member: int) -> None:
        kept = self._kept.get(seqno)
        if kept is None:
            return
        kept.waiting.pop(member, None)
        if not kept.waiting:
            del self._kept[seqno]

    def _repeat(self, now: float, out: Effects) -> None:
        while self._retries and self._retries[0][0] <= now:
            _, seqno = self._retries.popleft()
            if seqno in self._kept:
                kept = self._kept[seqno]
                granted = self._budget.take(now, len(kept.waiting))
                out.extend(Unicast(m, Repair(kept.packet, PEER)) for m in list(kept.waiting)[:granted])
                self._schedule(now, seqno)
        self._arm()

    def _schedule(self, now: float, seqno: int) -> None:
        self._retries.append((now + self.ladder.settings.retry_period, seqno))
        if len(self._retries) == 1:
            self._arm()

    def _arm(self) -> None:
        self.ladder.timers.set(_RETRY, self._retries[0][0] if self._retries else float("inf"))
