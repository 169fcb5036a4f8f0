"""An LMDB environment in this process: transactions, growth, and errors that say what to do.

LMDB allows an environment to be opened only once per process, so all stores in one directory share it. Its map may
change only while there is no transaction (`_Gate`). Writes never go through the map but use `pwrite`, and the file is
allocated ahead of them: a full disk is an error of the call that meets it, never a bus error, and the failed
transaction leaves everything before it as it was.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import error as struct_error
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import lmdb

from gossamer.store.contract import StoreDamaged, StoreError, StoreFull
from gossamer.store.data_file import DATA_FILE, check_whole

if TYPE_CHECKING:
    from lmdb import _Database

T = TypeVar("T")
DatabaseName = Literal["packets", "held", "collected", "consumers", "about"]
DATABASES: Final[tuple[DatabaseName, ...]] = ("packets", "held", "collected", "consumers", "about")

MAP_BYTES_MIN: Final = 1 << 30
AHEAD_BYTES: Final = 16 << 20
"""How much of the file is allocated at a time."""
RESERVE_BYTES: Final = 1 << 20
"""What an append leaves free in the file: a full store must still be able to collect, which at first takes pages.

It also keeps zeros after the last page, so that a damaged length or offset leads there and not out of the file.
"""
LMDB_LOCK_FILE: Final = "lock.mdb"
_LOCK_BYTES: Final = 8192
"""The size of LMDB's table of 126 readers."""
_OWN_PAGES: Final = 8
"""About how many pages LMDB takes for itself: meta data, the list of databases, the list of free pages."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DAMAGED: Final = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    lmdb.PanicError,
    lmdb.IncompatibleError,  # the flags of a table are not what they were
)


class _Gate:
    """Many threads may be inside at a time; one that must be alone waits until they have left."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._changed:
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._inside)
            yield


class Environment:
    """An open environment; get one with `acquire`, and `release` it."""

    def __init__(self, path: Path, writable: bool, map_bytes: int | None) -> None:
        self.path: Final = path
        self.writable = writable
        self.users = 0
        self.databases: dict[str, _Database] = {}
        self._gate = _Gate()
        self._writing = threading.Lock()
        self._env = _open(path, writable, map_bytes)
        self.page_bytes: Final = self._env.stat()["psize"]
        self._file = os.open(path / DATA_FILE, os.O_RDWR if writable else os.O_RDONLY)
        status = os.fstat(self._file)
        self.key: Final = (status.st_dev, status.st_ino)

    def open_databases(self, create: bool) -> None:
        """Find or make the five databases; StoreError if this is an LMDB file but not a store."""
        try:
            self.databases = {name: self._env.open_db(name.encode(), create=create) for name in DATABASES}
        except (lmdb.NotFoundError, lmdb.ReadonlyError):
            raise StoreError(f"{self.path}: an LMDB file, but not a store of gossamer") from None
        except lmdb.Error as reason:
            raise self._error(reason) from reason

    def is_new(self) -> bool:
        """Whether nothing was ever stored here."""
        return self._env.stat()["entries"] == 0

    def make_writable(self) -> None:
        """Reopen the environment for writing, without its users noticing."""
        with self._gate.alone():
            if not self.writable:
                self._reopen(writable=True)

    def _reopen(self, writable: bool) -> None:
        self._env.close()
        os.close(self._file)
        try:
            self._env = _open(self.path, writable, None)
        except StoreError:
            self._env = _open(self.path, False, None)  # as before: it may be readable but not writable
            writable = False
            raise
        finally:
            self._file = os.open(self.path / DATA_FILE, os.O_RDWR if writable else os.O_RDONLY)
            self.databases = {name: self._env.open_db(name.encode(), create=False) for name in self.databases}
            self.writable = writable

    @contextmanager
    def reading(self) -> Iterator[lmdb.Transaction[memoryview]]:
        """A read transaction; keep it short, because what it sees cannot be overwritten meanwhile."""
        try:
            while True:
                with self._gate.inside(), suppress(lmdb.MapResizedError), self._env.begin(buffers=True) as transaction:
                    yield transaction
                    return
                self._set_map(0)  # a writer in another process has made it larger
        except lmdb.Error as reason:
            raise self._error(reason) from reason
        except (struct_error, ValueError) as reason:
            raise self._damaged(reason) from reason

    def write(self, work: Callable[[lmdb.Transaction[bytes]], T], new_bytes: int, reserve: int = RESERVE_BYTES) -> T:
        """Do `work` in one transaction, which is synced when this returns; it is repeated if the map had to grow."""
        with self._writing:
            self._make_room(new_bytes, reserve)
            while True:
                try:
                    with self._gate.inside(), self._env.begin(write=True) as transaction:
                        return work(transaction)
                except lmdb.MapFullError:
                    self._set_map(self._env.info()["map_size"] * 2)
                except lmdb.MapResizedError:
                    self._set_map(0)
                except lmdb.Error as reason:
                    raise self._error(reason) from reason
                except (struct_error, ValueError) as reason:
                    raise self._damaged(reason) from reason

    def tree_bytes(self, name: DatabaseName) -> int:
        """The bytes in the pages of one database."""
        with self.reading() as transaction:
            stat = transaction.stat(self.databases[name])
        return (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]) * self.page_bytes

    def close(self) -> None:
        """Close the environment, once nobody uses it."""
        with self._gate.alone():
            self._env.close()
            os.close(self._file)

    def _set_map(self, size: int) -> None:
        """Resize the map; 0 takes the size that another process has given it."""
        with self._gate.alone():
            try:
                self._env.set_mapsize(size)
            except lmdb.Error as reason:
                raise StoreFull(
                    f"{self.path}: no room for a map of {size:,} bytes ({reason}); see ulimit -v"
                ) from reason

    def _make_room(self, new_bytes: int, reserve: int) -> None:
        """Allocate the file for a transaction with `new_bytes` and `reserve` beyond; StoreFull if there is no room."""
        used = (self._env.info()["last_pgno"] + 1) * self.page_bytes
        size = os.fstat(self._file).st_size
        needed = used + new_bytes + reserve
        if needed <= size:
            return
        self._env.reader_check()  # readers that died keep pages from being reused
        for wanted in (needed + AHEAD_BYTES, needed):
            try:
                os.posix_fallocate(self._file, size, wanted - size)
                return
            except OSError as reason:
                if reason.errno in (errno.EOPNOTSUPP, errno.EINVAL):
                    return  # not supported by this file system: the transaction itself will find out
                if reason.errno not in _FULL:
                    raise StoreError(f"{self.path}: {reason.strerror}") from reason
                full = reason
        # pages of collected packets are reused; if they are too scattered, the transaction itself will fail
        trees = sum(self.tree_bytes(name) for name in DATABASES)
        if size - trees - _OWN_PAGES * self.page_bytes < new_bytes + reserve:
            raise StoreFull(
                f"{self.path}: {full.strerror}, needs {new_bytes:,} bytes more; free some space, or collect packets"
            ) from full

    def _error(self, reason: lmdb.Error) -> StoreError:
        if reason.code in _FULL:
            return StoreFull(f"{self.path}: {os.strerror(reason.code)}; free some space, or collect packets")
        if isinstance(reason, lmdb.ReadersFullError):
            return StoreError(f"{self.path}: too many readers at a time; close some")
        if isinstance(reason, _DAMAGED):
            return self._damaged(reason)
        return StoreError(f"{self.path}: {reason}")

    def _damaged(self, reason: Exception) -> StoreError:
        return StoreDamaged(
            f"{self.path}: damaged ({reason}); `gossamer log info {self.path}` shows what is still readable, and"
            " another logger can fill a new store"
        )


def _open(path: Path, writable: bool, map_bytes: int | None) -> lmdb.Environment:
    if not writable or (path / DATA_FILE).exists():
        check_whole(path)
    if writable:
        _allocate_locks(path)
    try:
        return _open_mapped(path, writable, map_bytes or (_file_system_bytes(path) if writable else 0))
    except lmdb.MemoryError:  # the address space is limited
        size = (path / DATA_FILE).stat().st_size
        return _open_mapped(path, writable, max(2 * size, 1 << 26))


def _open_mapped(path: Path, writable: bool, map_bytes: int) -> lmdb.Environment:
    """Open the environment; `map_bytes` 0 takes the size that the writer chose."""
    try:
        return lmdb.open(
            str(path), map_size=map_bytes, readonly=not writable, create=writable, mode=0o644, max_dbs=len(DATABASES)
        )
    except lmdb.MemoryError:
        raise
    except lmdb.Error as reason:
        if reason.code in _FULL:
            raise StoreFull(f"{path}: {os.strerror(reason.code)}: no room for a store") from reason
        raise StoreError(f"{path}: cannot be opened ({reason})") from reason


def _allocate_locks(path: Path) -> None:
    """Allocate the lock file: LMDB writes it through a map, which would be a bus error on a full file system."""
    try:
        descriptor = os.open(path / LMDB_LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, _LOCK_BYTES)
        finally:
            os.close(descriptor)
    except OSError as reason:
        kind: type[StoreError] = StoreFull if reason.errno in _FULL else StoreError
        raise kind(f"{path}: cannot be written ({reason.strerror})") from reason


def _file_system_bytes(path: Path) -> int:
    """The most that the file can grow to: then the map grows only if the file system does. Address space is free."""
    system = os.statvfs(path)
    return max(MAP_BYTES_MIN, system.f_blocks * system.f_frsize // MAP_BYTES_MIN * MAP_BYTES_MIN)


_shared: dict[tuple[int, int], Environment] = {}
_sharing = threading.Lock()


def acquire(path: Path, *, writable: bool, map_bytes: int | None = None) -> Environment:
    """The environment in this directory, opened if it is not open yet."""
    with _sharing:
        with suppress(OSError):
            status = os.stat(path / DATA_FILE)
            shared = _shared.get((status.st_dev, status.st_ino))
            if shared is not None:
                if writable:
                    shared.make_writable()
                shared.users += 1
                return shared
        environment = Environment(path, writable, map_bytes)
        environment.users = 1
        _shared[environment.key] = environment
        return environment


def release(environment: Environment) -> None:
    """Give an environment back; its last user closes it."""
    with _sharing:
        environment.users -= 1
        if not environment.users:
            _shared.pop(environment.key, None)
            environment.close()


def _forget_after_fork() -> None:
    """Forget what the parent has open: a child must not use it, and could not open it again."""
    global _sharing
    _sharing = threading.Lock()
    for environment in _shared.values():
        environment._env.close()
        os.close(environment._file)
    _shared.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
