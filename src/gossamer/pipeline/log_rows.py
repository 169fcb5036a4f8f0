"""Logged packets -> Arrow: the columns that Spark sees, without a Python object for each event.

`offset` is `seqno * 65536 + place of the event in its packet`: unique and ascending for each sender. `partition` is the
sender folded into 31 bits: a number that stays the same for ever, in every store, whichever other senders come and go.
(An index among the senders would change with each of them.) Two of 1,000 senders share a partition with a chance of 1
in 4,000; where that matters, `sender` is exact.

`sender` is a stream, as in a trace: what one member publishes to one `channel`. In channel 0 it is the number of the
member; in another, `sender & (2**55 - 1)` is.

A fragmented event belongs to the packet with its last fragment. The reader of a range looks back for fragments that
come before the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gossamer.core.ids import channel_of
from gossamer.core.packets import Packet
from gossamer.pipeline.opening import SEALED, Open, body_of
from gossamer.pipeline.session import PipelineError
from gossamer.store.contract import Damaged, LogEntry, LogStore
from gossamer.wire import WireError
from gossamer.wire.attributes import Attribute
from gossamer.wire.codec import CHECKSUM_BYTES, DATA_BYTES, HEADER_BYTES
from gossamer.wire.columns import ColumnBuilder, Columns
from gossamer.wire.events import BODY, is_fragment
from gossamer.wire.fragments import HEAD as FRAGMENT_HEAD
from gossamer.wire.fragments import Reassembler

DDL = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "headers map<string,string>, sender long, seqno long, channel int"
)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("sender", pa.int64()),
        ("seqno", pa.int64()),
        ("channel", pa.int32()),
    ]
)
EVENTS_PER_PACKET = 65_536
"""The step of `offset` from packet to packet: more than any packet holds."""
KEY = "key"
"""The attribute that becomes the column `key`."""

BATCH_EVENTS, BATCH_BYTES = 16_384, 8 << 20
"""A record batch ends when it reaches either."""
_BODY_AT = DATA_BYTES - CHECKSUM_BYTES

OnLoss = Callable[[str], None]
"""Called for a packet that cannot be read: raises, or returns to continue."""


@dataclass(frozen=True)
class Part:
    """A range of one sender's numbers, from `first` up to but not including `behind`; `packets` of them are held."""

    sender: int
    first: int
    behind: int
    packets: int


def partition_of(sender: int) -> int:
    """The partition of a sender: its number, folded into 31 bits."""
    return (sender ^ sender >> 31 ^ sender >> 62) & 0x7FFF_FFFF


class Reading:
    """One pass over a part of the log."""

    def __init__(self, store: LogStore, part: Part, open_datagram: Open, on_loss: OnLoss) -> None:
        self._store = store
        self._part = part
        self._open = open_datagram
        self._on_loss = on_loss
        self._whole = Reassembler()
        self._builder = ColumnBuilder()
        self._seqnos: list[int] = []
        self._looked_back = False
        self._head = b""  # how the datagrams begin, up to the number
        self.packets = 0
        """Packets seen so far, including damaged ones."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All events of the part, a few thousand at a time."""
        part = self._part
        for entry in self._entries(part.first, part.behind - 1):
            self._add(entry)
            if self._builder.count >= BATCH_EVENTS or self._builder.payload_bytes >= BATCH_BYTES:
                yield self._batch()
        if self._builder.count:
            yield self._batch()

    def _batch(self) -> pa.RecordBatch:
        sender = self._part.sender
        channel = channel_of(sender) if self._store.has_channels else 0
        batch = record_batch(self._builder.columns(), np.array(self._seqnos, np.int64), sender, channel)
        self._builder = ColumnBuilder()
        self._seqnos = []
        return batch

    def _entries(self, first: int, last: int) -> Iterator[LogEntry]:
        """What the store holds of these; a damaged entry is a loss, after which reading continues."""
        while first <= last:
            try:
                for entry in self._store.read(self._part.sender, first, last):
                    self.packets += 1
                    yield entry
                return
            except Damaged as damage:
                self.packets += 1
                self._on_loss(str(damage))
                first = damage.seqno + 1

    def _add(self, entry: LogEntry) -> None:
        try:
            body = self._body(entry)
            if is_fragment(body):
                self._add_fragment(entry.seqno, body)
            else:
                self._builder.add(body)
                self._seqnos.append(entry.seqno)
        except WireError as error:
            self._on_loss(f"packet {entry.seqno} of sender {entry.sender} in the log cannot be read: {error}")

    def _body(self, entry: LogEntry) -> bytes:
        """Like `body_of`, with a shortcut for what follows an intact packet, since the store has its own checksum."""
        datagram = entry.datagram
        if (
            self._head
            and datagram.startswith(self._head)
            and datagram[HEADER_BYTES:_BODY_AT] == entry.seqno.to_bytes(8)
        ):
            return datagram[_BODY_AT:-CHECKSUM_BYTES]
        body = body_of(entry, self._open)
        if datagram[:1] != SEALED:
            self._head = datagram[:HEADER_BYTES]
        return body

    def _add_fragment(self, seqno: int, body: bytes) -> None:
        index, _ = fragment_place(body)
        if seqno - index < self._part.first and not self._looked_back:
            self._looked_back = True  # only the first event of a part can have begun before it
            self._look_back(seqno - index, self._part.first - 1)
        event = self._whole.add(Packet(self._part.sender, seqno, body))
        if event is not None:
            self._builder.add_event(event, BODY.unpack_from(body)[1])
            self._seqnos.append(seqno)

    def _look_back(self, first: int, last: int) -> None:
        """Read the fragments before the part; if they are gone, so is their event."""
        before = self.packets
        for entry in self._entries(first, last):
            body = body_of(entry, self._open)
            if is_fragment(body):
                self._whole.add(Packet(entry.sender, entry.seqno, body))
        self.packets = before  # these belong to another part


def fragment_place(body: bytes) -> tuple[int, int]:
    """The index of this fragment in its event, from 0, and the number of fragments; WireError if it is cut short."""
    if len(body) < FRAGMENT_HEAD.size:
        raise WireError("a fragment is cut short")
    _, _, _, index, count, _ = FRAGMENT_HEAD.unpack_from(body)
    return index, count


def record_batch(columns: Columns, seqnos: np.typing.NDArray[np.int64], sender: int, channel: int) -> pa.RecordBatch:
    """The rows for these events, whose packets have these numbers."""
    count = len(columns)
    if len(seqnos) and seqnos[-1] >= 1 << 47:
        raise PipelineError(f"sender {sender} has used more than 2**47 numbers, too many for the column offset")
    seqno = seqnos[columns.packet]
    keys, headers = _headers(columns)
    values = [
        keys,
        pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(columns.edges.astype(np.int32)), pa.py_buffer(columns.payloads)]
        ),
        pa.DictionaryArray.from_arrays(columns.subject, columns.subjects).dictionary_decode(),
        np.full(count, partition_of(sender), np.int32),
        seqno * EVENTS_PER_PACKET + columns.index,
        pa.array((columns.times_ns // 1000).astype(np.int64)[columns.packet]).cast(SCHEMA.field("timestamp").type),
        headers,
        np.full(count, sender, np.int64),
        seqno,
        np.full(count, channel, np.int32),
    ]
    return pa.RecordBatch.from_arrays([pa.array(v) if isinstance(v, np.ndarray) else v for v in values], schema=SCHEMA)


def matching(batch: pa.RecordBatch, wants: Callable[[str], bool]) -> pa.RecordBatch:
    """The rows whose subject is wanted."""
    topics = batch.column("topic").dictionary_encode()
    wanted = np.array([wants(subject) for subject in topics.dictionary.to_pylist()], np.bool_)
    return batch if wanted.all() else batch.filter(pa.array(wanted[topics.indices.to_numpy()]))


def _headers(columns: Columns) -> tuple[pa.Array, pa.Array]:
    """The columns `key` and `headers`: attributes as strings."""
    lengths = np.zeros(len(columns), np.int32)
    names: list[str] = []
    texts: list[str | None] = []
    keys: list[bytes | None] | None = None
    for place, attributes in columns.attributes:
        lengths[place] = len(attributes)
        names += attributes
        texts += map(_text, attributes.values())
        if attributes.get(KEY) is not None:
            keys = keys if keys is not None else [None] * len(columns)
            keys[place] = str(_text(attributes[KEY])).encode()
    edges = np.zeros(len(columns) + 1, np.int32)
    np.cumsum(lengths, out=edges[1:])
    headers = pa.MapArray.from_arrays(pa.array(edges), pa.array(names, pa.string()), pa.array(texts, pa.string()))
    return pa.array(keys, pa.binary()) if keys is not None else pa.nulls(len(columns), pa.binary()), headers


def _text(value: Attribute) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
