"""The body of a packet that carries no event: from here on this stream goes on with what its member had in others.

When the channel map changes, events of a subject move from one channel of their publisher to another. The first packet
that it then publishes to a channel says how far its streams in the other channels were: what follows comes after that.

0  kind of the body, 1 byte: 3
1  time, 8 bytes: nanoseconds since the epoch
9  for each of the other channels: its number, and the last number of the stream plus 1, as varints
"""

from gossamer.core import varint
from gossamer.core.ids import CHANNELS_MAX
from gossamer.core.packet_sets import Horizon
from gossamer.wire.codec import WireError
from gossamer.wire.events import BODY, SWITCH


def pack_switch(time_ns: int, lasts: Horizon) -> bytes:
    """The body, from the last numbers by channel."""
    out = bytearray(BODY.pack(SWITCH, time_ns))
    for channel, last in lasts.items():
        varint.put(out, channel)
        varint.put(out, last + 1)
    return bytes(out)


def unpack_switch(body: bytes) -> Horizon:
    """The last numbers by channel; WireError, never any other error, if it is no such body."""
    lasts: Horizon = {}
    at = BODY.size
    try:
        while at < len(body):
            channel, at = varint.get(body, at)
            following, at = varint.get(body, at)
            lasts[channel] = following - 1
    except ValueError as error:
        raise WireError(str(error)) from None
    if any(channel >= CHANNELS_MAX for channel in lasts):
        raise WireError(f"there is no channel {max(lasts)}")
    return lasts
