"""Logs for tests: packets as a sender would make them, in a real store."""

from collections.abc import Iterable, Iterator
from typing import Any

from gossamer.core.messages import Data
from gossamer.core.packets import Packet
from gossamer.store.contract import LogEntry
from gossamer.wire import Header, encode
from gossamer.wire.events import Packer
from gossamer.wire.fragments import fragments

GROUP = 7
SECOND = 1_000_000_000
PUBLISHED = 1_700_000_000 * SECOND
"""When the packet with the number 0 was published; each further one a millisecond later."""
LONG_AGO = 1_700_000_000 * SECOND

Published = tuple[str, bytes, dict[str, Any]]


def entry(sender: int, seqno: int, body: bytes, *, stored_ns: int = LONG_AGO, sealer: Any = None) -> LogEntry:
    """A logged packet."""
    datagram = encode(Header(GROUP, sender), Data(Packet(sender, seqno, body)))
    return LogEntry(sender, seqno, stored_ns, sealer.seal(datagram) if sealer is not None else datagram)


def packet_of(events: Iterable[Published], seqno: int = 0, limit_bytes: int = 60_000) -> bytes:
    """The body of one packet with these events."""
    packer = Packer(limit_bytes)
    for event in events:
        assert packer.add(*event)
    return packer.body(PUBLISHED + seqno * 1_000_000)


def simple(sender: int, numbers: Iterable[int], events: int = 3, **how: Any) -> list[LogEntry]:
    """Packets of a few events each, subject by turns, payload `sender.seqno.index`."""
    return [
        entry(
            sender,
            seqno,
            packet_of(((f"quotes.{'ab'[i % 2]}", f"{sender}.{seqno}.{i}".encode(), {}) for i in range(events)), seqno),
            **how,
        )
        for seqno in numbers
    ]


def in_fragments(sender: int, first: int, payload: bytes, subject: str = "big", **how: Any) -> list[LogEntry]:
    """One large event in packets from the number `first` on."""
    bodies = fragments(subject, payload, {"n": 1}, 1400, first, time_ns=PUBLISHED + first * 1_000_000)
    return [entry(sender, first + i, body, **how) for i, body in enumerate(bodies)]


def expected_values(sender: int, numbers: Iterable[int], events: int = 3) -> Iterator[bytes]:
    """The payloads of `simple`."""
    return (f"{sender}.{seqno}.{i}".encode() for seqno in numbers for i in range(events))
