"""The public interface, as an application uses it and as it should not: every promise that INTERFACES makes."""

from __future__ import annotations

import asyncio
import gc
import math
from concurrent.futures import ThreadPoolExecutor

import pytest

import gossamer
from gossamer.core.schema import SettingError
from gossamer.live.group import Group
from gossamer.live.logger_group import logger
from gossamer.pubsub.subjects import SubjectError
from gossamer.pubsub.where import FilterError
from tests.live.members import GROUP, collect, joined, payloads, run, settings, until

NUMBERS = [b"%d" % n for n in range(3000)]


# Publishing.


def test_all_ways_to_publish_keep_one_order():
    async def story():
        async with joined(2, settings()) as (a, b):
            heard = b.subscribe(">")
            first = a.publish("n", b"0")
            await a.publish_wait("n", b"1")
            await a.publish_many("n", NUMBERS[2:2000])
            for payload in NUMBERS[2000:]:
                a.publish("n", payload)
            last = a.publish("end")
            await a.flush()
            events = await collect(heard, 3001)
            assert payloads(events) == [*NUMBERS, b""]
            assert (events[0].sender, events[0].seqno) == first
            assert (events[-1].sender, events[-1].seqno) == last
            assert a.stats()["published"] == 3001
            assert a.stats()["unsent"] == 0

    run(story())


def test_a_logger_that_comes_back_knows_in_which_packet_its_events_travel(tmp_path):
    async def story():
        shared = settings()
        for n in range(2):
            async with logger(GROUP, tmp_path / "log", shared) as group:
                heard = group.subscribe(">")
                travels_in = group.publish("n", b"%d" % n)
                await group.flush()
                event = await anext(heard)
                assert (event.payload, event.sender, event.seqno) == (b"%d" % n, *travels_in)

    run(story())


def test_a_lone_event_leaves_at_once_and_those_that_follow_it_share_packets():
    async def story():
        async with gossamer.join(GROUP, settings()) as group:
            group.publish("n", b"alone")
            assert group.stats()["sent"]["send"] == 1  # no turn of the loop was needed
            for _ in range(3):
                await asyncio.sleep(0.01)
                for n in range(1000):
                    group.publish("n", b"%d" % n)
            await group.flush()
            assert group.stats()["sent"]["send"] <= 1 + 3 * 2

    run(story())


def test_many_events_make_few_packets():
    async def story():
        async with joined(2, settings()) as (a, b):
            heard = b.subscribe(">")
            await asyncio.gather(a.publish_many("n", [b"12345678"] * 200_000), collect(heard, 200_000))
            assert a.stats()["sent"]["send"] < 100

    run(story())


def test_a_receiver_that_stands_still_fills_the_queue_and_nothing_is_lost():
    async def story():
        tight = settings(
            send_bytes=200_000, event_bytes_max=1000, queue_events=10, tuning={"window": 2, "patience": 60.0}
        )
        async with joined(2, tight) as (a, b):
            heard = b.subscribe(">")
            with pytest.raises(gossamer.Full, match="publish_wait"):
                await _publish_until_full(a)
            published = a.stats()["published"] + a._outbox._packer.count
            waiting = asyncio.ensure_future(a.publish_wait("n", b"%0500d" % published))
            events = await collect(heard, published + 1)
            await waiting
            assert payloads(events) == [b"%0500d" % n for n in range(published + 1)]

    run(story())


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_large_events_travel_in_parts(loss):
    async def story():
        async with joined(2, settings(tuning={"window": 64}), loss=loss) as (a, b):
            heard = b.subscribe(">")
            packet = a._outbox._body_bytes
            sizes = [packet - 30, packet - 1, packet, packet + 1, 1 << 20, 16 << 20]
            for size in sizes:
                await a.publish_wait("large", bytes([size % 251]) * size, size=size)
                a.publish("small", b"between")
            events = await collect(heard, 2 * len(sizes))
            assert [len(event.payload) for event in events[::2]] == sizes
            assert all(set(event.payload) == {event.attributes["size"] % 251} for event in events[::2])
            assert {event.payload for event in events[1::2]} == {b"between"}

    run(story())


def test_an_event_that_is_too_large_is_refused_and_harms_nothing():
    async def story():
        async with joined(2, settings(event_bytes_max=100_000)) as (a, b):
            heard = b.subscribe(">")
            with pytest.raises(ValueError, match="at most 100000"):
                a.publish("x", bytes(100_001))
            with pytest.raises(ValueError, match="at most 100000"):
                await a.publish_many("x", [b"first", bytes(100_001)])
            a.publish("x", bytes(100_000))
            assert [len(payload) for payload in payloads(await collect(heard, 2))] == [5, 100_000]

    run(story())


def test_large_events_wait_for_room_and_let_other_tasks_run():
    async def story():
        tight = settings(send_bytes=1 << 20, event_bytes_max=1 << 20, tuning={"window": 8})
        async with joined(2, tight) as (a, b):
            heard = b.subscribe(">")
            story = [bytes([n]) * (1 << 20) for n in range(8)]
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.001)

            ticking = asyncio.ensure_future(tick())
            waiting = asyncio.ensure_future(_publish_each(a, story[:4]))
            assert payloads(await collect(heard, 4)) == story[:4]
            await waiting
            waiting = asyncio.ensure_future(a.publish_many("large", story[4:]))
            assert payloads(await collect(heard, 4)) == story[4:]
            await waiting
            ticking.cancel()
            assert ticks > 5

    run(story())


async def _publish_until_full(group: gossamer.Group) -> None:
    for n in range(10**6):
        group.publish("n", b"%0500d" % n)
        if n % 20 == 0:
            await asyncio.sleep(0)


async def _publish_each(group: gossamer.Group, story: list[bytes]) -> None:
    for payload in story:
        await group.publish_wait("large", payload)


def test_an_event_may_be_larger_than_the_default_where_the_settings_allow_it():
    async def story():
        async with joined(2, settings(event_bytes_max=80 << 20, send_bytes=1)) as (a, b):
            heard = b.subscribe(">")
            a.publish("huge", bytes(65 << 20))
            assert len((await anext(heard)).payload) == 65 << 20

    run(story())


def test_attributes_of_every_type_arrive_as_they_were():
    given = {"whole": -(2**63), "real": math.pi, "text": "Zürich \u2603", "yes": True, "no": False, "none": None}

    async def story():
        async with joined(2, settings()) as (a, b):
            heard = b.subscribe(">")
            a.publish("x", b"", **given)
            a.publish("x", b"", subject="not a clash", payload=1)
            a.publish("x", bytearray(b"bytes of any kind"))
            events = await collect(heard, 3)
            assert dict(events[0].attributes) == given
            assert [type(value) for value in events[0].attributes.values()] == [type(v) for v in given.values()]
            assert dict(events[1].attributes) == {"subject": "not a clash", "payload": 1}
            assert payloads(events)[2] == b"bytes of any kind"

    run(story())


def test_an_invalid_event_is_refused_at_once_and_harms_nothing():
    async def story():
        async with joined(2, settings()) as (a, b):
            heard = b.subscribe(">")
            for subject in ("", "a b", "a..b", "a.*", ">", "x" * 300, 7):
                with pytest.raises(SubjectError):
                    a.publish(subject, b"")
            for payload in ("text", 7, None, [b"a"]):
                with pytest.raises(TypeError):
                    a.publish("x", payload)
            for attributes in ({"n": 2**63}, {"n": b"bytes"}, {"n": [1]}, {f"n{i}": i for i in range(65)}):
                with pytest.raises((ValueError, TypeError)):
                    a.publish("x", b"", **attributes)
            with pytest.raises(TypeError):
                await a.publish_many("x", [b"fine", "text"])
            a.publish("x", b"last")
            assert payloads(await collect(heard, 2)) == [b"fine", b"last"]

    run(story())


# Subscribing.


def test_subscriptions_choose_by_subject_and_by_attributes_and_keep_the_order():
    async def story():
        async with joined(2, settings()) as (a, b):
            patterns = [">", "a.>", "*.x", "a.x", "b.*", "a"]
            heard = {pattern: b.subscribe(pattern) for pattern in patterns}
            rich = b.subscribe("*.*", where="n >= 10 and kind in ['even', 'none'] and not n == 12")
            sent = []
            for n in range(40):
                for subject in ("a.x", "b.y", "a.y", "b.x", "a"):
                    a.publish(subject, b"%d" % len(sent), n=n, kind="odd" if n % 2 else "even")
                    sent.append(subject)

            def those(*subjects: str) -> list[bytes]:
                return [b"%d" % at for at, subject in enumerate(sent) if subject in subjects]

            expected = [
                those("a.x", "b.y", "a.y", "b.x", "a"),
                those("a.x", "a.y"),
                those("a.x", "b.x"),
                those("a.x"),
                those("b.y", "b.x"),
                those("a"),
            ]
            for pattern, wanted in zip(patterns, expected, strict=True):
                assert payloads(await collect(heard[pattern], len(wanted))) == wanted, pattern
            wanted = [
                p
                for p in those("a.x", "b.y", "a.y", "b.x")
                if int(p) // 5 >= 10 and int(p) // 5 % 2 == 0 and int(p) // 5 != 12
            ]
            assert payloads(await collect(rich, len(wanted))) == wanted

    run(story())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"pattern": "a..b"}, SubjectError),
        ({"pattern": ">.a"}, SubjectError),
        ({"pattern": ">", "where": "price >"}, FilterError),
        ({"pattern": ">", "where": "__import__('os')"}, FilterError),
        ({"pattern": ">", "losses": "never"}, SettingError),
        ({"pattern": ">", "start": "yesterday"}, SettingError),
    ],
)
def test_an_invalid_subscription_is_refused_and_leaves_nothing_behind(arguments, error):
    async def story():
        async with joined(1, settings(queue_events=1)) as (a,):
            with pytest.raises(error):
                a.subscribe(**arguments)
            a.publish("x", b"1")
            await a.flush()
            assert a.stats()["waiting"] == 0

    run(story())


def test_a_closed_subscription_ends_after_what_is_there():
    async def story():
        async with joined(1, settings()) as (a,):
            one, other = a.subscribe(">"), a.subscribe("x")
            a.publish("x", b"1")
            await a.flush()
            one.close()
            one.close()
            a.publish("x", b"2")
            assert payloads([event async for event in one]) == [b"1"]
            assert await one.take() is None
            assert payloads(await collect(other, 2)) == [b"1", b"2"]

    run(story())


@pytest.mark.parametrize("how", ["close", "drop"])
def test_a_subscription_that_nobody_reads_any_more_holds_nobody_back(how):
    async def story():
        async with joined(2, settings(queue_events=100)) as (a, b):
            heard = b.subscribe("other")
            unread = b.subscribe("n")
            await a.publish_many("n", NUMBERS)
            await until(lambda: b.stats()["waiting"] > 100)
            if how == "close":
                unread.close()
            else:
                del unread
                gc.collect()
            a.publish("other", b"through")
            assert payloads(await collect(heard, 1)) == [b"through"]
            assert b.stats()["waiting"] == 0

    run(story())


def test_a_loop_that_breaks_leaves_no_subscription_behind():
    async def story():
        async with joined(1, settings()) as (a,):
            for n in range(3):
                a.publish("x", b"unheard")
                await a.flush()
                subscription = a.subscribe(">")
                a.publish("x", b"%d" % n)
                async for event in subscription:
                    assert event.payload == b"%d" % n
                    break
                del subscription
            await asyncio.sleep(0)
            a.publish("x", b"nobody looks")
            await a.flush()
            assert a.stats()["waiting"] == 0

    run(story())


def test_a_slow_application_gets_everything_and_holds_nobody_back():
    async def story():
        shared = settings(queue_events=50)
        async with joined(3, shared) as (a, fast, slow):
            quick, late = fast.subscribe(">"), slow.subscribe(">")
            collecting = asyncio.ensure_future(collect(quick, len(NUMBERS)))
            for n, payload in enumerate(NUMBERS):
                await a.publish_wait("n", payload)
                if n % 10 == 0:
                    await asyncio.sleep(0)
            assert payloads(await collecting) == NUMBERS  # before the slow one has read anything
            got = []
            async for event in late:
                got.append(event.payload)
                if len(got) == len(NUMBERS):
                    break
            assert got == NUMBERS

    run(story())


def test_without_order_everything_comes_once():
    async def story():
        async with joined(2, settings(order="none"), loss=0.1, reorder=0.2) as (a, b):
            heard = b.subscribe(">")
            for n, payload in enumerate(NUMBERS[:1000]):
                a.publish("n", payload)
                if n % 5 == 0:
                    await asyncio.sleep(0)
            with pytest.raises(ValueError, match="order='fifo'"):
                a.publish("n", bytes(1 << 20))
            with pytest.raises(SettingError, match="order = 'fifo'"):
                b.subscribe(">", start="beginning")
            got = payloads(await collect(heard, 1000))
            assert sorted(got, key=int) == NUMBERS[:1000]

    run(story())


@pytest.mark.parametrize("losses", ["report", "skip"])
def test_what_is_lost_is_reported_in_its_place(losses):
    async def story():
        # a buffer of one packet, so that peers cannot repair
        tiny = settings(tuning={"buffer_packets": 1, "peer_rounds": 5})
        async with joined(2, tiny, loss=0.3) as (a, b):
            heard = b.subscribe(">", losses=losses)
            for payload in NUMBERS[:200]:
                a.publish("n", payload)
                await asyncio.sleep(0)
            await a.flush()
            await until(lambda: not b.stats()["missing"] and _accounted(b) >= 200)
            heard.close()
            items = [item async for item in heard]
            events = [item for item in items if isinstance(item, gossamer.Event)]
            gaps = [item for item in items if isinstance(item, gossamer.Lost)]
            assert [int(e.payload) for e in events] == sorted(int(e.payload) for e in events)
            assert len(events) < 200
            if losses == "skip":
                assert not gaps
                return
            assert {gap.reason for gap in gaps} == set(b.stats()["lost"])
            numbers = [(i.seqno, i.seqno) if isinstance(i, gossamer.Event) else (i.first, i.last) for i in items]
            covered = sorted({n for first, last in numbers for n in range(first, last + 1)})
            assert [pair[0] for pair in numbers] == sorted(pair[0] for pair in numbers)
            assert covered == list(range(covered[-1] + 1))

    run(story())


def _accounted(group: Group) -> int:
    stats = group.stats()
    return stats["received"] + sum(stats["lost"].values())


@pytest.mark.parametrize(
    ("protocol", "loss"),
    [("rpbcast", 0.1), ("pbcast", 0.1), ("basic", 0.1), ("srm", 0.1), ("lbrm", 0.0), ("unreliable", 0.0)],
)
def test_every_protocol_runs_between_real_sockets(protocol, loss):
    async def story():
        async with joined(3, settings(protocol=protocol), loss=loss) as groups:
            heard = [group.subscribe(">") for group in groups]
            for payload in NUMBERS[:300]:
                groups[0].publish("n", payload)
                await asyncio.sleep(0)
            for subscription in heard:
                assert payloads(await collect(subscription, 300)) == NUMBERS[:300]

    run(story())


def test_what_nobody_repairs_is_reported():
    async def story():
        async with joined(2, settings(protocol="unreliable"), loss=0.3) as (a, b):
            heard = b.subscribe(">")
            for payload in NUMBERS[:300]:
                a.publish("n", payload)
                await asyncio.sleep(0)
            await until(lambda: b.stats()["lost"].get("unrepaired", 0) > 20)
            items = heard.rest()
            assert any(isinstance(item, gossamer.Lost) for item in items)
            got = [int(item.payload) for item in items if isinstance(item, gossamer.Event)]
            assert got == sorted(set(got))

    run(story())


# Looking, and leaving.


def test_the_ledger_adds_up():
    async def story():
        async with joined(3, settings(), loss=0.1, duplicate=0.1, corrupt=0.02) as groups:
            heard = [group.subscribe(">") for group in groups]
            for payload in NUMBERS[:1000]:
                groups[0].publish("n", payload)
                await asyncio.sleep(0)
            for subscription in heard:
                assert payloads(await collect(subscription, 1000)) == NUMBERS[:1000]
            for group in groups[1:]:
                stats = group.stats()
                assert stats["received"] == stats["first_pass"] + stats["peer"] + stats["logger"] == 1000
                assert stats["peer"] > 20
                assert stats["logger"] == 0
                assert stats["duplicates"] > 20
                assert stats["dropped"]["malformed"] > 0
                assert stats["lost"] == {}
                assert stats["missing"] == 0
                assert stats["waiting"] == 0
                others = {str(member) for member in group.members() if member != group.me}
                await until(lambda group=group, others=others: set(group.stats()["round_trip"]) == others)
            mine = groups[0].stats()
            assert (mine["own"], mine["received"], mine["published"]) == (1000, 0, 1000)

    run(story())


def test_leaving_flushes_says_goodbye_and_takes_less_than_a_second():
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as a:
            heard = a.subscribe(">")
            loop = asyncio.get_running_loop()
            async with gossamer.join(GROUP, shared) as b:
                for payload in NUMBERS:
                    b.publish("n", payload)
                began = loop.time()
            assert loop.time() - began < 2.0  # a second, on a machine that does nothing else
            assert payloads(await collect(heard, len(NUMBERS))) == NUMBERS
            await until(lambda: len(a.members()) == 1)

    run(story())


def test_a_group_that_was_left_or_not_joined_says_so():
    async def story():
        group = gossamer.join(GROUP, settings())
        with pytest.raises(RuntimeError, match="async with"):
            group.publish("x", b"too early")
        async with group:
            heard = group.subscribe(">")
            group.publish("x", b"1")
        assert payloads([event async for event in heard]) == [b"1"]
        with pytest.raises(RuntimeError, match="left"):
            group.publish("x", b"too late")
        with pytest.raises(RuntimeError, match="left"):
            await group.publish_many("x", [b"too late"])
        with pytest.raises(RuntimeError, match="left"):
            group.subscribe(">")
        for reach in (group.disconnect, group.reconnect):
            with pytest.raises(gossamer.NotAMember, match="left"):
                reach()
        with pytest.raises(RuntimeError, match="join again"):
            async with group:
                pass

    run(story())


def test_before_it_is_joined_a_group_refuses_everything_and_leaves_no_coroutine_behind(recwarn):
    async def story():
        group = gossamer.join(GROUP, settings())
        with pytest.raises(gossamer.NotAMember, match="async with"):
            group.keys  # noqa: B018 it is the property that is tried
        for wait in (group.flush, group.channels_used, lambda: group.publish_many("a", [b""])):
            with pytest.raises(gossamer.NotAMember, match="async with"):
                await wait()

    run(story())
    gc.collect()
    assert not [str(one.message) for one in recwarn if "never awaited" in str(one.message)]


def test_a_publisher_that_waits_for_room_when_the_group_is_left_is_told():
    async def story():
        tight = settings(send_bytes=1, event_bytes_max=1000, leave_timeout=0, tuning={"window": 1, "patience": 60.0})
        async with joined(1, tight) as (a,):
            async with gossamer.join(GROUP, tight) as b:
                a._member.pause()  # a receiver that stands still
                with pytest.raises(gossamer.Full):
                    await _publish_until_full(b)
                waiting = asyncio.ensure_future(b.publish_wait("n", bytes(900)))
            with pytest.raises(RuntimeError, match="left"):
                await waiting

    run(story())


def test_a_join_that_is_given_up_leaves_nothing_behind():
    async def story():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(gossamer.join(GROUP, settings(tuning={"found_after": 0})).__aenter__(), 0.05)
        await asyncio.sleep(0.3)  # its timers would fire now, at closed sockets

    run(story())


def test_two_groups_at_one_address_live_side_by_side():
    async def story():
        shared = settings()
        async with joined(2, shared, GROUP + " one") as (a, b), joined(2, shared, GROUP + " two") as (c, d):
            heard = [group.subscribe(">") for group in (b, d)]
            await asyncio.gather(a.publish_many("n", NUMBERS), c.publish_many("n", NUMBERS[::-1]))
            assert payloads(await collect(heard[0], len(NUMBERS))) == NUMBERS
            assert payloads(await collect(heard[1], len(NUMBERS))) == NUMBERS[::-1]
            assert not set(a.members()) & set(c.members())

    run(story())


def test_the_environment_says_where_to_meet(monkeypatch):
    place = settings()
    monkeypatch.setenv("GOSSAMER_ADDRESS", place.address)
    monkeypatch.setenv("GOSSAMER_NAME", "from the environment")
    monkeypatch.setenv("GOSSAMER_TUNING_GOSSIP_PERIOD", "0.02")

    async def story():
        async with gossamer.join(GROUP) as a, gossamer.join(GROUP, place) as b:
            heard = b.subscribe(">")
            a.publish("x", b"1")
            assert payloads(await collect(heard, 1)) == [b"1"]
            assert a.profile()["name"] == "from the environment"
            assert a.settings.protocol_settings().gossip_period == 0.02

    run(story())


# Without asyncio.


def test_the_same_without_asyncio():
    place = settings()
    with gossamer.join_sync(GROUP, place) as a, gossamer.join_sync(GROUP, place) as b:
        heard = b.subscribe("n")
        every = b.subscribe(">")
        assert a.publish("n", b"0").sender == a.me
        a.publish_wait("n", b"1")
        a.publish_many("n", NUMBERS[2:])
        a.flush(timeout=30)
        got = [next(every).payload for _ in range(10)]
        for batch in every.batches(timeout=30):
            got += payloads(batch)
            if len(got) == len(NUMBERS):
                break
        assert got == NUMBERS
        with pytest.raises(TimeoutError):
            every.get(timeout=0.05)
        every.close()
        assert list(every) == []
        assert heard.get(timeout=30) is not None
        assert set(a.members()) == set(b.members()) == {a.me, b.me}
        assert b.stats()["received"] == len(NUMBERS)
        assert a.loggers() == ()
    with pytest.raises(RuntimeError):
        a.publish("n", b"too late")


def test_a_thread_that_waits_is_told_of_the_end():
    group = gossamer.join_sync(GROUP, settings())
    with pytest.raises(RuntimeError, match="join_sync"):
        group.publish("n", b"too early")
    with ThreadPoolExecutor(1) as pool:
        with group:
            heard, unread = group.subscribe(">"), group.subscribe(">")
            reading = pool.submit(list, heard)
            group.publish("n", b"1")
            group.flush()
        assert payloads(reading.result(timeout=30)) == [b"1"]
    assert payloads(list(unread)) == [b"1"]


def test_a_thread_reads_what_has_come_though_the_loop_stopped_before_it_could_ask(monkeypatch):
    group = gossamer.open_sync(GROUP, settings())
    heard = group.subscribe(">")
    group.publish("n", b"1")
    asking = group.run

    def run_too_late(work):
        monkeypatch.setattr(group, "run", asking)
        group.close()
        work.close()
        raise gossamer.NotAMember("this member's event loop has stopped: join again")

    monkeypatch.setattr(group, "run", run_too_late)
    assert payloads(list(heard)) == [b"1"]


def test_a_group_that_cannot_be_joined_says_so_without_asyncio():
    group = gossamer.join_sync(GROUP, settings(interface="192.0.2.2"))
    with pytest.raises(SettingError, match=r"only 127\.0\.0\.1"), group:
        pass
