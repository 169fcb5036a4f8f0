"""Sealed groups, and what a stranger with a socket can do to them: nothing."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from random import Random

import pytest

import gossamer
from gossamer.core.ids import PEER
from gossamer.core.messages import Repair
from gossamer.core.packets import Packet
from gossamer.live.envelope import SealedEnvelope
from gossamer.live.group import Group
from gossamer.live.transport import Address, Datagrams, Endpoint, UdpTransport
from gossamer.wire import Header
from gossamer.wire.keys import KeyRing, new_key
from tests.live.members import GROUP, collect, impaired, joined, payloads, run, settings, until

NUMBERS = [b"%d" % n for n in range(2000)]


def key() -> str:
    return new_key(secrets.token_bytes(32))


async def publish_slowly(group: gossamer.Group, numbers: list[bytes] = NUMBERS) -> None:
    """Many small packets instead of few large ones."""
    for n, payload in enumerate(numbers):
        await group.publish_wait("n", payload)
        if n % 4 == 0:
            await asyncio.sleep(0)


def test_a_sealed_group_repairs_with_what_its_members_sealed():
    async def story():
        async with joined(3, settings(key=key()), loss=0.1, duplicate=0.05, reorder=0.1) as groups:
            heard = [group.subscribe(">") for group in groups]
            await publish_slowly(groups[0])
            groups[1].publish("large", bytes(1 << 20))
            for subscription in heard:
                events = await collect(subscription, len(NUMBERS) + 1)
                assert payloads([e for e in events if e.subject == "n"]) == NUMBERS
            assert all(group.stats()["peer"] > 10 for group in groups[1:])
            assert groups[1].stats()["dropped"]["replayed"] > 0  # the duplicates
            assert "forged" not in groups[1].stats()["dropped"]

    run(story())


def test_a_sealed_group_recovers_packets_by_parity_and_passes_them_on():
    async def story():
        lossy = settings(key=key(), tuning={"parity": 3})
        async with joined(4, lossy, loss=0.15) as groups:
            heard = [group.subscribe(">") for group in groups]
            await publish_slowly(groups[0])
            for subscription in heard:
                assert payloads(await collect(subscription, len(NUMBERS))) == NUMBERS
            stats = [group.stats() for group in groups[1:]]
            assert all(one["recovered"] > 10 and one["sent"]["repair"] > 0 for one in stats)
            assert not any("forged" in one["dropped"] or "parities that do not fit" in one["dropped"] for one in stats)

    run(story())


def test_a_packet_that_was_recovered_is_sealed_by_the_member_that_passes_it_on():
    keys = KeyRing([secrets.token_bytes(32)])
    ours, theirs = (SealedEnvelope(Header(7, member), keys, secrets.token_bytes(8)) for member in (1, 2))
    recovered = Packet(3, 5, b"body")  # of a third member, whose datagram never came
    (opened,) = theirs.open([memoryview(ours.close(Repair(recovered, PEER)))])
    header, repair = opened
    assert header.source == 1
    assert (repair.packet.sender, repair.packet.seqno, repair.packet.body) == (3, 5, b"body")
    (again,) = ours.open([memoryview(theirs.close(Repair(repair.packet, PEER)))])  # and so on
    assert again[1].packet.body == b"body"


@pytest.mark.parametrize(("theirs", "counted"), [("another", "unknown key"), (None, "unsealed")])
def test_a_stranger_with_another_key_or_none_is_not_heard(theirs, counted):
    async def story():
        shared = settings(key=key())
        stranger = settings(address=shared.address, key=key() if theirs else None)
        async with joined(2, shared) as (a, b), joined(1, stranger) as (c,):
            heard, overheard = b.subscribe(">"), c.subscribe(">")
            c.publish("n", b"from a stranger")
            await publish_slowly(a, NUMBERS[:200])
            assert payloads(await collect(heard, 200)) == NUMBERS[:200]
            assert payloads(await collect(overheard, 1)) == [b"from a stranger"]
            assert c.stats()["received"] == 0
            assert set(c.members()) == {c.me}
            assert c.me not in a.members()
            assert b.stats()["dropped"][counted] > 0

    run(story())


def test_a_key_is_changed_without_losing_a_packet():
    old, new = key(), key()
    stages = [{"key": old}, {"key": old, "keys": (new,)}, {"key": new, "keys": (old,)}, {"key": new}]

    async def story():
        shared = settings()
        place = shared.address
        for before, after in itertools.pairwise(stages):  # a rotation mixes neighbours only
            async with AsyncExitStack() as stack:
                groups = [
                    await stack.enter_async_context(
                        Group(GROUP, settings(address=place, **keys), impaired(seed, loss=0.05))
                    )
                    for seed, keys in enumerate((before, after, before, after))
                ]
                await until(lambda groups=groups: all(len(group.members()) == 4 for group in groups))
                heard = [group.subscribe(">") for group in groups]
                await asyncio.gather(*(publish_slowly(group, NUMBERS[:200]) for group in groups))
                for subscription in heard:
                    events = await collect(subscription, 800)
                    for group in groups:
                        assert payloads([e for e in events if e.sender == group.me]) == NUMBERS[:200]
                assert all("unknown key" not in group.stats()["dropped"] for group in groups)

    run(story())


class Stranger(threading.Thread):
    """Hears the group's address, and sends back at high rate what it heard: as it was, changed, cut, and garbage."""

    def __init__(self, place: gossamer.Settings, replay_to: list[tuple[str, int]]) -> None:
        super().__init__(daemon=True)
        self._transport = UdpTransport(Endpoint.parse(place.address, place.interface))
        self._to = [*replay_to, (self._transport.endpoint.group, self._transport.endpoint.port)]
        self._rng = Random(1)
        self._over = threading.Event()
        self.captured: list[bytes] = []
        self.sent = 0
        self.answers: list[bytes] = []

    def run(self) -> None:
        while not self._over.wait(0.0005):
            for sock, heard in ((self._transport.multicast, self.captured), (self._transport.unicast, self.answers)):
                while select.select([sock], [], [], 0)[0]:
                    self._transport.read(sock, partial(self._keep, heard))
            del self.captured[:-2000]
            for _ in range(10):
                self._attack()

    def _keep(self, heard: list[bytes], datagrams: Datagrams, address: Address) -> None:
        if address != self._transport.address:
            heard.extend(map(bytes, datagrams))

    def _attack(self) -> None:
        rng = self._rng
        heard = rng.choice(self.captured) if self.captured else b"S\x03" + rng.randbytes(100)
        at = rng.randrange(len(heard))
        forged = bytearray(heard)
        forged[at] ^= 1 << rng.randrange(8)
        for datagram in (
            heard,
            bytes(forged),
            heard[:at],
            heard + rng.randbytes(60_000)[: 60_000 - len(heard)],
            rng.randbytes(rng.randrange(0, 2000)),
        ):
            self._transport.send_to([datagram], rng.choice(self._to))
            self.sent += 1

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self._over.set()
            self.join()
            self._transport.close()


def _dropped_many(group: gossamer.Group) -> bool:
    dropped = group.stats()["dropped"]
    return all(dropped.get(reason, 0) > 100 for reason in ("replayed", "forged", "unsealed"))


def test_a_stranger_that_replays_and_forges_changes_nothing_and_hears_nothing():
    async def story():
        shared = settings(key=key())
        async with joined(3, shared) as groups:
            heard = [group.subscribe(">") for group in groups[1:]]
            addresses = [group._member._transport.address for group in groups]
            stranger = Stranger(shared, addresses)
            with stranger.at_work():
                await publish_slowly(groups[0])
                await until(lambda: stranger.sent > 3000)
                await publish_slowly(groups[0])
                for subscription in heard:  # what a sponsor has not seen yet, the late one would be owed
                    assert payloads(await collect(subscription, 2 * len(NUMBERS))) == [*NUMBERS, *NUMBERS]
                async with Group(GROUP, shared) as late:  # one who has not heard yet what is replayed to it
                    await until(lambda: len(late.members()) == 4)
                    news = late.subscribe(">")
                    groups[1].publish("news", b"for all")
                    assert payloads(await collect(news, 1)) == [b"for all"]
                    assert late.stats()["received"] == 1
                for subscription in heard:
                    assert payloads(await collect(subscription, 1)) == [b"for all"]
                await until(lambda: len(stranger.captured) > 100)
                for group in groups[1:]:
                    await until(partial(_dropped_many, group))
            assert stranger.answers == []
            assert all(group.stats()["lost"] == {} for group in groups[1:])
            assert {len(group.members()) for group in groups} == {3}

    run(story())


def test_a_flood_of_well_formed_lies_does_not_stop_an_open_group():
    """Without a key everybody is believed; but nobody falls over, and the truth still arrives."""

    async def story():
        shared = settings()
        async with joined(2, shared) as (a, b):
            heard = b.subscribe("n")
            stranger = Stranger(shared, [b._member._transport.address])
            with stranger.at_work():
                await publish_slowly(a)
                assert payloads(await collect(heard, len(NUMBERS))) == NUMBERS
                await until(lambda: b.stats()["dropped"].get("malformed", 0) > 100)

    run(story())


def test_an_empty_datagram_harms_nobody():
    async def story():
        async with joined(2, settings(key=key())) as (a, b):
            heard = b.subscribe(">")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                for _ in range(10):
                    sock.sendto(b"", b._member._transport.address)
            a.publish("n", b"1")
            assert payloads(await collect(heard, 1)) == [b"1"]

    run(story())


def test_old_messages_replayed_to_a_newcomer_direct_no_traffic_to_the_stranger():
    """A newcomer cannot know what was said before it came; but whom it answers, the view says, not the datagram."""

    async def story():
        shared = settings(key=key())
        stranger = UdpTransport(Endpoint.parse(shared.address, shared.interface))
        captured: list[bytes] = []
        answers: list[bytes] = []
        async with joined(2, shared) as (a, b):
            a.publish("n", b"1")
            await a.flush()
            stranger.read(stranger.multicast, lambda datagrams, _: captured.extend(map(bytes, datagrams)))
            assert len(captured) > 3
            async with Group(GROUP, shared) as late:
                await until(lambda: len(late.members()) == 3)
                heard = late.subscribe(">")
                rounds = late.stats()["sent"]["gossip"]
                stranger.send_to(captured, late._member._transport.address)
                await until(lambda: late.stats()["sent"]["gossip"] > rounds + 20)
                b.publish("n", b"2")
                assert payloads(await collect(heard, 1)) == [b"2"]
                assert len(late.members()) == 3
            stranger.read(stranger.unicast, lambda datagrams, _: answers.extend(map(bytes, datagrams)))
            stranger.close()
            assert answers == []

    run(story())


class Recording:
    """Everything that is sent in a group, and a way to send it again."""

    def __init__(self, place: gossamer.Settings) -> None:
        self.transport = UdpTransport(Endpoint.parse(place.address, place.interface))
        self.heard: list[bytes] = []

    def listen(self) -> None:
        while select.select([self.transport.multicast], [], [], 0)[0]:
            self.transport.read(self.transport.multicast, lambda datagrams, _: self.heard.extend(map(bytes, datagrams)))

    def replay(self, to: tuple[str, int]) -> None:
        for datagram in self.heard:
            self.transport.send_to_group([datagram])
            self.transport.send_to([datagram], to)


def test_what_was_recorded_before_a_group_was_restarted_is_not_heard_after_it():
    async def story():
        shared = settings(key=key())
        recording = Recording(shared)
        async with joined(2, shared) as (a, b):
            heard = b.subscribe("n")
            await publish_slowly(a, NUMBERS[:100])
            assert payloads(await collect(heard, 100)) == NUMBERS[:100]
            recording.listen()
        recording.listen()
        assert len(recording.heard) > 20
        await asyncio.sleep(0.3)  # nobody restarts that soon
        async with joined(2, shared) as (a, b):
            heard = b.subscribe("n")
            for _ in range(3):
                recording.replay(b._member._transport.address)
                await asyncio.sleep(0.1)
            await until(lambda: b.stats()["dropped"].get("stale", 0) > len(recording.heard))
            a.publish("n", b"new")
            assert payloads(await collect(heard, 1)) == [b"new"]
            assert set(b.members()) == {a.me, b.me}
        recording.transport.close()

    run(story())
