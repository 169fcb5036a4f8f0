"""What a simulated member has on stable storage: it survives a crash that loses the memory."""

from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet


class Disk:
    """A log, and the numbers that are reserved."""

    def __init__(self) -> None:
        self.log: dict[int, dict[int, Packet]] = {}
        self.reserved = 0

    def write(self, packet: Packet) -> None:
        """Enter a packet in the log."""
        self.log.setdefault(packet.sender, {})[packet.seqno] = packet

    def read(self, sender: int, first: int, last: int) -> list[Packet]:
        """The packets among these that the log holds."""
        by_number = self.log.get(sender, {})
        return [by_number[seqno] for seqno in range(first, last + 1) if seqno in by_number]

    def delete(self, sender: int, first: int, last: int) -> list[int]:
        """Delete these from the log; returns the numbers that were in it."""
        by_number = self.log.get(sender, {})
        return [seqno for seqno in range(first, last + 1) if by_number.pop(seqno, None) is not None]

    def logged(self) -> PacketSets:
        """Which packets the log holds."""
        held = ((sender, by_number) for sender, by_number in sorted(self.log.items()) if by_number)
        return {sender: RangeSet((n, n) for n in sorted(by_number)) for sender, by_number in held}
