"""No order: a packet is delivered when it comes (001 §2.1: a red alert does not wait for an older note)."""

from gossamer.core.effects import Deliver, ReportLost
from gossamer.core.ids import Phase
from gossamer.core.inputs import Received
from gossamer.core.ladder import Effects
from gossamer.core.packets import Run
from gossamer.core.streams import Stream


class Unordered:
    """Everything at once."""

    def hold(self, happened: Received) -> None:
        """Never asked to."""
        raise AssertionError("nothing is held back without an order")

    def accepted(self, parts: list[Run], phase: Phase, stream: Stream, out: Effects) -> None:
        """Deliver what came."""
        out.extend(Deliver(run, phase) for run in parts)

    def rewound(self, sender: int, first: int) -> None:
        """Nothing is held."""

    def given_up(self, sender: int, first: int, last: int, reason: str, stream: Stream, out: Effects) -> None:
        """Report a loss when it is known; an empty reason says that there is nothing to report."""
        if reason:
            out.append(ReportLost(sender, first, last, reason))
