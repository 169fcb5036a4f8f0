"""What a log store promises, whatever it is made of.

A store holds *entries*: one packet each, the datagram exactly as its sender made it (sealed, if the group has a key),
under `(sender, seqno)`. One process writes while any number may read. Everything else rests on this rule: when
`append` returns, its entries are on stable storage; when it raises, none of them is, and all earlier ones are unharmed.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, Self

from gossamer.core.errors import Error
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.store.service_time import ServiceTime


class StoreError(Error):
    """The store cannot do what was asked; the message says why, and what to do."""


class StoreFull(StoreError):
    """There is no room: nothing of this call was stored, everything before it is safe."""


class StoreDamaged(StoreError):
    """The store as a whole cannot be trusted: its file is truncated, or its tables are damaged."""


class Damaged(StoreError):
    """An entry whose checksum does not match; it is never returned."""

    def __init__(self, sender: int, seqno: int) -> None:
        super().__init__(f"packet {seqno} of sender {sender} is damaged in the store; repair it from another logger")
        self.sender = sender
        self.seqno = seqno


class LogEntry(NamedTuple):
    """One logged packet."""

    sender: int
    seqno: int
    time_ns: int
    """When the logger stored it, nanoseconds since the epoch."""
    datagram: bytes
    """The data datagram as it was sent: `wire.decode` reads it, after `wire.sealing.Opener.open` if it is sealed."""


class Consumer(NamedTuple):
    """A durable reader: packets that it has not yet committed are not collected."""

    name: str
    committed: Horizon
    """For each sender, the last number that it is done with."""
    time_ns: int
    """When it last committed."""


class LogStore(Protocol):
    """The contract; `tests/store/test_contract.py` checks every implementation against it."""

    @property
    def has_channels(self) -> bool:
        """Whether the numbers of its senders carry channels; if not, all of it is of channel 0."""

    def append(self, entries: Iterable[LogEntry]) -> None:
        """Store the entries in one synced transaction. What is held stays as it is, what was collected stays out."""

    def read(self, sender: int, first: int, last: int) -> Iterator[LogEntry]:
        """What is held of `first..last`, ascending. Raises `Damaged` at a damaged entry; continue after it."""

    def held(self, of: Iterable[int] | None = None) -> PacketSets:
        """Which packets the store holds, of all senders or of these."""

    def collected(self) -> PacketSets:
        """All numbers collected: they are never stored again, and gone for members that still want them."""

    def collect(self, numbers: PacketSets, *, spare: bool = False) -> int:
        """Forget these numbers, durably, in one sweep per range; returns how many were held.

        With `spare`, what a consumer has not committed stays, even if it has just appeared. Numbers that were
        not held are marked as collected, too: collect one that was never sent, and nobody waits for it.
        """

    def forget_collected(self, senders: Iterable[int]) -> list[int]:
        """Forget what was collected of senders that will not be spoken of again, and of which nothing is held.

        Returns those of them that have to wait, because a consumer has not passed what was collected.
        """

    def forgotten(self) -> int:
        """Of how many senders it was forgotten what was collected."""

    def drop(self, sender: int, seqno: int) -> None:
        """Remove an entry, as if it had never been stored or collected, so that another can take its place.

        It was damaged, or not its sender's.
        """

    def commit(self, consumer: str, positions: Horizon) -> None:
        """Record that `consumer` is done up to these positions, which never go back. Any process may commit."""

    def consumers(self) -> list[Consumer]:
        """The durable consumers, by name."""

    def forget_consumer(self, consumer: str) -> bool:
        """Remove a consumer, so that it no longer holds back collection; returns whether there was one."""

    def reserve(self, below: int) -> None:
        """Record that the logger's own numbers below this may have been used (000 §6.2)."""

    def reserved(self) -> int:
        """The highest value given to `reserve`; 0 in a new store."""

    def service_time(self) -> ServiceTime:
        """When the log was in service: the ages of packets follow from it."""

    def keep_service_time(self, service: ServiceTime) -> None:
        """Record it."""

    def names(self) -> dict[int, str]:
        """What members are called whose packets may be held, by number."""

    def keep_names(self, names: dict[int, str]) -> None:
        """Record it, in place of what was recorded before: of very many, those that come last."""

    def bytes_used(self) -> int:
        """About how much space the entries take on disk."""

    def close(self) -> None:
        """Release all resources."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
