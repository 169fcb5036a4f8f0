"""A founder that meets the group that was there before is owed what was sent since it was told that it is a member."""

import pytest

from gossamer.core.effects import BecomeMember
from gossamer.membership.recently import Recently
from tests.papers.hand import Table


def met_after(alone_s: float, **settings: object) -> Table:
    """Two members, and a third that was alone for this long while they sent five packets, before which were ten."""
    live = {"membership": "sponsored", "found_after": 4, "gossip_period": 0.05, "buffering": "size"}
    table = Table("rpbcast", 2, **live, **settings)
    table.publish(0, 10)
    table.settle()
    table.wait(10.0)
    table.seat(9, ())
    while not table.stacks[9].lone_founder:
        table.wait(0.01, pass_on=False)
        table.letters.clear()
    for _ in range(5):
        table.publish(0)
        table.pass_on(lambda letter: letter.to != 9)
        for _ in range(20):
            table.wait(alone_s / 100, pass_on=False)
            table.pass_on(lambda letter: 9 not in (letter.source, letter.to))
    table.wait(5.0)
    assert table.stacks[0].roster.members == (0, 1, 9)
    return table


@pytest.mark.parametrize("ordering", ["none", "fifo"])
@pytest.mark.parametrize("alone_s", [0.5, 20.0])
def test_a_founder_hears_what_was_sent_while_it_was_alone_and_nothing_from_before(alone_s, ordering):
    table = met_after(alone_s, ordering=ordering)
    assert table.numbers(9, 0) == [10, 11, 12, 13, 14]
    assert not table.lost.get(9)


def test_what_peers_no_longer_keep_is_reported_to_it_in_its_place():
    table = met_after(20.0, ordering="fifo", buffer_packets=3)
    assert [(lost.first, lost.last) for lost in table.lost[9]] == [(10, 11)]
    assert table.numbers(9, 0) == [12, 13, 14]


def test_a_founder_that_was_alone_for_too_long_is_told_so():
    table = met_after(100.0)
    assert [e.missed for e in table.effects[9] if isinstance(e, BecomeMember)] == ["", "sent while alone"]


def test_a_founder_that_was_alone_for_long_is_told_nothing_if_nobody_has_sent_anything():
    table = Table("rpbcast", 2, membership="sponsored", found_after=4, gossip_period=0.05)
    table.seat(9, ())
    table.wait(100.0, pass_on=False)
    table.letters.clear()
    table.wait(5.0)
    assert table.stacks[0].roster.members == (0, 1, 9)
    assert [e.missed for e in table.effects[9] if isinstance(e, BecomeMember)] == ["", ""]


def test_where_everything_was_is_known_for_every_moment():
    recently = Recently()
    for now in range(10):
        recently.note(float(now), {1: 10 * now, **({2: now} if now >= 5 else {})})
    assert recently.at(20.0, {1: 95, 2: 9}) == {1: 90, 2: 9}
    assert recently.at(6.5, {1: 95, 2: 9}) == {1: 60, 2: 6}
    assert recently.at(4.5, {1: 95, 2: 9, 3: 4}) == {1: 40, 2: -1, 3: -1}
    recently.note(100.0, {1: 95})
    assert recently.at(0.0, {1: 95}) == {1: 90}, "what is too long ago is forgotten"
