"""Non-atomic failures, live: members that were cut off undo what they delivered alone. Reference: 002 §5.2.1"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

import gossamer
from gossamer.live.group import Group
from gossamer.live.impair import ImpairedTransport
from gossamer.live.subscription import Undo
from gossamer.wire.events import Event
from tests.live.members import GROUP, joined, run, settings, until


def hasty(**changes):
    tuning = {"order_patience": 0.5, "suspect_after": 30.0}
    return settings(order="total", order_failures="non-atomic", coalesce_us=0, tuning=tuning, **changes)


def follow(group, history: list, undone: list) -> asyncio.Task:
    """An application that keeps what it got, and takes back what it has to."""
    return asyncio.create_task(_follow(group.subscribe(">", losses="skip"), history, undone))


async def _follow(stream, history: list, undone: list) -> None:
    async for item in stream:
        if isinstance(item, Undo):
            again = [event for event in history if item.covers(event)]
            assert {(event.sender, event.seqno) for event in again} == set(item.packets)
            undone += again
            history[:] = [event for event in history if not item.covers(event)]
            item.ack()
        elif isinstance(item, Event):
            history.append(item)


def told(history: list) -> list[tuple[bytes, tuple[int, int, int]]]:
    return [(event.payload, event.place) for event in history]


def test_without_failures_everything_is_delivered_in_one_order_and_nothing_is_undone():
    async def story():
        async with joined(5, hasty(), loss=0.03) as groups:
            histories: list[list] = [[] for _ in groups]
            tasks = [follow(g, h, []) for g, h in zip(groups, histories, strict=True)]
            for number in range(60):
                for at, group in enumerate(groups):
                    group.publish(f"from.{at}", b"%d %d" % (at, number))
                await asyncio.sleep(0.002)
            await until(lambda: all(len(history) == 300 for history in histories))
            assert all(told(history) == told(histories[0]) for history in histories)
            assert not any(group.stats()["order"]["undone"] for group in groups)
            for task in tasks:
                task.cancel()

    run(story())


def test_members_that_were_cut_off_undo_what_they_delivered_alone_and_get_it_again_in_its_place():
    async def story():
        shared, side, apart = hasty(), {}, [False]

        def on(which):
            def line(endpoint) -> ImpairedTransport:
                made = ImpairedTransport(endpoint)
                side[made.address] = which
                return made.partition(lambda address: apart[0] and side.get(address, which) != which)

            return line

        async with AsyncExitStack() as stack:
            groups = [await stack.enter_async_context(Group(GROUP, shared, on(which))) for which in "aabbb"]
            await until(lambda: all(len(g.stats()["order"].get("sites", [])) == 5 for g in groups))
            primary = groups[0].stats()["order"]["primary"]
            histories, undone = [[] for _ in groups], [[] for _ in groups]
            followed = zip(groups, histories, undone, strict=True)
            tasks = [follow(*words) for words in followed]
            for group in groups:
                group.publish("before", b"before %d" % group.me)
            await until(lambda: all(len(history) == 5 for history in histories))
            assert primary == groups[0].me, "the founder"
            await asyncio.sleep(0.3)
            apart[0] = True
            groups[1].publish("alone", b"alone")
            groups[0].publish("alone", b"alone, too")
            await until(lambda: all(len(history) == 7 for history in histories[:2]))
            groups[4].publish("meanwhile", b"meanwhile")
            await until(lambda: all(len(history) == 6 for history in histories[2:]))
            apart[0] = False
            groups[3].publish("after", b"after")
            await until(lambda: all(len(history) == 9 for history in histories))
            assert all(told(history) == told(histories[0]) for history in histories)
            assert not any(undone[2:]), "only those that were cut off have to undo anything"
            for some in undone[:2]:  # and perhaps what the old primary placed before it heard of the new one
                assert (
                    {b"alone", b"alone, too"}
                    <= {event.payload for event in some}
                    <= {b"alone", b"alone, too", b"after"}
                )
            undos = groups[0].stats()["order"]["undos"]
            assert undos["told"] == undos["done"] > 0
            for task in tasks:
                task.cancel()

    run(story())


def test_an_undo_that_is_acknowledged_twice_is_refused():
    done: list[int] = []
    undo = Undo((7, 0, 0), [(1, 5), (2, 3)], lambda: done.append(1))
    undo.ack()
    with pytest.raises(gossamer.Misuse, match="acknowledged already"):
        undo.ack()
    assert done == [1]
