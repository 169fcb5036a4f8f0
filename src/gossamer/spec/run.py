"""Run the checkers over a trace in one pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Protocol

import numpy as np

from gossamer.spec.agreement import Agreement
from gossamer.spec.arrays import integers
from gossamer.spec.buffers import BoundedBuffers
from gossamer.spec.channel import Channel
from gossamer.spec.coordinators import OneCoordinator
from gossamer.spec.durable import Durability
from gossamer.spec.fifo import FifoOrder
from gossamer.spec.partitions import OneCrossing, SameMessages
from gossamer.spec.promises import PROMISES, Metadata, promised
from gossamer.spec.reliable import ReliableMulticast, ReliableMulticastWithCrashes
from gossamer.spec.report import Findings, Report, Result, Violation
from gossamer.spec.synchrony import VirtualSynchrony
from gossamer.spec.views import OneView
from gossamer.trace import reader
from gossamer.trace.rows import Rows
from gossamer.trace.schema import CODE, TraceError


class Checker(Protocol):
    """A specification that reads a trace in order: `feed` each batch once, then `finish` once."""

    name: str
    reference: str
    found: Findings

    def feed(self, rows: Rows) -> None: ...

    def finish(self) -> list[Violation]: ...


CHECKERS: dict[str, Callable[[Metadata], Checker]] = {
    checker.name: checker
    for checker in (
        ReliableMulticast,
        ReliableMulticastWithCrashes,
        Channel,
        FifoOrder,
        Agreement,
        BoundedBuffers,
        Durability,
        OneView,
        OneCoordinator,
        SameMessages,
        OneCrossing,
        VirtualSynchrony,
    )
}

Words = dict[str, object]
"""A row by the names of its columns."""

Progress = Callable[[int, int], None]
"""Called now and then with the number of rows read and the total."""


class Checking:
    """A check under way: `feed` it every batch in order, then ask for the `report` once.

    Without names it uses the checkers that the promises in the metadata call for, and that of the channel.
    """

    def __init__(self, metadata: Metadata, names: Sequence[str] | None = None) -> None:
        self._started = perf_counter()
        self._checkers = _chosen(metadata, names)
        self._may_call_plain = names is None
        self._rows = 0

    def feed(self, rows: Rows) -> None:
        self._rows += len(rows)
        self._may_call_plain &= not (rows.kind == CODE["crash"]).any()
        for checker in self._checkers:
            checker.feed(rows)

    def report(self, again: Iterable[Rows] = ()) -> Report:
        """The verdicts; passing the same batches `again` adds the offending rows in readable form."""
        if self._may_call_plain:
            _call_plain(self._checkers)
        found = [(checker, checker.finish()) for checker in self._checkers]
        shown = {number for _, violations in found for each in violations for number in each.rows}
        words = _describe(again, shown)
        results = tuple(_result(checker, violations, words) for checker, violations in found)
        return Report(self._rows, perf_counter() - self._started, results)


def check(
    path: str | os.PathLike[str],
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
    others: Sequence[str | os.PathLike[str]] = (),
) -> Report:
    """Check a trace file with these checkers or, without names, with those that its promises call for.

    `others` are the traces of the other members, where each wrote its own: then what all of them promise is checked.
    TraceError if a file cannot be read as a trace.
    """
    paths = [path, *others]
    metadata, total = _together(list(map(reader.metadata, paths))), sum(map(reader.row_count, paths))
    try:
        checking = Checking(metadata, names)
        for rows in _read(paths):
            checking.feed(rows)
            if progress:
                progress(rows.first + len(rows), total)
        return checking.report(_read(paths))
    except TraceError as error:
        named = any(str(error).startswith(os.fspath(each)) for each in paths)
        raise error if named else TraceError(f"{os.fspath(path)}: {error}") from error


def _read(paths: Sequence[str | os.PathLike[str]]) -> Iterator[Rows]:
    return reader.read_together(paths) if len(paths) > 1 else reader.read(paths[0])


def _together(found: Sequence[Metadata]) -> Metadata:
    if len(found) == 1:
        return found[0]
    common = frozenset.intersection(*map(promised, found))
    return {**found[0], "promises": sorted(common)}


def check_rows(batches: Iterable[Rows], metadata: Metadata, names: Sequence[str] | None = None) -> Report:
    """Check a trace in memory."""
    kept = list(batches)
    checking = Checking(metadata, names)
    for rows in kept:
        checking.feed(rows)
    return checking.report(kept)


def _describe(batches: Iterable[Rows], numbers: set[int]) -> dict[int, Words]:
    if not numbers:
        return {}
    wanted = integers(sorted(numbers))
    return {
        int(rows.number[i]): rows.describe(i) for rows in batches for i in np.flatnonzero(np.isin(rows.number, wanted))
    }


def _chosen(metadata: Metadata, names: Sequence[str] | None) -> list[Checker]:
    if names is None:
        wanted = {PROMISES[promise] for promise in promised(metadata)} | {Channel.name}
        if ReliableMulticast.name in wanted:
            wanted = wanted - {ReliableMulticast.name} | {ReliableMulticastWithCrashes.name}
        names = [name for name in CHECKERS if name in wanted]
    unknown = [name for name in names if name not in CHECKERS]
    if unknown:
        raise TraceError(f"unknown checker {unknown[0]!r}; known checkers: {', '.join(CHECKERS)}")
    return [CHECKERS[name](metadata) for name in names]


def _call_plain(checkers: Sequence[Checker]) -> None:
    """Use the plain name: without a crash, the two specifications of reliable multicast are the same."""
    for checker in checkers:
        if isinstance(checker, ReliableMulticastWithCrashes):
            checker.name = checker.found.spec = ReliableMulticast.name
            checker.reference = ReliableMulticast.reference


def _result(checker: Checker, violations: list[Violation], words: dict[int, Words]) -> Result:
    first = tuple(replace(each, described=tuple(words[n] for n in each.rows if n in words)) for each in violations)
    return Result(checker.name, checker.reference, checker.found.count, first)
