"""Flushed implies logged: what a sender was told is durable is in a log by then.

A flush row speaks of everything that its member published in one stream since it last lost its memory and that no
earlier flush row spoke of. Each of these packets must have entered enough logs before that row. A log may have
collected it since: that is for others to judge (`reliable`). No fault loses a disk, so what was logged once stays
logged. Memory: a little for each packet and log.
"""

from __future__ import annotations

import numpy as np

from gossamer.core.ids import MEMBER_MASK
from gossamer.spec.arrays import Column, heads
from gossamer.spec.asof import AsOf
from gossamer.spec.ids import Ids
from gossamer.spec.promises import Metadata, copies
from gossamer.spec.report import Findings, Violation
from gossamer.trace.rows import Ints, Rows
from gossamer.trace.schema import CODE

_NEVER = np.iinfo(np.int64).max
_SEQNO_BITS = 40


class Durability:
    name = "durability"
    reference = "000 §3.1"

    def __init__(self, metadata: Metadata) -> None:
        self._enough = copies(metadata)
        self._members = Ids()
        self._erased = AsOf(-1)  # by member: the row at which it last lost its memory, or left
        self._lives = Ids()  # (stream, the row since which the memory of its member is intact)
        self._packets = Ids()
        self._life = Column()  # by packet: the life in which it was published
        self._logs = Ids()  # (packet, logger)
        self._copies = Column()  # by packet: how many logs it has entered
        self._logged = Column(fill=_NEVER)  # by packet: the row in which it had entered enough logs
        self._open = np.zeros(0, np.int64)  # packets that no flush row spoke of
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        self._feed_erased(rows)
        self._feed_publish(rows.of("publish"))
        self._feed_store(rows.of("store"))
        self._check(rows.of("flush"))

    def finish(self) -> list[Violation]:
        return self.found.listed()

    def _feed_erased(self, rows: Rows) -> None:
        first, rows = rows.first, rows.of("crash", "leave")
        rows = rows.select(rows.phase_is("lost") | (rows.kind == CODE["leave"]))
        self._erased.change(self._who(rows), rows.number, rows.number, first)

    def _who(self, rows: Rows) -> Ints:
        return self._members.add(rows.member, np.zeros_like(rows.member), rows.number)

    def _lives_of(self, rows: Rows) -> Ints:
        who = self._who(rows)
        return self._lives.add(rows.sender, self._erased.at(who, rows.number), rows.number)

    def _feed_publish(self, rows: Rows) -> None:
        known = len(self._packets)
        packet = self._packets.add(rows.sender, rows.seqno, rows.number)
        new = self._packets.first[packet] == rows.number
        self._life.extend(self._lives_of(rows)[new])
        self._copies.grow(len(self._packets))
        self._logged.grow(len(self._packets))
        self._open = np.concatenate([self._open, np.arange(known, len(self._packets))])

    def _feed_store(self, rows: Rows) -> None:
        rows = rows.select(rows.phase_is("log"))
        packet, published = self._packets.find_before(rows.sender, rows.seqno, rows.number)
        rows, packet = rows.select(published), packet[published]
        copy = self._logs.add(packet, self._who(rows), rows.number)
        new = self._logs.first[copy] == rows.number
        order = np.argsort(packet[new], kind="stable")
        packet, number = packet[new][order], rows.number[new][order]
        place = np.arange(len(packet))
        start = np.maximum.accumulate(np.where(heads(packet), place, 0))
        count = self._copies.values[packet] + 1 + place - start
        enough = count == self._enough
        self._logged.values[packet[enough]] = number[enough]
        self._copies.values[packet] = count  # the last of equal packets wins

    def _check(self, rows: Rows) -> None:
        """Find for each open packet the first flush row that speaks of it."""
        if not len(rows):
            return
        life = self._lives_of(rows)
        order = np.argsort(life, kind="stable")
        rows, life = rows.select(order), life[order]
        mine = self._life.values[self._open]
        place = np.maximum(
            np.searchsorted(_key(life, _highest(life, rows.seqno)), _key(mine, self._packets.b[self._open])),
            np.searchsorted(_key(life, rows.number), _key(mine, self._packets.first[self._open])),
        )
        told = (place < len(rows)) & (life[np.minimum(place, len(rows) - 1)] == mine)
        packet, place = self._open[told], place[told]
        self._open = self._open[~told]
        late = self._logged.values[packet] > rows.number[place]
        late &= ~rows.phase_is("unlogged")[place]
        by_row = np.argsort(rows.number[place[late]], kind="stable")
        for p, row in self.found.kept(np.stack([packet[late], rows.number[place[late]]], axis=1)[by_row]):
            sender = self._packets.a[p]
            text = f"member {sender & MEMBER_MASK} was told that packet ({sender}, {self._packets.b[p]}) is "
            self.found.add(text + "durable before it was logged", self._packets.first[p], row)


def _key(life: Ints, number: Ints) -> Ints:
    key: Ints = (life << _SEQNO_BITS) + number
    return key


def _highest(life: Ints, seqno: Ints) -> Ints:
    """The highest number so far in each life."""
    lift = life << _SEQNO_BITS
    highest: Ints = np.maximum.accumulate(seqno + lift) - lift
    return highest
