"""The durable log: packets as they were sent, by sender and number, kept until all that are owed them have them.

`open_store` opens one on disk (and imports lmdb only then), `MemoryStore` is one in memory; both implement the contract
`LogStore`.
"""

import os
from typing import TYPE_CHECKING

from gossamer.store.contract import Consumer, Damaged, LogEntry, LogStore, StoreDamaged, StoreError, StoreFull
from gossamer.store.memory import MemoryStore

if TYPE_CHECKING:
    from gossamer.store.on_disk import LmdbStore

__all__ = [
    "Consumer",
    "Damaged",
    "LogEntry",
    "LogStore",
    "MemoryStore",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "open_store",
]


def open_store(
    path: str | os.PathLike[str], *, group: str | None = None, readonly: bool = False, map_bytes: int | None = None
) -> "LmdbStore":
    """Open the store in this directory, creating it if needed unless `readonly`. See `on_disk.open_store`."""
    from gossamer.store import on_disk

    return on_disk.open_store(path, group=group, readonly=readonly, map_bytes=map_bytes)
