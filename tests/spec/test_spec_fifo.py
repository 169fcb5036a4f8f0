"""FIFO per sender. Reference: 002 §1 (a)"""

from __future__ import annotations

from .spec_rows import crash, deliver, found, join, leave, lost, publish, recover, run, t_join


def test_packets_in_order_with_losses_in_their_place_are_fine() -> None:
    rows = join(0, 1) + publish(0, 1, 2, 3) + publish(1, 1) + deliver(1, 0, 1) + lost(1, 0, 2) + deliver(1, 1, 1)
    assert found("fifo", rows + deliver(1, 0, 3)) == []


def test_numbers_never_published_are_no_gap() -> None:
    assert found("fifo", join(0) + publish(0, 5, 9, 100) + deliver(0, 0, 5, 9, 100)) == []


def test_a_skipped_packet_is_a_gap() -> None:
    rows = join(0) + publish(0, 1, 2, 3) + deliver(0, 0, 1, 3)
    assert found("fifo", rows) == [(2, 5)]
    assert found("fifo", join(0) + publish(0, 1, 2) + deliver(0, 0, 2)) == [(1, 3)]


def test_a_packet_that_comes_late_is_out_of_order() -> None:
    rows = join(0) + publish(0, 1, 2, 3) + deliver(0, 0, 1, 3, 2)
    assert [violation.rows[-1] for violation in run("fifo", rows)] == [5, 6]
    assert found("fifo", join(0) + publish(0, 1, 2) + deliver(0, 0, 1, 1, 2)) == [(4,)]


def test_a_loss_out_of_its_place_is_out_of_order() -> None:
    assert found("fifo", join(0) + publish(0, 1, 2) + deliver(0, 0, 1, 2) + lost(0, 0, 1)) == [(5,)]


def test_a_sender_that_numbers_backwards_is_a_violation() -> None:
    assert found("fifo", join(0) + publish(0, 2, 1)) == [(1, 2)]


def test_a_member_that_joins_later_begins_with_what_it_is_owed() -> None:
    rows = join(0) + publish(0, 1, 2) + join(1) + publish(0, 3, 4)
    assert found("fifo", rows + deliver(1, 0, 3, 4)) == []
    assert found("fifo", rows + deliver(1, 0, 4)) == [(4, 6)]
    assert found("fifo", rows + deliver(1, 0, 2, 3, 4)) == []  # more than it is owed, in order


def test_a_member_that_joins_with_a_vector_begins_after_it() -> None:
    """Reference: 000 §5.3"""
    rows = join(0) + publish(0, 1, 2, 3) + t_join(1, {0: 1})
    assert found("fifo", rows + deliver(1, 0, 2, 3)) == []
    assert found("fifo", rows + deliver(1, 0, 3)) == [(2, 6)]


def test_a_recovery_may_skip_packets_but_not_go_back() -> None:
    """Reference: 000 §6.1"""
    rows = join(0, 1) + publish(0, 1, 2, 3, 4) + deliver(1, 0, 2)[:0] + deliver(1, 0, 1) + crash(1) + recover(1)
    assert found("fifo", rows + deliver(1, 0, 3)) == []
    assert found("fifo", rows + deliver(1, 0, 3, 2)) == [(10,)]
    later = rows + publish(0, 5, 6)
    assert found("fifo", later + deliver(1, 0, 6)) == [(9, 11)]


def test_a_crash_of_the_sender_may_drop_what_it_had_published() -> None:
    rows = join(0, 1) + publish(0, 1, 2) + crash(0) + recover(0) + publish(0, 3)
    assert found("fifo", rows + deliver(1, 0, 3)) == []
    assert found("fifo", rows[:4] + deliver(1, 0, 2) + rows[4:]) == [(2, 4)]


def test_a_member_that_lost_its_memory_may_begin_again_only_if_recovery_is_at_least_once() -> None:
    rows = join(0) + publish(0, 1, 2) + deliver(0, 0, 1, 2) + crash(0, "lost") + recover(0, "lost")
    rows += deliver(0, 0, 1, 2)
    assert found("fifo", rows) == [(7,), (8,)]
    assert found("fifo", rows, recovery="at-least-once") == []


def test_a_new_life_begins_again() -> None:
    rows = join(0, 1) + publish(0, 1, 2) + deliver(1, 0, 1, 2) + leave(1) + t_join(1, {0: 0}) + deliver(1, 0, 1, 2)
    assert found("fifo", rows) == []


def test_a_member_that_never_joined_is_held_to_the_order_too() -> None:
    assert found("fifo", publish(0, 1, 2) + deliver(5, 0, 2, 1) + deliver(6, 0, 1, 2)) == [(0, 2), (3,)]
