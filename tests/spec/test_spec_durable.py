"""Flushed implies logged."""

from __future__ import annotations

import pytest

from gossamer.trace.schema import Row, TraceError

from .spec_rows import crash, found, join, publish, recover, row, run


def store(member: int, sender: int, *seqnos: int) -> list[Row]:
    return [row("store", member, sender, seqno, phase="log") for seqno in seqnos]


def flush(sender: int, seqno: int, phase: str = "") -> list[Row]:
    return [row("flush", sender, sender, seqno, phase=phase)]


def test_what_was_logged_before_is_durable() -> None:
    rows = join(0, 9) + publish(0, 0, 1, 2) + store(9, 0, 1, 0) + flush(0, 1) + store(9, 0, 2) + flush(0, 2)
    assert found("durability", rows) == []


def test_what_is_logged_later_or_only_in_a_buffer_or_of_another_sender_is_not() -> None:
    rows = join(0, 9) + publish(0, 0, 1) + publish(1, 0) + store(9, 0, 0) + store(9, 1, 0)
    rows += [row("store", 9, 0, 1, phase="buffer")]
    said = len(rows)
    assert found("durability", rows + flush(0, 1) + store(9, 0, 1)) == [(3, said)]


def test_each_packet_is_spoken_of_once() -> None:
    rows = join(0) + publish(0, 0) + flush(0, 0) + publish(0, 1) + flush(0, 1) + flush(0, 1)
    assert found("durability", rows) == [(1, 2), (3, 4)]


def test_a_packet_that_was_collected_since_was_durable() -> None:
    rows = join(0, 9) + publish(0, 0) + store(9, 0, 0) + [row("collect", 9, 0, 0, phase="log")] + flush(0, 0)
    assert found("durability", rows) == []


def test_who_is_told_that_packets_will_not_be_logged_was_told_the_truth() -> None:
    rows = join(0, 9) + publish(0, 0, 1) + flush(0, 1, "unlogged") + publish(0, 2) + store(9, 0, 2) + flush(0, 2)
    assert found("durability", rows) == []


def test_nobody_is_told_of_the_packets_of_an_earlier_life() -> None:
    rows = join(0, 9) + publish(0, 0, 1) + crash(0, "lost") + recover(0, "lost") + publish(0, 1000) + store(9, 0, 1000)
    assert found("durability", rows + flush(0, 1000)) == []
    rows = join(0, 9) + publish(0, 0, 1) + crash(0, "kept") + recover(0, "kept") + flush(0, 1)
    assert len(found("durability", rows)) == 2


def test_copies_are_in_different_logs() -> None:
    rows = join(0, 8, 9) + publish(0, 0, 1) + store(8, 0, 0, 1) + store(9, 0, 0)
    again = [row("collect", 8, 0, 1, phase="log"), *store(8, 0, 1)]
    said = len(rows + again)
    assert found("durability", rows + again + flush(0, 1), copies=2) == [(4, said)]
    assert found("durability", rows + store(9, 0, 1) + flush(0, 1), copies=2) == []


@pytest.mark.parametrize("copies", [0, "two"])
def test_copies_is_a_number(copies: object) -> None:
    with pytest.raises(TraceError, match="copies must be a whole number"):
        run("durability", [], copies=copies)
