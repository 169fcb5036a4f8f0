"""The protocol's unit: one packet of one sender, and the run, in which packets are handled.

A *run* is a list of packets of one sender with consecutive, ascending sequence numbers that arrived
together. Everything that can be paid per run is not paid per packet.
"""

from dataclasses import dataclass
from operator import attrgetter

from gossamer.core.ids import PacketId


@dataclass(slots=True)
class Packet:
    """One packet: never changed after it was made. `body` holds events (or a fragment of one), opaque here."""

    sender: int
    seqno: int
    body: bytes
    sealed: bytes = b""
    """The datagram as its sender sealed it, where packets are sealed: a repair carries it verbatim."""

    @property
    def id(self) -> PacketId:
        """Its name."""
        return PacketId(self.sender, self.seqno)


Run = list[Packet]

Span = tuple[int, int, int]
"""A sender, its first and its last number that are meant."""

_BODY = attrgetter("body")
_OBJECT_BYTES = 256
"""About what a packet takes in memory besides its body."""


def memory_of(run: Run) -> int:
    """About how many bytes of memory the packets take."""
    if len(run) == 1:
        return _OBJECT_BYTES + len(run[0].body)
    return _OBJECT_BYTES * len(run) + sum(map(len, map(_BODY, run)))


def split_into_runs(packets: list[Packet]) -> list[Run]:
    """Cut a list of packets wherever the sender changes or the numbers do not follow on."""
    runs: list[Run] = []
    previous: Packet | None = None
    for packet in packets:
        follows = previous is not None and packet.sender == previous.sender and packet.seqno == previous.seqno + 1
        if follows:
            runs[-1].append(packet)
        else:
            runs.append([packet])
        previous = packet
    return runs
