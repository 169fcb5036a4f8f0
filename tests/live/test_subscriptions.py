"""Ways to subscribe and to join that users of other systems expect, with asyncio and without."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

import gossamer
from gossamer.live.logger_group import logger
from tests.live.members import GROUP, collect, joined, payloads, run, settings, until


def test_a_group_is_opened_and_closed_without_a_with():
    async def story():
        group = await gossamer.open(GROUP, settings())
        heard = group.subscribe("a")
        group.publish("a", b"1")
        assert (await anext(heard)).payload == b"1"
        await group.close()
        with pytest.raises(gossamer.NotAMember):
            group.publish("b", b"2")
        assert await heard.get() is None

    run(story())


def test_a_group_is_opened_and_closed_without_asyncio():
    group = gossamer.open_sync(GROUP, settings())
    with group.subscribe("a") as heard:
        group.publish("a", b"1")
        assert heard.get(30).payload == b"1"
    assert heard.get() is None
    group.close()
    with pytest.raises(gossamer.NotAMember):
        group.publish("a", b"2")


def test_a_group_may_be_closed_twice():
    async def story():
        async with gossamer.join(GROUP, settings()) as group:
            await group.close()
            await group.close()

    run(story())
    with gossamer.join_sync(GROUP, settings()) as group:
        group.close()
        group.close()


def test_one_subscription_has_several_patterns_and_gets_each_event_once():
    async def story():
        async with joined(1, settings()) as (group,):
            heard = group.subscribe("a.*", "a.b", "c.>", where="n != 3")
            for n, subject in enumerate(("a.b", "b.b", "c.d.e", "a.c", "a.d")):
                group.publish(subject, b"", n=n)
            assert [event.attributes["n"] for event in await collect(heard, 3)] == [0, 2, 4]

    run(story())


def test_a_wrong_pattern_among_several_leaves_nothing_behind():
    async def story():
        async with joined(1, settings()) as (group,):
            with pytest.raises(gossamer.SubjectError):
                group.subscribe("a", "b..c")
            assert group.stats()["waiting"] == 0
            heard = group.subscribe("a", "b")
            group.publish("b", b"fine")
            assert (await anext(heard)).payload == b"fine"

    run(story())


@pytest.mark.parametrize("pattern", [">", "a"])
def test_without_an_echo_only_what_others_publish_comes(pattern):
    async def story():
        async with joined(2, settings()) as (group, other):
            quiet, loud = group.subscribe(pattern, echo=False), group.subscribe(pattern)
            group.publish("a", b"mine")
            await group.flush()
            other.publish("a", b"theirs")
            assert sorted(payloads(await collect(loud, 2))) == [b"mine", b"theirs"]
            assert payloads(await collect(quiet, 1)) == [b"theirs"]

    run(story())


def test_async_with_ends_a_subscription():
    async def story():
        async with joined(1, settings()) as (group,):
            async with group.subscribe("a") as heard:
                group.publish("a", b"1")
                assert (await heard.get(30)).payload == b"1"
                with pytest.raises(gossamer.Timeout, match=r"nothing came within 0\.01 s"):
                    await heard.get(0.01)
            group.publish("a", b"2")
            assert await heard.get() is None

    run(story())


def test_a_callback_is_called_in_order_and_its_errors_are_logged(caplog):
    async def story():
        seen: list[bytes] = []

        async def slow(item):
            await asyncio.sleep(0)
            seen.append(item.payload)
            if item.payload == b"3":
                raise LookupError("planted")

        quick: list[bytes] = []
        async with joined(1, settings()) as (group,):
            group.subscribe("n", callback=slow)
            group.subscribe("n", callback=lambda item: quick.append(item.payload))
            for n in range(100):
                group.publish("n", b"%d" % n)
            await until(lambda: len(seen) == len(quick) == 100)
            group.publish("n", b"last")
        assert seen == quick == [*(b"%d" % n for n in range(100)), b"last"], "what had come is taken before the end"

    with caplog.at_level(logging.ERROR, "gossamer"):
        run(story())
    assert caplog.records[0].getMessage().startswith("a callback of the subscription to 'n' failed on")


def test_a_callback_may_leave_the_group(caplog):
    async def story():
        group = await gossamer.open(GROUP, settings())
        left = asyncio.Event()

        async def leave(item):
            await group.close()
            left.set()

        group.subscribe("end", callback=leave)
        group.publish("end")
        await asyncio.wait_for(left.wait(), 30)

    run(story())
    assert "did not finish" not in caplog.text, "it does not wait for itself"


def test_a_callback_without_asyncio_has_a_thread_of_its_own():
    seen: list[tuple[bytes, str]] = []
    with gossamer.join_sync(GROUP, settings()) as group:
        group.subscribe("n", callback=lambda item: seen.append((item.payload, threading.current_thread().name)))
        group.publish("n", b"1")
        end = time.monotonic() + 30
        while not seen and time.monotonic() < end:
            time.sleep(0.01)
    assert seen == [(b"1", f"gossamer-{GROUP}-n")]


def test_a_subscription_to_the_present_has_caught_up_at_once():
    async def story():
        async with joined(1, settings()) as (group,):
            await asyncio.wait_for(group.subscribe("a").caught_up(), 5)

    run(story())


def test_a_subscription_to_the_past_has_caught_up_when_all_of_it_is_here(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared), gossamer.join(GROUP, shared) as group:
            await until(lambda: group.loggers())
            for n in range(500):
                await group.publish_wait("n", b"%d" % n)
                await asyncio.sleep(0) if n % 10 == 0 else None
            await group.flush()
            async with gossamer.join(GROUP, shared) as late:
                await until(lambda: late.loggers())
                heard = late.subscribe("n", start="beginning")
                await heard.caught_up(30)
                assert payloads(heard.rest()) == [b"%d" % n for n in range(500)]

    run(story())


def test_a_subscription_to_a_past_that_nobody_knows_has_caught_up_too():
    async def story():
        async with joined(1, settings(tuning={"retry_period": 0.01})) as (group,):
            heard = group.subscribe("n", start="beginning")
            with pytest.raises(gossamer.Timeout, match="the past was not complete"):
                await heard.caught_up(0.001)
            await heard.caught_up(30)
            assert "no logger answered" in heard.rest()[0].reason

    run(story())


def test_a_key_travels_as_an_attribute():
    async def story():
        async with joined(1, settings()) as (group,):
            heard = group.subscribe("a", where="key == 'ibm'")
            group.publish("a", b"0", key="ge")
            group.publish("a", b"1", key="ibm")
            assert (await anext(heard)).payload == b"1"

    run(story())
