"""Checks the data file with plain reads, never through a map, to find what would crash LMDB before it maps the file.

LMDB trusts its file. A page that is referred to but cut off is a bus error, not an exception, so a store is only
opened if the file is as long as its newest meta page says. `salvage` finds what is left of a damaged file by looking
at every page by itself: a block's checksum covers its key, so whatever passes was once stored exactly like that.

A page has a header of 16 bytes: its number (8), padding (2), flags (2), and where its free space begins and ends (2
each). In a leaf, the offsets of its nodes follow (2 each); a node has the size of its data (4), flags (2), the size
of its key (2), the key, the data; large data are on pages of their own, and the node has their number. Pages 0 and 1
hold the meta data, of which that of the later transaction counts.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct, error
from typing import Any, Final, NamedTuple, cast

from gossamer.core.packet_sets import PacketSets
from gossamer.core.ranges import RangeSet
from gossamer.store.contract import LogEntry, StoreDamaged, StoreError
from gossamer.store.layout import KEY
from gossamer.store.packed_blocks import BLOCK_BYTES_MAX, BlockError, PackedBlock, unpack

DATA_FILE: Final = "data.mdb"

_MAGIC: Final = 0xBEEFC0DE
_FORMAT: Final = 1
_META: Final = Struct("<IIQQ I44x 48x QQ")
_PAGE: Final = Struct("<QHHHH")
_NODE: Final = Struct("<IHH")
_OFFSET: Final = Struct("<H")
_PAGE_NUMBER: Final = Struct("<Q")
_LEAF, _BIG = 0x02, 0x01
_PAGE_BYTES: Final = 4096
"""What LMDB uses on machines with pages of this size; meta page 0 says what it really used."""


class _Meta(NamedTuple):
    format: int
    page_bytes: int
    last_page: int
    transaction: int


def check_whole(store: Path) -> None:
    """Raise StoreError if there is no data file, if it is not LMDB's, or if its end is missing."""
    path = store / DATA_FILE
    try:
        with path.open("rb") as file:
            metas = _metas(file.fileno())
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise StoreError(
            f"{store}: there is no store here; a logger makes one: gossamer logger GROUP --store {store}"
        ) from None
    except OSError as reason:
        raise StoreError(f"{path}: {reason.strerror}") from reason
    if not metas:
        raise StoreDamaged(f"{path}: not the data file of a store, or its beginning is damaged")
    newest = max(metas, key=lambda meta: meta.transaction)
    if newest.format != _FORMAT:
        return  # from another version of LMDB: let LMDB itself judge
    needed = (newest.last_page + 1) * newest.page_bytes
    if size < needed:
        raise StoreDamaged(
            f"{path}: cut short, {size:,} of at least {needed:,} bytes; `gossamer log info {store}` shows what is still"
            " readable, and another logger can fill a new store"
        )


def check_structure(store: Path) -> None:
    """Raise StoreDamaged if pages, trees or the list of free pages contradict each other: LMDB would crash on writing.

    Takes about 0.2 s for a gigabyte of packets. The packets themselves are checked when they are read.
    """
    from lmdb import verify

    for _ in range(3):
        before = _newest(store)
        try:
            problems: list[str] = cast(Any, verify).verify(str(store))
        except cast(Any, verify).VerifyError as reason:
            problems = [str(reason)]
        if not problems:
            return
        if _newest(store) == before:  # otherwise a consumer committed meanwhile: look again
            break
    raise StoreDamaged(
        f"{store / DATA_FILE}: damaged ({problems[0]}); `gossamer log info {store}` shows what is still readable, and"
        " another logger can fill a new store"
    )


def _newest(store: Path) -> int:
    with (store / DATA_FILE).open("rb") as file:
        return max((meta.transaction for meta in _metas(file.fileno())), default=0)


def salvage(store: Path, progress: Callable[[float], None] = lambda done: None) -> PacketSets:
    """The packets that are still intact in a damaged data file, including collected ones not yet overwritten."""
    found: PacketSets = {}
    for entry in salvaged_entries(store, progress):
        found.setdefault(entry.sender, RangeSet()).add(entry.seqno)
    return dict(sorted(found.items()))


def salvaged_entries(store: Path, progress: Callable[[float], None] = lambda done: None) -> Iterator[LogEntry]:
    """Every intact entry in the pages of a data file, in no particular order, possibly more than once."""
    with (store / DATA_FILE).open("rb") as file:
        descriptor = file.fileno()
        metas = _metas(descriptor)
        page_bytes = metas[0].page_bytes if metas else _PAGE_BYTES
        pages = os.fstat(descriptor).st_size // page_bytes
        for number in range(pages):
            page = os.pread(descriptor, page_bytes, number * page_bytes)
            own_number, _, flags, lower, _ = _PAGE.unpack_from(page)
            if flags == _LEAF and own_number == number:
                for block in _blocks(descriptor, page, lower):
                    yield from _intact(block)
            if number % 1024 == 0:
                progress(number / pages)


def _blocks(descriptor: int, page: bytes, lower: int) -> Iterator[PackedBlock]:
    """The blocks in a leaf that have an intact table."""
    for at in range(_PAGE.size, min(lower, len(page) - 1), _OFFSET.size):
        try:
            (node,) = _OFFSET.unpack_from(page, at)
            size, flags, key_bytes = _NODE.unpack_from(page, node)
            if key_bytes != KEY.size or size > BLOCK_BYTES_MAX:
                continue
            sender, first = KEY.unpack_from(page, node + _NODE.size)
            start = node + _NODE.size + KEY.size
            value = page[start : start + size]
            if flags & _BIG:
                (number,) = _PAGE_NUMBER.unpack_from(page, start)
                value = os.pread(descriptor, size, number * len(page) + _PAGE.size)
            yield unpack(sender, first, value)
        except (error, OSError, OverflowError, BlockError):
            continue  # a node that points outside of its page or the file, or at something else


def _intact(block: PackedBlock) -> Iterator[LogEntry]:
    for at in range(len(block.datagrams)):
        one = slice(at, at + 1)
        alone = PackedBlock(
            block.sender, block.first + at, block.times[one], block.checksums[one], block.datagrams[one]
        )
        yield from alone.entries()[0]


def _metas(descriptor: int) -> list[_Meta]:
    """The meta pages that look valid."""
    first = _meta(descriptor, 0)
    second = _meta(descriptor, first.page_bytes if first is not None else _PAGE_BYTES)
    return [meta for meta in (first, second) if meta is not None]


def _meta(descriptor: int, at: int) -> _Meta | None:
    page = os.pread(descriptor, _PAGE.size + _META.size, at)
    if len(page) < _PAGE.size + _META.size:
        return None
    magic, version, _, _, page_bytes, last_page, transaction = _META.unpack_from(page, _PAGE.size)
    if magic != _MAGIC or page_bytes not in (1 << power for power in range(9, 17)):
        return None
    return _Meta(version, page_bytes, last_page, transaction)
