"""The log store on disk, in LMDB: one process writes while any number may read.

Every `append` is one transaction and one sync (group commit: the logger gathers, the store does not), and its packets
are stored together in `packed_blocks`: the more packets of a sender at a time, the better. The writer keeps the ranges
that are held and collected in memory and writes their changes in the same transaction as the packets, so opening a
store of any size takes no longer than reading its ranges. A lock on a separate file keeps out a second logger, since
LMDB's lock is only held during a transaction, and consumers commit from other processes.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from gossamer.core.packet_sets import Horizon, PacketSets, remove
from gossamer.core.ranges import RangeSet
from gossamer.store import about, block_table, packed_blocks, range_table
from gossamer.store.contract import Consumer, Damaged, LogEntry, StoreError, StoreFull
from gossamer.store.data_file import DATA_FILE, check_structure, check_whole
from gossamer.store.environment import DatabaseName, Environment, acquire, release
from gossamer.store.layout import (
    KEY,
    NUMBER,
    NUMBER_MAX,
    advanced,
    check_commit,
    check_entries,
    claimed_after,
    is_passed,
    pack_consumer,
    unpack_consumer,
    with_checksum,
    without_checksum,
)
from gossamer.store.packed_blocks import PackedBlock
from gossamer.store.portions import Stretch, portions
from gossamer.store.service_time import ServiceTime

if TYPE_CHECKING:
    import lmdb

    Writing = lmdb.Transaction[bytes]

T = TypeVar("T")

LOCK_FILE: Final = "logger.lock"
READ_BYTES: Final = 128 << 10
"""About how much one read transaction copies."""
SWEEP_ENTRIES_MAX: Final = 16_384
SWEEP_BYTES: Final = 64 << 20
"""About how much one transaction collects: few enough pages that listing them as free fits into the reserve."""
SMALL_BYTES: Final = 64 << 10
"""Room to ask for if only tables change."""


class LmdbStore:
    """A `LogStore` in a directory, opened with `open_store`. One thread at a time may write, any number may read."""

    def __init__(self, path: Path, *, group: str | None, readonly: bool, map_bytes: int | None) -> None:
        self.path: Final = path
        self.readonly: Final = readonly
        self._broken: StoreError | None = None
        self._claim_rows: dict[bytes, bytes] = {}
        self._claimed: list[Consumer] = []  # what these rows say
        self._tables = threading.Lock()
        self._lock = None if readonly else lock(path)
        self._environment: Environment | None = None
        try:
            if not readonly and (path / DATA_FILE).exists():
                check_whole(path)
                check_structure(path)
            self._environment = acquire(path, writable=not readonly, map_bytes=map_bytes)
            self._env.open_databases(create=not readonly and self._env.is_new())
            self.group, self.has_channels = self._read_about(group)
            self._held, self._collected = self._load() if not readonly else ({}, {})
            if not readonly and not self.has_channels:
                self._give_channels()
        except BaseException:
            self.close()
            raise

    # Writing

    def append(self, entries: Iterable[LogEntry]) -> None:
        """See `LogStore`."""
        by_sender: dict[int, dict[int, LogEntry]] = {}
        for entry in entries:
            by_sender.setdefault(entry.sender, {}).setdefault(entry.seqno, entry)
        new: PacketSets = {}
        items: list[tuple[bytes, bytes]] = []
        for sender, by_number in sorted(by_sender.items()):
            check_entries(by_number.values())
            numbers = self._unknown(sender, by_number)
            if numbers:
                new[sender] = numbers
                items += _pack_blocks(sender, numbers, by_number)
        if not items:
            self._may_write()
            return

        def work(transaction: Writing) -> None:
            transaction.cursor(self._db("packets")).putmulti(items)
            held = transaction.cursor(self._db("held"))
            for sender, numbers in new.items():
                for first, last in numbers.ranges():
                    range_table.add(held, sender, first, last)

        self._write(work, self._pages_for(items))
        with self._tables:
            for sender, numbers in new.items():
                self._held.setdefault(sender, RangeSet()).update(numbers)

    def collect(self, numbers: PacketSets, *, spare: bool = False) -> int:
        """See `LogStore`."""
        wanted = [(sender, *part) for sender, done in sorted(numbers.items()) for part in done.ranges()]
        return sum(self._collect_some(some, spare) for some in portions(wanted, self._held, self._sweep_entries()))

    def forget_collected(self, senders: Iterable[int]) -> list[int]:
        """See `LogStore`."""
        some = list(islice(senders, SWEEP_ENTRIES_MAX))
        before = self.forgotten()

        def work(transaction: Writing) -> list[int]:
            claims, table = self._claims(transaction), transaction.cursor(self._db("collected"))
            passed = [sender for sender in some if is_passed(claims, sender, self._collected)]
            for sender in passed:
                range_table.discard(table, sender, 0, NUMBER_MAX)
            _put_row(transaction, self._db("about"), b"forgotten", NUMBER.pack(before + len(passed)))
            return passed

        passed = set(self._write(work, SMALL_BYTES, reserve=0))
        with self._tables:
            for sender in passed:
                self._collected.pop(sender, None)
        return [sender for sender in senders if sender not in passed]

    def forgotten(self) -> int:
        """See `LogStore`."""
        return self._about_number(b"forgotten")

    def drop(self, sender: int, seqno: int) -> None:
        """See `LogStore`."""

        def work(transaction: Writing) -> None:
            held = self._held.get(sender, RangeSet())
            block_table.cut_out(transaction.cursor(self._db("packets")), sender, seqno, held)
            for table in ("held", "collected"):
                range_table.discard(transaction.cursor(self._db(table)), sender, seqno, seqno)

        self._write(work, 2 * packed_blocks.BLOCK_BYTES_MAX + SMALL_BYTES, reserve=0)
        with self._tables:
            remove(self._held, sender, seqno, seqno)
            remove(self._collected, sender, seqno, seqno)

    def commit(self, consumer: str, positions: Horizon) -> None:
        """See `LogStore`."""
        check_commit(consumer, positions)
        key = consumer.encode()

        def work(transaction: Writing) -> None:
            value = transaction.get(key, db=self._db("consumers"))
            before = unpack_consumer(consumer, without_checksum(key, value)).committed if value is not None else {}
            after = pack_consumer(advanced(before, positions), time.time_ns())
            transaction.put(key, with_checksum(key, after), db=self._db("consumers"))

        self._env.make_writable()
        self._env.write(work, SMALL_BYTES + 2 * KEY.size * len(positions), reserve=0)

    def forget_consumer(self, consumer: str) -> bool:
        """See `LogStore`."""
        self._env.make_writable()
        return self._env.write(lambda t: t.delete(consumer.encode(), db=self._db("consumers")), SMALL_BYTES, reserve=0)

    def reserve(self, below: int) -> None:
        """See `LogStore`."""
        if below > self.reserved():
            self._put_about({b"checked out": NUMBER.pack(below)})

    # Reading

    def read(self, sender: int, first: int, last: int) -> Iterator[LogEntry]:
        """See `LogStore`. No transaction is open between entries, so the caller may take as long as it likes."""
        first, last = max(first, 0), min(last, NUMBER_MAX)
        while first <= last:
            entries, damaged, first = self._read_some(sender, first, last)
            yield from entries
            if damaged is not None:
                raise damaged

    def held(self, of: Iterable[int] | None = None) -> PacketSets:
        """See `LogStore`."""
        known = self._ranges("held") if self.readonly else self._held
        with self._tables:
            return _copy(known if of is None else {sender: known[sender] for sender in of if sender in known})

    def collected(self) -> PacketSets:
        """See `LogStore`."""
        if self.readonly:
            return self._ranges("collected")
        with self._tables:
            return _copy(self._collected)

    def consumers(self) -> list[Consumer]:
        """See `LogStore`."""
        return [unpack_consumer(name.decode(), value) for name, value in self._rows("consumers").items()]

    def reserved(self) -> int:
        """See `LogStore`."""
        return self._about_number(b"checked out")

    def service_time(self) -> ServiceTime:
        """See `LogStore`."""
        return ServiceTime.unpack(self._rows("about").get(b"service", b""))

    def keep_service_time(self, service: ServiceTime) -> None:
        """See `LogStore`."""
        self._put_about({b"service": service.pack()})

    def names(self) -> dict[int, str]:
        """See `LogStore`."""
        return about.unpack_names(self._rows("about").get(b"names", b""))

    def keep_names(self, names: dict[int, str]) -> None:
        """See `LogStore`."""
        self._put_about({b"names": about.pack_names(names)})

    def created_ns(self) -> int:
        """When the store was made, nanoseconds since the epoch."""
        return self._about_number(b"created")

    def bytes_used(self) -> int:
        """See `LogStore`."""
        return self._env.tree_bytes("packets")

    # Opening and closing

    def close(self) -> None:
        """See `LogStore`."""
        if self._environment is not None:
            release(self._environment)
            self._environment = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_about(self, group: str | None) -> tuple[str, bool]:
        """The name of the group, and whether numbers carry channels. A new store becomes that of `group`."""
        rows = self._rows("about")
        if not rows:
            if self.readonly:
                raise StoreError(f"{self.path}: the store is not ready yet; a logger is just making it, try again")
            rows = about.of_new_store()
            self._put_about(rows)
            sync_directories(self.path)
        about.check_version(self.path, rows)
        name = about.check_group(self.path, rows, group)
        if group and not rows[b"group"] and not self.readonly:
            self._put_about({b"group": group.encode()})
        return name, about.has_channels(rows)

    def _give_channels(self) -> None:
        """A logger goes on with a store from before there were channels, if its numbers mean the same now."""
        about.check_numbers(self.path, {*self._held, *self._collected})
        self._put_about(dict(about.CHANNELS))
        self.has_channels = True

    def _put_about(self, rows: dict[bytes, bytes]) -> None:
        def work(transaction: Writing) -> None:
            for key, value in rows.items():
                _put_row(transaction, self._db("about"), key, value)

        self._write(work, SMALL_BYTES)

    def _load(self) -> tuple[PacketSets, PacketSets]:
        """Load the ranges held and collected; those held are rebuilt if their table is missing or damaged."""
        collected = self._ranges("collected")
        try:
            held = self._ranges("held")
        except StoreError:  # this table can be rebuilt; if more than that is damaged, rebuilding fails, too
            held = {}
        if not held and self._env.tree_bytes("packets"):
            held = self._rebuild(collected)
        return held, collected

    def _rebuild(self, collected: PacketSets) -> PacketSets:
        """Rebuild the table `held` from the blocks; returns its ranges."""

        def work(transaction: Writing) -> PacketSets:
            held = block_table.numbers(transaction.cursor(self._db("packets")))
            transaction.drop(self._db("held"), delete=False)
            table = transaction.cursor(self._db("held"))
            for sender, numbers in held.items():
                numbers.subtract(collected.get(sender, RangeSet()))
                for first, last in numbers.ranges():
                    range_table.add(table, sender, first, last)
            return held

        return self._env.write(work, SMALL_BYTES)

    # Inside

    @property
    def _env(self) -> Environment:
        if self._environment is None:
            raise StoreError(f"{self.path}: the store is closed")
        return self._environment

    def _db(self, name: DatabaseName) -> lmdb._Database:
        return self._env.databases[name]

    def _may_write(self) -> None:
        if self.readonly:
            raise StoreError(f"{self.path}: opened for reading; only the logger appends and collects")
        if self._broken is not None:
            raise StoreError(f"{self._broken}; nothing more is stored until the store is opened again")

    def _write(self, work: Callable[[Writing], T], new_bytes: int, **room: int) -> T:
        """Do one transaction of the logger. After a failure other than lack of room, nobody knows what the disk will
        do next: the store accepts nothing more."""
        self._may_write()
        try:
            return self._env.write(work, new_bytes, **room)
        except StoreFull:
            raise
        except StoreError as error:
            self._broken = error
            raise

    def _unknown(self, sender: int, by_number: dict[int, LogEntry]) -> RangeSet:
        """The numbers that are neither held nor collected."""
        numbers = RangeSet()
        for number in sorted(by_number):
            numbers.add(number)
        for table in (self._held, self._collected):
            if sender in table:
                numbers = numbers.difference(table[sender])
        return numbers

    def _pages_for(self, items: list[tuple[bytes, bytes]]) -> int:
        """An upper estimate of the bytes in all pages that a transaction with these items may write."""
        page = self._env.page_bytes
        return sum((len(value) + 64 + page) // page * page for _, value in items) + SMALL_BYTES

    def _collect_some(self, wanted: list[Stretch], spare: bool) -> int:
        """Collect these in one transaction, which the reserve allows; returns how many packets were held."""

        held = {sender: self._held.get(sender, RangeSet()).copy() for sender, _, _ in wanted}

        def work(transaction: Writing) -> list[Stretch]:
            done = []
            for sender, first, last in wanted:
                if spare:
                    last = min(last, claimed_after(self._claims(transaction), sender))
                if first <= last:
                    self._sweep(sender, first, last, held[sender], transaction)
                    held[sender].discard(first, last)
                    done.append((sender, first, last))
            return done

        collected = self._write(work, SMALL_BYTES, reserve=0)
        with self._tables:
            for sender, first, last in collected:
                self._collected.setdefault(sender, RangeSet()).add(first, last)
            return sum(remove(self._held, *stretch) for stretch in collected)

    def _sweep(self, sender: int, first: int, last: int, held: RangeSet, transaction: Writing) -> None:
        block_table.sweep(transaction.cursor(self._db("packets")), sender, first, last, held)
        range_table.discard(transaction.cursor(self._db("held")), sender, first, last)
        range_table.add(transaction.cursor(self._db("collected")), sender, first, last)

    def _claims(self, transaction: Writing) -> list[Consumer]:
        """The consumers, as they are in this transaction: nobody can commit before it ends."""
        rows = dict(transaction.cursor(self._db("consumers")))
        if rows != self._claim_rows:
            self._claim_rows = rows
            self._claimed = [unpack_consumer(key.decode(), without_checksum(key, row)) for key, row in rows.items()]
        return self._claimed

    def _sweep_entries(self) -> int:
        entries = sum(map(len, self._held.values()))
        average = max(1, self.bytes_used() // max(1, entries))
        return max(64, min(SWEEP_ENTRIES_MAX, SWEEP_BYTES // average))

    def _read_some(self, sender: int, first: int, last: int) -> tuple[list[LogEntry], Damaged | None, int]:
        """Read some of what is held of `first..last`; returns the entries, the damage met, and where to continue."""
        found: list[PackedBlock] = []
        damaged: Damaged | None = None
        copied = 0
        with self._env.reading() as transaction:
            held, packets = transaction.cursor(self._db("held")), transaction.cursor(self._db("packets"))
            while copied < READ_BYTES and damaged is None:
                piece = range_table.next_range(held, sender, first, last)
                if piece is None:
                    first = last + 1
                    break
                block = block_table.find(packets, sender, *piece)
                if block is None:  # listed as held, but not there
                    damaged = Damaged(sender, piece[0])
                else:
                    found.append(block)
                    first = block.last + 1
                    copied += sum(map(len, block.datagrams))
        return *_intact(found, damaged), first

    def _ranges(self, name: DatabaseName) -> PacketSets:
        with self._env.reading() as transaction:
            return range_table.load(transaction.cursor(self._db(name)))

    def _rows(self, name: DatabaseName) -> dict[bytes, bytes]:
        with self._env.reading() as transaction:
            return {bytes(key): without_checksum(key, value) for key, value in transaction.cursor(self._db(name))}

    def _about_number(self, key: bytes) -> int:
        return int.from_bytes(self._rows("about").get(key, b""), "big")


def open_store(
    path: str | os.PathLike[str], *, group: str | None = None, readonly: bool = False, map_bytes: int | None = None
) -> LmdbStore:
    """Open the store in this directory, creating it if needed unless `readonly`.

    There is one writer, the logger; with `readonly`, any process can read, and commit for consumers. `group` must be
    the one that the store was made for. `map_bytes` is the initial size of the map; leave it to the store. StoreError
    says why the store cannot be opened.
    """
    directory = Path(path)
    if not readonly:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as reason:
            raise StoreError(f"{directory}: cannot make a store here ({reason.strerror})") from reason
    return LmdbStore(directory, group=group, readonly=readonly, map_bytes=map_bytes)


def lock(path: Path) -> int:
    """Lock the store against other loggers for as long as the returned descriptor is open, however the process ends."""
    try:
        descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as reason:
        raise StoreError(f"{path}: cannot be written ({reason.strerror})") from reason
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise StoreError(
            f"{path}: another logger has this store, process {owner}; stop it, or give another --store"
        ) from None
    with suppress(OSError):  # a full disk: only the lock matters, the number is just for the message above
        os.pwrite(descriptor, f"{os.getpid():<20}\n".encode(), 0)
    return descriptor


def _put_row(transaction: Writing, table: lmdb._Database, key: bytes, value: bytes) -> None:
    transaction.put(key, with_checksum(key, value), db=table)


def sync_directories(path: Path) -> None:
    """Make the directory entries of a new store as durable as its content."""
    for directory in (path, path.absolute().parent):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _pack_blocks(sender: int, numbers: RangeSet, by_number: dict[int, LogEntry]) -> Iterator[tuple[bytes, bytes]]:
    """Pack these entries of a sender into keys and values."""
    for first, last in numbers.ranges():
        for block in packed_blocks.blocks_of([by_number[number] for number in range(first, last + 1)]):
            yield KEY.pack(sender, block.first), block.pack()


def _intact(found: list[PackedBlock], damaged: Damaged | None) -> tuple[list[LogEntry], Damaged | None]:
    """The entries of these blocks up to a damaged one, and that one; if all are intact, the `damaged` after them."""
    entries: list[LogEntry] = []
    for block in found:
        intact, broken = block.entries()
        entries += intact
        if broken is not None:
            return entries, broken
    return entries, damaged


def _copy(table: PacketSets) -> PacketSets:
    return {sender: numbers.copy() for sender, numbers in sorted(table.items()) if numbers}
