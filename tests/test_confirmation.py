"""Before it leaves, a member asks whether everybody has what it published."""

from __future__ import annotations

import pytest

from gossamer.core.inputs import ConfirmAsked, Heard, LeaveAsked
from gossamer.core.messages import Confirm, Confirmed, Data, Heartbeat, Leave, Repair
from tests.papers.hand import Letter, Table

LIVE_KINDS = ["rpbcast", "pbcast", "basic"]


@pytest.mark.parametrize("protocol", LIVE_KINDS)
def test_members_that_have_everything_say_so_at_once(protocol):
    table = Table(protocol, 4, membership="sponsored")
    table.publish(0, 3)
    table.settle()
    table.step(0, ConfirmAsked())
    table.settle()
    assert table.stacks[0].unconfirmed() == {}
    assert table.now == 0.0


def test_a_member_that_published_nothing_asks_nobody():
    table = Table("rpbcast", 3, membership="sponsored")
    assert table.stacks[0].unconfirmed() == {}
    table.step(0, ConfirmAsked())
    assert not table.take(Confirm)


@pytest.mark.parametrize("protocol", ["rpbcast", "basic"])
def test_the_question_shows_a_member_which_packets_it_lacks_and_it_is_waited_for(protocol):
    table = Table(protocol, 3, membership="sponsored")
    table.publish(0, 3)
    table.pass_on(lambda letter: not (isinstance(letter.message, Data) and letter.to == 2))
    table.take(Heartbeat)
    table.step(0, ConfirmAsked())
    table.pass_on()
    table.pass_on(lambda letter: isinstance(letter.message, Confirmed))
    assert table.stacks[0].unconfirmed() == {2: 3}
    table.wait(5.0)
    assert table.numbers(2, 0) == [0, 1, 2]
    assert table.stacks[0].unconfirmed() == {}


def test_what_a_member_lacks_is_sent_with_the_question_until_it_has_everything():
    table = Table("srm", 3, membership="sponsored")
    table.publish(0, 3)
    table.take(Data)
    table.step(0, ConfirmAsked())
    for _ in range(4):  # nothing but questions, answers and what comes with them gets through
        table.pass_on(lambda letter: isinstance(letter.message, Confirm | Confirmed | Repair))
        table.pass_on(lambda letter: isinstance(letter.message, Confirm | Confirmed | Repair))
        table.wait(table.settings.gossip_period, pass_on=False)
    assert table.numbers(1, 0) == table.numbers(2, 0) == [0, 1, 2]


def test_only_those_that_have_not_answered_are_asked_again_until_the_member_leaves():
    table = Table("rpbcast", 4, membership="sponsored")
    table.publish(0, 1)
    table.settle()
    table.step(0, ConfirmAsked())

    def reaches(letter: Letter) -> bool:
        return letter.to != 3 and letter.source != 3

    table.pass_on(reaches)
    table.pass_on(reaches)
    assert list(table.stacks[0].unconfirmed()) == [3]
    table.wait(2 * table.settings.gossip_period, pass_on=False)
    asked = table.take(Confirm)
    assert asked
    assert {letter.to for letter in asked} == {3}
    table.step(0, LeaveAsked())
    table.wait(2 * table.settings.gossip_period, pass_on=False)
    assert not table.take(Confirm)


def test_nobody_can_confirm_what_was_not_sent_or_speak_from_outside():
    table = Table("rpbcast", 2, membership="sponsored")
    table.publish(0, 1)
    table.step(0, Heard(1, Confirmed(5)))
    table.step(0, Heard(9, Confirmed(0)))
    assert table.stacks[0].unconfirmed() == {1: 1}
    table.step(0, Heard(1, Confirmed(0)))
    assert table.stacks[0].unconfirmed() == {}


@pytest.mark.parametrize("protocol", ["rpbcast", "lbrm"])
def test_the_last_word_of_a_member_tells_the_others_how_far_its_numbers_go(protocol):
    """Of its last packets only the goodbye arrives: those that missed them report that, or get them from others."""
    loggers = (2,) if protocol == "lbrm" else ()
    table = Table(protocol, 3, membership="sponsored", loggers=loggers, ordering="fifo")
    table.publish(0, 3)
    table.pass_on(lambda letter: not isinstance(letter.message, Data) or letter.to == 2)
    table.step(0, LeaveAsked())
    goodbye = table.take(Heartbeat, Leave)
    table.letters.clear()
    del table.stacks[0]
    for letter in goodbye:
        table.hand(letter)
    table.wait(10.0)
    assert table.numbers(1, 0) == [0, 1, 2]


def test_without_anybody_who_has_them_the_last_packets_are_reported_as_lost():
    table = Table("rpbcast", 3, membership="sponsored", ordering="fifo", loggers=())
    table.publish(0, 3)
    table.letters.clear()
    table.step(0, LeaveAsked())
    goodbye = table.take(Heartbeat, Leave)
    del table.stacks[0]
    for letter in goodbye:
        table.hand(letter)
    table.wait(60.0)
    assert [(lost.first, lost.last) for lost in table.lost[1]] == [(0, 2)]


def test_a_member_that_leaves_passes_on_who_left_before_it():
    """Else the last ones would wait for members of whose departure only those knew that have left as well."""
    table = Table("rpbcast", 4, membership="sponsored", loggers=())
    for leaver in (3, 2, 1):
        table.step(leaver, LeaveAsked())
        for _ in range(4):  # the goodbye of 3 never reaches 0
            table.pass_on(lambda letter: (letter.source, letter.to) != (3, 0))
        del table.stacks[leaver]
    assert table.stacks[0].roster.members == (0,)


def test_a_leave_needs_as_many_sponsors_as_a_join():
    table = Table("rpbcast", 4, membership="sponsored", loggers=(), sponsors=2)
    table.step(3, LeaveAsked())
    table.pass_on(lambda letter: letter.to == 0)
    table.pass_on()
    assert table.stacks[3].is_member
    table.wait(1.0)
    assert not table.stacks[3].is_member
