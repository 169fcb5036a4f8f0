"""Rows on their way: taken one by one, handed on in groups.

Rows wait as one flat Python list, eight values each. Flat, because `list.extend(tuple)` keeps no tuple alive:
a list of tuples takes three times as long to fill, most of it in the garbage collector. Strided slices cut a
group into columns, and `struct.pack`, the fastest way that Python has, turns them into machine integers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

from gossamer.trace.schema import CODE, COLUMNS, Row, TraceError

GROUP_ROWS = 65_536
_WIDTH = 8
_GROUP_VALUES = GROUP_ROWS * _WIDTH
_FORMAT = {"int64": "q", "int32": "i", "string": "i"}
_GIVEN = [name for name in COLUMNS if name != "run"]

Values = list[int | str]
"""Rows laid end to end."""


class RowBuffer:
    """Takes rows and hands them to `_take`, `GROUP_ROWS` at a time.

    `row` and `many` are the plain ways. Where every nanosecond counts, bind `append` to a local name, give it
    whole `schema.Row` tuples, and call `spill` now and then (once per simulated event, say): `append` alone
    hands nothing on, so the rows it took pile up until the next `spill`, `row` or `many`.
    """

    append: Callable[[Row], None]

    def __init__(self) -> None:
        self._values: Values = []
        self.append = self._values.extend

    def row(self, t_ns: int, member: int, kind: str, sender: int, seqno: int, peer: int, size: int, phase: str) -> None:
        """Takes one row; columns that do not apply are -1 or ""."""
        values = self._values
        values.extend((t_ns, member, kind, sender, seqno, peer, size, phase))
        if len(values) >= _GROUP_VALUES:
            self.spill()

    def many(
        self,
        t_ns: int,
        members: Sequence[int],
        kind: str,
        sender: int,
        seqno: int,
        peer: int,
        size: int,
        phase: str,
    ) -> None:
        """Takes one row for each of `members`, alike in everything else."""
        rows: Values = [t_ns, -1, kind, sender, seqno, peer, size, phase] * len(members)
        rows[1::_WIDTH] = members
        self._values.extend(rows)
        if len(self._values) >= _GROUP_VALUES:
            self.spill()

    def spill(self) -> None:
        """Hands on the full groups among the rows that wait; cheap if there is none."""
        while len(self._values) >= _GROUP_VALUES:
            self._take(self._values[:_GROUP_VALUES])
            del self._values[:_GROUP_VALUES]

    def _spill_rest(self) -> None:
        self.spill()
        if self._values:
            self._take(self._values)
            self._values.clear()

    def _take(self, values: Values) -> None:
        raise NotImplementedError


class Codes(dict[str, int]):
    """Codes of the names looked up so far, in order of appearance."""

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, len(self))


def pack(values: Values, phases: Codes) -> dict[str, bytes]:
    """The columns of rows as machine integers; kinds and phases as codes of 32 bits."""
    count = len(values) // _WIDTH
    codes: Mapping[str, dict[str, int]] = {"kind": CODE, "phase": phases}
    packed = {}
    try:
        for at, name in enumerate(_GIVEN):
            column: Iterable[int | str] = values[at::_WIDTH]
            if name in codes:
                column = map(codes[name].__getitem__, column)  # type: ignore[arg-type]
            packed[name] = struct.pack(f"={count}{_FORMAT[COLUMNS[name]]}", *column)
    except (KeyError, TypeError, struct.error) as error:
        raise TraceError(_fault(values) or str(error)) from error
    return packed


def _fault(values: Values) -> str:
    """What is wrong with the first bad row; "" if nothing is."""
    for at in range(0, len(values), _WIDTH):
        row = values[at : at + _WIDTH]
        if len(row) < _WIDTH:
            return f"the row {row} has not {_WIDTH} values"
        if row[2] not in list(CODE):
            return f"unknown kind {row[2]!r} in the row {row}; known are {', '.join(CODE)}"
        if not all(isinstance(row[i], int) for i in (0, 1, 3, 4, 5, 6)):
            return f"the row {row} holds something else than a number where a number belongs"
    return ""
