"""A log store in memory: the contract without the disk, for simulations, tests and groups that need no durability."""

import time
from collections.abc import Iterable, Iterator
from typing import Self

from gossamer.core.packet_sets import Horizon, PacketSets, remove
from gossamer.core.ranges import RangeSet
from gossamer.store.contract import Consumer, LogEntry
from gossamer.store.layout import advanced, check_commit, check_entries, claimed_after, is_passed
from gossamer.store.service_time import ServiceTime


class MemoryStore:
    """A `LogStore` that ends with its process. Nothing in it can be damaged."""

    def __init__(self, group: str = "") -> None:
        self.group = group
        self.has_channels = True
        self._entries: dict[int, dict[int, LogEntry]] = {}
        self._held: PacketSets = {}
        self._collected: PacketSets = {}
        self._consumers: dict[str, Consumer] = {}
        self._reserved = 0
        self._forgotten = 0
        self._service = b""
        self._names: dict[int, str] = {}
        self._bytes = 0

    def append(self, entries: Iterable[LogEntry]) -> None:
        """See `LogStore`."""
        entries = list(entries)
        check_entries(entries)
        for entry in entries:
            if entry.seqno in self._collected.get(entry.sender, ()):
                continue
            if self._entries.setdefault(entry.sender, {}).setdefault(entry.seqno, entry) is entry:
                self._held.setdefault(entry.sender, RangeSet()).add(entry.seqno)
                self._bytes += len(entry.datagram)

    def read(self, sender: int, first: int, last: int) -> Iterator[LogEntry]:
        """See `LogStore`."""
        entries = self._entries.get(sender, {})
        for inside_first, inside_last in self._held.get(sender, RangeSet()).within(first, last):
            for seqno in range(inside_first, inside_last + 1):
                if seqno in entries:  # it may have been collected since
                    yield entries[seqno]

    def held(self, of: Iterable[int] | None = None) -> PacketSets:
        """See `LogStore`."""
        senders = sorted(self._held if of is None else self._held.keys() & of)
        return {sender: self._held[sender].copy() for sender in senders}

    def collected(self) -> PacketSets:
        """See `LogStore`."""
        return {sender: numbers.copy() for sender, numbers in sorted(self._collected.items()) if numbers}

    def collect(self, numbers: PacketSets, *, spare: bool = False) -> int:
        """See `LogStore`."""
        count = 0
        for sender, done in numbers.items():
            if spare:
                done = RangeSet(done.within(0, claimed_after(self._consumers.values(), sender)))
            here = self._held.get(sender, RangeSet()).intersection(done)
            count += len(here)
            for seqno in here:
                self._forget(sender, seqno)
            self._collected.setdefault(sender, RangeSet()).update(done)
        return count

    def forget_collected(self, senders: Iterable[int]) -> list[int]:
        """See `LogStore`."""
        waiting = []
        for sender in senders:
            if is_passed(self._consumers.values(), sender, self._collected):
                self._forgotten += self._collected.pop(sender, None) is not None
            else:
                waiting.append(sender)
        return waiting

    def forgotten(self) -> int:
        """See `LogStore`."""
        return self._forgotten

    def drop(self, sender: int, seqno: int) -> None:
        """See `LogStore`."""
        if seqno in self._held.get(sender, ()):
            self._forget(sender, seqno)
        remove(self._collected, sender, seqno, seqno)

    def _forget(self, sender: int, seqno: int) -> None:
        self._bytes -= len(self._entries[sender].pop(seqno).datagram)
        remove(self._held, sender, seqno, seqno)
        if not self._entries[sender]:
            del self._entries[sender]

    def commit(self, consumer: str, positions: Horizon) -> None:
        """See `LogStore`."""
        check_commit(consumer, positions)
        before = self._consumers[consumer].committed if consumer in self._consumers else {}
        self._consumers[consumer] = Consumer(consumer, advanced(before, positions), time.time_ns())

    def consumers(self) -> list[Consumer]:
        """See `LogStore`."""
        return [self._consumers[name] for name in sorted(self._consumers)]

    def forget_consumer(self, consumer: str) -> bool:
        """See `LogStore`."""
        return self._consumers.pop(consumer, None) is not None

    def reserve(self, below: int) -> None:
        """See `LogStore`."""
        self._reserved = max(self._reserved, below)

    def reserved(self) -> int:
        """See `LogStore`."""
        return self._reserved

    def service_time(self) -> ServiceTime:
        """See `LogStore`."""
        return ServiceTime.unpack(self._service)

    def keep_service_time(self, service: ServiceTime) -> None:
        """See `LogStore`."""
        self._service = service.pack()

    def names(self) -> dict[int, str]:
        """See `LogStore`."""
        return dict(self._names)

    def keep_names(self, names: dict[int, str]) -> None:
        """See `LogStore`."""
        self._names = dict(names)

    def bytes_used(self) -> int:
        """See `LogStore`."""
        return self._bytes

    def close(self) -> None:
        """See `LogStore`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
