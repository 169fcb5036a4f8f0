"""A log that is damaged while the logger runs: it serves what it can, and says what it cannot."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

import gossamer
from gossamer.core.effects import Replay
from gossamer.core.inputs import DamageFound
from gossamer.core.ranges import RangeSet
from gossamer.live.log_disk import LogDisk
from gossamer.live.logger_group import logger
from gossamer.live.readers import SUBSCRIBER
from gossamer.store import MemoryStore, StoreError, open_store
from tests.live.damage import branch_pages, flip_in_branch, flip_near, lead_astray
from tests.live.logger_nursery import Nursery
from tests.live.logger_scene import publish_packets
from tests.live.members import GROUP, collect, payloads, run, settings, until
from tests.store.samples import entries

PACKETS = 4_000


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_what_a_damaged_log_cannot_serve_is_lost_and_not_silence(tmp_path: Path, share):
    async def story() -> None:
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            pid = await nursery.start(tmp_path)
            async with gossamer.join(GROUP, shared) as group:
                await publish_packets(group, 3 * PACKETS, size=64)
                await group.flush()
                last = group._outbox.last
            await nursery.kill(pid)  # else it would serve them from memory
            await nursery.start(tmp_path)
            assert branch_pages(tmp_path)
            lead_astray(tmp_path, share)
            async with gossamer.join(GROUP, shared) as late:
                heard, served = RangeSet(), 0
                subscription = late.subscribe(">", start="beginning")
                while len(heard) < last:
                    for item in await asyncio.wait_for(subscription.take(), 20) or []:
                        if isinstance(item, gossamer.Lost):
                            heard.add(item.first, item.last)
                        else:
                            heard.add(item.seqno)
                            served += 1
                assert heard == RangeSet.span(0, last - 1)
                assert (served > 0) == (share < 1)

    run(story())


@pytest.mark.parametrize("others", [0, 1])
def test_a_durable_reader_whose_position_is_damaged_goes_on_where_another_logger_knows_it_or_is_told(tmp_path, others):
    """It does not wait for ever, nor begin somewhere else; and whatever comes to the logger, it goes on."""

    async def story() -> None:
        shared = settings()
        async with AsyncExitStack() as stack:
            loggers = [await stack.enter_async_context(logger(GROUP, tmp_path / "0", shared))]
            publisher = await stack.enter_async_context(gossamer.join(GROUP, shared))
            if others:
                loggers.append(await stack.enter_async_context(logger(GROUP, tmp_path / "1", shared)))
            await until(lambda: len(publisher.loggers()) == len(loggers))
            async with gossamer.join(GROUP, settings(address=shared.address, copies=len(loggers))) as first:
                heard = first.subscribe(">", durable="billing", start="beginning")
                await publish_packets(publisher, 10)
                await collect(heard, 10)
                await heard.commit(30, wait=True)
            flip_near(tmp_path / "0", SUBSCRIBER.encode() + b"billing")
            late = await stack.enter_async_context(logger(GROUP, tmp_path / "late", shared))
            await until(lambda: len(late.loggers()) == len(loggers) + 1)
            await asyncio.sleep(0.5)  # the others would have told it what readers there are
            sent = list(await publish_packets(publisher, 10, first=10))
            reader = await stack.enter_async_context(gossamer.join(GROUP, shared))
            again = reader.subscribe(">", durable="billing")
            if others:
                assert payloads([await again.get(20) for _ in sent]) == sent
            else:
                with pytest.raises(gossamer.NoLogger, match="damaged"):
                    await again.get(20)

    run(story())


@pytest.mark.parametrize("seed", range(8))
def test_whatever_bit_is_flipped_every_packet_is_read_or_reported(tmp_path: Path, seed):
    """In a process of its own: LMDB may not survive it, and a logger that is killed is no silent one."""
    child = os.fork()
    if not child:
        status = 1
        try:
            asyncio.run(_read_damaged(tmp_path, seed))
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) <= 0


async def _read_damaged(store: Path, seed: int) -> None:
    rng = Random(seed)
    with open_store(store) as log:
        log.append(entries(1, 0, PACKETS - 1, 300))
        for number in range(0, PACKETS, 16):  # many ranges, so that their table has inner pages, too
            log.collect({1: RangeSet.span(number, number)})
        said: list[DamageFound] = []
        disk = LogDisk(log, travelled=lambda p: b"", carry_out=lambda e: None, happened=said.append, now=lambda: 0.0)
        disk.started()
        flip_in_branch(store, rng)
        for first in range(0, PACKETS, 100):
            unread = RangeSet(log.held()[1].within(first, first + 99))
            said.clear()
            for entry in disk.read(Replay(0, 1, first, first + 99)):
                unread.discard(entry.seqno)
            for damage in said:
                unread.discard(damage.first, damage.last)
            assert not unread
        disk._polling.cancel()


def test_a_store_that_cannot_be_read_for_a_moment_is_not_damaged(monkeypatch):
    async def story() -> None:
        log = MemoryStore()
        log.append(entries(1, 0, 9, 300))
        said: list[DamageFound] = []
        disk = LogDisk(log, travelled=lambda p: b"", carry_out=lambda e: None, happened=said.append, now=lambda: 0.0)

        def busy(*_: int) -> None:
            raise StoreError("too many readers at a time")

        with monkeypatch.context() as patched:
            patched.setattr(log, "read", busy)
            assert disk.read(Replay(0, 1, 0, 9)) == []
        assert len(disk.read(Replay(0, 1, 0, 9))) == 10
        assert not said
        assert not disk.failure
        await disk.close()

    run(story())
