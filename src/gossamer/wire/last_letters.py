"""The last events of subjects <-> the content of letters.

number of the question; 1 if the writer keeps last events at all, else 0; the number of this letter and how many there
are; then for each event its subject, its sender, and the rest as `replies` writes it
"""

from typing import NamedTuple

from gossamer.wire import replies
from gossamer.wire.codec import WireError
from gossamer.wire.events import Event
from gossamer.wire.fields import BYTES, FLAG, NUMBER


class LastLetter(NamedTuple):
    """A part of an answer."""

    question: int
    keeps: bool
    part: int
    parts: int
    events: list[Event]


def pack(question: int, keeps: bool, events: list[Event], room: int) -> tuple[list[bytes], int]:
    """Letters of at most `room` bytes, and how many events were left out since they are longer than that."""
    bodies: list[bytearray] = [bytearray()]
    left_out = 0
    for event in events:
        one = _pack_one(event)
        if len(one) > room:
            left_out += 1
            continue
        if len(bodies[-1]) + len(one) > room:
            bodies.append(bytearray())
        bodies[-1] += one
    letters = []
    for part, body in enumerate(bodies):
        head = bytearray()
        for codec, value in ((NUMBER, question), (FLAG, keeps), (NUMBER, part), (NUMBER, len(bodies))):
            codec.put(head, value)
        letters.append(bytes(head + body))
    return letters, left_out


def _pack_one(event: Event) -> bytearray:
    out = bytearray()
    BYTES.put(out, event.subject.encode())
    NUMBER.put(out, event.sender)
    told = replies.Reply(event.seqno, int(event.time * 1e9), event.payload, event.attributes)
    BYTES.put(out, replies.pack(told))
    return out


def unpack(content: bytes) -> LastLetter:
    """What a letter says; WireError, never any other error, if it is none."""
    try:
        question, at = NUMBER.get(content, 0)
        keeps, at = FLAG.get(content, at)
        part, at = NUMBER.get(content, at)
        parts, at = NUMBER.get(content, at)
        events = []
        while at < len(content):
            subject, at = BYTES.get(content, at)
            sender, at = NUMBER.get(content, at)
            rest, at = BYTES.get(content, at)
            seqno, time_ns, payload, attributes = replies.unpack(rest)
            events.append(Event(subject.decode(), payload, attributes, sender, seqno, time_ns / 1e9))
    except ValueError as reason:
        raise WireError(str(reason)) from None
    return LastLetter(question, keeps, part, parts, events)
