"""One coordinator: in any part of the network that is stable for long enough, all follow the same member of it.

001 §4.2, Theorem 4.1. A side is right while one of its members coordinates and all others follow it. Whenever a side
of the network changes, and at the end, it must have been right at some moment of the last while, unless it has changed
since: a null message may be lost, and its hearer look around for a moment, but two coordinators, or members that
follow each other in a circle, must not last. `promises.settle_s` is how long "a while" is. Memory: a little for each
member.
"""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.spec.promises import Metadata, settle_s
from gossamer.spec.report import Findings, Violation
from gossamer.spec.sides import CHANGES, Sides
from gossamer.trace.rows import Rows
from gossamer.trace.schema import KINDS

_NOBODY = -1


@dataclass(slots=True)
class _Follows:
    """Whom a member follows, and the row that says so, or in which the member came."""

    whom: int = _NOBODY
    row: int = 0


class OneCoordinator:
    name = "one-coordinator"
    reference = "001 §4.2"

    def __init__(self, metadata: Metadata) -> None:
        self._patience_ns = round(settle_s(metadata) * 1e9)
        self._sides = Sides()
        self._follows: dict[int, _Follows] = {}
        self._leaving: set[int] = set()
        self._right: dict[str, int] = {}  # when each side was last seen to be right
        self._end = 0
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        if len(rows):
            self._end = int(rows.t_ns[-1])
        rows = rows.of("coordinator", *CHANGES)
        for i in range(len(rows)):
            member, kind, t_ns = int(rows.member[i]), KINDS[rows.kind[i]], int(rows.t_ns[i])
            said = _Follows(int(rows.peer[i]) if kind == "coordinator" else _NOBODY, int(rows.number[i]))
            if kind == "coordinator":
                self._look(self._sides.of(member), t_ns)
                self._follows[member] = said
                if said.whom == _NOBODY:
                    self._leaving.add(member)
                continue
            for side in self._sides.about_to_change(rows, i):
                self._check(side, t_ns)
                if kind == "leave" or (kind == "join" and rows.sender[i] == -1) or _forgets(rows, i):
                    self._follows[member] = said
                    self._leaving.discard(member)
            self._sides.change(rows, i)

    def finish(self) -> list[Violation]:
        for side in self._sides.names():
            self._check(side, self._end)
        return self.found.listed()

    def _look(self, side: str, t_ns: int) -> None:
        if not self._wrong(side):
            self._right[side] = t_ns

    def _check(self, side: str, t_ns: int) -> None:
        """Whether a side that was left alone for long enough was right at some moment of the last while."""
        self._look(side, t_ns)
        before, since = t_ns - self._patience_ns, self._sides.since(side)
        if since <= before and self._right.get(side, 0) < before:
            for text, rows in self._wrong(side):
                self.found.add(f"after {(t_ns - since) / 1e9:.1f} s undisturbed {text}", *sorted(rows))

    def _wrong(self, side: str) -> list[tuple[str, list[int]]]:
        """What is wrong with a side now, and the rows that show it."""
        members = [member for member in self._sides.members(side) if member not in self._leaving]
        there = {member: self._follows.get(member, _Follows()) for member in members}
        leaders = [member for member, follows in there.items() if follows.whom == member]
        wrong = []
        if len(leaders) > 1:
            text = f"members {', '.join(map(str, leaders))} of one side all coordinate"
            wrong.append((text, [there[member].row for member in leaders]))
        for member, follows in there.items():
            if follows.whom == _NOBODY:
                wrong.append((f"member {member} follows nobody", [follows.row]))
            elif follows.whom not in there:
                wrong.append((f"member {member} follows {follows.whom}, which is not on its side", [follows.row]))
            elif there[follows.whom].whom != follows.whom:
                other = there[follows.whom]
                text = f"member {member} follows {follows.whom}, which follows {other.whom}"
                wrong.append((text, [follows.row, other.row]))
        return wrong


def _forgets(rows: Rows, i: int) -> bool:
    return KINDS[rows.kind[i]] in ("crash", "recover") and rows.phases[rows.phase[i]] == "lost"
