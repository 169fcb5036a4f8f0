"""Give back to the file system what a store no longer uses.

LMDB reuses the pages of packets that were collected but never shrinks its file. Here everything that is in use is
copied to a new file, which then takes the place of the old one. Nobody else may have the store open: a process that
read on in the old file would commit its positions there.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import lmdb

from gossamer.store.contract import StoreError, StoreFull
from gossamer.store.data_file import DATA_FILE, check_structure, check_whole
from gossamer.store.environment import LMDB_LOCK_FILE
from gossamer.store.on_disk import lock, sync_directories


def compact(path: Path) -> tuple[int, int]:
    """Rewrite the store without unused pages; returns its size in bytes before and after.

    StoreError if it is in use or damaged, StoreFull if there is no room for the copy.
    """
    if not (path / DATA_FILE).exists():
        raise StoreError(f"{path}: there is no store here")
    with _alone(path):
        check_whole(path)
        check_structure(path)
        before = (path / DATA_FILE).stat().st_size
        _replace(path)
        return before, (path / DATA_FILE).stat().st_size


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep out other loggers, by their lock, and all readers: each has a shared lock on LMDB's lock file."""
    ours = lock(path)
    try:
        with open(path / LMDB_LOCK_FILE, "a+b") as readers:
            try:
                fcntl.lockf(readers, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
            except OSError:
                raise StoreError(f"{path}: another process reads this store; stop it first") from None
            yield
    finally:
        os.close(ours)


def _replace(path: Path) -> None:
    with TemporaryDirectory(prefix=".compact-", dir=path) as folder:
        try:
            with lmdb.open(str(path), readonly=True, lock=False) as old:
                _check_room(path, old)
                old.copy(folder, compact=True)
        except lmdb.Error as reason:
            raise StoreFull(f"{path}: cannot be copied ({reason})") from reason
        copy = Path(folder) / DATA_FILE
        with open(copy, "rb") as file:
            os.fsync(file.fileno())
        with suppress(OSError):  # it is another user's store
            shutil.copymode(path / DATA_FILE, copy)
        os.replace(copy, path / DATA_FILE)
        sync_directories(path)


def _check_room(path: Path, store: lmdb.Environment) -> None:
    needed = (store.info()["last_pgno"] + 1) * store.stat()["psize"]
    free = shutil.disk_usage(path).free
    if free < needed:
        raise StoreFull(f"{path}: the copy may need {needed:,} bytes, only {free:,} are free; make room first")
