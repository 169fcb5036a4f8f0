"""Reliable multicast (000 §2.1) and reliable multicast with crashes (000 §6.1).

Nothing bogus: what is delivered was published before. At most once at each member. Eventually everywhere: at
the end every packet has been delivered at every member that is owed it or, if that is all that is promised,
reported lost there. A member that has left, is down or never joined delivers nothing.

With crashes, a packet may also be dropped if its sender crashed after publishing it, or for a member that
recovered after it was published. Memory: one byte for each packet and member, and a little for each packet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gossamer.core.ids import MEMBER_MASK
from gossamer.spec.arrays import repeats
from gossamer.spec.ids import Ids
from gossamer.spec.marks import Marks
from gossamer.spec.members import DOWN, LEFT, UP, Members
from gossamer.spec.promises import Metadata, at_least_once, promised
from gossamer.spec.report import Findings, Violation
from gossamer.spec.undone import pieces
from gossamer.trace.rows import Ints, Mask, Rows
from gossamer.trace.schema import CODE

_DELIVERED, _LOST = 1, 2
_BLOCK_CELLS = 1 << 22
_NEVER = np.iinfo(np.int64).max
_PUBLISHED = "member {member} published packet ({sender}, {seqno})"
_DELIVERED_IT = "member {member} delivered packet ({sender}, {seqno})"


class ReliableMulticast:
    """000 §2.1, to the letter: a crash excuses nothing."""

    name = "reliable-multicast"
    reference = "000 §2.1"
    _crashes = False

    def __init__(self, metadata: Metadata) -> None:
        self._promised = promised(metadata)
        self._packets = Ids()
        self._members = Members(self._crashes and at_least_once(metadata))
        self._marks = Marks()
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        self._members.feed(rows)
        self._feed_publish(rows.of("publish"))
        for undone, part in pieces(rows.of("deliver", "lost", "undo")):
            (self._feed_undone if undone else self._feed_deliver)(part)

    def finish(self) -> list[Violation]:
        if self._promised & {"eventual", "eventual-or-lost"}:
            self._check_everywhere()
        return self.found.listed()

    def _feed_publish(self, rows: Rows) -> None:
        packet = self._packets.add(rows.sender, rows.seqno, rows.number)
        first = self._packets.first[packet]
        down = self._members.status.at(self._members.who(rows.member, rows.number), rows.number) == DOWN
        self.found.add_rows(rows, first != rows.number, _PUBLISHED + " again", first)
        self.found.add_rows(rows, rows.member != rows.sender & MEMBER_MASK, _PUBLISHED + " in another's name")
        self.found.add_rows(rows, down, _PUBLISHED + " but is down")

    def _feed_deliver(self, rows: Rows) -> None:
        who = self._members.who(rows.member, rows.number)
        packet, published = self._packets.find_before(rows.sender, rows.seqno, rows.number)
        joined = self._check_up(rows, who)
        if "no-bogus" in self._promised:
            bogus = ~published & (rows.kind == CODE["deliver"])
            self.found.add_rows(rows, bogus, _DELIVERED_IT + ", which nobody had published")
        good = np.flatnonzero(published & joined)
        self._mark(rows.select(good), packet[good], self._members.life.at(who[good], rows.number[good]))

    def _feed_undone(self, rows: Rows) -> None:
        """What was undone is owed again."""
        who = self._members.who(rows.member, rows.number)
        packet, published = self._packets.find_before(rows.sender, rows.seqno, rows.number)
        self._marks.grow(len(self._packets), self._members.lives)
        life = self._members.life.at(who, rows.number)
        known = np.flatnonzero(published & (life >= 0))
        cell = self._marks.cells(packet[known], life[known])
        nothing = np.zeros(len(rows), np.bool_)
        again = np.ones(len(cell), np.bool_)
        again[np.unique(cell, return_index=True)[1]] = False
        nothing[known] = again | (self._marks.flat[cell] == 0)
        self.found.add_rows(rows, nothing, "member {member} undid packet ({sender}, {seqno}), which it did not have")
        self._marks.flat[cell] = 0

    def _check_up(self, rows: Rows, who: Ints) -> Mask:
        """Report deliveries at members that are not up; returns which rows are of members that have joined."""
        deliver = rows.kind == CODE["deliver"]
        joined = self._members.joined.at(who, rows.number) >= 0
        status = self._members.status.at(who, rows.number)
        _, began = self._members.claims(who, rows.sender, who, rows.number, rows.number)
        for bad, why in (
            (began == _NEVER, "does not listen to its channel"),
            (~joined, "never joined"),
            (status == LEFT, "has left"),
            (status == DOWN, "is down"),
        ):
            self.found.add_rows(rows, deliver & bad, f"{_DELIVERED_IT} but {why}")
        return joined

    def _mark(self, rows: Rows, packet: Ints, life: Ints) -> None:
        self._marks.grow(len(self._packets), self._members.lives)
        cell, deliver = self._marks.cells(packet, life), rows.kind == CODE["deliver"]
        before = self._marks.flat[cell]
        if "at-most-once" in self._promised:
            again = np.zeros(len(rows), np.bool_)
            again[deliver] = (before[deliver] & _DELIVERED > 0) | repeats(cell[deliver])
            self.found.add_rows(rows, again, _DELIVERED_IT + " again", self._packets.first[packet])
        self._marks.flat[cell[deliver]] |= _DELIVERED
        self._marks.flat[cell[~deliver]] |= _LOST
        if "eventual-or-lost" in self._promised:
            self._check_not_both(rows, cell, before)

    def _check_not_both(self, rows: Rows, cell: Ints, before: NDArray[np.uint8]) -> None:
        both = _DELIVERED | _LOST
        suspect = np.flatnonzero((self._marks.flat[cell] == both) & (before != both))
        marks = {int(cell[i]): int(before[i]) for i in suspect}
        for i in suspect:  # few: packets both lost and delivered at the same member
            was = marks[int(cell[i])]
            now = was | (_DELIVERED if rows.kind[i] == CODE["deliver"] else _LOST)
            marks[int(cell[i])] = now
            if now == both != was:
                text = _DELIVERED_IT + " and reported it lost"
                self.found.add(text.format(**rows.describe(i)), rows.number[i])

    def _check_everywhere(self) -> None:
        members = self._members
        who = members.everyone()
        status, joined = members.status.last(who), members.joined.last(who)
        claims = (joined >= 0) & ((status == UP) if self._crashes else (status != LEFT))
        who = who[claims]
        self._marks.grow(len(self._packets), members.lives)
        step = max(1, _BLOCK_CELLS // max(1, len(who)))
        for at in range(0, len(self._packets), step):
            packets = np.arange(at, min(at + step, len(self._packets)), dtype=np.int64)
            self._report_missing(packets, who, self._owed(packets, who))

    def _owed(self, packets: Ints, who: Ints) -> NDArray[np.bool_]:
        """Whether packets (the rows) are owed to members (the columns)."""
        members = self._members
        sender, seqno = self._packets.a[packets], self._packets.b[packets]
        published = self._packets.first[packets]
        joined, life = members.joined.last(who), members.life.last(who)
        owed: NDArray[np.bool_] = published[:, None] > joined
        in_channels = members.has_channels() or (sender > MEMBER_MASK).any()
        special = np.ones(len(who), np.bool_) if in_channels else members.has_vector(life)
        for i in np.flatnonzero(special):
            of = np.full_like(sender, who[i]), sender, np.full_like(sender, life[i]), np.full_like(sender, joined[i])
            claim, began = members.claims(*of)
            owed[:, i] = members.owed_by_join(claim, sender, seqno, published, began)
        if self._crashes:
            owed &= published[:, None] > members.recovered.last(who)
            owed &= (published > members.crashed.last(members.who(sender & MEMBER_MASK, published)))[:, None]
        return owed

    def _report_missing(self, packets: Ints, who: Ints, owed: NDArray[np.bool_]) -> None:
        resolved = _DELIVERED if "eventual" in self._promised else _DELIVERED | _LOST
        what = "neither delivered nor reported lost" if resolved & _LOST else "never delivered"
        marks = self._marks.matrix[packets[0] : packets[-1] + 1, self._members.life.last(who)]
        missing = owed & (marks & resolved == 0)
        if not self.found.room:  # there may be very many: only count them
            self.found.count += int(np.count_nonzero(missing))
            return
        for packet, member in self.found.kept(np.argwhere(missing)):
            p = packets[packet]
            text = f"packet ({self._packets.a[p]}, {self._packets.b[p]}) was {what} at member "
            self.found.add(text + str(self._members.name(who[member])), self._packets.first[p])


class ReliableMulticastWithCrashes(ReliableMulticast):
    """000 §6.1: as §2.1, but crashes and recoveries may drop packets."""

    name = "reliable-multicast-with-crashes"
    reference = "000 §6.1"
    _crashes = True
