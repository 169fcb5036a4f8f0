"""What first passes have in common that go from member to member: a packet is sent on once, when it first comes."""

from gossamer.core.ids import FIRST_PASS, Phase
from gossamer.core.ladder import Effects, Rung
from gossamer.core.packets import Run


class PassingOn(Rung):
    """Sends what the member publishes, and passes on what comes; where to, its kinds know."""

    def published(self, now: float, run: Run, out: Effects) -> None:
        """The source's part."""
        self.send(run, out)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """Pass on a first copy; what came as a repair is not spread any further."""
        if phase == FIRST_PASS:
            self.send(run, out)

    def send(self, run: Run, out: Effects) -> None:
        """To those that are next on the way of these packets."""
        raise NotImplementedError
