"""Requests and replies between members, with real sockets and bad lines, with asyncio and without."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

import gossamer
from gossamer.wire import WireError
from gossamer.wire.replies import Reply, pack, unpack
from tests.live.members import GROUP, joined, run, settings, until


def test_a_request_is_answered_by_the_subscriber_and_nobody_else_hears_the_reply():
    async def story():
        async with joined(3, settings()) as (asker, clerk, bystander):
            everything = bystander.subscribe(">")
            clerk.subscribe("price.*", callback=lambda asked: asked.reply(b"101.5", currency="USD"))
            reply = await asker.request("price.ibm", b"now", timeout=10, urgent=True)
            assert (reply.subject, reply.payload, reply.attributes) == ("price.ibm", b"101.5", {"currency": "USD"})
            assert (reply.sender, reply.source) == (clerk.me, clerk.settings.name)
            assert abs(reply.time - time.time()) < 60
            request = await everything.get(10)
            assert (request.subject, request.payload, request.attributes["urgent"]) == ("price.ibm", b"now", True)
            await asyncio.sleep(0.1)
            assert everything.rest() == []

    run(story())


def test_requests_and_replies_arrive_on_a_bad_line():
    async def story():
        async with joined(2, settings(), loss=0.2, duplicate=0.1, reorder=0.1) as (asker, clerk):
            clerk.subscribe("double", callback=lambda asked: clerk.reply(asked, asked.payload * 2))
            answers = await asyncio.gather(*(asker.request("double", b"%d" % n, timeout=30) for n in range(50)))
            assert [answer.payload for answer in answers] == [b"%d" % n * 2 for n in range(50)]

    run(story())


def test_a_reply_may_be_much_longer_than_a_packet():
    async def story():
        async with joined(2, settings(), loss=0.05) as (asker, clerk):
            book = bytes(range(256)) * 2000
            clerk.subscribe("book", callback=lambda asked: asked.reply(book))
            assert (await asker.request("book", timeout=30)).payload == book

    run(story())


def test_many_replies_come_one_by_one_until_the_time_is_over_or_there_are_enough():
    async def story():
        async with joined(4, settings()) as (asker, *clerks):
            for clerk in clerks:
                clerk.subscribe("who", callback=lambda asked, me=clerk.me: asked.reply(b"%d" % me))
            names = {clerk.me for clerk in clerks}
            began = time.monotonic()
            replies = [reply async for reply in asker.request_many("who", timeout=0.5)]
            assert {reply.sender for reply in replies} == names
            assert 0.5 <= time.monotonic() - began < 5
            assert len([reply async for reply in asker.request_many("who", timeout=30, limit=2)]) == 2

    run(story())


def test_a_request_that_nobody_hears_fails_at_once():
    async def story():
        async with joined(3, settings()) as (asker, other, _):
            other.subscribe("price.ge")
            began = time.monotonic()
            with pytest.raises(gossamer.NobodyListens, match=r"nobody subscribes to 'price\.ibm'"):
                await asker.request("price.ibm", timeout=30)
            with pytest.raises(gossamer.NobodyListens):
                async for _ in asker.request_many("price.ibm", timeout=30):
                    pass
            assert time.monotonic() - began < 5

    run(story())


def test_a_member_that_stops_listening_is_found_out():
    async def story():
        async with joined(3, settings()) as (asker, clerk, _):
            heard = clerk.subscribe("price", callback=lambda asked: asked.reply(b"1"))
            await asker.request("price", timeout=30)
            heard.close()
            began = time.monotonic()
            with pytest.raises(gossamer.NobodyListens):
                await asker.request("price", timeout=30)
            assert time.monotonic() - began < 5

    run(story())


def test_a_subscriber_that_does_not_reply_is_waited_for_and_a_late_reply_is_counted():
    async def story():
        async with joined(2, settings()) as (asker, clerk):
            asked = clerk.subscribe("price")
            with pytest.raises(gossamer.Timeout, match=r"no reply to 'price' within 0\.2 s"):
                await asker.request("price", timeout=0.2)
            (await asked.get(10)).reply(b"late")
            await until(lambda: asker.stats()["dropped"].get("replies that came too late") == 1)

    run(story())


def test_a_member_answers_its_own_request():
    async def story():
        async with joined(1, settings()) as (group,):
            group.subscribe("me", callback=lambda asked: asked.reply(b"myself"))
            assert (await group.request("me", timeout=30)).payload == b"myself"
            with pytest.raises(gossamer.NobodyListens):
                await group.request("you", timeout=30)

    run(story())


def test_what_cannot_be_replied_is_refused_with_a_word():
    async def story():
        async with joined(1, settings()) as (group,):
            heard = group.subscribe(">")
            group.publish("plain", b"", price=1)
            with pytest.raises(gossamer.Misuse, match="asks for no reply"):
                (await heard.get(10)).reply(b"x")
            asking = asyncio.create_task(group.request("asked", timeout=30))
            request = await heard.get(10)
            with pytest.raises(gossamer.WrongType, match="a payload must be bytes, not int 5"):
                request.reply(5)
            with pytest.raises(gossamer.NotAnEvent, match="at most 1048576"):
                request.reply(bytes(2 << 20))
            with pytest.raises(gossamer.WrongType, match="attribute 'x' is of type list"):
                request.reply(b"", x=[1])
            request.reply(b"fine")
            assert (await asking).payload == b"fine"

    run(story())


MUTE = """
import asyncio, gossamer, sys
async def main():
    async with gossamer.join(sys.argv[1], gossamer.Settings(address=sys.argv[2])) as group:
        heard = group.subscribe("ask")
        print("here", flush=True)
        await heard.get()
        await asyncio.sleep(1)  # the asker has been told that somebody listens
        print("heard", flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


def test_a_request_ends_when_the_member_that_worked_on_it_was_killed():
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as asker:
            line = [sys.executable, "-c", MUTE, GROUP, shared.address]
            mute = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
            try:
                await asyncio.to_thread(mute.stdout.readline)
                await until(lambda: len(asker.members()) == 2)
                asked = asyncio.ensure_future(asker.request("ask", timeout=None))
                assert await asyncio.to_thread(mute.stdout.readline) == "heard\n"
                mute.kill()
                with pytest.raises(gossamer.NobodyListens):
                    await asyncio.wait_for(asked, 40)
            finally:
                mute.kill()
                mute.wait()

    run(story())


def test_a_request_ends_when_its_member_leaves():
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as clerk:
            asker = await gossamer.open(GROUP, shared)
            await until(lambda: len(clerk.members()) == 2)
            silent = clerk.subscribe("price")
            asking = asyncio.create_task(asker.request("price", timeout=None))
            await asyncio.sleep(0.05)
            await asker.close()
            with pytest.raises(gossamer.NotAMember):
                await asking
            assert silent.rest()

    run(story())


def test_a_reply_comes_even_while_more_waits_than_fits():
    async def story():
        async with joined(2, settings(queue_events=50)) as (asker, clerk):
            clerk.subscribe("price", callback=lambda asked: asked.reply(b"1"))
            news = asker.subscribe("news")
            for n in range(500):
                await clerk.publish_wait("news", b"%d" % n)
                await asyncio.sleep(0)
            await until(lambda: news.is_full and asker._inbox.is_paused)
            assert (await asker.request("price", timeout=30)).payload == b"1"
            news.close()
            await until(lambda: clerk.stats()["unsent"] == 0)

    run(story())


def test_without_asyncio_it_is_the_same():
    shared = settings()
    with gossamer.join_sync(GROUP, shared) as clerk, gossamer.join_sync(GROUP, shared) as asker:
        while len(asker.members()) < 2 or len(clerk.members()) < 2:
            time.sleep(0.01)
        requests = clerk.subscribe("price")
        with pytest.raises(gossamer.NobodyListens):
            asker.request("cost", timeout=30)

        def serve():
            for _ in range(3):
                clerk.reply(requests.get(30), b"1")

        thread = threading.Thread(target=serve)
        thread.start()
        assert asker.request("price", timeout=30).payload == b"1"
        assert [reply.payload for reply in asker.request_many("price", timeout=30, limit=1)] == [b"1"]
        assert next(asker.request_many("price", timeout=30)).sender == clerk.me
        thread.join()


def test_a_reply_is_what_it_was():
    for reply in (Reply(0, 1, b"", {}), Reply(2**60, 5, b"abc", {"a": 1, "b": "x", "c": None, "d": 1.5})):
        assert unpack(pack(reply)) == reply
    for wrong in (b"", b"\xff" * 12, pack(Reply(1, 1, b"", {"a": "text"}))[:-1]):
        with pytest.raises(WireError):
            unpack(wrong)


def test_requests_and_values_work_with_one_order_for_all():
    async def story():
        async with joined(2, settings(order="total", codec="json")) as (asker, clerk):
            heard = asker.subscribe("price")
            clerk.subscribe("price", callback=lambda asked: asked.reply({"price": asked.value["of"]}))
            assert (await asker.request("price", {"of": "ibm"}, timeout=30)).value == {"price": "ibm"}
            request = await heard.get(30)
            assert (request.value, request.place is not None) == ({"of": "ibm"}, True)

    run(story())
