"""No order: a packet is delivered when it comes (001 §2.1: a red alert does not wait for an older note)."""

from gossamer.core.effects import Deliver, ReportLost
from gossamer.core.ids import FIRST_PASS, Phase
from gossamer.core.ladder import Effects
from gossamer.core.packets import Run
from gossamer.core.parts import Order
from gossamer.core.streams import Stream


class Unordered(Order):
    """Everything at once."""

    __slots__ = ()

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Our own packets, too, if we listen."""
        if self.ladder.streams.hears(run[0].sender):
            out.append(Deliver(run, FIRST_PASS))

    def arrived(self, now: float, parts: list[Run], phase: Phase, stream: Stream, out: Effects) -> None:
        """Deliver what came."""
        out.extend(Deliver(run, phase) for run in parts)

    def given_up(self, now: float, sender: int, first: int, last: int, why: str, stream: Stream, out: Effects) -> None:
        """Report a loss when it is known."""
        if why:
            out.append(ReportLost(sender, first, last, why))
