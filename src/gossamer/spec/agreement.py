"""Agreement on order (002 §1 (b), (c)): if two members both deliver the same two packets, they do so in the same order.

Draw an arrow from each packet to the one that some member delivered next. If the arrows have no cycle, there
is one order that every member followed, and all agree: this check takes linear time, and is the normal case. If
there is a cycle (a strong component of several packets), the members are compared two by two, on its packets only:
three members can make a cycle without any two of them disagreeing, and that does not violate (c).

If a packet is delivered twice, the first delivery counts, of those after the last time that it was undone (002 §5.2.1).
Arrows of deliveries that were undone stay, and can only make cycles that the comparison does not confirm. The search
ends once `LISTED_MAX` pairs of members are found to disagree. Memory: 8 bytes for each delivery, and one arrow for each
two packets that follow each other somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from gossamer.spec.arrays import Column, heads, order_by, repeats
from gossamer.spec.ids import Ids
from gossamer.spec.promises import Metadata
from gossamer.spec.report import Findings, Violation
from gossamer.trace.rows import Ints, Mask, Rows


@dataclass(frozen=True, slots=True)
class _Deliveries:
    """Which member delivered which packet in which row: member by member, in order."""

    who: Ints
    packet: Ints
    number: Ints

    def select(self, where: Mask | Ints) -> _Deliveries:
        return _Deliveries(self.who[where], self.packet[where], self.number[where])


@dataclass(frozen=True, slots=True)
class _Packed:
    """The deliveries of one batch, in compact form."""

    who: NDArray[np.int32]
    runs: NDArray[np.int32]
    packet: NDArray[np.int32]
    offset: NDArray[np.int32]
    first: int

    @classmethod
    def of(cls, made: _Deliveries) -> _Packed:
        first = int(made.number.min()) if len(made.number) else 0
        who, runs = np.unique_counts(made.who)
        return cls(
            who=who.astype(np.int32),
            runs=runs.astype(np.int32),
            packet=made.packet.astype(np.int32),
            offset=(made.number - first).astype(np.int32),
            first=first,
        )

    def unpack(self, wanted: Mask) -> _Deliveries:
        """The deliveries of the wanted packets."""
        where = np.flatnonzero(wanted[self.packet])
        who = np.repeat(self.who, self.runs)[where].astype(np.int64)
        number = self.first + self.offset[where].astype(np.int64)
        return _Deliveries(who, self.packet[where].astype(np.int64), number)


class Agreement:
    name = "agreement"
    reference = "002 §1 (b), (c)"

    def __init__(self, metadata: Metadata) -> None:
        self._members = Ids()
        self._packets = Ids()
        self._latest = Column(fill=-1)  # by member: the packet that it delivered last
        self._next = Column(fill=-1)  # by packet: the one that some member delivered next, an arrow
        self._arrows = Ids()  # all other arrows
        self._kept: list[_Packed] = []
        self._undone: list[_Deliveries] = []
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        self._feed_undone(rows.of("undo"))
        rows = rows.of("deliver")
        who = self._members.add(rows.member, np.zeros_like(rows.member), rows.number)
        packet = self._packets.add(rows.sender, rows.seqno, rows.number)
        order = order_by(who)
        made = _Deliveries(who[order], packet[order], rows.number[order])
        self._kept.append(_Packed.of(made))
        self._latest.grow(len(self._members))
        previous = np.where(heads(made.who), self._latest.values[made.who], np.roll(made.packet, 1))
        self._latest.values[made.who] = made.packet
        self._draw(*(end[previous >= 0] for end in (previous, made.packet, made.number)))

    def _feed_undone(self, rows: Rows) -> None:
        if len(rows):
            who = self._members.add(rows.member, np.zeros_like(rows.member), rows.number)
            self._undone.append(_Deliveries(who, self._packets.add(rows.sender, rows.seqno, rows.number), rows.number))

    def _draw(self, tail: Ints, head: Ints, number: Ints) -> None:
        self._next.grow(len(self._packets))
        new = self._next.values[tail] < 0
        self._next.values[tail[new]] = head[new]
        other = self._next.values[tail] != head
        self._arrows.add(tail[other], head[other], number[other])

    def finish(self) -> list[Violation]:
        if not len(self._packets):
            return []
        tail = np.flatnonzero(self._next.values >= 0)
        tails = np.concatenate([tail, self._arrows.a])
        component = _components(tails, np.concatenate([self._next.values[tail], self._arrows.b]), len(self._packets))
        if (component >= 0).any():
            self._compare(_first_deliveries(self._kept, self._undone, component >= 0))
        return self.found.listed()

    def _compare(self, made: _Deliveries) -> None:
        """Compare every two members on the packets of every cycle among first deliveries."""
        follows = np.flatnonzero(~heads(made.who))
        component = _components(made.packet[follows - 1], made.packet[follows], len(self._packets))
        made = made.select(component[made.packet] >= 0)
        made = made.select(order_by(component[made.packet]))
        for cycle in _groups(made, component[made.packet]):
            for one, other in combinations(_groups(cycle, cycle.who), 2):
                self._compare_two(one, other)
                if not self.found.room:
                    return

    def _compare_two(self, one: _Deliveries, other: _Deliveries) -> None:
        _, mine, theirs = np.intersect1d(one.packet, other.packet, assume_unique=True, return_indices=True)
        mine = mine[np.argsort(theirs)]  # where `one` delivered the shared packets, in the order of `other`
        theirs = np.sort(theirs)
        back = np.flatnonzero(mine[1:] < mine[:-1])
        if not len(back):
            return
        (a, b), (c, d) = theirs[back[0] : back[0] + 2], mine[back[0] : back[0] + 2]
        u, v = (f"({self._packets.a[p]}, {self._packets.b[p]})" for p in other.packet[[a, b]])
        x, y = self._members.a[one.who[0]], self._members.a[other.who[0]]
        text = f"member {y} delivered packet {u} before {v}, member {x} after it"
        self.found.add(text, *np.sort([other.number[a], other.number[b], one.number[c], one.number[d]]))


def _components(tail: Ints, head: Ints, packets: int) -> Ints:
    """By packet: which strong component of several packets it is in, numbered from 0; -1 for none."""
    from scipy.sparse import coo_array  # imported here, so that only this checker pays for loading scipy
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(tail), np.float32), (tail, head)), shape=(packets, packets))
    _, label = connected_components(graph, directed=True, connection="strong")
    several = np.bincount(label, minlength=1) > 1
    number = np.where(several, np.cumsum(several) - 1, -1)
    component: Ints = number[label]
    return component


def _first_deliveries(kept: list[_Packed], undone: list[_Deliveries], tangled: Mask) -> _Deliveries:
    """The first deliveries of tangled packets, member by member, that were not undone."""
    made = _joined([part.unpack(tangled) for part in kept])
    if undone:
        made = made.select(made.number > _last_undone(_joined(undone), made, len(tangled)))
    made = made.select(order_by(made.who))
    return made.select(~repeats(made.who * len(tangled) + made.packet))


def _joined(parts: list[_Deliveries]) -> _Deliveries:
    return _Deliveries(*(np.concatenate([getattr(part, name) for part in parts]) for name in _Deliveries.__slots__))


def _last_undone(undone: _Deliveries, made: _Deliveries, packets: int) -> Ints:
    """For each delivery, the row in which its packet was undone last at its member; -1 if it never was."""
    keys, wanted = undone.who * packets + undone.packet, made.who * packets + made.packet
    order = np.lexsort((undone.number, keys))
    keys, numbers = keys[order], undone.number[order]
    at = np.searchsorted(keys, wanted, side="right") - 1
    return np.where((at >= 0) & (keys[at] == wanted), numbers[at], -1)


def _groups(made: _Deliveries, keys: Ints) -> Iterator[_Deliveries]:
    """Groups of adjacent deliveries with the same key."""
    for start, end in pairwise([*np.flatnonzero(heads(keys)), len(keys)]):
        yield made.select(np.arange(start, end))
