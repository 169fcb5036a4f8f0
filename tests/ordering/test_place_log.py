"""The places that a member keeps, and what waits for its turn."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.effects import Deliver, ReportLost
from gossamer.core.packets import Packet
from gossamer.core.places import Segment, Sites
from gossamer.core.settings import ProtocolSettings
from gossamer.ordering.place_log import PlaceLog
from gossamer.ordering.turns import PASSED, Turns
from gossamer.stack import Stack

FOUNDERS = Sites(0, {0: 0, 1: 0, 2: 0})


def log(*segments: Segment) -> PlaceLog:
    made = PlaceLog(0, 0, {}, FOUNDERS)
    for segment in segments:
        made.append(segment)
    return made


def one_by_one(kept: PlaceLog) -> list[tuple[int, int, int]]:
    """Graph, sender and number of each place."""
    return [
        (s.graph, -1 if s.sites else s.sender, s.first + i)
        for s in kept.part(kept.begin, 10**6)
        for i in range(s.count)
    ]


def test_there_is_nothing_between_a_place_and_itself():
    """Also within a segment: a primary alone in its branch would else enter the trunk there again and again."""
    kept = log(Segment(1, 7, 0, 5), Segment(2, 8, 0, 2))
    assert [list(kept.between(place, place)) for place in range(8)] == [[]] * 8
    assert [place for place, _ in kept.between(2, 6)] == [0, 5]


def test_packets_that_follow_on_are_one_segment():
    kept = log(Segment(1, 7, 0, 2), Segment(1, 7, 2, 3), Segment(2, 7, 5, 1), Segment(2, 8, 0, 1))
    assert kept.part(0, 10) == [Segment(1, 7, 0, 5), Segment(2, 7, 5, 1), Segment(2, 8, 0, 1)]
    assert kept.placed == {7: 5, 8: 0}
    assert [kept.graph_before(place) for place in range(9)] == [0, 1, 1, 1, 1, 1, 2, 2, -1]


def test_what_a_later_graph_gave_otherwise_goes_with_all_after_it():
    kept = log(Segment(1, 7, 0, 5), Segment(1, 8, 0, 2))
    assert kept.take(2, [Segment(1, 7, 2, 1), Segment(2, 8, 0, 3)], settled=2)
    assert one_by_one(kept) == [(1, 7, 0), (1, 7, 1), (1, 7, 2), (2, 8, 0), (2, 8, 1), (2, 8, 2)]
    assert kept.placed == {7: 2, 8: 2}


def test_what_is_settled_cannot_be_changed():
    kept = log(Segment(1, 7, 0, 5))
    assert not kept.take(2, [Segment(2, 8, 0, 3)], settled=3)
    assert one_by_one(kept) == [(1, 7, n) for n in range(5)]


def test_places_that_are_known_are_not_entered_twice():
    kept = log(Segment(1, 7, 0, 5))
    assert kept.take(1, [Segment(1, 7, 1, 6)], settled=0)
    assert kept.part(0, 10) == [Segment(1, 7, 0, 7)]


def test_sites_decide_from_their_place_on_and_before_that_with_those_before():
    later = Sites(1, {1: 0, 2: 0})
    kept = log(Segment(1, 7, 0, 2), Segment(2, sites=later), Segment(2, 7, 2, 2))
    assert kept.sites(settled=0) == [FOUNDERS, later]
    assert kept.sites(settled=2) == [FOUNDERS, later]
    assert kept.sites(settled=3) == [later]
    kept.cut(2)
    assert kept.sites(settled=0) == [FOUNDERS]


def test_old_places_are_dropped_but_not_what_they_mean():
    segments = [Segment(1, n % 3, n // 3, 1) for n in range(30)]
    kept = log(Segment(1, sites=Sites(2, {2: 5})), *segments)
    kept.drop(10, below=31)
    assert len(kept) == 10
    assert kept.begin == 21
    assert kept.placed_below(21) == {0: 6, 1: 6, 2: 5}
    assert kept.sites(settled=31) == [Sites(2, {2: 5})]
    assert kept.begins_for({0: 8, 1: 8, 2: 9}, []) == 28


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.booleans()), max_size=30), st.integers(0, 40))
def test_a_log_is_a_list_of_places(steps, cut):
    """Against the plain list, with graphs that change now and then, cut anywhere and taken over by another."""
    whole, numbers, graph = log(), {0: 0, 1: 0, 2: 0}, 1
    for sender, count, changes in steps:
        graph += changes
        whole.append(Segment(graph, sender, numbers[sender], count))
        numbers[sender] += count
    plain = one_by_one(whole)
    assert len(plain) == whole.end
    other = log()
    other.take(0, whole.part(0, 1000), settled=0)
    place = min(cut, whole.end)
    if place < other.end:
        other.cut(place)
    assert one_by_one(other) == plain[:place]
    other.append(Segment(graph + 1, 0, 99, 2))
    assert other.take(place, whole.part(place, 1000), settled=0)
    expected = plain if place < whole.end else [*plain, (graph + 1, 0, 99), (graph + 1, 0, 100)]
    assert one_by_one(other) == expected


@pytest.mark.parametrize(
    ("some", "most"),
    [([0, 1], True), ([0], False), ([1], False), ([1, 2], True), ([0, 1, 2], True), ([], False), ([0, 7, 8], False)],
)
def test_most_sites_are_more_than_half(some, most):
    assert FOUNDERS.are_most(some) == most


def test_of_two_halves_the_one_with_the_primary_are_most():
    four = Sites(3, dict.fromkeys(range(4), 0))
    assert four.are_most([3, 0])
    assert not four.are_most([1, 2])
    assert four.kept_by_most({3: 9, 1: 5, 2: 3}) == 5


@given(st.sets(st.integers(0, 6), max_size=6), st.integers(0, 6), st.dictionaries(st.integers(0, 7), st.integers(0, 5)))
def test_what_most_keep_is_the_highest_place_below_which_most_keep_all(members, primary, kept):
    sites = Sites(primary, dict.fromkeys(members, 0))
    most = [p for p in range(6) if sites.are_most([m for m in members if kept.get(m, 0) >= p])]
    assert sites.kept_by_most(kept) == max(most, default=0)


def turns() -> tuple[Stack, Turns]:
    stack = Stack(0, (0, 1, 2), ProtocolSettings(), Random(1))
    return stack, Turns(stack)


def packets(sender: int, *numbers: int) -> list[Packet]:
    return [Packet(sender, number, b"x") for number in numbers]


def test_a_turn_ends_where_something_is_missing():
    stack, waiting = turns()
    out: list = []
    stack.streams.of(1).accept(packets(1, 0, 1))
    stack.streams.of(1).accept(packets(1, 3))
    waiting.wait(packets(1, 0, 1), "first_pass", out)
    waiting.wait(packets(1, 3), "peer", out)
    assert waiting.hand_over(0.0, 1, 0, 3, 100, out) == 2
    assert out == [Deliver(packets(1, 0, 1), "first_pass", 100)]
    waiting.lose(1, 2, 2, "gone", out)
    assert waiting.hand_over(0.0, 1, 2, 3, 102, out) == 4
    assert out[1:] == [ReportLost(1, 2, 2, "gone"), Deliver(packets(1, 3), "peer", 103)]
    assert waiting.bytes == 0


def test_what_comes_after_its_turn_is_reported_and_not_delivered():
    _, waiting = turns()
    out: list = []
    waiting.begin({1: 4}, out)
    waiting.wait(packets(1, 3, 4, 5), "logger", out)
    assert out == [ReportLost(1, 3, 4, PASSED)]
    assert waiting.lasts() == {1: 5}


def test_nobody_waits_for_what_was_sent_before_it_came():
    stack, waiting = turns()
    out: list = []
    stack.streams.begin(1, 10)
    assert waiting.hand_over(0.0, 1, 4, 12, 0, out) == 10
    assert out == []
