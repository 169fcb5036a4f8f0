"""Messages that are too long for a datagram travel in pieces.

What a sponsor tells a joiner, and what members compare, grows with the group and with everybody who ever published. IP
would cut it, too, but not beyond 64 KB, and many firewalls drop what IP has cut. Whoever sends such a message says it
again if nothing follows from it: so a lost piece costs no more than a lost datagram, and nobody asks for it.

What a log holds is told in parts instead, each of which is of use by itself: what was lost comes the next time.
"""

from itertools import count
from time import time

from gossamer.core.messages import Data, Holdings, Message, Piece, Repair
from gossamer.core.packet_sets import PacketSets, in_parts
from gossamer.wire import Header, WireError, decode, encode

MESSAGE_BYTES_MAX = 8 << 20
"""A longer message is not put together: 700,000 senders fit."""
WAITING_BYTES_MAX = 32 << 20
"""Of all messages of which pieces are missing; beyond that the oldest are forgotten."""
_OVERHEAD_BYTES = 256
"""What a piece costs here besides its content."""
_RANGE_BYTES_MAX = 32
"""What a range takes in a message, with its sender."""

_numbers = count(int(time() * 1000))  # not those of an earlier life


def cut(header: Header, message: Message, room: int) -> list[Piece]:
    """The pieces of a message, each with at most `room` bytes of it."""
    whole = encode(header, message)
    contents = [whole[at : at + room] for at in range(0, len(whole), room)]
    number = next(_numbers)
    return [Piece(number, index, len(contents), content) for index, content in enumerate(contents)]


def holdings(held: PacketSets, never_sent: PacketSets, since_ns: int, room: int) -> list[Holdings]:
    """A logger's answer, in as many parts as it takes for each to fit into `room` bytes.

    Of the numbers that never were, as many as fit half of the first: the rest comes as it is asked for.
    """
    most = room // _RANGE_BYTES_MAX
    unused = in_parts(never_sent, max(1, most // 2))[0]
    parts = in_parts(held, most - sum(numbers.range_count() for numbers in unused.values()))
    return [Holdings(part, since_ns, n, len(parts), {} if n else unused) for n, part in enumerate(parts)]


class Pieces:
    """What has come of messages that are not complete yet."""

    def __init__(self) -> None:
        self._unfinished: dict[tuple[int, int], dict[int, bytes]] = {}  # by source and message, oldest first
        self._waiting_bytes = 0

    def add(self, header: Header, piece: Piece) -> Message | None:
        """The message, if this was its last missing piece; WireError if it is none that its source may send so."""
        if not 0 <= piece.index < piece.count <= MESSAGE_BYTES_MAX // max(1, len(piece.content)) + 1:
            raise WireError(f"piece {piece.index} of {piece.count} with {len(piece.content)} bytes")
        which = header.source, piece.message
        pieces = self._unfinished.setdefault(which, {})
        if piece.index not in pieces:
            pieces[piece.index] = piece.content
            self._waiting_bytes += _OVERHEAD_BYTES + len(piece.content)
        if len(pieces) < piece.count:
            self._make_room()
            return None
        self._forget(which)
        return _whole(header, [pieces[index] for index in sorted(pieces)])

    def _make_room(self) -> None:
        while self._waiting_bytes > WAITING_BYTES_MAX:
            self._forget(next(iter(self._unfinished)))

    def _forget(self, which: tuple[int, int]) -> None:
        self._waiting_bytes -= sum(_OVERHEAD_BYTES + len(content) for content in self._unfinished.pop(which).values())


def _whole(header: Header, contents: list[bytes]) -> Message:
    """What the pieces hold must be of the same source, and no packet: those have their own way to be large."""
    origin, message = decode(b"".join(contents))
    if origin != header or isinstance(message, Data | Repair | Piece):
        raise WireError("the pieces hold a message of another, or one that is not to be cut")
    return message
