"""Ranges in an LMDB table, one row each, `sender, first -> last`: a change costs only the rows that it touches.

If one of these functions raises ValueError or struct.error, the table is damaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.core.packet_sets import PacketSets
from gossamer.core.ranges import Range, RangeSet
from gossamer.store.layout import KEY, NUMBER, with_checksum, without_checksum

if TYPE_CHECKING:
    from lmdb import Cursor

    Table = Cursor[bytes] | Cursor[memoryview]


def load(table: Table) -> PacketSets:
    """Load the whole table."""
    found: PacketSets = {}
    for key, value in table.iternext() if table.first() else ():
        sender, first = KEY.unpack(key)
        found.setdefault(sender, RangeSet()).add(first, *NUMBER.unpack(without_checksum(key, value)))
    return found


def next_range(table: Table, sender: int, first: int, last: int) -> Range | None:
    """The lowest part of `first..last` that is in the table."""
    if first > last or not _seek(table, sender, first):
        return None
    row = _row(table, sender)
    if row is None or row[0] > last:
        return None
    return max(first, row[0]), min(last, row[1])


def add(table: Table, sender: int, first: int, last: int) -> None:
    """Add `first..last`, joining the ranges that it touches."""
    touched = _take(table, sender, max(0, first - 1), last + 1)
    if touched:
        first, last = min(first, touched[0][0]), max(last, touched[-1][1])
    _put(table, sender, first, last)


def discard(table: Table, sender: int, first: int, last: int) -> None:
    """Remove what there is of `first..last`."""
    for row_first, row_last in _take(table, sender, first, last):
        if row_first < first:
            _put(table, sender, row_first, first - 1)
        if row_last > last:
            _put(table, sender, last + 1, row_last)


def _put(table: Table, sender: int, first: int, last: int) -> None:
    key = KEY.pack(sender, first)
    table.put(key, with_checksum(key, NUMBER.pack(last)))


def _take(table: Table, sender: int, first: int, last: int) -> list[Range]:
    """Remove the rows that overlap `first..last` from the table, and return them."""
    taken: list[Range] = []
    if not _seek(table, sender, first):
        return taken
    while (row := _row(table, sender)) is not None and row[0] <= last:
        taken.append(row)
        table.delete()  # moves to the next
    return taken


def _seek(table: Table, sender: int, number: int) -> bool:
    """Go to the first row of `sender` that ends at `number` or later; False if there is none."""
    found = table.set_range(KEY.pack(sender, number))
    before = table.prev() if found else table.last()
    if before:
        row = _row(table, sender)
        if row is not None and row[1] >= number:
            return True
        return table.next()
    return table.first() if found else False


def _row(table: Table, sender: int) -> Range | None:
    """The row under the cursor, if it belongs to `sender`."""
    key = table.key()
    if not key:
        return None
    owner, first = KEY.unpack(key)
    (last,) = NUMBER.unpack(without_checksum(key, table.value()))
    return (first, last) if owner == sender else None
