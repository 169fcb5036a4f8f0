"""Agreement of order. Reference: 002 §1 (b), (c)"""

from __future__ import annotations

from gossamer.spec import CHECKERS
from gossamer.trace.rows import rows_from

from .spec_rows import deliver, found, join, publish, run

A, B, C = 1, 2, 3  # packets of sender 0


def test_members_that_agree_are_fine_even_where_each_misses_some() -> None:
    rows = deliver(1, 0, 1, 3, 4) + deliver(2, 0, 2, 3) + deliver(3, 0, 1, 2, 4) + deliver(4, 9, 9)
    assert found("agreement", rows) == []
    assert found("agreement", []) == []


def test_two_members_that_disagree_are_named_with_the_packets() -> None:
    rows = join(0) + publish(0, A, B) + deliver(1, 0, A, B) + deliver(2, 0, B, A)
    assert found("agreement", rows) == [(3, 4, 5, 6)]
    message = run("agreement", rows)[0].message
    assert message == "member 2 delivered packet (0, 2) before (0, 1), member 1 after it"


def test_packets_of_different_senders_are_held_to_one_order() -> None:
    rows = deliver(1, 7, 1) + deliver(1, 8, 1) + deliver(2, 8, 1) + deliver(2, 7, 1)
    assert found("agreement", rows) == [(0, 1, 2, 3)]


def test_a_disagreement_far_apart_is_found() -> None:
    rows = deliver(1, 0, *range(100)) + deliver(2, 0, 99, *range(99))
    assert [violation.rows[2] for violation in run("agreement", rows)] == [100]


def test_a_cycle_of_three_members_without_two_that_disagree_is_fine() -> None:
    assert found("agreement", deliver(1, 0, A, B) + deliver(2, 0, B, C) + deliver(3, 0, C, A)) == []


def test_such_a_cycle_does_not_hide_a_disagreement() -> None:
    rows = deliver(1, 0, A, B) + deliver(2, 0, B, C) + deliver(3, 0, C, A) + deliver(4, 0, A, C)
    assert found("agreement", rows) == [(4, 5, 6, 7)]


def test_of_a_packet_delivered_twice_the_first_delivery_counts() -> None:
    assert found("agreement", deliver(1, 0, A, B, A) + deliver(2, 0, A, B)) == []
    assert found("agreement", deliver(1, 0, A, B, A) + deliver(2, 0, B, A)) == [(0, 1, 3, 4)]


def test_there_is_one_violation_for_each_pair_of_members_up_to_the_limit() -> None:
    rows = [row for m in range(10) for row in deliver(m, 0, *((A, B) if m % 2 else (B, A)))]
    checker = CHECKERS["agreement"]({})
    checker.feed(rows_from(rows))
    assert len(checker.finish()) == 20 == checker.found.count
