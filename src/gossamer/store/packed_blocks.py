"""Blocks: consecutive packets of one sender that were stored together are kept together.

LMDB has pages of 4 KB, and one packet of Ethernet size per page would waste two thirds of the disk and of every sync.
So a run of packets is cut into blocks; one value of the store is one block:

    count (2 bytes); for each packet its time (8), its length (4) and its CRC-32 (4); the CRC-32 of all this (4);
    the datagrams, one after the other

The checksum of the table begins with the block's key, so a block under the wrong key is not accepted. Only the packets
that the table `held` lists count; a block is deleted with the last of them.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, repeat
from struct import Struct
from typing import Final, NamedTuple

from gossamer.core.checksum import crc32
from gossamer.core.errors import Error
from gossamer.store.contract import Damaged, LogEntry
from gossamer.store.layout import DATAGRAM_BYTES_MAX

PACKETS_MAX: Final = 64
BYTES_FULL: Final = 96 << 10
"""A block that has reached this size takes no more packets."""

_COUNT: Final = Struct(">H")
_ROW: Final = Struct(">QII")
_CHECKSUM: Final = Struct(">I")
BLOCK_BYTES_MAX: Final = (
    _COUNT.size + PACKETS_MAX * _ROW.size + _CHECKSUM.size + BYTES_FULL + DATAGRAM_BYTES_MAX
)  # the last packet may exceed BYTES_FULL


ALL: Final = slice(None)


class BlockError(Error, ValueError):
    """A block whose table is damaged: nothing in it can be read."""


class PackedBlock(NamedTuple):
    """A block, or the requested part of one: its table was intact, its packets are checked by `entries`."""

    sender: int
    first: int
    times: tuple[int, ...]
    checksums: tuple[int, ...]
    datagrams: tuple[bytes, ...]

    @property
    def last(self) -> int:
        """The number of its last packet."""
        return self.first + len(self.times) - 1

    def entries(self) -> tuple[list[LogEntry], Damaged | None]:
        """The packets up to the first damaged one, and the error for that one, or None."""
        datagrams, damaged = self.datagrams, None
        found = tuple(map(crc32, datagrams))
        if found != self.checksums:
            intact = next(i for i, (a, b) in enumerate(zip(found, self.checksums, strict=True)) if a != b)
            damaged = Damaged(self.sender, self.first + intact)
            datagrams = datagrams[:intact]
        # LogEntry(...) runs Python code for each packet: this does not.
        rows = zip(repeat(self.sender), range(self.first, self.first + len(datagrams)), self.times, datagrams)
        return list(map(tuple.__new__, repeat(LogEntry), rows)), damaged

    def pack(self) -> bytes:
        """Pack the block as a value, including damaged packets."""
        table = _COUNT.pack(len(self.datagrams)) + b"".join(
            map(_ROW.pack, self.times, map(len, self.datagrams), self.checksums)
        )
        checksum = _CHECKSUM.pack(crc32(table, _seed(self.sender, self.first)))
        return b"".join((table, checksum, *self.datagrams))


def blocks_of(run: Sequence[LogEntry]) -> Iterator[PackedBlock]:
    """Cut these consecutive packets of one sender into blocks."""
    for start, end in _cut([len(entry.datagram) for entry in run]):
        sender, first, _, _ = run[start]
        _, _, times, datagrams = zip(*run[start:end], strict=True)
        yield PackedBlock(sender, first, times, tuple(map(crc32, datagrams)), datagrams)


def unpack(sender: int, first: int, value: bytes | memoryview, wanted: slice = ALL) -> PackedBlock:
    """Unpack the block with this key and value, or its `wanted` packets; BlockError if its table is damaged."""
    count = count_packets(value)
    table_end = _COUNT.size + count * _ROW.size
    start = table_end + _CHECKSUM.size
    # find a damaged length before anything is copied: it would lead out of the file
    if not 1 <= count <= PACKETS_MAX or not start <= len(value) <= BLOCK_BYTES_MAX:
        raise BlockError
    table = bytes(value[:table_end])
    if _CHECKSUM.unpack_from(value, table_end)[0] != crc32(table, _seed(sender, first)):
        raise BlockError
    times, lengths, checksums = zip(*_ROW.iter_unpack(table[_COUNT.size :]), strict=True)
    edges = list(accumulate(lengths, initial=start))
    begin, end, _ = wanted.indices(count)
    datagrams = bytes(value[edges[begin] : edges[max(begin, end)]])
    pieces = tuple([datagrams[a - edges[begin] : b - edges[begin]] for a, b in pairwise(edges[begin : end + 1])])
    return PackedBlock(sender, first + begin, times[wanted], checksums[wanted], pieces)


def count_packets(value: bytes | memoryview) -> int:
    """The number of packets in a block, if its table is intact."""
    return int.from_bytes(value[: _COUNT.size], "big")


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
