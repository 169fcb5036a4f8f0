"""When each member belonged to the group, and what it is owed.

A member's **life** begins with its plain join row and, where recovery is at-least-once, again with every
crash that loses its memory: within a life nothing is delivered twice, and in ascending order. A packet is owed to
a member that joined before it was published or whose t_join vector says so (000 §5.3), is still a member at the
end, and has no crash as an excuse (000 §6.1).
"""

from __future__ import annotations

import numpy as np

from gossamer.spec.arrays import Column
from gossamer.spec.asof import AsOf
from gossamer.spec.ids import Ids
from gossamer.trace.rows import Ints, Mask, Rows
from gossamer.trace.schema import CODE

UP, LEFT, DOWN = 0, 1, 2
_END = np.iinfo(np.int64).max
_STATUS = np.zeros(len(CODE), np.int64)
_STATUS[[CODE["leave"], CODE["crash"]]] = LEFT, DOWN


class Members:
    """Reads join, leave, crash and recover rows; answers questions about any row of the latest batch."""

    def __init__(self, at_least_once: bool = False) -> None:
        self._at_least_once = at_least_once
        self._ids = Ids()
        self._vector = Ids()
        self._t_join = Column()
        self.lives = 0
        self.status = AsOf(UP)
        self.life = AsOf(-1)
        self.joined = AsOf(-1)
        self.crashed = AsOf(-1)
        self.recovered = AsOf(-1)

    def who(self, members: Ints, numbers: Ints) -> Ints:
        """Small indices of members (or senders), the keys of `status`, `life` and the others."""
        return self._ids.add(members, np.zeros_like(members), numbers)

    def name(self, who: Ints) -> Ints:
        """The members with these indices."""
        return self._ids.a[who]

    def everyone(self) -> Ints:
        return np.arange(len(self._ids), dtype=np.int64)

    def feed(self, rows: Rows) -> None:
        first = rows.first
        rows = rows.of("join", "leave", "crash", "recover")
        who = self.who(rows.member, rows.number)
        vector = (rows.kind == CODE["join"]) & ((rows.sender != -1) | (rows.seqno != -1))
        join, crash, recover = ((rows.kind == CODE[kind]) & ~vector for kind in ("join", "crash", "recover"))
        born = join | (crash & rows.phase_is("lost")) if self._at_least_once else join
        births = np.arange(self.lives, self.lives + np.count_nonzero(born), dtype=np.int64)
        self.lives += len(births)
        self.status.change(who[~vector], rows.number[~vector], _STATUS[rows.kind[~vector]], first)
        self.life.change(who[born], rows.number[born], births, first)
        for mask, when in ((join, self.joined), (crash, self.crashed), (recover, self.recovered)):
            when.change(who[mask], rows.number[mask], rows.number[mask], first)
        self._feed_vector(rows.select(vector), who[vector])

    def _feed_vector(self, rows: Rows, who: Ints) -> None:
        life = self.life.at(who, rows.number)
        rows, life = rows.select(life >= 0), life[life >= 0]
        known = len(self._vector)
        ids = self._vector.add(life, rows.sender, rows.number)
        fresh, at = np.unique(ids, return_index=True)
        self._t_join.extend(rows.seqno[at[fresh >= known]])

    def has_vector(self, life: Ints) -> Mask:
        """Which of these lives began with a t_join vector."""
        return np.isin(life, self._vector.a)

    def owed_by_join(
        self, life: Ints, sender: Ints, seqno: Ints, published: Ints, joined: Ints, asked: Ints | int = _END
    ) -> Mask:
        """Whether lives that began at the join rows `joined` are owed packets, by what was known at rows `asked`."""
        vector, before = self._vector.find_before(*np.broadcast_arrays(life, sender, asked))
        owed: Mask = published > joined
        known = np.flatnonzero(before)
        owed[known] = seqno[known] > self._t_join.values[vector[known]]
        return owed
