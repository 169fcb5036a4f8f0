"""Bounded buffers."""

from __future__ import annotations

import pytest

from gossamer.trace.schema import Row, TraceError

from .spec_rows import crash, found, row, run


def store(member: int, *seqnos: int, place: str = "buffer") -> list[Row]:
    return [row("store", member, 0, seqno, phase=place) for seqno in seqnos]


def collect(member: int, *seqnos: int, place: str = "buffer") -> list[Row]:
    return [row("collect", member, 0, seqno, phase=place) for seqno in seqnos]


def test_a_buffer_within_its_bound_is_fine() -> None:
    rows = store(0, 1, 2) + collect(0, 1) + store(0, 3) + store(1, 1, 2) + store(0, 1, 2, 3, 4, place="log")
    assert found("bounded-buffers", rows, bounds={"buffer": 2}) == []


def test_a_buffer_over_its_bound_is_a_violation_for_each_packet_too_many() -> None:
    rows = store(0, 1, 2, 3) + store(1, 1) + collect(0, 1) + store(0, 4)
    assert found("bounded-buffers", rows, bounds={"buffer": 2}) == [(2,), (5,)]
    assert found("bounded-buffers", rows, bounds={"log": 1, "buffer": None}) == []
    assert found("bounded-buffers", rows) == []


def test_nothing_is_collected_that_is_not_there() -> None:
    rows = collect(0, 1) + store(0, 1) + collect(0, 1, 1) + collect(1, 1) + collect(0, 1, place="log")
    assert found("bounded-buffers", rows) == [(0,), (3,), (4,), (5,)]


def test_nothing_is_stored_twice() -> None:
    assert found("bounded-buffers", store(0, 1, 1) + collect(0, 1) + store(0, 1)) == [(1,)]


def test_a_crash_that_loses_memory_empties_the_buffer_and_not_the_log() -> None:
    rows = store(0, 1, 2) + store(0, 1, place="log") + crash(0, "lost")
    assert found("bounded-buffers", rows + store(0, 1, 2), bounds={"buffer": 2}) == []
    assert found("bounded-buffers", rows + collect(0, 1)) == [(4,)]
    assert found("bounded-buffers", rows + collect(0, 1, place="log")) == []
    kept = store(0, 1) + crash(0, "kept") + collect(0, 1)
    assert found("bounded-buffers", kept) == []


@pytest.mark.parametrize("bounds", [7, {"buffer": "many"}, {"buffer": -1}])
def test_invalid_bounds_are_refused(bounds: object) -> None:
    with pytest.raises(TraceError, match="bound"):
        run("bounded-buffers", [], bounds=bounds)
