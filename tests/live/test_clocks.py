"""The clock of a member that publishes and subscribes is set while it runs: nothing is lost, and nothing sticks."""

from __future__ import annotations

import asyncio
import json
import sys
from random import Random
from subprocess import PIPE
from typing import Any

import pytest

import gossamer
from tests.live.logger_nursery import Nursery
from tests.live.members import GROUP, PATIENCE_S, collect, payloads, run, settings, until

EVENTS = 100
JUMPS_S = [-3600.0, 3600.0, 864_000.0]
KEY = Random(1).randbytes(32).hex()

MEMBER = """
import asyncio, json, sys, time
now, now_ns, jump_s = time.time, time.time_ns, [0.0]
time.time = lambda: now() + jump_s[0]
time.time_ns = lambda: now_ns() + int(jump_s[0] * 1e9)
import gossamer

async def story(group, settings, events, at_first_s, then_s, *later_s):
    jump_s[0] = at_first_s
    async with gossamer.join(group, gossamer.Settings(**settings)) as group:
        jump_s[0] += then_s
        while len(group.members()) < 3:
            await asyncio.sleep(0.02)
        heard = group.subscribe("for.it")
        for number in range(events):
            group.publish("of.it", b"%d" % number)
            await asyncio.sleep(0.01)
            if number in (events // 3, events // 2):
                jump_s[0] += later_s[number == events // 2]
                await group.flush(timeout=30)
        await group.flush(timeout=30)
        for number in range(events):
            event = await asyncio.wait_for(anext(heard), 30)
            assert event.payload == b"%d" % number, event
        group.publish("of.it", b"end")
        await group.flush(timeout=30)

asyncio.run(story(*json.loads(sys.argv[1])))
"""
"""Its clock is another from the first import on."""


async def _let_it_run(shared: dict[str, Any], *jumps_s: float) -> None:
    """Its clock is set before it joins, once it has, and twice while it publishes."""
    arguments = json.dumps([GROUP, shared, EVENTS, *jumps_s])
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", MEMBER, arguments, stderr=PIPE)
    _, said = await asyncio.wait_for(child.communicate(), PATIENCE_S)
    assert child.returncode == 0, said.decode()


@pytest.mark.parametrize("trust", [{}, {"key": KEY}], ids=["open", "sealed"])
@pytest.mark.parametrize("by_s", JUMPS_S)
def test_a_member_whose_clock_is_set_is_heard_and_hears_everything(tmp_path, by_s, trust):
    async def story() -> None:
        shared = {"address": settings().address, "interface": "127.0.0.1", **trust}
        with Nursery(GROUP, shared) as nursery:
            await nursery.start(tmp_path)
            async with gossamer.join(GROUP, gossamer.Settings(**shared)) as other:
                heard = other.subscribe("of.it")
                running = asyncio.create_task(_let_it_run(shared, 0.0, 0.0, by_s, by_s))
                await until(lambda: len(other.members()) == 3)
                items = [await anext(heard)]  # it has subscribed
                for number in range(EVENTS):
                    other.publish("for.it", b"%d" % number)
                    await asyncio.sleep(0.01)
                await running
                items += await collect(heard, EVENTS)
                assert payloads(items) == [*(b"%d" % n for n in range(EVENTS)), b"end"]

    run(story())


@pytest.mark.parametrize("jumps_s", [(0.0, 0.0, 7200.0, -7200.0), (7200.0, -7200.0, 0.0, 0.0)], ids=["later", "first"])
def test_a_member_whose_clock_was_ahead_and_is_set_right_is_heard_by_newcomers_and_hears_them(tmp_path, jumps_s):
    async def story() -> None:
        shared = {"address": settings().address, "interface": "127.0.0.1", "key": KEY}
        with Nursery(GROUP, shared) as nursery:
            pid = await nursery.start(tmp_path)
            async with gossamer.join(GROUP, gossamer.Settings(**shared)) as other:
                heard = other.subscribe("of.it")
                running = asyncio.create_task(_let_it_run(shared, *jumps_s))
                assert payloads(await collect(heard, EVENTS)) == [b"%d" % n for n in range(EVENTS)]
                await nursery.kill(pid)
                await nursery.start(tmp_path)
                async with gossamer.join(GROUP, gossamer.Settings(**shared)) as newcomer:
                    last = newcomer.subscribe("of.it")
                    for number in range(EVENTS):
                        newcomer.publish("for.it", b"%d" % number)
                        await asyncio.sleep(0.01)
                    await running
                    assert payloads(await collect(last, 1)) == [b"end"]

    run(story())
