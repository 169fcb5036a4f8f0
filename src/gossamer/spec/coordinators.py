"""One coordinator: in any part of the network that is stable for long enough, all follow the same member of it.

001 §4.2, Theorem 4.1. Whenever a side of the network changes, and at the end, its members are compared as they were
just before: if the side had been as it was for a while, no two of them may coordinate at once, and nobody may follow a
member that is not there or that follows somebody else. What is wrong must have been wrong for as long: a null message
may be lost, and its hearer look around for a moment. `promises.settle_s` is how long "a while" is. Memory: a little
for each member.
"""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.spec.promises import Metadata, settle_s
from gossamer.spec.report import Findings, Violation
from gossamer.trace.rows import Rows
from gossamer.trace.schema import KINDS

_READ = ("join", "leave", "crash", "recover", "side", "coordinator")


@dataclass(slots=True)
class _Member:
    """One member as the trace shows it. Without a side it is alone."""

    up: bool = False
    side: str = "0"
    follows: int = -1
    since: int = 0
    row: int = 0
    """The row that says whom it follows, or in which it came."""


class OneCoordinator:
    name = "one-coordinator"
    reference = "001 §4.2"

    def __init__(self, metadata: Metadata) -> None:
        self._patience_ns = round(settle_s(metadata) * 1e9)
        self._members: dict[int, _Member] = {}
        self._changed: dict[str, int] = {}  # when each side last changed
        self._end = 0
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        if len(rows):
            self._end = int(rows.t_ns[-1])
        rows = rows.of(*_READ)
        for i in range(len(rows)):
            kind, t_ns, member = KINDS[rows.kind[i]], int(rows.t_ns[i]), int(rows.member[i])
            if kind == "coordinator":
                known = self._of(member)
                known.follows, known.since, known.row = int(rows.peer[i]), t_ns, int(rows.number[i])
            elif kind != "join" or rows.sender[i] == -1:
                self._change(kind, t_ns, member, rows.phases[rows.phase[i]], int(rows.number[i]))

    def finish(self) -> list[Violation]:
        for side in sorted({member.side for member in self._members.values()}):
            self._check(side, self._end)
        return self.found.listed()

    def _of(self, member: int) -> _Member:
        return self._members.setdefault(member, _Member())

    def _change(self, kind: str, t_ns: int, member: int, phase: str, row: int) -> None:
        known = self._of(member)
        to = phase if kind == "side" else known.side
        up = known.up if kind == "side" else kind in ("join", "recover")
        for side in {known.side, to} if (to, up) != (known.side, known.up) else ():
            self._check(side, t_ns)
            self._changed[side] = t_ns
        if kind == "leave" or (phase == "lost" and kind in ("crash", "recover")) or (kind == "join" and not known.up):
            known.follows, known.since, known.row = -1, t_ns, row
        known.side, known.up = to, up

    def _check(self, side: str, t_ns: int) -> None:
        """Compare the members of a side as they are now, if it was left alone for long enough."""
        before = t_ns - self._patience_ns
        if not side or self._changed.get(side, 0) > before:
            return
        there = {member: m for member, m in sorted(self._members.items()) if m.up and m.side == side}
        settled = {member: m for member, m in there.items() if m.since <= before}
        leaders = [member for member, m in settled.items() if m.follows == member]
        at = f"after {(t_ns - self._changed.get(side, 0)) / 1e9:.1f} s undisturbed"
        if len(leaders) > 1:
            rows = [settled[member].row for member in leaders]
            self.found.add(f"{at} members {', '.join(map(str, leaders))} of one side all coordinate", *rows)
        for member, m in settled.items():
            if m.follows == -1:
                self.found.add(f"{at} member {member} follows nobody", m.row)
            elif m.follows not in there:
                self.found.add(f"{at} member {member} follows {m.follows}, which is not on its side", m.row)
            elif m.follows != member and m.follows in settled and settled[m.follows].follows != m.follows:
                other = settled[m.follows]
                text = f"{at} member {member} follows {m.follows}, which follows {other.follows}"
                self.found.add(text, *sorted((m.row, other.row)))
