"""A member that restarts under its name, or is away and comes back; what is stable, and what is worth repairing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

import gossamer
from gossamer.core.schema import SettingError
from gossamer.live.group import Group
from gossamer.live.logger_group import logger
from tests.live.members import GROUP, collect, impaired, joined, payloads, run, settings, until
from tests.live.test_namespace import hear, say

AGAIN = {"recovery": "at-least-once"}


# At least once


def remember(made: str) -> None:
    """Say every payload that comes; a line makes the member publish it."""

    async def story() -> None:
        async with gossamer.join(GROUP_OF_CHILDREN, gossamer.Settings(**json.loads(made))) as group:
            heard = group.subscribe(">", losses="report")
            say(group.me)
            lines = asyncio.create_task(publish_lines(group))
            async for item in heard:
                say(item.payload.decode() if isinstance(item, gossamer.Event) else f"lost: {item}")
            await lines

    async def publish_lines(group: gossamer.Group) -> None:
        while line := await asyncio.to_thread(sys.stdin.readline):
            group.publish("n", line.strip().encode())

    asyncio.run(story())


GROUP_OF_CHILDREN = "children"


class Child:
    """`remember` in a process of its own."""

    def __init__(self, place: gossamer.Settings, name: str) -> None:
        script = "import ctypes, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); signal.alarm(60); "
        script += "from tests.live.test_resume import remember; remember(*sys.argv[1:])"
        made = json.dumps({"address": place.address, "name": name, "tuning": AGAIN})
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        pipe = subprocess.PIPE
        self.popen = Popen([sys.executable, "-c", script, made], stdin=pipe, stdout=pipe, text=True, env=environment)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: Any) -> None:
        self.kill()

    def hear(self, count: int = 1) -> list[Any]:
        return [hear(self.popen) for _ in range(count)]

    def say(self, line: str) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()

    def end_input(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.close()
        self.popen.stdin = None

    def kill(self) -> None:
        self.popen.kill()
        self.popen.communicate()


def test_a_member_that_is_killed_continues_where_it_stopped(tmp_path: Path):
    """What was published while it was dead comes, and what it had acknowledged does not come again."""

    async def story() -> None:
        place = settings()
        async with (
            logger(GROUP_OF_CHILDREN, tmp_path / "log", place),
            gossamer.join(GROUP_OF_CHILDREN, place) as group,
        ):
            await until(group.loggers)
            group.publish("n", b"before it came")
            await group.flush()
            with Child(place, "billing") as first:
                (me,) = await asyncio.to_thread(first.hear)
                first.say("mine")
                assert await asyncio.to_thread(first.hear) == ["mine"]
                for n in range(200):
                    group.publish("n", b"%d" % n)
                    await asyncio.sleep(0.001)
                assert await asyncio.to_thread(first.hear, 200) == [str(n) for n in range(200)]
                await asyncio.sleep(2.5)  # in this time it acknowledges to the logger
                first.kill()
            for n in range(200, 400):
                group.publish("n", b"%d" % n)
            await group.flush()
            with Child(place, "billing") as second:
                assert await asyncio.to_thread(second.hear) == [me]
                came = await asyncio.to_thread(second.hear, 200)
                assert came == [str(n) for n in range(200, 400)]
                second.say("mine again")
                assert await asyncio.to_thread(second.hear) == ["mine again"]
                mine = group.subscribe(">", start="beginning")
                items = await collect(mine, 403)
                assert not [item for item in items if isinstance(item, gossamer.Lost)]
                assert [e.payload for e in items if e.sender == me] == [b"mine", b"mine again"]

    run(story())


def test_a_member_that_resumes_and_leaves_at_once_keeps_nobody_waiting_for_numbers_that_it_left_out(tmp_path: Path):
    """Only it can say that they never were; the others would wait for them until they lose patience."""

    async def story() -> None:
        place = settings(loss_patience=10.0)
        slow = settings(address=place.address, tuning={"gossip_period": 1.0})  # to ask for what peers do not have
        async with (
            logger(GROUP_OF_CHILDREN, tmp_path / "log", slow),
            gossamer.join(GROUP_OF_CHILDREN, place) as group,
        ):
            await until(group.loggers)
            heard = group.subscribe(">", losses="report")
            with Child(place, "billing") as first:
                (me,) = await asyncio.to_thread(first.hear)
                first.say("mine")
                assert payloads(await collect(heard, 1)) == [b"mine"]
                first.kill()
            again = settings(address=place.address, name="billing", tuning=AGAIN)
            async with gossamer.join(GROUP_OF_CHILDREN, again) as second:
                assert second.me == me
                second.publish("n", b"mine again")
            (event,) = await collect(heard, 1)
            assert (event.sender, event.payload) == (me, b"mine again")
            assert event.seqno > 1

    run(story())


def test_a_name_that_is_in_use_is_refused(tmp_path: Path):
    async def story() -> None:
        place = settings(name="billing", tuning=AGAIN)
        async with (
            logger(GROUP, tmp_path / "log", settings(address=place.address)),
            gossamer.join(GROUP, place) as group,
        ):
            with pytest.raises(
                gossamer.NameInUse, match="the name 'billing' is in use by another running member; stop that one"
            ):
                async with gossamer.join(GROUP, place):
                    pass
            assert len(group.members()) == 2
            group.publish("n", b"still here")
            await group.flush()

    run(story())


def test_a_member_that_was_replaced_while_it_did_not_answer_says_so(tmp_path: Path):
    async def story() -> None:
        place = settings()
        async with logger(GROUP_OF_CHILDREN, tmp_path / "log", place):
            with Child(place, "billing") as first:
                await asyncio.to_thread(first.hear)
                first.popen.send_signal(signal.SIGSTOP)
                with Child(place, "billing") as second:
                    await asyncio.to_thread(second.hear)
                    first.popen.send_signal(signal.SIGCONT)
                    first.end_input()
                    assert await asyncio.to_thread(first.popen.wait, 30) != 0  # NameInUse ends it
                    second.say("mine")
                    assert await asyncio.to_thread(second.hear) == ["mine"]

    run(story())


def test_resuming_needs_a_name_that_stays_the_same():
    with pytest.raises(SettingError, match="recovery = 'at-least-once' resumes under the member's name; give it one"):
        gossamer.Settings(tuning=AGAIN)


def test_without_a_logger_there_is_nothing_to_resume():
    """Then a member that starts again is a new one."""

    async def story() -> None:
        place = settings(name="billing", tuning=AGAIN)
        async with gossamer.join(GROUP, settings(address=place.address)) as other:
            for _ in range(2):
                async with gossamer.join(GROUP, place) as group:
                    await until(lambda: len(other.members()) == 2)
                    heard = group.subscribe(">")
                    other.publish("n", b"new")
                    assert payloads(await collect(heard, 1)) == [b"new"]

    run(story())


# Away and back


@pytest.mark.parametrize("logged", [False, True], ids=["peers", "logger"])
def test_what_was_published_on_either_side_comes_after_the_network_is_back(tmp_path: Path, logged: bool):
    async def story() -> None:
        place = settings()
        third = logger(GROUP, tmp_path / "log", place) if logged else gossamer.join(GROUP, place)
        async with third, gossamer.join(GROUP, place) as one, gossamer.join(GROUP, place) as other:
            await until(lambda: len(one.members()) == len(other.members()) == 3)
            here, there = one.subscribe(">"), other.subscribe(">")
            other.disconnect()
            await until(lambda: other.me not in one.members())
            assert other.me in one._member.stack.roster.owed  # its claim is kept
            assert not other.stats()["connected"]
            for n in range(100):
                one.publish("n", b"%d" % n)
            other.publish("m", b"offline")
            await asyncio.sleep(1.0)
            assert payloads(await collect(there, 1)) == [b"offline"]
            assert one.stats()["received"] == 0
            other.reconnect()
            await until(lambda: other.me in one.members())
            assert payloads(await collect(there, 100)) == [b"%d" % n for n in range(100)]
            assert sorted(payloads(await collect(here, 101)))[-1] == b"offline"
            assert one.stats()["lost"] == other.stats()["lost"] == {}

    run(story())


def test_disconnecting_twice_or_reconnecting_while_connected_is_no_error():
    async def story() -> None:
        async with joined(2, settings()) as (one, _):
            one.reconnect()
            one.disconnect()
            one.disconnect()
            one.reconnect()
            one.reconnect()
            assert one.stats()["connected"]

    run(story())


# Stability


@pytest.mark.parametrize("protocol", ["rpbcast", "pbcast", "lbrm", "basic", "srm"])
def test_a_packet_is_stable_when_every_member_has_it(tmp_path: Path, protocol: str):
    async def story() -> None:
        place = settings(protocol=protocol)
        lines = [impaired(seed, loss=0.2) for seed in range(3)]
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(logger(GROUP, tmp_path / "log", place))
            groups = [await stack.enter_async_context(Group(GROUP, place, line)) for line in lines]
            await until(lambda: all(len(group.members()) == 4 for group in groups))
            one, two, three = groups
            for _ in range(10):
                packet = one.publish("n", b"x")
                await asyncio.sleep(0.01)
            await asyncio.wait_for(one.stable(packet), 30.0)
            assert [group.stats()["received"] for group in (two, three)] == [10, 10]

    run(story())


def test_a_packet_is_not_stable_while_a_member_lacks_it():
    async def story() -> None:
        place = settings()
        async with joined(3, place) as (one, _, three):
            three.disconnect()
            await until(lambda: three.me not in one.members())
            packet = one.publish("n", b"x")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(one.stable(packet), 2.0)
            three.reconnect()
            await asyncio.wait_for(one.stable(packet), 30.0)
            assert three.stats()["received"] == 1

    run(story())


def test_waiting_for_a_packet_that_cannot_become_stable_is_refused():
    async def story() -> None:
        async with joined(2, settings()) as (one, other):
            packet = one.publish("n", b"x")
            with pytest.raises(ValueError, match="only its sender learns"):
                await other.stable(packet)
            with pytest.raises(ValueError, match="has not been published yet"):
                await one.stable(packet._replace(seqno=packet.seqno + 7))
        async with joined(2, settings(protocol="unreliable")) as (one, _):
            with pytest.raises(SettingError, match="does not tell when a packet is stable"):
                await one.stable(one.publish("n", b"x"))

    run(story())


# The application's say


def test_the_application_decides_what_is_worth_asking_for():
    """A receiver that has lost everything for a while wants no more than the youngest."""
    gaps: list[gossamer.Gap] = []

    def worth(gap: gossamer.Gap) -> bool:
        gaps.append(gap)
        return gap.times_asked < 2

    async def story() -> None:
        place = settings()
        choosy = settings(address=place.address, worth_repairing=worth)
        async with gossamer.join(GROUP, place) as one, Group(GROUP, choosy, impaired(3, loss=0.6)) as two:
            heard = two.subscribe(">")
            await until(lambda: len(one.members()) == 2)
            for n in range(300):
                one.publish("n", b"%d" % n)
                await asyncio.sleep(0.002)
            items = []
            async for item in heard:
                items.append(item)
                if (item.last if isinstance(item, gossamer.Lost) else item.seqno) >= 295:
                    break
            lost = [item for item in items if isinstance(item, gossamer.Lost)]
            assert lost
            assert {item.reason for item in lost} == {"declined"}
            numbers = [item.seqno for item in items if isinstance(item, gossamer.Event)]
            assert numbers == sorted(set(numbers))
            assert {gap.sender for gap in gaps} == {one.me}
            assert {0, 1, 2} <= {gap.times_asked for gap in gaps}
            assert max(gap.age for gap in gaps) > 0

    run(story())


def test_an_error_in_worth_repairing_does_not_reach_the_protocol():
    def worth(gap: gossamer.Gap) -> bool:
        raise ZeroDivisionError

    async def story() -> None:
        place = settings()
        broken = settings(address=place.address, worth_repairing=worth)
        async with gossamer.join(GROUP, place) as one, Group(GROUP, broken, impaired(3, loss=0.3)) as two:
            heard = two.subscribe(">")
            await until(lambda: len(one.members()) == 2)
            for n in range(100):
                one.publish("n", b"%d" % n)
                await asyncio.sleep(0.002)
            assert payloads(await collect(heard, 100)) == [b"%d" % n for n in range(100)]
            assert two.stats()["dropped"]["errors in worth_repairing"] > 0

    run(story())
