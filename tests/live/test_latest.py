"""Subscriptions that begin with the last event of each subject."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack

import pytest

import gossamer
from gossamer.live.last_log import LastLog
from gossamer.live.logger_group import logger
from gossamer.live.mail import LAST_ASKED
from gossamer.pubsub.last_values import LastValues, newest
from gossamer.store import StoreDamaged, open_store
from gossamer.wire import WireError
from gossamer.wire.events import Event
from gossamer.wire.keys import new_key
from gossamer.wire.last_letters import pack, unpack
from tests.live.members import GROUP, collect, joined, payloads, run, settings, until


def shown(items):
    return [(item.subject, item.payload) for item in items]


async def publish(group, first, count):
    for n in range(first, first + count):
        await group.publish_wait(f"price.{n % 5}", b"%d" % n, n=n)
        await asyncio.sleep(0)


def test_members_that_retain_tell_a_newcomer_the_last_event_of_each_subject():
    async def story():
        shared = settings(retain=100)
        async with joined(2, shared) as (publisher, _):
            await publish(publisher, 0, 50)
            publisher.publish("other", b"not wanted")
            await publisher.flush()
            async with gossamer.join(GROUP, shared) as late:
                heard = late.subscribe("price.*", start="latest-per-subject", where="n != 47")
                await heard.caught_up(30)
                await publish(publisher, 50, 5)
                items = [await heard.get(30) for _ in range(9)]
                assert shown(items[:4]) == [(f"price.{n % 5}", b"%d" % n) for n in (45, 46, 48, 49)]
                assert shown(items[4:]) == [(f"price.{n % 5}", b"%d" % n) for n in range(50, 55)]

    run(story())


@pytest.mark.parametrize("sealed", [False, True])
def test_a_logger_tells_it_from_its_log_also_of_publishers_that_left(tmp_path, sealed):
    async def story():
        shared = settings(**({"key": new_key(os.urandom(32)), "interface": "127.0.0.1"} if sealed else {}))
        async with logger(GROUP, tmp_path / "log", shared), gossamer.join(GROUP, shared) as watcher:
            await until(lambda: watcher.loggers())
            async with gossamer.join(GROUP, shared) as publisher:
                await until(lambda: publisher.loggers())
                await publish(publisher, 0, 50)
                publisher.publish("price.9", bytes(100_000))  # in fragments
                await publisher.flush(timeout=30)
            for round_of in (0, 5):
                async with gossamer.join(GROUP, shared) as late:
                    await until(lambda late=late: late.loggers())
                    heard = late.subscribe("price.*", start="latest-per-subject")
                    await heard.caught_up(30)
                    found = dict(shown(heard.rest()))
                    assert found.pop("price.9") == bytes(100_000)
                    assert found == {f"price.{n % 5}": b"%d" % (n + round_of) for n in range(45, 50)}
                await publish(watcher, 50, 5)
                await watcher.flush(timeout=30)

    run(story())


def test_nothing_comes_twice_and_nothing_is_missed_while_others_publish():
    async def story():
        shared = settings(retain=100)
        async with joined(2, shared) as (publisher, _):
            await publish(publisher, 0, 20)
            sending = asyncio.create_task(publish(publisher, 20, 2000))
            for _ in range(5):
                async with gossamer.join(GROUP, shared) as late:
                    heard = late.subscribe("price.>", start="latest-per-subject")
                    items = [await heard.get(30) for _ in range(50)]
                    for subject in {item.subject for item in items}:
                        mine = [item.attributes["n"] for item in items if item.subject == subject]
                        assert mine == list(range(mine[0], mine[0] + 5 * len(mine), 5)), "each after the one before"
                    assert len({item.subject for item in items}) == 5
            await sending

    run(story())


def test_if_nobody_keeps_last_events_that_is_said_and_the_present_comes():
    async def story():
        async with joined(2, settings()) as (one, two):
            heard = one.subscribe("a", start="latest-per-subject")
            two.publish("a", b"now")
            lost = await heard.get(30)
            assert "nobody keeps last events: start a logger" in lost.reason
            assert (await heard.get(30)).payload == b"now"
            with pytest.raises(gossamer.SettingError, match="a queue begins now"):
                one.subscribe("a", start="latest-per-subject", queue="w")

    run(story())


def test_a_long_log_is_read_in_portions_between_which_the_logger_may_write(tmp_path):
    async def story():
        async with logger(GROUP, tmp_path / "log", settings()) as log:
            for n in range(30):
                log.publish(f"price.{n % 3}", b"%d" % n)
                await log.flush(30)  # each in a packet of its own

    run(story())
    with open_store(tmp_path / "log", readonly=True) as store:
        reading = LastLog(store, bytes)
        turns = 0
        while not reading.catch_up(8):
            turns += 1
            assert len(reading.matching(lambda subject: True)) == 3
        assert turns == 3
        assert [event.payload for event in reading.matching(lambda subject: True)] == [b"27", b"28", b"29"]
        assert reading.catch_up(8)


def test_the_table_is_bounded_and_the_newest_of_several_counts():
    table: LastValues[Event] = LastValues(3)
    table.note([Event(f"s{n}", b"", {}, 1, n, float(n)) for n in range(5)])
    assert (len(table), table.dropped) == (3, 2)
    assert [event.subject for event in table.matching(lambda subject: subject != "s3")] == ["s2", "s4"]
    events = [Event("s", b"%d" % n, {}, n, n, float(n % 3)) for n in range(6)]
    assert newest(events) == [events[5]]


def test_the_letters_are_what_they_were():
    events = [Event(f"s{n}", bytes(n * 100), {"n": n} if n else {}, n, 5, 1.5) for n in range(20)]
    letters, left_out = pack(7, True, events, 1000)
    assert left_out == 10
    read = [unpack(letter) for letter in letters]
    assert [event for letter in read for event in letter.events] == events[:10]
    assert {(letter.question, letter.keeps, letter.parts) for letter in read} == {(7, True, len(letters))}
    for wrong in (b"", letters[0][:-1]):
        with pytest.raises(WireError):
            unpack(wrong)


def test_a_logger_that_cannot_read_its_log_says_so_and_the_present_comes(tmp_path, monkeypatch):
    """What could still be read need not be the last."""

    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path, shared) as log, gossamer.join(GROUP, shared) as group:
            await until(group.loggers)
            group.publish("price.a", b"1")
            await group.flush(20)
            with monkeypatch.context() as patched:
                patched.setattr(log._store, "read", damaged)
                heard = group.subscribe("price.a", start="latest-per-subject")
                lost = await heard.get(10)
            assert isinstance(lost, gossamer.Lost)
            group.publish("price.a", b"2")
            assert payloads(await collect(heard, 1)) == [b"2"]

    def damaged(*_):
        raise StoreDamaged("an inner page is damaged")

    run(story())


def test_what_one_logger_takes_for_the_last_event_is_not_told_if_another_knows_a_later_one(tmp_path):
    """The later one comes by itself, because it was published after the subscription was made."""

    async def story():
        shared = settings()
        async with AsyncExitStack() as stack:
            late, log = [await stack.enter_async_context(logger(GROUP, tmp_path / n, shared)) for n in ("1", "2")]
            publisher = await stack.enter_async_context(gossamer.join(GROUP, shared))
            await until(lambda: len(publisher.loggers()) == 2)
            publisher.publish("price.a", b"1")
            await publisher.flush(20)
            await until(lambda: late.stats()["log"]["appended"] == log.stats()["log"]["appended"] == 1)
            late._member.disk._fail("the disk is full")
            reader = await stack.enter_async_context(gossamer.join(GROUP, shared))
            answer, loop = log._latest._asked, asyncio.get_running_loop()
            log._mail.on(LAST_ASKED, lambda source, content: loop.call_later(0.5, answer, source, content))
            heard = reader.subscribe("price.a", start="latest-per-subject")
            publisher.publish("price.a", b"2")
            assert payloads(await collect(heard, 1)) == [b"2"]

    run(story())


@pytest.mark.parametrize("start", ["latest-per-subject", "beginning"])
def test_who_leaves_before_the_past_is_known_does_not_go_on_asking(tmp_path, start):
    async def story():
        shared = settings(leave_timeout=0)
        async with logger(GROUP, tmp_path, shared) as log:
            group = await gossamer.open(GROUP, shared)
            await until(group.loggers)
            log._member.pause()
            waiting = [group.subscribe("price.a", start=start), group.subscribe("price.b", start=start)]
            await group.close()
            log._member.resume()
            assert all(subscription.is_closed for subscription in waiting)
            await until(lambda: not group._latest._wishes)
            with pytest.raises(gossamer.NotAMember):
                group.subscribe("price.a", start=start)
        assert not [
            h for h in asyncio.get_running_loop()._scheduled if not h.cancelled() and "gossamer.live" in repr(h)
        ]

    run(story())
