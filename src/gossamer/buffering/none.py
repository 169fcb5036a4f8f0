"""No buffer: nothing is kept for others."""

from gossamer.core.ladder import Effects
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Packet, Run
from gossamer.core.parts import Buffer
from gossamer.core.ranges import RangeSet


class NoBuffer(Buffer):
    """Always empty."""

    __slots__ = ()

    keeps = False

    def __len__(self) -> int:
        return 0

    def keep(self, now: float, run: Run, out: Effects) -> None:
        """Nothing is kept."""

    def get(self, sender: int, seqno: int) -> Packet | None:
        """Nothing is there."""
        return None

    def occupancy(self, now: float) -> tuple[int, float]:
        """Nothing was ever kept."""
        return 0, 0.0

    def held(self) -> PacketSets:
        """Nothing."""
        return {}

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Nothing of them."""
        return RangeSet()
