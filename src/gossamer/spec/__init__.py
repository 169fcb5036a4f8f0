"""The papers' specifications as checkers over traces.

`check(path)` reads a trace file once and feeds every checker that the trace's promises call for; `check_rows`
does the same in memory, and `Checking` while the rows are being made. Each checker is one module; they share
little: `ids` (dense numbers for pairs), `asof` (values that change at rows), `marks` (a byte per packet and
member), `members` (which member is owed what).
"""

from gossamer.spec.promises import PROMISES
from gossamer.spec.report import Report, Result, Violation
from gossamer.spec.run import CHECKERS, Checker, Checking, check, check_rows

__all__ = [
    "CHECKERS",
    "PROMISES",
    "Checker",
    "Checking",
    "Report",
    "Result",
    "Violation",
    "check",
    "check_rows",
]
