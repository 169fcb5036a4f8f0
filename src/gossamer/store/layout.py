"""What is in the store, and under which keys. If one of these changes, or `packed_blocks`, or what a datagram is
(`wire`), `VERSION` goes up.

    packets    sender, number of the first packet (8 bytes each, most significant first) -> a block (`packed_blocks`)
    held       sender, first -> last: the ranges of packets that can be read
    collected  sender, first -> last: the ranges that are done with
    consumers  name -> time, then (sender, committed) for each sender
    about      version, group, created, checked out, service (`service_time`), forgotten, member bits (`about`)

Values end in a CRC-32 (see `with_checksum`), blocks have their own. Keys are ordered by sender and number, so a range
is read, and deleted, in one sweep.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from gossamer.core.checksum import crc32
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.store.contract import Consumer, LogEntry, StoreError

VERSION: Final = 2
NUMBER_MAX: Final = (1 << 63) - 1
DATAGRAM_BYTES_MAX: Final = 65_535
CONSUMER_BYTES_MAX: Final = 255
CONTENT_BYTES_MAX: Final = 16 << 20
"""For a value that is not a block: a consumer with a million senders."""

KEY: Final = Struct(">QQ")
NUMBER: Final = Struct(">Q")


def with_checksum(key: bytes, content: bytes) -> bytes:
    """The value for `content` under `key`: the content, then a CRC-32 of both. (A block has its own.)"""
    return content + crc32(content, crc32(key)).to_bytes(4, "big")


def without_checksum(key: bytes | memoryview, value: bytes | memoryview) -> bytes:
    """The content of a value; ValueError if it is damaged."""
    content = bytes(value[:-4]) if len(value) <= CONTENT_BYTES_MAX else b""
    if crc32(content, crc32(key)).to_bytes(4, "big") != value[-4:]:
        raise ValueError("a checksum does not match")
    return content


def check_entries(entries: Iterable[LogEntry]) -> None:
    """Raise StoreError for entries that no store could hold."""
    for sender, seqno, time_ns, datagram in entries:
        if not 0 <= sender < 1 << 64 or not 0 <= seqno < 1 << 63:
            raise StoreError(f"packet {seqno} of sender {sender}: numbers are 0 to 2**63 - 1, senders 0 to 2**64 - 1")
        if not 0 <= time_ns < 1 << 64:
            raise StoreError(f"packet {seqno} of sender {sender}: time_ns is {time_ns}, not 0 to 2**64 - 1")
        if len(datagram) > DATAGRAM_BYTES_MAX:
            raise StoreError(f"packet {seqno} of sender {sender}: {len(datagram)} bytes, more than a datagram can have")


def check_commit(consumer: str, positions: Horizon) -> None:
    """Raise StoreError for an invalid name or position of a consumer."""
    if not 1 <= len(consumer.encode()) <= CONSUMER_BYTES_MAX:
        raise StoreError(f"consumer {consumer!r}: a name has 1 to {CONSUMER_BYTES_MAX} bytes")
    for sender, committed in positions.items():
        if not 0 <= sender < 1 << 64 or not 0 <= committed < 1 << 63:
            raise StoreError(f"consumer {consumer!r}: {committed} of sender {sender} is not a position")


def pack_consumer(committed: Horizon, time_ns: int) -> bytes:
    """Pack a consumer as a value."""
    return NUMBER.pack(time_ns) + b"".join(KEY.pack(*item) for item in sorted(committed.items()))


def unpack_consumer(name: str, value: bytes) -> Consumer:
    """Unpack a consumer from its value."""
    (time_ns,) = NUMBER.unpack_from(value)
    return Consumer(name, dict(KEY.iter_unpack(value[NUMBER.size :])), time_ns)


def claimed_after(consumers: Iterable[Consumer], sender: int) -> int:
    """The number after which some consumer still wants everything of this sender."""
    return min((consumer.committed.get(sender, -1) for consumer in consumers), default=NUMBER_MAX)


def is_passed(consumers: Iterable[Consumer], sender: int, collected: PacketSets) -> bool:
    """Whether every consumer has passed what was collected of this sender."""
    return sender not in collected or claimed_after(consumers, sender) >= collected[sender].last


def advanced(committed: Horizon, positions: Horizon) -> Horizon:
    """Merge both: for each sender the later position."""
    return committed | {sender: max(at, committed.get(sender, 0)) for sender, at in positions.items()}
