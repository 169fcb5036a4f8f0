"""A logger that is killed at any moment: what it acknowledged is there, byte for byte, and nobody else notices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

import gossamer
from gossamer.core.ranges import RangeSet
from gossamer.live.group import Group
from gossamer.store import LogEntry, open_store
from gossamer.wire import decode
from gossamer.wire.events import unpack
from tests.live.logger_nursery import Nursery
from tests.live.test_group import GROUP, collect, settings

PUBLISHERS = 3
EVENT_BYTES = 300
PATIENCE_S = 300.0


class Publisher:
    """Publishes without end, and remembers which payloads travel in which packet."""

    def __init__(self, group: Group, seed: int) -> None:
        self.group = group
        self.sent: dict[int, list[bytes]] = {}
        self._rng = Random(seed)

    async def publish(self, stop: asyncio.Event) -> None:
        """Small bursts of events, so that there are many packets."""
        while not stop.is_set():
            for _ in range(self._rng.randrange(1, 20)):
                payload = self._rng.randbytes(EVENT_BYTES)
                packet = await self.group.publish_wait(f"kills.{self.group.me % 7}", payload)
                self.sent.setdefault(packet.seqno, []).append(payload)
            await asyncio.sleep(self._rng.random() * 0.03)

    def acknowledged(self) -> int:
        """Every packet below this is acknowledged as durable."""
        return self.group._member.stack.settled()

    def check(self, entries: Iterator[LogEntry]) -> int:
        """The packets of the store are what was published; how many there are."""
        found = RangeSet()
        for entry in entries:
            packet = decode(entry.datagram)[1].packet
            assert (packet.sender, packet.seqno) == (self.group.me, entry.seqno)
            assert [event.payload for event in unpack(packet)] == self.sent[entry.seqno]
            found.add(entry.seqno)
        return len(found)


async def _kill_often(store: Path, kills: int, seed: int) -> None:
    rng = Random(seed)
    shared = settings()
    async with AsyncExitStack() as stack:
        nursery = stack.enter_context(Nursery(GROUP, {"address": shared.address}))
        pid = await nursery.start(store)
        publishers = [
            Publisher(await stack.enter_async_context(gossamer.join(GROUP, shared)), seed + n)
            for n in range(PUBLISHERS)
        ]
        subscriber = await stack.enter_async_context(gossamer.join(GROUP, shared))
        heard = subscriber.subscribe(">")
        stop = asyncio.Event()
        tasks = [asyncio.create_task(publisher.publish(stop)) for publisher in publishers]
        checked = [0] * PUBLISHERS
        for _ in range(kills):
            await asyncio.sleep(rng.random() * 0.12)
            acknowledged = [publisher.acknowledged() for publisher in publishers]
            await nursery.kill(pid)
            with open_store(store, readonly=True) as log:
                for n, publisher in enumerate(publishers):
                    fresh = log.read(publisher.group.me, checked[n], acknowledged[n] - 1)
                    assert publisher.check(fresh) == acknowledged[n] - checked[n]
                    checked[n] = acknowledged[n]
            pid = await nursery.start(store)
        stop.set()
        await asyncio.gather(*tasks)
        for publisher in publishers:
            await publisher.group.flush()
        _check_everything(store, publishers)
        await _check_heard(heard, publishers)
        assert min(checked) > 0
        await nursery.kill(pid)


def _check_everything(store: Path, publishers: list[Publisher]) -> None:
    """All that was ever published is in the log, in the end."""
    with open_store(store, readonly=True) as log:
        for publisher in publishers:
            assert publisher.check(log.read(publisher.group.me, 0, 1 << 60)) == len(publisher.sent)


async def _check_heard(heard, publishers: list[Publisher]) -> None:
    """The subscriber has everything once, in order."""
    items = await collect(heard, sum(len(p) for publisher in publishers for p in publisher.sent.values()))
    for publisher in publishers:
        mine = [item.payload for item in items if item.sender == publisher.group.me]
        assert mine == [payload for seqno in sorted(publisher.sent) for payload in publisher.sent[seqno]]


def test_what_was_acknowledged_survives_fifty_kills(tmp_path):
    asyncio.run(asyncio.wait_for(_kill_often(tmp_path / "store", 50, seed=1), PATIENCE_S))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_what_was_acknowledged_survives_a_thousand_kills(tmp_path, seed):
    asyncio.run(asyncio.wait_for(_kill_often(tmp_path / "store", 50, seed=100 + seed), PATIENCE_S))
