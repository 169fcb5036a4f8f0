"""Losses in a queue are told from losses on a line: only the former depend on how much is asked for."""

from gossamer.core.overflow import SPARE, Overflow

PACKETS = 200


def test_a_window_is_cut_to_what_comes_through_a_queue_that_overflows():
    overflow = Overflow()
    assert overflow.answered(1.0, 0.9, PACKETS, 60, size=400)
    assert 200 < overflow.within(400) < 280
    assert overflow.spare < SPARE


def test_if_less_is_missing_then_the_window_stays_there():
    overflow = Overflow()
    overflow.answered(1.0, 0.9, PACKETS, 60, size=400)
    assert not overflow.answered(1.2, 1.1, PACKETS, 2, size=250)
    assert overflow.within(400) < 280


def test_if_as_much_is_missing_as_before_it_is_the_line_and_the_window_is_free_again():
    overflow = Overflow()
    overflow.answered(1.0, 0.9, PACKETS, 60, size=400)
    assert not overflow.answered(1.2, 1.1, PACKETS, 60, size=250)
    assert overflow.within(400) == 400
    assert overflow.spare == SPARE
    assert not overflow.answered(1.4, 1.3, PACKETS, 70, size=400)


def test_what_was_asked_for_before_the_cut_does_not_count():
    overflow = Overflow()
    overflow.answered(1.0, 0.9, PACKETS, 60, size=400)
    assert not overflow.answered(1.1, 0.95, PACKETS, 60, size=250)
    assert overflow.within(400) < 280


def test_an_answer_that_did_not_come_at_all_says_nothing_of_queues():
    overflow = Overflow()
    assert not overflow.answered(1.0, 0.9, PACKETS, PACKETS, size=400)
    assert overflow.within(400) == 400


def test_the_line_may_be_another_later():
    overflow = Overflow()
    overflow.answered(1.0, 0.9, PACKETS, 60, size=400)
    overflow.answered(1.2, 1.1, PACKETS, 60, size=250)
    overflow.forget()
    assert overflow.answered(1.4, 1.3, PACKETS, 60, size=400)
