"""What a check found: violations, the result of one checker, the report on a whole trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gossamer.trace.rows import Ints, Mask, Rows

LISTED_MAX = 20


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach of a specification: what happened, and the numbers of the rows that show it."""

    spec: str
    message: str
    rows: tuple[int, ...]
    described: tuple[dict[str, object], ...] = ()
    """The same rows as readable columns, filled in by `check` and `check_rows`."""

    def as_dict(self) -> dict[str, Any]:
        return {"spec": self.spec, "message": self.message, "rows": list(self.described or self.rows)}


class Findings:
    """A checker's violations: all are counted, the first `LISTED_MAX` are kept."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self._listed: list[tuple[str, tuple[int, ...]]] = []
        self.count = 0

    @property
    def room(self) -> int:
        """How many more violations will be kept."""
        return LISTED_MAX - len(self._listed)

    def kept(self, offenders: Ints) -> Ints:
        """The first few of many offenders, each to be given to `add`; the others are only counted."""
        few = offenders[: self.room]
        self.count += len(offenders) - len(few)
        return few

    def add(self, message: str, *rows: int) -> None:
        self.count += 1
        if self.room:
            self._listed.append((message, tuple(int(row) for row in rows)))

    def add_rows(self, rows: Rows, where: Mask, message: str, earlier: Ints | None = None) -> None:
        """Add a violation for each row under the mask. `message` names columns in braces; `earlier` may give for
        each row the number of an earlier one that shows what is wrong."""
        for i in self.kept(np.flatnonzero(where)):
            shown = () if earlier is None else (earlier[i],)
            self.add(message.format(**rows.describe(i)), *shown, rows.number[i])

    def listed(self) -> list[Violation]:
        """The violations kept, in the order of the rows that completed them."""
        ordered = sorted(self._listed, key=lambda kept: kept[1][-1:])
        return [Violation(self.spec, message, rows) for message, rows in ordered]


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict of one checker."""

    name: str
    reference: str
    violations: int
    first: tuple[Violation, ...]

    @property
    def ok(self) -> bool:
        return not self.violations

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "reference": self.reference,
            "ok": self.ok,
            "violations": self.violations,
            "first": [violation.as_dict() for violation in self.first],
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts on one trace."""

    rows: int
    seconds: float
    results: tuple[Result, ...] = field(default=())

    @property
    def ok(self) -> bool:
        return all(result.ok for result in self.results)

    @property
    def violations(self) -> list[Violation]:
        """The listed violations of all checkers."""
        return [violation for result in self.results for violation in result.first]

    def __getitem__(self, name: str) -> Result:
        return next(result for result in self.results if result.name == name)

    def as_dict(self) -> dict[str, Any]:
        """Convert to plain data, for JSON."""
        return {
            "ok": self.ok,
            "rows": self.rows,
            "seconds": self.seconds,
            "checkers": [result.as_dict() for result in self.results],
        }
