"""Members, streams, sequence numbers, packet ids, and the ways in which a packet can arrive.

A stream is what one member publishes to one channel, and counts its packets for itself. Its number is made of both, so
that tables of packets by stream are plain tables of numbers; in channel 0 it is the number of the member.
"""

from typing import Final, Literal, NamedTuple

EVERYONE: Final = -1
"""As a destination: the multicast address of the group. As a field of a trace row: not applicable."""

Phase = Literal["first_pass", "peer", "logger"]
FIRST_PASS: Final[Phase] = "first_pass"
PEER: Final[Phase] = "peer"
LOGGER: Final[Phase] = "logger"


MEMBER_BITS: Final = 55
CHANNELS_MAX: Final = 128
"""Channels that a group can have: 0, which all hear, and those above."""
ALL_CHANNELS: Final = (1 << CHANNELS_MAX) - 1
"""As a set of channels, a bit for each."""
MEMBER_MASK: Final = (1 << MEMBER_BITS) - 1


def stream_of(member: int, channel: int) -> int:
    """The stream of what `member` publishes to `channel`."""
    return member + (channel << MEMBER_BITS)


def owner_of(stream: int) -> int:
    """The member whose stream it is."""
    return stream & MEMBER_MASK


def channel_of(stream: int) -> int:
    """The channel to which it is published."""
    return stream >> MEMBER_BITS


def channels_in(mask: int) -> list[int]:
    """The channels of a set, ascending."""
    return [channel for channel in range(mask.bit_length()) if mask >> channel & 1]


class PacketId(NamedTuple):
    """Names one packet for ever: its sender, a stream of one incarnation of a process, and the count in that stream."""

    sender: int
    seqno: int
