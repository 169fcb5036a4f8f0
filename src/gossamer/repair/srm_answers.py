"""The repairs that one member is about to multicast (SRM).

Anybody who has a packet that somebody asked for sets a timer. The first whose timer goes off sends it to all, and the
others, who hear that, are silent. Then nobody answers further requests for it for three times the distance to the
member that asked (or to the packet's sender): they were sent before the repair was heard.
"""

from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from gossamer.core.effects import Multicast
from gossamer.core.ids import PEER
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.messages import Repair
from gossamer.core.packets import Packet, Run
from gossamer.core.ranges import RangeSet
from gossamer.repair.srm_timers import Spread, distance

PACKETS_MAX = 256
"""Packets of one request that are answered: whoever needs more asks again."""
_QUIET_MAX = 10_000
"""Packets that were repaired a short while ago, and are remembered."""
_HOLD_DISTANCES = 3.0

_Key = tuple[int, int]


class _Answer(NamedTuple):
    """A packet that somebody asked for."""

    due: float
    requester: int
    asked_at: float


class Answers:
    """What is going to be sent, and what was sent or heard so recently that it is not sent again."""

    __slots__ = ("_heap", "_ladder", "_pending", "_quiet", "_repairs")

    def __init__(self, ladder: Ladder, repairs: Spread) -> None:
        self._ladder = ladder
        self._repairs = repairs
        self._pending: dict[_Key, _Answer] = {}
        self._heap: list[tuple[float, int, int]] = []  # when, sender, number; another time if it has moved
        self._quiet: dict[_Key, float] = {}  # until when

    def next_due(self) -> float:
        """When the next timer goes off; infinity if there is none."""
        heap = self._heap
        while heap:
            due, sender, seqno = heap[0]
            answer = self._pending.get((sender, seqno))
            if answer is not None and answer.due == due:
                return due
            heappop(heap)
        return inf

    def asked(self, now: float, requester: int, sender: int, numbers: RangeSet) -> None:
        """`requester` lacks these: a timer for each of them that is here."""
        kept, *others = [k.kept_of(sender, numbers) for k in self._ladder.keepers if not k.on_disk]  # the log is asked
        for also in others:
            kept.update(also)
        room = min(PACKETS_MAX, self._ladder.settings.service_queue - len(self._pending))
        begun = False
        for _, seqno in zip(range(room), kept, strict=False):
            key = sender, seqno
            if key not in self._pending and self._quiet.get(key, 0.0) <= now:
                if not begun:
                    self._repairs.begin(len(self._ladder.roster))
                    begun = True
                self._set(now, key, requester, now)

    def _set(self, now: float, key: _Key, requester: int, asked_at: float) -> None:
        ladder = self._ladder
        wait = self._repairs.draw(distance(ladder, requester), len(ladder.roster), ladder.rng)
        self._pending[key] = _Answer(now + wait, requester, asked_at)
        heappush(self._heap, (now + wait, *key))

    def heard(self, now: float, run: Run) -> bool:
        """Another one has sent this to everybody; returns whether we were about to.

        Everybody hears every repair, and mostly not the first: that takes as little as it can.
        """
        pending, quiet = self._pending, self._quiet
        spared = False
        for packet in run:
            key = packet.sender, packet.seqno
            if key in quiet and quiet[key] > now and key not in pending:
                self._repairs.duplicates += 1
                continue
            answer = pending.pop(key, None)
            self._done(now, key, answer)
            spared = spared or answer is not None
        return spared

    def send_due(self, now: float, out: Effects) -> None:
        """Send what nobody else has sent, within the service limit; what has to wait draws another time."""
        while self.next_due() <= now:
            _, sender, seqno = heappop(self._heap)
            answer = self._pending.pop((sender, seqno))
            packet = self._packet(sender, seqno)
            if packet is None:
                continue  # collected meanwhile
            if not self._ladder.repair_queue.take(now):
                self._set(now, (sender, seqno), answer.requester, answer.asked_at)
                continue
            out.append(Multicast(Repair(packet, PEER)))
            self._repairs.spoke(len(self._ladder.roster))
            self._done(now, (sender, seqno), answer)

    def _packet(self, sender: int, seqno: int) -> Packet | None:
        found = (keeper.get(sender, seqno) for keeper in self._ladder.keepers if not keeper.on_disk)
        return next((packet for packet in found if packet is not None), None)

    def _done(self, now: float, key: _Key, answer: _Answer | None) -> None:
        d = distance(self._ladder, key[0] if answer is None else answer.requester)
        if answer is not None:
            self._repairs.delayed((now - answer.asked_at) / (2 * d))
        self._quiet.pop(key, None)
        self._quiet[key] = now + _HOLD_DISTANCES * d
        oldest = next(iter(self._quiet))
        while self._quiet[oldest] <= now or len(self._quiet) > _QUIET_MAX:
            del self._quiet[oldest]
            oldest = next(iter(self._quiet))
