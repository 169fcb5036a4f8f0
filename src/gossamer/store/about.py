"""What a store says of itself: its version, its group, and whether the numbers of its senders carry channels.

Before there were channels, the number of a sender had 63 bits, and what would be its channel now is a part of that
number. Such a store can be read, and everything in it is of channel 0; a logger goes on with it only if its numbers are
short enough to mean the same now.
"""

import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from gossamer.core.ids import MEMBER_BITS
from gossamer.store.contract import StoreError
from gossamer.store.layout import NUMBER, VERSION

Rows = Mapping[bytes, bytes]

CHANNELS: Rows = {b"member bits": NUMBER.pack(MEMBER_BITS)}
"""Says that a sender is a stream: a member with so many bits, and a channel above them."""

NAMES_BYTES_MAX = 32 << 10
"""What names take at most: about 1,500 of them."""


def of_new_store() -> dict[bytes, bytes]:
    """What a store says that was made just now."""
    return {b"version": NUMBER.pack(VERSION), b"created": NUMBER.pack(time.time_ns()), b"group": b"", **CHANNELS}


def check_version(path: Path, rows: Rows) -> None:
    """StoreError if this is not a store that we can read."""
    (version,) = NUMBER.unpack(rows[b"version"])
    if version > VERSION:
        raise StoreError(f"{path}: a store of version {version}, this gossamer knows {VERSION}; update gossamer")
    if version < VERSION:
        raise StoreError(
            f"{path}: a store of version {version}, from an older gossamer with another format of datagrams; "
            f"this one reads version {VERSION}: export it with the older one, or give another --store"
        )


def check_group(path: Path, rows: Rows, group: str | None) -> str:
    """The name of the group; StoreError if it is not `group`."""
    known = rows[b"group"].decode()
    if group is not None and known and known != group:
        raise StoreError(f"{path}: the store of group {known!r}, not of {group!r}; give another --store")
    return known or group or ""


def pack_names(names: Mapping[int, str]) -> bytes:
    """Names as a value of the store: of very many those that come last."""
    rows: list[bytes] = []
    room = NAMES_BYTES_MAX
    for member, name in reversed(list(names.items())):
        row = json.dumps([member, name]).encode()
        room -= len(row) + 1
        if room < 0:
            break
        rows.append(row)
    return b"\n".join(reversed(rows))


def unpack_names(value: bytes) -> dict[int, str]:
    """Names from a value of the store."""
    return dict(json.loads(row) for row in value.splitlines())


def has_channels(rows: Rows) -> bool:
    """Whether the numbers of senders carry channels."""
    return all(rows.get(key) == value for key, value in CHANNELS.items())


def check_numbers(path: Path, senders: Collection[int]) -> None:
    """StoreError if a logger cannot go on with a store from before there were channels."""
    long = sum(sender >> MEMBER_BITS > 0 for sender in senders)
    if long:
        raise StoreError(
            f"{path}: a store from before there were channels: {long} of its {len(senders)} senders have numbers that "
            "would now mean a channel; a logger needs another --store, and this one can still be read by Spark, "
            "`gossamer log` and `gossamer pipeline replay`"
        )
