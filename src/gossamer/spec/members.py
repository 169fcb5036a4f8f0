"""When each member belonged to the group, and what it is owed.

A member's **life** begins with its plain join row and, where recovery is at-least-once, again with every
crash that loses its memory: within a life nothing is delivered twice, and in ascending order. A packet is owed to
a member that joined before it was published or whose t_join vector says so (000 §5.3), is still a member at the
end, and has no crash as an excuse (000 §6.1). In channels other than 0, to listen is to join: what a member is owed
there begins with its `channel` row, and ends with the next.
"""

from __future__ import annotations

import numpy as np

from gossamer.core.ids import MEMBER_BITS
from gossamer.spec.arrays import Column
from gossamer.spec.asof import AsOf
from gossamer.spec.ids import Ids
from gossamer.trace.rows import Ints, Mask, Rows
from gossamer.trace.schema import CODE

UP, LEFT, DOWN = 0, 1, 2
_END = np.iinfo(np.int64).max
_FIRST_TIME = -(1 << 40)
_NO_CLAIM = -1
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
        self._listens = Ids()  # (member, channel)
        self._since = AsOf(-1)  # by these: the row in which the member began to listen, -1 if it does not

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
        self._feed_channels(rows.of("channel"), first)
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
        life, _ = self.claims(who, rows.sender, self.life.at(who, rows.number), rows.number, rows.number)
        rows, life = rows.select(life != _NO_CLAIM), life[life != _NO_CLAIM]
        known = len(self._vector)
        ids = self._vector.add(life, rows.sender, rows.number)
        fresh, at = np.unique(ids, return_index=True)
        self._t_join.extend(rows.seqno[at[fresh >= known]])

    def _feed_channels(self, rows: Rows, first: int) -> None:
        who = self.who(rows.member, rows.number)
        pair = self._listens.add(who, rows.seqno, rows.number)
        self._since.change(pair, rows.number, np.where(rows.phase_is("on"), rows.number, -1), first)

    def has_channels(self) -> bool:
        """Whether anybody has ever listened to any channel but 0."""
        return len(self._listens) > 0

    def claims(self, who: Ints, stream: Ints, life: Ints, joined: Ints, rows: Ints | None = None) -> tuple[Ints, Ints]:
        """What the claims of members on packets of streams go back to, at these rows or, without any, at the end.

        That is a life, and the row in which it began, or in a channel other than 0 a time of listening: then its number
        is negative. Members that do not listen have no claim, and it begins at the end of all times.
        """
        channel = stream >> MEMBER_BITS
        if not self.has_channels() and not channel.any():
            return life, joined
        pair = self._listens.find(who, channel)
        known = np.flatnonzero(pair >= 0)
        since = np.full_like(pair, -1)
        since[known] = self._since.last(pair[known]) if rows is None else self._since.at(pair[known], rows[known])
        listens = np.where(since >= 0, _FIRST_TIME - since, _NO_CLAIM)
        began = np.where(since >= 0, since, _END)
        return np.where(channel > 0, listens, life), np.where(channel > 0, began, joined)

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
