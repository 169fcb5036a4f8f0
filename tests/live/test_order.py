"""One order for all members of a live group, over real sockets and in real processes. Reference: 002 §1 (b), §5"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from itertools import combinations
from pathlib import Path

import pytest

import gossamer
from gossamer.live.group import Group
from gossamer.live.logger_group import logger
from gossamer.pubsub.channel_map import ChannelMap, Rule
from tests.live.members import GROUP, collect, joined, run, settings, until


def ordered(**changes):
    return settings(order="total", tuning={"order_patience": 0.5}, **changes)


async def publish(group, subject: str, count: int, pause_s: float = 0.001) -> None:
    for number in range(count):
        group.publish(subject, f"{subject} {number}".encode())
        await asyncio.sleep(pause_s)


def seen(items) -> list[tuple[bytes, tuple[int, int, int]]]:
    return [(item.payload, item.place) for item in items if isinstance(item, gossamer.Event)]


@pytest.mark.parametrize("protocol", ["rpbcast", "pbcast", "basic", "srm", "redelivery"])
def test_members_that_all_publish_see_all_events_in_one_order(protocol):
    async def story():
        async with joined(3, ordered(protocol=protocol), loss=0.05, reorder=0.05) as groups:
            streams = [group.subscribe(">") for group in groups]
            await asyncio.gather(*(publish(group, f"from.{at}", 100) for at, group in enumerate(groups)))
            heard = [seen(await collect(stream, 300)) for stream in streams]
            assert heard[0] == heard[1] == heard[2]
            places = [place for _, place in heard[0]]
            assert places == sorted(places)
            assert len(set(places)) == 300
            for at in range(3):
                mine = [payload for payload, _ in heard[0] if payload.startswith(b"from.%d" % at)]
                assert mine == [b"from.%d %d" % (at, n) for n in range(100)], "each sender's as sent"

    run(story())


def test_events_that_share_a_packet_have_places_of_their_own():
    async def story():
        async with joined(2, ordered()) as groups:
            streams = [group.subscribe(">") for group in groups]
            for number in range(20):
                groups[0].publish("a.b", b"%d" % number)
            heard = [seen(await collect(stream, 20)) for stream in streams]
            assert heard[0] == heard[1]
            assert len({place for _, place in heard[0]}) == 20

    run(story())


def test_a_member_that_comes_late_sees_the_rest_of_the_order():
    async def story():
        async with joined(2, ordered()) as groups:
            first = groups[0].subscribe(">")
            publishing = asyncio.gather(*(publish(group, f"from.{at}", 400) for at, group in enumerate(groups)))
            await asyncio.sleep(0.2)
            async with gossamer.join(GROUP, groups[0].settings) as late:
                theirs = late.subscribe(">")
                await publishing
                groups[0].publish("end", b"end")
                got: list = []
                while not got or got[-1][0] != b"end":
                    got += seen(await theirs.take(timeout=30) or [])
            heard = seen(await collect(first, 801))
            assert got == heard[-len(got) :], "the same, from where it came in"

    run(story())


def test_the_past_is_not_for_groups_with_one_order():
    async def story():
        async with joined(1, ordered()) as (group,):
            with pytest.raises(gossamer.SettingError, match="need order = 'fifo'; loggers keep packets but not their"):
                group.subscribe(">", start="beginning")

    run(story())


def test_when_the_first_of_two_leaves_the_other_goes_on():
    async def story():
        shared = ordered()
        async with gossamer.join(GROUP, shared) as first:
            second = await gossamer.open(GROUP, shared)
            await until(lambda: len(first.members()) == 2 and len(second.members()) == 2)
            stream = second.subscribe(">")
            first.publish("a", b"one")
            assert (await stream.get(timeout=20)).payload == b"one"
        await until(lambda: len(second.members()) == 1)
        second.publish("a", b"two")
        assert (await stream.get(timeout=20)).payload == b"two"
        assert second.blocked() == ""
        await second.close()

    run(story())


CHANNELS = ChannelMap(1, 3, (Rule("x.>", 1), Rule("y.>", 2)))


def test_when_most_leave_at_once_those_that_stay_go_on():
    """A leave is no failure: the sites shrink by it first. The primary is among those that go."""

    async def story():
        shared = ordered()
        groups = [await Group(GROUP, shared).__aenter__() for _ in range(5)]
        try:
            await until(lambda: all(len(g.stats()["order"].get("sites", [])) == 5 for g in groups))
            assert groups[0].stats()["order"]["primary"] == groups[0].me
            await asyncio.gather(*(groups.pop(0).__aexit__(None, None, None) for _ in range(3)))
            streams = [group.subscribe(">") for group in groups]
            await until(lambda: not any(group.blocked() for group in groups))
            await until(lambda: all(len(group.stats()["order"]["sites"]) == 2 for group in groups))
            for group in groups:
                await publish(group, "after", 20)
            heard = [seen(await collect(stream, 40)) for stream in streams]
            assert heard[0] == heard[1]
        finally:
            await asyncio.gather(*(group.__aexit__(None, None, None) for group in groups))

    run(story())


def agree(one: list, other: list) -> bool:
    """Whether two members have what both delivered in the same order, and in the same places."""
    return [item for item in one if item in set(other)] == [item for item in other if item in set(one)]


def test_members_of_several_channels_see_what_they_share_in_one_order():
    """Reference: 002 §1 (c)"""

    async def story():
        async with joined(4, ordered(), loss=0.05, reorder=0.05) as groups:
            groups[0].install_channels(CHANNELS)
            wanted = [("x.>", "y.>"), ("x.>", "z"), ("y.>", "z"), ("x.>", "y.>", "z")]
            streams = [group.subscribe(*subjects) for group, subjects in zip(groups, wanted, strict=True)]
            await asyncio.gather(*(group.channels_used(timeout=30) for group in groups))
            publishing = [publish(group, f"{s}.{at}", 60) for at, group in enumerate(groups) for s in "xy"]
            await asyncio.gather(*publishing, *(publish(group, "z", 60) for group in groups))
            counts = [60 * 4 * len(subjects) for subjects in wanted]
            heard = [seen(await collect(stream, n)) for stream, n in zip(streams, counts, strict=True)]
            assert all(agree(one, other) for one, other in combinations(heard, 2))
            assert all([place for _, place in mine] == sorted(place for _, place in mine) for mine in heard)

    run(story())


def branches(group) -> list[dict]:
    return group.stats()["order"]["branches"]


def test_halves_of_a_group_have_branches_until_one_member_wants_to_hear_both():
    """Reference: 002 §3.1, §5.1"""

    async def story():
        async with joined(7, ordered(), loss=0.02) as groups:
            groups[0].install_channels(CHANNELS)
            halves = ["x.>", "x.>", "x.>", "y.>", "y.>", "y.>", "w"]
            streams = [group.subscribe(half, "z") for group, half in zip(groups, halves, strict=True)]
            await asyncio.gather(*(group.channels_used(timeout=30) for group in groups))
            await until(lambda: all(len(branches(group)) == 2 for group in groups))
            assert sorted(known["channels"] for known in branches(groups[0])) == [[1], [2]]
            publishing = [
                publish(group, f"{subject}{at}", 100) for at, group in enumerate(groups) for subject in ("x.", "y.")
            ]
            publishing += [publish(group, "z", 100) for group in groups[:2]]
            every = asyncio.gather(*publishing)
            await asyncio.sleep(0.2)
            both = groups[0].subscribe("y.>")
            await every
            await until(lambda: len(branches(groups[5])) < 2 and groups[0].stats()["channels"]["listening"] == [1, 2])
            for group in groups:
                group.publish("y.end", group.me.to_bytes(8, "big"))
            heard = [
                seen(await collect(stream, 907 if at in (3, 4, 5) else 900)) for at, stream in enumerate(streams[:6])
            ]
            late: list = []
            while sum(payload not in (b"", None) and len(payload) == 8 for payload, _ in late) < 7:
                late += seen(await both.take(timeout=30) or [])
            heard[0] = sorted(heard[0] + late, key=lambda item: item[1])
            assert all(agree(one, other) for one, other in combinations(heard, 2))
            assert all([place for _, place in mine] == sorted(place for _, place in mine) for mine in heard)
            assert not any(group.blocked() for group in groups)

    run(story())


SUBSCRIBER = """
import asyncio, sys, gossamer
async def main():
    tuning = {"order_patience": 0.5, "suspect_after": float(sys.argv[6])}
    words = dict(order="total", order_failures=sys.argv[5], coalesce_us=0, tuning=tuning)
    shared = gossamer.Settings(address=sys.argv[1], **words)
    async with gossamer.join(sys.argv[2], shared) as group:
        out = open(sys.argv[3], "a", buffering=1)
        stream = group.subscribe(">")
        print(group.me, file=out)
        async def publish():
            number = 0
            while group.me not in group.stats()["order"]["sites"]:  # from then on it counts among those that decide
                await asyncio.sleep(0.05)
            while True:
                try:
                    group.publish("from." + sys.argv[4], b"%s %d" % (sys.argv[4].encode(), number))
                    number += 1
                except gossamer.Full:
                    pass
                await asyncio.sleep(0.005)
        task = asyncio.create_task(publish())
        async for item in stream:
            if isinstance(item, gossamer.Event):
                print(*item.place, item.payload.decode(), file=out)
            elif isinstance(item, gossamer.Undo):
                print("- Undo", *item.place, file=out)
            else:
                print("-", type(item).__name__, item.reason, file=out)
asyncio.run(main())
"""


class Site:
    """A process that publishes and subscribes, and writes down what it sees."""

    def __init__(self, place, folder: Path, name: str, failures: str, suspect_after: float) -> None:
        self.name = name
        self.address = place.address
        self.path = folder / f"{name}.txt"
        words = (place.address, f"{GROUP} sites", str(self.path), name, failures, str(suspect_after))
        self.popen = subprocess.Popen(
            [sys.executable, "-c", SUBSCRIBER, *words], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        )

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()[1:] if self.path.exists() else []

    def events(self) -> list[tuple[tuple[int, ...], str]]:
        """Places and payloads but for what was undone; the last line of a process that was killed may be cut short."""
        found: list[tuple[tuple[int, ...], str]] = []
        for line in self.lines()[:-1]:
            if line.startswith("- Undo"):
                undone = tuple(map(int, line.split()[2:]))
                found = [event for event in found if event[0] < undone]
            elif not line.startswith("-"):
                *place, payload = line.split(" ", 3)
                found.append((tuple(map(int, place)), payload))
        return found

    def has_seen(self, name: str, since: int) -> bool:
        """Whether it has seen anything of `name` in what came after so many lines."""
        return any(f" {name} " in line for line in self.lines()[since:])

    def known_sites(self) -> int:
        """How many members decide, as an operator sees it; one that was killed does until it is struck out."""
        words = ("-m", "gossamer", "graph", f"{GROUP} sites", "--address", self.address, "--json")
        said = subprocess.run([sys.executable, *words], capture_output=True, timeout=30).stdout
        return len(json.loads(said)[0]["sites"]) if said.strip() not in (b"", b"[]") else 0

    def end(self) -> None:
        self.popen.kill()
        self.popen.wait()


@pytest.fixture
def sites(tmp_path):
    shared, started = settings(), []

    def start(name: str, failures: str = "atomic", suspect_after: float = 5.0) -> Site:
        started.append(Site(shared, tmp_path, name, failures, suspect_after))
        return started[-1]

    start.address = shared.address
    yield start
    for site in started:
        site.end()


def wait_until(condition, patience_s: float = 40.0) -> None:
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "waited for in vain"
        time.sleep(0.05)


def expect_one_order(*some: Site) -> None:
    """Any two of them saw what both saw in the same order, and in the same places."""
    places: dict[str, tuple[int, ...]] = {}
    for site in some:
        events = site.events()
        assert events == sorted(events), f"{site.name} saw places out of order"
        for place, payload in events:
            assert places.setdefault(payload, place) == place, f"{payload} has two places"
    assert len(set(places.values())) == len(places), "a place was given twice"


def all_hear(listeners, names) -> None:
    """Wait until each of them sees something new of all of these."""
    before = {site.name: len(site.lines()) for site in listeners}
    wait_until(lambda: all(site.has_seen(name, before[site.name]) for site in listeners for name in names))


def test_order_survives_a_primary_that_is_killed_and_one_that_stands_still(sites):
    a = sites("a")
    wait_until(lambda: len(a.lines()) > 5)  # one that founds the group, and others that come
    b, c, d = (sites(name) for name in "bcd")
    all_hear((a, b, c, d), "abcd")
    a.popen.send_signal(signal.SIGKILL)
    a.popen.wait()
    all_hear((b, c, d), "bcd")
    wait_until(lambda: b.known_sites() == 3)  # two of four could not go on without the next one
    b.popen.send_signal(signal.SIGSTOP)
    all_hear((c, d), "cd")
    b.popen.send_signal(signal.SIGCONT)
    e = sites("e")
    all_hear((b, c, d, e), "bcde")
    expect_one_order(a, b, c, d, e)


@pytest.mark.soak
@pytest.mark.parametrize("failures", ["atomic", "non-atomic"])
def test_order_survives_ten_kills_and_ten_pauses(sites, failures):
    """In each round the oldest process, which often is the primary, is killed, and the next one stands still."""
    first = sites("p0", failures, 1.5)
    wait_until(lambda: len(first.lines()) > 5)
    alive = [first, *(sites(f"p{number}", failures, 1.5) for number in range(1, 5))]
    every = list(alive)
    all_hear(alive, [site.name for site in alive])
    for number in range(5, 15):
        killed = alive.pop(0)
        killed.popen.send_signal(signal.SIGKILL)
        killed.popen.wait()
        all_hear(alive, [site.name for site in alive])
        alive.append(sites(f"p{number}", failures, 1.5))
        every.append(alive[-1])
        all_hear(alive, [site.name for site in alive])
        wait_until(lambda: alive[-1].known_sites() == 5)
        alive[0].popen.send_signal(signal.SIGSTOP)
        all_hear(alive[1:], [site.name for site in alive[1:]])
        alive[0].popen.send_signal(signal.SIGCONT)
        all_hear(alive, [site.name for site in alive])
    expect_one_order(*(every if failures == "atomic" else alive))  # else what a process delivered last died with it


def test_processes_that_found_the_group_at_the_same_moment_have_one_order(sites):
    """What one of them published before it met the others it has delivered in an order of its own."""
    started = [sites(name) for name in "abcd"]
    wait_until(lambda: started[0].known_sites() == 4)
    all_hear(started, "abcd")
    before = {site.name: len(site.events()) for site in started}
    all_hear(started, "abcd")
    places: dict[str, tuple[int, ...]] = {}
    for site in started:
        for place, payload in site.events()[before[site.name] :]:
            assert places.setdefault(payload, place) == place, f"{payload} has two places"


def test_one_of_two_that_is_left_without_its_primary_blocks_and_says_so(sites):
    """It cannot know whether the other is dead or only cut off, and would have an order of its own."""
    a = sites("a")
    wait_until(lambda: len(a.lines()) > 5)
    b = sites("b")
    all_hear((a, b), "ab")
    a.popen.send_signal(signal.SIGKILL)
    wait_until(lambda: any(line.startswith("- Blocked graph") for line in b.lines()))
    expect_one_order(a, b)


def test_an_operator_sees_the_graph_of_a_live_group():
    async def story():
        async with joined(3, ordered()) as groups:
            stream = groups[2].subscribe(">")
            groups[0].publish("a", b"one")
            await collect(stream, 1)
            await until(lambda: len(groups[0].stats()["order"]["sites"]) == 3)
            words = ("-m", "gossamer", "graph", GROUP, "--address", groups[0].settings.address)
            asking = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=subprocess.PIPE)
            said, _ = await asking.communicate()
            assert asking.returncode == 0
            head, *members = said.decode().splitlines()
            assert head.startswith(f"group {GROUP}, graph ")
            assert len(members) == 3
            assert "blocked" not in said.decode()

    run(story())


# Loggers.


async def expect_an_order(members: int, *groups) -> None:
    """Each of these is heard by all of them, in one order that all members keep."""
    await until(lambda: all(len(group.stats()["order"]["sites"]) == members for group in groups))
    heard = [group.subscribe(">") for group in groups]
    for group in groups:
        group.publish("n", b"%d" % group.me)
    places = [seen(await collect(stream, len(groups))) for stream in heard]
    assert places == [places[0]] * len(groups)


@pytest.mark.parametrize("failures", ["atomic", "non-atomic"])
@pytest.mark.parametrize(("first", "last"), [(1, 0), (2, 0), (0, 1), (1, 1)])
def test_an_order_begins_whether_loggers_come_first_or_last(tmp_path, first, last, failures):
    """A logger founds a group in another way than other members: it takes in packets although it has met nobody."""

    async def story():
        place = ordered(order_failures=failures)
        stores = iter(tmp_path / f"log {number}" for number in range(first + last))
        async with AsyncExitStack() as loggers, AsyncExitStack() as others:  # the others leave first
            for _ in range(first):
                await loggers.enter_async_context(logger(GROUP, next(stores), place))
            a, b = [await others.enter_async_context(gossamer.join(GROUP, place)) for _ in range(2)]
            for _ in range(last):
                await loggers.enter_async_context(logger(GROUP, next(stores), place))
            await expect_an_order(2 + first + last, a, b)

    run(story())


def test_a_logger_that_is_back_alone_founds_an_order_after_what_is_in_its_log(tmp_path):
    async def story():
        place = ordered()
        for _ in range(3):
            async with logger(GROUP, tmp_path / "log", place) as kept:
                async with gossamer.join(GROUP, place) as a, gossamer.join(GROUP, place) as b:
                    await expect_an_order(3, a, b)
                await until(lambda group=kept: len(group.members()) == 1)

    run(story())


def test_a_logger_that_is_killed_and_started_again_has_a_group_with_one_order(sites, tmp_path):
    """As a process of its own: first with nobody there, then while others go on."""
    started: list[subprocess.Popen] = []

    def start() -> None:
        words = ("-m", "gossamer", "logger", f"{GROUP} sites", "--store", str(tmp_path / "store"))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GOSSAMER_ORDER": "total"}
        started.append(subprocess.Popen([sys.executable, *words, "--address", sites.address], env=env))

    def kill() -> None:
        started[-1].kill()
        started[-1].wait()

    try:
        start()
        time.sleep(1.5)
        kill()
        start()
        a, b, c = (sites(name) for name in "abc")
        wait_until(lambda: a.known_sites() == 4)
        for _ in range(2):
            all_hear((a, b, c), "abc")
            kill()
            all_hear((a, b, c), "abc")
            start()
            all_hear((a, b, c), "abc")
        wait_until(lambda: a.known_sites() == 4)
        expect_one_order(a, b, c)
    finally:
        kill()
