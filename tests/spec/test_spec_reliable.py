"""Reliable multicast, and with crashes."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.trace.schema import TraceError

from .spec_rows import crash, deliver, found, join, leave, lost, publish, recover, row, run, t_join

PLAIN, CRASHES = "reliable-multicast", "reliable-multicast-with-crashes"
BOTH = pytest.mark.parametrize("name", [PLAIN, CRASHES])


@BOTH
def test_what_is_delivered_once_everywhere_is_fine(name: str) -> None:
    rows = join(0, 1) + publish(0, 1) + publish(1, 1) + deliver(0, 0, 1) + deliver(1, 1, 1)
    rows += deliver(0, 1, 1) + deliver(1, 0, 1)
    assert found(name, rows) == []


@BOTH
def test_a_packet_that_nobody_published_is_bogus(name: str) -> None:
    """Reference: 000 §2.1, property 2"""
    rows = join(0, 1) + publish(0, 1) + deliver(0, 0, 1) + deliver(1, 0, 1) + deliver(1, 0, 2) + deliver(1, 7, 1)
    assert found(name, rows) == [(5,), (6,)]


@BOTH
def test_a_packet_delivered_before_it_was_published_is_bogus(name: str) -> None:
    rows = join(0) + deliver(0, 0, 1) + publish(0, 1) + deliver(0, 0, 1)
    assert found(name, rows) == [(1,)]


@BOTH
def test_a_packet_is_delivered_at_most_once(name: str) -> None:
    rows = join(0) + publish(0, 1) + deliver(0, 0, 1) + deliver(0, 0, 1) + deliver(0, 0, 1)
    assert found(name, rows) == [(1, 3), (1, 4)]
    assert found(name, rows, promises=["no-bogus"]) == []


@BOTH
def test_a_packet_is_delivered_everywhere(name: str) -> None:
    """Reference: 000 §2.1, property 1"""
    rows = join(0, 1, 2) + publish(0, 1, 2) + deliver(0, 0, 1, 2) + deliver(1, 0, 1)
    missing = run(name, rows)
    assert [violation.rows for violation in missing] == [(3,), (4,), (4,)]
    assert "packet (0, 1) was never delivered at member 2" in missing[0].message
    assert found(name, rows, promises=["no-bogus", "at-most-once"]) == []


@BOTH
def test_a_lost_packet_counts_only_where_losses_may_be_reported(name: str) -> None:
    rows = join(0) + publish(0, 1, 2) + deliver(0, 0, 1) + lost(0, 0, 2)
    assert found(name, rows) == [(2,)]
    assert found(name, rows, promises=["eventual-or-lost"]) == []
    assert found(name, rows[:-1], promises=["eventual-or-lost"]) == [(2,)]


@BOTH
@pytest.mark.parametrize("first", [deliver, lost])
def test_a_packet_is_not_both_delivered_and_lost(name: str, first: object) -> None:
    ends = deliver(0, 0, 1) + lost(0, 0, 1)
    rows = join(0) + publish(0, 1) + (ends if first is deliver else ends[::-1])
    assert found(name, rows, promises=["eventual-or-lost"]) == [(3,)]


@BOTH
def test_a_packet_is_published_once_and_by_its_own_sender(name: str) -> None:
    rows = join(0) + publish(0, 1) + publish(0, 1) + [row("publish", 3, 0, 2)]
    assert found(name, rows, promises=["no-bogus"]) == [(1, 2), (3,)]


@BOTH
def test_a_member_that_never_joined_or_has_left_delivers_nothing(name: str) -> None:
    rows = join(0, 1) + publish(0, 1) + deliver(0, 0, 1) + deliver(5, 0, 1) + leave(1) + deliver(1, 0, 1)
    assert found(name, rows) == [(4,), (6,)]


@BOTH
def test_a_member_that_leaves_is_owed_nothing(name: str) -> None:
    rows = join(0, 1) + publish(0, 1) + leave(1) + publish(0, 2) + deliver(0, 0, 1, 2)
    assert found(name, rows) == []


@BOTH
def test_a_member_that_joins_later_is_owed_what_is_published_later(name: str) -> None:
    rows = join(0) + publish(0, 1) + join(1) + publish(0, 2) + deliver(0, 0, 1, 2)
    assert found(name, rows) == [(3,)]
    assert found(name, rows + deliver(1, 0, 2)) == []


@BOTH
def test_a_member_that_joins_with_a_vector_is_owed_what_comes_after_it(name: str) -> None:
    """Reference: 000 §5.3"""
    rows = join(0) + publish(0, 1, 2, 3) + t_join(1, {0: 2}) + publish(0, 4) + deliver(0, 0, 1, 2, 3, 4)
    assert found(name, rows) == [(3,), (6,)]
    assert found(name, rows + deliver(1, 0, 3, 4)) == []


@BOTH
def test_packets_of_a_sender_outside_the_vector_are_owed_from_the_join_on(name: str) -> None:
    rows = join(0, 1) + publish(1, 1) + t_join(2, {0: -1}) + publish(1, 2)
    rows += deliver(0, 1, 1, 2) + deliver(1, 1, 1, 2)
    assert found(name, rows) == [(5,)]


@BOTH
def test_a_new_life_of_a_member_starts_afresh(name: str) -> None:
    rows = join(0, 1) + publish(0, 1) + deliver(0, 0, 1) + deliver(1, 0, 1) + leave(1)
    rows += t_join(1, {0: 0}) + deliver(1, 0, 1)
    assert found(name, rows) == []
    assert found(name, rows[:-1]) == [(2,)]


@BOTH
def test_a_member_that_is_down_neither_delivers_nor_publishes(name: str) -> None:
    """Reference: 000 §6.1, crash disables user_send and user_receive"""
    rows = join(0, 1) + publish(0, 1) + deliver(0, 0, 1) + crash(1) + deliver(1, 0, 1) + publish(1, 1) + recover(1)
    assert found(name, rows, promises=["no-bogus"]) == [(5,), (6,)]


def test_without_crashes_in_the_specification_a_crash_excuses_nothing() -> None:
    rows = join(0, 1) + publish(0, 1) + deliver(0, 0, 1) + crash(1)
    assert found(PLAIN, rows) == [(2,)]
    assert found(PLAIN, rows + recover(1)) == [(2,)]


def test_what_was_published_before_a_recovery_may_be_dropped() -> None:
    """Reference: 000 §6.1, recover marks messages for the member"""
    rows = join(0, 1) + publish(0, 1) + crash(1) + publish(0, 2) + deliver(0, 0, 1, 2)
    assert found(CRASHES, rows) == []
    rows += recover(1) + publish(0, 3) + deliver(0, 0, 3)
    assert found(CRASHES, rows) == [(8,)]
    assert found(CRASHES, rows + deliver(1, 0, 3)) == []


def test_what_a_sender_published_before_its_crash_may_be_dropped() -> None:
    """Reference: 000 §6.1, crash marks messages of the member"""
    rows = join(0, 1) + publish(0, 1) + crash(0) + recover(0)
    assert found(CRASHES, rows) == []
    rows += publish(0, 2)
    assert found(CRASHES, rows) == [(5,), (5,)]


def test_a_member_that_lost_its_memory_may_repeat_packets_only_if_recovery_is_at_least_once() -> None:
    """Reference: 000 §6.2"""
    rows = join(0) + publish(0, 1) + deliver(0, 0, 1) + crash(0, "lost") + recover(0, "lost") + deliver(0, 0, 1)
    assert found(CRASHES, rows) == [(1, 5)]
    assert found(CRASHES, rows, recovery="at-least-once") == []
    assert found(CRASHES, rows + deliver(0, 0, 1), recovery="at-least-once") == [(1, 6)]
    assert found(PLAIN, rows, recovery="at-least-once") == [(1, 5)]


def test_a_member_that_kept_its_memory_repeats_nothing_even_then() -> None:
    rows = join(0) + publish(0, 1) + deliver(0, 0, 1) + crash(0) + recover(0) + deliver(0, 0, 1)
    assert found(CRASHES, rows, recovery="at-least-once") == [(1, 5)]


def test_many_violations_are_counted_and_a_few_are_listed() -> None:
    from gossamer.spec import CHECKERS
    from gossamer.trace.rows import rows_from

    checker = CHECKERS[PLAIN]({})
    checker.feed(rows_from(join(0) + publish(0, 1) + deliver(0, 0, 1) * 1001))
    assert len(checker.finish()) == 20
    assert checker.found.count == 1000


@pytest.mark.parametrize(
    "metadata",
    [
        {"promises": "eventual"},
        {"promises": ["evntual"]},
        {"promises": [["fifo"]]},
        {"recovery": "sometimes"},
    ],
)
def test_invalid_promises_are_refused(metadata: dict[str, Any]) -> None:
    with pytest.raises(TraceError):
        run(CRASHES, [], **metadata)
