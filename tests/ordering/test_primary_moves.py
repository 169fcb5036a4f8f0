"""Who publishes most becomes the primary, so that its packets and their places travel together (decision 024)."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.core.effects import UndoDeliveries, Unicast
from gossamer.core.places import CloseGraph, GraphClosed, Places, PlacesKept
from gossamer.sim.checked import traced
from gossamer.sim.scenario import parse
from tests.papers.hand import Letter, Table

BUSY = 3


def group(members: int = 5, **more: Any) -> Table:
    table = Table("rpbcast", members, ordering="total", membership="static", order_patience=1.0, **more)
    table.settle()
    return table


def publish_for(table: Table, seconds: float, *publishers: int) -> None:
    for _ in range(round(seconds * 50)):
        for publisher in publishers:
            table.publish(publisher)
        table.settle()
        table.wait(0.02)


def primaries(table: Table) -> set[int]:
    return {stack.order.standing(table.now)["primary"] for stack in table.stacks.values()}


@pytest.mark.parametrize("order_failures", ["atomic", "non-atomic"])
def test_who_publishes_most_becomes_the_primary_and_nobody_has_to_undo_anything(order_failures):
    table = group(order_failures=order_failures)
    publish_for(table, 0.8, BUSY, BUSY, 0)
    assert primaries(table) == {0}, "not at once"
    publish_for(table, 1.0, BUSY, BUSY, 0)
    assert primaries(table) == {BUSY}
    publish_for(table, 3.0, BUSY, BUSY, 0)
    assert {stack.order.standing(table.now)["graph"] for stack in table.stacks.values()} == {2}, "and stays it"
    table.wait(1.0)
    orders = [[(p.sender, p.seqno) for p in table.delivered[member]] for member in table.stacks]
    assert orders == [orders[0]] * 5
    assert len(orders[0]) == 240 * 3
    assert not any(isinstance(effect, UndoDeliveries) for effects in table.effects.values() for effect in effects)


def test_of_several_that_publish_as_much_nobody_becomes_the_primary():
    table = group()
    publish_for(table, 3.0, 1, 2, 3)
    assert primaries(table) == {0}


def test_the_places_of_the_primary_leave_with_its_packets():
    table = group()
    publish_for(table, 2.0, BUSY)
    table.letters.clear()
    table.publish(BUSY)
    assert any(isinstance(letter.message, Places) for letter in table.letters)


def test_the_primary_stays_where_packets_go_by_way_of_it():
    table = group(dissemination="graph")
    publish_for(table, 3.0, BUSY)
    assert primaries(table) == {0}


def test_a_member_that_is_cut_off_while_it_takes_over_stops_nobody():
    table = group()
    publish_for(table, 0.8, BUSY)

    def heard(letter: Letter) -> bool:
        return not (isinstance(letter.message, CloseGraph | GraphClosed) and BUSY in (letter.source, letter.to))

    for _ in range(60):
        table.publish(BUSY)
        table.wait(0.02, pass_on=False)
        for _ in range(8):
            table.pass_on(heard)
    assert all(not stack.order.blocked() for member, stack in table.stacks.items() if member != BUSY)
    publish_for(table, 3.0, BUSY)
    assert len(primaries(table)) == 1
    assert len({tuple(p.seqno for p in table.delivered[member]) for member in table.stacks}) == 1


def answers(letters: list[Letter]) -> list[int]:
    return sorted(letter.source for letter in letters if isinstance(letter.message, PlacesKept))


@pytest.mark.parametrize(("members", "later"), [(3, True), (4, True), (5, False), (6, False)])
def test_an_answer_may_leave_after_the_event_where_only_the_primary_waits_for_it(members, later):
    table = group(members)
    publish_for(table, 0.5, 0)
    table.effects.clear()
    table.publish(0)
    table.settle()
    said = [e for effects in table.effects.values() for e in effects if isinstance(e, Unicast)]
    assert {effect.later for effect in said if isinstance(effect.message, PlacesKept)} == {later}


def test_only_as_many_sites_answer_as_have_to():
    table = group(9)
    publish_for(table, 0.5, 0)
    table.publish(0)
    table.pass_on()
    assert len(answers(table.letters)) == 4, "with the primary, five of nine"
    table.settle()
    assert len({len(table.delivered[member]) for member in table.stacks}) == 1


def test_if_one_that_was_asked_does_not_answer_all_are_asked_before_the_next_beat():
    table = group(9)
    publish_for(table, 0.5, 0)
    table.publish(0)
    table.pass_on()
    silent = answers(table.letters)[0]
    table.settle()
    table.publish(0)
    before = len(table.delivered[0])
    table.pass_on(lambda letter: letter.to != silent)
    table.pass_on(lambda letter: letter.to != silent)
    assert len(table.delivered[0]) == before, "three answers are not enough"
    table.wait(0.02, pass_on=False)
    for _ in range(5):
        table.pass_on(lambda letter: letter.to != silent)
    assert len(table.delivered[0]) == before + 1


@pytest.mark.parametrize("order_failures", ["atomic", "non-atomic"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_publisher_over_a_bad_line_while_the_primary_and_it_fail(order_failures, seed):
    said = {
        "name": "moves",
        "seed": seed,
        "duration": 6.0,
        "linger": 60.0,
        "grace": 12.0,
        "topology": {"kind": "lan", "members": 7, "latency": 0.002},
        "loss": {"member": 0.05, "reorder": 0.1, "duplicate": 0.02},
        "traffic": {"senders": 1 + seed % 2, "rate": 90.0, "size": 200},
        "protocol": {
            "name": "rpbcast",
            "loggers": 0,
            "ordering": "total",
            "order_failures": order_failures,
            "suspect_after": 0.5,
            "order_patience": 0.5,
        },
        "fault": [
            {"at": 1.5, "kind": "crash", "members": [seed % 3], "memory": "kept", "for": 1.5},
            {"at": 3.5, "kind": "partition", "members": [[0, 1], [2, 3, 4, 5, 6]], "for": 1.5},
        ],
    }
    result = traced(parse(said))
    assert result["violations"] == []
    assert result["outstanding"] == 0
