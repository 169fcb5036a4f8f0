"""What a log store promises, whatever it is made of.

A store holds *entries*: one packet each, the datagram exactly as its sender made it (sealed, if the group has a key),
under `(sender, seqno)`. One process writes, any number read meanwhile. The rule that everything else rests on:
when `append` returns, its entries are on stable storage; when it raises, none of them is, and all earlier ones are
unharmed.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, Self

from gossamer.core.packet_sets import Horizon, PacketSets


class StoreError(Exception):
    """The store cannot do this: the message says why, and what to do."""


class StoreFull(StoreError):
    """No room for more: nothing of this call was stored, everything before it is safe."""


class StoreDamaged(StoreError):
    """The store as a whole cannot be trusted: its file is cut short, or its tables are damaged."""


class Damaged(StoreError):
    """An entry whose checksum does not match: it is never handed out."""

    def __init__(self, sender: int, seqno: int) -> None:
        super().__init__(f"packet {seqno} of sender {sender} is damaged in the store: repair it from another logger")
        self.sender = sender
        self.seqno = seqno


class LogEntry(NamedTuple):
    """One logged packet."""

    sender: int
    seqno: int
    time_ns: int
    """When the logger stored it, nanoseconds since the epoch."""
    datagram: bytes
    """The data datagram as it travelled: `wire.decode` reads it, after `wire.sealing.Opener.open` if it is sealed."""


class Consumer(NamedTuple):
    """A durable reader: what it has not yet committed is not collected."""

    name: str
    committed: Horizon
    """For each sender the last number that it has done with."""
    time_ns: int
    """When it last committed."""


class LogStore(Protocol):
    """The contract; `tests/store/test_contract.py` holds every implementation to it."""

    def append(self, entries: Iterable[LogEntry]) -> None:
        """Store them in one transaction and sync it. What is held stays as it is, what was collected stays out."""

    def read(self, sender: int, first: int, last: int) -> Iterator[LogEntry]:
        """What is held of `first..last`, ascending. `Damaged` at an entry that is; go on behind it to read the rest."""

    def held(self) -> PacketSets:
        """Which packets the store holds."""

    def collected(self) -> PacketSets:
        """Which numbers `collect` was ever told of: not to be stored again, and gone for whoever still wants them."""

    def collect(self, numbers: PacketSets) -> int:
        """Forget these, durably, in one sweep per range; how many were held.

        A number that was not held is done with all the same: say so of one that was never sent, and nobody waits.
        """

    def drop_damaged(self, sender: int, seqno: int) -> None:
        """Take a damaged entry out, as if it had never come, so that another logger's copy can take its place."""

    def commit(self, consumer: str, positions: Horizon) -> None:
        """`consumer` has done with everything up to these; a position never goes back. Any process may commit."""

    def consumers(self) -> list[Consumer]:
        """The durable consumers, by name."""

    def forget_consumer(self, consumer: str) -> bool:
        """Let it hold back nothing any more; whether there was one."""

    def reserve(self, below: int) -> None:
        """The logger's own numbers below this may have been used (000 §6.2)."""

    def reserved(self) -> int:
        """As last checked out; 0 in a new store."""

    def bytes_used(self) -> int:
        """What the entries take on the disk, about."""

    def close(self) -> None:
        """Let go of everything."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
