"""A few array tools that the checkers share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gossamer.trace.rows import Ints, Mask


class Column:
    """An int64 array that grows at its end in amortised constant time."""

    def __init__(self, fill: int = 0) -> None:
        self._fill = fill
        self._store = np.full(1024, fill, np.int64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> Ints:
        """The values, as a view that is valid until the column grows."""
        return self._store[: self._size]

    def grow(self, size: int) -> None:
        """Make the column at least `size` long; new places hold the fill value."""
        if size > len(self._store):
            store = np.full(max(size, 2 * len(self._store)), self._fill, np.int64)
            store[: self._size] = self.values
            self._store = store
        self._size = max(size, self._size)

    def extend(self, values: Ints) -> None:
        at = self._size
        self.grow(at + len(values))
        self._store[at : self._size] = values


def order_by(keys: Ints) -> Ints:
    """Positions that sort small non-negative keys; equal keys keep their order."""
    if len(keys) and keys.max() < 1 << 16:
        return np.argsort(keys.astype(np.uint16), kind="stable")  # numpy has a radix sort for 16 bits
    return np.argsort(keys, kind="stable")


def repeats(keys: Ints) -> Mask:
    """True where the same key appears somewhere before."""
    ordered = np.sort(keys)
    result = np.zeros(len(keys), np.bool_)
    if (ordered[1:] == ordered[:-1]).any():
        order = np.argsort(keys, kind="stable")
        result[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return result


def heads(ordered: Ints) -> Mask:
    """True where a new group begins in sorted keys."""
    result = np.ones(len(ordered), np.bool_)
    result[1:] = ordered[1:] != ordered[:-1]
    return result


def integers(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)
