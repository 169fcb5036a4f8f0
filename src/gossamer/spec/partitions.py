"""What coordinators promise of partitions (001 §4.1, §6): the same messages on a side, one crossing for each packet.

*Same messages*: if one member of a side has a packet, all of the side have it, even before the partition heals. This
is checked whenever a side that was stable for a while changes, and at the end: for `promises.settle_s`, and for as long
as members of it had been apart, since they get what was sent meanwhile at the pace at which it was sent, or faster.
What was delivered only just before does not count; nor do members that joined late, or lost their memory: they are owed
less.
Where there are loggers, what a sender had sent when it lost its memory does not count from then on: it says of all that
they lack that it was never sent, and is believed (000 §6.1, §6.2).

*One crossing*: after a heal, what one side missed crosses to it once for each packet, not once for each member. Copies
that cross are repairs by a member that was on the other side: to one member, or by multicast, if anybody on this side
receives it. There may be as many more as there were losses, which cause repetitions, and `SLACK` besides.

Memory: a few numbers for each member and sender while nothing is missing; for one crossing, an entry for each repair.
"""

from __future__ import annotations

from collections import Counter, deque

import numpy as np

from gossamer.core.ids import owner_of
from gossamer.core.ranges import RangeSet
from gossamer.spec.promises import Metadata, promised, settle_s
from gossamer.spec.report import Findings, Violation
from gossamer.spec.sides import CHANGES, Sides
from gossamer.trace.rows import Rows
from gossamer.trace.schema import CODE, KINDS

SLACK = 0.3
"""Of the packets that cross: how many may cross once more than they must, without a loss."""
_SLACK_COPIES = 20
_UNLIMITED = 1 << 62
Packets = dict[int, RangeSet]


class SameMessages:
    name = "same-messages"
    reference = "001 §4.1"

    def __init__(self, metadata: Metadata) -> None:
        self._patience_ns = round(settle_s(metadata) * 1e9)
        self._can_forget = "durable" in promised(metadata)
        self._forgotten: dict[int, int] = {}  # by sender: the last number that it had sent when it lost its memory
        self._sides = Sides()
        self._has: dict[int, Packets] = {}  # of members that are owed everything: delivered, or known to be lost
        self._recent: deque[tuple[int, int, int, int]] = deque()  # when, member, sender, number
        self._excused: set[int] = set()
        self._end = 0
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        if len(rows):
            self._end = int(rows.t_ns[-1])
        rows = rows.of("deliver", "lost", "coordinator", *CHANGES)
        for i in range(len(rows)):
            kind, t_ns, member = KINDS[rows.kind[i]], int(rows.t_ns[i]), int(rows.member[i])
            if kind in ("deliver", "lost"):
                sender, seqno = int(rows.sender[i]), int(rows.seqno[i])
                if seqno < 0:
                    continue  # no packet has such a number: that is another specification's business
                self._has.setdefault(member, {}).setdefault(sender, RangeSet()).add(seqno)
                self._recent.append((t_ns, member, sender, seqno))
                self._forget_old(t_ns)
                continue
            if kind == "coordinator":
                if rows.peer[i] == -1:
                    self._excused.add(member)  # it is on its way out
                continue
            for side in self._sides.about_to_change(rows, i):
                self._check(side, t_ns, int(rows.number[i]))
            if kind == "leave" or (kind == "join" and t_ns > 0) or rows.phases[rows.phase[i]] == "lost":
                self._excused.add(member)
            if kind == "crash" and rows.phases[rows.phase[i]] == "lost" and self._can_forget:
                self._forget(member)
            self._sides.change(rows, i)

    def _forget(self, member: int) -> None:
        for has in self._has.values():
            for sender in [sender for sender in has if owner_of(sender) == member]:
                self._forgotten[sender] = max(has[sender].last, self._forgotten.get(sender, -1))

    def finish(self) -> list[Violation]:
        for side in self._sides.names():
            self._check(side, self._end, -1)
        return self.found.listed()

    def _forget_old(self, t_ns: int) -> None:
        while self._recent and self._recent[0][0] < t_ns - self._patience_ns:
            self._recent.popleft()

    def _check(self, side: str, t_ns: int, row: int) -> None:
        if self._sides.since(side) + self._sides.apart(side) > t_ns - self._patience_ns:
            return
        self._forget_old(t_ns)
        members = [member for member in self._sides.members(side) if member not in self._excused]
        known: Packets = {}
        for member in members:
            for sender, numbers in self._old(member).items():
                known.setdefault(sender, RangeSet()).update(numbers)
        for member in members:
            for sender, numbers in known.items():
                numbers = RangeSet(numbers.within(self._forgotten.get(sender, -1) + 1, _UNLIMITED))
                lacking = numbers.difference(self._has.get(member, {}).get(sender, RangeSet()))
                if lacking and sender != member:
                    text = f"{len(lacking)} packets of {sender}, the first {lacking.first}"
                    self.found.add(f"member {member} lacks {text}, which others of its side have", max(row, 0))

    def _old(self, member: int) -> Packets:
        """What it has had for a while."""
        found = {sender: numbers.copy() for sender, numbers in self._has.get(member, {}).items()}
        for _, whose, sender, seqno in self._recent:
            if whose == member:
                found[sender].discard(seqno)
        return found


class OneCrossing:
    name = "one-crossing"
    reference = "001 §6"

    def __init__(self, metadata: Metadata) -> None:
        self._patience_ns = round(settle_s(metadata) * 1e9)
        self._sides = Sides()
        self._old: dict[int, str] = {}  # the sides before the last heal
        self._healed = (0, 0)  # when, and in which row
        self._sent: Counter[tuple[int, int, int, int]] = Counter()  # by transmitter, packet, to whom (-1 for several)
        self._crossed: set[tuple[int, str, int, int]] = set()  # transmitter, side that it reached, packet
        self._losses = 0
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        came = (rows.kind == CODE["receive"]) & (rows.phase_is("peer") | rows.phase_is("logger"))
        kinds = [CODE[kind] for kind in ("repair", "drop", *CHANGES)]
        rows = rows.select(np.isin(rows.kind, kinds) | came)
        for i in range(len(rows)):
            kind = KINDS[rows.kind[i]]
            if kind in CHANGES:
                self._change(rows, i)
            elif self._old:
                self._note(kind, rows, i)

    def finish(self) -> list[Violation]:
        self._judge()
        return self.found.listed()

    def _note(self, kind: str, rows: Rows, i: int) -> None:
        member, peer = int(rows.member[i]), int(rows.peer[i])
        packet = int(rows.sender[i]), int(rows.seqno[i])
        if kind == "drop":
            self._losses += 1
        elif kind == "repair":
            self._sent[(member, *packet, peer)] += 1
        elif self._was(peer) != self._was(member):
            self._crossed.add((peer, self._was(member), *packet))

    def _was(self, member: int) -> str:
        return self._old.get(member, self._sides.of(member))

    def _change(self, rows: Rows, i: int) -> None:
        sides = self._sides.about_to_change(rows, i)
        t_ns = int(rows.t_ns[i])
        if sides and t_ns != self._healed[0]:
            self._judge()
            stable = all(self._sides.since(side) <= t_ns - self._patience_ns for side in sides)
            heals = KINDS[rows.kind[i]] == "side" and stable and len(sides) == 2
            everybody = [m for side in self._sides.names() for m in self._sides.members(side)]
            self._old = {m: self._sides.of(m) for m in everybody} if heals else {}
            self._healed = t_ns, int(rows.number[i])
        self._sides.change(rows, i)

    def _judge(self) -> None:
        """Compare, for each side that was reached, the copies that crossed to it with the packets that did."""
        copies: Counter[str] = Counter()
        for transmitter, side, sender, seqno in self._crossed:
            copies[side] += self._sent[transmitter, sender, seqno, -1]
        for (transmitter, _, _, peer), count in self._sent.items():
            if peer >= 0 and self._was(peer) != self._was(transmitter):
                copies[self._was(peer)] += count
        packets = Counter([side for side, _, _ in {(side, s, n) for _, side, s, n in self._crossed}])
        for side, count in packets.items():
            allowed = (1 + SLACK) * count + self._losses + _SLACK_COPIES
            if copies[side] > allowed:
                text = f"{count} packets crossed to side {side} in {copies[side]} copies after the network healed"
                self.found.add(text, self._healed[1])
        self._old, self._losses = {}, 0
        self._sent.clear()
        self._crossed.clear()
