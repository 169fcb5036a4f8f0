"""What events carry: values by a codec, keys, a time to live."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

import gossamer
from tests.live.members import GROUP, collect, joined, payloads, run, settings, until

VALUES = {
    "str": ["", "text", "žluť"],
    "json": [{"price": 101.5, "tags": ["a"]}, [1, 2], "x", 5, None, True],
    "msgpack": [{"price": 101.5}, [1, b"raw"], None],
}


def test_a_codec_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "msgpack", None)  # as if it were not there
    with pytest.raises(gossamer.SettingError, match=r"pip install 'gossamer\[msgpack\]'"):
        gossamer.join(GROUP, settings(codec="msgpack"))


@pytest.mark.parametrize("codec", ["str", "json", "msgpack"])
def test_a_codec_makes_payloads_of_values_and_values_of_payloads(codec):
    if codec == "msgpack":
        pytest.importorskip("msgpack", reason="MSGPACK WAS NOT TRIED: it is not installed")

    async def story():
        async with joined(2, settings(codec=codec)) as (one, two):
            heard = two.subscribe(">")
            for value in VALUES[codec]:
                one.publish("a", value)
            await one.publish_many("a", VALUES[codec])
            events = await collect(heard, 2 * len(VALUES[codec]))
            assert [event.value for event in events] == 2 * VALUES[codec]
            assert all(isinstance(event.payload, bytes) and isinstance(event, gossamer.Event) for event in events)
            two.subscribe("ask", callback=lambda asked: asked.reply(asked.value))
            assert (await one.request("ask", VALUES[codec][0], timeout=30)).value == VALUES[codec][0]

    run(story())


def test_a_value_that_a_codec_cannot_write_or_read_is_refused_with_a_word():
    async def story():
        shared = settings(codec="json")
        async with gossamer.join(GROUP, shared) as group:
            for wrong in (b"bytes", {1, 2}, float("nan")):
                with pytest.raises(gossamer.WrongType, match="codec = 'json': cannot write"):
                    group.publish("a", wrong)
            plain = settings(address=shared.address)
            async with gossamer.join(GROUP, plain) as other:
                await until(lambda: len(other.members()) == 2 and len(group.members()) == 2)
                heard, own = group.subscribe("a"), other.subscribe("a")
                other.publish("a", b"{not json")
                event = await heard.get(30)
                with pytest.raises(gossamer.NotAnEvent, match="is not json"):
                    event.value  # noqa: B018
                assert event.payload == (await own.get(30)).value == b"{not json"

    run(story())


def test_a_value_too_deep_to_be_shown_is_refused_with_a_word():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]

    async def story():
        async with joined(1, settings(codec="json")) as (group,):
            with pytest.raises(gossamer.WrongType, match="cannot write list"):
                group.publish("a", deep)

    run(story())


def test_a_key_is_there_for_all_to_see():
    async def story():
        async with joined(1, settings()) as (group,):
            heard = group.subscribe("a")
            group.publish("a", b"", key="ibm")
            group.publish("a", b"")
            assert [event.key for event in await collect(heard, 2)] == ["ibm", None]

    run(story())


def test_an_event_that_is_too_old_when_it_is_read_is_not_delivered_but_counted():
    async def story():
        async with joined(1, settings()) as (group,):
            heard, fresh = group.subscribe("a"), group.subscribe("a")
            group.publish("a", b"short", ttl=0.05)
            group.publish("a", b"long", ttl=60)
            group.publish("a", b"ever")
            await until(lambda: fresh.waiting == 3)
            assert [event.payload for event in fresh.rest()] == [b"short", b"long", b"ever"]
            await asyncio.sleep(0.1)
            assert [event.payload for event in heard.rest()] == [b"long", b"ever"]
            assert group.stats()["expired"] == 1

    run(story())


def test_an_event_that_is_too_old_when_it_comes_is_not_delivered_but_counted():
    async def story():
        async with joined(2, settings()) as (group, late):
            heard = late.subscribe("a")
            late.disconnect()
            group.publish("a", b"old", ttl=0.1)
            group.publish("a", b"news")
            await asyncio.sleep(0.3)
            late.reconnect()
            assert (await heard.get(30)).payload == b"news"
            assert late.stats()["expired"] == 1
            assert heard.rest() == []

    run(story())


def test_a_time_to_live_that_cannot_be_is_refused():
    async def story():
        async with joined(1, settings()) as (group,):
            for wrong, error in (("1", gossamer.WrongType), (True, gossamer.WrongType), (0, gossamer.NotAnEvent)):
                with pytest.raises(error, match="ttl"):
                    group.publish("a", b"", ttl=wrong)

    run(story())


def test_events_that_all_became_too_old_are_passed_over():
    async def story():
        async with joined(1, settings()) as (group,):
            for read in ("get", "take"):
                heard = group.subscribe("a")
                group.publish("a", b"old", ttl=0.05)
                await until(lambda heard=heard: heard.waiting)
                await asyncio.sleep(0.1)
                with pytest.raises(gossamer.Timeout):
                    await getattr(heard, read)(0.1)
                heard.close()

    run(story())
    with gossamer.join_sync(GROUP, settings()) as group:
        heard = group.subscribe("a")
        group.publish("a", b"old", ttl=0.05)
        time.sleep(0.2)
        with pytest.raises(gossamer.Timeout):
            heard.get(0.1)
        group.publish("a", b"new")
        assert heard.get(30).payload == b"new"


@pytest.mark.parametrize("jump_s", [-86_400, 86_400], ids=["back", "forward"])
def test_no_event_is_too_old_because_the_clock_of_a_subscriber_was_set(monkeypatch, jump_s):
    async def story():
        async with joined(2, settings()) as (publisher, subscriber):
            heard = subscriber.subscribe("n")
            publisher.publish("n", b"before", ttl=10)
            assert payloads([await heard.get(10)]) == [b"before"]
            monkeypatch.setattr("gossamer.live.inbox.time", lambda: time.time() + jump_s)  # as this member sees it
            publisher.publish("n", b"after", ttl=10)
            assert payloads([await heard.get(10)]) == [b"after"]
            assert subscriber.stats()["expired"] == 0

    run(story())
