"""Subscriptions that are not read: each has its bounds, and what does not fit is reported once, in its place."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random

import pytest

import gossamer
from gossamer.core.effects import ReportLost
from gossamer.core.packets import Packet
from gossamer.core.schema import SettingError
from gossamer.live.home import Home
from gossamer.live.inbox import Inbox
from gossamer.live.subscription import Room
from gossamer.trace.recorder import Recorder
from gossamer.wire.events import pack_one
from tests.live.members import collect, joined, payloads, run, settings, until

NUMBERS = [b"%06d" % n for n in range(60_000)]


def numbers_of(items: list) -> list[tuple[int, int]]:
    return [(i.first, i.last) if isinstance(i, gossamer.Lost) else (i.seqno, i.seqno) for i in items]


# With real sockets.


def test_a_subscription_that_is_not_read_does_not_stop_the_other_and_learns_what_it_missed():
    async def story():
        async with joined(2, settings(queue_events=5000)) as (a, b):
            unread, heard = b.subscribe(">"), b.subscribe(">")
            for at in range(0, len(NUMBERS), 2000):
                await a.publish_many("n", NUMBERS[at : at + 2000])
                assert payloads(await collect(heard, 2000)) == NUMBERS[at : at + 2000]
            a.publish("end", b"end")
            (end,) = await collect(heard, 1)
            items = unread.rest()
            got, lost = items[:-1], items[-1]
            assert payloads(got) == NUMBERS[: len(got)]
            assert 5000 < len(got) < len(NUMBERS)
            assert lost == gossamer.Lost(a.me, got[-1].seqno + 1, end.seqno, "not read")
            assert b.stats()["lost"] == {"not read": lost.last - lost.first + 1}
            a.publish("n", b"again")  # what is read now goes on
            assert payloads(await collect(unread, 1)) == payloads(await collect(heard, 1)) == [b"again"]

    run(story())


def test_a_subscriber_that_never_reads_is_bounded_in_bytes_and_gets_everything_when_it_does():
    async def story():
        large = settings(queue_bytes=2 << 20)
        async with joined(2, large) as (a, b):
            heard = b.subscribe(">")
            story = [b"%d" % n + bytes(60_000) for n in range(300)]
            publishing = asyncio.ensure_future(_publish_each(a, story))
            await until(lambda: b.stats()["waiting"] > 20)
            await asyncio.sleep(0.3)
            assert b.stats()["waiting"] * 60_000 < 16 << 20
            assert payloads(await collect(heard, 300)) == story
            await publishing
            assert b.stats()["lost"] == {}

    run(story())


async def _publish_each(group: gossamer.Group, story: list[bytes]) -> None:
    for payload in story:
        await group.publish_wait("n", payload)
        await asyncio.sleep(0)


def test_large_events_in_parts_count_with_all_their_bytes():
    async def story():
        async with joined(2, settings(queue_bytes=5 << 20)) as (a, b):
            heard, unread = b.subscribe(">"), b.subscribe(">", when_full="drop")
            for n in range(12):
                await a.publish_wait("large", bytes([n]) * (1 << 20))
                await collect(heard, 1)
            items = unread.rest()
            assert [item.payload[0] for item in items[:-1]] == list(range(6))
            assert items[-1].reason == "not read"

    run(story())


@pytest.mark.parametrize("how", ["async", "blocking"])
def test_a_subscription_that_should_raise_ends_with_an_error_after_what_is_there(how):
    async def story():
        async with joined(2, settings(queue_events=1000)) as (a, b):
            unread, heard = b.subscribe(">", when_full="raise"), b.subscribe(">")
            await asyncio.gather(a.publish_many("n", NUMBERS), collect(heard, len(NUMBERS)))
            got = []

            async def read() -> None:
                async for event in unread:
                    got.append(event.payload)

            with pytest.raises(gossamer.Overrun, match="queue_events"):
                await read()
            assert got == NUMBERS[: len(got)]
            assert len(got) > 1000
            assert b.stats()["lost"] == {}

    def blocking():
        place = settings(queue_events=1000, when_full="raise")
        with gossamer.join_sync("blocking", place) as group:
            unread = group.subscribe(">")
            group.publish_many("n", NUMBERS)
            with pytest.raises(gossamer.Overrun):
                list(unread)

    if how == "async":
        run(story())
    else:
        blocking()


def test_events_published_to_oneself_are_bounded_too():
    async def story():
        async with joined(1, settings(queue_events=1000)) as (a,):
            heard = a.subscribe(">")
            await a.publish_many("n", NUMBERS)
            await a.flush()
            items = heard.rest()
            assert payloads(items[:-1]) == NUMBERS[: len(items) - 1]
            assert isinstance(items[-1], gossamer.Lost)
            a.publish("n", b"again")
            assert payloads(await collect(heard, 1)) == [b"again"]

    run(story())


def test_reading_one_by_one_makes_room():
    """An application that is always a little behind loses nothing."""

    async def story():
        async with joined(1, settings(queue_events=50, when_full="drop")) as (a,):
            heard = a.subscribe(">")
            for n in range(40):
                a.publish("n", b"%d" % n)
            for n in range(1000):
                a.publish("n", b"%d" % (n + 40))
                await a.flush()
                assert (await anext(heard)).payload == b"%d" % n

    run(story())


# The inbox by itself.


class Scene:
    """An inbox, and senders whose packets hold one event of 100 bytes each."""

    def __init__(self) -> None:
        self.reading = True
        self.inbox = Inbox(0, Home(), 10**6, Recorder(None), ordered=True, pause=self._pause, resume=self._resume)
        self.next = {1: 0, 2: 0}

    def _pause(self) -> None:
        self.reading = False

    def _resume(self) -> None:
        self.reading = True

    def subscribe(self, when_full: str, events: int = 10, pattern: str = ">", **more) -> gossamer.Subscription:
        return self.inbox.subscribe((pattern,), None, more.pop("losses", "report"), Room(events, 10**6, when_full))

    def deliver(self, count: int = 1, sender: int = 1, subject: str = "n") -> None:
        first = self.next[sender]
        self.next[sender] += count
        run = [Packet(sender, first + n, pack_one(subject, bytes(100), 1400, 1)) for n in range(count)]
        self.inbox.delivered(run, "first_pass")

    def lose(self, count: int, sender: int = 1) -> None:
        first = self.next[sender]
        self.next[sender] += count
        self.inbox.given_up(ReportLost(sender, first, first + count - 1, "unrepaired"))


def on_a_stage(play) -> None:
    async def story():
        play(Scene())

    run(story())


def test_a_member_pauses_only_while_all_that_may_pause_it_are_full():
    def play(scene: Scene) -> None:
        one, other, tap = scene.subscribe("pause"), scene.subscribe("pause", 30), scene.subscribe("drop", 5)
        scene.deliver(20)
        assert (one.is_full, other.is_full, tap.is_full, scene.reading) == (True, False, True, True)
        scene.deliver(20)
        assert not scene.reading
        scene.deliver(5)  # was on its way
        other.rest()
        assert scene.reading
        one.close()
        tap.close()
        scene.deliver(40)
        assert not scene.reading
        late = scene.subscribe("pause")
        assert scene.reading
        late.close()
        assert not scene.reading
        other.close()
        assert scene.reading

    on_a_stage(play)


def test_one_that_pauses_loses_nothing_of_what_was_on_its_way():
    def play(scene: Scene) -> None:
        only = scene.subscribe("pause")
        for _ in range(10):
            scene.deliver(10)
        assert numbers_of(only.rest()) == [(n, n) for n in range(100)]

    on_a_stage(play)


def test_losses_are_merged_by_sender_and_come_once_in_their_place():
    def play(scene: Scene) -> None:
        slow = scene.subscribe("drop", 3)
        for _ in range(5):
            scene.deliver(4, sender=1)
            scene.lose(2, sender=1)
            scene.deliver(1, sender=2)
        items = slow.rest()
        assert numbers_of(items) == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 29), (0, 4)]
        assert [item.reason for item in items if isinstance(item, gossamer.Lost)] == ["not read"] * 2
        assert scene.inbox.lost == {"unrepaired": 10, "not read": 16 + 5}
        scene.deliver(2)
        assert numbers_of(slow.rest()) == [(30, 30), (31, 31)]

    on_a_stage(play)


def test_a_subscription_that_skips_losses_counts_them_all_the_same():
    def play(scene: Scene) -> None:
        slow = scene.subscribe("drop", 3, losses="skip")
        scene.deliver(4)
        scene.deliver(4)
        assert numbers_of(slow.rest()) == [(n, n) for n in range(4)]
        assert scene.inbox.lost == {"not read": 4}

    on_a_stage(play)


def test_a_subscription_loses_only_what_it_would_have_matched():
    def play(scene: Scene) -> None:
        slow, fast = scene.subscribe("pause", 3, "mine"), scene.subscribe("pause", 1000)
        for _ in range(4):
            scene.deliver(4, subject="mine")
            scene.deliver(4, subject="other")
        assert numbers_of(slow.rest()) == [(0, 0), (1, 1), (2, 2), (3, 3), (8, 27)]
        assert numbers_of(fast.rest()) == [(n, n) for n in range(32)]

    on_a_stage(play)


def test_who_waits_for_the_past_keeps_the_member_reading_and_is_bounded():
    def play(scene: Scene) -> None:
        new = scene.subscribe("pause")
        new.wait_for_past()
        for _ in range(10):
            scene.deliver(10, sender=1)
            scene.deliver(1, sender=2)
        assert scene.reading
        assert new.waiting <= 20
        new.past_known({2: 0})  # of the second sender everything comes again
        (*events, lost) = new.rest()
        assert numbers_of(events) == [(n, n) for n in range(len(events))]
        assert lost == gossamer.Lost(1, len(events), 99, "not read")

    on_a_stage(play)


def test_whatever_happens_every_number_is_accounted_for_once_and_in_order():
    def play(scene: Scene) -> None:
        rng = Random(7)
        subscriptions = [scene.subscribe(how, rng.randrange(1, 40)) for how in ("pause", "pause", "drop", "drop")]
        got: list[list] = [[] for _ in subscriptions]
        for _ in range(3000):
            if rng.random() < 0.2:
                at = rng.randrange(4)
                got[at] += subscriptions[at].rest()
            elif rng.random() < 0.1:
                scene.lose(rng.randrange(1, 4), sender=rng.choice((1, 2)))
            else:
                scene.deliver(rng.randrange(1, 9), sender=rng.choice((1, 2)))
        for items, subscription in zip(got, subscriptions, strict=True):
            items += subscription.rest()
            for sender in (1, 2):
                spans = numbers_of([item for item in items if item.sender == sender])
                assert spans[0][0] == 0
                assert spans[-1][1] == scene.next[sender] - 1
                assert all(b[0] == a[1] + 1 for a, b in pairwise(spans))

    on_a_stage(play)


def test_an_unknown_policy_is_refused():
    def play(scene: Scene) -> None:
        with pytest.raises(SettingError, match="'pause' or 'drop' or 'raise'"):
            scene.subscribe("wait")

    on_a_stage(play)
