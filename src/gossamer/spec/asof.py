"""Values that change at known rows: what was the value just before row n?

Checkers read batches, but order also matters within a batch. `AsOf` holds the value of every key before the
batch and the changes within it, so that a whole batch of questions is answered at once.
"""

from __future__ import annotations

import numpy as np

from gossamer.spec.arrays import Column
from gossamer.trace.rows import Ints


class AsOf:
    """One integer per key (a small index), `default` until it first changes."""

    def __init__(self, default: int) -> None:
        self._default = default
        self._before = Column(fill=default)
        self._first = 0
        self._keys = self._rows = self._values = np.zeros(0, np.int64)

    def change(self, keys: Ints, rows: Ints, values: Ints, first: int) -> None:
        """Record the changes of the batch that begins at row `first`, in row order; call it once for each batch."""
        self._fold()
        self._first = first
        order = np.argsort(keys, kind="stable")
        self._keys, self._rows, self._values = keys[order], rows[order], values[order]

    def at(self, keys: Ints, rows: Ints) -> Ints:
        """The values of these keys just before these rows of the current batch."""
        self._before.grow(int(keys.max()) + 1 if len(keys) else 0)
        values = self._before.values[keys]
        if not len(self._keys):
            return values
        place = np.searchsorted(self._moments(self._keys, self._rows), self._moments(keys, rows)) - 1
        changed = (place >= 0) & (self._keys[place] == keys)
        return np.where(changed, self._values[place], values)

    def last(self, keys: Ints) -> Ints:
        """The values of these keys after everything fed so far."""
        self._fold()
        self._before.grow(int(keys.max()) + 1 if len(keys) else 0)
        return self._before.values[keys]

    def _fold(self) -> None:
        if len(self._keys):
            self._before.grow(int(self._keys.max()) + 1)
            self._before.values[self._keys] = self._values  # the last of equal keys wins
            self._keys = self._rows = self._values = self._keys[:0]

    def _moments(self, keys: Ints, rows: Ints) -> Ints:
        return (keys << 32) + (rows - self._first)
