"""Processes that nobody answered found a group; when they meet others, it becomes one, and a newcomer hears no past."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from gossamer.live.group import Group
from gossamer.live.impair import ImpairedTransport
from tests.live.members import GROUP, collect, payloads, run, settings, until


def deaf(endpoint) -> ImpairedTransport:
    """What it says can be heard, but it hears nothing."""
    return ImpairedTransport(endpoint).partition(lambda address: True)


def cut_off(endpoint) -> ImpairedTransport:
    """It neither hears nor is heard."""
    line = deaf(endpoint)
    line.send_to_group = lambda datagrams: 0
    return line


def connect(*groups: Group) -> None:
    for group in groups:
        group._member._transport.heal()
        group._member._transport.__dict__.pop("send_to_group", None)


async def met(*groups: Group) -> None:
    """All are members of one group, and know it."""
    await until(lambda: all(len(g.members()) == len(groups) and g._member.stack.is_member for g in groups))
    await until(lambda: not any(g._member.stack.lone_founder for g in groups))


@pytest.mark.parametrize("order", ["fifo", "none"])
def test_a_member_that_came_while_nobody_answered_hears_nothing_of_the_past(order):
    async def story():
        shared = settings(order=order)
        async with Group(GROUP, shared, ImpairedTransport) as first:
            heard = first.subscribe(">")
            for n in range(1_000):
                first.publish("n", b"%d" % n)
            assert len(await collect(heard, 1_000)) == 1_000
            async with Group(GROUP, shared, cut_off) as second:
                assert second._member.stack.lone_founder
                subscription = second.subscribe(">")
                second.publish("n", b"alone")
                await asyncio.sleep(0.1)
                connect(second)
                await met(first, second)
                first.publish("n", b"new")
                assert payloads(await collect(subscription, 2)) == [b"alone", b"new"]
                assert sorted(payloads(await collect(heard, 2))) == [b"alone", b"new"]
                assert second.stats()["lost"] == {}

    run(story())


@pytest.mark.parametrize("founders", [2, 3, 5])
def test_founders_that_meet_become_one_group(founders):
    async def story():
        shared = settings()
        async with asyncio.TaskGroup() as tasks:
            lone = [Group(GROUP, shared, cut_off) for _ in range(founders)]
            for group in lone:
                tasks.create_task(group.__aenter__())
        try:
            assert all(group._member.stack.lone_founder for group in lone)
            connect(*lone)
            await met(*lone)
            subscriptions = [group.subscribe(">") for group in lone]
            for n, group in enumerate(lone):
                group.publish("n", b"%d" % n)
            for subscription in subscriptions:
                assert sorted(payloads(await collect(subscription, founders))) == [b"%d" % n for n in range(founders)]
        finally:
            for group in lone:
                await group.__aexit__(None, None, None)

    run(story())


def test_groups_that_were_founded_apart_become_one():
    """As if it had been one, and cut in two: what either side has sent, and keeps, arrives in the end."""

    async def story():
        shared, side = settings(), {}

        def on(which):
            def line(endpoint) -> ImpairedTransport:
                made = ImpairedTransport(endpoint)
                side[made.address] = which
                return made.partition(lambda address: side.get(address, which) != which)

            return line

        async with AsyncExitStack() as stack:
            groups = [await stack.enter_async_context(Group(GROUP, shared, on(which))) for which in "aabb"]
            await until(lambda: all(len(group.members()) == 2 for group in groups))
            subscriptions = [group.subscribe(">") for group in groups]
            for n, group in enumerate(groups):
                group.publish("n", b"%d apart" % n)
            for subscription in subscriptions:
                await collect(subscription, 2)
            connect(*groups)
            await met(*groups)
            for n, group in enumerate(groups):
                group.publish("n", b"%d together" % n)
            for n, subscription in enumerate(subscriptions):
                others = [m for m in range(4) if m // 2 != n // 2]
                wanted = [b"%d apart" % m for m in others] + [b"%d together" % m for m in range(4)]
                assert sorted(payloads(await collect(subscription, len(wanted)))) == sorted(wanted)

    run(story())


def test_what_a_founder_publishes_while_it_joins_others_is_not_lost():
    async def story():
        shared = settings()
        async with Group(GROUP, shared, ImpairedTransport) as first, Group(GROUP, shared, cut_off) as second:
            heard = first.subscribe(">")
            connect(second)
            for n in range(300):
                await second.publish_wait("n", b"%d" % n)
                await asyncio.sleep(0.001)
            assert payloads(await collect(heard, 300)) == [b"%d" % n for n in range(300)]

    run(story())


def test_a_member_that_is_heard_but_does_not_hear_keeps_nobody_out_for_long():
    async def story():
        shared = settings(leave_timeout=0, tuning={"gossip_period": 0.01})  # one of them confirms nothing
        async with (
            Group(GROUP, shared, deaf),
            Group(GROUP, shared, ImpairedTransport) as second,
            Group(GROUP, shared, ImpairedTransport) as third,
        ):
            await until(lambda: not any(g._member.stack.lone_founder for g in (second, third)))
            await until(lambda: all(g._member.stack.is_member for g in (second, third)))
            heard = third.subscribe(">")
            second.publish("n", b"1")
            assert payloads(await collect(heard, 1)) == [b"1"]

    run(story())


@pytest.mark.parametrize("order", ["fifo", "none"])
def test_a_member_that_met_the_others_late_hears_what_was_sent_since_it_was_told_that_it_is_one(order):
    async def story():
        shared = settings(order=order)
        async with Group(GROUP, shared, ImpairedTransport) as first:
            for n in range(100):
                first.publish("n", b"%d of the past" % n)
            async with Group(GROUP, shared, cut_off) as second:
                assert second._member.stack.lone_founder
                subscription = second.subscribe(">")
                for n in range(200):
                    first.publish("n", b"%d" % n)
                    await asyncio.sleep(0.002)
                    if n == 100:
                        connect(second)
                await met(first, second)
                heard = payloads(await collect(subscription, 200))
                assert (heard if order == "fifo" else sorted(heard, key=int)) == [b"%d" % n for n in range(200)]
                assert second.stats()["lost"] == {}

    run(story())
