"""Blocks: consecutive packets of one sender that were stored together lie together.

LMDB has pages of 4 KB, and a packet of an Ethernet's size to a page would waste two thirds of the disk and of every
sync. So a run of packets is cut into blocks; one value of the store is one block:

    count (2 bytes); for each packet its time (8), its length (4) and its CRC-32 (4); the CRC-32 of all this (4);
    the datagrams, one behind the other

The checksum of the table begins with the block's key, so a block under another's key does not pass for its own. Of the
packets of a block those count that the table `held` names; a block goes when the last of them goes.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, repeat
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from gossamer.store.contract import Damaged, Entry
from gossamer.store.layout import DATAGRAM_BYTES_MAX

PACKETS_MAX: Final = 64
BYTES_FULL: Final = 96 << 10
"""A block that has reached this takes no more."""

_COUNT: Final = Struct(">H")
_ROW: Final = Struct(">QII")
_CHECKSUM: Final = Struct(">I")
BLOCK_BYTES_MAX: Final = (
    _COUNT.size + PACKETS_MAX * _ROW.size + _CHECKSUM.size + BYTES_FULL + DATAGRAM_BYTES_MAX
)  # the last packet may reach over BYTES_FULL


class BlockError(ValueError):
    """A block whose table is damaged: nothing in it can be read."""


class Block(NamedTuple):
    """A block as it is read: its table is intact, its packets are checked when they are taken."""

    sender: int
    first: int
    times: tuple[int, ...]
    checksums: tuple[int, ...]
    datagrams: list[bytes]

    @property
    def last(self) -> int:
        """The number of its last packet."""
        return self.first + len(self.times) - 1

    def entries(self, first: int, last: int) -> tuple[list[Entry], Damaged | None]:
        """The packets `first` to `last`, which must be in it, up to the first damaged one, and that one."""
        part = slice(first - self.first, last - self.first + 1)
        datagrams, expected = self.datagrams[part], self.checksums[part]
        found = tuple(map(crc32, datagrams))
        damaged = None
        if found != expected:
            intact = next(i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
            damaged = Damaged(self.sender, first + intact)
            del datagrams[intact:]
        # Entry(...) runs Python code for each packet: this does not.
        rows = zip(repeat(self.sender), range(first, first + len(datagrams)), self.times[part], datagrams)
        return list(map(tuple.__new__, repeat(Entry), rows)), damaged

    def part(self, first: int, last: int) -> tuple[int, bytes]:
        """The first number and the value of a block with these packets of it, damaged ones included."""
        part = slice(first - self.first, last - self.first + 1)
        return first, _pack(self.sender, first, self.times[part], self.checksums[part], self.datagrams[part])


def pack_run(run: Sequence[Entry]) -> Iterator[tuple[int, bytes]]:
    """The first number and the value of each block that holds a part of these consecutive packets of one sender."""
    for start, end in _cut([len(entry.datagram) for entry in run]):
        sender, first, _, _ = run[start]
        _, _, times, datagrams = zip(*run[start:end], strict=True)
        yield first, _pack(sender, first, times, tuple(map(crc32, datagrams)), datagrams)


def unpack(sender: int, first: int, value: bytes | memoryview) -> Block:
    """The block with this key and value; BlockError if its table is damaged."""
    if len(value) > BLOCK_BYTES_MAX:  # before it is copied: a damaged length would lead out of the file
        raise BlockError
    value = bytes(value)
    count = count_packets(value)
    table_end = _COUNT.size + count * _ROW.size
    start = table_end + _CHECKSUM.size
    if not 1 <= count <= PACKETS_MAX or len(value) < start:
        raise BlockError
    if _CHECKSUM.unpack_from(value, table_end)[0] != crc32(value[:table_end], _seed(sender, first)):
        raise BlockError
    times, lengths, checksums = zip(*_ROW.iter_unpack(value[_COUNT.size : table_end]), strict=True)
    edges = accumulate(lengths, initial=start)
    return Block(sender, first, times, checksums, [value[a:b] for a, b in pairwise(edges)])


def count_packets(value: bytes | memoryview) -> int:
    """How many packets a block has, if its table is intact."""
    return int.from_bytes(value[: _COUNT.size], "big")


def _pack(sender: int, first: int, times: Sequence[int], checksums: Sequence[int], datagrams: Sequence[bytes]) -> bytes:
    rows = b"".join(map(_ROW.pack, times, map(len, datagrams), checksums))
    table = _COUNT.pack(len(datagrams)) + rows
    return b"".join((table, _CHECKSUM.pack(crc32(table, _seed(sender, first))), *datagrams))


def _seed(sender: int, first: int) -> int:
    return (sender ^ first) & 0xFFFF_FFFF


def _cut(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where blocks begin and end in a run of packets of these lengths."""
    start = size = 0
    for at, length in enumerate(lengths):
        if size >= BYTES_FULL or at - start == PACKETS_MAX:
            yield start, at
            start, size = at, 0
        size += length
    if start < len(lengths):
        yield start, len(lengths)
