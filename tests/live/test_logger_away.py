"""A logger that is stopped, restarted, killed for good or retired: nothing confirmed is lost, and nobody freezes."""

from __future__ import annotations

import asyncio
import signal
from base64 import b64encode
from contextlib import AsyncExitStack

import pytest

import gossamer
from gossamer.core.schema import SettingError
from gossamer.live.group import Group
from gossamer.live.logger_group import logger
from tests.live.logger_nursery import Nursery
from tests.live.logger_scene import logged, publish_packets
from tests.live.members import GROUP, collect, impaired, payloads, run, settings, until

KEY = b64encode(bytes(range(32))).decode()


def test_a_subscriber_that_catches_up_goes_on_when_a_stopped_logger_is_back(tmp_path):
    async def story():
        shared = settings()
        async with AsyncExitStack() as stack:
            nursery = stack.enter_context(Nursery(GROUP, {"address": shared.address}))
            pid = await nursery.start(tmp_path / "store")
            async with gossamer.join(GROUP, shared) as publisher:
                sent = list(await publish_packets(publisher, 20_000))
                await publisher.flush()
            subscriber = await stack.enter_async_context(gossamer.join(GROUP, shared))
            heard = subscriber.subscribe(">", start="beginning")
            first = await heard.take()
            await nursery.kill(pid, signal.SIGTERM)
            await asyncio.sleep(1.0)
            pid = await nursery.start(tmp_path / "store")
            rest = await collect(heard, len(sent) - len(first))
            assert payloads(first + rest) == sent
            assert "faults" not in subscriber._member.stats
            await nursery.kill(pid, signal.SIGTERM)

    run(story())


def test_a_publisher_that_starts_while_the_logger_is_down_waits_for_it(tmp_path):
    async def story():
        shared = settings(durable=True)
        async with AsyncExitStack() as stack:
            nursery = stack.enter_context(Nursery(GROUP, {"address": shared.address}))
            group = await stack.enter_async_context(gossamer.join(GROUP, shared))
            sent = list(await publish_packets(group, 400))
            with pytest.raises(TimeoutError):
                await group.flush(timeout=0.5)
            await group.flush(durable=False, timeout=5.0)
            pid = await nursery.start(tmp_path / "store")
            await group.flush(timeout=30.0)
            assert logged(tmp_path / "store", group.me) == sent
            await nursery.kill(pid, signal.SIGTERM)

    run(story())


def test_a_newcomer_learns_from_the_others_that_a_logger_is_away(tmp_path):
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared):
            async with logger(GROUP, tmp_path / "store", shared):
                pass
            async with gossamer.join(GROUP, shared) as newcomer:
                newcomer.publish("n", b"1")
                with pytest.raises(TimeoutError):
                    await newcomer.flush(timeout=0.3)
                async with logger(GROUP, tmp_path / "store", shared):
                    await newcomer.flush(timeout=20.0)

    run(story())


def test_live_delivery_goes_on_for_long_while_the_logger_is_dead(tmp_path):
    """Small packets, many more than fit into the same memory if they were large."""

    async def story():
        shared = settings()
        async with AsyncExitStack() as stack:
            nursery = stack.enter_context(Nursery(GROUP, {"address": shared.address}))
            pid = await nursery.start(tmp_path / "store")
            publisher = await stack.enter_async_context(gossamer.join(GROUP, shared))
            subscriber = await stack.enter_async_context(gossamer.join(GROUP, shared))
            heard = subscriber.subscribe(">")
            await nursery.kill(pid)
            sent = list(await publish_packets(publisher, 20_000, size=100))
            assert payloads(await collect(heard, len(sent))) == sent
            with pytest.raises(TimeoutError):
                await publisher.flush(timeout=0.2)
            pid = await nursery.start(tmp_path / "store")
            await publisher.flush(timeout=60.0)
            assert logged(tmp_path / "store", publisher.me) == sent
            await nursery.kill(pid)

    run(story())


def test_a_full_send_buffer_refuses_or_goes_on_and_says_so(tmp_path):
    async def story(when_unlogged):
        kept = {"unlogged_bytes": 200_000, "event_bytes_max": 1000, "when_unlogged": when_unlogged}
        shared = settings(durable=True, leave_timeout=0, **kept)
        async with gossamer.join(GROUP, shared) as group, gossamer.join(GROUP, shared) as other:
            heard = other.subscribe(">")
            if when_unlogged == "refuse":
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(publish_packets(group, 3000), 1.0)
            else:
                sent = list(await publish_packets(group, 3000))
                assert payloads(await collect(heard, 3000)) == sent
                async with logger(GROUP, tmp_path / "store", shared):
                    with pytest.raises(gossamer.NotDurable, match="more room"):
                        await group.flush(timeout=30.0)
                    group.publish("n", b"later")
                    await group.flush(timeout=30.0)

    run(story("refuse"))
    run(story("go-on"))


@pytest.mark.parametrize("changes", [{"key": KEY, "interface": "127.0.0.1"}, {"loss_patience": 1.0}])
def test_a_flush_says_so_if_the_last_logger_has_retired(tmp_path, changes):
    """At once, if that cannot be a lie; else when no logger has come back for a while."""

    async def story():
        shared = settings(**changes)
        async with gossamer.join(GROUP, shared) as group:
            async with logger(GROUP, tmp_path / "store", shared, retires=True):
                group.publish("n", b"1")
                await group.flush(timeout=20.0)
            await until(lambda: not group._member.stack.roster.loggers)
            group.publish("n", b"2")
            with pytest.raises(gossamer.NotDurable, match="left for good"):
                await group.flush(timeout=5.0)
            await group.flush(durable=False, timeout=5.0)

    run(story())


def test_a_flush_says_so_if_something_was_published_before_the_logger_came(tmp_path):
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as group:
            group.publish("n", b"1")
            await asyncio.sleep(0.1)
            async with logger(GROUP, tmp_path / "store", shared):
                await until(group.loggers)
                with pytest.raises(gossamer.NotDurable, match="no logger then"):
                    await group.flush(timeout=20.0)
                group.publish("n", b"2")
                await group.flush(timeout=20.0)

    run(story())


def test_without_a_logger_a_flush_waits_until_everything_is_sent():
    async def story():
        async with gossamer.join(GROUP, settings()) as group, gossamer.join(GROUP, group.settings) as other:
            heard = other.subscribe(">")
            await group.publish_many("n", [bytes(1000)] * 50_000)  # more than a window
            assert group._member.stack.pace.unsent() > 0
            await group.flush(timeout=30.0)
            assert group._member.stack.pace.unsent() == 0
            await collect(heard, 50_000)

    run(story())


def test_two_copies_are_two_loggers(tmp_path):
    async def story():
        shared = settings(copies=2)
        async with gossamer.join(GROUP, shared) as group, logger(GROUP, tmp_path / "a", shared):
            group.publish("n", b"1")
            with pytest.raises(TimeoutError):
                await group.flush(copies=2, timeout=0.5)
            async with logger(GROUP, tmp_path / "b", shared):
                await group.flush(copies=2, timeout=30.0)
            assert logged(tmp_path / "b", group.me) == [b"1"]
            with pytest.raises(SettingError, match="copies=3"):
                await group.flush(copies=3)

    run(story())


def test_a_subscriber_goes_on_with_a_loss_if_the_logger_is_gone_for_good(tmp_path):
    """It stood still for too long for its peers, and only the logger could repair that."""

    async def story():
        kept = {"unlogged_bytes": 1 << 20, "when_unlogged": "go-on", "event_bytes_max": 1 << 16}
        shared = settings(loss_patience=2.0, leave_timeout=0, tuning={"buffer_bytes": 1 << 20}, **kept)
        async with AsyncExitStack() as stack:
            nursery = stack.enter_context(Nursery(GROUP, {"address": shared.address}))
            pid = await nursery.start(tmp_path / "store")
            publisher = await stack.enter_async_context(gossamer.join(GROUP, shared))
            slow = await stack.enter_async_context(gossamer.join(GROUP, shared))
            heard = slow.subscribe(">")
            await until(lambda: len(publisher.members()) == 3)
            await nursery.kill(pid)
            slow._member.pause()
            block = [bytes(1000)] * 1000
            for _ in range(60):  # more than anybody keeps
                await publisher.publish_many("large", block)
            await publisher.flush(durable=False)
            slow._member.resume()
            publisher.publish("last", b"last")
            lost, last = 0, b""
            while last != b"last":
                for item in await heard.take(60.0):
                    lost += item.last - item.first + 1 if isinstance(item, gossamer.Lost) else 0
                    last = b"" if isinstance(item, gossamer.Lost) else item.payload
            assert lost > 0

    run(story())


def test_a_gap_that_stands_for_long_stops_no_other_sender(tmp_path):
    """Nobody but a dead logger has what is lacking; a second sender is heard all the same, over a bad line, too."""

    async def story():
        kept = {"unlogged_bytes": 1 << 20, "when_unlogged": "go-on", "event_bytes_max": 1 << 16}
        shared = settings(loss_patience=1000.0, leave_timeout=0, tuning={"buffer_bytes": 1 << 20}, **kept)
        async with AsyncExitStack() as stack:
            nursery = stack.enter_context(Nursery(GROUP, {"address": shared.address}))
            pid = await nursery.start(tmp_path / "store")
            first = await stack.enter_async_context(gossamer.join(GROUP, shared))
            second = await stack.enter_async_context(gossamer.join(GROUP, shared))
            slow = await stack.enter_async_context(Group(GROUP, shared, impaired(1, loss=0.05)))
            heard = slow.subscribe(">")
            await until(lambda: all(len(group.members()) == 4 for group in (first, second, slow)))
            await nursery.kill(pid)
            slow._member.pause()
            for _ in range(60):  # more than anybody keeps
                await first.publish_many("large", [bytes(1000)] * 1000)
            await first.flush(durable=False)
            slow._member.resume()
            sent = list(await publish_packets(second, 1000))
            items: list = []
            while len(items) < len(sent):
                items += [item for item in await heard.take(20.0) if item.sender == second.me]
            assert payloads(items) == sent
            assert slow._member.stack.streams[first.me].missing
            assert slow.stats()["lost"] == {}

    run(story())
