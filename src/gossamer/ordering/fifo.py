"""FIFO per sender: packets and losses of one sender reach the application in the order of their numbers.

Whose turn it is, is not kept here: it is everything below the first number that is still awaited, which the stream
knows. So a packet that follows on costs nothing, and what is early waits in a heap by its number. What waits is
limited in memory: beyond that, first passes are not taken in and nothing is asked for that would have to wait, until
there is room again. The last part of the memory is for senders of which little waits: what one awaits for long does not
stop the others. What follows on waits together, so that hundreds of thousands of packets that waited for one are few
things to look at when it comes.
"""

from heapq import heapify, heappop, heappush
from itertools import count

from gossamer.core.declares import HOLDING_BACK, Declares
from gossamer.core.effects import Deliver, ReportLost
from gossamer.core.ids import FIRST_PASS, Phase
from gossamer.core.inputs import Received
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import PacketSets, put
from gossamer.core.packets import Run, memory_of
from gossamer.core.parts import Order
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings
from gossamer.core.streams import Stream

_LITTLE, _FOR_LITTLE = 1 / 64, 1 / 8
"""What part of the memory is little, for one sender, and how much of it is only for senders of which little waits."""


class Waiting:
    """Packets that follow on and came by the same rung."""

    __slots__ = ("following", "phase", "run", "size_bytes")

    def __init__(self, run: Run, phase: Phase) -> None:
        self.run = list(run)  # our own: others may share the one that came
        self.phase = phase
        self.following = run[-1].seqno + 1
        self.size_bytes = 0

    def take(self, run: Run, size_bytes: int) -> None:
        """These follow on."""
        self.run += run
        self.following = run[-1].seqno + 1
        self.size_bytes += size_bytes


Held = tuple[int, int, Waiting | ReportLost | None]
"""Its first number, which came first, and what waits for its turn; nothing, if it turned out that it never was.

A loss and a packet may have the same number: what others had only spoken of was given up, and then its sender sent it.
"""


class Fifo(Order):
    """Holds back what is early; a gap that is given up takes its turn as a loss."""

    __slots__ = ("_bytes", "_bytes_of", "_ends", "_held", "_limit", "_turns")

    holds_back = True
    replays = True

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._held: dict[int, list[Held]] = {}
        self._ends: dict[tuple[int, int, Phase], Waiting] = {}  # by sender, the number that would follow on, and rung
        self._bytes = 0
        self._bytes_of: dict[int, int] = {}
        self._limit = ladder.settings.hold_bytes
        self._turns = count()

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """The order of each sender."""
        return Declares(promises=("fifo",), provides=(HOLDING_BACK,))

    def is_full(self) -> bool:
        """Whether senders of which much waits have no room for more."""
        return 0 < self._limit * (1 - _FOR_LITTLE) <= self._bytes

    def has_room_for(self, sender: int) -> bool:
        """Whether more of this sender may wait."""
        little = self._bytes < self._limit and self._bytes_of.get(sender, 0) < self._limit * _LITTLE
        return little or not self.is_full()

    def urgent(self, wanted: PacketSets) -> PacketSets:
        """Of senders that have no room only those for which everything else of them waits."""
        if not self.is_full():
            return wanted
        urgent: PacketSets = {}
        for sender, numbers in wanted.items():
            held = self._held.get(sender) if not self.has_room_for(sender) else None
            put(urgent, sender, RangeSet(numbers.within(0, held[0][0] - 1)) if held else numbers)
        return urgent

    def hold(self, happened: Received) -> None:
        """A run came at the head of its stream, while something before it is awaited."""
        self._wait(happened.sender, happened.run, happened.phase)

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Our own packets wait only for those of our past that were asked for again."""
        sender = run[0].sender
        if self.ladder.streams.hears(sender):
            self.arrived(now, [run], FIRST_PASS, self.ladder.own[sender], out)

    def arrived(self, now: float, parts: list[Run], phase: Phase, stream: Stream, out: Effects) -> None:
        """Deliver the runs whose turn has come, and what waited for them; hold the others."""
        sender = parts[0][0].sender
        if len(parts) == 1 and sender not in self._held and parts[0][-1].seqno <= stream.prefix():
            out.append(Deliver(parts[0], phase))  # it is its turn, and nothing waits for it
            return
        for run in parts:
            self._wait(sender, run, phase)
        self._release(sender, stream, out)

    def given_up(self, now: float, sender: int, first: int, last: int, why: str, stream: Stream, out: Effects) -> None:
        """A loss waits for its turn as a packet does."""
        self._push(sender, first, ReportLost(sender, first, last, why) if why else None)
        self._release(sender, stream, out)

    def rewound(self, sender: int, first: int) -> None:
        """Everything from `first` on is awaited again: what is held of it comes again, or is lost again."""
        for number, _, held in self._held.pop(sender, []):
            if isinstance(held, Waiting):
                self._leave(sender, held)
            if number < first and isinstance(held, Waiting):
                self._wait(sender, held.run[: first - number], held.phase)
            elif number < first:
                self._push(sender, number, held)

    def taken_back(self, sender: int, first: int, last: int) -> None:
        """What is left of a loss that waits is before these, or after them."""
        again, held = RangeSet.span(first, last), self._held.pop(sender, [])
        kept: list[Held] = []
        for number, turn, waits in held:
            if isinstance(waits, ReportLost):
                left = RangeSet.span(waits.first, waits.last).difference(again).ranges()
                kept += [(part[0], turn, ReportLost(sender, *part, waits.reason)) for part in left]
            else:
                kept.append((number, turn, waits))
        if kept:
            heapify(kept)
            self._held[sender] = kept

    def _wait(self, sender: int, run: Run, phase: Phase) -> None:
        first, size_bytes = run[0].seqno, memory_of(run) if self._limit else 0
        waiting = self._ends.pop((sender, first, phase), None)
        if waiting is None:
            waiting = Waiting(run, phase)
            waiting.size_bytes = size_bytes
            self._push(sender, first, waiting)
        else:
            waiting.take(run, size_bytes)
        self._ends[sender, waiting.following, phase] = waiting
        self._bytes += size_bytes
        self._bytes_of[sender] = self._bytes_of.get(sender, 0) + size_bytes

    def _push(self, sender: int, number: int, held: Waiting | ReportLost | None) -> None:
        heappush(self._held.setdefault(sender, []), (number, next(self._turns), held))

    def _leave(self, sender: int, waiting: Waiting) -> None:
        """Its turn has come."""
        if waiting.size_bytes:
            self._bytes -= waiting.size_bytes
            self._bytes_of[sender] -= waiting.size_bytes
            if not self._bytes_of[sender]:
                del self._bytes_of[sender]
        end = sender, waiting.following, waiting.phase
        if self._ends.get(end) is waiting:
            del self._ends[end]
        assert self._bytes >= 0

    def _release(self, sender: int, stream: Stream, out: Effects) -> None:
        held = self._held[sender]
        awaited = stream.prefix()
        last: Deliver | None = None  # what was delivered just now; its run is a list of our own
        while held and held[0][0] <= awaited:
            effect = heappop(held)[2]
            if isinstance(effect, Waiting):
                self._leave(sender, effect)
                if last is not None and last.phase == effect.phase:
                    last.run.extend(effect.run)  # one run, as if it had come as one
                else:
                    last = Deliver(effect.run, effect.phase)
                    out.append(last)
            else:
                last = None
                out.extend([effect] if effect is not None else [])
        if not held:
            del self._held[sender]
