"""What one member lacks, and when it asks everybody for it (SRM).

A *loss* is some packets of one sender that share a timer. When the timer goes off they are asked for; whether this
member asks or hears another one ask, the timer is set again, each time for twice as long. What another one asks for
until half of that time has passed belongs to the same round of requests, and changes nothing (the ignore-backoff rule).
"""

from collections.abc import Callable, Collection, Iterator
from heapq import heappop, heappush
from itertools import count as counter
from math import inf

from gossamer.core.ladder import Ladder
from gossamer.core.packet_sets import PacketSets, take
from gossamer.core.ranges import RangeSet
from gossamer.repair.srm_timers import Spread, distance

_LOSSES_MAX = 128
"""Losses of one sender that have timers of their own; further ones share that of the latest."""
_DOUBLINGS, _PAUSE_S = 5, 1.0
"""Pauses double this often, and then until they are this long."""
_FUTILE_TRIES = 4
"""What was asked for this often does not keep anything else from being asked for."""
_FARTHER = 1.5


class Loss:
    """Some packets that are missing. `tries` counts the requests for them, ours and others'."""

    __slots__ = ("asked_here", "due", "found_at", "ignore_until", "numbers", "sender", "tries")

    def __init__(self, sender: int, numbers: RangeSet, found_at: float) -> None:
        self.sender = sender
        self.numbers = numbers
        self.found_at = found_at
        self.due = 0.0
        self.tries = 0
        self.ignore_until = 0.0
        self.asked_here = False
        """Whether the first of those requests was ours."""

    @property
    def is_futile(self) -> bool:
        """Whether it was asked for so often that nobody seems to have it."""
        return self.tries >= _FUTILE_TRIES

    def split_off(self, numbers: RangeSet) -> "Loss":
        """Some of it becomes a loss of its own, with the same past."""
        part = Loss(self.sender, numbers, self.found_at)
        part.due, part.tries, part.ignore_until = self.due, self.tries, self.ignore_until
        part.asked_here = self.asked_here
        self.numbers.subtract(numbers)
        return part


class Losses:
    """All losses of one member."""

    __slots__ = ("_adapts", "_by_sender", "_heap", "_ladder", "_order", "_patience", "_requests")

    def __init__(self, ladder: Ladder, requests: Spread, patience: Callable[[], float]) -> None:
        """`patience` says for how long anything is asked for."""
        self._ladder = ladder
        self._patience = patience
        self._requests = requests
        self._adapts = ladder.settings.adaptive_timers
        self._by_sender: dict[int, list[Loss]] = {}
        self._heap: list[tuple[float, int, Loss]] = []  # a loss whose `due` is another has moved
        self._order = counter()

    def __iter__(self) -> Iterator[Loss]:
        return (loss for losses in self._by_sender.values() for loss in losses)

    def next_due(self) -> float:
        """When the next timer goes off; infinity if there is none."""
        heap = self._heap
        while heap and (heap[0][2].due != heap[0][0] or not heap[0][2].numbers):
            heappop(heap)
        return heap[0][0] if heap else inf

    def take_due(self, now: float) -> list[Loss]:
        """The losses whose timers have gone off; each must be set again, or removed."""
        due = []
        while self.next_due() <= now:
            due.append(heappop(self._heap)[2])
        return due

    def asked_for(self, except_for: Collection[Loss]) -> int:
        """How many packets of other losses may be on their way, because somebody has asked for them."""
        asked = (loss for loss in self if loss.tries and not loss.is_futile)
        return sum(len(loss.numbers) for loss in asked if loss not in except_for)

    # Packets come and go.

    def found(self, now: float, sender: int, first: int, last: int) -> None:
        """These are missing: a timer for a request of ours."""
        losses = self._by_sender.setdefault(sender, [])
        if len(losses) >= _LOSSES_MAX:
            losses[-1].numbers.add(first, last)
            losses[-1].found_at = now
            return
        self._requests.begin(len(self._ladder.roster))
        loss = Loss(sender, RangeSet.span(first, last), now)
        losses.append(loss)
        self.set(now, loss)

    def remove(self, sender: int, first: int, last: int) -> bool:
        """These are not missing any more, or not our business; returns whether any was."""
        losses = self._by_sender.get(sender)
        if losses is None:
            return False
        there = 0
        for loss in losses:
            numbers = loss.numbers
            if numbers.firsts and numbers.firsts[0] <= last and first <= numbers.lasts[-1]:
                there += numbers.discard(first, last)
        if there:
            self._drop_empty(sender, losses)
        return there > 0

    def _drop_empty(self, sender: int, losses: list[Loss]) -> None:
        left = [loss for loss in losses if loss.numbers]
        if left:
            self._by_sender[sender] = left
        else:
            del self._by_sender[sender]

    def clear(self) -> None:
        """Nothing is missing any more."""
        self._by_sender.clear()
        self._heap.clear()

    def cut(self, loss: Loss, packets: int) -> Loss:
        """The first `packets` of a loss, as a loss of its own; all of it if there are too many losses."""
        if len(loss.numbers) <= packets:
            return loss
        front = take({loss.sender: loss.numbers}, packets)
        return self._split(loss, front[loss.sender]) or loss

    def rejoin(self, now: float, loss: Loss, packets: int) -> None:
        """Parts of what was found at once, and is futile, are one loss again, of some `packets` at most.

        Else each would be asked for on its own, for as long as there is patience. What another one has just asked for
        stays apart.
        """
        losses = self._by_sender[loss.sender]
        for other in losses:
            apart = other is loss or not other.is_futile or now < other.ignore_until
            if not apart and other.found_at == loss.found_at and len(loss.numbers) + len(other.numbers) <= packets:
                loss.numbers.update(other.numbers)
                other.numbers = RangeSet()
        self._drop_empty(loss.sender, losses)

    def _split(self, loss: Loss, numbers: RangeSet) -> Loss | None:
        losses = self._by_sender[loss.sender]
        if len(losses) >= 2 * _LOSSES_MAX:
            return None
        part = loss.split_off(numbers)
        losses.append(part)
        heappush(self._heap, (part.due, next(self._order), part))
        return part

    # Timers.

    def set(self, now: float, loss: Loss) -> None:
        """Draw the time of the next request: [2^i C1 d, 2^i (C1 + C2) d], i the requests so far."""
        ladder = self._ladder
        d = distance(ladder, loss.sender)
        wait = self._requests.draw(d, len(ladder.roster), ladder.rng)
        base = 3 if self._adapts else 2  # 3 where intervals may be narrow
        longest = max(wait * base**_DOUBLINGS, _PAUSE_S)
        due = now + min(wait * float(base ** min(loss.tries, 2 * _DOUBLINGS)), longest)
        loss.due = min(due, max(now, loss.found_at + self._patience()))
        heappush(self._heap, (loss.due, next(self._order), loss))

    def back_off(self, now: float, loss: Loss) -> None:
        """Somebody has asked for it: wait twice as long, and take further requests soon for the same one."""
        loss.tries += 1
        self.set(now, loss)
        loss.ignore_until = now + (loss.due - now) / 2

    def asked_by_us(self, now: float, loss: Loss) -> None:
        """The request has gone out."""
        if not loss.tries:
            loss.asked_here = True
            self._requests.spoke(len(self._ladder.roster))
            self._first_request(now, loss)
        self.back_off(now, loss)

    def asked_by_other(self, now: float, sender: int, numbers: RangeSet, their_distance: float) -> None:
        """Another member has asked for these, and is this far from their sender."""
        for loss in list(self._by_sender.get(sender, ())):
            if loss.numbers.last < numbers.first or numbers.last < loss.numbers.first:
                continue
            common = loss.numbers.intersection(numbers)
            part = loss if len(common) == len(loss.numbers) else self._split(loss, common) if common else None
            if part is not None:
                self._heard(now, part, their_distance)

    def _heard(self, now: float, loss: Loss, their_distance: float) -> None:
        if now >= loss.ignore_until:
            if not loss.tries:
                self._first_request(now, loss)
            self.back_off(now, loss)
        elif loss.tries == 1:
            self._requests.duplicates += 1
            if loss.asked_here and their_distance > _FARTHER * distance(self._ladder, loss.sender):
                self._requests.duplicate_from_afar()

    def _first_request(self, now: float, loss: Loss) -> None:
        self._requests.delayed((now - loss.found_at) / (2 * distance(self._ladder, loss.sender)))


def merged(losses: list[Loss]) -> PacketSets:
    """All packets of these losses."""
    wanted: PacketSets = {}
    for loss in losses:
        wanted.setdefault(loss.sender, RangeSet()).update(loss.numbers)
    return wanted
