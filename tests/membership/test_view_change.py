"""Who goes on with whom: what the coordinator of a view change makes of the answers to its flush (003 §8, 004 §3)."""

from __future__ import annotations

from random import Random

from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.views import FlushAnswer, MemberEntry, NewView
from gossamer.membership.part import Part
from gossamer.membership.view_change import AgreedView, ViewChange
from gossamer.presets import preset
from gossamer.stack import Stack

VIEW = AgreedView(3, tuple(MemberEntry(member, 1, 0) for member in range(5)))


def proposed(have: dict[int, int], kept: dict[int, RangeSet], *, leaving: tuple[int, ...] = ()) -> NewView:
    """By member: how far it has the packets of member 0, and which of them it keeps."""
    change = ViewChange(VIEW, 1, [member for member in VIEW.members if member not in have], now=0.0)
    for member, last in have.items():
        numbers = {0: kept[member]} if member in kept else {}
        change.answers[member] = FlushAnswer(3, 1, {0: last}, numbers)
    return change.propose({}, leaving)


def members(view: NewView) -> list[int]:
    return [entry.member for entry in view.entries]


def test_all_go_on_if_somebody_keeps_what_others_lack():
    view = proposed({0: 9, 1: 5, 2: 9, 3: 7, 4: 9}, {2: RangeSet.span(6, 7), 4: RangeSet.span(8, 9)})
    assert members(view) == [0, 1, 2, 3, 4]
    assert view.cut[0] == 9


def test_a_member_that_lacks_what_nobody_keeps_is_left_out():
    """Member 1 lacks 6 and 7; only 7 is kept. Reference: 003 §8"""
    view = proposed({0: 9, 1: 5, 2: 9, 3: 6, 4: 9}, {2: RangeSet.span(7, 9)})
    assert members(view) == [0, 2, 3, 4]
    assert view.cut[0] == 9
    assert 1 not in view.starts


def test_few_that_have_what_nobody_keeps_are_left_out_and_the_view_ends_before_it():
    """The sender crashed, and its packet 6 came to member 4 alone, which does not keep it."""
    view = proposed({1: 5, 2: 5, 3: 5, 4: 6}, {})
    assert members(view) == [1, 2, 3]
    assert view.cut[0] == 5


def test_of_two_sides_of_a_size_that_with_the_oldest_member_goes_on():
    assert members(proposed({1: 5, 2: 6, 3: 6, 4: 5}, {})) == [1, 4]
    assert members(proposed({1: 6, 2: 6, 3: 5, 4: 5}, {})) == [1, 2]


def test_several_partitions_at_once_leave_members_that_can_go_on_together():
    """Packet 6 is lacked by 3 and 4, packet 8 by member 2 as well."""
    view = proposed({0: 9, 1: 9, 2: 7, 3: 5, 4: 5}, {0: RangeSet.span(7, 7)})
    assert members(view) == [0, 1]
    assert view.cut[0] == 9


def test_what_only_a_member_keeps_that_is_left_out_nobody_keeps():
    """Member 4 goes because of packet 8, which it alone had; packet 6, which member 3 lacks, goes with it."""
    view = proposed({1: 6, 2: 6, 3: 5, 4: 8}, {4: RangeSet.span(6, 7)})
    assert members(view) == [1, 2]
    assert view.cut[0] == 6


def test_a_view_that_some_agreed_to_stands_though_a_member_that_is_not_in_it_has_more():
    """Member 4 was silent when view 4 was proposed without it, and had more all the time: that proves nothing."""
    agreed = NewView(4, 1, [e for e in VIEW.entries if e.member in (0, 1, 2)], {0: 5}, {0: 7, 1: 2, 2: 2}, {0: 0})
    change = ViewChange(VIEW, 2, [0, 3], now=0.0)
    for member, last in ((1, 5), (2, 5), (4, 8)):
        change.answers[member] = FlushAnswer(3, 2, {0: last}, {0: RangeSet.span(0, last)})
    said = change.answers[2]
    said.by, said.accepted_attempt, said.entries = 0, 1, agreed.entries
    said.cut, said.starts = agreed.cut, agreed.starts
    view = change.propose({}, ())
    assert (members(view), view.cut, view.starts) == ([0, 1, 2], agreed.cut, agreed.starts)


def test_a_view_that_some_agreed_to_was_not_decided_if_one_of_its_members_has_more():
    agreed = NewView(4, 1, [e for e in VIEW.entries if e.member in (0, 1, 2)], {0: 5}, {0: 7, 1: 2, 2: 2}, {0: 0})
    change = ViewChange(VIEW, 3, [0, 3], now=0.0)
    for member, last in ((1, 8), (2, 5), (4, 8)):
        change.answers[member] = FlushAnswer(3, 3, {0: last}, {0: RangeSet.span(0, last)})
    said = change.answers[2]
    said.by, said.accepted_attempt, said.entries = 0, 1, agreed.entries
    said.cut, said.starts = agreed.cut, agreed.starts
    assert members(change.propose({}, ())) == [1, 2, 4]


def test_a_member_tries_to_complete_its_view_for_as_long_as_anything_comes():
    """Repairs may be limited, and the view long: whoever leaves then leaves for nothing, and perhaps all do."""
    stack = Stack(0, tuple(range(5)), preset("virtual-synchrony"), Random(1))
    part, message = Part(stack, VIEW), NewView(4, 1, [], {1: 9}, {}, {})
    stack.streams.begin(1, 0)
    part.end_stream(0.0, 1, 9, [])
    assert not part.in_vain(0.0, message, patience=1.5)
    stack.streams[1].accept([Packet(1, 0, b"")])
    assert not part.in_vain(1.4, message, patience=1.5)
    assert not part.in_vain(2.8, message, patience=1.5)
    assert part.in_vain(3.0, message, patience=1.5), "nothing came"
