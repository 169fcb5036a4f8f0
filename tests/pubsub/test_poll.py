"""Does anybody listen? Only if all say no, nobody does."""

from __future__ import annotations

from gossamer.pubsub.poll import Poll


def test_members_that_are_likely_to_listen_are_asked_first_and_the_others_only_if_they_do_not():
    poll = Poll([1, 2, 3], likely={2})
    assert poll.to_ask() == [2]
    assert poll.to_ask() == []
    poll.answered(2, False)
    assert not poll.nobody
    assert poll.to_ask() == [1, 3]
    poll.answered(3, False)
    assert not poll.nobody
    poll.answered(1, False)
    assert poll.nobody


def test_one_yes_is_enough():
    poll = Poll([1, 2])
    assert poll.to_ask() == [1, 2]
    poll.answered(1, False)
    poll.answered(2, True)
    assert poll.somebody
    assert not poll.nobody
    assert poll.to_ask() == []


def test_members_that_left_cannot_answer_and_are_not_waited_for():
    poll = Poll([1, 2, 3], likely={1})
    poll.to_ask()
    poll.follow({2})
    assert poll.to_ask() == [2]
    poll.follow(set())
    assert poll.nobody


def test_when_the_one_that_listens_has_left_the_others_are_asked():
    poll = Poll([1, 2], likely={1})
    poll.to_ask()
    poll.answered(1, True)
    poll.follow({2})
    assert not poll.somebody
    assert poll.to_ask() == [2]
    poll.answered(2, False)
    assert poll.nobody


def test_whoever_listens_itself_need_not_ask():
    poll = Poll([1], here=True)
    assert poll.somebody
    poll.follow(set())
    assert not poll.nobody


def test_without_members_nobody_listens():
    assert Poll([]).nobody
