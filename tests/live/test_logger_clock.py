"""Loggers whose clocks jump: nothing is collected early, and nothing waits for a clock."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

import gossamer
from gossamer.live import log_disk
from gossamer.live.logger_group import logger
from gossamer.store import open_store
from tests.live.logger_nursery import Nursery
from tests.live.logger_scene import held, publish_packets
from tests.live.members import GROUP, run, settings, until

HOUR_S = 3600.0
DAY_S = 86_400.0
PACKETS = 200
SOON_S = 5.0


@pytest.mark.parametrize("jumps", [(10 * DAY_S,), (-10 * DAY_S,), (10 * DAY_S, 20 * DAY_S), (10 * DAY_S, 0.0)])
def test_a_clock_that_jumps_while_the_logger_is_down_ages_nothing(tmp_path: Path, jumps):
    async def story() -> None:
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            pid = await nursery.start(tmp_path, retain="1d")
            async with gossamer.join(GROUP, shared) as group:
                await publish_packets(group, PACKETS)
                await group.flush()
                with open_store(tmp_path, readonly=True) as log:
                    log.commit("reader", {group.me: 9})  # and nothing of the rest
                kept = held(tmp_path, group.me)
                for ahead_s in jumps:
                    await nursery.kill(pid)
                    # 60 rounds until it sweeps: make them short
                    pid = await nursery.start(tmp_path, "1d", ahead_s, tuning={"gossip_period": 0.02})
                await asyncio.sleep(2.5)
                assert held(tmp_path, group.me) == kept

    run(story())


@pytest.mark.parametrize("jump_s", [-3600.0, -DAY_S * 365, 3600.0])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_logger_that_comes_back_with_another_clock_is_in_at_once(tmp_path: Path, jump_s, leaves):
    async def story() -> None:
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            pid = await nursery.start(tmp_path)
            async with gossamer.join(GROUP, shared) as group:
                await publish_packets(group, PACKETS)
                await group.flush()
                await nursery.kill(pid, signal.SIGTERM if leaves else signal.SIGKILL)
                await publish_packets(group, PACKETS, first=PACKETS)
                await nursery.start(tmp_path, clock_s=jump_s)
                if not leaves:  # else nothing was owed to it meanwhile
                    await asyncio.wait_for(group.flush(), SOON_S)
                await until(lambda: len(group.members()) == 2, SOON_S)
                kept = held(tmp_path, group.me)
                sent = await publish_packets(group, PACKETS, first=2 * PACKETS)
                await asyncio.wait_for(group.flush(), SOON_S)
                assert held(tmp_path, group.me) >= kept + len(set(sent.values()))

    run(story())


def test_a_clock_that_is_set_while_the_logger_runs_ages_nothing(tmp_path: Path, monkeypatch):
    async def story() -> None:
        shared = settings()
        async with logger(GROUP, tmp_path, shared), gossamer.join(GROUP, shared) as group:
            for jump_s in (10 * DAY_S, -20 * DAY_S):
                await publish_packets(group, PACKETS)
                await group.flush()
                monkeypatch.setattr(log_disk, "time_ns", lambda ahead_ns=int(jump_s * 1e9): time.time_ns() + ahead_ns)
            await publish_packets(group, PACKETS)
            await group.flush()
            me = group.me
        with open_store(tmp_path, readonly=True) as log:
            service = log.service_time()
            ages_s = [service.age_ns(entry.time_ns) / 1e9 for entry in log.read(me, 0, 10 * PACKETS)]
        assert len(service.runs) == 3
        assert all(0 <= age_s < HOUR_S for age_s in ages_s)

    run(story())
