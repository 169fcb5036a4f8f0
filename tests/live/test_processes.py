"""Real processes that are stopped, killed and started again."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path

import gossamer
from gossamer.live.probe import probe
from tests.live.members import GROUP, PATIENCE_S, Process, collect, payloads, processes, run, settings, until

RATE = 10_000
STOPPED_S = 3.0
SUBSCRIBERS = 8


async def profiles_of(place: gossamer.Settings, number: int) -> dict[str, dict]:
    """What so many members say of themselves, by name; asked until all have answered."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        profiles = {p["name"]: p for p in await probe(GROUP, place, wait=1.0, enough=number)}
        if len(profiles) >= number:
            return profiles
    raise AssertionError(f"{len(profiles)} of {number} members answer")


def named(name: str, **tuning: float) -> dict[str, str]:
    return {"GOSSAMER_NAME": name, **{f"GOSSAMER_TUNING_{key.upper()}": str(value) for key, value in tuning.items()}}


def received(profiles: dict[str, dict], names: list[str]) -> int:
    return sum(profiles[name]["stats"]["received"] for name in names)


def test_one_that_stands_still_slows_nobody_down_and_catches_up(tmp_path: Path):
    """Reference: 004 §5 (throughput stability)"""
    count = int(RATE * (STOPPED_S + 4.0))
    names = [f"subscriber-{n}" for n in range(SUBSCRIBERS)]
    files = [tmp_path / f"{name}.json" for name in names]

    async def story():
        place = settings()
        with processes() as start:
            words = [("sub", GROUP, "--verify", "--quiet", "--stats", str(file)) for file in files]
            subscribers = [
                start(place, *line, environment=named(name)) for name, line in zip(names, words, strict=True)
            ]
            publisher = start(
                *(place, "pub", GROUP, "n", "--count", str(count), "--rate", str(RATE), "--wait", str(SUBSCRIBERS)),
                environment=named("publisher"),
            )
            await until_flowing(place)
            await stand_still(place, publisher, subscribers[0], names[1:])
            assert await asyncio.to_thread(publisher.popen.wait, PATIENCE_S) == 0
            await until_settled(place, names, count)
            for process in subscribers:
                process.signal(signal.SIGINT)
            for process in subscribers:
                assert (await asyncio.to_thread(process.wait))[0] in (0, 130)

    run(story())
    verified = [json.loads(file.read_text())["verified"] for file in files]
    assert verified[1:] == [{"right": count, "wrong": 0, "lost": 0}] * (SUBSCRIBERS - 1)
    assert verified[0]["wrong"] == 0
    assert verified[0]["right"] == count or verified[0]["lost"] > 0


async def until_flowing(place: gossamer.Settings) -> None:
    while True:
        profiles = await profiles_of(place, SUBSCRIBERS + 1)
        if all(profile["stats"]["received"] for name, profile in profiles.items() if name != "publisher"):
            return


async def stand_still(place: gossamer.Settings, publisher: Process, stopped: Process, others: list[str]) -> None:
    """The others' rate while one is stopped, against what was offered to them in that time; and the memory it takes."""
    memory = publisher.rss_bytes()
    stopped.signal(signal.SIGSTOP)
    try:
        began, before = time.monotonic(), await profiles_of(place, SUBSCRIBERS)
        while time.monotonic() < began + STOPPED_S:
            await asyncio.sleep(0.1)
        after = await profiles_of(place, SUBSCRIBERS)
    finally:
        stopped.signal(signal.SIGCONT)
    heard = (received(after, others) - received(before, others)) / len(others)
    offered = after["publisher"]["stats"]["published"] - before["publisher"]["stats"]["published"]
    assert heard >= 0.95 * offered  # they hear what is published ...
    assert offered >= 0.8 * RATE * STOPPED_S * 0.95  # ... and the publisher does not wait; the machine may, a little
    assert publisher.rss_bytes() - memory < 200 << 20


async def until_settled(place: gossamer.Settings, names: list[str], count: int) -> None:
    """Everybody has everything, or knows what it lacks."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        stats = [p["stats"] for p in (await profiles_of(place, len(names))).values()]
        if all(s["received"] == count or (s["lost"] and not s["missing"]) for s in stats):
            return
    raise AssertionError(f"{[(s['received'], s['lost'], s['missing']) for s in stats]} of {count}")


def test_a_publisher_that_is_killed_and_comes_back_is_another():
    async def story():
        place = settings(tuning={"suspect_after": 0.5})
        async with gossamer.join(GROUP, place) as here:
            with processes() as start:
                heard = here.subscribe(">")
                words = ("pub", GROUP, "n", "--rate", "3000", "--wait", "1")
                first = start(place, *words, "--count", "1000000", environment=named("the publisher"))
                events = [await anext(heard) for _ in range(500)]
                first.signal(signal.SIGKILL)
                second = start(place, *words, "--count", "1000", environment=named("the publisher"))
                while (item := await anext(heard)).sender == events[0].sender:
                    events.append(item)
                again = [item]
                while len(again) < 1000:
                    again.append(await anext(heard))
                assert await asyncio.to_thread(second.popen.wait, PATIENCE_S) == 0
            before = [event for event in events if isinstance(event, gossamer.Event)]
            assert payloads(before) == [b"%d" % n for n in range(len(before))]
            assert payloads(again) == [b"%d" % n for n in range(1000)]
            assert {event.sender for event in again} == {item.sender}
            await until(lambda: here.members() == (here.me,))  # the first is suspected, the second said goodbye

    run(story())


def test_a_subscriber_that_is_killed_disappears_and_nobody_else_notices():
    async def story():
        place = settings(tuning={"suspect_after": 0.5})
        async with gossamer.join(GROUP, place) as a, gossamer.join(GROUP, place) as b:
            with processes() as start:
                heard = b.subscribe(">")
                victim = start(place, "sub", GROUP, "--quiet", environment=named("victim", suspect_after=0.5))
                await until(lambda: len(a.members()) == len(b.members()) == 3)
                (gone,) = set(a.members()) - {a.me, b.me}
                publishing = asyncio.ensure_future(_steadily(a, 2000))
                victim.signal(signal.SIGKILL)
                await publishing
                assert payloads(await collect(heard, 2000)) == [b"%d" % n for n in range(2000)]
                assert b.stats()["lost"] == {}
                await until(lambda: gone not in (*a.members(), *b.members()))
                back = start(place, "sub", GROUP, "--count", "1", environment=named("victim", suspect_after=0.5))
                await until(lambda: len(a.members()) == 3)
                a.publish("n", b"for the one that is back")
                status, out, _ = await asyncio.to_thread(back.wait)
                assert status == 0
                assert out
                await until(lambda: set(a.members()) == set(b.members()) == {a.me, b.me})

    run(story())


async def _steadily(group: gossamer.Group, count: int) -> None:
    for n in range(count):
        group.publish("n", b"%d" % n)
        if n % 10 == 0:
            await asyncio.sleep(0.005)
