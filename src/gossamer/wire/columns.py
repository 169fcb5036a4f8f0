"""Events -> columns: what `events.unpack` gives one by one, in a few arrays for many packets at once.

This is for readers of a whole log: the payloads stay where they are, one after the other, and Python pays per block.
Only attributes, and blocks whose lengths or subjects differ, cost something per event. Import this module only where it
is needed: it loads numpy.
"""

from dataclasses import dataclass
from struct import error
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gossamer.wire import blocks
from gossamer.wire.attributes import Attributes
from gossamer.wire.codec import WireError
from gossamer.wire.events import BODY, EVENTS, SWITCH, Event

__all__ = ["ColumnBuilder", "Columns"]


@dataclass(frozen=True, slots=True)
class Columns:
    """The events of some packets, in order. Arrays have one number for each event, unless they say otherwise."""

    subjects: list[str]
    """The different subjects, in order of appearance."""
    subject: NDArray[np.int32]
    """Index into `subjects`."""
    payloads: bytes
    """All payloads, one after the other."""
    edges: NDArray[np.int64]
    """Payload `i` is `payloads[edges[i]:edges[i + 1]]`: there is one number more than there are events."""
    packet: NDArray[np.int64]
    """Which of the packets it came in, counted from 0."""
    index: NDArray[np.int64]
    """Which of the events of its packet it is, counted from 0."""
    times_ns: NDArray[np.uint64]
    """For each packet, when it was published, in nanoseconds since the epoch."""
    attributes: list[tuple[int, Attributes]]
    """For the events that have any: the position of the event, and its attributes."""

    def __len__(self) -> int:
        return len(self.subject)


class ColumnBuilder:
    """Takes packets, one after the other, and gives the columns of all of them."""

    def __init__(self) -> None:
        self._codes: Final[dict[str, int]] = {}
        self._runs: Final[list[tuple[int, int, int]]] = []  # how many events, bytes of each, code of the subject
        self._payloads: Final[list[bytes]] = []
        self._attributes: Final[list[tuple[int, Attributes]]] = []
        self._per_packet: Final[list[int]] = []
        self._times_ns: Final[list[int]] = []
        self.count = 0
        """Events so far."""
        self.payload_bytes = 0
        """Bytes of their payloads."""
        # A body of one simple block is read by its head alone; the next one mostly has the same head and length.
        self._like = b""
        self._like_bytes = -1

    def add(self, body: bytes) -> None:
        """Take the events of a body; WireError, never any other error, and nothing is taken, if it holds no events."""
        if len(body) == self._like_bytes and body.startswith(self._like, BODY.size) and body[0] == EVENTS:
            run = self._runs[-1]
            self._runs.append(run)
            self._payloads.append(body[BODY.size + len(self._like) :])
            self.count += run[0]
            self.payload_bytes += run[0] * run[1]
            self._end_packet(run[0], int.from_bytes(body[1 : BODY.size]))
        else:
            self._add_other(body)

    def _add_other(self, body: bytes) -> None:
        """Take a body that is not like the one before."""
        before = self.count, self.payload_bytes, len(self._runs), len(self._payloads), len(self._attributes)
        self._like_bytes = -1
        try:
            kind, time_ns = BODY.unpack_from(body)
            if kind == SWITCH:
                at = len(body)  # it holds no event
            elif kind != EVENTS:
                raise ValueError(f"a body of kind {kind} holds no whole events")
            else:
                at = BODY.size
            while at < len(body):
                at = self._add_block(body, at)
        except (ValueError, error) as reason:
            self._go_back(*before)
            raise WireError(str(reason)) from None
        self._end_packet(self.count - before[0], time_ns)
        if len(self._runs) == before[2] + 1:
            self._note_head(body)

    def _note_head(self, body: bytes) -> None:
        """Remember how a body with one run of events begins, if that is one simple block."""
        form, _, _, width = blocks.HEAD.unpack_from(body, BODY.size)
        if not form:
            self._like = body[BODY.size : BODY.size + blocks.HEAD.size + width]
            self._like_bytes = len(body)

    def add_event(self, event: Event, time_ns: int) -> None:
        """Take an event that came in fragments, as a packet of its own."""
        self._like_bytes = -1
        self._take(1, len(event.payload), event.subject)
        self._payloads.append(event.payload)
        if event.attributes:
            self._attributes.append((self.count - 1, event.attributes))
        self._end_packet(1, time_ns)

    def columns(self) -> Columns:
        """All that was taken."""
        runs = np.array(self._runs, np.int64).reshape(-1, 3)
        counts = runs[:, 0]
        edges = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.repeat(runs[:, 1], counts), out=edges[1:])
        per_packet = np.array(self._per_packet, np.int64)
        firsts = np.cumsum(per_packet) - per_packet
        return Columns(
            subjects=list(self._codes),
            subject=np.repeat(runs[:, 2].astype(np.int32), counts),
            payloads=b"".join(self._payloads),
            edges=edges,
            packet=np.repeat(np.arange(len(per_packet)), per_packet),
            index=np.arange(self.count) - np.repeat(firsts, per_packet),
            times_ns=np.array(self._times_ns, np.uint64),
            attributes=self._attributes,
        )

    def _add_block(self, body: bytes, at: int) -> int:
        """Take one block; returns the offset after it."""
        form, count, size, width = blocks.HEAD.unpack_from(body, at)
        start = at + blocks.HEAD.size
        middle = start + width
        end: int = middle + blocks.payload_bytes(form, count, size, width, len(body) - middle)
        payloads = body[middle:end]
        if form:
            self._add_columns(body[start:middle], payloads, form, count, size)
        else:
            self._take(count, size, blocks.decode_subject(body[start:middle]))
        self._payloads.append(payloads)
        return end

    def _add_columns(self, columns: bytes, payloads: bytes, form: int, count: int, size: int) -> None:
        subjects, cut, attributes = blocks.unpack_columns(columns, payloads, form, count, size)
        first = self.count
        for subject, payload in zip(subjects, cut):  # noqa: B905 - one subject repeats for ever
            self._take(1, len(payload), subject)
        if form & blocks.ATTRIBUTES:
            self._attributes.extend(enumerate(attributes, first))

    def _take(self, count: int, size: int, subject: str) -> None:
        code = self._codes.setdefault(subject, len(self._codes))
        self._runs.append((count, size, code))
        self.count += count
        self.payload_bytes += count * size

    def _end_packet(self, count: int, time_ns: int) -> None:
        self._per_packet.append(count)
        self._times_ns.append(time_ns)

    def _go_back(self, count: int, payload_bytes: int, runs: int, payloads: int, attributes: int) -> None:
        """Forget what was taken of a body that turned out to be malformed; its subjects may stay."""
        self.count, self.payload_bytes = count, payload_bytes
        del self._runs[runs:], self._payloads[payloads:], self._attributes[attributes:]
