"""What is in a store, for people and scripts: senders, ranges, sizes, consumers; and what is left of a damaged one.

LMDB trusts its file, so a damaged file may kill the process that reads it. Therefore a child process does the reading;
if it dies, that is a finding like any other.
"""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gossamer.core.ids import owner_of
from gossamer.core.packet_sets import PacketSets
from gossamer.core.ranges import RangeSet
from gossamer.store import open_store
from gossamer.store.contract import Consumer, Damaged, LogStore, StoreDamaged, StoreError
from gossamer.store.data_file import DATA_FILE, salvage

Progress = Callable[[float], None]


def survey(path: Path, *, verify: bool = False, progress: Progress = lambda done: None) -> dict[str, Any]:
    """What the store holds, as plain data.

    With `verify`, every packet is read, and `damaged` lists those that cannot be. If the store as a whole is damaged,
    `error` says why, and `senders` what can be salvaged. StoreError if there is no store, or it is not one of ours.
    """
    try:
        return _in_child(path, lambda: _survey(path, verify, progress))
    except StoreDamaged as error:
        left = salvage(path, progress)
        if not left:
            raise
        senders = {str(sender): _sender(numbers, RangeSet()) for sender, numbers in left.items()}
        return {"store": str(path), "error": str(error), "packets": _count(left), "senders": senders}


def _survey(path: Path, verify: bool, progress: Progress) -> dict[str, Any]:
    with open_store(path, readonly=True) as store:
        held, collected = store.held(), store.collected()
        consumers = {consumer.name: _consumer(consumer, held) for consumer in store.consumers()}
        senders = {}
        names = store.names()
        for sender in sorted(held.keys() | collected.keys()):
            numbers = held.get(sender, RangeSet())
            about: dict[str, Any] = {"name": names.get(owner_of(sender), "") if store.has_channels else ""}
            about |= _sender(numbers, collected.get(sender, RangeSet()))
            senders[str(sender)] = about | _times(store, sender, numbers)
        return {
            "store": str(path),
            "group": store.group,
            "channels": store.has_channels,
            "created_ns": store.created_ns(),
            "packets": _count(held),
            "bytes": store.bytes_used(),
            "file_bytes": (path / DATA_FILE).stat().st_size,
            "reserved": store.reserved(),
            "oldest_ns": min((times["oldest_ns"] for times in senders.values() if "oldest_ns" in times), default=None),
            "newest_ns": max((times["newest_ns"] for times in senders.values() if "newest_ns" in times), default=None),
            "senders": senders,
            "consumers": consumers,
            **({"damaged": _damaged(store, held, progress)} if verify else {}),
        }


def _sender(held: RangeSet, collected: RangeSet) -> dict[str, Any]:
    return {"packets": len(held), "held": held.ranges(), "collected": collected.ranges()}


def _times(store: LogStore, sender: int, held: RangeSet) -> dict[str, int]:
    """When the first and the last packet of a sender were stored; without those that are damaged."""
    found: dict[str, int] = {}
    if held:
        for name, number in (("oldest_ns", held.first), ("newest_ns", held.last)):
            with suppress(Damaged):
                for entry in store.read(sender, number, number):
                    found[name] = entry.time_ns
    return found


def _consumer(consumer: Consumer, held: PacketSets) -> dict[str, Any]:
    """The positions of a consumer, when it last committed, and how many packets it holds back."""
    behind = sum(
        last - first + 1
        for sender, numbers in held.items()
        for first, last in (numbers.within(consumer.committed.get(sender, -1) + 1, numbers.last) if numbers else ())
    )
    committed = {str(sender): number for sender, number in sorted(consumer.committed.items())}
    return {"committed": committed, "time_ns": consumer.time_ns, "behind": behind}


def _damaged(store: LogStore, held: PacketSets, progress: Progress) -> list[list[int]]:
    """Sender and number of every packet that cannot be read."""
    found: list[list[int]] = []
    total, done = max(1, _count(held)), 0
    for sender, numbers in held.items():
        for range_first, last in numbers.ranges():
            first = range_first
            while first <= last:
                try:
                    for entry in store.read(sender, first, last):
                        done += 1
                        if entry.seqno % 1024 == 0:
                            progress(done / total)
                    break
                except Damaged as damage:
                    found.append([damage.sender, damage.seqno])
                    first = damage.seqno + 1
    return found


def _count(table: PacketSets) -> int:
    return sum(map(len, table.values()))


def _in_child(path: Path, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do `work` in a child process and return its result; StoreDamaged if the child dies."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _answer(writing, work)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        raise StoreDamaged(
            f"{path}: damaged so badly that reading it kills the reader ({name}); a logger must not use it"
        )
    kind, result = json.loads(answer)
    if kind == "result":
        return dict(result)
    raise (StoreDamaged if kind == "damaged" else StoreError)(result)


def _answer(pipe: int, work: Callable[[], dict[str, Any]]) -> None:
    """Do `work`, write the answer, and end the process without the parent's clean-up."""
    status = 1
    try:
        answer: tuple[str, Any]
        try:
            answer = "result", work()
        except StoreDamaged as error:
            answer = "damaged", str(error)
        except StoreError as error:
            answer = "error", str(error)
        with os.fdopen(pipe, "w") as file:
            json.dump(answer, file)
        status = 0
    finally:
        os._exit(status)
