"""How one field of a message is written: each codec can `put`, `get` and tell the `size` without writing.

Counts are checked against the bytes that are left before anything is allocated, so that the work and the
memory of a decode grow with the length of its input.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from gossamer.core import varint
from gossamer.core.ids import CHANNELS_MAX, FIRST_PASS, LOGGER, PEER, Phase
from gossamer.core.messages import Digest
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.places import MARKS, Mark, Segment, Sites
from gossamer.core.ranges import RangeSet
from gossamer.core.views import MemberEntry

PHASES: tuple[Phase, ...] = (FIRST_PASS, PEER, LOGGER)

_ADDRESS_BYTES_MAX = 64
_NAME_BYTES_MAX = 400
_NAMED, _LISTENS, _MAPPED = 16, 32, 64
"""The bits that say that a name, a set of channels, and a channel map follow; the statuses are below them."""
_CHANNEL_SET_BYTES_MAX = CHANNELS_MAX // 8

Raw = bytes | memoryview


class FieldCodec(Protocol):
    """One kind of field."""

    def put(self, out: bytearray, value: Any) -> None:
        """Append `value`."""

    def size(self, value: Any) -> int:
        """How many bytes `put` appends."""

    def get(self, data: Raw, at: int) -> tuple[Any, int]:
        """The value at offset `at` and the offset after it; ValueError if malformed."""


def _count(data: Raw, at: int, bytes_each: int) -> tuple[int, int]:
    """How many things follow; ValueError if they cannot fit."""
    count, at = varint.get(data, at)
    if count > (len(data) - at) // bytes_each:
        raise ValueError(f"{count} things of {bytes_each} bytes cannot fit in {len(data) - at} bytes")
    return count, at


def _member(data: Raw, at: int) -> tuple[int, int]:
    member, at = varint.get(data, at)
    if member >= 1 << 63:
        raise ValueError("member beyond 63 bits")
    return member, at


class _Number:
    """An unsigned number."""

    put = staticmethod(varint.put)
    size = staticmethod(varint.size)
    get = staticmethod(_member)


class Numbers:
    """Several unsigned numbers in a row: most messages are nothing else."""

    def __init__(self, count: int) -> None:
        self._count = count

    def put(self, out: bytearray, values: Sequence[int]) -> None:
        """Append them."""
        for value in values:
            if value < 0x80:
                out.append(value)
            else:
                varint.put(out, value)

    def size(self, values: Sequence[int]) -> int:
        """How many bytes `put` appends."""
        return sum(map(varint.size, values))

    def get(self, data: Raw, at: int) -> tuple[list[int], int]:
        """The numbers at offset `at`, as many as there are, and the offset after them."""
        values, at = varint.get_many(data, at, self._count)
        if max(values) >= 1 << 63:
            raise ValueError("number beyond 63 bits")
        return values, at


_FOUR = Numbers(4)


class _Last:
    """A sequence number or -1 for none."""

    def put(self, out: bytearray, value: int) -> None:
        varint.put(out, value + 1)

    def size(self, value: int) -> int:
        return varint.size(value + 1)

    def get(self, data: Raw, at: int) -> tuple[int, int]:
        value, at = _member(data, at)
        return value - 1, at


class _Flag:
    """True or false."""

    def put(self, out: bytearray, value: bool) -> None:
        out.append(value)

    def size(self, value: bool) -> int:
        return 1

    def get(self, data: Raw, at: int) -> tuple[bool, int]:
        if at >= len(data) or data[at] > 1:
            raise ValueError("a flag is neither 0 nor 1")
        return bool(data[at]), at + 1


class _Signature:
    """A hash: only a 0 if there is none, else a 1 and 8 bytes."""

    def put(self, out: bytearray, value: int) -> None:
        out.append(value != 0)
        if value:
            out += value.to_bytes(8, "little")

    def size(self, value: int) -> int:
        return 9 if value else 1

    def get(self, data: Raw, at: int) -> tuple[int, int]:
        there, at = FLAG.get(data, at)
        if not there:
            return 0, at
        if len(data) - at < 8:
            raise ValueError("a signature is cut short")
        return int.from_bytes(data[at : at + 8], "little"), at + 8


class _PerSender:
    """Sets of sequence numbers, by sender."""

    def put(self, out: bytearray, value: PacketSets) -> None:
        varint.put(out, len(value))
        for sender, numbers in value.items():
            varint.put(out, sender)
            numbers.encode(out)

    def size(self, value: PacketSets) -> int:
        size = varint.size
        total = size(len(value))
        for sender, numbers in value.items():
            total += size(sender) + numbers.encoded_size()
        return total

    def get(self, data: Raw, at: int) -> tuple[PacketSets, int]:
        count, at = _count(data, at, 2)
        found: PacketSets = {}
        for _ in range(count):
            sender, at = _member(data, at)
            found[sender], at = RangeSet.decode(data, at)
        if len(found) != count:
            raise ValueError("a sender is named twice")
        return found, at


class _PerMember:
    """Sets of packets, by member."""

    def put(self, out: bytearray, value: dict[int, PacketSets]) -> None:
        varint.put(out, len(value))
        for member, sets in value.items():
            varint.put(out, member)
            PACKET_SETS.put(out, sets)

    def size(self, value: dict[int, PacketSets]) -> int:
        each = (varint.size(member) + PACKET_SETS.size(sets) for member, sets in value.items())
        return varint.size(len(value)) + sum(each)

    def get(self, data: Raw, at: int) -> tuple[dict[int, PacketSets], int]:
        count, at = _count(data, at, 2)
        found: dict[int, PacketSets] = {}
        for _ in range(count):
            member, at = _member(data, at)
            found[member], at = PACKET_SETS.get(data, at)
        if len(found) != count:
            raise ValueError("a member is named twice")
        return found, at


class _Horizon:
    """One sequence number (or -1) for each sender."""

    def put(self, out: bytearray, value: Horizon) -> None:
        varint.put(out, len(value))
        for sender, last in value.items():
            varint.put(out, sender)
            LAST.put(out, last)

    def size(self, value: Horizon) -> int:
        size = varint.size
        total = size(len(value))
        for sender, last in value.items():
            total += size(sender) + size(last + 1)
        return total

    def get(self, data: Raw, at: int) -> tuple[Horizon, int]:
        count, at = _count(data, at, 2)
        found: Horizon = {}
        for _ in range(count):
            sender, at = _member(data, at)
            found[sender], at = LAST.get(data, at)
        if len(found) != count:
            raise ValueError("a sender is named twice")
        return found, at


class _Digest:
    """The digest in a gossip. It is often sent many times, so its size is worked out once."""

    def put(self, out: bytearray, value: Digest) -> None:
        varint.put(out, value.round)
        PACKET_SETS.put(out, value.buffered)
        HORIZON.put(out, value.idle)

    def size(self, value: Digest) -> int:
        if not value.size_bytes:
            value.size_bytes = varint.size(value.round) + PACKET_SETS.size(value.buffered) + HORIZON.size(value.idle)
        return value.size_bytes

    def get(self, data: Raw, at: int) -> tuple[Digest, int]:
        number, at = _member(data, at)
        buffered, at = PACKET_SETS.get(data, at)
        idle, at = HORIZON.get(data, at)
        return Digest(number, buffered, idle), at


class _Entry:
    """One member of a view; the status and what else is there to say of it share a number."""

    def put(self, out: bytearray, value: MemberEntry) -> None:
        varint.put(out, value.member)
        varint.put(out, _flags(value))
        varint.put(out, value.freshness)
        for text in (value.address, value.name) if value.name else (value.address,):
            varint.put(out, len(text.encode()))
            out += text.encode()
        for number in filter(None, (value.channels, value.map)):
            CHANNEL_SET.put(out, number)

    def size(self, value: MemberEntry) -> int:
        texts = [len(text.encode()) for text in ((value.address, value.name) if value.name else (value.address,))]
        listens = sum(map(CHANNEL_SET.size, filter(None, (value.channels, value.map))))
        return sum(map(varint.size, (value.member, _flags(value), value.freshness, *texts))) + sum(texts) + listens

    def get(self, data: Raw, at: int) -> tuple[MemberEntry, int]:
        member, at = _member(data, at)
        status, at = varint.get(data, at)
        freshness, at = _member(data, at)
        address, at = _text(data, at, _ADDRESS_BYTES_MAX)
        name = ""
        if status & _NAMED:
            name, at = _text(data, at, _NAME_BYTES_MAX)
            status ^= _NAMED
            if not name:
                raise ValueError("a member has a name without letters")
        channels = 0
        if status & _LISTENS:
            channels, at = CHANNEL_SET.get(data, at)
            status ^= _LISTENS
        known_map = 0
        if status & _MAPPED:
            known_map, at = CHANNEL_SET.get(data, at)
            status ^= _MAPPED
        return MemberEntry(member, status >> 1, freshness, bool(status & 1), address, name, channels, known_map), at


def _flags(entry: MemberEntry) -> int:
    more = (_NAMED if entry.name else 0) | (_LISTENS if entry.channels else 0) | (_MAPPED if entry.map else 0)
    return entry.status << 1 | entry.logger | more


def _text(data: Raw, at: int, bytes_max: int) -> tuple[str, int]:
    length, at = varint.get(data, at)
    if length > min(len(data) - at, bytes_max):
        raise ValueError(f"an address or a name of {length} bytes is too long")
    return bytes(data[at : at + length]).decode(), at + length


class _ChannelSet:
    """A set of channels, a bit for each, or another number of up to 16 bytes: the least significant first."""

    def put(self, out: bytearray, value: int) -> None:
        length = (value.bit_length() + 7) // 8
        out.append(length)
        out += value.to_bytes(length, "little")

    def size(self, value: int) -> int:
        return 1 + (value.bit_length() + 7) // 8

    def get(self, data: Raw, at: int) -> tuple[int, int]:
        length, at = _count(data, at, 1)
        if not 0 < length <= _CHANNEL_SET_BYTES_MAX or not data[at + length - 1]:
            raise ValueError("a set of channels is empty, or longer than it need be")
        return int.from_bytes(data[at : at + length], "little"), at + length


class _Channel:
    """The channel that a message speaks of, at its end: nothing at all for channel 0."""

    def put(self, out: bytearray, value: int) -> None:
        if value:
            out.append(value)

    def size(self, value: int) -> int:
        return 1 if value else 0

    def get(self, data: Raw, at: int) -> tuple[int, int]:
        if at >= len(data):
            return 0, at
        if not 0 < data[at] < CHANNELS_MAX:
            raise ValueError(f"there is no channel {data[at]}")
        return data[at], at + 1


class _Entries:
    """The entries of a view."""

    def put(self, out: bytearray, value: list[MemberEntry]) -> None:
        varint.put(out, len(value))
        for entry in value:
            ENTRY.put(out, entry)

    def size(self, value: list[MemberEntry]) -> int:
        return varint.size(len(value)) + sum(map(ENTRY.size, value))

    def get(self, data: Raw, at: int) -> tuple[list[MemberEntry], int]:
        count, at = _count(data, at, 4)
        found = []
        for _ in range(count):
            entry, at = ENTRY.get(data, at)
            found.append(entry)
        return found, at


class _Segments:
    """Places in an order: after a count of 0 comes what else takes a place, 0 for sites or what a mark says."""

    def put(self, out: bytearray, value: list[Segment]) -> None:
        varint.put(out, len(value))
        for segment in value:
            _FOUR.put(out, _segment_numbers(segment))
            if segment.mark is not None:
                CHANNEL_SET.put(out, segment.mark.channels | 1)  # there is no empty one, and channel 0 has no branch
                HORIZON.put(out, segment.mark.table)
            elif segment.sites is not None:
                HORIZON.put(out, segment.sites.lives)

    def size(self, value: list[Segment]) -> int:
        return varint.size(len(value)) + sum(map(_segment_size, value))

    def get(self, data: Raw, at: int) -> tuple[list[Segment], int]:
        things, at = _count(data, at, 4)
        found = []
        for _ in range(things):
            (graph, count, what, number), at = _FOUR.get(data, at)
            if count:
                if number + count >= 1 << 62:
                    raise ValueError("sequence number beyond 62 bits")
                found.append(Segment(graph, what, number, count))
            elif what:
                mark, at = _get_mark(data, at, what - 1, number)
                found.append(Segment(graph, mark=mark))
            else:
                lives, at = HORIZON.get(data, at)
                found.append(Segment(graph, sites=Sites(number, lives)))
        return found, at


def _segment_numbers(segment: Segment) -> tuple[int, ...]:
    if segment.mark is not None:
        return segment.graph, 0, 1 + MARKS.index(segment.mark.kind), segment.mark.number
    if segment.sites is not None:
        return segment.graph, 0, 0, segment.sites.primary
    return segment.graph, segment.count, segment.sender, segment.first


def _get_mark(data: Raw, at: int, kind: int, number: int) -> tuple[Mark, int]:
    channels, at = CHANNEL_SET.get(data, at)
    table, at = HORIZON.get(data, at)
    if kind >= len(MARKS):
        raise ValueError("no such mark in an order")
    return Mark(MARKS[kind], number, channels & ~1, table), at


def _segment_size(segment: Segment) -> int:
    size = sum(map(varint.size, _segment_numbers(segment)))
    if segment.mark is not None:
        return size + CHANNEL_SET.size(segment.mark.channels | 1) + HORIZON.size(segment.mark.table)
    return size + (0 if segment.sites is None else HORIZON.size(segment.sites.lives))


class _Bytes:
    """Bytes, with their length before them."""

    def put(self, out: bytearray, value: bytes) -> None:
        varint.put(out, len(value))
        out += value

    def size(self, value: bytes) -> int:
        return varint.size(len(value)) + len(value)

    def get(self, data: Raw, at: int) -> tuple[bytes, int]:
        length, at = _count(data, at, 1)
        return bytes(data[at : at + length]), at + length


NUMBER: FieldCodec = _Number()
BYTES: FieldCodec = _Bytes()
LAST: FieldCodec = _Last()
FLAG: FieldCodec = _Flag()
SIGNATURE: FieldCodec = _Signature()
PACKET_SETS: FieldCodec = _PerSender()
PACKET_SETS_BY_MEMBER: FieldCodec = _PerMember()
HORIZON: FieldCodec = _Horizon()
DIGEST: FieldCodec = _Digest()
ENTRY: FieldCodec = _Entry()
CHANNEL: FieldCodec = _Channel()
CHANNEL_SET: FieldCodec = _ChannelSet()
ENTRIES: FieldCodec = _Entries()
SEGMENTS: FieldCodec = _Segments()
