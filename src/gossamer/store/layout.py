"""How packets lie in the store: keys, values and checksums. Change one of these, and `VERSION` goes up.

    packets    sender, seqno (8 bytes each, most significant first) -> datagram, time (8 bytes), checksum (4 bytes)
    held       sender, first -> last: the ranges that `packets` holds, so that nobody need look at every key
    collected  sender, first -> last: the ranges that are done with
    consumers  name -> time, then (sender, committed) for each sender
    about      version, group, created, checked out

The order of the keys is that of sender and number, so a range is read, and deleted, in one sweep.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from struct import Struct
from typing import Final
from zlib import crc32

from gossamer.core.messages import Horizon
from gossamer.store.contract import Consumer, Damaged, Entry, StoreError

VERSION: Final = 1
DATAGRAM_BYTES_MAX: Final = 65_535
CONSUMER_BYTES_MAX: Final = 255

KEY: Final = Struct(">QQ")
NUMBER: Final = Struct(">Q")
TAIL: Final = Struct(">Q4s")
VALUE_BYTES_MAX: Final = DATAGRAM_BYTES_MAX + TAIL.size

_CHECKED: Final = 0x2144DF1C
"""The CRC-32 of anything that ends in its own CRC-32, least significant byte first."""


def _start(sender: int, seqno: int) -> int:
    """Where the checksum begins: an entry under another's key does not pass for its own."""
    return (sender ^ seqno) & 0xFFFF_FFFF


def pack_value(entry: Entry) -> bytes:
    """The value of one entry."""
    content = entry.datagram + NUMBER.pack(entry.time_ns)
    return content + crc32(content, _start(entry.sender, entry.seqno)).to_bytes(4, "little")


def unpack_values(sender: int, first: int, values: Sequence[bytes]) -> tuple[list[Entry], Damaged | None]:
    """The entries `first`, `first + 1`, ... up to the first damaged one, and that one."""
    numbers = range(first, first + len(values))
    checksums = list(map(crc32, values, [_start(sender, number) for number in numbers]))
    damaged = None
    if checksums.count(_CHECKED) != len(checksums):
        intact = next(i for i, checksum in enumerate(checksums) if checksum != _CHECKED)
        damaged = Damaged(sender, first + intact)
        values = values[:intact]
    times = [time_ns for time_ns, _ in TAIL.iter_unpack(b"".join([value[-TAIL.size :] for value in values]))]
    datagrams = [value[: -TAIL.size] for value in values]
    # Entry(...) runs Python code for each entry: this does not.
    rows = zip(repeat(sender), numbers, times, datagrams)
    return list(map(tuple.__new__, repeat(Entry), rows)), damaged


def is_intact(sender: int, seqno: int, value: bytes) -> bool:
    """Whether this is the value of that entry, to the bit."""
    return TAIL.size <= len(value) <= VALUE_BYTES_MAX and crc32(value, _start(sender, seqno)) == _CHECKED


def check_entries(entries: Iterable[Entry]) -> None:
    """StoreError for what no store could hold."""
    for sender, seqno, time_ns, datagram in entries:
        if not 0 <= sender < 1 << 64 or not 0 <= seqno < 1 << 63:
            raise StoreError(f"packet {seqno} of sender {sender}: numbers are 0 to 2**63 - 1, senders 0 to 2**64 - 1")
        if not 0 <= time_ns < 1 << 64:
            raise StoreError(f"packet {seqno} of sender {sender}: time_ns is {time_ns}, not 0 to 2**64 - 1")
        if len(datagram) > DATAGRAM_BYTES_MAX:
            raise StoreError(f"packet {seqno} of sender {sender}: {len(datagram)} bytes are more than a datagram")


def check_commit(consumer: str, positions: Horizon) -> None:
    """StoreError for what is not the name or the position of a consumer."""
    if not 1 <= len(consumer.encode()) <= CONSUMER_BYTES_MAX:
        raise StoreError(f"consumer {consumer!r}: a name has 1 to {CONSUMER_BYTES_MAX} bytes")
    for sender, committed in positions.items():
        if not 0 <= sender < 1 << 64 or not 0 <= committed < 1 << 63:
            raise StoreError(f"consumer {consumer!r}: {committed} of sender {sender} is no position")


def pack_consumer(committed: Horizon, time_ns: int) -> bytes:
    """The value of a consumer."""
    return NUMBER.pack(time_ns) + b"".join(KEY.pack(*item) for item in sorted(committed.items()))


def unpack_consumer(name: str, value: bytes) -> Consumer:
    """The consumer with this value."""
    (time_ns,) = NUMBER.unpack_from(value)
    return Consumer(name, dict(KEY.iter_unpack(value[NUMBER.size :])), time_ns)


def advanced(committed: Horizon, positions: Horizon) -> Horizon:
    """Both together: for each sender the later position."""
    return committed | {sender: max(at, committed.get(sender, 0)) for sender, at in positions.items()}
