"""A byte for every (packet, column): which member or place had which packet.

The matrix grows in both directions by doubling. Fresh memory that is never touched costs nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gossamer.trace.rows import Ints
from gossamer.trace.schema import TraceError

CELLS_MAX = 1 << 32


class Marks:
    """Bytes by packet id and column, initially 0."""

    def __init__(self) -> None:
        self.matrix: NDArray[np.uint8] = np.zeros((1024, 16), np.uint8)

    def grow(self, packets: int, columns: int) -> None:
        """Make room for this many packets and columns."""
        rows, width = self.matrix.shape
        rows = rows if packets <= rows else max(packets, 2 * rows)
        width = width if columns <= width else max(columns, 2 * width)
        if (rows, width) == self.matrix.shape:
            return
        try:
            if packets * columns > CELLS_MAX:
                raise MemoryError
            matrix = np.zeros((rows, width), np.uint8)
        except MemoryError as error:
            raise TraceError(f"{packets} packets at {columns} members are too many to check at once") from error
        matrix[: self.matrix.shape[0], : self.matrix.shape[1]] = self.matrix
        self.matrix = matrix

    def cells(self, packets: Ints, columns: Ints) -> Ints:
        """The positions of these bytes in `flat`, valid until it grows."""
        cells: Ints = packets * self.matrix.shape[1] + columns
        return cells

    @property
    def flat(self) -> NDArray[np.uint8]:
        return self.matrix.reshape(-1)
