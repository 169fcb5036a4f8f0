"""How many packets a member may have asked for at a time, so that the answers fill its path and no queue on it.

A receiver knows best what its own path carries: it asks for as much as comes back without waiting on the way. The law
is that of FAST TCP (Wei, Jin, Low and Hegde, 2006): once in a round trip, w becomes w * good / time + spare, halfway,
where `time` is how long an answer took, from request to repair, and `good` is hardly more than it takes when nothing
waits. Little's law makes that what the path holds, and a few packets more, which wait somewhere. The time is the
shortest of the round trip: packets that come in a clump wait for each other, which is no sign of a full path, but then
the first of them does not wait (as in CoDel). While answers come in good time the window grows by a quarter in each
round trip, by one for every fourth packet, so that no burst of requests makes a queue.

Not all delay is a queue that we have made: a logger may be busy with its disk. So the window also grows as long as that
pays, and now and then to see whether it would.

Packets that do not come say little: a line may be bad, and a peer may lack what it is asked for. Delay says what loss
cannot: that there is a queue. Only if most of what was asked for has not come is the window halved; and where a queue
is too short to show in the delay, the window is cut to what comes through it (`overflow`).

A queue that others keep full does not go when we ask for less: a window that only looked at the delay would be left
with next to nothing. If it is known what the path carries in all, we insist on half of that. On our own this changes
nothing, because half of what the path carries makes no queue. Nor does a quarter of what comes by itself, the first
pass of others: that much is always asked for, or a member on a busy host, where everything takes long, would ask for
what it lost in many small requests, each of which costs it and others more than the packets.

All that a member asks for comes to it on the same path, whatever rung asks, and whomever. So there is one window for
all of them: two would each keep a queue, each take that of the other for one that others keep full, and together insist
on the whole path. Each rung may have its part of the window on its way, and what the others do not want.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from gossamer.core.answer_times import AnswerTimes
from gossamer.core.overflow import Overflow

_FIRST, _LEAST = 32, 16
DELAY_S = 0.001
"""And what comes in this time, so that a fast path does not run dry between two turns of an event loop."""
_JITTER = 1 / 16
"""An answer that takes this much longer than the best is still in good time."""
_EPOCH_S = 10.0
"""A best time is forgotten after two of these: the path may be another by then. In each we look again, with hardly
anything on the way."""
_CLOCK_S = 1e-6
"""No answer is faster than the clock."""
_GROWTH = 1.25
_PEERS_MAX = 1000
_INSIST = 0.5
"""The share of what the path carries that we do not leave to others."""
_BESIDE = 0.25
"""The share of what comes by itself that may be asked for beside it."""
_OVERLOAD, _ERODE = 0.25, 0.7
"""If more than this share does not come, the path carries less than we thought, by that factor."""
_RISE_S, _FADE_S = 0.1, 1.0
"""How fast what comes by itself is measured over about the first time, and remembered for the second: if it stops, its
sender may wait for what we lack."""
_TRY = 8
"""At every so many changes we try a larger window, whatever the delay."""
_GROWN = 0.1


class Asker(Protocol):
    """A rung that asks for packets, as far as it concerns the window."""

    wanted_count: int
    """How many packets it wants."""


class _Period(NamedTuple):
    """What came between two changes of the window."""

    end: float
    size: int
    rate: float

    def pays(self, before: "_Period") -> bool:
        """Whether a larger window has brought more: on a full path it brings nothing but delay."""
        grown = self.size / before.size - 1
        return grown > _GROWN and self.rate > before.rate * (1 + grown / 2)


class RequestWindow:
    """The window of a member that asks; `limit` is the most it may ever be."""

    __slots__ = (
        "_arriving",
        "_askers",
        "_beside",
        "_best",
        "_came",
        "_carried",
        "_changes_at",
        "_epoch",
        "_fraction",
        "_goal",
        "_last",
        "_limit",
        "_missed",
        "_needed",
        "_overflow",
        "_ratio",
        "_times",
        "_trust",
        "_turn",
        "_waits",
        "arrived",
        "size",
    )

    def __init__(self, limit: int, carried: Callable[[], float] = float) -> None:
        """`carried` is what the path carries in all, in packets per second, or 0 if that is not known."""
        self.size = min(_FIRST, limit)
        self._limit = limit
        self._askers: list[Asker] = []
        self._carried = carried
        self._trust = 1.0  # in what we are told of that
        self._goal = self.size  # to which it grows
        self._arriving = 0.0  # packets a second that came by themselves, lately
        self._beside = 0.0  # it is never less, because of these
        self._best: tuple[dict[int, float], dict[int, float]] = {}, {}  # by peer: in this epoch, and the one before
        self._epoch = self._changes_at = 0.0
        self._times = AnswerTimes()
        self._came = self._missed = 0
        self.arrived = 0
        """Packets that came by themselves, since the last change: who hears them counts them here."""
        self._ratio = 0.0  # since the last change: a good time, as a share of the shortest that an answer took
        self._last = _Period(0.0, self.size, 0.0)
        self._turn = 0
        self._overflow = Overflow()
        self._waits = False  # whether answers have waited somewhere, before the last change
        self._fraction = 0.0  # of a packet by which the window has grown
        self._needed = False

    def shared_by(self, asker: Asker) -> None:
        """This one asks, too."""
        self._askers.append(asker)

    def part_of(self, asker: Asker) -> int:
        """How many packets this one may have on their way: what is left of the window by the others' equal parts.

        Those that want less than that leave the rest to all that want more.
        """
        left, others = self.size, [other.wanted_count for other in self._askers if other is not asker]
        if not any(others):
            return left
        for at, wanted in enumerate(sorted(others)):
            left -= min(wanted, left // (len(others) + 1 - at))
        return left

    def needed(self) -> None:
        """There is more to ask for than the window allows: a larger one would be used."""
        self._needed = True

    def came(self, packets: int) -> None:
        """These were asked for and are here."""
        self._came += packets
        if self.size < self._goal:
            self._fraction += packets * (_GROWTH - 1)
            self.size = min(self._goal, self.size + int(self._fraction))
            self._fraction %= 1

    def missed(self, packets: int) -> None:
        """These were asked for and have not come in time."""
        self._missed += packets
        if self._times.missed(packets, self.size):
            self._arriving = self._beside = 0.0  # nothing has come for so long that nothing is known
            self._resize(self.size // 2)

    def answered(self, now: float, asked_at: float, asked: int, missing: int) -> None:
        """A request for `asked` packets is over; so many of them have not come.

        As long as little is asked for beside what comes by itself, that says nothing of queues.
        """
        if self.size <= self._beside:
            return
        if self._overflow.answered(now, asked_at, asked, missing, self.size, waiting=self._waits):
            self._resize(round(max(self._overflow.within(self.size), self._beside)))

    def measured(self, now: float, peer: int, seconds: float) -> None:
        """A packet has come from `peer` this long after it was asked for."""
        seconds = max(seconds, _CLOCK_S)
        best = self._best_of(now, peer, seconds)
        self._ratio = max(self._ratio, (best + _JITTER * best + DELAY_S) / seconds)
        self._times.measured(seconds)
        if now >= self._changes_at:
            self._change(now)

    def _best_of(self, now: float, peer: int, seconds: float) -> float:
        if now - self._epoch > _EPOCH_S or len(self._best[0]) > _PEERS_MAX:
            self._best = {}, self._best[0]
            self._epoch = now
            self._overflow.forget()
            self._resize(self.size // 4)  # what waits for us on the way would pass for the path's own time
        this, before = self._best
        this[peer] = min(seconds, this.get(peer, seconds))
        return min(this[peer], before.get(peer, seconds))

    def _change(self, now: float) -> None:
        passed = max(now - self._last.end, _CLOCK_S)
        before, self._last = self._last, _Period(now, self.size, self._came / passed)
        self._turn += 1
        least = self._insisted()
        if self._missed > self._came:
            size = self.size / 2
        elif self._ratio >= 1.0 or self._turn % _TRY == 0 or self._last.pays(before):
            size = _GROWTH * self.size
        else:
            size = (self.size + self.size * self._ratio + self._overflow.spare) / 2
        more = self.arrived / passed - self._arriving
        self._arriving += more * min(1.0, passed / (_RISE_S if more > 0 else _FADE_S))
        self._beside = _BESIDE * self._arriving * self._times.usual
        size = max(self._overflow.within(max(size, least)), self._beside)
        if size < self.size or self._needed:
            self._resize(round(size))
        self._changes_at = now + self._times.usual
        self._came = self._missed = self.arrived = 0
        self._waits = self._ratio < 1.0
        self._ratio, self._needed = 0.0, False

    def _insisted(self) -> float:
        """As many packets as our share of the path brings in the time that an answer takes."""
        lost = self._missed / max(1, self._missed + self._came)
        self._trust = self._trust * _ERODE if lost > _OVERLOAD else min(1.0, self._trust / _ERODE)
        return self._trust * _INSIST * self._carried() * self._times.usual

    def _resize(self, size: int) -> None:
        self._goal = min(self._limit, max(_LEAST, size))
        self.size = min(self.size, self._goal)
