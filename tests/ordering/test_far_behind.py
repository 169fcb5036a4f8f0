"""A member that is further behind than the places that the primary keeps: others may keep more."""

from __future__ import annotations

from tests.papers.hand import Table

PRIMARY, BEHIND = 0, 4
MEMBERS = range(5)


def published(forgetful: tuple[int, ...]) -> Table:
    """One member misses most of what is published, and some of the others then forget the places of that."""
    table = Table("rpbcast", 5, ordering="total", order_patience=1.0, membership="static", gc_rounds=10_000)
    table.wait(1.0)
    say_something(table)
    away = table.stacks.pop(BEHIND)
    for _ in range(5):
        say_something(table)
    for member in forgetful:
        log = table.stacks[member].order.sequence.log
        log.drop(1, log.end)
        assert log.begin > away.order.sequence.log.end
    table.stacks[BEHIND] = away
    table.wait(30.0)
    return table


def say_something(table: Table) -> None:
    for member in (PRIMARY, 1, 2):
        table.publish(member)
        table.settle()


def test_a_member_that_is_behind_the_primary_asks_other_sites():
    """The primary came later than it did, or has lost its memory."""
    table = published((PRIMARY,))
    orders = [[(packet.sender, packet.seqno) for packet in table.delivered[member]] for member in MEMBERS]
    assert orders == [orders[0]] * len(MEMBERS)
    assert len(orders[0]) == 18
    assert BEHIND not in table.lost


def test_what_nobody_keeps_the_places_of_is_lost():
    table = published((PRIMARY, 1, 2, 3))
    assert sum(loss.last - loss.first + 1 for loss in table.lost[BEHIND]) > 10
    say_something(table)
    table.wait(5.0)
    assert table.delivered[BEHIND][-3:] == table.delivered[PRIMARY][-3:]
