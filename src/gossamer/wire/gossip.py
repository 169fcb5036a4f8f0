"""A gossip on the wire: one byte that says which of its parts are there, bit by bit, then those parts.

Most gossips have two or three of eight parts, and there are more gossips than anything else but data.
"""

from typing import Any, Final

from gossamer.core.messages import Gossip
from gossamer.wire.fields import DIGEST, HORIZON, LAST, NUMBER, PACKET_SETS, SIGNATURE, FieldCodec, Raw

_PARTS: Final[tuple[tuple[str, FieldCodec, Any], ...]] = (  # name, codec, and the value of a part that is not there
    ("missing", PACKET_SETS, None),
    ("digest", DIGEST, None),
    ("seen", HORIZON, {}),
    ("logged", LAST, -1),
    ("heartbeats", SIGNATURE, 0),
    ("view", SIGNATURE, 0),
    ("stamp", NUMBER, 0),
    ("logged_in", HORIZON, {}),
)
_SIGNATURE_BYTES: Final = SIGNATURE.size(1)


def put(out: bytearray, gossip: Gossip) -> None:
    """Append the gossip."""
    at = len(out)
    out.append(0)
    for bit, (name, codec, absent) in enumerate(_PARTS):
        value = getattr(gossip, name)
        if value != absent:
            out[at] |= 1 << bit
            codec.put(out, value)


def size(gossip: Gossip) -> int:
    """How many bytes `put` appends. Part by part, without a loop: a simulation asks this for every gossip."""
    total = 1
    if gossip.digest is not None:
        total += gossip.digest.size_bytes or DIGEST.size(gossip.digest)
    if gossip.missing is not None:
        total += PACKET_SETS.size(gossip.missing)
    if gossip.seen:
        total += HORIZON.size(gossip.seen)
    if gossip.logged >= 0:
        total += LAST.size(gossip.logged)
    if gossip.heartbeats:
        total += _SIGNATURE_BYTES
    if gossip.view:
        total += _SIGNATURE_BYTES
    if gossip.stamp:
        total += NUMBER.size(gossip.stamp)
    if gossip.logged_in:
        total += HORIZON.size(gossip.logged_in)
    return total


def get(data: Raw, at: int) -> tuple[Gossip, int]:
    """The gossip at offset `at` and the offset after it; ValueError if malformed."""
    if at >= len(data) or data[at] >= 1 << len(_PARTS):
        raise ValueError("a gossip does not say which of its parts follow")
    there, at = data[at], at + 1
    parts = {}
    for bit, (name, codec, absent) in enumerate(_PARTS):
        if there & 1 << bit:
            parts[name], at = codec.get(data, at)
            if parts[name] == absent:
                raise ValueError(f"a gossip says that {name} is there, but it is not")
    return Gossip(**parts), at
