"""Durable subscribers: they go on where their last commit was, wherever they are, one at a time for each name."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

import gossamer
from gossamer.live.logger_group import logger
from gossamer.live.mail import COMMITTED
from gossamer.live.readers import SUBSCRIBER
from gossamer.store import open_store
from tests.live.members import GROUP, joined, payloads, run, settings, until


async def publish(group, first, count, subject="bill"):
    """Numbered events, a few in each packet."""
    for n in range(first, first + count):
        await group.publish_wait(subject, b"%d" % n)
        if n % 3 == 0:
            await asyncio.sleep(0)
    await group.flush(timeout=30)


def numbered(first, count):
    return [b"%d" % n for n in range(first, first + count)]


async def read(subscription, count):
    items = []
    while len(items) < count:
        items.append(await subscription.get(30))
    return items


def committed(store: Path, name: str):
    with open_store(store, readonly=True) as log:
        return {c.name: c.committed for c in log.consumers()}.get(SUBSCRIBER + name)


def test_a_durable_subscription_goes_on_after_its_last_commit(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared), gossamer.join(GROUP, shared) as publisher:
            async with gossamer.join(GROUP, shared) as first:
                await until(lambda: publisher.loggers() and first.loggers())
                await publish(publisher, 0, 100)
                heard = first.subscribe("bill", durable="billing", start="beginning")
                assert payloads(await read(heard, 60)) == numbered(0, 60)
                await heard.commit(timeout=30)
                await read(heard, 40)  # not committed
            await publish(publisher, 100, 100)
            async with gossamer.join(GROUP, shared) as second:
                await until(lambda: second.loggers())
                again = second.subscribe("bill", durable="billing")
                items = payloads(await read(again, 1))
                while items[-1] != b"199":
                    items += payloads(await read(again, 1))
                begins = int(items[0])
                assert 50 < begins <= 60, "what shares a packet with the last that was read may come again"
                assert items == numbered(begins, 200 - begins)

    run(story())


def test_a_new_name_begins_now_and_is_kept_from_then_on(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared), gossamer.join(GROUP, shared) as publisher:
            await until(lambda: publisher.loggers())
            await publish(publisher, 0, 50)
            async with gossamer.join(GROUP, shared) as first:
                await until(lambda: first.loggers())
                heard = first.subscribe("bill", durable="billing")
                await heard.caught_up(30)
                await until(lambda: committed(tmp_path / "log", "billing"))
            await publish(publisher, 50, 50)
            async with gossamer.join(GROUP, shared) as second:
                await until(lambda: second.loggers())
                assert payloads(await read(second.subscribe("bill", durable="billing"), 50)) == numbered(50, 50)

    run(story())


def test_events_are_acknowledged_one_by_one_and_the_first_that_is_not_holds_the_position(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared), gossamer.join(GROUP, shared) as publisher:
            async with gossamer.join(GROUP, shared) as first:
                await until(lambda: publisher.loggers() and first.loggers())
                heard = first.subscribe("bill", durable="billing", start="beginning")
                for n in range(10):
                    publisher.publish("bill", b"%d" % n)
                    await publisher.flush(timeout=30)  # each in a packet of its own
                items = await read(heard, 10)
                for item in items[:4] + items[5:]:
                    await item.ack()
                    await item.ack()
                await until(lambda: (committed(tmp_path / "log", "billing") or {}).get(publisher.me, -1) >= 3)
            assert committed(tmp_path / "log", "billing")[publisher.me] == items[3].seqno
            async with gossamer.join(GROUP, shared) as second:
                await until(lambda: second.loggers())
                again = await read(second.subscribe("bill", durable="billing"), 6)
                assert payloads(again) == numbered(4, 6)

    run(story())


def test_what_does_not_match_does_not_hold_back_the_log(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared), joined(2, shared, others=1) as (publisher, reader):
            await until(lambda: publisher.loggers() and reader.loggers())
            heard = reader.subscribe("bill", durable="billing")
            await heard.caught_up(30)
            await publish(publisher, 0, 50, "noise")
            last = publisher.publish("noise", b"last").seqno
            await until(lambda: committed(tmp_path / "log", "billing").get(publisher.me) == last)

    run(story())


def test_batches_are_committed_together(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared), gossamer.join(GROUP, shared) as publisher:
            async with gossamer.join(GROUP, shared) as first:
                await until(lambda: publisher.loggers() and first.loggers())
                heard = first.subscribe("bill", durable="billing", start="beginning")
                await publish(publisher, 0, 50)
                await until(lambda: heard.waiting == 50)
                batch = await heard.take(30)
                with pytest.raises(gossamer.Misuse, match=r"subscription\.commit"):
                    await batch[0].ack()
                await heard.commit(wait=False)
                await until(lambda: (committed(tmp_path / "log", "billing") or {}).get(publisher.me) == batch[-1].seqno)
                await publish(publisher, 50, 50)
                await until(lambda: heard.waiting == 50)
                await heard.take(30)
                await asyncio.sleep(1.5)  # nothing is committed of itself
            async with gossamer.join(GROUP, shared) as second:
                await until(lambda: second.loggers())
                assert payloads(await read(second.subscribe("bill", durable="billing"), 50)) == numbered(50, 50)

    run(story())


def test_a_second_reader_is_refused_and_may_begin_when_the_first_has_ended(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared), joined(2, shared, others=1) as (first, second):
            await until(lambda: first.loggers() and second.loggers())
            heard = first.subscribe("bill", durable="billing", start="beginning")
            await heard.caught_up(30)
            with pytest.raises(gossamer.NameInUse, match="this member reads it already"):
                first.subscribe("bill", durable="billing")
            refused = second.subscribe("bill", durable="billing")
            began = time.monotonic()
            await first.publish_wait("bill", b"for the first")  # comes to both while the second waits for its answer
            with pytest.raises(gossamer.NameInUse, match=r"durable name 'billing': member .* reads it"):
                await refused.get(30)
            assert time.monotonic() - began < 10
            assert (await heard.get(30)).payload == b"for the first"
            await heard.commit(30, wait=True)
            heard.close()
            later = second.subscribe("bill", durable="billing")
            first.publish("bill", b"x")
            assert (await later.get(30)).payload == b"x"

    run(story())


READER = """
import asyncio, sys, gossamer

async def main():
    async with gossamer.join(sys.argv[1], gossamer.Settings(address=sys.argv[2])) as group:
        heard = group.subscribe("bill", durable="billing", start="beginning")
        count = 0
        async for event in heard:
            count += 1
            if count % 10 == 0:
                await heard.commit(wait=True)
                print(event.payload.decode(), flush=True)

asyncio.run(main())
"""


def test_a_reader_that_was_killed_is_replaced_soon_and_nothing_is_lost(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared), gossamer.join(GROUP, shared) as publisher:
            await until(lambda: publisher.loggers())
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", READER, GROUP, shared.address, stdout=asyncio.subprocess.PIPE
            )
            try:
                await publish(publisher, 0, 100)
                last = 0
                while last < 50:
                    last = int(await asyncio.wait_for(process.stdout.readline(), 30))
            finally:
                process.kill()
                await process.wait()
            began = time.monotonic()
            async with gossamer.join(GROUP, shared) as second:
                await until(lambda: second.loggers())
                again = second.subscribe("bill", durable="billing")
                await publish(publisher, 100, 10)
                items = payloads(await read(again, 1))
                assert time.monotonic() - began < 15
                while items[-1] != b"109":
                    items += payloads(await read(again, 1))
                begins = int(items[0])
                assert items == numbered(begins, 110 - begins)
                assert begins > last - 15

    run(story())


def test_a_commit_that_was_lost_with_a_killed_logger_is_repeated(tmp_path):
    """The logger had the letter and was killed before it kept the commit; it comes back as the same member."""

    async def story():
        shared = settings()
        async with (
            logger(GROUP, tmp_path / "log", shared),
            gossamer.join(GROUP, shared) as publisher,
            gossamer.join(GROUP, shared) as reader,
        ):
            await until(lambda: publisher.loggers() and reader.loggers())
            heard = reader.subscribe("bill", durable="billing", start="beginning")
            await publish(publisher, 0, 50)
            await read(heard, 30)
            parts = heard.acks._parts
            unanswered: list = []
            parts.mail.on(COMMITTED, lambda *answer: unanswered.append(answer))
            await heard.commit()
            await until(lambda: unanswered)
            parts.mail.on(COMMITTED, parts._committed)
            await read(heard, 20)
            await heard.commit(wait=True, timeout=10)

    run(story())


def test_what_a_logger_answers_to_an_earlier_subscription_of_the_name_is_no_answer_to_this_one(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared), gossamer.join(GROUP, shared) as group:
            earlier = group.subscribe("bill", durable="billing")
            await earlier.caught_up(30)
            parts = earlier.acks._parts
            for n in range(3):
                await publish(group, n, 1)
                await read(earlier, 1)
                await earlier.commit(30, wait=True)
            late: list = []
            parts.mail.on(COMMITTED, lambda *answer: late.append(answer))
            await publish(group, 3, 1)
            await read(earlier, 1)
            await earlier.commit()
            await until(lambda: late)
            earlier.close()
            await until(lambda: not parts._active)

            heard = group.subscribe("bill", durable="billing")
            await heard.caught_up(30)
            parts._committed(*late[0])
            await publish(group, 4, 1)
            await read(heard, 1)
            with pytest.raises(gossamer.Timeout, match="no logger has kept its position"):
                await heard.commit(0.5, wait=True)

    run(story())


def test_a_commit_is_with_every_logger_and_any_of_them_is_enough(tmp_path):
    async def story():
        shared = settings(copies=2, leave_timeout=0.0)
        one, two = tmp_path / "one", tmp_path / "two"
        async with gossamer.join(GROUP, shared) as publisher, logger(GROUP, two, shared) as second_logger:
            async with logger(GROUP, one, shared) as first_logger, gossamer.join(GROUP, shared) as reader:
                await until(lambda: len(publisher.loggers()) == len(reader.loggers()) == 2)
                await until(lambda: len(first_logger.loggers()) == len(second_logger.loggers()) == 2)
                heard = reader.subscribe("bill", durable="billing", start="beginning")
                await publish(publisher, 0, 50)
                await read(heard, 50)
                await heard.commit(timeout=30, wait=True)
                assert committed(one, "billing")[publisher.me] == committed(two, "billing")[publisher.me]
            async with gossamer.join(GROUP, settings(address=shared.address)) as late:
                await until(lambda: late.loggers())
                again = late.subscribe("bill", durable="billing")
                publisher.publish("bill", b"50")
                assert (await again.get(30)).payload == b"50"
                await again.commit(timeout=30, wait=True)
                at = committed(two, "billing")[publisher.me]
            assert committed(one, "billing")[publisher.me] < at
            async with logger(GROUP, one, shared):  # it comes back when nobody reads
                await until(lambda: committed(one, "billing")[publisher.me] == at)

    run(story())


def test_a_commit_is_confirmed_even_while_more_waits_than_fits(tmp_path):
    async def story():
        shared = settings(queue_events=200)
        async with logger(GROUP, tmp_path / "log", shared), joined(2, shared, others=1) as (publisher, reader):
            await until(lambda: publisher.loggers() and reader.loggers())
            heard = reader.subscribe("bill", durable="billing")
            await heard.caught_up(30)
            sending = asyncio.create_task(publish(publisher, 0, 3000))
            items: list = []

            def much_waits():
                return heard.is_full or len(items) + heard.waiting == 3000

            while len(items) < 3000:
                await until(much_waits)
                items += await heard.take(30)
                await until(much_waits)
                await heard.commit(timeout=30, wait=True)
            assert payloads(items) == numbered(0, 3000)
            await sending

    run(story())


def test_a_commit_travels_while_the_reader_goes_on_but_not_for_ever(tmp_path):
    async def story():
        shared = settings()
        async with joined(2, shared) as (publisher, reader), logger(GROUP, tmp_path / "log", shared) as log:
            heard = reader.subscribe("bill", durable="billing", start="beginning")
            await publish(publisher, 0, 40)
            await read(heard, 10)
            await heard.commit(wait=True)
            before = committed(tmp_path / "log", "billing")
            log.disconnect()
            await read(heard, 10)
            await heard.commit()  # though the logger cannot hear it
            await asyncio.sleep(1.1)
            await read(heard, 10)
            with pytest.raises(gossamer.Timeout, match="no logger has kept its position"):
                await heard.commit(timeout=0.2)
            assert committed(tmp_path / "log", "billing") == before
            log.reconnect()
            await heard.commit(timeout=30, wait=True)
            after = committed(tmp_path / "log", "billing")
            assert after[publisher.me] > before[publisher.me]

    run(story())


def test_an_acknowledgement_is_for_the_subscription_that_gave_the_event_and_counts_once(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared), gossamer.join(GROUP, shared) as group:
            first = group.subscribe("bill", durable="first", start="beginning")
            await first.caught_up(30)
            await group.publish_many("bill", numbered(0, 3))  # one packet
            alone = await read(first, 1)  # taken while no other subscription is there
            second, plain = group.subscribe("bill", durable="second"), group.subscribe("bill")
            await second.caught_up(30)
            for _ in range(3):  # as if it were three events
                await alone[0].ack()
            await group.publish_many("bill", numbered(3, 3))
            theirs, others = await read(second, 3), await read(plain, 3)
            for event in theirs:
                await event.ack()
            with pytest.raises(gossamer.Misuse):
                await others[0].ack()
            await until(lambda: (committed(tmp_path / "log", "second") or {}).get(group.me) == 1)
            assert committed(tmp_path / "log", "first").get(group.me, -1) == -1  # two events are not done
            for event in await read(first, 5):
                await event.ack()
            await until(lambda: committed(tmp_path / "log", "first").get(group.me) == 1)

    run(story())


def test_a_reader_may_change_between_events_and_batches(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared), gossamer.join(GROUP, shared) as group:
            heard = group.subscribe("bill", durable="billing", start="beginning")
            await heard.caught_up(30)
            for n in range(3):  # the first is made an event that can be acknowledged, the others come as such
                await group.publish_many("bill", numbered(2 * n, 2))
                for event in await read(heard, 2):
                    await event.ack()
            await until(lambda: (committed(tmp_path / "log", "billing") or {}).get(group.me) == event.seqno)
            for n in range(3, 5):
                await group.publish_many("bill", numbered(2 * n, 2))
                batch = await heard.take(30)
            with pytest.raises(gossamer.Misuse, match=r"subscription\.commit"):
                await batch[0].ack()
            assert committed(tmp_path / "log", "billing")[group.me] == event.seqno
            await heard.commit(30, wait=True)
            assert committed(tmp_path / "log", "billing")[group.me] == batch[-1].seqno
            await group.publish_many("bill", numbered(10, 2))
            for event in await read(heard, 2):
                await event.ack()
            await until(lambda: committed(tmp_path / "log", "billing")[group.me] == event.seqno)

    run(story())


def test_a_callback_whose_subscription_is_refused_is_not_silent(caplog):
    async def story():
        async with joined(1, settings()) as (group,):
            group.subscribe("bill", durable="billing", callback=print)
            await until(lambda: "has ended: durable name 'billing': the group has no logger" in caplog.text)

    run(story())


def test_without_a_logger_there_is_an_error_that_says_what_to_start():
    async def story():
        async with joined(1, settings()) as (group,):
            with pytest.raises(gossamer.NoLogger, match="gossamer logger GROUP --store DIR"):
                await group.subscribe("bill", durable="billing").get(30)
            with pytest.raises(gossamer.SettingError, match="durable = ''"):
                group.subscribe("bill", durable="")
            with pytest.raises(gossamer.Misuse, match="durable='name'"):
                await group.subscribe("bill").commit()
            heard = group.subscribe("bill")
            group.publish("bill", b"1")
            with pytest.raises(gossamer.Misuse, match="nobody waits for this event"):
                await (await heard.get(30)).ack()

    run(story())


def test_without_asyncio_it_is_the_same(tmp_path):
    shared = settings()

    async def story():
        async with logger(GROUP, tmp_path / "log", shared):
            await asyncio.to_thread(blocking)

    def blocking():
        with gossamer.join_sync(GROUP, shared) as group:
            heard = group.subscribe("bill", durable="billing", start="beginning")
            for n in range(20):
                group.publish("bill", b"%d" % n)
                group.flush(30)
            assert payloads([heard.get(30) for _ in range(10)]) == numbered(0, 10)
            heard.commit(30)
            for _ in range(5):
                heard.get(30).ack()
        with gossamer.join_sync(GROUP, shared) as group:
            heard = group.subscribe("bill", durable="billing")
            assert payloads([heard.get(30) for _ in range(5)]) == numbered(15, 5)

    run(story())
