"""Senders that came, published and left are forgotten, and nobody that was away suffers for it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence, Set
from itertools import islice
from random import Random
from time import process_time
from typing import Any

import pytest

from gossamer.core.effects import Multicast, Unicast
from gossamer.core.inputs import Disconnecting, Heard, LeaveAsked, Received, Reconnected, Woke
from gossamer.core.messages import Data, Gossip, Heartbeats, Join, Leave, ViewUpdate
from gossamer.core.packets import Packet
from gossamer.core.streams import rest_of
from gossamer.core.views import MemberEntry
from gossamer.membership.view import JOINING, LEFT, MEMBER
from gossamer.stack import Stack
from gossamer.wire.codec import size
from tests.papers.hand import Letter, Table

ONE, TWO, LOGGER, GUEST = range(4)
USUAL = {"membership": "sponsored", "ordering": "fifo", "suspect_after": 1.0, "gossip_period": 0.1}
REST_S = 12.0


def table_with(loggers: tuple[int, ...] = (LOGGER,), **settings: Any) -> Table:
    """Members that suspect each other, so that they know who is away."""
    return Table("rpbcast", 3, loggers=loggers, **{**USUAL, "repair": ["negative", "logger"], **settings})


def visit(table: Table, guest: int = GUEST, packets: int = 3) -> None:
    """Somebody joins, publishes and leaves."""
    table.seat(guest, ())
    table.wait(2.0)
    assert table.stacks[guest].is_member
    table.publish(guest, packets)
    table.wait(1.0)
    table.step(guest, LeaveAsked())
    table.wait(1.0)
    del table.stacks[guest]


def crowd(stack: Stack, visitors: range, now: float) -> None:
    """As `stack` sees it: each joins, publishes a packet and leaves."""
    for guest in visitors:
        stack.step(now, Heard(guest, ViewUpdate([MemberEntry(guest, MEMBER, 1)])))
        stack.step(now, Received(guest, [Packet(guest, 0, b"x")], "send"))
        stack.step(now, Heard(guest, Leave(2)))


def idle(stack: Stack, until: float) -> list[Any]:
    """Nothing happens but that time goes by."""
    effects = []
    while (at := stack.next_deadline()) <= until:
        effects += stack.step(at, Woke())
    return effects


def test_a_sender_that_left_is_forgotten_by_all():
    table = table_with()
    visit(table)
    assert all(GUEST in stack.streams for stack in table.stacks.values())
    table.wait(REST_S + 5)
    for stack in table.stacks.values():
        assert GUEST not in stack.streams
        assert all(GUEST not in known for known in stack.acknowledged.values())
    assert not table.holdings(LOGGER)  # all had it before it was forgotten
    table.letters.clear()
    table.wait(5.0, pass_on=False)
    assert not [letter for letter in table.letters if GUEST in getattr(letter.message, "seen", {})]
    assert not [letter for letter in table.letters if isinstance(letter.message, Heartbeats)]


def test_a_member_that_is_there_is_not_forgotten_however_long_it_is_silent():
    table = table_with()
    table.publish(ONE)
    table.wait(3 * REST_S)
    assert all(ONE in stack.streams for stack in table.stacks.values())


def test_a_late_duplicate_is_not_delivered_again():
    table = table_with()
    visit(table)
    table.wait(REST_S + 5)
    packets = [p for p in table.delivered[ONE] if p.sender == GUEST]
    assert len(packets) == 3
    for packet in packets:
        table.hand(Letter(GUEST, ONE, Data(packet)))
    table.hand(Letter(TWO, ONE, Heartbeats({GUEST: 2}, answer=False)))
    table.wait(REST_S + 5)
    assert table.numbers(ONE, GUEST) == [0, 1, 2]
    assert not table.lost.get(ONE)
    assert GUEST not in table.stacks[ONE].streams


@pytest.mark.parametrize("loggers", [(LOGGER,), ()])
def test_a_member_that_was_away_hears_of_senders_that_came_and_left(loggers):
    table = table_with(loggers, gc_rounds=10 if loggers else 10_000)  # somebody must have it
    table.step(TWO, Disconnecting())
    table.settle()
    away = table.stacks.pop(TWO)
    visit(table)
    table.wait(3 * REST_S)
    assert GUEST not in table.stacks[LOGGER].streams
    table.stacks[TWO] = away
    table.step(TWO, Reconnected())
    table.wait(10.0)
    assert table.numbers(TWO, GUEST) == [0, 1, 2]
    assert table.numbers(ONE, GUEST) == [0, 1, 2]
    table.wait(2 * REST_S)
    assert all(GUEST not in stack.streams for stack in table.stacks.values())
    assert not table.holdings(LOGGER)


def test_a_member_that_was_cut_off_hears_of_senders_that_came_and_left():
    table = table_with(gc_rounds=1)
    cut_off = table.stacks.pop(TWO)
    visit(table)
    table.wait(3 * REST_S)
    assert GUEST not in table.stacks[ONE].streams
    assert list(table.holdings(LOGGER)) == [GUEST]
    table.stacks[TWO] = cut_off
    table.wait(20.0)
    assert table.numbers(TWO, GUEST) == [0, 1, 2]


def test_a_newcomer_is_not_owed_what_a_sender_that_left_had_sent():
    table = table_with(retention_age=1e12)
    visit(table)
    slow = table.stacks[TWO]  # it retires it later
    table.wait(5.0)
    for member in (ONE, LOGGER):
        table.stacks[member].retire(table.now, GUEST)
    table.seat(9, ())
    table.wait(2.0)
    assert table.stacks[9].is_member
    assert GUEST in slow.streams
    table.hand(Letter(TWO, 9, Heartbeats({GUEST: 2}, answer=False)))
    table.wait(5.0)
    assert not table.numbers(9, GUEST)
    assert not table.lost.get(9)


def test_a_sender_that_comes_back_under_its_name_goes_on_above_its_old_numbers():
    table = table_with(recovery="at-least-once", send_buffer=10)
    visit(table)
    table.wait(REST_S + 5)
    assert GUEST not in table.stacks[ONE].streams
    table.seat(GUEST, ())
    table.wait(3.0)
    table.publish(GUEST, 2)
    table.wait(5.0)
    first = table.stacks[GUEST].first_number
    assert first > 2
    for member in (ONE, TWO):
        assert table.numbers(member, GUEST) == [0, 1, 2, first, first + 1]
        assert not table.lost.get(member)


def test_a_gap_keeps_a_sender_from_being_forgotten():
    table = table_with(loggers=(), loss_patience=1e6)
    table.hand(Letter(GUEST, ONE, Data(Packet(GUEST, 1, b"x"))))
    table.wait(2 * REST_S)
    assert GUEST in table.stacks[ONE].streams


def test_twenty_thousand_that_came_and_left_cost_nothing():
    """What an idle logger says and does, and what a newcomer is told, is as in a new group."""
    table = table_with()
    stack = table.stacks[LOGGER]
    visitors = range(1000, 21_000)
    now = 0.0
    for first in visitors[::100]:
        crowd(stack, range(first, first + 100), now)
        now += 0.05
        idle(stack, now)
    idle(stack, now + rest_of(stack.settings) + 5)
    now += rest_of(stack.settings) + 5
    assert not stack.streams.keys() & set(visitors)
    began = process_time()
    said = [e.message for e in idle(stack, now + 10.0) if isinstance(e, Unicast | Multicast)]
    assert process_time() - began < 2.0  # of ten seconds
    assert sum(map(size, said)) < 50_000
    answers = stack.step(now + 10.0, Heard(9, Join(MemberEntry(9, JOINING, 5))))
    (told,) = [e.message for e in answers if isinstance(e, Unicast) and isinstance(e.message, ViewUpdate)]
    assert size(told) < 1000
    assert all(entry.status != LEFT for entry in told.entries)


def test_a_gossip_acknowledges_many_senders_in_turns():
    table = table_with(suspect_after=0.0)
    for sender in range(1000, 2200):
        table.stacks[ONE].streams.begin(sender, 1)
    said = [table.gossip(ONE, LOGGER).seen for _ in range(3)]
    assert max(map(len, said)) <= 500
    assert {sender for seen in said for sender in seen} >= set(range(1000, 2200))
    assert isinstance(table.gossip(ONE, LOGGER), Gossip)


# State that grows with the number of senders there ever were

AT_A_TIME = 500


def large_tables(thing: Any, limit: int, path: str = "stack", seen: set[int] | None = None) -> dict[str, int]:
    """Every container within reach of an object that has more than `limit` entries."""
    seen = set() if seen is None else seen
    found: dict[str, int] = {}
    if id(thing) in seen or isinstance(thing, int | float | str | bytes | type | Random | None):
        return found
    seen.add(id(thing))
    if isinstance(thing, Mapping | Sequence | Set | deque) and len(thing) > limit:
        found[path] = len(thing)
    items = thing.items() if isinstance(thing, Mapping) else enumerate(thing) if isinstance(thing, Sequence) else ()
    inside = [(f"{path}[{key}]", value) for key, value in islice(items, 100)]
    names = {
        *getattr(thing, "__dict__", ()),
        *(n for kind in type(thing).__mro__ for n in getattr(kind, "__slots__", ())),
    }
    inside += [(f"{path}.{name}", getattr(thing, name)) for name in sorted(names) if hasattr(thing, name)]
    inside += [(path, thing.__self__)] if hasattr(thing, "__self__") else []
    for where, value in inside:
        found |= large_tables(value, limit, where, seen)
    return found


def together(stack: Stack, now: float, until: float, visitors: range = range(0)) -> list[Any]:
    """Time goes by; the others live, have everything of these visitors, and say so."""
    effects = []
    while now < until:
        for member in {ONE, TWO, LOGGER} - {stack.me}:
            seen = dict.fromkeys(visitors, 0)
            effects += stack.step(now, Heard(member, Gossip(seen=seen, view=stack.roster.signature)))
        now = min(until, now + 0.5)
        effects += idle(stack, now)
    return effects


def be_visited(stack: Stack, visitors: int) -> float:
    """So many come and go, and time goes by until they are forgotten; returns how late it is then."""
    now = 0.0
    for first in range(1000, 1000 + visitors, AT_A_TIME):
        some = range(first, first + AT_A_TIME)
        crowd(stack, some, now)
        together(stack, now, now + 0.25, some)
        now += 0.25
    later = now + 2 * rest_of(stack.settings) + visitors / 200  # it takes time to look at all of them
    together(stack, now, later)
    return later


def left_by(visitors: int, who: int, **settings: Any) -> dict[str, int]:
    """The large tables of a stack that so many have visited."""
    stack = table_with(**settings).stacks[who]
    be_visited(stack, visitors)
    large = large_tables(stack, visitors // 5)
    return {path.rpartition(".")[2]: size for path, size in large.items()}


ONLY_WHERE_THEY_STOPPED = {"_retired", "_tombstones", "_left"}
"""That, and that they left, is known for some time, of the latest."""
KEEPING = [{}, {"retention_age": 10.0}, {"retention_bytes": 1000}]


@pytest.mark.parametrize(("who", "kept"), [(ONE, {}), *((LOGGER, kept) for kept in KEEPING)], ids=str)
def test_twenty_thousand_visitors_leave_only_where_they_stopped(who, kept):
    assert left_by(20_000, who, **kept).keys() == ONLY_WHERE_THEY_STOPPED


@pytest.mark.soak
@pytest.mark.parametrize(("who", "kept"), [(ONE, {}), *((LOGGER, kept) for kept in KEEPING)], ids=str)
def test_two_hundred_thousand_visitors_leave_only_where_the_latest_stopped(who, kept):
    left = left_by(200_000, who, **kept)
    assert left.keys() == ONLY_WHERE_THEY_STOPPED
    assert max(left.values()) == 100_000


def test_an_idle_logger_that_was_visited_does_no_more_than_a_new_one():
    """Also if it keeps everything that the visitors said."""
    costs = []
    for visitors in (AT_A_TIME, 20_000):
        stack = table_with(retention_age=7 * 86_400.0).stacks[LOGGER]
        now = be_visited(stack, visitors)
        counted = Counter(type(e).__name__ for e in together(stack, now, now + 100.0))
        began = process_time()
        together(stack, now + 100.0, now + 200.0)
        costs.append((counted, process_time() - began))
    (new, new_s), (visited, visited_s) = costs
    assert visited.total() < 2 * new.total()
    assert visited_s < 3 * new_s + 0.5  # of a hundred seconds
