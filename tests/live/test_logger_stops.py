"""A logger that is stopped in every way that there is, under traffic: what was confirmed is in its log.

It is ended, killed, stopped for a while, its disk becomes full, its clock jumps while it runs and while it is down.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random

import pytest

import gossamer
from gossamer.live.group import Group
from gossamer.live.latest import opener_of
from gossamer.store import open_store
from gossamer.wire import decode
from gossamer.wire.events import unpack
from tests.live.logger_nursery import CLOCK_JUMPS, Nursery
from tests.live.logger_scene import disk_of, leave_room, resize, until
from tests.live.members import GROUP, PATIENCE_S, payloads, run, settings

KEY = Random(1).randbytes(32).hex()
DAY_S = 86_400.0
ROOM_KB = 4 << 20
LARGE_BYTES = 60_000
ON_THEIR_WAY = 40
"""Events that may be confirmed after the logger was stopped: acknowledgements were on their way."""


class Publisher:
    """Publishes, flushes, and notes what was confirmed."""

    def __init__(self, group: Group, rng: Random) -> None:
        self.group = group
        self.sent: list[bytes] = []
        self.numbers: list[int] = []  # of the packet of each
        self.confirmed = 0
        self.large = False
        self.stop = False
        self._rng = rng

    async def publish(self) -> None:
        while not self.stop:
            for _ in range(self._rng.randrange(1, 20)):
                text = b"%d" % len(self.sent)
                self.sent.append(text.ljust(LARGE_BYTES) if self.large else text)
                self.numbers.append((await self.group.publish_wait("n", self.sent[-1])).seqno)
            await self.group.flush()
            self.confirmed = len(self.sent)
            await asyncio.sleep(self._rng.random() * 0.02)


class Scene:
    """A logger, and all the ways to stop it; each leaves it running."""

    def __init__(self, nursery: Nursery, disk: Path, publisher: Publisher, rng: Random) -> None:
        self.kinds = [
            self.terminate,
            self.kill,
            self.freeze,
            self.fill,
            self.restart_in_another_time,
            self.set_clock,
        ]
        self.pid = 0
        self._nursery, self._disk, self._publisher, self._rng = nursery, disk, publisher, rng
        self._store = disk / "store"
        envelope = publisher.group._envelope
        self._opened = opener_of(envelope) if publisher.group.settings.key else bytes
        self._clock_s = 0.0
        self._checked = 0

    async def start(self) -> None:
        self.pid = await self._nursery.start(self._store, clock_s=self._clock_s)

    async def terminate(self) -> None:
        await self._restart(signal.SIGTERM)

    async def kill(self) -> None:
        await self._restart(signal.SIGKILL)

    async def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        await self._nothing_is_confirmed()
        os.kill(self.pid, signal.SIGCONT)

    async def fill(self) -> None:
        """The disk is full until after the logger was ended."""
        leave_room(self._disk, 64)
        self._publisher.large = True
        confirmed = -1
        while confirmed < self._publisher.confirmed:  # there is still room in the file
            confirmed = self._publisher.confirmed
            await asyncio.sleep(1.0)
        self._publisher.large = False
        await self._nursery.kill(self.pid, self._rng.choice([signal.SIGTERM, signal.SIGKILL]))
        self.check()
        resize(self._disk, ROOM_KB)
        await self.start()

    async def restart_in_another_time(self) -> None:
        self._clock_s = self._rng.uniform(-10 * DAY_S, 10 * DAY_S)
        await self._restart(signal.SIGKILL)

    async def set_clock(self) -> None:
        os.kill(self.pid, self._rng.choice(list(CLOCK_JUMPS)))

    async def _restart(self, by: signal.Signals) -> None:
        await self._nursery.kill(self.pid, by)
        self.check()
        await self._nothing_is_confirmed()
        await self.start()

    async def _nothing_is_confirmed(self) -> None:
        before = self._publisher.confirmed
        await asyncio.sleep(self._rng.random() * 0.5)
        assert self._publisher.confirmed <= before + ON_THEIR_WAY

    def check(self) -> None:
        """What was confirmed since the last look is in the log; the logger is not running."""
        publisher, first, behind = self._publisher, self._checked, self._publisher.confirmed
        if first < behind:
            with open_store(self._store, readonly=True) as log:
                entries = log.read(publisher.group.me, publisher.numbers[first], publisher.numbers[behind - 1])
                packets = [decode(self._opened(entry.datagram))[1].packet for entry in entries]
            assert [event.payload for packet in packets for event in unpack(packet)] == publisher.sent[first:behind]
            self._checked = behind


async def _stop_often(disk: Path, stops: int, seed: int, **trust: str) -> None:
    """Every kind at least once, if there are enough stops; nobody else minds."""
    rng = Random(seed)
    shared = settings(**trust)
    resize(disk, ROOM_KB)
    async with AsyncExitStack() as stack:
        nursery = stack.enter_context(Nursery(GROUP, {"address": shared.address, **trust}))
        publisher = Publisher(await stack.enter_async_context(gossamer.join(GROUP, shared)), rng)
        scene = Scene(nursery, disk, publisher, rng)
        await scene.start()
        await until(lambda: len(publisher.group.members()) == 2)
        subscriber = await stack.enter_async_context(gossamer.join(GROUP, shared))
        heard = asyncio.create_task(_take(subscriber.subscribe("n"), publisher))
        publishing = asyncio.create_task(publisher.publish())
        possible = scene.kinds[:3] if trust else scene.kinds  # who is days off is not heard in a sealed group
        kinds = [*rng.sample(possible, len(possible)), *rng.choices(possible, _WEIGHTS[: len(possible)], k=stops)]
        for stop in kinds[:stops]:
            await asyncio.sleep(rng.random() * 0.3)
            await stop()
        publisher.stop = True
        await asyncio.wait_for(publishing, PATIENCE_S)
        await nursery.kill(scene.pid, signal.SIGTERM)
        assert publisher.confirmed == len(publisher.sent)
        scene.check()
        assert await asyncio.wait_for(heard, PATIENCE_S) == publisher.sent
        await scene.start()  # or nobody could leave


_WEIGHTS = [6, 6, 4, 1, 3, 2]
"""A full disk takes the longest."""


async def _take(subscription: gossamer.Subscription, publisher: Publisher) -> list[bytes]:
    items: list = []
    while not publisher.stop or len(items) < len(publisher.sent):
        with suppress(TimeoutError):
            items += await subscription.take(0.5) or []
    return payloads(items)


@pytest.mark.parametrize("seed", [1])
def test_what_was_confirmed_is_in_the_log_after_stops_of_every_kind(tmp_path, seed):
    with disk_of(tmp_path / "disk", 64) as disk:
        run(_stop_often(disk, 8, seed))


def test_what_was_confirmed_is_in_the_log_of_a_sealed_group_where_a_logger_that_leaves_is_believed(tmp_path):
    with disk_of(tmp_path / "disk", 64) as disk:
        run(_stop_often(disk, 6, 2, key=KEY, interface="127.0.0.1"))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_what_was_confirmed_is_in_the_log_after_two_thousand_stops_of_every_kind(tmp_path, seed):
    with disk_of(tmp_path / "disk", 64) as disk:
        run(_stop_often(disk, 50, 100 + seed))
