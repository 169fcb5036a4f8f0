"""Lies about the one order: refused and counted, and nothing is delivered out of order.

A group in the open cannot tell who speaks: what a member may say, an attacker can say in its name. What such lies cost
is in docs/security.md; here is what they do not.
"""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.core.arrival import arrival
from gossamer.core.places import (
    CloseGraph,
    EnterOrder,
    GraphClosed,
    OrderBegins,
    Places,
    PlacesKept,
    PlacesWanted,
    Segment,
    Sites,
    Unplaced,
)
from gossamer.core.schema import SettingError
from gossamer.presets import preset
from tests.papers.hand import Table

PRIMARY, SITE, OTHER, FOURTH, FIFTH = range(5)
STRANGER = 77
FAR = 1 << 59
MEMBERS = range(5)


def table_of() -> Table:
    """Five members with one order, each of which has published."""
    table = Table("rpbcast", 5, ordering="total", order_patience=1.0, membership="static", loggers=())
    say_something(table)
    return table


def say_something(table: Table) -> None:
    for member in MEMBERS:
        table.publish(member, 2)
        table.settle()


def tell_all(table: Table, source: int, message: Any) -> None:
    for member in MEMBERS:
        if member != source:
            table.step(member, arrival(source, message))


def expect_one_order(table: Table, count: int) -> None:
    """Everybody delivers everything that was published, in one order."""
    orders = [[(packet.sender, packet.seqno) for packet in table.delivered[member]] for member in MEMBERS]
    assert orders == [orders[0]] * len(MEMBERS)
    assert len(orders[0]) == count
    assert sorted(orders[0]) == sorted((sender, n) for sender in MEMBERS for n in range(count // len(MEMBERS)))


def ignored(table: Table, why: str) -> int:
    return sum(stack.ignored[why] for stack in table.stacks.values())


FORGED = [
    PlacesKept(0, 1, 0, 5),
    PlacesWanted(0, 0),
    EnterOrder(7, True, {}),
    OrderBegins(0, 0, 1000, 1, {0: 50}, STRANGER, {STRANGER: 0}),
    CloseGraph(0, 2),
    GraphClosed(0, 2, STRANGER, 0, 1, 1000, 1000),
    Unplaced({0: 500}),
]


@pytest.mark.parametrize("message", FORGED, ids=lambda message: type(message).__name__)
def test_what_a_stranger_says_of_the_order_is_refused_and_counted(message):
    """Reference: the protocol's members are the only ones that give, keep and close."""
    table = table_of()
    tell_all(table, STRANGER, message)
    assert not table.letters, "nobody answers"
    assert ignored(table, "about the order, from a stranger") == len(MEMBERS)
    say_something(table)
    expect_one_order(table, 20)
    assert table.stacks[SITE].order.standing(table.now)["graph"] == 1


def test_places_from_a_stranger_are_refused_and_counted():
    table = table_of()
    tell_all(table, STRANGER, Places(0, 9, 0, 0, 50, [Segment(9, PRIMARY, 0, 50)]))
    assert ignored(table, "places from a stranger") == len(MEMBERS)
    say_something(table)
    expect_one_order(table, 20)


@pytest.mark.parametrize(
    "message",
    [CloseGraph(0, FAR), GraphClosed(0, FAR, OTHER, 0, 1, 5, 5), Places(0, FAR, 0, 0, 0, [])],
    ids=lambda message: type(message).__name__,
)
def test_a_manager_that_lies_about_its_graph_number_is_refused_and_counted(message):
    table = table_of()
    tell_all(table, OTHER, message)
    assert ignored(table, "graphs from the future") == len(MEMBERS) - 1
    assert table.stacks[PRIMARY].order.sequence.leads()
    say_something(table)
    expect_one_order(table, 20)


def test_places_from_the_future_are_refused_and_counted():
    table = table_of()
    tell_all(table, PRIMARY, Places(0, 1, 1 << 62, 1, 0, [Segment(1, OTHER, 0, 1 << 62)]))
    assert ignored(table, "places from the future") == len(MEMBERS) - 1
    say_something(table)
    expect_one_order(table, 20)


def test_a_site_that_says_it_keeps_what_nobody_gave_settles_nothing():
    table = table_of()
    before = table.stacks[PRIMARY].order.sequence.settled
    for site in (SITE, OTHER, FOURTH, FIFTH):
        table.step(PRIMARY, arrival(site, PlacesKept(0, 1, 0, FAR)))
    assert table.stacks[PRIMARY].ignored["places that nobody gave"] == 4
    assert table.stacks[PRIMARY].order.sequence.settled == before
    say_something(table)
    expect_one_order(table, 20)


def test_a_site_that_keeps_in_another_life_settles_nothing():
    table = table_of()
    table.publish(PRIMARY)
    table.letters.clear()
    end = table.stacks[PRIMARY].order.sequence.log.end
    for site in (SITE, OTHER, FOURTH, FIFTH):
        table.step(PRIMARY, arrival(site, PlacesKept(0, 1, 12345, end)))
    assert table.stacks[PRIMARY].order.sequence.settled < end


def test_what_is_settled_cannot_be_given_again_to_others():
    """Another order of the same packets, in the primary's own name, in a later graph."""
    table = table_of()
    log = table.stacks[SITE].order.sequence.log
    lie = [Segment(2, sender, 0, 2) for sender in reversed(MEMBERS)]
    tell_all(table, OTHER, Places(0, 2, 1, log.graph_before(1), log.end, lie))
    assert ignored(table, "other places than those that are settled") == len(MEMBERS) - 1
    assert all(len(table.delivered[member]) == 10 for member in MEMBERS), "and nothing was delivered again"


def test_a_beginning_that_nobody_asked_for_moves_nobody():
    table = table_of()
    for life in (0, 5):
        tell_all(table, PRIMARY, OrderBegins(0, life, 0, 0, {}, OTHER, {OTHER: 0}))
    tell_all(table, OTHER, OrderBegins(0, 99, 500, 1, {0: 400}, OTHER, {OTHER: 0}))
    say_something(table)
    expect_one_order(table, 20)


def test_a_close_of_a_graph_that_is_never_opened_costs_a_pause_and_nothing_else():
    """An insider can stop the order for `order_patience`; then another site opens the next graph."""
    table = table_of()
    tell_all(table, OTHER, CloseGraph(0, 1000))
    table.letters.clear()  # who closed it does not know
    table.wait(10.0)
    say_something(table)
    table.wait(5.0)
    assert table.stacks[SITE].order.standing(table.now)["graph"] > 1000
    expect_one_order(table, 20)


@pytest.mark.parametrize("word", ["total", "central"])
def test_an_order_that_does_not_fit_other_settings_is_refused(word):
    with pytest.raises(SettingError, match=f"ordering = {word}: cannot be combined with protocol.membership"):
        preset("virtual-synchrony", {"ordering": word})


def test_sites_are_most_only_with_more_than_half_of_them():
    sites = Sites(0, dict.fromkeys(range(5), 0))
    assert not sites.are_most([0, 1])
    assert sites.are_most([1, 2, 3])
    assert not Sites(0, dict.fromkeys(range(4), 0)).are_most([1, 2])
    assert Sites(0, dict.fromkeys(range(4), 0)).are_most([0, 2])
