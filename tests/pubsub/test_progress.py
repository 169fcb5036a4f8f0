"""How far a durable subscription is."""

from __future__ import annotations

from gossamer.pubsub.progress import Progress


def test_what_was_given_is_done_unless_it_is_acknowledged_one_by_one():
    progress = Progress()
    progress.gave({1: 10, 2: 5, 3: 0}, {})
    assert progress.positions() == {1: 9, 2: 4}


def test_where_the_past_still_comes_the_position_is_there():
    progress = Progress()
    progress.gave({1: 10, 2: 5}, {1: 3})
    assert progress.positions() == {1: 2, 2: 4}


def test_a_packet_is_done_when_all_its_events_are_and_holds_back_those_after_it():
    progress = Progress()
    progress.gave({1: 10}, {})
    progress.expect({(1, 4): 2, (1, 7): 1})
    assert progress.positions() == {1: 3}
    progress.done(1, 7)
    assert progress.positions() == {1: 3}
    progress.done(1, 4)
    assert progress.positions() == {1: 3}
    progress.done(1, 4)
    assert progress.positions() == {1: 9}


def test_what_was_given_together_is_done_when_that_is_said():
    progress = Progress()
    progress.gave({1: 10}, {})
    progress.gave({1: 20, 2: 5}, {}, together=True)
    progress.gave({1: 30, 2: 6}, {}, together=True)
    assert progress.positions() == {1: 9}
    progress.all_but({})
    assert progress.positions() == {1: 29, 2: 5}


def test_a_second_acknowledgement_changes_nothing():
    progress = Progress()
    progress.gave({1: 10}, {})
    progress.expect({(1, 4): 1, (1, 5): 1})
    progress.done(1, 4)
    progress.done(1, 4)
    assert progress.positions() == {1: 4}


def test_a_commit_is_for_all_that_was_read():
    progress = Progress()
    progress.gave({1: 10, 2: 8}, {})
    progress.expect({(1, 4): 1, (1, 5): 1, (2, 7): 1})
    progress.all_but({2: 7})
    assert progress.positions() == {1: 9, 2: 6}
