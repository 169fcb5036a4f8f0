"""FIFO per sender: packets and losses of one sender reach the application in the order of their numbers.

Whose turn it is, is not kept here: it is everything below the first number that is still awaited, which the stream
knows. So a packet that follows on costs nothing, and what is early waits in a heap by its number.
"""

from heapq import heappop, heappush
from itertools import count

from gossamer.core.declares import Declares
from gossamer.core.effects import Deliver, Effect, ReportLost
from gossamer.core.ids import FIRST_PASS, Phase
from gossamer.core.inputs import Received
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packets import Run
from gossamer.core.parts import Order
from gossamer.core.settings import ProtocolSettings
from gossamer.core.streams import Stream

Held = tuple[int, int, Effect | None]
"""Its first number, which came first, and what to do when its turn comes; nothing, if it turned out that it never was.

A loss and a packet may have the same number: what others had only spoken of was given up, and then its sender sent it.
"""


class Fifo(Order):
    """Holds back what is early; a gap that is given up takes its turn as a loss."""

    __slots__ = ("_held", "_turns")

    holds_back = True

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._held: dict[int, list[Held]] = {}
        self._turns = count()

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """The order of each sender."""
        return Declares(promises=("fifo",))

    def hold(self, happened: Received) -> None:
        """A run came at the head of its stream, while something before it is awaited."""
        self._hold(happened.sender, happened.first, happened.delivered[0])

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Our own packets wait only for those of our past that were asked for again."""
        self.arrived(now, [run], FIRST_PASS, self.ladder.streams[self.ladder.me], out)

    def arrived(self, now: float, parts: list[Run], phase: Phase, stream: Stream, out: Effects) -> None:
        """Deliver the runs whose turn has come, and what waited for them; hold the others."""
        sender = parts[0][0].sender
        if len(parts) == 1 and sender not in self._held and parts[0][-1].seqno <= stream.prefix():
            out.append(Deliver(parts[0], phase))  # it is its turn, and nothing waits for it
            return
        for run in parts:
            self._hold(sender, run[0].seqno, Deliver(run, phase))
        self._release(sender, stream, out)

    def given_up(self, now: float, sender: int, first: int, last: int, why: str, stream: Stream, out: Effects) -> None:
        """A loss waits for its turn as a packet does."""
        lost = ReportLost(sender, first, last, why) if why else None
        self._hold(sender, first, lost)
        self._release(sender, stream, out)

    def rewound(self, sender: int, first: int) -> None:
        """Everything from `first` on is awaited again: what is held of it comes again, or is lost again."""
        for number, _, effect in self._held.pop(sender, []):
            if number < first:
                if isinstance(effect, Deliver):
                    effect = Deliver(effect.run[: first - number], effect.phase)
                self._hold(sender, number, effect)

    def _hold(self, sender: int, number: int, effect: Effect | None) -> None:
        heappush(self._held.setdefault(sender, []), (number, next(self._turns), effect))

    def _release(self, sender: int, stream: Stream, out: Effects) -> None:
        held = self._held[sender]
        awaited = stream.prefix()
        last: Effect | None = None
        while held and held[0][0] <= awaited:
            effect = heappop(held)[2]
            if isinstance(effect, Deliver) and isinstance(last, Deliver) and last.phase == effect.phase:
                last = out[-1] = Deliver(last.run + effect.run, last.phase)  # one run, as if it had come as one
            elif effect is not None:
                out.append(effect)
                last = effect
        if not held:
            del self._held[sender]
