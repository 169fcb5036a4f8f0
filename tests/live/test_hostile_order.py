"""What a stranger with a socket can do to the one order of an open group, by lies that are well-formed: not much.

What it can do in the name of a member is in docs/security.md. Reference: 002 §5.1, numbered graphs
"""

from __future__ import annotations

import asyncio

import pytest

from gossamer.core.places import (
    CloseGraph,
    EnterOrder,
    GraphClosed,
    OrderBegins,
    Places,
    PlacesKept,
    PlacesWanted,
    Segment,
    Unplaced,
)
from gossamer.ordering.sequence import Sequence
from tests.live.members import collect, joined, run, until
from tests.live.test_hostile import Liar, liar
from tests.live.test_order import ordered, publish, seen

STRANGER = 4711
FAR = 1 << 59
REFUSED = "places from a stranger", "about the order, from a stranger", "too much from strangers"


def dropped(group, *why: str) -> int:
    return sum(group.stats()["dropped"].get(each, 0) for each in why)


def about(group) -> Sequence:
    return group._member.stack.order.sequence


async def publish_among_lies(groups, lie) -> None:
    """Everybody publishes while somebody lies; all see everything in one order, and nobody is blocked then."""
    streams = [group.subscribe(">") for group in groups]
    publishing = asyncio.gather(*(publish(group, f"from.{at}", 100) for at, group in enumerate(groups)))
    while not publishing.done():
        lie()
        await asyncio.sleep(0.01)
    await publishing
    heard = [seen(await collect(stream, 300)) for stream in streams]
    assert heard[0] == heard[1] == heard[2]
    assert [place for _, place in heard[0]] == sorted(place for _, place in heard[0])
    assert not any(group.blocked() for group in groups)


def forged(order: int, graph: int) -> list:
    """One of each kind, of the group's own order, and true to its numbers as far as that helps the lie."""
    return [
        Places(order, graph, 0, 0, 1000, [Segment(graph, STRANGER, 0, 1000)]),
        Places(order, graph + 1, 0, 0, 1000, [Segment(graph + 1, STRANGER, 0, 1000)]),
        PlacesKept(order, graph, 0, 1000),
        PlacesWanted(order, 0),
        EnterOrder(1, True, {}),
        OrderBegins(order, 0, 1000, graph, {}, STRANGER, {STRANGER: 0}),
        CloseGraph(order, graph + 1),
        GraphClosed(order, graph + 1, STRANGER, 0, graph, 1000, 1000),
        Unplaced({STRANGER: 1000}),
    ]


def test_what_a_stranger_says_of_the_order_is_refused_and_counted():
    async def story():
        shared = ordered()
        async with joined(3, shared) as groups:
            await until(lambda: all(about(group).graph for group in groups))
            with liar(shared) as stranger:
                graph = about(groups[0]).graph

                said = 0

                def lie() -> None:
                    nonlocal said
                    said += 1
                    for message in forged(about(groups[0]).order, graph):
                        stranger.say(STRANGER, message)

                await publish_among_lies(groups, lie)
                for group in groups:
                    await until(lambda group=group: dropped(group, *REFUSED) == 9 * said)
                    assert all(dropped(group, why) for why in REFUSED[:2])
                    assert about(group).graph == graph, "nobody had to take over"

    run(story())


@pytest.mark.parametrize("name", ["primary", "another"])
def test_numbers_from_the_future_are_refused_in_whosever_name(name):
    async def story():
        shared = ordered()
        async with joined(3, shared) as groups:
            await until(lambda: all(about(group).graph for group in groups))
            first = about(groups[0])
            graph, order = first.graph, first.order
            source = next(g.me for g in groups if (g.me == first.primary) == (name == "primary"))
            with liar(shared) as stranger:
                await publish_among_lies(groups, lambda: future(stranger, source, order, graph))
                for group in groups:
                    if group.me != source:
                        await until(lambda group=group: dropped(group, "graphs from the future") > 5)
                        await until(lambda group=group: dropped(group, "places from the future") > 1)
            assert all(about(group).graph == graph for group in groups)

    run(story())


def future(stranger: Liar, source: int, order: int, graph: int) -> None:
    stranger.say(source, CloseGraph(order, FAR))
    stranger.say(source, GraphClosed(order, FAR, source, 0, graph, 5, 5))
    stranger.say(source, Places(order, FAR, 0, 0, 1000, []))
    stranger.say(source, Places(order, graph, 1 << 62, graph, 0, [Segment(graph, source, 0, 5)]))
    stranger.say(source, PlacesKept(order, graph, 0, FAR))
