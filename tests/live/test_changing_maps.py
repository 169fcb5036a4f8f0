"""Maps that follow each other: the past of subjects that moved, members that come meanwhile, maps that cross."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import gossamer
from gossamer.live.group import Group
from gossamer.live.logger_group import logger
from gossamer.pubsub.channel_map import ChannelMap, Rule
from tests.live.members import GROUP, collect, joined, payloads, run, settings, until

MAPS = [ChannelMap(version, 5, (Rule("x", version),)) for version in (1, 2, 3, 4)]
"""Each of them moves the subject to another channel."""


async def use(group: Group, channels: ChannelMap) -> None:
    group.install_channels(channels)
    assert await group.channels_used(timeout=30)


async def say(group: Group, *texts: bytes) -> None:
    for text in texts:
        group.publish("x", text)
    await group.flush()


def test_the_past_of_a_subject_is_in_all_channels_that_it_had(tmp_path: Path):
    async def story():
        place = settings()
        async with logger(GROUP, tmp_path / "log", place), gossamer.join(GROUP, place) as publisher:
            await say(publisher, b"0")
            for number, channels in enumerate(MAPS[:3], 1):
                await use(publisher, channels)
                await say(publisher, b"%d" % number)
            async with gossamer.join(GROUP, place) as late:
                subscription = late.subscribe("x", start="beginning")
                assert payloads(await collect(subscription, 4)) == [b"0", b"1", b"2", b"3"]
                await subscription.caught_up()
                await until(lambda: late.stats()["channels"]["listening"] == [3])
                await say(publisher, b"4")
                assert payloads(await collect(subscription, 1)) == [b"4"]

    run(story())


def test_the_past_comes_also_if_no_member_knows_the_map_any_more(tmp_path: Path):
    async def story():
        place = settings()
        async with logger(GROUP, tmp_path / "log", place), gossamer.join(GROUP, place) as publisher:
            await use(publisher, MAPS[0])
            await say(publisher, b"1", b"2")
        async with logger(GROUP, tmp_path / "log", place), gossamer.join(GROUP, place) as late:
            assert late.channels() is None
            subscription = late.subscribe("x", start="beginning")
            assert payloads(await collect(subscription, 2)) == [b"1", b"2"]
            await until(lambda: late.stats()["channels"]["listening"] == [])
            await say(late, b"3")
            assert payloads(await collect(subscription, 1)) == [b"3"]

    run(story())


def test_a_durable_reader_goes_on_across_maps(tmp_path: Path):
    async def story():
        place = settings()
        async with logger(GROUP, tmp_path / "log", place), gossamer.join(GROUP, place) as publisher:
            await use(publisher, MAPS[0])
            async with gossamer.join(GROUP, place) as reader:
                subscription = reader.subscribe("x", durable="d", start="beginning")
                await subscription.caught_up()
                await say(publisher, b"1")
                await (await subscription.get(timeout=30)).ack()
            await say(publisher, b"2")
            await use(publisher, MAPS[1])
            await say(publisher, b"3")
            await use(publisher, MAPS[2])
            await say(publisher, b"4")
            async with gossamer.join(GROUP, place) as reader:
                subscription = reader.subscribe("x", durable="d")
                assert payloads(await collect(subscription, 3)) == [b"2", b"3", b"4"]

    run(story())


def test_a_member_that_comes_while_a_map_changes_hears_by_the_old_one_too(monkeypatch: pytest.MonkeyPatch):
    async def story():
        async with joined(2, settings()) as (publisher, other):
            await use(publisher, MAPS[0])
            with monkeypatch.context() as held_up:
                held_up.setattr(other._channels, "_hears_all", lambda: False)
                publisher.install_channels(MAPS[1])
                await until(lambda: other.stats()["channels"]["map"] == 2)
                async with gossamer.join(GROUP, publisher.settings) as late:
                    subscription = late.subscribe("x")
                    await until(lambda: late.stats()["channels"]["listening"] == [1, 2])
                    publisher.publish("x", b"by the old map")
                    assert payloads(await collect(subscription, 1)) == [b"by the old map"]
                    held_up.undo()
                    await until(lambda: late._channels.is_used_by_all)
                    publisher.publish("x", b"by the new map")
                    assert payloads(await collect(subscription, 1)) == [b"by the new map"]
                    await until(lambda: late.stats()["channels"]["listening"] == [2])

    run(story())


def test_nobody_publishes_by_a_map_that_others_have_passed_over(monkeypatch: pytest.MonkeyPatch):
    """They know a later one, and say so; that does not mean that they listen by the earlier one."""

    async def story():
        async with joined(3, settings()) as (a, b, c):
            subscription = c.subscribe("x")
            told = a._member.map_told
            monkeypatch.setattr(a._member, "map_told", lambda *later: None)
            for other in (b, c):
                first = other._member.map_told
                late = lambda number, *rest, first=first: number >> 33 > 1 and first(number, *rest)  # noqa: E731
                monkeypatch.setattr(other._member, "map_told", late)
            a.install_channels(MAPS[0])
            b.install_channels(MAPS[1])
            await until(lambda: all(a._member.stack.roster.maps.get(g.me, 0) >> 33 == 2 for g in (b, c)))
            await asyncio.sleep(0.3)
            a.publish("x", b"before")
            assert a.stats()["channels"]["step"] == "knows"
            assert payloads(await collect(subscription, 1)) == [b"before"]
            monkeypatch.setattr(a._member, "map_told", told)
            a._channels._told(b._channels._number, b._channels._content, b"")
            await until(lambda: c._channels.is_used_by_all)
            a.publish("x", b"after")
            assert payloads(await collect(subscription, 1)) == [b"after"]

    run(story())


def test_many_maps_in_quick_succession_lose_nothing(tmp_path: Path):
    """Installed by different members while others come and read all of the past."""

    async def story():
        place = settings()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(logger(GROUP, tmp_path / "log", place))
            groups = [await stack.enter_async_context(gossamer.join(GROUP, place)) for _ in range(3)]
            publisher, count, read = groups[0], 0, []
            for version in range(1, 13):
                groups[version % 3].install_channels(ChannelMap(version, 5, (Rule("x", version % 4 + 1),)))
                for _ in range(20):
                    publisher.publish("x", b"%d" % count)
                    count += 1
                    await asyncio.sleep(0.002)
                if version % 4 == 0:
                    late = await stack.enter_async_context(gossamer.join(GROUP, place))
                    read.append(late.subscribe("x", start="beginning"))
                await until(lambda version=version: all(g._channels.map.version == version for g in groups))
            await publisher.flush()
            for subscription in read:
                assert payloads(await collect(subscription, count)) == [b"%d" % n for n in range(count)]

    run(story())
