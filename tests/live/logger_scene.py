"""What stories about loggers share: publishing many packets, looking into stores, waiting for something."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gossamer.live.group import Group
from gossamer.store import Damaged, open_store
from gossamer.wire import decode
from gossamer.wire.events import unpack


async def publish_packets(group: Group, count: int, size: int = 200, first: int = 0) -> dict[bytes, int]:
    """Publish so many events, few to a packet; their payloads, all different, and the number of the packet of each."""
    payloads = [b"<%06d>" % n * (size // 8) for n in range(first, first + count)]
    sent: dict[bytes, int] = {}
    for payload in payloads:
        sent[payload] = (await group.publish_wait("scene.n", payload)).seqno
        group._outbox.send()
        if payload[6] == ord("9"):
            await asyncio.sleep(0)
    return sent


def logged(store: Path, sender: int) -> list[bytes]:
    """The payloads of a sender in a store, in order; fails at a damaged one."""
    with open_store(store, readonly=True) as log:
        entries = log.read(sender, 0, 1 << 60)
        return [event.payload for entry in entries for event in unpack(decode(entry.datagram)[1].packet)]


def held(store: Path, sender: int) -> int:
    """How many packets of a sender a store holds."""
    with open_store(store, readonly=True) as log:
        numbers = log.held().get(sender)
        return len(numbers) if numbers else 0


def whole(store: Path, sender: int, sent: Iterable[bytes]) -> bool:
    """Whether all that was sent is in a store, and can be read."""
    try:
        return logged(store, sender) == list(sent)
    except Damaged:
        return False


async def until(condition: Callable[[], bool], patience_s: float = 20.0) -> None:
    """Look again and again."""
    for _ in range(int(patience_s / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came to be so")


def flip_a_bit(store: Path, near: bytes) -> None:
    """Spoil the first place of the data file that reads `near`."""
    file = store / "data.mdb"
    data = bytearray(file.read_bytes())
    at = data.index(near)
    while at >= 0:  # a page that is not in use any more may have it, too
        data[at] ^= 1
        at = data.find(near, at)
    file.write_bytes(data)


@contextmanager
def disk_of(directory: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own, of this size."""
    directory.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def resize(disk: Path, kilobytes: int) -> None:
    """Make a file system larger, or smaller."""
    subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", str(disk)], check=True)


def leave_room(disk: Path, kilobytes: int) -> None:
    """Make a file system so small that only so much more fits."""
    for _ in range(100):
        system = os.statvfs(disk)
        with suppress(subprocess.CalledProcessError):  # more was written meanwhile
            return resize(disk, (system.f_blocks - system.f_bfree) * system.f_frsize // 1024 + kilobytes)
    raise AssertionError("it never had the same size twice")
