"""A bad line does what it says, as often as it says, and the same again from the same seed."""

from __future__ import annotations

import asyncio
import socket
from itertools import pairwise
from random import Random

import pytest

from gossamer.core.schema import SettingError
from gossamer.live.impair import ImpairedTransport, Impairments
from gossamer.live.transport import Endpoint, UdpTransport

COUNT = 4000
SENT = [b"%06d" % n for n in range(COUNT)]


async def through(text: str, seed: int = 1, linger_s: float = 0.0) -> list[bytes]:
    """What is heard of SENT, from real sockets, through such a line."""
    line = ImpairedTransport(UdpTransport(Endpoint.parse("239.192.77.9:1", "127.0.0.1"), listen=False))
    line.impair(Impairments.parse(text), Random(seed))
    found: list[bytes] = []
    try:
        for at in range(0, COUNT, 100):
            line.send_to(SENT[at : at + 100], line.address)
            line.read(line.unicast, lambda datagrams, _: found.extend(map(bytes, datagrams)))
            await asyncio.sleep(0)
        await asyncio.sleep(linger_s)
    finally:
        line.close()
    return found


def heard(text: str, seed: int = 1, linger_s: float = 0.0) -> list[bytes]:
    return asyncio.run(through(text, seed, linger_s))


def test_a_good_line_changes_nothing():
    assert heard("") == SENT


def test_loss_takes_its_share_and_keeps_the_order():
    found = heard("loss=0.2")
    assert 0.75 * COUNT < len(found) < 0.85 * COUNT
    assert found == sorted(set(found))
    assert found == heard("loss=0.2")
    assert found != heard("loss=0.2", seed=2)
    assert heard("loss=1") == []


def test_bursts_take_neighbours():
    found = set(heard("burst=0.01:0.2"))
    lost = [n for n, datagram in enumerate(SENT) if datagram not in found]
    pairs = sum(b - a == 1 for a, b in pairwise(lost))
    assert 0.02 * COUNT < len(lost) < 0.1 * COUNT  # 0.01 / 0.21 of them
    assert pairs > 0.6 * len(lost)  # 0.8, where independent losses have 0.05


def test_duplicated_datagrams_arrive_twice():
    found = heard("duplicate=0.1")
    assert sorted(set(found)) == SENT
    assert 1.05 * COUNT < len(found) < 1.15 * COUNT


def test_reordered_datagrams_are_overtaken_but_arrive():
    found = heard("reorder=0.1", linger_s=0.05)
    assert found != SENT
    assert sorted(found) == SENT


def test_corrupted_datagrams_differ_in_one_bit():
    found = heard("corrupt=0.1")
    changed = [(a, b) for a, b in zip(SENT, found, strict=True) if a != b]
    assert 0.05 * COUNT < len(changed) < 0.15 * COUNT
    for a, b in changed:
        assert (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_count() == 1


def test_delayed_datagrams_arrive_unless_the_transport_is_closed_first():
    assert heard("delay=0.02", linger_s=0.2) == SENT
    assert heard("delay=5") == []


def test_a_partition_blocks_both_ways_and_heals():
    async def story() -> None:
        place = Endpoint.parse("239.192.77.9:7", "127.0.0.1")
        a, b = (ImpairedTransport(UdpTransport(place, listen=False)) for _ in range(2))
        found: list[bytes] = []

        def exchange(text: bytes) -> list[bytes]:
            found.clear()
            for source, target in ((a, b), (b, a)):
                source.send_to([text], target.address)
                target.read(target.unicast, lambda datagrams, _: found.extend(map(bytes, datagrams)))
            return list(found)

        assert exchange(b"before") == [b"before"] * 2
        a.partition({b.address})
        assert exchange(b"cut") == []
        a.partition(lambda address: address == ("192.0.2.1", 1))
        assert exchange(b"of another") == [b"of another"] * 2
        a.partition([b.address])
        a.heal()
        assert exchange(b"after") == [b"after"] * 2
        a.close()
        b.close()

    asyncio.run(story())


def test_an_impaired_transport_looks_like_what_it_wraps():
    inner = UdpTransport(Endpoint.parse("239.192.77.9:7", "127.0.0.1"), listen=False)
    line = ImpairedTransport(inner)
    names = ("endpoint", "multicast", "unicast", "address", "mtu", "datagram_bytes_max", "rcvbuf_bytes")
    assert all(getattr(line, name) is getattr(inner, name) for name in names)
    line.close()
    assert inner.unicast.fileno() == inner.multicast.fileno() == -1
    assert isinstance(line.unicast, socket.socket)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("loss=2", "loss = 2.0: must be at least 0 and at most 1"),
        ("lost=0.1", "unknown key lost; did you mean loss"),
        ("loss", "must look like"),
        ("loss=much", "must look like"),
        ("burst=0.1", "burst = 0.1: must be a list"),
        ("burst=0.1:0", "a burst never ends"),
        ("delay=-1", "at least 0"),
        ("loss=nan", "must be"),
    ],
)
def test_invalid_impairments_are_refused(text, says):
    with pytest.raises(SettingError, match=says):
        Impairments.parse(text)
    assert Impairments.parse(" loss=0.05, burst=0.01:0.3,") == Impairments(loss=0.05, burst=(0.01, 0.3))
