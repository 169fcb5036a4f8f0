"""Many publishers come and go: what stays is a group as it was."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

import pytest

import gossamer
from tests.live.logger_nursery import Nursery
from tests.live.members import GROUP, collect, payloads, run, settings, until

VISITORS = 200
AT_A_TIME = 10


@pytest.mark.soak
def test_visitors_are_forgotten_and_a_newcomer_joins_at_once(tmp_path):
    async def story():
        shared = settings(tuning={"suspect_after": 1.0})
        async with AsyncExitStack() as stack:
            told = {"address": shared.address, "tuning": shared.tuning}
            nursery = stack.enter_context(Nursery(GROUP, told))
            await nursery.start(tmp_path / "store")
            host = await stack.enter_async_context(gossamer.join(GROUP, shared))
            await until(host.loggers)
            heard = host.subscribe("visit")
            for first in range(0, VISITORS, AT_A_TIME):
                await asyncio.gather(*(_visit(shared, n) for n in range(first, first + AT_A_TIME)))
            assert sorted(payloads(await collect(heard, VISITORS))) == sorted(b"%d" % n for n in range(VISITORS))
            streams = host._member.stack.streams
            await until(lambda: len(streams) <= 2)
            began = time.monotonic()
            async with gossamer.join(GROUP, shared) as newcomer:
                assert time.monotonic() - began < 5.0
                await until(lambda: len(newcomer.members()) == 3)
                await host.publish_wait("visit", b"after all")
                await host.flush()
                assert payloads(await collect(heard, 1)) == [b"after all"]

    run(story())


async def _visit(shared: gossamer.Settings, number: int) -> None:
    async with gossamer.join(GROUP, shared) as group:
        await group.publish_wait("visit", b"%d" % number)
        await group.flush()
