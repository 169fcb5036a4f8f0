"""Subscriptions that call a function, at the end and when it goes wrong; replies that nobody reads to the end."""

from __future__ import annotations

import asyncio
import gc
import sys
import time

import gossamer
from tests.live.members import GROUP, joined, run, settings


def test_a_blocking_member_that_leaves_lets_its_callbacks_take_what_has_come():
    taken = []

    def take(event: gossamer.Event) -> None:
        time.sleep(0.005)
        taken.append(event.payload)

    with gossamer.join_sync(GROUP, settings()) as group:
        group.subscribe("a", callback=take)
        for n in range(40):
            group.publish("a", b"%d" % n)
    assert taken == [b"%d" % n for n in range(40)]


def test_a_callback_may_be_what_leaves_a_blocking_group():
    group = gossamer.open_sync(GROUP, settings())
    left = []

    def leave(event: gossamer.Event) -> None:
        group.close()
        left.append(event.payload)

    group.subscribe("a", callback=leave)
    group.publish("a", b"go")
    end = time.monotonic() + 10
    while not left and time.monotonic() < end:
        time.sleep(0.01)
    assert left == [b"go"]


def test_a_callback_that_awaited_something_cancelled_is_called_again():
    heard = []

    async def await_something_cancelled(event: gossamer.Event) -> None:
        heard.append(event.payload)
        task = asyncio.ensure_future(asyncio.sleep(10))
        task.cancel()
        await task

    async def story() -> None:
        async with joined(1, settings()) as (group,):
            group.subscribe("a", callback=await_something_cancelled)
            for n in range(3):
                group.publish("a", b"%d" % n)
            while len(heard) < 3:
                await asyncio.sleep(0.01)

    run(story())
    assert heard == [b"0", b"1", b"2"]


def test_what_a_worker_that_leaves_has_not_begun_is_done_by_the_other_alone():
    done: list[tuple[int, bytes]] = []

    def worker(number: int, seconds: float):
        async def do(event: gossamer.Event) -> None:
            await asyncio.sleep(seconds)
            done.append((number, event.payload))

        return do

    async def story() -> None:
        async with joined(2, settings()) as (stays, boss):
            async with gossamer.join(GROUP, boss.settings) as leaves:
                stays.subscribe("a", queue="workers", callback=worker(0, 0))
                leaves.subscribe("a", queue="workers", callback=worker(1, 0.05))
                await asyncio.sleep(0.5)
                for n in range(20):
                    boss.publish("a", b"%d" % n)
                    await boss.flush()
                while not any(number for number, _ in done):
                    await asyncio.sleep(0.01)
            while len({payload for _, payload in done}) < 20:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)

    run(story())
    twice = len(done) - 20
    assert twice <= 1, "the one that it was doing when it left"


def test_replies_that_come_for_as_long_as_anybody_is_there_end_when_all_have_left():
    async def story() -> None:
        async with joined(1, settings()) as (customer,):
            async with gossamer.join(GROUP, customer.settings) as clerk:
                clerk.subscribe("price", callback=lambda asked: asked.reply(b"1"))
                while len(customer.members()) < 2:
                    await asyncio.sleep(0.01)
                replies = customer.request_many("price", timeout=None)
                assert (await anext(replies)).payload == b"1"
            assert [reply async for reply in replies] == []

    run(story())


def test_replies_that_nobody_read_to_the_end_can_be_dropped_after_the_group_was_left(monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    with gossamer.join_sync(GROUP, settings()) as group:
        group.subscribe("price", callback=lambda asked: asked.reply(b"1"))
        replies = group.request_many("price", timeout=5)
        assert next(replies).payload == b"1"
    del replies
    gc.collect()
    assert ignored == []
