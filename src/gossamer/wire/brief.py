"""The two messages that the place of a packet costs, each in a form that one call writes and one call reads.

Their numbers have fixed lengths, so that neither side needs a loop. `Places` that give one run of packets the next
places of a graph, or only say how far places are settled, have this form; those with more to say are written as any
other message:

 0  order, 8 bytes    8  the first place, 8 bytes
16  the stream, and 24  the first number of the packets, 8 bytes each; 0 if there are none
32  how many places before the first one are not settled, 4 bytes, signed
36  graph, 4 bytes   40  how many packets, 2 bytes   42  who is asked, 4 bytes
"""

from struct import Struct

from gossamer.core.places import Places, PlacesKept, Segment

_PLACES = Struct("!QQQQiIHI")
_KEPT = Struct("!5Q")
_NO_PACKETS = Segment(0, count=0)


def write_places(message: Places) -> bytes | None:
    """The message in this form; None if it does not fit."""
    graph, segments, asked = message.graph, message.segments, message.asked
    one = segments[0] if segments else _NO_PACKETS
    unsettled = message.first - message.settled
    if (
        (message.branch or message.before != graph or len(segments) > 1)
        or (segments and (one.graph != graph or one.sites is not None or one.mark is not None or not one.count))
        or (graph | asked) >> 32
        or one.count >> 16
        or not -0x8000_0000 <= unsettled < 0x8000_0000
    ):
        return None
    return _PLACES.pack(message.order, message.first, one.sender, one.first, unsettled, graph, one.count, asked)


def read_places(data: bytes | memoryview, at: int) -> tuple[Places, int]:
    """The message at offset `at`, and the offset after it; ValueError if it is malformed."""
    if len(data) - at < _PLACES.size:
        raise ValueError("places are cut short")
    order, first, sender, number, unsettled, graph, count, asked = _PLACES.unpack_from(data, at)
    if (order | first | sender) >> 63 or number + count >= 1 << 62 or first < unsettled:
        raise ValueError("a place or a number beyond what there can be")
    if not asked or (not count and (sender or number)):
        raise ValueError("places for nobody, or of no packets")
    segments = [Segment(graph, sender, number, count)] if count else []
    return Places(order, graph, first, graph, first - unsettled, segments, 0, asked), at + _PLACES.size


def write_kept(message: PlacesKept) -> bytes:
    """The message."""
    return _KEPT.pack(message.order, message.graph, message.life, message.below, message.branch)


def read_kept(data: bytes | memoryview, at: int) -> tuple[PlacesKept, int]:
    """The message at offset `at`, and the offset after it; ValueError if it is malformed."""
    if len(data) - at < _KEPT.size:
        raise ValueError("what is kept is cut short")
    numbers = _KEPT.unpack_from(data, at)
    if max(numbers) >> 63:
        raise ValueError("number beyond 63 bits")
    return PlacesKept(*numbers), at + _KEPT.size
