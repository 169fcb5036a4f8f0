"""Deliveries that were undone (002 §5.2.1): what checkers see of them as if they had not been.

A row `undo` takes back the delivery, or the loss, of a packet at a member. They are few, so that a batch is cut at
them, and what is between them is checked as fast as ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from gossamer.trace.rows import Rows
from gossamer.trace.schema import CODE


def pieces(rows: Rows) -> Iterator[tuple[bool, Rows]]:
    """The rows in order, in parts; whether the rows of a part undo something, which all do or none."""
    undo = rows.kind == CODE["undo"]
    if not undo.any():
        yield False, rows
        return
    cuts = [0, *(np.flatnonzero(undo[1:] != undo[:-1]) + 1), len(rows)]
    for start, end in pairwise(map(int, cuts)):
        yield bool(undo[start]), rows.select(slice(start, end))
