"""Threads publish without waiting for the loop: numbers, order and errors are as if they did."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from runpy import run_path

import pytest

import gossamer
from gossamer.core.ids import PacketId
from gossamer.live.blocking import SyncNotices
from gossamer.live.intake import AHEAD_PACKETS, Intake
from gossamer.live.notices import NoticeStream
from gossamer.wire.events import Packer, count_events
from tests.live.members import GROUP, collect, hear_interrupts, joined, payloads, run, settings, until

EVENTS = 30_000
BODY_BYTES = 1400


def published(group: gossamer.SyncGroup, count: int) -> list[PacketId]:
    return [group.publish("n", b"%d" % n) for n in range(count)]


# A blocking group.


def test_a_blocking_group_publishes_many_events_for_each_time_that_the_loop_is_woken():
    with gossamer.join_sync(GROUP, settings()) as group:
        published(group, 1)
        wakes = []
        intake = group._group._outbox._intake
        wake, intake._wake = intake._wake, lambda: (wakes.append(1), wake())
        published(group, EVENTS)
        assert len(wakes) < EVENTS / 10


def test_events_come_in_the_packets_and_in_the_order_in_which_a_blocking_group_published_them():
    place = settings()
    with gossamer.join_sync(GROUP, place) as reader, gossamer.join_sync(GROUP, place) as writer:
        heard = reader.subscribe(">")
        packets = published(writer, EVENTS)
        items = [heard.get(timeout=30) for _ in range(EVENTS)]
        assert payloads(items) == [b"%d" % n for n in range(EVENTS)]
        assert [(item.sender, item.seqno) for item in items] == packets


def test_flush_covers_everything_that_was_published_before_and_stats_count_it():
    with gossamer.join_sync(GROUP, settings()) as group:
        packets = published(group, EVENTS)
        group.flush(timeout=30)
        assert group._group._member.stack.streams[group.me].next == packets[-1].seqno + 1
        assert group.stats()["published"] == EVENTS
        published(group, 10)
        assert group.stats()["published"] == EVENTS + 10


def test_every_way_to_publish_keeps_the_order():
    place = settings(event_bytes_max=100_000)
    with gossamer.join_sync(GROUP, place) as reader, gossamer.join_sync(GROUP, place) as writer:
        heard = reader.subscribe(">")
        expected = []
        for n in range(200):
            writer.publish("n", b"%d" % n)
            writer.publish_wait("n", b"waits %d" % n, n=n)
            writer.publish_many("n", [b"one of many %d" % n] * 3)
            writer.publish("n", large := b"%d" % n * 20_000 if n % 50 == 0 else b"small")
            expected += [b"%d" % n, b"waits %d" % n, *[b"one of many %d" % n] * 3, large]
        assert [heard.get(timeout=30).payload for _ in expected] == expected


def test_a_blocking_group_raises_at_once_and_goes_on():
    with gossamer.join_sync(GROUP, settings()) as group:
        heard = group.subscribe(">")
        group.publish("n", b"0")
        for wrong in (lambda: group.publish("n", 5), lambda: group.publish("n", b"", value=object())):
            with pytest.raises(gossamer.WrongType):
                wrong()
        with pytest.raises(gossamer.SubjectError):
            group.publish("a..b", b"")
        group.publish("n", b"1")
        assert [heard.get(timeout=30).payload for _ in range(2)] == [b"0", b"1"]
    with pytest.raises(gossamer.NotAMember, match="left the group"):
        group.publish("n", b"2")
    with pytest.raises(gossamer.NotAMember, match="not in the group yet"):
        gossamer.join_sync(GROUP, settings()).publish("n", b"")


def test_a_blocking_group_with_no_room_raises_full_and_sends_what_it_took():
    tight = settings(send_bytes=1, event_bytes_max=1000, tuning={"window": 1, "patience": 60.0})

    def publish_until_full(writer: gossamer.SyncGroup) -> int:
        for n in range(10**6):
            try:
                writer.publish("n", bytes([n % 256]) * 900)
            except gossamer.Full:
                return n
        raise AssertionError("never full")

    async def story() -> None:
        async with joined(1, tight) as (reader,):
            writer = await asyncio.to_thread(gossamer.open_sync, GROUP, tight)
            await until(lambda: len(writer._group._member.stack.roster.members) == 2)
            heard = reader.subscribe(">")
            reader._member.pause()  # a receiver that stands still
            taken = await asyncio.to_thread(publish_until_full, writer)
            reader._member.resume()
            assert payloads(await collect(heard, taken)) == [bytes([n % 256]) * 900 for n in range(taken)]
            await asyncio.to_thread(writer.close)

    run(story())


# The loop and other threads together.


def test_the_loop_and_a_thread_take_turns_and_all_numbers_are_right():
    async def story():
        async with joined(2, settings()) as (a, b):
            heard = b.subscribe(">")

            def publish() -> list:
                return [a.publish("thread", b"%d" % n) for n in range(20_000)]

            working = asyncio.get_running_loop().run_in_executor(None, publish)
            here = []
            while not working.done():
                here.append(a.publish("loop", b"%d" % len(here)))
                await asyncio.sleep(0.001)
            there = await working
            events = await collect(heard, len(here) + len(there))
            for subject, packets in (("loop", here), ("thread", there)):
                mine = [event for event in events if event.subject == subject]
                assert payloads(mine) == [b"%d" % n for n in range(len(packets))]
                assert [(event.sender, event.seqno) for event in mine] == packets

    run(story())


# Interrupts.


def intake(woken: list | None = None) -> Intake:
    taking = Intake(BODY_BYTES, {"n"}, lambda: (woken if woken is not None else []).append(1))
    taking.lend(PacketId(7, 100), AHEAD_PACKETS)
    return taking


class Interrupted(Packer):
    """Takes half of an event, then the user presses Ctrl-C."""

    __slots__ = ()

    def add(self, subject, payload, attributes=None) -> bool:
        if payload == b"interrupt":
            self._size += 1
            raise KeyboardInterrupt
        return super().add(subject, payload, attributes)


def test_an_interrupt_in_the_middle_of_packing_loses_no_other_event():
    taking = intake()
    taking._packer = Interrupted(BODY_BYTES)
    for n in range(3):
        assert taking.put("n", b"%d" % n, {"n": n}) == (7, 100)
    with pytest.raises(KeyboardInterrupt):
        taking.put("n", b"interrupt", None)
    assert taking.put("n", b"after", None) is None, "the loop must take it"
    bodies, events = taking.collect()
    assert (len(bodies), events, count_events(bodies[0])) == (1, 3, 3)
    assert taking.put("n", b"after", None) == (7, 101)


def test_a_user_who_presses_ctrl_c_while_a_program_publishes_finds_every_event_sent():
    place = settings()
    program = f"""
import gossamer
done = 0
with gossamer.join_sync({GROUP!r}, gossamer.Settings(address={place.address!r})) as group:
    while len(group.members()) < 2:
        pass
    print("ready", flush=True)
    try:
        while True:
            group.publish("n", b"%d" % done, n=done, text="x" * (done % 7))
            done += 1
    except KeyboardInterrupt:
        pass
    except gossamer.Full:
        raise SystemExit("full")
    group.publish("end", b"")
    group.flush(timeout=30)
print(done)
"""
    with gossamer.join_sync(GROUP, place) as reader:
        for _ in range(5):
            heard = reader.subscribe(">")
            child = subprocess.Popen(
                [sys.executable, "-c", program],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                preexec_fn=hear_interrupts,
            )
            try:
                assert child.stdout.readline() == "ready\n"
                time.sleep(0.1)
                child.send_signal(signal.SIGINT)
                numbers = []
                while (event := heard.get(timeout=30)).subject != "end":
                    numbers.append(event.attributes["n"])
                done = int(child.communicate(timeout=30)[0])
            finally:
                child.kill()
                child.wait()
            assert numbers[:done] == list(range(done))
            assert len(numbers) <= done + 1, "the event that was interrupted may have gone"
            heard.close()


# Both kinds of group.

FOR_ITS_GROUP = run_path(str(Path(__file__).parents[2] / "tools" / "api_page.py"))["FOR_ITS_GROUP"]
"""Methods of a subscription by which its group fills it: the API reference leaves them out."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_a_blocking_group_has_all_that_an_asynchronous_one_has():
    attributes = {"name", "settings", "me"}
    assert (public(gossamer.Group) | attributes) - public(gossamer.SyncGroup) == set()
    assert public(gossamer.Subscription) - FOR_ITS_GROUP - public(gossamer.SyncSubscription) == set()
    assert public(NoticeStream) - FOR_ITS_GROUP - public(SyncNotices) == set()


def taken_by(method) -> list[tuple]:
    return [(given.name, given.kind, given.default) for given in inspect.signature(method).parameters.values()]


@pytest.mark.parametrize(
    ("asynchronous", "blocking"),
    [(gossamer.Group, gossamer.SyncGroup), (gossamer.Subscription, gossamer.SyncSubscription)],
)
def test_methods_of_both_take_the_same_arguments(asynchronous, blocking):
    for name in public(asynchronous) & public(blocking):
        method = getattr(asynchronous, name)
        if inspect.isfunction(method) and name != "close":
            assert taken_by(method) == taken_by(getattr(blocking, name)), name
