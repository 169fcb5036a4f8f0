"""Real sockets on loopback: members meet, events arrive once and in order, bad lines are repaired, leaving is clean."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from random import Random

import pytest

import gossamer
from gossamer.core.schema import SettingError
from gossamer.live.group import Group
from gossamer.live.transport import Endpoint, TransportError, UdpTransport
from tests.live.members import GROUP, collect, impaired, joined, run, settings, until


def test_an_event_reaches_every_member_and_the_publisher_itself():
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as a, gossamer.join(GROUP, shared) as b:
            subscriptions = [group.subscribe("quotes.nyse.*", where="price > 100") for group in (a, b)]
            a.publish("quotes.nyse.ibm", b"99", price=99.0)
            a.publish("quotes.nasdaq.x", b"no", price=500.0)
            a.publish("quotes.nyse.ibm", b"101.5", price=101.5)
            for subscription in subscriptions:
                event = await anext(subscription)
                assert (event.subject, event.payload, event.attributes) == (
                    "quotes.nyse.ibm",
                    b"101.5",
                    {"price": 101.5},
                )

    run(story())


def test_a_member_tells_what_it_subscribes_to():
    async def story():
        async with gossamer.join(GROUP, settings()) as group:
            first = group.subscribe("quotes.nyse.*", "news.>")
            second = group.subscribe("quotes.nyse.*", where="price > 100")
            assert group.stats()["subscriptions"] == {"patterns": ["news.>", "quotes.nyse.*"], "left_out": 0}
            first.close()
            many = [group.subscribe(f"long.{'x' * 200}.{n}") for n in range(60)]
            told = group.stats()["subscriptions"]
            assert 30 < len(told["patterns"]) < 60
            assert told["left_out"] == len({s.pattern for s in (second, *many)}) - len(told["patterns"])

    run(story())


@pytest.mark.parametrize(
    "chances", [{}, {"loss": 0.05}, {"loss": 0.2, "duplicate": 0.1, "reorder": 0.3}, {"corrupt": 0.05}]
)
def test_everything_arrives_once_and_in_order_or_is_reported(chances):
    async def story():
        shared = settings(leave_timeout=0)  # a goodbye may be lost, and then nobody confirms
        async with AsyncExitStack() as stack:
            groups = [
                await stack.enter_async_context(Group(GROUP, shared, impaired(seed, **chances))) for seed in range(3)
            ]
            subscriptions = [group.subscribe(">") for group in groups]
            for n in range(3000):
                groups[0].publish("n", b"%d" % n)
                if n % 10 == 0:
                    await asyncio.sleep(0)  # many small packets instead of few large ones
            for subscription in subscriptions:
                items = await collect(subscription, 3000)
                assert [item.payload for item in items] == [b"%d" % n for n in range(3000)]

    run(story())


def test_gaps_that_one_wake_up_reveals_are_asked_for_together():
    async def story():
        async with joined(2, settings(), loss=0.3) as (publisher, subscriber):
            heard = subscriber.subscribe(">")
            for n in range(600):
                publisher.publish("n", b"%d" % n)
                time.sleep(0.0001)  # so that each leaves in a packet of its own, and they come to few wake-ups
                if n % 300 == 299:
                    await asyncio.sleep(0)
            assert len(await collect(heard, 600)) == 600
            stats = subscriber.stats()
            assert stats["peer"] > 50
            assert stats["sent"]["request"] < stats["peer"] / 2

    run(story())


def test_members_come_and_go():
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as a:
            async with gossamer.join(GROUP, shared) as b:
                await until(lambda: len(a.members()) == len(b.members()) == 2)
            assert len(a.members()) == 1

    run(story())


def test_groups_of_different_names_do_not_hear_each_other():
    async def story():
        shared = settings()
        async with gossamer.join(GROUP + " one", shared) as a, gossamer.join(GROUP + " two", shared) as b:
            heard = b.subscribe(">")
            a.publish("x", b"1")
            b.publish("x", b"2")
            assert (await anext(heard)).payload == b"2"
            assert len(a.members()) == 1

    run(story())


def test_garbage_is_dropped_and_counted_and_traffic_still_flows():
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as a, gossamer.join(GROUP, shared) as b:
            heard = b.subscribe(">")
            hostile = UdpTransport(Endpoint.parse(shared.address, shared.interface))
            rng = Random(1)
            for n in range(200):
                hostile.send_to_group([rng.randbytes(rng.randrange(1, 2000))])
                a.publish("x", b"%d" % n)
                await asyncio.sleep(0)
            assert [e.payload for e in await collect(heard, 200)] == [b"%d" % n for n in range(200)]
            assert b.stats()["dropped"]["malformed"] == 200
            hostile.close()

    run(story())


def test_beyond_loopback_there_is_no_traffic_without_a_key():
    async def story(changes):
        async with gossamer.join(GROUP, settings(**changes)):
            pass

    with pytest.raises(SettingError, match=r"only 127\.0\.0\.1 is allowed"):
        run(story({"interface": "192.0.2.2"}))


@pytest.mark.parametrize("address", ["239.1.1.1", "10.0.0.1:7700", "239.1.1.1:99999", "group:7700"])
def test_an_address_that_is_not_a_multicast_address_is_refused(address):
    with pytest.raises(TransportError, match="must"):
        Endpoint.parse(address, "127.0.0.1")
