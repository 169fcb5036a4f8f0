"""Virtual synchrony (004 §3, Fig. 2): agreement on views, and on what is delivered in each.

All members that install the view with a number install the same, and are in it; a member installs views one after the
other. A packet is delivered in the view in which it was sent. Members that go from one view to the next together have
delivered the same packets in it; of a member that crashes, is excluded or leaves, nothing is known. What members have
delivered in their last view is not compared: they may still be about to.

A member's stay in a view is an episode. Memory: a little for each packet and each episode.
"""

from __future__ import annotations

import numpy as np

from gossamer.spec.arrays import Column, integers
from gossamer.spec.asof import AsOf
from gossamer.spec.ids import Ids
from gossamer.spec.promises import Metadata
from gossamer.spec.report import Findings, Violation
from gossamer.trace.rows import Ints, Rows
from gossamer.trace.schema import CODE

_NONE = -1


class VirtualSynchrony:
    name = "virtual-synchrony"
    reference = "004 §3, Fig. 2"

    def __init__(self, metadata: Metadata) -> None:
        self._members = Ids()
        self._now = AsOf(_NONE)  # by member: its episode
        self._stays: dict[int, int] = {}  # the same, after all that was read
        self._views: dict[
            int, tuple[str, int, int]
        ] = {}  # by number: its members, who installed it first, in which row
        self._member, self._view, self._row = Column(), Column(), Column()  # by episode
        self._after = Column(fill=_NONE)  # by episode: the view into which the member went from there
        self._count, self._sum = Column(), Column()  # by episode: how many packets were delivered, and their hash
        self._packets = Ids()
        self._sent_in = Column(fill=_NONE)
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        self._feed_episodes(rows.of("install", "crash", "leave"), rows.first)
        self._feed_publish(rows.of("publish"))
        self._feed_deliver(rows.of("deliver"))

    def finish(self) -> list[Violation]:
        first: dict[tuple[int, int], int] = {}
        for episode in np.flatnonzero(self._after.values != _NONE).tolist():
            other = first.setdefault((self._view.values[episode], self._after.values[episode]), episode)
            if self._has(episode) != self._has(other):
                self._differ(other, episode)
        return self.found.listed()

    def _has(self, episode: int) -> tuple[int, int]:
        return int(self._count.values[episode]), int(self._sum.values[episode])

    def _differ(self, one: int, other: int) -> None:
        a, b = (f"member {self._member.values[e]} delivered {self._count.values[e]} packets" for e in (one, other))
        text = f"of view {self._view.values[one]} {a} and {b}, not the same, before both went on to the next"
        self.found.add(text, *sorted((self._row.values[one], self._row.values[other])))

    def _feed_episodes(self, rows: Rows, first: int) -> None:
        """Few rows: each is looked at."""
        changed, values = [], []
        for i in range(len(rows)):
            is_install = rows.kind[i] == CODE["install"]
            if is_install or rows.kind[i] == CODE["leave"] or rows.phases[rows.phase[i]] == "lost":
                changed.append(i)
                values.append(self._installed(rows, i) if is_install else _NONE)
                self._stays[int(rows.member[i])] = values[-1]
        rows = rows.select(integers(changed))
        self._now.change(self._who(rows.member, rows.number), rows.number, integers(values), first)

    def _installed(self, rows: Rows, i: int) -> int:
        """A member begins an episode; returns its number."""
        member, number, row = int(rows.member[i]), int(rows.seqno[i]), int(rows.number[i])
        members = rows.phases[rows.phase[i]]
        before = self._stays.get(member, _NONE)
        same, who, earlier = self._views.setdefault(number, (members, member, row))
        if same != members:
            text = f"member {member} installed view {number} as {{{members}}}, member {who} as {{{same}}}"
            self.found.add(text, earlier, row)
        if str(member) not in members.split():
            self.found.add(f"member {member} installed view {number}, in which it is not", row)
        if before != _NONE:
            self._after.values[before] = number
            last = int(self._view.values[before])
            if number != last + 1:
                self.found.add(f"member {member} went from view {last} to view {number}", self._row.values[before], row)
        for column, value in ((self._member, member), (self._view, number), (self._row, row)):
            column.extend(integers([value]))
        for column in (self._after, self._count, self._sum):
            column.grow(len(self._view))
        return len(self._view) - 1

    def _who(self, members: Ints, numbers: Ints) -> Ints:
        return self._members.add(members, np.zeros_like(members), numbers)

    def _views_of(self, episode: Ints) -> Ints:
        views: Ints = np.where(episode == _NONE, _NONE, np.append(self._view.values, _NONE)[episode])
        return views

    def _feed_publish(self, rows: Rows) -> None:
        known = len(self._packets)
        packet = self._packets.add(rows.sender, rows.seqno, rows.number)
        self._sent_in.grow(len(self._packets))
        new = packet >= known
        episode = self._now.at(self._who(rows.member, rows.number), rows.number)
        self._sent_in.values[packet[new]] = self._views_of(episode)[new]

    def _feed_deliver(self, rows: Rows) -> None:
        packet, published = self._packets.find_before(rows.sender, rows.seqno, rows.number)
        rows, packet = rows.select(published), packet[published]  # what nobody published is not checked here
        episode = self._now.at(self._who(rows.member, rows.number), rows.number)
        sent, view = self._sent_in.values[packet], self._views_of(episode)
        self.found.add_rows(
            rows,
            sent != view,
            "member {member} delivered packet ({sender}, {seqno}) in another view than the one in which it was sent",
            self._packets.first[packet],
        )
        inside = episode != _NONE
        np.add.at(self._count.values, episode[inside], 1)
        np.add.at(self._sum.values, episode[inside], _mixed(packet[inside]))


def _mixed(numbers: Ints) -> Ints:
    """A hash of each: the sum of the hashes stands for the set."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    result: Ints = (mixed ^ (mixed >> np.uint64(31))).view(np.int64)
    return result
