"""Live channels: a map installed under traffic, members that change what they listen to, the past of a channel."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gossamer
from gossamer.live import channels as live_channels
from gossamer.live.group import Group
from gossamer.live.impair import ImpairedTransport
from gossamer.live.logger_group import logger
from gossamer.live.sockets import TransportError
from gossamer.pubsub.channel_map import ChannelMap, ChannelMapError, Rule
from tests.live.members import GROUP, PATIENCE_S, collect, impaired, joined, processes, run, settings, until

FIRST = ChannelMap(1, 4, (Rule("x.1", 1), Rule("x.*", 2), Rule("y.>", 3)))
SECOND = ChannelMap(2, 3, (Rule("x.1", 2), Rule("x.*", 1)))


class Reader:
    """Reads a subscription for as long as the test runs."""

    def __init__(self, subscription: gossamer.Subscription) -> None:
        self.items: list[Any] = []
        self._task = asyncio.ensure_future(self._read(subscription))

    async def _read(self, subscription: gossamer.Subscription) -> None:
        async for batch in subscription.batches():
            self.items += batch

    def of(self, subject: str) -> list[int]:
        return [int(item.payload) for item in self.items if item.subject == subject]


class Publisher:
    """Publishes numbers under some subjects."""

    def __init__(self, group: Group, *subjects: str) -> None:
        self.count = 0
        self._group, self._subjects = group, subjects

    async def publish(self, rounds: int) -> None:
        for _ in range(rounds):
            for subject in self._subjects:
                await self._group.publish_wait(subject, str(self.count).encode())
            self.count += 1
            if self.count % 20 == 0:
                await asyncio.sleep(0.002)

    async def until(self, condition: Any) -> None:
        while not condition():
            await self.publish(10)
            await asyncio.sleep(0.01)


def listening(group: Group) -> list[int]:
    return group.stats()["channels"]["listening"]


async def in_use(groups: list[Group], version: int) -> None:
    await until(lambda: all(g.stats()["channels"]["map"] == version for g in groups))
    await until(lambda: all(g.stats()["channels"]["step"] == "uses" for g in groups))


def test_a_map_that_is_installed_under_traffic_loses_nothing_and_keeps_the_order_of_each_subject():
    async def story():
        async with joined(3, settings(), loss=0.05) as groups:
            a, b, c = groups
            x, one, y = Reader(b.subscribe("x.>")), Reader(c.subscribe("x.1")), Reader(c.subscribe("y.>"))
            publisher = Publisher(a, "x.1", "x.2", "y.1")
            await publisher.publish(200)
            a.install_channels(FIRST)
            await publisher.until(lambda: a._channels.is_used_by_all)
            assert (listening(a), listening(b), listening(c)) == ([], [1, 2], [1, 3])
            await publisher.publish(300)
            b.install_channels(SECOND)  # whoever does it
            await publisher.until(lambda: a._channels.is_used_by_all and a.channels() == SECOND)
            await publisher.publish(300)
            await a.flush()
            expected = list(range(publisher.count))
            await until(lambda: len(x.items) >= 2 * len(expected) and len(one.items) >= len(expected))
            await until(lambda: len(y.items) >= len(expected))
            assert x.of("x.1") == x.of("x.2") == one.of("x.1") == y.of("y.1") == expected
            assert {item.channel for item in x.items} == {0, 1, 2}
            assert {item.member for item in x.items} == {a.me}
            await until(lambda: (listening(b), listening(c)) == ([1, 2], [2]))  # what is drained is left

    run(story())


def test_a_member_hears_what_it_subscribes_to_and_stops_when_it_does_not():
    async def story():
        async with joined(3, settings()) as groups:
            a, b, c = groups
            a.install_channels(FIRST)
            await in_use(groups, 1)
            subscription = b.subscribe("y.*")
            await until(lambda: listening(b) == [3])
            a.publish("x.1", b"for nobody")
            a.publish("y.1", b"for b")
            (event,) = await collect(subscription, 1)
            assert (event.payload, event.channel) == (b"for b", 3)
            await a.flush()
            assert c.stats()["received"] == 0
            assert b.stats()["received"] == 1
            subscription.close()
            await until(lambda: listening(b) == [])
            both = b.subscribe("x.1", "x.2")
            await until(lambda: listening(b) == [1, 2])
            a.publish("x.2", b"again")
            assert [event.payload for event in await collect(both, 1)] == [b"again"]

    run(story())


def test_one_that_joins_later_knows_the_map_before_it_subscribes():
    async def story():
        place = settings()
        async with joined(2, place) as groups:
            groups[0].install_channels(FIRST)
            await in_use(groups, 1)
            async with Group(GROUP, place) as late:
                assert late.channels() == FIRST
                subscription = late.subscribe("x.1")
                await until(lambda: listening(late) == [1])
                groups[1].publish("x.1", b"heard")
                assert [event.payload for event in await collect(subscription, 1)] == [b"heard"]

    run(story())


def test_a_channel_may_be_given_an_address():
    async def story():
        given = settings(channel_addresses=("239.192.78.101", "239.192.78.7"))
        async with joined(2, given) as groups:
            a, b = groups
            a.install_channels(FIRST)
            await in_use(groups, 1)
            subscription = b.subscribe("x.2", "y.1")
            await until(lambda: listening(b) == [2, 3])
            heard = [sock.getsockname()[0] for sock in b._member.sockets._channels.values()]
            base = given.address.rpartition(":")[0]
            assert heard == ["239.192.78.7", f"{base.rpartition('.')[0]}.{int(base.rpartition('.')[2]) + 3}"]
            a.publish("x.2", b"by channel 2")
            assert [event.payload for event in await collect(subscription, 1)] == [b"by channel 2"]
            assert b.stats()["first_pass"] == 1

    run(story())


def test_the_past_of_a_channel_comes_from_a_logger_that_was_restarted(tmp_path: Path):
    async def story():
        place = settings()
        async with Group(GROUP, place, impaired(1, loss=0.05)) as a:
            async with logger(GROUP, tmp_path / "log", place):
                await until(lambda: a.loggers())
                a.install_channels(FIRST)
                await until(lambda: a._channels.is_used_by_all)
                for n in range(100):
                    a.publish("x.1", str(n).encode())
                    a.publish("y.1", b"other")
                await a.flush()
            async with logger(GROUP, tmp_path / "log", place) as again:
                await until(lambda: again.channels() == FIRST and again.me in a.members())
                for n in range(100, 150):
                    a.publish("x.1", str(n).encode())
                await a.flush()
                async with Group(GROUP, place) as late:
                    past = await collect(late.subscribe("x.1", start="beginning"), 150)
                    assert [int(event.payload) for event in past] == list(range(150))
                    assert {event.channel for event in past} == {1}

    run(story())


def test_a_member_that_was_away_when_a_map_came_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live_channels, "PATIENCE_S", 1.0)

    async def story():
        async with joined(3, settings()) as groups:
            a, b, away = groups
            reader = Reader(away.subscribe("x.>"))
            away.disconnect()
            a.install_channels(FIRST)
            await in_use([a, b], 1)
            a.publish("x.1", b"unheard")
            away.reconnect()
            await until(lambda: reader.items)
            (lost,) = reader.items
            assert (lost.sender, lost.reason) == (-1, "channel map 1 was in use before this member knew it")
            await until(lambda: listening(away) == [1, 2])
            a.publish("x.1", b"heard")
            await until(lambda: len(reader.items) == 2)
            assert reader.items[1].payload == b"heard"

    run(story())


def test_a_channel_that_cannot_be_heard_is_repaired(monkeypatch: pytest.MonkeyPatch):
    """As if the kernel allowed no more sockets: it is said, and nothing is lost."""

    def refuses(self: ImpairedTransport, channel: int) -> Any:
        raise TransportError("too many open files")

    async def story():
        async with joined(2, settings()) as groups:
            a, b = groups
            monkeypatch.setattr(ImpairedTransport, "open_channel", refuses)
            a.install_channels(FIRST)
            await in_use(groups, 1)
            subscription = b.subscribe("x.1")
            await until(lambda: listening(b) == [1])
            for n in range(20):
                a.publish("x.1", str(n).encode())
            assert [int(event.payload) for event in await collect(subscription, 20)] == list(range(20))
            assert b.stats()["dropped"]["channels that cannot be heard"] == 1
            assert b.stats()["first_pass"] == 0

    run(story())


def test_a_member_may_listen_to_more_channels_than_one_socket_may_join_groups():
    limit = int(Path("/proc/sys/net/ipv4/igmp_max_memberships").read_text())
    count = min(limit + 10, 127)
    many = ChannelMap(1, count + 1, tuple(Rule(f"s.{n}", n) for n in range(1, count + 1)))

    async def story():
        async with joined(2, settings()) as groups:
            a, b = groups
            a.install_channels(many)
            await in_use(groups, 1)
            subscription = b.subscribe("s.*")
            await until(lambda: listening(b) == list(range(1, count + 1)))
            for n in range(1, count + 1):
                a.publish(f"s.{n}", b"")
            events = await collect(subscription, count)
            assert sorted(event.channel for event in events) == list(range(1, count + 1))
            assert "channels that cannot be heard" not in b.stats()["dropped"]

    run(story())


def test_a_map_must_be_newer():
    async def story():
        async with joined(1, settings()) as (group,):
            group.install_channels(SECOND)
            for again in (FIRST, SECOND):
                with pytest.raises(ChannelMapError, match="has version 2 already"):
                    group.install_channels(again)
        async with joined(1, settings(tuning={"channels": 1})) as (group,):
            with pytest.raises(ChannelMapError, match="was given one channel"):
                group.install_channels(FIRST)

    run(story())


def test_two_maps_of_one_version_become_one():
    other = ChannelMap(1, 2, (Rule("x.*", 1),))

    async def story():
        async with joined(3, settings()) as groups:
            groups[0].install_channels(FIRST)
            groups[1].install_channels(other)
            await until(lambda: all(g._channels.is_used_by_all for g in groups))
            assert len({g.channels() for g in groups}) == 1

    run(story())


def test_real_processes_with_losses_and_a_map_installed_from_the_command_line(tmp_path: Path):
    """Two publishers and two subscribers; each subscriber verifies that it misses nothing of its subject."""
    (tmp_path / "map.toml").write_text(ChannelMap(1, 3, (Rule("one", 1), Rule("two", 2))).to_toml())
    count = 6000

    async def story():
        place = settings()
        with processes() as start:
            bad = ("--impair", "loss=0.03")
            files = {subject: tmp_path / f"{subject}.json" for subject in ("one", "two")}
            subscribers = {
                subject: start(
                    place, "sub", GROUP, subject, "--count", str(count), "--quiet", "--stats", str(file), *bad
                )
                for subject, file in files.items()
            }
            for subject in files:
                start(place, "pub", GROUP, subject, "--count", str(count), "--rate", "600", "--wait", "3", *bad)
            await asyncio.sleep(3.0)
            installing = start(place, "channels", "install", GROUP, str(tmp_path / "map.toml"), "--wait", "60")
            assert await asyncio.to_thread(installing.popen.wait, PATIENCE_S) == 0
            for process in subscribers.values():
                assert await asyncio.to_thread(process.popen.wait, 2 * PATIENCE_S) == 0
            for file in files.values():
                stats = json.loads(file.read_text())["stats"]
                assert stats["lost"] == {}
                assert stats["channels"]["map"] == 1
                assert len(stats["channels"]["listening"]) == 1

    run(story())


def test_a_slow_reader_of_many_channels_slows_the_sender_and_loses_nothing():
    """All channels together have no more in flight than peers keep, and each has its turn at the reader."""
    channels, turns, payloads = 16, 50, [bytes(60_000)] * 10
    rules = tuple(Rule(f"s.{n}", n + 1) for n in range(channels))

    async def story():
        shared = settings()
        slow = replace(shared, queue_bytes=2 << 20)
        async with gossamer.join(GROUP, slow) as reader, gossamer.join(GROUP, shared) as group:
            await until(lambda: len(group.members()) == 2)
            heard = reader.subscribe("s.*")
            group.install_channels(ChannelMap(1, channels + 1, rules))
            assert await group.channels_used(timeout=30)
            got: list[Any] = []

            async def read() -> None:
                async for batch in heard.batches():
                    got.extend(item if isinstance(item, gossamer.Lost) else None for item in batch)
                    await asyncio.sleep(0.04)

            reading = asyncio.ensure_future(read())
            for turn in range(turns * channels):
                await group.publish_many(f"s.{turn % channels}", payloads)
            await until(lambda: len(got) >= turns * channels * len(payloads) or any(got))
            assert not any(got)
            reading.cancel()

    run(story())


@pytest.mark.parametrize("how", ["leaves", "fails"])
def test_who_has_left_cannot_publish_to_any_channel_whether_it_ever_did_or_not(how):
    """Else the event would be lost in silence."""

    async def story():
        shared = settings(leave_timeout=0)
        async with gossamer.join(GROUP, shared) as other:
            other.install_channels(FIRST)
            assert await other.channels_used(timeout=20)
            group = await gossamer.open(GROUP, shared)
            group.publish("x.1", b"1")
            if how == "leaves":
                await group.close()
                error: type[Exception] = gossamer.NotAMember
            else:
                group._broke_down(LookupError("planted"))
                error = gossamer.MemberFailed
            for subject in ("x.1", "x.2", "y.1", "z"):
                with pytest.raises(error):
                    group.publish(subject, b"2")
                with pytest.raises(error):
                    await group.publish_many(subject, [b"2"])
                with pytest.raises(error):
                    await asyncio.to_thread(group.publish, subject, b"2")

    run(story())
