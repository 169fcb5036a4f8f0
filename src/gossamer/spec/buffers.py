"""Bounded buffers: no member holds more than its bound, and no packet leaves a place that it did not enter.

A place is a member's buffer or log, the phase of store and collect rows. A crash that loses a member's memory
empties its buffer, but not its log; so does leaving. Memory: one byte for each packet and place.
"""

from __future__ import annotations

import numpy as np

from gossamer.spec.arrays import Column, heads, integers, order_by
from gossamer.spec.asof import AsOf
from gossamer.spec.ids import Ids
from gossamer.spec.marks import Marks
from gossamer.spec.promises import Metadata, bounds
from gossamer.spec.report import Findings, Violation
from gossamer.trace.rows import Ints, Mask, Rows
from gossamer.trace.schema import CODE

_UNBOUNDED = np.iinfo(np.int64).max


class BoundedBuffers:
    name = "bounded-buffers"
    reference = "000 §5.2"

    def __init__(self, metadata: Metadata) -> None:
        self._bounds = bounds(metadata)
        self._members = Ids()
        self._erased = AsOf(-1)  # by member: the row at which it last lost its memory, or left
        self._phases: dict[str, int] = {}
        self._places = Ids()  # (member, phase)
        self._columns = Ids()  # (place, the row since which its memory is intact)
        self._packets = Ids()
        self._marks = Marks()
        self._held = Column()  # by column: how many packets
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        self._feed_crash(rows)
        rows = rows.of("store", "collect")
        column = self._column(rows)
        entered = rows.kind == CODE["store"]
        inside = self._inside(rows, column, entered)
        text = "member {member} stored packet ({sender}, {seqno}) in its {phase}, where it was already"
        self.found.add_rows(rows, entered & inside, text)
        text = "member {member} collected packet ({sender}, {seqno}) from its {phase}, where it was not"
        self.found.add_rows(rows, ~entered & ~inside, text)
        held = self._count(column, entered.astype(np.int64) - inside)
        bound = integers([self._bounds.get(phase, _UNBOUNDED) for phase in rows.phases])[rows.phase]
        text = "member {member} stored packet ({sender}, {seqno}) in its {phase}, which was full"
        self.found.add_rows(rows, entered & ~inside & (held > bound), text)

    def finish(self) -> list[Violation]:
        return self.found.listed()

    def _feed_crash(self, rows: Rows) -> None:
        first, rows = rows.first, rows.of("crash", "leave")
        rows = rows.select(rows.phase_is("lost") | (rows.kind == CODE["leave"]))
        self._erased.change(self._who(rows), rows.number, rows.number, first)

    def _who(self, rows: Rows) -> Ints:
        return self._members.add(rows.member, np.zeros_like(rows.member), rows.number)

    def _column(self, rows: Rows) -> Ints:
        phase = integers([self._phases.setdefault(name, len(self._phases)) for name in rows.phases])
        place = self._places.add(rows.member, phase[rows.phase], rows.number)
        erased = np.where(rows.phase_is("log"), -1, self._erased.at(self._who(rows), rows.number))
        return self._columns.add(place, erased, rows.number)

    def _inside(self, rows: Rows, column: Ints, entered: Mask) -> Mask:
        """Whether each row's packet was in its place just before; records whether it is now."""
        self._packets.add(rows.sender[entered], rows.seqno[entered], rows.number[entered])
        packet = self._packets.find(rows.sender, rows.seqno)
        known = np.flatnonzero(packet >= 0)
        self._marks.grow(len(self._packets), len(self._columns))
        cell = self._marks.cells(packet[known], column[known])
        order = np.argsort(cell, kind="stable")
        now = entered[known][order]
        inside = np.zeros(len(rows), np.bool_)
        inside[known[order]] = np.where(heads(cell[order]), self._marks.flat[cell[order]], np.roll(now, 1))
        self._marks.flat[cell[order]] = now
        return inside

    def _count(self, column: Ints, change: Ints) -> Ints:
        """How many packets each row's place held just after it."""
        self._held.grow(len(self._columns))
        order = order_by(column)
        head = heads(column[order])
        total = np.cumsum(change[order])
        start = np.maximum.accumulate(np.where(head, np.arange(len(order)), 0))
        held = np.empty_like(change)
        base = self._held.values[column[order]]
        held[order] = base + total - (total - change[order])[start]
        self._held.values[column[order]] = held[order]
        return held
