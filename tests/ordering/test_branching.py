"""Which channels get a branch of their own, and what marks come to. Reference: 002 §3.1, §5.1"""

from __future__ import annotations

from random import Random

from gossamer.core.ids import stream_of
from gossamer.core.places import Mark, Segment, Sites
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings
from gossamer.ordering.branching import Branching, parts_of
from gossamer.ordering.marks import Marks
from gossamer.ordering.place_log import PlaceLog
from gossamer.stack import Stack

LEFT, RIGHT = 0b0010, 0b1100
LISTENING = {0: LEFT, 1: LEFT, 2: LEFT, 3: 0b0100, 4: RIGHT, 5: 0b1000}
LIVES = dict.fromkeys(range(7), 0)


def roster(listening: dict[int, int], members: int = 7) -> Roster:
    return Roster(0, tuple(range(members)), listening=listening)


def wanted(branching: Branching, now: float, seen: Roster, marks: Marks, lives: dict[int, int] = LIVES) -> list[Mark]:
    return branching.wanted(now, 1.0, seen, lives, marks)


def test_parts_have_no_channel_in_common_but_channel_0():
    assert parts_of(LISTENING | {6: 1}) == [(LEFT, (0, 1, 2)), (RIGHT, (3, 4, 5))]
    assert parts_of(LISTENING | {6: LEFT | 0b1000}) == [(LEFT | RIGHT, tuple(range(7)))]
    assert parts_of({}) == []


def test_a_part_that_stays_as_it_is_gets_a_branch_with_the_member_in_most_channels_as_its_primary():
    branching, marks = Branching(), Marks({})
    assert wanted(branching, 0.0, roster(LISTENING), marks) == []
    left, right = wanted(branching, 1.0, roster(LISTENING), marks)
    assert (left.number, left.channels, list(left.table)) == (0, LEFT, [0, 1, 2])
    assert (right.number, right.channels, list(right.table)) == (4, RIGHT, [3, 4, 5])


def test_parts_of_two_and_the_whole_group_stay_in_the_trunk():
    for seen in (roster({0: LEFT, 1: LEFT}), roster(dict.fromkeys(range(3), LEFT), members=3)):
        branching = Branching()
        wanted(branching, 0.0, seen, Marks({}))
        assert wanted(branching, 9.0, seen, Marks({})) == []


def test_a_logger_hears_all_so_that_there_are_no_parts():
    seen = Roster(0, tuple(range(7)), loggers=(6,), listening=LISTENING)
    branching = Branching()
    wanted(branching, 0.0, seen, Marks({}))
    assert wanted(branching, 9.0, seen, Marks({})) == []


def test_a_branch_has_to_end_when_another_member_wants_to_hear_it_or_one_has_lost_its_memory():
    marks = Marks({4: Mark("open", 0, LEFT, {0: 0, 1: 0, 2: 0})})
    assert wanted(Branching(), 0.0, roster(LISTENING), marks) == []
    assert wanted(Branching(), 0.0, roster(LISTENING | {6: LEFT}), marks) == [Mark("close", 4)]
    assert wanted(Branching(), 0.0, roster(LISTENING), marks, LIVES | {1: 77}) == [Mark("close", 4)]
    marks.add(9, Mark("close", 4))
    assert wanted(Branching(), 0.0, roster(LISTENING | {6: LEFT}), marks) == [], "it was said"


def test_marks_that_are_cut_off_have_not_been():
    log = PlaceLog(0, 0, {}, Sites(0, LIVES))
    log.append(Segment(1, sites=Sites(0, LIVES)))
    log.append(Segment(1, mark=Mark("open", 0, LEFT, {0: 0})))
    log.append(Segment(1, sender=stream_of(5, 2), first=0, count=4))
    log.append(Segment(1, mark=Mark("close", 1)))
    log.append(Segment(1, mark=Mark("back", 1, LEFT, {stream_of(5, 1): 7})))
    assert (log.marks.branches, log.placed[stream_of(5, 1)]) == ({}, 7)
    assert [place for place, _ in log.marks.between(1, 7)] == [1, 6]
    assert [place for place, _ in log.marks.between(2, 6)] == []
    log.cut(7)
    assert list(log.marks.branches) == [1]
    assert list(log.marks.closing) == [1]
    assert stream_of(5, 1) not in log.placed
    log.cut(1)
    assert log.marks.branches == {}


def test_whoever_begins_to_listen_is_owed_all_that_has_its_turn_from_now_on():
    """What others have received may have a place that is still to come; else it would be in nobody's account."""
    listening = {0: 1, 1: LEFT, 2: LEFT}
    settings = ProtocolSettings(ordering="total", channels=2)
    order = Stack(0, (0, 1, 2), settings, Random(1), listening=listening).order
    heard, unheard = stream_of(1, 1), stream_of(2, 1)
    order.turns.passed[heard] = 10
    assert order.begins_after({heard: 14, unheard: 3}, LEFT) == {heard: 10, unheard: 3}
    alone = Stack(0, (0, 1, 2), settings, Random(1)).order
    alone.turns.passed[heard] = 10
    assert alone.begins_after({heard: 14}, LEFT) == {heard: 14}, "nobody heard it, so it has no places"


def test_a_mark_has_its_turn_once():
    log = PlaceLog(0, 0, {}, Sites(0, LIVES))
    log.append(Segment(1, mark=Mark("open", 0, LEFT, {0: 0})))
    assert [place for place, _ in log.between(0, 1)] == [0]
    assert list(log.between(1, 2)) == []
