"""A buffer for rows: taken one by one, passed on in groups.

Rows wait in one flat Python list, eight values each. It is flat because `list.extend(tuple)` keeps no tuple alive:
a list of tuples takes three times as long to fill, most of it in the garbage collector. Strided slices cut a
group into columns, and `struct.pack`, the fastest way that Python has, turns them into machine integers.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence

from gossamer.trace.schema import CODE, COLUMNS, Row, TraceError

GROUP_ROWS = 65_536
_WIDTH = 8
_GROUP_VALUES = GROUP_ROWS * _WIDTH
_FORMAT = {"int64": "q", "int32": "i", "string": "i"}
_GIVEN = [name for name in COLUMNS if name != "run"]

_MANY = 8
"""From this many equal rows on, `many` is cheaper than single rows."""

Values = list[int | str]
"""The values of rows, laid end to end."""

Chunk = Values | tuple[Row, "array[int]"]
"""The values of rows, laid end to end; or one row, and the members for which it is the same."""


class RowBuffer:
    """Takes rows and passes them to `_take`, about `GROUP_ROWS` at a time.

    `row` and `many` are the simple interface. Where every nanosecond counts, bind `append` to a local name, give
    it whole `schema.Row` tuples, and call `spill` now and then (say, once per simulated event): `append` alone
    passes nothing on, so its rows pile up until the next `spill`, `row` or `many`.
    """

    append: Callable[[Row], None]

    def __init__(self) -> None:
        self._values: Values = []
        self.append = self._values.extend
        self._chunks: list[Chunk] = []  # what came before the values
        self._chunk_rows = 0

    def row(self, t_ns: int, member: int, kind: str, sender: int, seqno: int, peer: int, size: int, phase: str) -> None:
        """Take one row; columns that do not apply are -1 or ""."""
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
        """Take one row for each of `members`, equal in everything else; far cheaper than many calls of `row`."""
        if len(members) < _MANY:
            for member in members:
                self._values.extend((t_ns, member, kind, sender, seqno, peer, size, phase))
        else:
            self._close_values()
            self._chunks.append(((t_ns, -1, kind, sender, seqno, peer, size, phase), array("q", members)))
            self._chunk_rows += len(members)
        if self._chunk_rows * _WIDTH + len(self._values) >= _GROUP_VALUES:
            self.spill()

    def spill(self) -> None:
        """Pass on the waiting rows if they are enough for a group; cheap if they are not."""
        if self._chunk_rows * _WIDTH + len(self._values) >= _GROUP_VALUES:
            self._spill_rest()

    def _spill_rest(self) -> None:
        self._close_values()
        if self._chunks:
            chunks, self._chunks, self._chunk_rows = self._chunks, [], 0
            self._take(chunks)

    def _close_values(self) -> None:
        if self._values:
            self._chunks.append(self._values.copy())
            self._chunk_rows += len(self._values) // _WIDTH
            self._values.clear()  # keep the same list: `append` is bound to it

    def _take(self, chunks: list[Chunk]) -> None:
        raise NotImplementedError


class Codes(dict[str, int]):
    """The codes of the names looked up so far, in order of appearance."""

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, len(self))


def pack(chunks: Iterable[Chunk], phases: Codes) -> dict[str, bytes]:
    """Pack the columns of rows as machine integers; kinds and phases as codes of 32 bits."""
    packed = [_pack_many(*c, phases) if isinstance(c, tuple) else _pack_values(c, phases) for c in chunks]
    return {name: b"".join(columns[name] for columns in packed) for name in _GIVEN}


def _pack_many(row: Row, members: array[int], phases: Codes) -> dict[str, bytes]:
    """Pack one row, repeated for each of the members."""
    columns = {name: value * len(members) for name, value in _pack_values(list(row), phases).items()}
    return columns | {"member": members.tobytes()}


def _pack_values(values: Values, phases: Codes) -> dict[str, bytes]:
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
            return f"the row {row} does not have {_WIDTH} values"
        if row[2] not in list(CODE):
            return f"unknown kind {row[2]!r} in the row {row}; known kinds: {', '.join(CODE)}"
        if not all(isinstance(row[i], int) for i in (0, 1, 3, 4, 5, 6)):
            return f"the row {row} has something other than a number where a number belongs"
    return ""
