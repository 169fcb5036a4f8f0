"""The queue of repairs: what others asked of this member, in order, within its service limit.

A request waits in a queue that is drained as fast as the limit allows (000 §7.1: a node can serve only a limited number
of requests a second). The queue is bounded; what does not fit is dropped, and its requester asks again. No requester
may take more than half of the room that the others leave, so that there is always some for one more, however much those
before it asked for. A packet that waits for a requester is not queued for it twice.

Repairs share the path with what the member publishes: `paced_by` gives the budget of its sender, in addition to the
limit. And where requests are limited to what a path carries (`request_packets`), answers are `smooth`: no more at a
time than the limit allows in two or three milliseconds, so that many requests at once make no burst.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Protocol

from gossamer.core.budget import Budget
from gossamer.core.effects import Effect
from gossamer.core.packet_sets import PacketSets
from gossamer.core.ranges import RangeSet
from gossamer.core.timers import Timers

_PACE_S, _SMOOTH_PACE_S = 0.005, 0.001
"""A busy server sends a few packets this often, rather than one at a time."""
_SMOOTH_BURST_S = 0.0025
"""What a smooth one may send at once: timers are a millisecond late, or two, and that must not slow it down."""

Send = Callable[[int, int, int, int, list[Effect]], None]
"""Called with requester, sender, first, last and the effects: sends that range."""


class PathBudget(Protocol):
    """What the path of a member's own sender carries, beside what that sends."""

    def take(self, now: float, wanted: int) -> int:
        """How many of `wanted` packets may be sent at `now`; they are spent."""

    def when(self, now: float) -> float:
        """When the next packet may be sent."""


class RepairQueue:
    """The repairs that one member is going to send."""

    __slots__ = ("_budget", "_pace", "_path", "_queue", "_queued", "_room", "_size", "_timer", "_waiting")

    def __init__(self, limit: int, queue_packets: int, timers: Timers, *, smooth: bool = False) -> None:
        self._budget = Budget(limit, max(1.0, limit * _SMOOTH_BURST_S) if smooth else 0.0)
        self._pace = _SMOOTH_PACE_S if smooth else _PACE_S
        self._path: PathBudget | None = None
        self._queue: deque[tuple[int, int, Send]] = deque()  # requester, sender, how
        self._waiting: dict[tuple[int, int, Send], RangeSet] = {}
        self._size = self._room = queue_packets
        self._queued: dict[int, int] = {}  # by requester: the packets that wait for it
        self._timer = timers.new(self._drain)

    def paced_by(self, path: PathBudget) -> None:
        """From now on repairs are sent within this budget, too."""
        self._path = path

    def enqueue(self, now: float, requester: int, wanted: PacketSets, send: Send, out: list[Effect]) -> None:
        """Send `wanted` to `requester` by `send`, as soon as the limit allows."""
        for sender, numbers in wanted.items():
            self._enter((requester, sender, send), numbers)
        self._drain(now, out)

    def take(self, now: float, wanted: int = 1) -> int:
        """How many of `wanted` repairs may be sent at once, past the queue; they count against the limit."""
        if self._path is not None:
            wanted = self._path.take(now, wanted)
        return self._budget.take(now, wanted) if wanted else 0

    def _when(self, now: float) -> float:
        path = 0.0 if self._path is None else self._path.when(now)
        return max(path, self._budget.when(now), now + self._pace)

    def _drain(self, now: float, out: list[Effect]) -> None:
        while self._queue:
            key = self._queue[0]
            waiting = self._waiting[key]
            first, last = waiting.ranges()[0]
            granted = self.take(now, last - first + 1)
            if granted:
                key[2](key[0], key[1], first, first + granted - 1, out)
                waiting.discard(first, first + granted - 1)
                self._free(key[0], granted)
            if not waiting:
                del self._waiting[self._queue.popleft()]
            elif not granted:
                self._timer.set(self._when(now))
                return
            else:
                self._queue.rotate(-1)  # the next requester's turn
        assert self._room == self._size, "an empty queue has all of its room"
        self._timer.set(inf)

    def _free(self, requester: int, packets: int) -> None:
        self._room += packets
        self._queued[requester] -= packets
        assert self._room <= self._size
        assert self._queued[requester] >= 0
        if not self._queued[requester]:
            del self._queued[requester]

    def _enter(self, key: tuple[int, int, Send], numbers: RangeSet) -> None:
        waiting = self._waiting.get(key)
        fresh = numbers if waiting is None else numbers.difference(waiting)
        queued = self._queued.get(key[0], 0)
        share = (self._room + queued + 1) // 2
        for first, last in fresh.ranges():
            last = min(last, first + share - queued - 1)
            if last < first:
                break
            if waiting is None:
                waiting = self._waiting[key] = RangeSet()
                self._queue.append(key)
            waiting.add(first, last)
            queued += last - first + 1
            self._room -= last - first + 1
        assert self._room >= 0
        if queued:
            self._queued[key[0]] = queued
