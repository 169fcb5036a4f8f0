"""A member that leaves: what it published is safe, or it says so; healthy members do not keep it waiting."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack, ExitStack

import pytest

import gossamer
from gossamer.live.group import Group
from gossamer.live.logger_group import logger
from gossamer.stack import Stack
from tests.live.members import GROUP, collect, impaired, joined, payloads, processes, run, settings, until

NUMBERS = [b"%d" % n for n in range(3000)]


def test_a_publisher_that_leaves_a_stopped_subscriber_behind_is_told():
    place = settings(leave_timeout=0.5)

    async def publish() -> None:
        async with gossamer.join(GROUP, place) as group:
            await until(lambda: len(group.members()) == 2)
            subscriber.signal(signal.SIGSTOP)
            for n in range(30_000):
                group.publish("n", b"%d" % n + bytes(1000))

    with processes() as start:
        subscriber = start(place, "sub", GROUP, "n")
        with pytest.raises(gossamer.Unsent, match="there is no logger") as unsent:
            asyncio.run(publish())
        assert unsent.value.packets > 0
        assert len(unsent.value.members) == 1
        assert unsent.value.loggers == ()


def test_a_member_that_could_not_get_the_last_packets_learns_that_they_are_lost():
    async def story():
        place = settings(leave_timeout=0.3, loss_patience=2.0)
        async with gossamer.join(GROUP, place) as a:
            heard = a.subscribe(">")
            with pytest.raises(gossamer.Unsent) as unsent:
                await _publish_to_one_without_packets(a, place)
            assert (unsent.value.members, unsent.value.packets) == ((a.me,), 2)
            items: list = []
            while not items or items[-1].last < 1:
                items += await heard.take()
            assert {type(item) for item in items} == {gossamer.Lost}

    run(story())


async def _publish_to_one_without_packets(a: gossamer.Group, place: gossamer.Settings) -> None:
    async with gossamer.join(GROUP, place) as b:
        await until(lambda: len(a.members()) == len(b.members()) == 2)
        a._member._log_has_failed = lambda packets: True  # it hears everything but packets
        b.publish("n", b"1")
        await asyncio.sleep(0.01)
        b.publish("n", b"2")


def test_pub_says_in_one_line_what_did_not_arrive_and_fails():
    place = settings()
    with processes() as start:
        subscriber = start(place, "sub", GROUP, "n")
        publisher = start(
            place, "pub", GROUP, "n", "--stdin", "--wait", "1", environment={"GOSSAMER_LEAVE_TIMEOUT": "0.3"}
        )
        publisher.popen.stdin.write(b"one\n")
        publisher.popen.stdin.flush()
        assert subscriber.popen.stdout.readline() == b"n one\n"
        subscriber.signal(signal.SIGSTOP)
        code, _, errors = publisher.wait(last=b"two\n")
        assert code == 1, errors
        assert errors.startswith(f"gossamer: group '{GROUP}': left with ")
        assert "not known to have arrived at " in errors
        assert len(errors.splitlines()) == 1


def test_a_member_that_does_not_read_in_time_is_named_and_one_that_does_is_waited_for():
    async def story():
        slow = settings(leave_timeout=0.3)
        async with gossamer.join(GROUP, slow) as a:
            heard = a.subscribe(">")
            with pytest.raises(gossamer.Unsent) as unsent:
                await _publish_to_one_that_stands_still(a, slow)
            assert unsent.value.members == (a.me,)
            a._member.resume()
            await asyncio.gather(_publish_to_one_that_stands_still(a, settings(address=slow.address)), _later(a))
            assert len([item for item in heard.rest() if isinstance(item, gossamer.Event)]) >= 1

    run(story())


async def _publish_to_one_that_stands_still(
    a: gossamer.Group, place: gossamer.Settings, error: BaseException | None = None
) -> None:
    async with gossamer.join(GROUP, place) as b:
        await until(lambda: len(a.members()) == 2)
        a._member.pause()
        b.publish("n", b"1")
        if error is not None:
            raise error


async def _later(a: gossamer.Group) -> None:
    await until(lambda: not a._member._reading)
    await asyncio.sleep(0.3)
    a._member.resume()


@pytest.mark.parametrize("protocol", ["rpbcast", "pbcast", "basic", "srm", "lbrm"])
def test_the_last_events_of_a_member_that_leaves_arrive_over_a_bad_line(protocol):
    async def story():
        loss = 0.0 if protocol == "lbrm" else 0.3
        place = settings(protocol=protocol)
        async with joined(2, place, loss=loss) as groups:
            heard = [group.subscribe(">") for group in groups]
            async with Group(GROUP, place, impaired(7, loss=loss)) as leaver:
                await until(lambda: all(len(group.members()) == 3 for group in (*groups, leaver)))
                for payload in NUMBERS[:100]:
                    leaver.publish("n", payload)
                    await asyncio.sleep(0)
            for subscription in heard:
                assert payloads(await collect(subscription, 100)) == NUMBERS[:100]

    run(story())


def test_an_error_on_its_way_out_is_not_replaced():
    async def story():
        place = settings(leave_timeout=0.1)
        async with gossamer.join(GROUP, place) as a:
            with pytest.raises(KeyError, match="mine"):
                await _publish_to_one_that_stands_still(a, place, KeyError("mine"))
            a._member.resume()

    run(story())


def test_whoever_does_not_want_to_wait_does_not():
    async def story():
        place = settings(leave_timeout=0)
        async with gossamer.join(GROUP, place) as a:
            began = time.monotonic()
            await _publish_to_one_that_stands_still(a, place)
            assert time.monotonic() - began < 4.0  # the default would wait for 5 seconds
            a._member.resume()

    run(story())


def test_a_member_that_does_not_read_its_own_subscription_hears_that_all_have_its_events():
    async def story():
        place = settings(queue_events=10)
        async with gossamer.join(GROUP, place) as a:
            async with gossamer.join(GROUP, place) as b:
                await until(lambda: len(a.members()) == 2)
                unread = b.subscribe(">")
                await a.publish_many("n", NUMBERS)
                await until(lambda: not b._member._reading)
                b.publish("n", b"of b")
                began = time.monotonic()
            assert time.monotonic() - began < 4.0
            assert unread.rest()

    run(story())


def test_with_a_logger_it_is_enough_that_events_are_durable(tmp_path):
    async def story():
        place = settings()
        async with logger(GROUP, tmp_path / "log", place) as log, gossamer.join(GROUP, place) as a:
            await until(lambda: len(log.members()) == 2)
            began = time.monotonic()
            async with gossamer.join(GROUP, place) as b:
                await until(lambda: len(a.members()) == len(log.members()) == 3 and b.loggers())
                a._member.pause()
                b.publish("n", b"1")
            assert time.monotonic() - began < 4.0
            assert log.stats()["log"]["appended"] == 1
            a._member.resume()

    run(story())


def test_a_logger_that_does_not_answer_is_named(tmp_path):
    async def story():
        place = settings(leave_timeout=0.3)
        async with logger(GROUP, tmp_path / "log", place) as log:
            with pytest.raises(gossamer.Unsent, match="no logger has acknowledged") as unsent:
                await _publish_to_one_that_stands_still(log, place)
            assert unsent.value.loggers == (log.me,)
            log._member.resume()

    run(story())


def test_a_blocking_group_says_it_too():
    place = settings(leave_timeout=0.2)
    with gossamer.join_sync(GROUP, place) as a:

        def publish() -> None:
            with gossamer.join_sync(GROUP, place) as b:
                while len(a.members()) < 2:
                    time.sleep(0.01)
                a.call(a._group._member.pause)
                b.publish("n", b"1")

        with pytest.raises(gossamer.Unsent):
            publish()
        a.call(a._group._member.resume)


def test_what_is_unsent_is_counted_in_every_channel():
    async def story():
        place = settings(leave_timeout=0.3)
        async with joined(2, place) as (a, _):
            a.install_channels(gossamer.ChannelMap(1, 2, (("b.>", 1),)))
            assert await a.channels_used(timeout=20)
            heard = a.subscribe(">")
            b = await gossamer.open(GROUP, place)
            await until(lambda: len(a.members()) == len(b.members()) == 3)
            a._member.pause()
            for n in range(20):
                b.publish(f"{'ab'[n % 2]}.x", b"%d" % n)
                b._outboxes.send()  # a packet of its own
            with pytest.raises(gossamer.Unsent) as unsent:
                await b.close()
            assert unsent.value.members == (a.me,)
            assert unsent.value.packets in (20, 21)  # the first to another channel says where the streams were
            a._member.resume()
            assert len(await collect(heard, 20)) == 20

    run(story())


@pytest.mark.parametrize(
    ("lacking", "what"), [({5: 10, 6: 1}, "left with 10 packets "), ({5: 1}, "left with 1 packet "), ({}, None)]
)
def test_what_is_unsent_is_counted_in_packets_and_nothing_is_no_error(lacking, what, monkeypatch):
    async def story():
        async with gossamer.join(GROUP, settings()) as group:
            with monkeypatch.context() as patch:
                patch.setattr(Stack, "unconfirmed", lambda _: lacking)
                unsent = group._safety._unsent(GROUP)
            assert (what in str(unsent)) if what else unsent is None

    run(story())


@pytest.mark.parametrize("alone", [False, True], ids=["with another", "alone"])
@pytest.mark.parametrize("blocking", [False, True], ids=["asyncio", "blocking"])
def test_a_member_that_leaves_while_it_is_disconnected_says_how_many_events_it_takes_with_it(alone, blocking):
    shared = settings()

    async def story():
        async with AsyncExitStack() as stack:
            if not alone:
                await stack.enter_async_context(gossamer.join(GROUP, shared))
            group = await gossamer.open(GROUP, shared)
            await until(lambda: len(group.members()) == 2 - alone)
            group.publish("a", b"sent")
            await group.flush()
            group.disconnect()
            for _ in range(3):
                group.publish("a", b"x" * 700)
            with pytest.raises(gossamer.Unsent, match="3 events published meanwhile") as caught:
                await group.close()
            assert caught.value.never_sent == 3
            assert caught.value.packets in (2, 3)  # one carries one or two of them

    def blocking_story():
        with ExitStack() as stack:
            if not alone:
                stack.enter_context(gossamer.join_sync(GROUP, shared))
            group = gossamer.open_sync(GROUP, shared)
            while len(group.members()) < 2 - alone:
                time.sleep(0.01)
            group.disconnect()
            group.publish("a", b"1")
            with pytest.raises(gossamer.Unsent, match="1 event published meanwhile"):
                group.close()

    blocking_story() if blocking else run(story())


def test_a_member_that_is_back_before_it_leaves_takes_nothing_with_it():
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as other, gossamer.join(GROUP, shared) as group:
            await until(lambda: len(group.members()) == 2)
            heard = other.subscribe("a")
            group.disconnect()
            group.publish("a", b"late")
            await asyncio.sleep(0.1)
            group.reconnect()
            await group.close()
            assert (await heard.get(5)).payload == b"late"

    run(story())


def test_close_waits_as_long_as_it_is_told_to():
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as other:
            group = await gossamer.open(GROUP, shared)
            await until(lambda: len(group.members()) == 2)
            other._member.disconnect_for_good()
            group.publish("a", b"1")
            begin = asyncio.get_running_loop().time()
            with pytest.raises(gossamer.Unsent):
                await group.close(0.2)
            assert asyncio.get_running_loop().time() - begin < 3  # and not 5, `leave_timeout`

    run(story())
