"""The fine timer rings when it should, once, and not after it was cancelled; without timerfd the loop's does."""

import asyncio
import os
from time import monotonic

import pytest

from gossamer.live import alarm
from gossamer.live.alarm import Alarm


@pytest.fixture(params=["timerfd", "loop"])
def _kind(request, monkeypatch):
    if request.param == "loop":
        monkeypatch.setattr(alarm, "_timer_of", lambda libc: -1)


def story(told):
    """A story in a loop of its own, with an alarm that writes down when it rang."""

    async def run():
        rang = []
        bell = Alarm(lambda: rang.append(monotonic()))
        try:
            await told(bell, rang)
        finally:
            bell.close()

    asyncio.run(run())


@pytest.mark.usefixtures("_kind")
def test_it_rings_once_and_never_early():
    async def told(bell, rang):
        for delay_s in (0.0001, 0.002, 0.02):
            set_at = monotonic()
            bell.set(delay_s)
            while not rang:
                await asyncio.sleep(0)
            assert rang.pop() - set_at >= delay_s
        await asyncio.sleep(0.03)
        assert not rang

    story(told)


@pytest.mark.usefixtures("_kind")
def test_it_does_not_ring_when_it_was_cancelled_or_closed_and_only_for_the_last_time_it_was_set():
    async def told(bell, rang):
        bell.set(0.001)
        bell.cancel()
        await asyncio.sleep(0.02)
        assert not rang
        bell.set(0.001)
        bell.set(10.0)
        await asyncio.sleep(0.02)
        assert not rang
        bell.set(0.001)
        bell.close()
        await asyncio.sleep(0.02)
        assert not rang

    story(told)


def test_it_leaves_no_file_open():
    before = len(os.listdir("/proc/self/fd"))

    async def told(bell, rang):
        bell.set(0.001)

    story(told)
    assert len(os.listdir("/proc/self/fd")) == before
