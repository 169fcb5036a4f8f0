"""FIFO per sender (002 (a)): a member takes a sender's packets in the order in which they were published.

To take a packet is to deliver it or to report it lost, in its place. A packet may be passed over only if it
is not owed: published before the member joined (or not after its t_join), before it recovered, or before the
sender crashed. Numbers that were never published are not gaps. Packets that nobody published are not checked
here (see `reliable`). Memory: a little for each packet and for each pair of member and sender.
"""

from __future__ import annotations

import numpy as np

from gossamer.core.ids import MEMBER_MASK
from gossamer.spec.arrays import Column, heads, order_by
from gossamer.spec.ids import Ids
from gossamer.spec.members import Members
from gossamer.spec.promises import Metadata, at_least_once
from gossamer.spec.report import Findings, Violation
from gossamer.spec.undone import pieces
from gossamer.trace.rows import Ints, Mask, Rows


class FifoOrder:
    name = "fifo"
    reference = "002 §1 (a)"

    def __init__(self, metadata: Metadata) -> None:
        self._members = Members(at_least_once(metadata))
        self._packets = Ids()
        self._rank = Column()  # by packet: how many its sender had published before
        self._previous = Column()  # by packet: the one its sender published before it, -1 for none
        self._senders = Ids()
        self._latest = Column(fill=-1)  # by sender: its latest packet
        self._streams = Ids()  # (life, sender)
        self._highest = Column(fill=-1)  # by stream: the highest rank taken
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        self._members.feed(rows)
        self._feed_publish(rows.of("publish"))
        for undone, part in pieces(rows.of("deliver", "lost", "undo")):
            (self._feed_undone if undone else self._feed_taken)(part)

    def finish(self) -> list[Violation]:
        return self.found.listed()

    def _feed_publish(self, rows: Rows) -> None:
        known = len(self._packets)
        number = self._packets.add(rows.sender, rows.seqno, rows.number)
        rows = rows.select(self._packets.first[number] == rows.number)
        sender = self._senders.add(rows.sender, np.zeros_like(rows.sender), rows.number)
        self._latest.grow(len(self._senders))
        order = order_by(sender)
        head = heads(sender[order])
        previous = np.where(head, self._latest.values[sender[order]], known + np.roll(order, 1))
        self._previous.grow(len(self._packets))
        self._previous.values[known + order] = previous
        self._latest.values[sender] = known + np.arange(len(rows))
        self._extend_rank(known + order, head, previous)
        before = self._previous.values[known:]
        falling = (before >= 0) & (self._packets.b[before] >= rows.seqno)
        text = "member {member} published packet ({sender}, {seqno}) after a higher number"
        self.found.add_rows(rows, falling, text, self._packets.first[before])

    def _extend_rank(self, packet: Ints, head: Mask, previous: Ints) -> None:
        """Set the ranks of new packets, given sender by sender: each is one more than the one before it."""
        self._rank.grow(len(self._packets))
        place = np.arange(len(packet))
        start = np.maximum.accumulate(np.where(head, place, 0))
        follows = previous[start]
        base = np.where(follows >= 0, self._rank.values[follows] + 1, 0)
        self._rank.values[packet] = base + place - start

    def _feed_taken(self, rows: Rows) -> None:
        packet, published = self._packets.find_before(rows.sender, rows.seqno, rows.number)
        rows, packet = rows.select(published), packet[published]
        who, life = self._members.who(rows.member, rows.number), self._lives(rows)
        stream = self._streams.add(life, rows.sender, rows.number)
        before = self._highest_before(stream, self._rank.values[packet])
        rank = self._rank.values[packet]
        text = "member {member} took packet ({sender}, {seqno}) out of order"
        self.found.add_rows(rows, rank <= before, text)
        gap = np.flatnonzero(rank > before + 1)
        self._check_gaps(rows.select(gap), packet[gap], who[gap], life[gap])

    def _feed_undone(self, rows: Rows) -> None:
        """What was undone is to be taken again, in its place."""
        packet, published = self._packets.find_before(rows.sender, rows.seqno, rows.number)
        rows, packet = rows.select(published), packet[published]
        stream = self._streams.add(self._lives(rows), rows.sender, rows.number)
        self._highest.grow(len(self._streams))
        np.minimum.at(self._highest.values, stream, self._rank.values[packet] - 1)

    def _lives(self, rows: Rows) -> Ints:
        who = self._members.who(rows.member, rows.number)
        life = self._members.life.at(who, rows.number)
        return np.where(life < 0, -1 - who, life)  # a member that never joined has a stream, too

    def _highest_before(self, stream: Ints, rank: Ints) -> Ints:
        """The highest rank that each row's stream had taken before that row; remembers the new ones."""
        self._highest.grow(len(self._streams))
        order = order_by(stream)
        head = heads(stream[order])
        seen = np.where(head, self._highest.values[stream[order]], np.roll(rank[order], 1))
        lift = np.cumsum(head) * (len(self._packets) + 1)  # keeps the running maximum within its stream
        before = np.empty_like(rank)
        before[order] = np.maximum.accumulate(seen + lift) - lift
        self._highest.values[stream[order]] = np.maximum(before, rank)[order]
        return before

    def _check_gaps(self, rows: Rows, packet: Ints, who: Ints, life: Ints) -> None:
        """Check that the last packet passed over is not owed; then those before it are not owed either."""
        members, skipped = self._members, self._previous.values[packet]
        seqno, published = self._packets.b[skipped], self._packets.first[skipped]
        joined = members.joined.at(who, rows.number)
        sender = members.who(rows.sender & MEMBER_MASK, rows.number)
        claim, began = members.claims(who, rows.sender, life, joined, rows.number)
        owed = members.owed_by_join(claim, rows.sender, seqno, published, began, rows.number)
        owed &= published > members.recovered.at(who, rows.number)
        owed &= published > members.crashed.at(sender, rows.number)
        text = "member {member} took packet ({sender}, {seqno}) and passed over one that it was owed"
        self.found.add_rows(rows, owed, text, published)
