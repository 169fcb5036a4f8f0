"""Lies while a logger is killed, its clock jumps, a subscriber is cut off: nothing confirmed is lost, or hidden."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random

import pytest

import gossamer
from gossamer.core.messages import Data, Heartbeat, Join, Leave, NeverSent, ViewUpdate
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.views import MemberEntry
from gossamer.live.group import Group
from gossamer.membership.view import JOINING, LEFT
from gossamer.store import open_store
from gossamer.wire import WireError, decode
from gossamer.wire.events import unpack
from tests.live.logger_nursery import Nursery
from tests.live.members import GROUP, run, settings, until
from tests.live.test_hostile import Liar, liar, now_us

FAR = range(300, 20_000)


def lie(liar_: Liar, publisher: Group, rng: Random) -> None:
    """Something about the publisher, its packets or the loggers, in anybody's name."""
    me, following = publisher.me, publisher._member.stack.streams[publisher.me].next
    others = [member for member in publisher.members() if member != me] or [me]
    entry = MemberEntry(777, JOINING, now_us(), bool(rng.getrandbits(1)), liar_.address)
    lies = [
        (me, Data(Packet(me, following + rng.choice(FAR), b""))),
        (me, Heartbeat(following + rng.choice(FAR))),
        (rng.choice([me, *others]), Leave(now_us() + 10**6)),
        (777, Join(entry)),
        (rng.choice(others), ViewUpdate([MemberEntry(me, LEFT, now_us() + 5)])),
        (rng.choice([me, *others]), NeverSent({me: RangeSet.span(following, following + 50)}, lost=True)),
    ]
    liar_.say(*rng.choice(lies))


def payloads_in(store: Path, sender: int) -> list[bytes]:
    """What can be read; lies are in the log, too."""
    found: list[bytes] = []
    with open_store(store, readonly=True) as log:
        for entry in log.read(sender, 0, 1 << 60):
            with suppress(WireError):
                found += [event.payload for event in unpack(decode(entry.datagram)[1].packet)]
    return found


async def _suffer(store: Path, seconds: float, seed: int) -> None:
    rng = Random(seed)
    shared = settings(loss_patience=1.0, leave_timeout=0, durable=True)
    sent: list[bytes] = []
    heard: list[bytes] = []
    async with AsyncExitStack() as stack:
        nursery = stack.enter_context(Nursery(GROUP, {"address": shared.address}))
        pid = await nursery.start(store)
        publisher = await stack.enter_async_context(gossamer.join(GROUP, shared))
        subscriber = await stack.enter_async_context(gossamer.join(GROUP, shared))
        await until(lambda: len(publisher.members()) == 3)
        subscription = subscriber.subscribe("n", losses="skip")
        stranger = stack.enter_context(liar(shared))
        end = time.monotonic() + seconds

        async def publish() -> None:
            while time.monotonic() < end:
                for _ in range(rng.randrange(1, 20)):
                    sent.append(b"%d" % len(sent))
                    await publisher.publish_wait("n", sent[-1])
                await publisher.flush(timeout=30.0)

        async def listen() -> None:
            while (items := await subscription.take()) is not None:
                heard.extend(item.payload for item in items)

        tasks = [asyncio.create_task(publish()), asyncio.create_task(listen())]
        while time.monotonic() < end:
            lie(stranger, publisher, rng)
            what = rng.randrange(8)
            if what == 0:
                await nursery.kill(pid, rng.choice([signal.SIGTERM, signal.SIGKILL]))
                pid = await nursery.start(store, clock_s=rng.choice([0.0, 432_000.0, -432_000.0]))
            elif what == 1:
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(rng.random())
                os.kill(pid, signal.SIGCONT)
            elif what == 2:
                subscriber.disconnect()
                await asyncio.sleep(rng.random())
                subscriber.reconnect()
            await asyncio.sleep(rng.random() * 0.2)
        await tasks[0]
        await until(lambda: len(heard) >= len(sent))
        assert heard == sent
        await nursery.kill(pid, signal.SIGTERM)
        assert payloads_in(store, publisher.me) == sent
        assert "faults" not in subscriber._member.stats


@pytest.mark.parametrize("seed", range(3))
def test_lies_while_everything_else_goes_wrong(tmp_path, seed):
    run(_suffer(tmp_path, 6.0, seed))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_lies_while_everything_else_goes_wrong_for_long(tmp_path, seed):
    run(_suffer(tmp_path, 60.0, seed))
