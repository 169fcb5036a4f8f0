"""Queues of workers: each event goes to one of them, and what a dead one had not done to another."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from contextlib import suppress

import pytest

import gossamer
from gossamer.core.ranges import RangeSet
from gossamer.wire import WireError
from gossamer.wire.queue_letters import BYE, HELLO, REPORT, WELCOME, QueueLetter, pack, unpack
from tests.live.members import GROUP, joined, run, settings, until


async def agreed(*subscriptions, members):
    await until(lambda: all(len(heard.queue.queue.members) == members for heard in subscriptions))


async def work(heard, seen, *, acks=True):
    async for event in heard:
        seen.append(event)
        if acks:
            await event.ack()


def numbers(events):
    return [int(event.payload) for event in events]


@pytest.mark.parametrize("chances", [{}, {"loss": 0.1, "duplicate": 0.05, "reorder": 0.05}], ids=["clean", "bad"])
def test_each_event_goes_to_one_worker_and_all_have_some(chances):
    async def story():
        async with joined(4, settings(), **chances) as (publisher, *workers):
            queues = [worker.subscribe("job", queue="workers") for worker in workers]
            plain = workers[0].subscribe("job")
            await agreed(*queues, members=3)
            seen: list[list] = [[], [], []]
            tasks = [asyncio.create_task(work(*pair)) for pair in zip(queues, seen, strict=True)]
            for n in range(600):
                await publisher.publish_wait("job", b"%d" % n)
                await asyncio.sleep(0)
            await until(lambda: sum(map(len, seen)) >= 600)
            await until(lambda: plain.waiting == 600)
            await asyncio.sleep(0.3)
            assert sorted(n for some in seen for n in numbers(some)) == list(range(600))
            assert all(len(some) > 50 for some in seen)
            assert all(numbers(some) == sorted(numbers(some)) for some in seen)
            await until(lambda: all(not heard.queue.queue._open for heard in queues))  # all know that all is done
            for task in tasks:
                task.cancel()

    run(story())


def test_what_a_worker_does_not_keep_for_others_is_counted():
    async def story():
        async with joined(3, settings(queue_events=50)) as (publisher, one, other):
            queues = [worker.subscribe("job", queue="workers") for worker in (one, other)]
            await agreed(*queues, members=2)
            task = asyncio.create_task(work(queues[0], []))  # the other does nothing
            for n in range(400):
                await publisher.publish_wait("job", b"%d" % n)
                await asyncio.sleep(0)
            await until(lambda: one.stats()["dropped"].get("not kept for other workers of a queue", 0) > 100)
            task.cancel()

    run(story())


@pytest.mark.parametrize("by", ["sender", "key"])
def test_order_is_kept_for_each_sender_or_key(by):
    async def story():
        async with joined(5, settings()) as (one, two, *workers):
            queues = [worker.subscribe("job", queue="w", queue_by=by) for worker in workers]
            await agreed(*queues, members=3)
            seen: list[list] = [[], [], []]
            tasks = [asyncio.create_task(work(*pair)) for pair in zip(queues, seen, strict=True)]
            for n in range(300):
                for publisher in (one, two):
                    publisher.publish("job", b"%d" % n, key=f"k{n % 20}")
                await asyncio.sleep(0)
            await until(lambda: sum(map(len, seen)) == 600)
            owners: dict = {}
            for worker, some in enumerate(seen):
                for event in some:
                    what = event.sender if by == "sender" else event.attributes["key"]
                    owners.setdefault(what, []).append((worker, event))
            for some in owners.values():
                assert len({worker for worker, _ in some}) == 1
                for sender in (one.me, two.me):
                    mine = numbers([event for _, event in some if event.sender == sender])
                    assert mine == sorted(mine)
            assert len(owners) == (2 if by == "sender" else 20)
            for task in tasks:
                task.cancel()

    run(story())


WORKER = """
import asyncio, sys, gossamer

async def main():
    async with gossamer.join(sys.argv[1], gossamer.Settings(address=sys.argv[2])) as group:
        heard = group.subscribe("job", queue="workers")
        count = 0
        async for event in heard:
            count += 1
            if count <= 20:
                await event.ack()
                print(event.payload.decode(), flush=True)

asyncio.run(main())
"""


async def start_worker(shared):
    arguments = ["-c", WORKER, GROUP, shared.address]
    return await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)


def test_what_a_killed_worker_had_not_done_goes_to_another():
    async def story():
        shared = settings(tuning={"suspect_after": 1.0})
        async with joined(2, shared) as (publisher, worker):
            heard = worker.subscribe("job", queue="workers")
            process = await start_worker(shared)
            seen: list = []
            task = asyncio.create_task(work(heard, seen))
            try:
                await agreed(heard, members=2)
                done = []
                for n in range(400):
                    publisher.publish("job", b"%d" % n)
                    await asyncio.sleep(0.001)
                while len(done) < 20:
                    done.append(int(await asyncio.wait_for(process.stdout.readline(), 30)))
                await asyncio.sleep(0.3)
                assert len(seen) < 250, "half of it is the other's"
            finally:
                process.kill()
                await process.wait()
            await until(lambda: {*numbers(seen), *done} == set(range(400)))
            assert Counter(numbers(seen)).most_common(1)[0][1] == 1, "nothing twice here"
            assert worker.stats()["dropped"]["taken over in a queue"] > 100
            task.cancel()

    run(story())


def test_what_a_killed_worker_had_not_done_goes_to_none_that_came_later():
    async def story():
        shared = settings(tuning={"suspect_after": 1.0})
        async with joined(2, shared) as (publisher, worker):
            heard = worker.subscribe("job", queue="workers")
            process = await start_worker(shared)
            seen: list = []
            late: list = []
            tasks = [asyncio.create_task(work(heard, seen))]
            try:
                await agreed(heard, members=2)
                done = []
                for n in range(200):
                    await publisher.publish_wait("job", b"%d" % n)
                    await asyncio.sleep(0.001)
                while len(done) < 20:
                    done.append(int(await asyncio.wait_for(process.stdout.readline(), 30)))
                async with gossamer.join(GROUP, shared) as newcomer:
                    queue = newcomer.subscribe("job", queue="workers")
                    tasks.append(asyncio.create_task(work(queue, late)))
                    await agreed(heard, queue, members=3)
                    process.kill()
                    await process.wait()
                    await agreed(heard, queue, members=2)
                    await until(lambda: {*numbers(seen), *done} == set(range(200)))
                    assert not late, "it came later"
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            for task in tasks:
                task.cancel()

    run(story())


def test_what_only_a_killed_worker_had_is_reported_to_those_that_came_later():
    async def story():
        shared = settings(tuning={"suspect_after": 1.0})
        async with joined(1, shared) as (publisher,):
            process = await start_worker(shared)
            try:
                await until(lambda: len(publisher.members()) == 2)
                done: list = []
                at = 0
                while len(done) < 20:  # it reads on, and acknowledges no more
                    await publisher.publish_wait("job", b"%d" % at)
                    at += 1
                    with suppress(TimeoutError):
                        done.append(int(await asyncio.wait_for(process.stdout.readline(), 0.05)))
                first = (await publisher.publish_wait("job", b"not done")).seqno
                await asyncio.sleep(0.2)
                async with gossamer.join(GROUP, shared) as newcomer:
                    heard = newcomer.subscribe("job", queue="workers")
                    await agreed(heard, members=2)
                    process.kill()
                    await process.wait()
                    lost = await asyncio.wait_for(anext(heard), 30)
                    assert isinstance(lost, gossamer.Lost)
                    assert lost.reason == "left undone by a worker that is gone"
                    assert lost.last == first
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    run(story())


def test_workers_come_and_go_and_nothing_is_left_undone():
    async def story():
        shared = settings()
        async with joined(2, shared) as (publisher, stays):
            seen: list = []
            tasks = [asyncio.create_task(work(stays.subscribe("job", queue="w"), seen))]
            published = 0
            for _ in range(5):
                async with gossamer.join(GROUP, shared) as guest:
                    heard = guest.subscribe("job", queue="w")
                    tasks.append(asyncio.create_task(work(heard, seen)))
                    for _ in range(200):
                        publisher.publish("job", b"%d" % published)
                        published += 1
                        await asyncio.sleep(0.001)
            await until(lambda: set(numbers(seen)) == set(range(published)))
            for task in tasks:
                task.cancel()

    run(story())


def letter(worker, kind, number, *, taken=(), done=(), since=None):
    """Of packets of sender 9."""
    of_9 = [{9: RangeSet((n, n) for n in some)} if some else {} for some in (taken, done)]
    return QueueLetter(kind, worker._id, number, {}, *of_9, 0, since or {})


def test_a_worker_that_has_come_back_before_its_farewell_has_left_what_it_had():
    async def story():
        async with joined(3, settings()) as (publisher, one, two):
            heard, other = one.subscribe("job", queue="w"), two.subscribe("job", queue="w")
            await agreed(heard, other, members=2)
            for n in range(20):
                await publisher.publish_wait("job", b"%d" % n)
                await asyncio.sleep(0)
            await until(lambda: heard.waiting + other.waiting == 20 and other.waiting > 0)
            await asyncio.sleep(0.2)
            heard.queue.heard(two.me, letter(heard.queue, BYE, 0))  # letters have no order: of an earlier subscription
            await until(lambda: heard.waiting == 20)
            await agreed(heard, other, members=2)

    run(story())


def test_what_a_worker_has_in_hand_is_known_though_its_later_reports_were_read_first():
    async def story():
        async with joined(2, settings()) as (one, two):
            heard = one.subscribe("job", queue="w")
            worker = heard.queue
            for made in (
                letter(worker, HELLO, 7),
                letter(worker, REPORT, 7, taken=[1], done=[2]),
                letter(worker, REPORT, 8, taken=[5], done=[3]),
                letter(worker, WELCOME, 8, taken=[1, 3, 4]),
            ):
                worker.heard(two.me, made)
            worker.leave(two.me)
            lost = [await heard.get(10), await heard.get(10)]
            assert [(some.first, some.last) for some in lost] == [(1, 1), (4, 5)]

    run(story())


def test_a_greeting_that_comes_after_the_farewell_is_of_one_that_is_gone():
    async def story():
        async with joined(2, settings()) as (one, two):
            heard = one.subscribe("job", queue="w")
            worker = heard.queue
            worker.heard(two.me, letter(worker, BYE, 8))
            for kind, number in ((HELLO, 7), (WELCOME, 8)):
                worker.heard(two.me, letter(worker, kind, number))
                assert worker.queue.members == (one.me,)
            worker.heard(two.me, letter(worker, HELLO, 9))
            assert set(worker.queue.members) == {one.me, two.me}, "it has come back"

    run(story())


def test_a_worker_that_goes_before_it_was_welcomed_has_left():
    async def story():
        async with joined(2, settings()) as (one, two):
            heard, hasty = one.subscribe("job", queue="w"), two.subscribe("job", queue="w")
            await asyncio.sleep(0)  # both greet
            assert not hasty.queue._others
            hasty.queue._parts.finish()
            await asyncio.sleep(0.3)
            assert heard.queue.queue.members == (one.me,)

    run(story())


def test_a_worker_that_comes_back_at_once_is_taken_for_a_new_one():
    async def story():
        async with joined(2, settings()) as (one, two):
            heard = one.subscribe("job", queue="w")
            for _ in range(20):
                again = two.subscribe("job", queue="w")
                await asyncio.sleep(0)
                again.close()
                again = two.subscribe("job", queue="w")
                await agreed(heard, again, members=2)
                again.close()
                await agreed(heard, members=1)

    run(story())


def test_who_has_what_of_a_member_that_was_not_heard_yet_is_not_forgotten():
    async def story():
        async with joined(2, settings()) as (one, two):
            heard = one.subscribe("job", queue="w")
            worker = heard.queue
            worker.heard(two.me, letter(worker, HELLO, 7, since={two.me: 0, 9: 5}))
            worker._write(two.me, HELLO)
            assert worker.queue._since_of[two.me] == {two.me: 0}, "there is no member 9"

    run(story())


def test_reports_of_a_member_that_is_gone_are_not_kept():
    async def story():
        async with joined(1, settings()) as (one,):
            heard = one.subscribe("job", queue="w")
            async with gossamer.join(GROUP, one.settings) as two:
                await until(lambda: len(one.members()) == 2)
                heard.queue.heard(two.me, letter(heard.queue, REPORT, 7))  # it is no worker, or not yet
                assert heard.queue._waiting
            await until(lambda: not heard.queue._waiting)

    run(story())


def test_a_commit_is_for_all_that_was_read_and_a_callback_acknowledges():
    async def story():
        async with joined(3, settings()) as (publisher, one, two):
            called: list = []
            first = one.subscribe("job", queue="w")
            second = two.subscribe("job", queue="w", callback=called.append)
            await agreed(first, second, members=2)
            for n in range(100):
                publisher.publish("job", b"%d" % n)
                await asyncio.sleep(0.001)
            read: list = []
            while len(read) + len(called) < 100:
                if batch := first.rest():
                    read += batch
                    await first.commit()
                await asyncio.sleep(0.01)
            await until(lambda: not first.queue.queue._open and not second.queue.queue._open)

    run(story())


def test_what_cannot_be_a_queue_is_refused():
    async def story():
        async with joined(1, settings()) as (group,):
            heard = group.subscribe("job", queue="w")
            with pytest.raises(gossamer.Misuse, match="in it already"):
                group.subscribe("job", queue="w")
            for wrong in ({"queue": ""}, {"queue": "x", "queue_by": "colour"}, {"queue": "x", "start": "beginning"}):
                with pytest.raises(gossamer.SettingError, match="queue"):
                    group.subscribe("job", **wrong)
            heard.close()
            group.subscribe("job", queue="w")

    run(story())


def test_without_asyncio_it_is_the_same():
    shared = settings()
    with gossamer.join_sync(GROUP, shared) as one, gossamer.join_sync(GROUP, shared) as two:
        while len(one.members()) < 2 or len(two.members()) < 2:
            time.sleep(0.01)
        queues = [group.subscribe("job", queue="w", queue_by="key") for group in (one, two)]
        while any(len(heard._subscription.queue.queue.members) < 2 for heard in queues):
            time.sleep(0.01)
        for n in range(50):
            one.publish("job", b"%d" % n, key=f"k{n}")
        seen: list = []
        while len(seen) < 50:
            for heard in queues:
                with suppress(gossamer.Timeout):
                    event = heard.get(0.05)
                    event.ack()
                    seen.append(int(event.payload))
        assert sorted(seen) == list(range(50))


def test_a_letter_is_what_it_was():
    made = QueueLetter(REPORT, b"q", 7, {1: 5}, {1: RangeSet.span(1, 3)}, {2: RangeSet.span(0, 0)}, 2**31, {1: 3})
    assert unpack(pack(made)) == made
    for wrong in (b"", b"\x09", pack(made)[:-1], pack(made) + b"\0"):
        with pytest.raises(WireError):
            unpack(wrong)
