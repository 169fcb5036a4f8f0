"""What a liar can make of coordinators: little, and it is counted."""

from __future__ import annotations

from time import perf_counter

import pytest

from gossamer.core.effects import Multicast, Unicast
from gossamer.core.inputs import Heard, Received
from gossamer.core.messages import CoordinatorIs, Descendants, IAmCoordinator, Repair
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.repair.coordinator import Coordinator
from gossamer.repair.followers import RANGES_MAX
from tests.papers.hand import Table

STRANGER = 99


@pytest.fixture
def table() -> Table:
    """Four members that have found their coordinator, member 0, and 300 packets of member 1."""
    table = Table("redelivery", 4, service_limit=100, request_packets=64)
    table.wait(1.0)
    for member in (0, 2, 3):
        table.step(member, Received(1, [Packet(1, n, b"x") for n in range(300)], "first_pass"))
    table.wait(1.0)
    table.letters.clear()
    table.effects.clear()
    return table


def follows(table: Table, member: int) -> int | None:
    (rung,) = (repair for repair in table.stacks[member].gaps.repairs if isinstance(repair, Coordinator))
    return rung.tree.coordinator


def repairs(table: Table, member: int) -> int:
    sent = [e for e in table.effects.get(member, []) if isinstance(e, Unicast | Multicast)]
    return sum(isinstance(effect.message, Repair) for effect in sent)


def test_a_desc_of_a_million_ranges_is_refused_and_counted(table):
    wanted = {1: RangeSet((2 * n, 2 * n) for n in range(1_000_000))}
    began = perf_counter()
    table.step(0, Heard(2, Descendants({}, wanted)))
    assert perf_counter() - began < 1.0
    assert table.stacks[0].ignored["descendants beyond measure"] == 1
    table.wait(1.0, pass_on=False)
    assert repairs(table, 0) == 0


def test_a_desc_of_more_members_than_there_are_is_refused_and_counted(table):
    table.step(0, Heard(2, Descendants({}, {}, {n: {} for n in range(10_000)})))
    assert table.stacks[0].ignored["descendants beyond measure"] == 1


def test_descendants_that_are_no_members_are_counted_and_get_nothing(table):
    wanted = {1: RangeSet([(0, 9)])}
    table.step(0, Heard(2, Descendants({}, {}, {STRANGER: wanted, 3: wanted})))
    table.wait(1.0, pass_on=False)
    assert table.stacks[0].ignored["descendants that are no members"] == 1
    assert {letter.to for letter in table.take(Repair)} == {3}


def test_a_desc_that_asks_for_everything_costs_no_more_than_the_service_limit(table):
    everything = Descendants({}, {}, {3: {}}, complete=True)
    for _ in range(50):
        table.step(0, Heard(2, everything))
    table.wait(1.0, pass_on=False)
    assert 0 < repairs(table, 0) <= 100


def test_a_member_that_is_asked_to_send_to_all_sends_no_more_than_the_service_limit(table):
    """Any member may be asked to multicast what it has: a liar can name everybody, again and again."""
    wanted = {1: RangeSet([(0, 299)])}
    for _ in range(50):
        table.step(3, Heard(2, Descendants({}, wanted, {0: {}, 1: {}, STRANGER: {}})))
    table.wait(1.0, pass_on=False)
    assert 0 < repairs(table, 3) <= 100
    assert table.stacks[3].ignored["descendants that are no members"] == 50


def test_what_is_remembered_of_what_a_member_asks_for_is_bounded(table):
    (rung,) = (repair for repair in table.stacks[0].gaps.repairs if isinstance(repair, Coordinator))
    for first in range(0, 1_000_000, 10_000):
        numbers = RangeSet((first + 2 * n, first + 2 * n) for n in range(1000))
        table.step(0, Heard(2, Descendants({}, {9: numbers})))
        table.wait(0.3, pass_on=False)
    known = rung.descent.followers
    for table_of in (known.lacking_of(2), known._asked.get(2, {})):
        assert sum(numbers.range_count() for numbers in table_of.values()) <= RANGES_MAX


@pytest.mark.parametrize("message", [IAmCoordinator({1: 5000}), Descendants({1: 5000}, {1: RangeSet([(1, 2)])})])
def test_a_stranger_neither_leads_nor_follows(table, message):
    table.step(0, Heard(STRANGER, message))
    assert follows(table, 0) == 0
    assert table.stacks[0].ignored["not from a member"] == 1
    assert not table.stacks[0].streams[1].missing


def test_a_member_that_may_not_lead_is_not_followed(table):
    table.step(1, Heard(3, IAmCoordinator({})))
    table.step(2, Heard(3, CoordinatorIs(3, 1)))
    assert (follows(table, 1), follows(table, 2)) == (0, 0)


def test_numbers_that_cannot_be_are_not_believed(table):
    table.step(2, Heard(0, IAmCoordinator({1: 1 << 60, STRANGER: 1 << 61})))
    assert table.stacks[2].ignored["numbers too high"] == 2
    assert not table.stacks[2].streams[1].missing


def test_forged_coordinators_do_not_make_a_member_talk(table):
    """Whoever says that it leads, a member that follows one tells everything only if it was alone before."""
    for _ in range(100):
        table.step(3, Heard(1, IAmCoordinator({})))
        table.step(3, Heard(0, IAmCoordinator({})))
    assert not table.take(Descendants)
    table.wait(5.0)
    assert follows(table, 3) == 0
