"""One coordinator: in any part of the network that is stable for long enough, all follow the same member of it.

001 §4.2, Theorem 4.1. Whenever a side of the network changes, and at the end, its members are compared as they were
just before: if the side had been as it was for a while, no two of them may coordinate at once, and nobody may follow a
member that is not there or that follows somebody else. What is wrong must have been wrong for as long: a null message
may be lost, and its hearer look around for a moment. `promises.settle_s` is how long "a while" is. Memory: a little for
each member.
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
    """Whom a member follows, since when, and the row that says so (or in which the member came)."""

    whom: int = _NOBODY
    since: int = 0
    row: int = 0


class OneCoordinator:
    name = "one-coordinator"
    reference = "001 §4.2"

    def __init__(self, metadata: Metadata) -> None:
        self._patience_ns = round(settle_s(metadata) * 1e9)
        self._sides = Sides()
        self._follows: dict[int, _Follows] = {}
        self._end = 0
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        if len(rows):
            self._end = int(rows.t_ns[-1])
        rows = rows.of("coordinator", *CHANGES)
        for i in range(len(rows)):
            member, kind = int(rows.member[i]), KINDS[rows.kind[i]]
            said = _Follows(_NOBODY, int(rows.t_ns[i]), int(rows.number[i]))
            if kind == "coordinator":
                said.whom = int(rows.peer[i])
                self._follows[member] = said
                continue
            for side in self._sides.about_to_change(rows, i):
                self._check(side, said.since)
                if kind == "leave" or (kind == "join" and rows.sender[i] == -1) or _forgets(rows, i):
                    self._follows[member] = said
            self._sides.change(rows, i)

    def finish(self) -> list[Violation]:
        for side in self._sides.names():
            self._check(side, self._end)
        return self.found.listed()

    def _check(self, side: str, t_ns: int) -> None:
        """Compare the members of a side as they are now, if it was left alone for long enough."""
        before = t_ns - self._patience_ns
        if self._sides.since(side) > before:
            return
        there = {member: self._follows.get(member, _Follows()) for member in self._sides.members(side)}
        settled = {member: follows for member, follows in there.items() if follows.since <= before}
        leaders = [member for member, follows in settled.items() if follows.whom == member]
        at = f"after {(t_ns - self._sides.since(side)) / 1e9:.1f} s undisturbed"
        if len(leaders) > 1:
            rows = sorted(settled[member].row for member in leaders)
            self.found.add(f"{at} members {', '.join(map(str, leaders))} of one side all coordinate", *rows)
        for member, follows in settled.items():
            self._check_one(at, member, follows, there, settled)

    def _check_one(
        self, at: str, member: int, follows: _Follows, there: dict[int, _Follows], settled: dict[int, _Follows]
    ) -> None:
        whom = follows.whom
        if whom == _NOBODY:
            self.found.add(f"{at} member {member} follows nobody", follows.row)
        elif whom not in there:
            self.found.add(f"{at} member {member} follows {whom}, which is not on its side", follows.row)
        elif whom in settled and settled[whom].whom != whom:
            text = f"{at} member {member} follows {whom}, which follows {settled[whom].whom}"
            self.found.add(text, *sorted((follows.row, settled[whom].row)))


def _forgets(rows: Rows, i: int) -> bool:
    return KINDS[rows.kind[i]] in ("crash", "recover") and rows.phases[rows.phase[i]] == "lost"
