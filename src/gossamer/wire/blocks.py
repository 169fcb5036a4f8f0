"""One block of a packet's body: a run of events in columns, so that Python pays per block and not per event.

 0  form, 1 byte: the sum of   1 lengths differ, 1 byte each    2 lengths differ, 2 bytes each
                               4 subjects differ                8 there are attributes
 1  count, 2 bytes: events in this block, at least 1
 3  size, 2 bytes: of each payload, at least 1; of all payloads together where lengths differ
 5  width, 2 bytes: of all columns together
 7  the columns: [lengths] [for each event the index of its subject, 1 byte] [attributes, see `attributes`]
    the subject in UTF-8; where subjects differ: how many less one, 1 byte, their lengths, 1 byte each, and the subjects
 .  the payloads, one after the other

In the common case (one subject, no attributes, payloads of one length) the only column is the subject.
Integers are unsigned, most significant byte first. Every event takes at least one byte of its block, and each of its
attributes one more: the work and the memory of reading grow with the length of the input.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate, pairwise, repeat
from struct import Struct
from typing import Final

from gossamer.wire import attributes
from gossamer.wire.attributes import NO_ATTRIBUTES, Attributes, Shape

HEAD: Final = Struct("!BHHH")
SHORT, LONG, SUBJECTS, ATTRIBUTES = 1, 2, 4, 8
_DIFFER: Final = SHORT | LONG

SUBJECT_BYTES_MAX: Final = 255
SUBJECTS_MAX: Final = 256
"""Different subjects in one block."""
NEVER: Final = 1 << 30
"""The growth of a block that cannot take an event."""

_SPLIT_MAX: Final = 1024
"""Payloads that one cached `Struct` cuts apart: 128 of them stay below 5 MB."""

Columns = tuple[Iterable[str], Iterable[bytes], Iterable[Attributes]]
"""Subjects, payloads, attributes: one of each for each event; a value that is the same for all repeats for ever."""


class Block:
    """A block that is being filled. Its `Packer` counts the events, and appends those that fit to the lists itself."""

    __slots__ = ("index", "length", "length_max", "lengths", "payloads", "rows", "shape", "step", "subjects", "texts")

    def __init__(self, subject: str, length: int, shape: Shape | None) -> None:
        self.length = length
        """The length of every payload, unless there are `lengths`."""
        self.lengths: list[int] | None = None if length else []
        self.length_max = -1 if length else 255
        """The length of the longest payload for which there is room in `lengths`."""
        self.subjects = {subject: encode_subject(subject)}
        self.index: list[str] | None = None
        self.shape: Final = shape
        self.rows: list[bytes] = []
        self.texts: list[bytes] = []
        self.payloads: list[bytes] = []
        self.step = self._width
        """Bytes that an event takes in `lengths` and `index`."""

    @property
    def _width(self) -> int:
        return 0 if self.lengths is None else 1 if self.length_max < 256 else 2

    @property
    def simple_subject(self) -> str | None:
        """The subject of a block that has no other column, else None."""
        return next(iter(self.subjects)) if not self.step and self.shape is None else None

    def takes_different(self, subject: str) -> bool:
        """Whether an event of this subject needs only its length and its payload written."""
        return self.lengths is not None and self.index is None and self.shape is None and subject in self.subjects

    def fits(self, subject: str, length: int) -> bool:
        """Whether the columns can take such an event as they are."""
        return (length == self.length or length <= self.length_max) and subject in self.subjects

    def beginning(self) -> int:
        """How many bytes a new block takes for its first event, besides the event's own."""
        (subject,) = self.subjects.values()
        return HEAD.size + len(subject) + self.step + (len(self.shape.head) if self.shape else 0)

    def growth(self, count: int, subject: str, length: int) -> int:
        """By how many bytes `widen` and then such an event make the columns longer, besides the event's own."""
        width = self._width
        if length != self.length and length > self.length_max:
            width = 1 if max(length, self.length) < 256 else 2
        grown = count * (width - self._width) + width
        if subject not in self.subjects:
            if len(self.subjects) == SUBJECTS_MAX:
                return NEVER
            grown += 2 + len(encode_subject(subject)) + (count + 2 if self.index is None else 0)
        elif self.index is not None:
            grown += 1
        return grown

    def widen(self, count: int, subject: str, length: int) -> None:
        """Change the columns, which hold `count` events, so that such an event fits."""
        if length != self.length and length > self.length_max:
            if self.lengths is None:
                self.lengths = [self.length] * count
            self.length_max = 255 if max(length, self.length) < 256 else 65_535
        if subject not in self.subjects:
            if self.index is None:
                self.index = list(self.subjects) * count
            self.subjects[subject] = encode_subject(subject)
        self.step = self._width + (self.index is not None)

    def encode(self, count: int) -> list[bytes]:
        """The bytes of the block, which holds `count` events, in pieces: a body of 64 KB is joined only once."""
        if not self.step and self.shape is None:
            (subject,) = self.subjects.values()
            return [HEAD.pack(0, count, self.length, len(subject)), subject, *self.payloads]
        form, size, columns = 0, self.length, []
        if self.lengths is not None:
            form, size = (SHORT if self.length_max < 256 else LONG), sum(self.lengths)
            columns.append(bytes(self.lengths) if form == SHORT else Struct(f"!{count}H").pack(*self.lengths))
        if self.index is not None:
            form |= SUBJECTS
            numbers = {subject: i for i, subject in enumerate(self.subjects)}
            columns.append(bytes(map(numbers.__getitem__, self.index)))
        if self.shape is not None:
            form |= ATTRIBUTES
            columns += [self.shape.head, *self.rows, *self.texts]
        if self.index is not None:
            columns.append(bytes([len(self.subjects) - 1, *map(len, self.subjects.values())]))
        columns += self.subjects.values()
        head = HEAD.pack(form, count, size, sum(map(len, columns)))
        return [head, *columns, *self.payloads]


@lru_cache(maxsize=1024)
def encode_subject(subject: str) -> bytes:
    """A subject in UTF-8; ValueError if it is empty or too long."""
    encoded = subject.encode()
    if not 1 <= len(encoded) <= SUBJECT_BYTES_MAX:
        raise ValueError(f"a subject of {len(encoded)} bytes, must be 1 to {SUBJECT_BYTES_MAX}: {subject[:40]!r}")
    return encoded


@lru_cache(maxsize=1024)
def decode_subject(encoded: bytes) -> str:
    """The subject; cached, so that equal subjects are one object, whose hash the subscriptions need only once."""
    if not 1 <= len(encoded) <= SUBJECT_BYTES_MAX:
        raise ValueError(f"a subject of {len(encoded)} bytes, must be 1 to {SUBJECT_BYTES_MAX}")
    return encoded.decode()


def payload_bytes(form: int, count: int, size: int, width: int, left: int) -> int:
    """How long the payloads of a block are in total; ValueError if it is cut short or makes events from nothing."""
    if form & _DIFFER:
        total, possible = size, count * (form & _DIFFER) <= width
    else:
        total, possible = count * size, size > 0
    if not (count and possible) or total > left:
        raise ValueError(f"a block of {count} events (form {form}, size {size}, width {width}) is cut short")
    return total


def split(data: bytes, at: int, count: int, size: int) -> Iterable[bytes]:
    """Split payloads of one length."""
    if count <= _SPLIT_MAX:
        return _splitter(count, size).unpack_from(data, at)
    return [payload for (payload,) in Struct(f"{size}s").iter_unpack(data[at : at + count * size])]


@lru_cache(maxsize=128)
def _splitter(count: int, size: int) -> Struct:
    return Struct(f"{size}s" * count)


def unpack_columns(columns: bytes, payloads: bytes, form: int, count: int, size: int) -> Columns:
    """Subjects, payloads and attributes of any block but the simplest; ValueError if malformed."""
    if form > 15 or form & _DIFFER == _DIFFER:
        raise ValueError(f"unknown form of block {form}")
    at = count * (form & _DIFFER)
    cut = _split_at(payloads, _lengths(columns[:at], form, count), size) if at else split(payloads, 0, count, size)
    index = columns[at : at + count] if form & SUBJECTS else b""
    at += len(index)
    extras: Iterable[Attributes] = repeat(NO_ATTRIBUTES)
    if form & ATTRIBUTES:
        extras, at = attributes.unpack(columns, at, count)
    if form & SUBJECTS:
        return _subjects(columns, at, index, count), cut, extras
    return repeat(decode_subject(columns[at:])), cut, extras


def _lengths(table: bytes, form: int, count: int) -> Iterable[int]:
    return table if form & SHORT else Struct(f"!{count}H").unpack(table)


def _split_at(payloads: bytes, lengths: Iterable[int], size: int) -> list[bytes]:
    edges = list(accumulate(lengths, initial=0))
    if edges[-1] != size:
        raise ValueError(f"payloads of {edges[-1]} bytes in a block of {size}")
    return [payloads[a:b] for a, b in pairwise(edges)]


def _subjects(columns: bytes, at: int, index: bytes, count: int) -> list[str]:
    n = columns[at] + 1 if at < len(columns) else 0
    start = at + 1 + n
    edges = list(accumulate(columns[at + 1 : start], initial=start))
    if len(index) != count or len(edges) != n + 1 or edges[-1] != len(columns) or max(index) >= n:
        raise ValueError("the subjects of a block are cut short, or an index names none of them")
    table = [decode_subject(columns[a:b]) for a, b in pairwise(edges)]
    return [table[i] for i in index]
