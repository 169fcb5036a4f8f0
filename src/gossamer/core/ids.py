"""Members, sequence numbers, packet ids, and the ways in which a packet can arrive."""

from typing import Final, Literal, NamedTuple

EVERYONE: Final = -1
"""As a destination: the multicast address of the group. As a field of a trace row: not applicable."""

Phase = Literal["first_pass", "peer", "logger"]
FIRST_PASS: Final[Phase] = "first_pass"
PEER: Final[Phase] = "peer"
LOGGER: Final[Phase] = "logger"


class PacketId(NamedTuple):
    """Names one packet for ever: its sender (one incarnation of a process) and the sender's count."""

    sender: int
    seqno: int
