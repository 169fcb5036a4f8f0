"""A buffer by size: the newest packets, as many as there is room for (what 000 §7.2 recommends in practice)."""

from collections import deque

from gossamer.buffering.occupancy import Occupancy
from gossamer.core.messages import PerSender
from gossamer.core.packets import Packet, Run
from gossamer.core.ranges import RangeSet


class BySize:
    """Keeps the last `packets` packets."""

    def __init__(self, packets: int) -> None:
        self._room = packets
        self._order: deque[Packet] = deque()
        self._index: dict[tuple[int, int], Packet] = {}
        self._held: PerSender = {}
        self._occupancy = Occupancy()

    def __len__(self) -> int:
        return len(self._order)

    def add(self, now: float, run: Run) -> PerSender:
        """Keep these packets; the oldest make room: those."""
        sender = run[0].sender
        collected: PerSender = {}
        excess = len(self._order) + len(run) - self._room
        for _ in range(min(excess, len(self._order))):
            self._drop_oldest(now, collected)
        for packet in run[-self._room :]:
            if (sender, packet.seqno) in self._index:
                continue  # of the past, asked for again, and still here
            self._order.append(packet)
            self._index[sender, packet.seqno] = packet
            self._held.setdefault(sender, RangeSet()).add(packet.seqno)
            self._occupancy.entered(1, now)
        return collected

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is kept."""
        return self._index.get((sender, seqno))

    def occupancy(self, now: float) -> tuple[int, float]:
        """The most packets that were kept, and the mean until `now`."""
        return self._occupancy.so_far(now)

    def held(self) -> PerSender:
        """What is kept."""
        return self._held

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are kept now."""
        return numbers.intersection(self._held[sender]) if sender in self._held else RangeSet()

    def round_over(self, now: float) -> PerSender:
        """Age does not matter here."""
        return {}

    def _drop_oldest(self, now: float, collected: PerSender) -> None:
        packet = self._order.popleft()
        del self._index[packet.sender, packet.seqno]
        self._held[packet.sender].discard(packet.seqno)
        if not self._held[packet.sender]:
            del self._held[packet.sender]
        collected.setdefault(packet.sender, RangeSet()).add(packet.seqno)
        self._occupancy.left(now, 1)
