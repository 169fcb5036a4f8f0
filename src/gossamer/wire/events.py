"""Events <-> the body of a packet: many events, or (see `fragments`) a part of one.

0  kind of the body, 1 byte: 1 events, 2 a fragment, 3 a switch (see `switches`)
1  time, 8 bytes: nanoseconds since the epoch, when the first event of the packet was published
9  blocks (see `blocks`), to the end of the body
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat
from itertools import count as counting
from struct import Struct, error
from typing import Final

from gossamer.core.packets import Packet, Run
from gossamer.wire import blocks
from gossamer.wire.attributes import NO_ATTRIBUTES, Attribute, Attributes, Shape
from gossamer.wire.attributes import pack as pack_attributes
from gossamer.wire.blocks import Block
from gossamer.wire.codec import WireError
from gossamer.wire.event import Event, PlacedEvent, Where, in_places, places_from

__all__ = [
    "Attribute",
    "Attributes",
    "Event",
    "Packer",
    "PlacedEvent",
    "count_events",
    "in_places",
    "is_fragment",
    "is_switch",
    "pack_equal",
    "places_from",
    "unpack",
    "unpack_simple",
]

BODY: Final = Struct("!BQ")
EVENTS, FRAGMENT, SWITCH = 1, 2, 3
_SIMPLE: Final = Struct("!BQBHHH")
"""The head of a body and of its first block, together."""

LIMIT_BYTES_MIN: Final = BODY.size + blocks.HEAD.size + blocks.SUBJECT_BYTES_MAX + 1
LIMIT_BYTES_MAX: Final = 65_535
"""Longer than any UDP datagram, and what the 2-byte fields of a block can say."""

_COUNT_MAX: Final = 65_535
_RUN_MIN: Final = 8
"""Events of one subject and length that are worth a block of their own."""


class Packer:
    """Collects events until a packet is full.

    When `add` returns False, or `add_many` stops early, take the `body`, which begins the next packet, and go on. An
    event that does not fit into an empty packer (its `count` is still 0) never will: publish it in `fragments`.
    """

    __slots__ = ("_before", "_block", "_finished", "_length", "_limit", "_payloads", "_size", "_subject", "count")

    def __init__(self, limit_bytes: int) -> None:
        """`limit_bytes` is how long a body may become: the path MTU minus every header and minus sealing."""
        if not LIMIT_BYTES_MIN <= limit_bytes <= LIMIT_BYTES_MAX:
            raise ValueError(f"limit_bytes is {limit_bytes}: must be {LIMIT_BYTES_MIN} to {LIMIT_BYTES_MAX}")
        self._limit: Final = limit_bytes
        self._finished: list[bytes] = []
        self._size = BODY.size
        self._before = 0
        self.count = 0
        self._block: Block | None
        self._payloads: list[bytes]
        self._subject: str | None
        self._length: int
        self._enter_block(None)

    def __len__(self) -> int:
        """The current length of the body; 0 without events."""
        return self._size if self.count else 0

    def add(self, subject: str, payload: bytes, attributes: Attributes | None = None) -> bool:
        """Take one event; returns False if there is no room for it. ValueError or TypeError if it is not an event."""
        if subject != self._subject or len(payload) != self._length or attributes or type(payload) is not bytes:
            return self._add_other(subject, payload, attributes)
        size = self._size + self._length
        if size > self._limit:
            return False
        self._size = size
        self.count += 1
        self._payloads.append(payload)
        return True

    def add_many(self, subject: str, payloads: Sequence[bytes], start: int = 0) -> int:
        """Take `payloads[start:]` as events of one subject, without attributes, in order; returns how many fit."""
        at = start
        while at < len(payloads):
            taken = self._add_run(subject, payloads, at)
            if not taken:
                break
            at += taken
        return at - start

    def body(self, time_ns: int) -> bytes:
        """The body with all events so far, the first of which was published at `time_ns`; begins a new, empty one."""
        if not self.count:
            raise ValueError("there are no events to send")
        if not 0 <= time_ns < 1 << 64:
            raise ValueError(f"time_ns is {time_ns}: nanoseconds since the epoch are 0 to 2**64 - 1")
        self._finish_block()
        body = b"".join((BODY.pack(EVENTS, time_ns), *self._finished))
        assert len(body) == self._size <= self._limit, (len(body), self._size, self._limit)
        self._finished = []
        self._size = BODY.size
        self._before = self.count = 0
        return body

    def _add_other(self, subject: str, payload: bytes, attributes: Attributes | None) -> bool:
        """Take an event that needs more written than its payload."""
        block = self._block
        if type(payload) is not bytes:
            payload = _as_bytes(payload)
        own = length = len(payload)
        shape = None
        if attributes:
            shape, row, texts = pack_attributes(attributes, block.shape if block is not None else None)
            own += len(row) + len(texts)
        if block is None or block.shape is not shape or not block.fits(subject, length):
            block = self._fitting_block(subject, length, shape, own)
        if block is None or self._size + own + block.step > self._limit:
            return False
        self._size += own + block.step
        self.count += 1
        block.payloads.append(payload)
        if block.lengths is not None:
            block.lengths.append(length)
        if block.index is not None:
            block.index.append(subject)
        if shape is not None:
            block.rows.append(row)
            block.texts.append(texts)
        return True

    def _fitting_block(self, subject: str, length: int, shape: Shape | None, own: int) -> Block | None:
        """The block made to fit, or a new one if that is shorter; None, and nothing changes, if there is no room."""
        block, growth, count = self._block, blocks.NEVER, self.count - self._before
        if block is not None and block.shape is shape:
            growth = block.growth(count, subject, length)
        if block is None or growth > blocks.HEAD.size:
            new = Block(subject, length, shape)
            if block is None or growth > new.beginning():
                return new if self._begin_block(new, own) else None
        if self._size + own + growth > self._limit:
            return None
        block.widen(count, subject, length)
        self._size += growth - block.step
        self._enter_block(block)
        return block

    def _begin_block(self, block: Block, own: int) -> bool:
        """Go on with a new block; returns False if there is no room for it and a first event of `own` bytes."""
        beginning = block.beginning()
        if self._size + beginning + own > self._limit:
            return False
        self._finish_block()
        self._size += beginning - block.step
        self._enter_block(block)
        return True

    def _add_run(self, subject: str, payloads: Sequence[bytes], at: int) -> int:
        """Take some events from `at` on; returns how many, 0 only if the next one does not fit."""
        length = len(payloads[at])
        if subject == self._subject and length == self._length:
            return self._add_equal(payloads, at, length)
        block = self._block
        if block is not None and block.takes_different(subject):
            return self._add_different(block, payloads, at) or int(self.add(subject, payloads[at]))
        if not length or len(payloads) - at < _RUN_MIN or len(set(map(len, payloads[at : at + _RUN_MIN]))) > 1:
            return int(self.add(subject, payloads[at]))
        return self._add_equal(payloads, at, length, Block(subject, length, None))

    def _add_equal(self, payloads: Sequence[bytes], at: int, length: int, new: Block | None = None) -> int:
        """Take as many of this length as fit into the block, which is simple, or a new one; returns how many."""
        room = (self._limit - self._size - (0 if new is None else new.beginning())) // length
        if room < 1:
            return 0
        run = payloads[at : at + room]
        if not _all_have(length, run):
            run = run[: next(i for i, payload in enumerate(run) if len(payload) != length)]
        joined = _join(run, length * len(run))
        if new is not None:
            self._begin_block(new, length)
        self._payloads.append(joined)
        self._size += len(joined)
        self.count += len(run)
        return len(run)

    def _add_different(self, block: Block, payloads: Sequence[bytes], at: int) -> int:
        """Take as many as fit into a block that has a length for each event; returns how many.

        That is 0 also if the next length needs more bytes than the block has for each.
        """
        assert block.lengths is not None
        width, room = block.step, self._limit - self._size
        sample = list(map(len, payloads[at : at + _RUN_MIN]))
        run = payloads[at : at + room * len(sample) // (sum(sample) + width * len(sample)) + _RUN_MIN]
        lengths = list(map(len, run))
        if max(lengths) > block.length_max:
            lengths = lengths[: next(i for i, length in enumerate(lengths) if length > block.length_max)]
        ends = list(accumulate(map(width.__add__, lengths)))
        fitting = bisect_right(ends, room)
        if fitting:
            self._payloads.append(_join(run[:fitting], ends[fitting - 1] - fitting * width))
            block.lengths += lengths[:fitting]
            self._size += ends[fitting - 1]
            self.count += fitting
        return fitting

    def _finish_block(self) -> None:
        if self._block is not None:
            self._finished += self._block.encode(self.count - self._before)
            self._before = self.count
            self._enter_block(None)

    def _enter_block(self, block: Block | None) -> None:
        """Go on with this block, and note for which subject and length an event takes the short path of `add`."""
        self._block = block
        self._payloads = block.payloads if block is not None else []
        self._subject = block.simple_subject if block is not None else None
        self._length = block.length if block is not None and self._subject is not None else -1


def pack_equal(subject: str, payloads: Sequence[bytes], start: int, limit_bytes: int, time_ns: int) -> list[bytes]:
    """Bodies full of `payloads[start:]`, as `Packer` would fill them, if all these have one length and no attributes.

    Only full bodies: what is left for the last one, or does not fit into any, is for a `Packer`. All full bodies have
    the same head, so that a packet costs one join.
    """
    length = len(payloads[start]) if start < len(payloads) else 0
    name = blocks.encode_subject(subject)
    each = (limit_bytes - BODY.size - blocks.HEAD.size - len(name)) // length if length else 0
    count = (len(payloads) - start) // each if each else 0
    if not count or each > _COUNT_MAX:
        return []
    head = BODY.pack(EVENTS, time_ns) + blocks.HEAD.pack(0, each, length, len(name)) + name
    size = len(head) + each * length
    if each == 1:  # as long as the first, up to the first that is not
        run = payloads[start : start + count]
        if not _all_have(length, run):
            run = run[: next(i for i, payload in enumerate(run) if len(payload) != length)]
        bodies = list(map(head.__add__, run))
        return bodies if sum(map(len, bodies)) == size * len(bodies) else []
    bodies = []
    for at in range(start, start + count * each, each):
        part = payloads[at : at + each]
        body = b"".join((head, *part))
        if len(body) != size or not _all_have(length, part):
            break
        bodies.append(body)
    return bodies


def pack_one(subject: str, payload: bytes, limit_bytes: int, time_ns: int) -> bytes | None:
    """The body of a single event without attributes, as `Packer` would make it; None if a `Packer` is needed."""
    if not 0 < len(payload) < limit_bytes or type(payload) is not bytes:
        return None
    name = blocks.encode_subject(subject)
    body = b"".join((_SIMPLE.pack(EVENTS, time_ns, 0, 1, len(payload), len(name)), name, payload))
    return body if len(body) <= limit_bytes else None


def unpack(packet: Packet, event_type: type[Event] = Event) -> list[Event]:
    """The events of a packet; WireError, never any other error, if its body does not hold events."""
    events: list[Event] = []
    if unpack_simple([packet], 0, events, set(), event_type) or is_switch(packet.body):
        return events
    return _unpack_blocks(packet, event_type)


def unpack_simple(
    run: Run,
    at: int,
    events: list[Event],
    subjects: set[str],
    event_type: type[Event] = Event,
    where: Where | None = None,
) -> int:
    """Add the events of `run[at:]`, quickly, up to the first packet that is not one block of the simplest form.

    They are of the class `event_type` and, if there is one order for all, have the places that `where` says. Their
    subjects, which are few, are added to `subjects`, so that nobody has to look at all events for them.

    Returns the place of that packet, which is for `unpack`, or the end of the run if there is none. Most packets are
    simple, and many hold a single event, so this is a loop without a call for each.
    """
    new, none, head, begins = tuple.__new__, NO_ATTRIBUTES, _SIMPLE.unpack_from, _SIMPLE.size
    encoded, subject = b"", ""
    alike, length = b"", -1  # how a packet of one event began, and how long it was: those published at once are alike
    first, time = begins, 0.0
    for place in range(at, len(run)):
        packet = run[place]
        body = packet.body
        if len(body) == length and body.startswith(alike):
            fields = subject, body[first:], none, packet.sender, packet.seqno, time
            events.append(new(event_type, fields if where is None else (*fields, *where(packet.seqno), 0)))
            continue
        if len(body) < begins:
            return place
        kind, time_ns, form, count, size, width = head(body)
        first = begins + width
        if kind != EVENTS or form or not count or not size or first + count * size != len(body):
            return place
        if body[begins:first] != encoded or not encoded:
            encoded = body[begins:first]
            try:
                subject = blocks.decode_subject(encoded)
            except ValueError:
                return place
            subjects.add(subject)
        time = time_ns / 1e9
        if count == 1:
            alike, length = body[:first], len(body)
            fields = subject, body[first:], none, packet.sender, packet.seqno, time
            events.append(new(event_type, fields if where is None else (*fields, *where(packet.seqno), 0)))
        else:
            length = -1
            columns = repeat(subject), blocks.split(body, first, count, size), repeat(none)
            events += _rows(columns, packet, time, event_type, where)
    return len(run)


def _rows(
    columns: blocks.Columns, packet: Packet, time: float, event_type: type[Event], where: Where | None = None
) -> Iterable[Event]:
    """Events from columns. Event(...) and Event._make run Python code for each: this does not, and is twice as fast."""
    places = () if where is None else (*map(repeat, where(packet.seqno)), counting())
    rows = zip(*columns, repeat(packet.sender), repeat(packet.seqno), repeat(time), *places)
    return map(tuple.__new__, repeat(event_type), rows)


def _unpack_blocks(packet: Packet, event_type: type[Event]) -> list[Event]:
    body = packet.body
    events: list[Event] = []
    try:
        time, at = _time(body), BODY.size
        while at < len(body):
            form, count, size, width = blocks.HEAD.unpack_from(body, at)
            start = at + blocks.HEAD.size
            middle = start + width
            at = middle + blocks.payload_bytes(form, count, size, width, len(body) - middle)
            columns: blocks.Columns
            if form:
                columns = blocks.unpack_columns(body[start:middle], body[middle:at], form, count, size)
            else:
                subject = repeat(blocks.decode_subject(body[start:middle]))
                columns = subject, blocks.split(body, middle, count, size), repeat(NO_ATTRIBUTES)
            events += _rows(columns, packet, time, event_type)
    except (ValueError, error) as reason:
        raise WireError(str(reason)) from None
    return events


def count_events(body: bytes) -> int:
    """How many events a body holds (a fragment 0: its event counts when it is complete); WireError if malformed."""
    if count := _count_simple(body):
        return count
    if is_fragment(body):
        return 0
    total = 0
    try:
        _time(body)
        at = BODY.size
        while at < len(body):
            form, count, size, width = blocks.HEAD.unpack_from(body, at)
            at += blocks.HEAD.size + width
            at += blocks.payload_bytes(form, count, size, width, len(body) - at)
            total += count
    except (ValueError, error) as reason:
        raise WireError(str(reason)) from None
    return total


def count_in_run(run: Run) -> int:
    """How many events the packets of a run hold, as `count_events` counts them; a malformed one holds none."""
    total = each = 0
    alike, length = b"", -1  # how a packet of one simple block began, and how long it was
    for packet in run:
        body = packet.body
        if len(body) != length or not body.startswith(alike):
            each = _count_simple(body)
            alike, length = body[: _SIMPLE.size], len(body) if each else -1
        total += each or _count_any(body)
    return total


def _count_any(body: bytes) -> int:
    try:
        return count_events(body)
    except WireError:
        return 0


def _count_simple(body: bytes) -> int:
    """How many events a body holds if it is one block of the simplest form: its beginning and length say so; else 0."""
    if len(body) >= _SIMPLE.size:
        kind, _, form, count, size, width = _SIMPLE.unpack_from(body)
        if kind == EVENTS and not form and size and _SIMPLE.size + width + count * size == len(body):
            return int(count)
    return 0


def is_fragment(body: bytes) -> bool:
    """Whether a body is for a `Reassembler`, not for `unpack`."""
    return body[:1] == b"\x02"


def is_switch(body: bytes) -> bool:
    """Whether a body holds no events, but says where its stream goes on (see `switches`)."""
    return body[:1] == b"\x03" and len(body) >= BODY.size


def _time(body: bytes) -> float:
    kind, time_ns = BODY.unpack_from(body)
    if kind != EVENTS:
        raise WireError("a fragment: give it to a Reassembler" if kind == FRAGMENT else f"unknown kind of body {kind}")
    seconds: float = time_ns / 1e9
    return seconds


def _all_have(length: int, payloads: Sequence[bytes]) -> bool:
    return [*map(len, payloads)].count(length) == len(payloads)  # the fastest way that was found


def _join(run: Sequence[bytes], length: int) -> bytes:
    joined = b"".join(run)
    if len(joined) != length:
        raise TypeError("a payload is not bytes")
    return joined


def _as_bytes(payload: object) -> bytes:
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    raise TypeError(f"a payload must be bytes, not {type(payload).__name__}")
