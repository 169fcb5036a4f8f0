"""No buffer: nothing is kept for others."""

from gossamer.core.messages import PerSender
from gossamer.core.packets import Packet, Run
from gossamer.core.ranges import RangeSet


class NoBuffer:
    """Always empty."""

    arrivals = None

    def __len__(self) -> int:
        return 0

    def add(self, now: float, run: Run) -> PerSender:
        """Nothing is kept."""
        return {}

    def get(self, sender: int, seqno: int) -> Packet | None:
        """Nothing is there."""
        return None

    def occupancy(self, now: float) -> tuple[int, float]:
        """Nothing was ever kept."""
        return 0, 0.0

    def held(self) -> PerSender:
        """Nothing."""
        return {}

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Nothing of them."""
        return RangeSet()

    def round_over(self, now: float) -> PerSender:
        """Nothing is collected."""
        return {}
