"""Which members are up and reach each other, at any row of a trace: what the checkers of partitions share."""

from __future__ import annotations

from gossamer.trace.rows import Rows
from gossamer.trace.schema import KINDS

CHANGES = ("join", "leave", "crash", "recover", "side")
"""The kinds of rows that may change a side."""


class Sides:
    """The sides of the network. A side without a name is no side: each of its members is alone."""

    def __init__(self) -> None:
        self._side: dict[int, str] = {}
        self._up: set[int] = set()
        self._changed: dict[str, int] = {}
        self._moved: dict[int, int] = {}  # by member: when it last came to a side, or went down
        self._apart: dict[str, int] = {}

    def of(self, member: int) -> str:
        """The side of a member; all begin on side 0."""
        return self._side.get(member, "0")

    def members(self, side: str) -> list[int]:
        """The members that are up on this side, ascending."""
        return sorted(member for member in self._up if self.of(member) == side)

    def names(self) -> list[str]:
        """The sides on which anybody is up."""
        return sorted({self.of(member) for member in self._up} - {""})

    def since(self, side: str) -> int:
        """When this side last changed, in nanoseconds."""
        return self._changed.get(side, 0)

    def apart(self, side: str) -> int:
        """For how long members of this side were apart before it last changed, in ns; 0 if nobody came back."""
        return self._apart.get(side, 0)

    def about_to_change(self, rows: Rows, i: int) -> tuple[str, ...]:
        """The sides that row `i` is going to change."""
        member, to, up = self._read(rows, i)
        if (to, up) == (self.of(member), member in self._up):
            return ()
        return tuple(sorted({self.of(member), to} - {""}))

    def change(self, rows: Rows, i: int) -> None:
        """Let row `i` happen."""
        t_ns, (member, to, up) = int(rows.t_ns[i]), self._read(rows, i)
        for side in self.about_to_change(rows, i):
            before = self.apart(side) if self.since(side) == t_ns else 0  # what changes at once is one change
            self._apart[side] = max(before, self._absence(member, t_ns, to) if side == to and up else 0)
            self._changed[side] = t_ns
        self._moved[member] = t_ns
        self._side[member] = to
        (self._up.add if up else self._up.discard)(member)

    def _absence(self, member: int, t_ns: int, side: str) -> int:
        """For how long `member` was apart from those that were on this side before it comes there."""
        others = [other for other in self.members(side) if self._moved.get(other, 0) < t_ns]
        return t_ns - self._moved[member] if others and member in self._moved else 0

    def _read(self, rows: Rows, i: int) -> tuple[int, str, bool]:
        member, kind = int(rows.member[i]), KINDS[rows.kind[i]]
        if kind == "side":
            return member, rows.phases[rows.phase[i]], member in self._up
        is_vector = kind == "join" and rows.sender[i] != -1
        return member, self.of(member), member in self._up if is_vector else kind in ("join", "recover")
