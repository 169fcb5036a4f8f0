"""Events that are published one by one: they share packets while there are many, and a lone one does not wait."""

from __future__ import annotations

import asyncio

import gossamer
from tests.live.members import GROUP, collect, joined, run, settings


async def _published_one_per_turn(coalesce_us: int, events: int) -> int:
    """How many packets it takes."""
    async with joined(2, settings(coalesce_us=coalesce_us)) as (a, b):
        heard = b.subscribe(">")
        for n in range(events):
            a.publish("n", b"%d" % n)
            await asyncio.sleep(0)
        assert [event.payload for event in await collect(heard, events)] == [b"%d" % n for n in range(events)]
        return a.stats()["sent"]["send"]


def test_events_of_many_turns_share_packets_while_the_application_goes_on():
    async def story():
        assert await _published_one_per_turn(50_000, 1000) < 500
        assert await _published_one_per_turn(0, 1000) > 900

    run(story())


def test_an_event_after_a_pause_leaves_within_the_call():
    async def story():
        async with gossamer.join(GROUP, settings(coalesce_us=100_000)) as group:
            for expected in (1, 2):
                await asyncio.sleep(0.01)
                group.publish("n", b"")
                assert group.stats()["sent"]["send"] == expected

    run(story())


def test_an_event_does_not_wait_for_others_when_the_application_falls_silent():
    async def story():
        async with gossamer.join(GROUP, settings(coalesce_us=100_000)) as group:
            await asyncio.sleep(0.01)
            group.publish("n", b"1")
            group.publish("n", b"2")
            for _ in range(10):
                await asyncio.sleep(0)
            assert group.stats()["sent"]["send"] == 2

    run(story())
