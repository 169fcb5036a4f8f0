"""One view: some time after the last change, members that reach each other agree on who is in the group.

At the end of a trace, two members that are up, on the same side of the network, and have been so for a while must hold
each other as members. Of a member that is not there, or not in reach, all of them hold the same: to have never heard of
it is to know that it has left. A status that changed a short while ago does not count, for others may not have heard of
it yet; a trace that ends soon after its last fault proves nothing. `promises.heal_s` is how long "a while" is. Memory:
a little for each pair of members.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gossamer.spec.arrays import Column, integers
from gossamer.spec.ids import Ids
from gossamer.spec.promises import Metadata, heal_s
from gossamer.spec.report import Findings, Violation
from gossamer.trace.rows import Ints, Mask, Rows
from gossamer.trace.schema import CODE

_STATUSES = ("left", "member", "disconnected", "joining")
_LEFT, _MEMBER = 0, 1
_UP, _GONE = 1, 0
_CHANGES = ("join", "leave", "crash", "recover", "side")
_BLOCK_CELLS = 1 << 22


class OneView:
    name = "one-view"
    reference = "000 §5.3"

    def __init__(self, metadata: Metadata) -> None:
        self._patience_ns = round(heal_s(metadata) * 1e9)
        self._members = Ids()
        self._up = Column(fill=_GONE)
        self._founding = Column()  # whether it is a member from the start, and so knew the others that were
        self._changed = Column(fill=0)  # when it came, went, or moved to another side
        self._erased = Column(fill=-1)  # the row in which it last lost its memory, or left
        self._side = Column()
        self._sides: dict[str, int] = {"0": 0}
        self._pairs = Ids()  # (member, peer)
        self._status = Column()
        self._since = Column()  # when the status was noted
        self._row = Column()  # and in which row
        self._end = 0
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        if len(rows):
            self._end = int(rows.t_ns[-1])
        self._feed_changes(rows.of(*_CHANGES))
        self._feed_views(rows.of("view"))

    def finish(self) -> list[Violation]:
        count = len(self._members)
        up = np.flatnonzero((self._up.values == _UP) & (self._side.values >= 0) & self._is_old(self._changed.values))
        for side in np.unique(self._side.values[up]):
            watchers = up[self._side.values[up] == side]
            step = max(1, _BLOCK_CELLS // len(watchers))
            for at in range(0, count, step):
                self._compare(watchers, np.arange(at, min(at + step, count)))
        return self.found.listed()

    def _is_old(self, t_ns: Ints) -> Mask:
        old: Mask = t_ns + self._patience_ns < self._end
        return old

    def _who(self, members: Ints, numbers: Ints) -> Ints:
        who = self._members.add(members, np.zeros_like(members), numbers)
        for column in (self._up, self._founding, self._changed, self._erased, self._side):
            column.grow(len(self._members))
        return who

    def _feed_changes(self, rows: Rows) -> None:
        rows = rows.select((rows.kind != CODE["join"]) | (rows.sender == -1))
        who = self._who(rows.member, rows.number)
        self._changed.values[who] = rows.t_ns
        side = rows.kind == CODE["side"]
        sides = integers([self._number(name) for name in rows.phases])
        self._side.values[who[side]] = sides[rows.phase[side]]
        gone = (rows.kind == CODE["leave"]) | (rows.kind == CODE["crash"])
        self._up.values[who[~side]] = np.where(gone, _GONE, _UP)[~side]
        founding = (rows.kind == CODE["join"]) & (rows.t_ns == 0)
        self._founding.values[who[founding]] = 1
        forgets = (rows.kind == CODE["leave"]) | ((rows.kind == CODE["crash"]) & rows.phase_is("lost"))
        self._erased.values[who[forgets]] = rows.number[forgets]

    def _number(self, side: str) -> int:
        """The number of a side; -1 for none."""
        return self._sides.setdefault(side, len(self._sides)) if side else -1

    def _feed_views(self, rows: Rows) -> None:
        pair = self._pairs.add(self._who(rows.member, rows.number), self._who(rows.peer, rows.number), rows.number)
        for column in (self._status, self._since, self._row):
            column.grow(len(self._pairs))
        codes = integers([_STATUSES.index(name) if name in _STATUSES else _LEFT for name in rows.phases])
        self._status.values[pair] = codes[rows.phase]
        self._since.values[pair] = rows.t_ns
        self._row.values[pair] = rows.number

    def _compare(self, watchers: Ints, peers: Ints) -> None:
        """Compare what members of one side hold of some peers."""
        status, since, row = self._held(watchers, peers)
        settled = self._is_old(since) & (watchers[:, None] != peers)
        there = np.isin(peers, watchers)
        for i, j in self.found.kept(np.argwhere(settled & there & (status != _MEMBER))):
            self._add(self._says(watchers[i], peers[j], status[i, j]) + ", though it is there", peers[j], row[i, j])
        settled &= ~there & self._is_old(self._changed.values[peers])
        known = np.where(settled, status, len(_STATUSES))
        other = known.argmin(axis=0)
        for i, j in self.found.kept(np.argwhere(settled & (status != known.min(axis=0)))):
            text = self._says(watchers[i], peers[j], status[i, j])
            text += f", member {self._members.a[watchers[other[j]]]} as {_STATUSES[known[other[j], j]]}"
            self._add(text, peers[j], row[other[j], j], row[i, j])

    def _says(self, watcher: int, peer: int, status: int) -> str:
        member, its = self._members.a[watcher], self._members.a[peer]
        return f"at the end member {member} holds member {its} as {_STATUSES[status]}"

    def _add(self, text: str, peer: int, *rows: int) -> None:
        """Add a violation with the rows that show it; without any, with the first that names the peer."""
        shown = sorted(row for row in rows if row >= 0)
        self.found.add(text, *(shown or [self._members.first[peer]]))

    def _held(self, watchers: Ints, peers: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """What each of the watchers holds of each of the peers, since when, and the row that says so."""
        one, other = (a.ravel() for a in np.broadcast_arrays(watchers[:, None], peers))
        pair = self._pairs.find(one, other)
        told = pair >= 0
        told[told] = self._row.values[pair[told]] > self._erased.values[one[told]]
        founders = (self._founding.values[one] > 0) & (self._founding.values[other] > 0)
        founders &= self._erased.values[one] < 0
        status = np.where(founders, _MEMBER, _LEFT)
        since, row = self._changed.values[one], np.full(len(one), -1)
        for column, held in ((self._status, status), (self._since, since), (self._row, row)):
            held[told] = column.values[pair[told]]
        shape = (len(watchers), len(peers))
        return status.reshape(shape), since.reshape(shape), row.reshape(shape)
