"""Events that are too large for one packet: cut into fragments, one per packet, and put together again.

 0  kind of the body, 1 byte: 2           1  time, 8 bytes: when the event was published, nanoseconds since the epoch
 9  event, 4 bytes: which event of its sender this is part of
13  index, 4 bytes: 0 for the first fragment        17  count, 4 bytes: fragments of this event
21  total, 4 bytes: bytes of the whole              25  some bytes of the whole, at least 1

The whole is the length of the subject (1 byte), the subject, the attributes (a 0 if there are none, else as in
`attributes`, for one event), and the payload.

The fragments of an event travel in consecutive packets of its sender and are put together in that order (fifo): with
fragment `i` in packet `first + i`, a sender has at most one event under way, and nothing need be searched or sorted.
A lost packet loses its whole event, which is reported once. Memory grows with the bytes that came, never with the total
that a fragment promises.
"""

from collections import deque
from collections.abc import Sequence
from struct import Struct, error
from typing import Final, Literal, NamedTuple

from gossamer.core.packets import Packet
from gossamer.wire import attributes as attribute_codec
from gossamer.wire.attributes import NO_ATTRIBUTES, Attributes
from gossamer.wire.blocks import decode_subject, encode_subject
from gossamer.wire.codec import WireError
from gossamer.wire.events import FRAGMENT, Event

HEAD: Final = Struct("!BQIIII")

EVENT_BYTES_MAX: Final = 16 << 20
"""Default limit for a payload."""
ABOUT_BYTES_MAX: Final = 64 << 10
"""Limit for subject and attributes together, which come on top of the payload."""
PARTIAL_BYTES: Final = 1024
"""What an event under way counts for besides its bytes, in the limit on all of them."""
ABANDONED_MAX: Final = 4096

Reason = Literal["fragment lost", "cut short", "too large", "evicted", "malformed", "sender left"]


class Abandoned(NamedTuple):
    """An event that will never be complete: it would have come in the packets `first` to `last` of its sender."""

    sender: int
    first: int
    last: int
    reason: Reason


def fragments(
    subject: str,
    payload: bytes,
    attributes: Attributes | None,
    limit_bytes: int,
    event_id: int,
    *,
    time_ns: int,
    limit_event_bytes: int = EVENT_BYTES_MAX,
) -> list[bytes]:
    """The bodies, each at most `limit_bytes`, of consecutive packets that carry one event.

    `event_id` counts the sender's events in fragments (modulo 2**32). ValueError if the event is too large.
    """
    part = limit_bytes - HEAD.size
    if part < 1:
        raise ValueError(f"limit_bytes is {limit_bytes}: must be more than {HEAD.size}, the head of a fragment")
    if not 0 <= time_ns < 1 << 64:
        raise ValueError(f"time_ns is {time_ns}: nanoseconds since the epoch are 0 to 2**64 - 1")
    if len(payload) > limit_event_bytes:
        raise ValueError(
            f"an event has {len(payload)} bytes, at most {limit_event_bytes} are allowed: publish it in parts"
        )
    about = _encode_about(subject, attributes)
    if len(about) > ABOUT_BYTES_MAX:
        raise ValueError(
            f"subject and attributes have {len(about)} bytes, at most {ABOUT_BYTES_MAX} are allowed: use the payload"
        )
    whole = about + payload
    count = -(-len(whole) // part)
    return [
        HEAD.pack(FRAGMENT, time_ns, event_id & 0xFFFF_FFFF, index, count, len(whole))
        + whole[index * part : (index + 1) * part]
        for index in range(count)
    ]


class _Fragment(NamedTuple):
    """What is the same in all fragments of an event."""

    time_ns: int
    event_id: int
    parts: int
    total: int


class _Partial:
    """An event under way."""

    __slots__ = ("data", "first", "fragment", "index")

    def __init__(self, fragment: _Fragment, first: int) -> None:
        self.fragment: Final = fragment
        self.first: Final = first
        self.index = 0  # of the fragment that must be next
        self.data = bytearray()


class Reassembler:
    """Puts the fragments of every sender together.

    Give it the packets of each sender in order, and tell it of packets that are `lost`. Each event that is given up is
    counted in `given_up` and returned once by `take_abandoned()`; if more than `ABANDONED_MAX` wait to be taken, the
    oldest are only counted. `skipped` counts fragments of events whose beginning never came here (before we joined) or
    that were given up before.
    """

    def __init__(self, limit_event_bytes: int = EVENT_BYTES_MAX, limit_total_bytes: int = 4 * EVENT_BYTES_MAX) -> None:
        """`limit_event_bytes` is for a payload; `limit_total_bytes` is for all events under way from all senders."""
        self._limit_whole: Final = limit_event_bytes + ABOUT_BYTES_MAX
        self._limit_total: Final = limit_total_bytes
        if limit_event_bytes < 1 or limit_total_bytes < self._limit_whole + PARTIAL_BYTES:
            least = max(1, limit_event_bytes) + ABOUT_BYTES_MAX + PARTIAL_BYTES
            raise ValueError(f"limit_total_bytes is {limit_total_bytes}: must be at least {least}, for one event")
        self._partials: dict[int, _Partial] = {}  # the sender that was silent longest comes first
        self.abandoned: deque[Abandoned] = deque(maxlen=ABANDONED_MAX)
        """The events given up since `take_abandoned` was called, for those who look whether that is worth a call."""
        self.held_bytes = 0
        self.skipped = 0
        self.given_up = 0

    def add(self, packet: Packet) -> Event | None:
        """Take a fragment; returns the event if this was its last. WireError, never any other error, if malformed."""
        fragment, index = _decode_head(packet.body)
        sender = packet.sender
        partial = self._partials.pop(sender, None)
        if partial is not None and not _continues(partial, fragment, packet.seqno, index):
            self._abandon(sender, partial, "cut short")
            partial = None
        if partial is None:
            partial = self._begin(packet, fragment, index)
            if partial is None:
                return None
        self._partials[sender] = partial
        partial.index += 1
        partial.data += memoryview(packet.body)[HEAD.size :]
        self.held_bytes += len(packet.body) - HEAD.size
        if index + 1 == fragment.parts or len(partial.data) >= fragment.total:
            return self._finish(packet, partial, index)
        self._evict()
        return None

    def lost(self, sender: int, first: int, last: int) -> Reason | None:
        """Packets `first` to `last` will never come; returns why the sender's event under way is given up, if it is."""
        partial = self._partials.get(sender)
        if partial is None or first > partial.first + partial.fragment.parts - 1 or last < partial.first:
            return None
        return self._abandon(sender, self._partials.pop(sender), "fragment lost")

    def forget(self, sender: int) -> Reason | None:
        """The sender is no longer there; returns why its event under way is given up, if there is one."""
        partial = self._partials.pop(sender, None)
        return None if partial is None else self._abandon(sender, partial, "sender left")

    def __contains__(self, sender: int) -> bool:
        """Whether an event of the sender is under way."""
        return sender in self._partials

    def undo(self, sender: int, first: int) -> None:
        """Fragments from packet `first` on come again: be where we were before it."""
        partial = self._partials.get(sender)
        if partial is None or first >= partial.first + partial.index:
            return
        kept, size = max(0, first - partial.first), len(partial.data) // partial.index  # all have that but the last
        self.held_bytes -= len(partial.data) - kept * size
        del partial.data[kept * size :]
        partial.index = kept
        if not kept:
            del self._partials[sender]
            self.held_bytes -= PARTIAL_BYTES

    def take_abandoned(self) -> list[Abandoned]:
        """The events given up since the last call."""
        taken = list(self.abandoned)
        self.abandoned.clear()
        return taken

    def _begin(self, packet: Packet, fragment: _Fragment, index: int) -> _Partial | None:
        if index:
            self.skipped += 1
            return None
        partial = _Partial(fragment, packet.seqno)
        self.held_bytes += PARTIAL_BYTES
        if fragment.total > self._limit_whole:
            self._abandon(packet.sender, partial, "too large")
            return None
        return partial

    def _finish(self, packet: Packet, partial: _Partial, index: int) -> Event:
        del self._partials[packet.sender]
        fragment = partial.fragment
        try:
            if index + 1 != fragment.parts or len(partial.data) != fragment.total:
                raise WireError(f"fragments of {len(partial.data)} bytes for an event of {fragment.total}")
            event = _decode_whole(partial.data, packet, fragment.time_ns / 1e9)
        except WireError:
            self._abandon(packet.sender, partial, "malformed")
            raise
        self.held_bytes -= len(partial.data) + PARTIAL_BYTES
        return event

    def _evict(self) -> None:
        while self.held_bytes > self._limit_total:
            sender = next(iter(self._partials))
            self._abandon(sender, self._partials.pop(sender), "evicted")

    def _abandon(self, sender: int, partial: _Partial, reason: Reason) -> Reason:
        self.held_bytes -= len(partial.data) + PARTIAL_BYTES
        last = partial.first + partial.fragment.parts - 1
        self.given_up += 1
        self.abandoned.append(Abandoned(sender, partial.first, last, reason))
        return reason


def _continues(partial: _Partial, fragment: _Fragment, seqno: int, index: int) -> bool:
    return fragment == partial.fragment and index == partial.index and seqno == partial.first + index


def _decode_head(body: bytes) -> tuple[_Fragment, int]:
    if len(body) <= HEAD.size:
        raise WireError(f"{len(body)} bytes are shorter than a fragment")
    kind, time_ns, event_id, index, count, total = HEAD.unpack_from(body)
    if kind != FRAGMENT:
        raise WireError(f"a body of kind {kind} is not a fragment")
    if index >= count or count > total or len(body) - HEAD.size > total:
        raise WireError(f"fragment {index} of {count} with {len(body) - HEAD.size} of {total} bytes")
    return _Fragment(time_ns, event_id, count, total), index


def _encode_about(subject: str, attributes: Attributes | None) -> bytes:
    name = encode_subject(subject)
    parts: Sequence[bytes] = (b"\x00",)
    if attributes:
        shape, row, texts = attribute_codec.pack(attributes)
        parts = shape.head, row, texts
    return b"".join((bytes([len(name)]), name, *parts))


def _decode_whole(whole: bytearray, packet: Packet, time: float) -> Event:
    about = bytes(whole[:ABOUT_BYTES_MAX])
    try:
        at = 1 + about[0]
        subject = decode_subject(about[1:at])
        attributes: Attributes = NO_ATTRIBUTES
        if about[at : at + 1] == b"\x00":
            at += 1
        else:
            (attributes,), at = attribute_codec.unpack(about, at, 1)
    except (ValueError, error) as reason:
        raise WireError(str(reason)) from None
    return Event(subject, bytes(memoryview(whole)[at:]), attributes, packet.sender, packet.seqno, time)
