"""Late and returning subscribers: the past comes once, in order, before what has come since; or its loss is said."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from time import time_ns
from zlib import crc32

import pytest

import gossamer
from gossamer.core.messages import Data
from gossamer.core.packets import Packet
from gossamer.core.schema import SettingError
from gossamer.live.group import Group
from gossamer.live.logger_group import logger
from gossamer.live.subscription import Subscription
from gossamer.store import LogEntry, open_store
from gossamer.wire import Header, encode
from gossamer.wire.events import Packer
from tests.live.logger_nursery import Nursery
from tests.live.logger_scene import held, publish_packets, until
from tests.live.test_group import GROUP, collect, impaired, run, settings


def payloads(items: list) -> list[bytes]:
    return [item.payload for item in items]


async def all_of(subscriptions: list[Subscription], counts: list[int]) -> list[list]:
    return await asyncio.gather(*(collect(s, n) for s, n in zip(subscriptions, counts, strict=True)))


def test_subscriptions_with_different_starts_while_events_keep_coming(tmp_path):
    """From the beginning, a time, a position and now, in one process."""

    async def story():
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            await nursery.start(tmp_path)
            async with gossamer.join(GROUP, shared) as group, gossamer.join(GROUP, shared) as late:
                old = await publish_packets(group, 500)
                await group.flush()
                between = datetime.now(UTC)
                await asyncio.sleep(0.01)
                middle = await publish_packets(group, 300, first=500)
                await group.flush()
                fragmented = b"long" * 100_000
                await group.publish_wait("scene.n", fragmented)
                await group.flush()
                position = middle[list(middle)[100]]
                publishing = asyncio.create_task(publish_packets(group, 1000, first=800))
                await asyncio.sleep(0.02)
                starts = ["beginning", between, {group.me: position}, "beginning", "last"]
                subscriptions = [late.subscribe(">", start=start) for start in starts]
                new = await publishing
                everything = [*old, *middle, fragmented, *new]
                from_position = [*(p for p, n in middle.items() if n >= position), fragmented, *new]
                counts = [len(everything), 1301, len(from_position), len(everything)]
                found = await all_of(subscriptions[:4], counts)
                assert payloads(found[0]) == payloads(found[3]) == everything
                assert payloads(found[1]) == [*middle, fragmented, *new]
                assert payloads(found[2]) == from_position
                live = payloads(await subscriptions[4].take())
                assert live == everything[-len(live) :]
                await asyncio.sleep(0.2)
                assert not any(s._items for s in subscriptions)  # and nothing twice

    run(story())


def test_a_sender_that_has_left_is_heard_from_the_log(tmp_path):
    async def story():
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            await nursery.start(tmp_path)
            sent = []
            for n in range(3):
                async with gossamer.join(GROUP, shared) as group:
                    sent += await publish_packets(group, 50, first=50 * n)
                    await group.flush()
            async with gossamer.join(GROUP, shared) as late:
                items = await collect(late.subscribe(">", start="beginning"), 150)
                assert sorted(payloads(items)) == sent

    run(story())


def test_the_past_arrives_over_a_bad_line_too(tmp_path):
    async def story():
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            await nursery.start(tmp_path)
            async with gossamer.join(GROUP, shared) as group:
                sent = await publish_packets(group, 1000)
                await group.flush()
                bad = impaired(1, loss=0.1, duplicate=0.1, reorder=0.2)
                async with Group(GROUP, shared, bad) as late:
                    heard = late.subscribe(">", start="beginning")
                    sent |= await publish_packets(group, 200, first=1000)
                    assert payloads(await collect(heard, 1200)) == list(sent)

    run(story())


def test_the_past_of_many_senders_comes_in_as_many_answers_as_it_takes(tmp_path):
    """Every run of `gossamer pub` is a sender of its own."""

    async def story():
        shared = settings()
        with open_store(tmp_path, group=GROUP) as store:
            store.append(one_packet(sender) for sender in range(1, 1501))
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            await nursery.start(tmp_path)
            async with gossamer.join(GROUP, shared) as late:
                items = await collect(late.subscribe(">", start="beginning"), 1500)
                assert sorted(item.sender for item in items) == list(range(1, 1501))

    run(story())


def one_packet(sender: int) -> LogEntry:
    packer = Packer(1000)
    packer.add("many", b"%d" % sender)
    packet = Packet(sender, 0, packer.body(time_ns()))
    return LogEntry(sender, 0, time_ns(), encode(Header(crc32(GROUP.encode()), sender), Data(packet)))


def test_without_a_logger_the_past_is_reported_lost():
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as group:
            heard = group.subscribe(">", start="beginning")
            group.publish("x", b"new")
            items = await collect(heard, 2)
            assert sorted(type(item).__name__ for item in items) == ["Event", "Lost"]

    run(story())


def test_a_logger_has_no_past_to_ask_for(tmp_path):
    async def story():
        async with logger(GROUP, tmp_path, settings()) as group:
            with pytest.raises(SettingError, match="read its store"):
                group.subscribe(">", start="beginning")

    run(story())


SLEEPER = """
import asyncio, sys, gossamer
async def story():
    async with gossamer.join(sys.argv[1], gossamer.Settings(address=sys.argv[2])) as group:
        heard = group.subscribe(">")
        print("ready", flush=True)
        async for item in heard:
            print(item.payload[1:7].decode() if isinstance(item, gossamer.Event) else item, flush=True)
asyncio.run(story())
"""


def test_a_member_that_was_stopped_catches_up_from_the_logger(tmp_path):
    """While it sleeps, peers collect what it misses: their buffers are small."""

    async def story():
        small = settings(tuning={"buffer_packets": 8, "patience": 0.05})
        with Nursery(GROUP, {"address": small.address, "tuning": {"buffer_packets": 8}}) as nursery:
            await nursery.start(tmp_path)
            async with gossamer.join(GROUP, small) as group:
                sleeper = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", SLEEPER, GROUP, small.address, stdout=asyncio.subprocess.PIPE
                )
                assert await sleeper.stdout.readline() == b"ready\n"
                await publish_packets(group, 5)
                for n in range(5):
                    assert await sleeper.stdout.readline() == b"%06d\n" % n
                os.kill(sleeper.pid, signal.SIGSTOP)
                await publish_packets(group, 600, size=20_000, first=5)
                await group.flush()
                os.kill(sleeper.pid, signal.SIGCONT)
                for n in range(5, 605):
                    assert await sleeper.stdout.readline() == b"%06d\n" % n
                sleeper.kill()
                await sleeper.wait()

    run(story())


# Retention


def test_retain_stable_collects_what_all_have_unless_a_consumer_holds_it_back(tmp_path):
    """Over a restart, too."""

    async def story():
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            pid = await nursery.start(tmp_path, retain="stable")
            async with gossamer.join(GROUP, shared) as group:
                with open_store(tmp_path, readonly=True) as store:
                    store.commit("archive", {group.me: 0})
                await asyncio.sleep(1.2)  # the logger looks for consumers once a second
                sent = await publish_packets(group, 500, size=4000)
                await group.flush()
                await nursery.kill(pid)
                await nursery.start(tmp_path, retain="stable")
                await asyncio.sleep(3.6)  # the first sweep is behind us
                last = max(sent.values())
                assert held(tmp_path, group.me) == last  # all but the one that it has done with
                with open_store(tmp_path, readonly=True) as store:
                    full = store.bytes_used()
                    store.commit("archive", {group.me: last - 10})
                    await until(lambda: held(tmp_path, group.me) == 10)
                    assert store.bytes_used() < full / 10
                    assert list(store.collected()[group.me]) == list(range(last - 9))

    run(story())


@pytest.mark.parametrize(("retain", "kept"), [("1s", 0.0), ("200KB", 0.4), ("forever", 1.0)])
def test_retention_by_age_by_size_and_forever(tmp_path, retain, kept):
    async def story():
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            await nursery.start(tmp_path, retain=retain)
            async with gossamer.join(GROUP, shared) as group:
                sent = await publish_packets(group, 125, size=4000)
                await group.flush()
                count = max(sent.values()) + 1
                await until(lambda: abs(held(tmp_path, group.me) - kept * count) < 8)
                if retain == "forever":
                    await asyncio.sleep(0.5)
                    assert held(tmp_path, group.me) == count

    run(story())
