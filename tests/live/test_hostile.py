"""What a stranger with a socket can do to an open group by lies that are well-formed: a little, and not for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from zlib import crc32

import pytest

import gossamer
from gossamer.core.messages import (
    Data,
    Gossip,
    Heartbeat,
    Heartbeats,
    Join,
    Leave,
    Message,
    Recall,
    Request,
    Solicit,
    ViewUpdate,
)
from gossamer.core.packets import Packet
from gossamer.core.questions import Call, Challenge, Probe
from gossamer.core.ranges import RangeSet
from gossamer.core.views import MemberEntry
from gossamer.live.group import Group
from gossamer.live.logger_group import logger
from gossamer.live.transport import Endpoint, UdpTransport
from gossamer.membership.view import JOINING, LEFT, MEMBER
from gossamer.store import open_store
from gossamer.wire import Header, encode
from tests.live.members import GROUP, collect, joined, payloads, run, settings, until

NUMBERS = [b"%d" % n for n in range(100)]


class Liar:
    """Says whatever it likes in anybody's name."""

    def __init__(self, place: gossamer.Settings) -> None:
        self.transport = UdpTransport(Endpoint.parse(place.address, place.interface))
        self.address = "{}:{}".format(*self.transport.address)
        self.sent_bytes = 0

    def answers_bytes(self) -> int:
        """How much came back to it."""
        found = 0
        with suppress(BlockingIOError):
            while True:
                found += len(self.transport.unicast.recv(65_536))
        return found

    def say(self, source: int, message: Message, to: tuple[str, int] | None = None) -> None:
        datagram = encode(Header(crc32(GROUP.encode()), source), message)
        self.sent_bytes += len(datagram)
        if to is None:
            self.transport.send_to_group([datagram])
        else:
            self.transport.send_to([datagram], to)


@contextmanager
def liar(place: gossamer.Settings) -> Iterator[Liar]:
    made = Liar(place)
    try:
        yield made
    finally:
        made.transport.close()


def now_us() -> int:
    return int(time.time() * 1e6)


def freshness(ahead_us: int) -> int:
    return min(now_us() + ahead_us, 2**63 - 1)


async def longest_pause(story, clock=time.monotonic) -> float:
    """How long the loop stood still at most, while the story went on."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = clock()
            await asyncio.sleep(0.005)
            longest = max(longest, clock() - before)

    watching = asyncio.ensure_future(watch())
    await story
    watching.cancel()
    return longest


@pytest.mark.parametrize(
    "address",
    ["a-name-to-look-up.invalid:7", "255.255.255.255:7", "224.0.0.1:7", "0.0.0.0:7", "192.0.2.7:7", "127.0.0.1:0", ""],
)
def test_a_member_is_reached_at_a_number_of_one_host_of_the_group_or_not_at_all(address):
    async def story():
        shared = settings()
        async with joined(2, shared) as (a, b):
            with liar(shared) as stranger:

                async def lie() -> None:
                    for number in range(1000, 1010):
                        stranger.say(number, Join(MemberEntry(number, JOINING, now_us(), False, address)))
                        stranger.say(7, ViewUpdate([MemberEntry(number, MEMBER, now_us(), False, address)]))
                    await until(lambda: a.stats()["dropped"].get("impossible addresses", 0) >= 20)

                assert await longest_pause(lie()) < 5.0  # a look-up takes ten seconds
            assert set(a.members()) == {a.me, b.me}

    run(story())


@pytest.mark.parametrize("ahead_us", [1, 3600 * 10**6, 2**63])
@pytest.mark.parametrize("how", ["leave", "view"])
def test_a_living_member_that_is_said_to_have_left_is_back_at_once(how, ahead_us):
    async def story():
        shared = settings()
        async with joined(3, shared) as (a, b, c):
            heard = b.subscribe("n")
            with liar(shared) as stranger:
                for _ in range(5):
                    if how == "leave":
                        stranger.say(a.me, Leave(freshness(ahead_us)))
                    else:
                        stranger.say(c.me, ViewUpdate([MemberEntry(a.me, LEFT, freshness(ahead_us))]))
                    await asyncio.sleep(0.05)
            await until(lambda: all(set(g.members()) == {a.me, b.me, c.me} for g in (a, b, c)))
            for payload in NUMBERS:
                a.publish("n", payload)
            assert payloads(await collect(heard, len(NUMBERS))) == NUMBERS

    run(story())


@pytest.mark.parametrize("ahead_us", [3600 * 10**6, 2**63])
def test_a_logger_that_is_said_to_have_left_still_logs_and_is_back_after_a_restart(tmp_path, ahead_us):
    async def story():
        shared = settings()

        def lie(about: int) -> None:
            with liar(shared) as stranger:
                stranger.say(about, Leave(freshness(ahead_us)))

        async with gossamer.join(GROUP, shared) as a:
            async with logger(GROUP, tmp_path / "log", shared) as log:
                await until(lambda: log.me in a.loggers())
                lie(log.me)
                await asyncio.sleep(0.1)
                await until(lambda: log.me in a.loggers())
                for payload in NUMBERS:
                    a.publish("n", payload)
                await a.flush()
                assert log.stats()["log"]["appended"] > 0
                gone = log.me
            lie(gone)
            await asyncio.sleep(0.1)
            async with logger(GROUP, tmp_path / "log", shared) as log:
                assert log.me == gone
                await until(lambda: log.me in a.loggers())
                a.publish("n", b"more")
                await asyncio.wait_for(a.flush(), 10)

    run(story())


@pytest.mark.parametrize(
    ("how", "number"),
    [("heartbeat", 50_000), ("heartbeat", 2**62), ("heartbeats", 2**40), ("view", 2**62)],
)
def test_a_publisher_is_not_muted_by_lies_about_its_numbers(how, number):
    """Without a logger, and after the members have given up what they were told of."""

    async def story():
        shared = settings()
        async with joined(2, shared) as (a, b):
            heard = b.subscribe("n", losses="skip")
            a.publish("n", b"first")
            assert payloads(await collect(heard, 1)) == [b"first"]
            with liar(shared) as stranger:
                for _ in range(3):
                    if how == "heartbeat":
                        stranger.say(a.me, Heartbeat(number))
                    elif how == "heartbeats":
                        stranger.say(a.me, Heartbeats({a.me: number}, False))
                    else:
                        stranger.say(a.me, ViewUpdate([], seen={a.me: number}, sponsors=True))
                    await asyncio.sleep(1.0)
            for payload in NUMBERS:
                a.publish("n", payload)
            assert payloads(await asyncio.wait_for(collect(heard, len(NUMBERS)), 10)) == NUMBERS

    run(story())


@pytest.mark.parametrize("with_logger", [False, True])
@pytest.mark.parametrize("how", ["packet", "packets", "heartbeat"])
def test_a_publisher_is_not_hidden_by_lies_that_were_given_up_or_retracted(tmp_path, how, with_logger):
    """What was sent in its name is far ahead of it, and nobody can supply what lies between."""

    async def story():
        shared = settings(loss_patience=0.5)
        async with AsyncExitStack() as stack:
            if with_logger:
                await stack.enter_async_context(logger(GROUP, tmp_path, shared))
            a, b = await stack.enter_async_context(joined(2, shared, others=with_logger))
            heard = b.subscribe("n", losses="skip")
            a.publish("n", b"first")
            assert payloads(await collect(heard, 1)) == [b"first"]
            with liar(shared) as stranger:
                for number in (900, 9000, 9001) if how == "packets" else (9000,):
                    lie = Heartbeat(number) if how == "heartbeat" else Data(Packet(a.me, number, b""))
                    stranger.say(a.me, lie)
                await until(lambda: b.stats()["lost"] or b.stats()["dropped"].get("numbers not sent yet"))
            for payload in NUMBERS:
                await a.publish_wait("n", payload)
                a._outbox.send()  # packets of their own
            assert payloads(await asyncio.wait_for(collect(heard, len(NUMBERS)), 10)) == NUMBERS
            await asyncio.wait_for(a.flush(), 10)

    run(story())


def test_a_packet_with_an_impossible_number_is_ignored():
    async def story():
        shared = settings()
        async with joined(2, shared) as (a, b):
            heard = b.subscribe("n")
            a.publish("n", b"first")
            assert payloads(await collect(heard, 1)) == [b"first"]
            with liar(shared) as stranger:
                stranger.say(a.me, Data(Packet(a.me, 2**62, b"")))
                stranger.say(a.me, Data(Packet(a.me, 2**40, b"")))
                await until(lambda: b.stats()["dropped"].get("numbers too high", 0) == 2)
            for payload in NUMBERS:
                a.publish("n", payload)
            assert payloads(await collect(heard, len(NUMBERS))) == NUMBERS
            assert b.stats()["lost"] == {}

    run(story())


async def lie_slowly(lies: list[tuple[int, Message]], stranger: Liar) -> None:
    """As fast as a busy member can read."""
    for at, (source, message) in enumerate(lies):
        stranger.say(source, message)
        if at % 50 == 0:
            await asyncio.sleep(0.002)
    await asyncio.sleep(0.2)


def test_six_thousand_senders_that_do_not_exist_cost_little():
    async def story():
        shared = settings()
        async with joined(2, shared) as (a, b):
            heard = b.subscribe("n")
            lies = [(10**9 + n, Data(Packet(10**9 + n, 40, b""))) for n in range(6000)]
            with liar(shared) as stranger:
                assert await longest_pause(lie_slowly(lies, stranger), time.thread_time) < 0.5
            assert b.stats()["dropped"]["too many unknown senders"] > 1000
            assert len(b._member.stack.streams) < 300
            for payload in NUMBERS:
                a.publish("n", payload)
            assert payloads(await collect(heard, len(NUMBERS))) == NUMBERS

    run(story())


def test_five_thousand_joins_of_nobody_leave_room_for_one_more():
    async def story():
        shared = settings()
        async with joined(2, shared) as (a, b):
            with liar(shared) as stranger:
                nobody = [MemberEntry(10**9 + n, JOINING, now_us(), False, stranger.address) for n in range(5000)]
                lies = [(entry.member, Join(entry)) for entry in nobody]
                assert await longest_pause(lie_slowly(lies, stranger), time.thread_time) < 0.5
                assert b.stats()["dropped"]["too much from strangers"] > 1000
                assert len(b.members()) < 200
                async with gossamer.join(GROUP, shared) as late:
                    heard = late.subscribe("n")
                    await until(lambda: late.me in a.members())
                    for payload in NUMBERS:
                        a.publish("n", payload)
                    assert payloads(await collect(heard, len(NUMBERS))) == NUMBERS

    run(story())


def test_strangers_are_not_answered_with_more_than_they_said():
    async def story():
        shared = settings()
        async with joined(3, shared) as groups:
            a, _, c = groups
            heard = c.subscribe("n")
            for _ in range(20):
                a.publish("n", bytes(50_000))
            await collect(heard, 20)
            everything = {group.me: RangeSet([(0, 1000)]) for group in groups}
            lies: list[Message] = [
                Request(everything),
                Gossip(missing=everything, view=1, heartbeats=1, stamp=1),
                Gossip(view=1),
                Solicit(1, everything),
                Recall(0),
                ViewUpdate([], answer=True),
                Heartbeats({}, answer=True),
                Probe(1),
                Probe(2, padding=bytes(100)),
            ]
            with liar(shared) as stranger:
                for lie in lies:
                    for group in groups:
                        stranger.say(12345, lie, group._member._transport.address)
                await asyncio.sleep(0.5)
                assert stranger.answers_bytes() <= 3 * stranger.sent_bytes

    run(story())


@pytest.mark.parametrize("how", ["joins", "founds", "is in the view"])
def test_an_address_gets_nothing_before_it_has_proven_that_somebody_hears_there(how):
    """However large the view is, and whatever the stranger asks for after it was let in."""

    async def story():
        shared = settings(leave_timeout=0)
        async with joined(2, shared) as (a, b):
            crowd = [MemberEntry(10**9 + n, MEMBER, now_us(), False, f"127.0.0.1:{20_000 + n}") for n in range(60)]
            with liar(shared) as friend:
                for first in range(0, len(crowd), 20):
                    friend.say(a.me, ViewUpdate(crowd[first : first + 20]))
            for _ in range(10):
                b.publish("n", bytes(50_000))
            await b.flush()
            await until(lambda: len(a.members()) > 40)
            with liar(shared) as stranger:
                said = {
                    "joins": Join(MemberEntry(777, JOINING, now_us(), False, stranger.address)),
                    "founds": ViewUpdate([MemberEntry(777, MEMBER, now_us(), False, stranger.address)], answer=True),
                    "is in the view": Request({b.me: RangeSet([(0, 1000)])}),
                }
                stranger.say(777, ViewUpdate([MemberEntry(777, MEMBER, now_us(), False, stranger.address)]))
                for _ in range(20):
                    stranger.say(777, said[how])
                    await asyncio.sleep(0.05)
                assert a._member.sent["request"], "it is called for"
                assert stranger.answers_bytes() == 0

    run(story())


def test_nobody_gets_three_times_what_was_said_in_its_name():
    """However many members hear it, and for as long as they believe it: the address is that of a third party."""

    async def story():
        shared = settings(leave_timeout=0)
        async with joined(12, shared) as groups:
            for number, lie in enumerate(
                (
                    lambda me, to: Join(MemberEntry(me, JOINING, now_us(), False, to)),
                    lambda me, to: ViewUpdate([MemberEntry(me, MEMBER, now_us(), False, to)], answer=True),
                    lambda me, to: Challenge(5),
                    lambda me, to: Call(groups[3].me),
                ),
                1000,
            ):
                with liar(shared) as victim:
                    victim.say(number, lie(number, victim.address))
                    await asyncio.sleep(1.5)
                    assert victim.answers_bytes() < 3 * victim.sent_bytes
            with liar(shared) as victim:
                for group in groups:
                    victim.say(7, Challenge(5), group._member._transport.address)
                await asyncio.sleep(0.5)
                assert 0 < victim.answers_bytes() < 3 * victim.sent_bytes
            groups[0].publish("n", b"still there")
            await asyncio.wait_for(groups[0].flush(), 10)

    run(story())


def test_a_member_whose_address_is_not_known_to_be_its_own_is_called_and_then_heard():
    """Each forgets that the other has proven anything."""

    async def story():
        async with joined(2, settings()) as (a, b):
            heard = b.subscribe("n")
            for group in (a, b):
                group._member._post._proofs.proven.clear()
            a.publish("n", b"1")
            await asyncio.wait_for(a.stable(a.publish("n", b"2")), 10)
            assert payloads(await collect(heard, 2)) == [b"1", b"2"]

    run(story())


@pytest.mark.parametrize("durable", [True, False])
def test_a_leave_in_the_name_of_a_logger_that_is_away_lets_go_of_nothing(tmp_path, durable):
    """A flush waits for a logger that was only said to have left, and is done when it is back."""

    async def story():
        shared = settings(durable=durable)
        async with Group(GROUP, shared, UdpTransport) as publisher:
            async with logger(GROUP, tmp_path, shared) as log:
                publisher.publish("n", b"first")
                await publisher.flush(timeout=10)
            with liar(shared) as stranger:
                stranger.say(log.me, Leave(now_us() + 10**6))
            await until(lambda: log.me not in publisher.loggers())
            publisher.publish("n", b"second")
            with pytest.raises(TimeoutError):
                await publisher.flush(timeout=0.5)
            flushing = asyncio.create_task(publisher.flush())
            await asyncio.sleep(0.5)
            assert not flushing.done()
            async with logger(GROUP, tmp_path, shared):
                await asyncio.wait_for(flushing, 10)
        with open_store(tmp_path, readonly=True) as store:
            assert len(list(store.read(publisher.me, 0, 1 << 60))) == 2

    run(story())
