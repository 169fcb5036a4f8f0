"""Messages that are too long for a datagram travel in pieces.

What a sponsor tells a joiner, and what members compare, grows with the group and with everybody who ever published. IP
would cut it, too, but not beyond 64 KB, and many firewalls drop what IP has cut. The sender of such a message repeats
it if nothing comes of it, so a lost piece costs no more than a lost datagram, and nobody asks for it.

What a log holds is told in parts instead, each of which is useful by itself: a lost part comes the next time.
"""

from itertools import count
from time import time

from gossamer.core.messages import Data, Holdings, Message, Piece, Repair
from gossamer.core.packet_sets import PacketSets, in_parts
from gossamer.wire import Header, WireError, decode, encode

MESSAGE_BYTES_MAX = 8 << 20
"""A longer message is not reassembled: 700,000 senders fit."""
WAITING_BYTES_MAX = 32 << 20
"""For all messages with missing pieces together; beyond that the oldest are forgotten."""
_OVERHEAD_BYTES = 256
"""How much memory a piece takes besides its content."""
_RANGE_BYTES_MAX = 32
"""The most that a range takes in a message, with its sender."""

_numbers = count(int(time() * 1000))  # not those of an earlier run


def cut(header: Header, message: Message, room: int) -> list[Piece]:
    """The pieces of a message, each with at most `room` bytes of it."""
    whole = encode(header, message)
    contents = [whole[at : at + room] for at in range(0, len(whole), room)]
    number = next(_numbers)
    return [Piece(number, index, len(contents), content) for index, content in enumerate(contents)]


def holdings(held: PacketSets, never_sent: PacketSets, since_ns: int, room: int) -> list[Holdings]:
    """A logger's answer, in as many parts as it takes for each to fit into `room` bytes.

    The first part also lists numbers never sent, as many as fit into half of it; the rest comes when it is asked for.
    """
    most = room // _RANGE_BYTES_MAX
    unused = in_parts(never_sent, max(1, most // 2))[0]
    parts = in_parts(held, most - sum(numbers.range_count() for numbers in unused.values()))
    return [Holdings(part, since_ns, n, len(parts), {} if n else unused) for n, part in enumerate(parts)]


class Pieces:
    """The pieces of messages that are not complete yet."""

    def __init__(self) -> None:
        self._unfinished: dict[tuple[int, int], dict[int, bytes]] = {}  # by source and message, oldest first
        self._waiting_bytes = 0

    def add(self, header: Header, piece: Piece) -> Message | None:
        """Take a piece; returns the message once it is complete. WireError if it is not one that may come in pieces."""
        if not 0 <= piece.index < piece.count <= MESSAGE_BYTES_MAX // max(1, len(piece.content)) + 1:
            raise WireError(f"impossible: piece {piece.index} of {piece.count} with {len(piece.content)} bytes")
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
    """The message in the pieces: it must be from the same source, and not a packet, which has fragments instead."""
    origin, message = decode(b"".join(contents))
    if origin != header or isinstance(message, Data | Repair | Piece):
        raise WireError("the pieces hold a message from another source, or one that may not be cut")
    return message
