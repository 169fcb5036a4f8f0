"""A group belongs to one thread of one process: other threads are served there, forked children are told to join."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import gossamer
from tests.live.members import GROUP, collect, joined, payloads, run, settings, until

EACH = 2000
FORK = multiprocessing.get_context("fork")


# Threads.


def test_events_published_by_many_threads_arrive_once_and_whole():
    async def story():
        async with joined(2, settings()) as (a, b):
            heard = b.subscribe(">")

            def publish(who: int) -> list:
                return [a.publish(f"thread.{who}", b"%d/%d" % (who, n), n=n) for n in range(EACH)]

            loop = asyncio.get_running_loop()
            with ThreadPoolExecutor(4) as pool:
                working = [loop.run_in_executor(pool, publish, who) for who in range(4)]
                events = await collect(heard, 4 * EACH)
                packets = await asyncio.gather(*working)
            for who in range(4):
                mine = [event for event in events if event.subject == f"thread.{who}"]
                assert payloads(mine) == [b"%d/%d" % (who, n) for n in range(EACH)]
                assert [event.attributes["n"] for event in mine] == list(range(EACH))
                assert [(event.sender, event.seqno) for event in mine] == packets[who]

    run(story())


def test_a_thread_hears_that_there_is_no_room_and_what_is_wrong_with_its_event():
    async def story():
        tight = settings(send_bytes=1, event_bytes_max=1000, tuning={"window": 1, "patience": 60.0})
        async with joined(2, tight) as (a, b):
            b._member.pause()  # a receiver that stands still

            def publish_until_full() -> None:
                for _ in range(10**6):
                    a.publish("n", bytes(900))

            with pytest.raises(gossamer.Full):
                await asyncio.to_thread(publish_until_full)
            with pytest.raises(ValueError, match="subject"):
                await asyncio.to_thread(a.publish, "a..b")
            b._member.resume()

    run(story())


def test_whatever_another_thread_calls_works_or_is_refused_at_once():
    async def story():
        async with joined(2, settings()) as (a, b):
            heard = b.subscribe(">")
            assert await asyncio.to_thread(a.members) == a.members()
            assert (await asyncio.to_thread(a.stats))["published"] == 0
            with pytest.raises(RuntimeError, match="join_sync"):
                await asyncio.to_thread(a.subscribe, ">")

            async def from_another_loop() -> None:
                await a.publish_many("n", [b"1", b"2"])
                packet = await a.publish_wait("n", b"3")
                await a.flush()
                await a.stable(packet)
                with pytest.raises(RuntimeError, match="join_sync"):
                    await heard.take()

            await asyncio.to_thread(asyncio.run, from_another_loop())
            assert payloads(await collect(heard, 3)) == [b"1", b"2", b"3"]
            await asyncio.to_thread(heard.close)
            assert await heard.take() is None

    run(story())


def test_a_thread_is_told_when_the_loop_has_stopped_or_closed():
    group = gossamer.join(GROUP, settings())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(group.__aenter__())
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(RuntimeError, match="stopped"):
            pool.submit(group.publish, "n", b"").result(timeout=30)
        told = pool.submit(_publish_until_refused, group)
        loop.run_until_complete(until(lambda: group._outbox.published > 0))  # on a busy machine the thread may be late
        loop.run_until_complete(asyncio.sleep(0.2))
        assert "stopped" in told.result(timeout=30)
        loop.run_until_complete(group.__aexit__(None, None, None))
        loop.close()
        with pytest.raises(RuntimeError, match="stopped"):
            pool.submit(group.publish, "n", b"").result(timeout=30)


def _publish_until_refused(group: gossamer.Group) -> str:
    end = time.monotonic() + 25
    while time.monotonic() < end:
        try:
            group.publish("n", b"")
        except gossamer.Full:
            pass
        except RuntimeError as error:
            if group._outbox.published:
                return str(error)
    return "never"


# Forked children.


def in_a_child(work) -> str:
    """What `work` returns in a forked child; fails if it takes long."""
    ours, theirs = FORK.Pipe()
    child = FORK.Process(target=lambda: theirs.send(_outcome(work)), daemon=True)
    child.start()
    try:
        assert ours.poll(30), "the child hangs"
        return ours.recv()
    finally:
        child.kill()
        child.join()


def _outcome(work) -> str:
    try:
        return str(work())
    except RuntimeError as error:
        return f"RuntimeError: {error}"


def test_a_forked_child_is_told_to_join_again_and_its_parent_goes_on():
    async def story():
        shared = settings()
        async with joined(2, shared) as (a, b):
            mine, heard = a.subscribe(">"), b.subscribe(">")
            for work in (
                lambda: a.publish("n", b"lost"),
                lambda: asyncio.run(a.publish_wait("n", b"lost")),
                lambda: asyncio.run(a.publish_many("n", [b"lost"])),
                lambda: asyncio.run(a.flush()),
                lambda: asyncio.run(mine.take()),
                lambda: a.subscribe(">"),
                a.stats,
            ):
                assert "join again in the child" in in_a_child(work)
            assert in_a_child(lambda: asyncio.run(a.__aexit__(None, None, None))) == "None"
            assert in_a_child(lambda: mine.__del__()) == "None"
            a.publish("n", b"from the parent")
            assert payloads(await collect(mine, 1)) == payloads(await collect(heard, 1)) == [b"from the parent"]

            async def join_again() -> int:
                async with gossamer.join(GROUP, shared) as c:
                    c.publish("n", b"from the child")
                    return c.me

            child = await asyncio.to_thread(in_a_child, lambda: asyncio.run(join_again()))
            (event,) = await collect(heard, 1)
            assert (event.payload, str(event.sender)) == (b"from the child", child)
            await until(lambda: len(a.members()) == 2)

    run(story())


def test_a_forked_child_of_a_blocking_group_is_told_to_join_again():
    with gossamer.join_sync(GROUP, settings()) as group:
        heard = group.subscribe(">")
        for work in (
            lambda: group.publish("n", b"lost"),
            lambda: group.publish_wait("n", b"lost"),
            lambda: heard.get(),
            lambda: heard.close(),
            group.members,
            group.flush,
        ):
            assert "join again in the child" in in_a_child(work)
        assert in_a_child(lambda: group.__exit__(None, None, None)) == "None"
        group.publish("n", b"from the parent")
        assert heard.get(timeout=30).payload == b"from the parent"
