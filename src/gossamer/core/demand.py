"""Which packets many members ask for: then one multicast serves them all (000 §8; 004 opt. 7)."""

from gossamer.core.packets import Packet

_PACKETS_MAX = 10_000
"""The askers of this many packets are remembered; beyond that, all are forgotten."""


class Demand:
    """The members that have asked this one for a packet."""

    __slots__ = ("_askers", "_threshold")

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._askers: dict[tuple[int, int], dict[int, None]] = {}

    def is_high(self, packet: Packet, requester: int) -> bool:
        """Whether enough different members have now asked for the packet to multicast it."""
        if not self._threshold:
            return False
        if len(self._askers) >= _PACKETS_MAX:
            self._askers.clear()
        askers = self._askers.setdefault((packet.sender, packet.seqno), {})
        askers[requester] = None
        if len(askers) < self._threshold:
            return False
        askers.clear()
        return True
