"""Dense numbers for pairs of arbitrary integers.

A hash table of numpy arrays with linear probing: whole batches are looked up and added at once, so a row
costs tens of nanoseconds. It is exact: keys are compared, the hash only says where to start looking.
"""

from __future__ import annotations

import numpy as np

from gossamer.spec.arrays import Column, heads
from gossamer.trace.rows import Ints, Mask

_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93], np.uint64)
_FREE = -1


class Ids:
    """Numbers pairs (a, b) 0, 1, 2, ... in the order of their first row, and remembers that row."""

    def __init__(self) -> None:
        self._a, self._b, self._first = Column(), Column(), Column()
        self._slots = np.full(1024, _FREE, np.int32)

    def __len__(self) -> int:
        return len(self._a)

    @property
    def a(self) -> Ints:
        return self._a.values

    @property
    def b(self) -> Ints:
        return self._b.values

    @property
    def first(self) -> Ints:
        """By id: the number of the row in which the pair first appeared."""
        return self._first.values

    def find(self, a: Ints, b: Ints) -> Ints:
        """The ids of these pairs; -1 for those never added."""
        found = np.full(len(a), _FREE, np.int64)
        if not len(self) or not len(a):
            return found
        slot = self._home(a, b)
        todo = np.arange(len(a))
        while len(todo):
            seen = self._slots[slot[todo]]
            done = seen == _FREE
            done |= (self.a[seen] == a[todo]) & (self.b[seen] == b[todo])
            found[todo] = seen
            todo = todo[~done]
            slot[todo] = (slot[todo] + 1) & (len(self._slots) - 1)
        return found

    def find_before(self, a: Ints, b: Ints, numbers: Ints) -> tuple[Ints, Mask]:
        """The ids of these pairs, and whether each was added by an earlier row than the given one."""
        found = self.find(a, b)
        if not len(self):
            return found, np.zeros(len(a), np.bool_)
        return found, (found >= 0) & (self.first[found] < numbers)

    def add(self, a: Ints, b: Ints, numbers: Ints) -> Ints:
        """The ids of these pairs, adding those not yet known; `numbers` are their rows, ascending."""
        found = self.find(a, b)
        new = np.flatnonzero(found < 0)
        if len(new):
            once = _distinct(a, b, new)
            self._extend(a[once], b[once], numbers[once])
            found[new] = self.find(a[new], b[new])
        return found

    def _extend(self, a: Ints, b: Ints, numbers: Ints) -> None:
        old = len(self)
        self._a.extend(a)
        self._b.extend(b)
        self._first.extend(numbers)
        if 2 * len(self) > len(self._slots):
            self._slots = np.full(1 << (4 * len(self) - 1).bit_length(), _FREE, np.int32)
            old = 0
        self._place(np.arange(old, len(self), dtype=np.int64))

    def _place(self, ids: Ints) -> None:
        """Put ids into the first free slot from their home on; if two want the same slot, one moves on."""
        slot = self._home(self.a[ids], self.b[ids])
        while len(ids):
            free = self._slots[slot] == _FREE
            self._slots[slot[free]] = ids[free]
            left = self._slots[slot] != ids
            ids, slot = ids[left], (slot[left] + 1) & (len(self._slots) - 1)

    def _home(self, a: Ints, b: Ints) -> Ints:
        mixed = a.astype(np.uint64) * _MIX[0] + b.astype(np.uint64) * _MIX[1]
        mixed ^= mixed >> np.uint64(32)
        mixed *= _MIX[2]
        bits = len(self._slots).bit_length() - 1
        home: Ints = (mixed >> np.uint64(64 - bits)).astype(np.int64)
        return home


def _distinct(a: Ints, b: Ints, positions: Ints) -> Ints:
    """The first of these positions for every distinct pair, in order."""
    order = positions[np.lexsort((b[positions], a[positions]))]
    once: Ints = np.sort(order[heads(a[order]) | heads(b[order])])
    return once
