"""Where a batch ends that may have so many rows, as Kafka's `maxOffsetsPerTrigger` has it.

A stream's position is a packet, so that the same offsets always give the same rows; a batch ends between packets. It
has at most as many rows as allowed, unless a single packet has more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gossamer.pipeline.positions import Positions

RowsOf = Callable[[int, int, int], Iterator[tuple[int, int]]]
"""The packets of a sender from one number up to but not including another: the number of each, and its rows."""


class _Cursor:
    """One sender's packets, taken one by one."""

    def __init__(self, first: int, end: int, packets: Iterator[tuple[int, int]]) -> None:
        self.at = first
        self.backlog = end - first
        self._end = end
        self._packets = packets
        self._next = next(packets, None)
        if self._next is None:
            self.at = end  # there is nothing but gaps

    def take(self, room: int, *, most: int | None = None) -> int:
        """Take at most `most` packets that fit into `room` rows; returns how many rows they have."""
        taken = 0
        while self._next is not None and most != 0 and taken + self._next[1] <= room:
            taken += self._step()
            most = None if most is None else most - 1
        return taken

    def _step(self) -> int:
        assert self._next is not None
        number, rows = self._next
        self._next = next(self._packets, None)
        self.at = self._end if self._next is None else number + 1
        return rows

    def force(self) -> None:
        """Take one packet, whatever its rows."""
        if self._next is not None:
            self._step()


def limited(start: Positions, end: Positions, most: int, rows_of: RowsOf) -> Positions:
    """An end at most `most` rows after `start`: a packet of each sender, if it fits, the rest by backlog.

    The smallest backlogs come first, so that no sender waits for ever. If no packet fits, the largest backlog gets one.
    """
    cursors = {sender: _Cursor(start[sender], at, rows_of(sender, start[sender], at)) for sender, at in end.items()}
    by_backlog = sorted(cursors, key=lambda sender: (cursors[sender].backlog, sender))
    room = most
    for sender in by_backlog:
        room -= cursors[sender].take(room, most=1)
    waiting = sum(cursor.backlog for cursor in cursors.values())
    for sender in by_backlog:  # what one leaves of its share, the next ones get
        cursor = cursors[sender]
        share = room * cursor.backlog // waiting if waiting else 0
        waiting -= cursor.backlog
        room -= cursor.take(share)
    if all(cursors[sender].at == start[sender] for sender in cursors):
        cursors[by_backlog[-1]].force()
    return {sender: cursor.at for sender, cursor in cursors.items()}
