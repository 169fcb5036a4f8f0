"""The reply to a request <-> the content of a letter.

number of the request, a varint; time of the reply, 8 bytes: nanoseconds since the epoch; 1 if it has attributes (see
`attributes`), else 0; the attributes; the payload, to the end
"""

from struct import Struct, error
from typing import Final, NamedTuple

from gossamer.core import varint
from gossamer.wire import attributes as wire_attributes
from gossamer.wire.attributes import NO_ATTRIBUTES, Attributes
from gossamer.wire.codec import WireError

_HEAD: Final = Struct("!Q?")


class Reply(NamedTuple):
    """What was answered to the request with this number."""

    number: int
    time_ns: int
    payload: bytes
    attributes: Attributes


def pack(reply: Reply) -> bytes:
    """The content of a letter; ValueError or TypeError if the attributes cannot be sent."""
    out = bytearray()
    varint.put(out, reply.number)
    out += _HEAD.pack(reply.time_ns, bool(reply.attributes))
    if reply.attributes:
        shape, row, texts = wire_attributes.pack(reply.attributes)
        out += shape.head + row + texts
    return bytes(out) + reply.payload


def unpack(content: bytes) -> Reply:
    """The reply in a letter; WireError, never any other error, if it does not hold one."""
    try:
        number, at = varint.get(content, 0)
        time_ns, has_attributes = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        attributes = NO_ATTRIBUTES
        if has_attributes:
            (attributes,), at = wire_attributes.unpack(content, at, 1)
    except (ValueError, error) as reason:
        raise WireError(str(reason)) from None
    return Reply(number, time_ns, content[at:], attributes)
