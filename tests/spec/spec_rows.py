"""Rows in few words, for the tests of the checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gossamer.spec import CHECKERS, Violation
from gossamer.trace.rows import rows_from
from gossamer.trace.schema import Row

EVERYTHING = ["no-bogus", "at-most-once", "eventual", "fifo", "agreement", "bounded"]


def row(kind: str, member: int, sender: int = -1, seqno: int = -1, peer: int = -1, phase: str = "") -> Row:
    return (0, member, kind, sender, seqno, peer, 100, phase)


def join(*members: int) -> list[Row]:
    return [row("join", member) for member in members]


def t_join(member: int, vector: dict[int, int]) -> list[Row]:
    return [row("join", member), *(row("join", member, s, q) for s, q in vector.items())]


def publish(sender: int, *seqnos: int) -> list[Row]:
    return [row("publish", sender, sender, seqno) for seqno in seqnos]


def deliver(member: int, sender: int, *seqnos: int) -> list[Row]:
    return [row("deliver", member, sender, seqno, phase="first_pass") for seqno in seqnos]


def lost(member: int, sender: int, *seqnos: int) -> list[Row]:
    return [row("lost", member, sender, seqno, phase="gave up") for seqno in seqnos]


def leave(member: int) -> list[Row]:
    return [row("leave", member)]


def crash(member: int, memory: str = "kept") -> list[Row]:
    return [row("crash", member, phase=memory)]


def recover(member: int, memory: str = "kept") -> list[Row]:
    return [row("recover", member, phase=memory)]


def run(name: str, rows: Sequence[Row], batch: int = 1000, **metadata: Any) -> list[Violation]:
    """What a checker finds, which must not depend on the batches it is fed."""
    checker = CHECKERS[name]({"promises": EVERYTHING, **metadata})
    for part in rows_from(rows).batches(batch):
        checker.feed(part)
    violations = checker.finish()
    assert len(violations) == checker.found.count
    return violations


def found(name: str, rows: Sequence[Row], **metadata: Any) -> list[tuple[int, ...]]:
    """The offending rows of every violation, the same in batches of 1, 3 and all."""
    whole = run(name, rows, **metadata)
    for batch in (1, 3):
        assert run(name, rows, batch, **metadata) == whole
    return [violation.rows for violation in whole]
