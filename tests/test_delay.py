"""Requests follow the round trip: what is on its way, or only late, is not asked for."""

import itertools
from pathlib import Path

import pytest

from gossamer.core.ids import FIRST_PASS
from gossamer.core.inputs import Received
from gossamer.core.messages import Data, Gossip, Request
from gossamer.sim.run import simulate
from gossamer.sim.scenario import load
from tests.papers.hand import Table

SCENARIOS = Path(__file__).parents[1] / "scenarios"
PERIOD = 0.05
RETRIES = {"ask_again": 0.001, "round_trips": True, "request_packets": 64, "gossip_period": PERIOD, "gc_rounds": 100}


def table(round_trip: float, members: int = 3) -> Table:
    """Members that know how far they are from each other."""
    made = Table("rpbcast", members, selection="uniform", membership="static", **RETRIES)
    for stack in made.stacks.values():
        for peer in made.stacks:
            for _ in range(50):  # often enough to be sure of it
                stack.round_trips.measured(peer, round_trip)
    return made


def asked_by(made: Table, member: int, seconds: float) -> list[float]:
    """When `member` asks for anything, by request or in a gossip, while time passes and nothing arrives."""
    begin, asked = made.now, []
    for _ in range(round(seconds / 0.001)):
        made.wait(0.001, pass_on=False)
        asked += [
            made.now - begin
            for letter in made.letters
            if letter.source == member
            and (isinstance(letter.message, Request) or (isinstance(letter.message, Gossip) and letter.message.missing))
        ]
        made.letters.clear()
    return asked


def lose_the_first_of_two(made: Table) -> None:
    made.publish(0, 2)
    made.pass_on(lambda letter: letter.to != 1 or letter.message.packet.seqno % 2 == 1)
    made.letters.clear()  # the request that follows at once


@pytest.mark.parametrize("round_trip", [0.01, 0.1, 0.4])
def test_what_is_on_its_way_is_asked_for_again_only_after_a_round_trip(round_trip):
    made = table(round_trip)
    overtake(made, 0.0)  # gaps do not wait any more
    lose_the_first_of_two(made)
    first, second, *_ = asked_by(made, 1, 3 * round_trip + 0.02)
    assert first == pytest.approx(round_trip + 0.001, abs=0.0025)
    assert second == pytest.approx(2 * round_trip + 0.003, abs=0.0045)


def test_what_nobody_answers_is_left_to_the_rounds():
    made = table(0.001)
    lose_the_first_of_two(made)
    asked = asked_by(made, 1, 2.0)
    pauses = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert len([when for when in asked if when < 0.1]) >= 5
    assert pauses[-5:] == pytest.approx([PERIOD] * 5, abs=0.003)


def test_two_members_are_asked_at_once_where_they_are_far_and_little_is_lost():
    made = table(0.02, members=6)
    made.publish(0, 400)
    made.pass_on(lambda letter: letter.to != 1 or letter.message.packet.seqno not in (200, 201, 398))
    asked = [letter for letter in made.take(Request) if letter.source == 1]
    assert [len(letter.message.wanted[0]) for letter in asked] == [
        2,
        1,
        1,
    ]  # for the first two there is nothing to spare yet
    assert asked[1].to != asked[2].to
    assert 0 in (asked[1].to, asked[2].to)


def test_near_members_are_asked_one_at_a_time():
    made = table(0.001, members=6)
    made.publish(0, 400)
    made.pass_on(lambda letter: letter.to != 1 or letter.message.packet.seqno != 398)
    assert len([letter for letter in made.take(Request) if letter.source == 1]) == 1


def overtake(made: Table, late_by: float) -> list[Request]:
    """Two packets of 0 come to 1 in the wrong order; returns what 1 has asked for meanwhile."""
    made.publish(0, 2)
    first, second = (
        letter.message.packet for letter in made.letters if isinstance(letter.message, Data) and letter.to == 1
    )
    made.letters.clear()
    made.step(1, Received(0, [second], FIRST_PASS))
    made.wait(late_by, pass_on=False)
    made.step(1, Received(0, [first], FIRST_PASS))
    asked = [letter.message for letter in made.letters if isinstance(letter.message, Request) and letter.source == 1]
    made.letters.clear()
    return asked


def test_a_packet_that_was_only_overtaken_is_not_asked_for_once_the_link_is_known_to_reorder():
    made = table(0.02)
    assert len(overtake(made, 0.004)) == 1
    overtake(made, 0.004)
    assert [overtake(made, late) for late in (0.004, 0.003, 0.004, 0.001)] == [[]] * 4
    lose_the_first_of_two(made)
    assert asked_by(made, 1, 0.01) == pytest.approx([0.0045], abs=0.002)  # a loss is, a little later


def test_the_first_gaps_of_a_long_line_may_be_late_packets():
    made = table(0.4)
    assert overtake(made, 0.09) == []
    made = table(0.4)
    lose_the_first_of_two(made)
    assert asked_by(made, 1, 0.15)[0] == pytest.approx(0.1, abs=0.002)


def test_a_gap_waits_no_longer_than_an_answer_takes():
    made = table(0.002)
    for _ in range(5):
        overtake(made, 0.2)  # the member was busy, or its sender's clock stood still
    lose_the_first_of_two(made)
    assert asked_by(made, 1, 0.05)[0] < 0.006


def test_packets_that_come_in_any_order_are_not_asked_for_and_come_once():
    result = simulate(load(SCENARIOS / "reordering.toml"))
    assert not result["outstanding"]
    assert not result["violations"]
    assert result["packets"]["lost"] == 0
    assert result["repeated"] < 0.02 * result["deliveries"]["actual"]
    assert result["deliveries"]["peer"] < 0.02 * result["deliveries"]["actual"]


def test_members_that_are_far_away_are_asked_once_for_what_they_send():
    result = simulate(load(SCENARIOS / "far-away.toml"))
    assert not result["outstanding"]
    assert not result["violations"]
    assert result["packets"]["lost"] == 0
    assert result["repeated"] < 0.01 * result["deliveries"]["actual"]
    assert result["repairs"]["sent"] < 2.2 * result["deliveries"]["peer"]  # by two members, but once by each
