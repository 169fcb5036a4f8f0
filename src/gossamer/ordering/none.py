"""No order: a packet is delivered when it comes (001 §2.1: a red alert does not wait for an older note)."""

from gossamer.core.effects import Deliver, ReportLost
from gossamer.core.ids import Phase
from gossamer.core.ladder import Effects
from gossamer.core.packets import Run


class Unordered:
    """Everything at once."""

    def starts(self, sender: int, first: int) -> None:
        """Where a sender starts makes no difference here."""

    def passes(self, sender: int, first: int, last: int) -> bool:
        """Nothing is ever held back."""
        return True

    def accepted(self, run: Run, phase: Phase, out: Effects) -> None:
        """Deliver what came."""
        out.append(Deliver(run, phase))

    def given_up(self, sender: int, first: int, last: int, reason: str, out: Effects) -> None:
        """Report a loss when it is known; an empty reason says that there is nothing to report."""
        if reason:
            out.append(ReportLost(sender, first, last, reason))
