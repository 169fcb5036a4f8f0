"""The table of packets in LMDB: finding the block that has a packet, and removing packets.

Blocks do not overlap: a number is stored once, and one that was dropped as damaged is cut out of its block. Only a
block whose own table is damaged stays, unreadable, until all its packets are dropped; new copies of them are stored
after its key, or take its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.core.packet_sets import PacketSets
from gossamer.core.ranges import RangeSet
from gossamer.store.layout import KEY
from gossamer.store.packed_blocks import PACKETS_MAX, BlockError, PackedBlock, count_packets, unpack

if TYPE_CHECKING:
    from lmdb import Cursor

    from gossamer.store.range_table import Table


def find(table: Table, sender: int, first: int, last: int) -> PackedBlock | None:
    """Packet `first`, and those up to `last` in the same block; None if there is no block, or its table is damaged."""
    begin = _seek(table, sender, first)
    if begin is None or begin > first:
        return None
    try:
        block = unpack(sender, begin, table.value(), slice(first - begin, last - begin + 1))
    except BlockError:
        return None
    return block if block.datagrams else None


def sweep(table: Cursor[bytes], sender: int, first: int, last: int, held: RangeSet) -> None:
    """Delete the blocks that overlap `first..last` and have nothing else that is held."""
    block_first = _seek(table, sender, first)
    while block_first is not None and block_first <= last:
        block_last = block_first + min(PACKETS_MAX, count_packets(table.value())) - 1
        if _any_held(held, block_first, first - 1) or _any_held(held, last + 1, block_last):
            table.next()
        else:
            table.delete()  # moves to the next
        block_first = _first(table, sender)


def cut_out(table: Cursor[bytes], sender: int, number: int, held: RangeSet) -> None:
    """Cut one packet out of its block and keep the rest."""
    first = _seek(table, sender, number)
    if first is None or first > number:
        return
    value, place = table.value(), number - first
    try:
        parts = [unpack(sender, first, value, part) for part in (slice(0, place), slice(place + 1, None))]
    except BlockError:
        _delete_if_alone(table, sender, first, number, held)
        return
    if place < count_packets(value):
        table.delete()
        for part in parts:
            if _any_held(held, part.first, part.last):
                table.put(KEY.pack(sender, part.first), part.pack())


def _delete_if_alone(table: Cursor[bytes], sender: int, first: int, number: int, held: RangeSet) -> None:
    """Delete the unreadable block at `first` if `number` is the last of its packets that is still held."""
    table.next()
    following = _first(table, sender)
    last = first + PACKETS_MAX - 1 if following is None else min(first + PACKETS_MAX, following) - 1
    if not _any_held(held, first, number - 1) and not _any_held(held, number + 1, last):
        table.set_key(KEY.pack(sender, first))
        table.delete()


def numbers(table: Cursor[bytes]) -> PacketSets:
    """Every number of every block."""
    found: PacketSets = {}
    for key, value in table:
        sender, first = KEY.unpack(key)
        found.setdefault(sender, RangeSet()).add(first, first + max(1, count_packets(value)) - 1)
    return found


def _any_held(held: RangeSet, first: int, last: int) -> bool:
    return first <= last and bool(held.within(first, last))


def _seek(table: Table, sender: int, number: int) -> int | None:
    """Go to the sender's last block that begins at or before `number`, else to its first; returns where it begins."""
    key = KEY.pack(sender, number)
    found = table.set_range(key)
    if found and table.key() == key:
        return number
    before = table.prev() if found else table.last()
    first = _first(table, sender) if before else None
    if first is None and found:
        table.set_range(key)
        first = _first(table, sender)
    return first


def _first(table: Table, sender: int) -> int | None:
    """Where the block under the cursor begins, if it belongs to `sender`."""
    key = table.key()
    if not key:
        return None
    owner, first = KEY.unpack(key)
    return int(first) if owner == sender else None
