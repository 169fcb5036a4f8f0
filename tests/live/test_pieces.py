"""Messages that are too long for a datagram: cut, put together, and nothing else made of them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.messages import Data, Heartbeats, Piece, Repair, ViewUpdate
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.live import pieces
from gossamer.live.group import Group
from gossamer.live.impair import ImpairedTransport
from gossamer.live.pieces import Pieces, cut, holdings
from gossamer.wire import Header, WireError, encode
from gossamer.wire.codec import REPAIR_BYTES
from tests.live.members import GROUP, collect, payloads, run, settings

HERE, THERE = Header(7, 1), Header(7, 2)
LONG = Heartbeats({sender: sender for sender in range(500)}, answer=True)


def heard(assembler: Pieces, parts: list[Piece], header: Header = HERE) -> list:
    """What comes of these pieces."""
    return [message for piece in parts if (message := assembler.add(header, piece)) is not None]


@given(st.integers(1, 3000), st.integers(), st.integers(0, 3))
def test_a_message_is_whole_again_in_whatever_order_its_pieces_arrive(room, seed, repeated):
    parts = cut(HERE, LONG, room)
    assert max(len(piece.content) for piece in parts) <= room
    early = parts[1 : 1 + repeated]  # some come twice
    shuffled = parts[1:]
    Random(seed).shuffle(shuffled)
    assert heard(Pieces(), [*early, *shuffled, parts[0]]) == [LONG]


@pytest.mark.parametrize("senders", [0, 1, 5_000])
def test_what_a_log_holds_is_told_in_parts_that_fit_a_datagram(senders):
    """Even if all numbers are as long as they can be."""
    held = {2**63 - 1 - n: RangeSet([(2**60 + n, 2**61), (2**62 + n, 2**63 - 1)]) for n in range(senders)}
    unused = {2**62 + n: RangeSet([(2**60 + n, 2**61)]) for n in range(senders)}
    parts = holdings(held, unused, 2**62, 1_400)
    assert [(told.part, told.parts) for told in parts] == [(n, len(parts)) for n in range(len(parts))]
    assert all(len(encode(HERE, told)) <= 1_400 + REPAIR_BYTES for told in parts)
    together: dict[int, RangeSet] = {}
    for told in parts:
        for sender, numbers in told.numbers.items():
            together.setdefault(sender, RangeSet()).update(numbers)
    assert together == held
    assert all(told.never_sent.items() <= unused.items() for told in parts)
    assert bool(parts[0].never_sent) == bool(senders)


def test_messages_and_sources_do_not_mix():
    one, two = cut(HERE, LONG, 100), cut(HERE, ViewUpdate([], seen={1: 2}), 5)
    other = cut(THERE, LONG, 100)
    assembler = Pieces()
    assert heard(assembler, one[:-1]) == heard(assembler, two[:-1]) == heard(assembler, other[:-1], THERE) == []
    assert heard(assembler, [*one[-1:], *two[-1:]]) == [LONG, ViewUpdate([], seen={1: 2})]
    assert heard(assembler, other[-1:], THERE) == [LONG]


@pytest.mark.parametrize(
    "message", [Data(Packet(1, 0, b"x")), Repair(Packet(1, 0, b"x"), "peer"), Piece(1, 0, 1, encode(HERE, LONG))]
)
def test_messages_that_have_their_own_way_to_be_large_are_refused(message):
    with pytest.raises(WireError):
        heard(Pieces(), cut(HERE, message, 20))


def test_nobody_speaks_for_another():
    with pytest.raises(WireError):
        heard(Pieces(), cut(THERE, LONG, 100), HERE)


@pytest.mark.parametrize(("index", "count"), [(0, 0), (1, 1), (2, 1), (0, 1 << 40)])
def test_impossible_pieces_are_refused(index, count):
    with pytest.raises(WireError):
        Pieces().add(HERE, Piece(1, index, count, b"content"))


def test_messages_that_never_become_whole_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(pieces, "WAITING_BYTES_MAX", 100_000)
    assembler = Pieces()
    for n in range(10_000):
        assembler.add(HERE, Piece(n, 0, 2, bytes(n % 50)))
    assert len(assembler._unfinished) <= 100_000 // pieces._OVERHEAD_BYTES
    assert heard(assembler, cut(HERE, LONG, 100)) == [LONG]


def narrow(endpoint) -> ImpairedTransport:
    """As on a network with an MTU of 1500."""
    transport = ImpairedTransport(endpoint)
    transport.datagram_bytes_max = 1472
    return transport


@pytest.mark.parametrize("key", [None, "0123456789abcdef" * 4])
@pytest.mark.parametrize("line", [ImpairedTransport, narrow])
def test_a_group_in_which_thousands_have_published_can_still_be_joined(line, key):
    async def story():
        shared, rng = settings(key=key), Random(1)
        past = {rng.getrandbits(55): 5 for _ in range(10_000)}
        async with Group(GROUP, shared, line) as first:
            first._member.stack.begin(past)
            async with Group(GROUP, shared, line) as second:
                assert past.items() <= {s: x.next - 1 for s, x in second._member.stack.streams.items()}.items()
                for publisher, subscriber in ((first, second), (second, first)):
                    subscription = subscriber.subscribe(">")
                    publisher.publish("n", b"1")
                    assert payloads(await collect(subscription, 1)) == [b"1"]

    run(story())
