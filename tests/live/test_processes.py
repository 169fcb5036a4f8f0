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
STOPPED_S = 5.0
SUBSCRIBERS = 8
BEFORE_S = 2.0


async def profiles_of(place: gossamer.Settings, names: list[str]) -> dict[str, dict]:
    """What these members say of themselves; asked until all have answered."""
    end = time.monotonic() + PATIENCE_S
    profiles: dict[str, dict] = {}
    while time.monotonic() < end:
        profiles = {p["name"]: p for p in await probe(GROUP, place, wait=1.0, enough=len(names))}
        if profiles.keys() >= set(names):
            return profiles
    raise AssertionError(f"only {sorted(profiles)} answer")


def named(name: str, **tuning: float) -> dict[str, str]:
    return {"GOSSAMER_NAME": name, **{f"GOSSAMER_TUNING_{key.upper()}": str(value) for key, value in tuning.items()}}


def test_a_subscriber_that_stands_still_slows_nobody_down_and_catches_up(tmp_path: Path):
    """Reference: 004 §5 (throughput stability)"""
    count = int(RATE * (BEFORE_S + STOPPED_S + 4.0))
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
            await until_flowing(place, names)
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


async def until_flowing(place: gossamer.Settings, names: list[str]) -> None:
    while not all(p["stats"]["received"] for p in (await profiles_of(place, names)).values() if p["name"] in names):
        pass


async def stand_still(place: gossamer.Settings, publisher: Process, stopped: Process, others: list[str]) -> None:
    """The others' rate while one is stopped, against their rate before; and the memory it takes."""
    before = await rate_over(place, BEFORE_S, others)
    memory = publisher.rss_bytes()
    stopped.signal(signal.SIGSTOP)
    try:
        during = await rate_over(place, STOPPED_S, others)
    finally:
        stopped.signal(signal.SIGCONT)
    assert during >= 0.95 * before
    assert publisher.rss_bytes() - memory < 200 << 20


async def rate_over(place: gossamer.Settings, seconds: float, names: list[str]) -> float:
    """How many events `names` hear in a second, all together, each by its own clock."""
    first = await profiles_of(place, names)
    await asyncio.sleep(seconds)
    last = await profiles_of(place, names)
    return sum(
        (last[name]["stats"]["received"] - first[name]["stats"]["received"])
        / (last[name]["uptime"] - first[name]["uptime"])
        for name in names
    )


async def until_settled(place: gossamer.Settings, names: list[str], count: int) -> None:
    """Everybody has everything, or knows what it lacks."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        profiles = await profiles_of(place, names)
        stats = [profiles[name]["stats"] for name in names]
        if all(s["received"] == count or (s["lost"] and not s["missing"]) for s in stats):
            return
    raise AssertionError(f"{[(s['received'], s['lost'], s['missing']) for s in stats]} of {count}")


def test_a_publisher_that_is_killed_and_comes_back_is_a_new_member():
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
