"""What the members of a queue write to each other <-> the content of a letter.

kind, 1 byte; then the queue, the number of the report, how far each sender was seen, packets taken, packets done, the
hash of the list of members, and from which packet of each sender on the writer has them, as `fields` writes them
"""

from typing import Final, NamedTuple

from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.wire.codec import WireError
from gossamer.wire.fields import BYTES, HORIZON, NUMBER, PACKET_SETS

HELLO, WELCOME, REPORT, BYE = range(4)
_FIELDS: Final = (
    ("queue", BYTES),
    ("number", NUMBER),
    ("seen", HORIZON),
    ("taken", PACKET_SETS),
    ("done", PACKET_SETS),
    ("list_hash", NUMBER),
    ("since", HORIZON),
)


class QueueLetter(NamedTuple):
    """`HELLO` asks for a `WELCOME`; both say with which `number` the reports to the other begin.

    A `WELCOME` also says, as `taken`, all that the writer has in hand.
    """

    kind: int
    queue: bytes
    number: int
    seen: Horizon
    taken: PacketSets
    done: PacketSets
    list_hash: int
    since: Horizon


def pack(letter: QueueLetter) -> bytes:
    """The content of a letter."""
    out = bytearray([letter.kind])
    for name, codec in _FIELDS:
        codec.put(out, getattr(letter, name))
    return bytes(out)


def unpack(content: bytes) -> QueueLetter:
    """What a letter says; WireError, never any other error, if it is none."""
    if not content or content[0] > BYE:
        raise WireError("no letter of a queue")
    values, at = [], 1
    try:
        for _, codec in _FIELDS:
            value, at = codec.get(content, at)
            values.append(value)
    except ValueError as reason:
        raise WireError(str(reason)) from None
    if at != len(content):
        raise WireError(f"{len(content) - at} bytes after the end of the letter")
    return QueueLetter(content[0], *values)
