"""Sealed datagrams open for who has the key, once, and for nobody else; a key changes without losing one."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from contextlib import suppress
from random import Random

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.messages import Ack, Data, Heartbeat, Repair
from gossamer.core.packets import Packet
from gossamer.wire import Header, WireError, decode, encode
from gossamer.wire.codec import checksummed, decode_intact
from gossamer.wire.replay import ReplayWindow
from gossamer.wire.sealing import (
    SEAL_BYTES,
    KeyRing,
    Opener,
    Sealer,
    SealError,
    is_repair,
    key_id,
    new_key,
    parse_key,
)

OLD, NEW, OTHER = (Random(n).randbytes(32) for n in (1, 2, 3))
SALT = Random(4).randbytes(8)
DATAGRAM = encode(Header(7, 1), Data(Packet(1, 5, b"forty-two")))


class Clock:
    """Says what it is told to."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def pair(window=65_536, **settings):
    """A sealer, and the opener of somebody else with the same key."""
    return Sealer(KeyRing([OLD]), SALT), Opener(KeyRing([OLD]), window=window, **settings)


def refusal(opener, datagram, **options):
    """Why it is refused."""
    with pytest.raises(SealError) as caught:
        opener.open(datagram, **options)
    return caught.value.reason


# Sealing and opening


@given(st.binary(max_size=200))
def test_a_sealed_datagram_comes_back(body):
    sealer, opener = pair()
    datagram = encode(Header(7, 1), Data(Packet(1, 5, body)))

    sealed = sealer.seal(datagram)

    assert opener.open(sealed) == datagram
    assert len(sealed) == len(datagram) + SEAL_BYTES
    assert SEAL_BYTES == 32


@pytest.mark.parametrize("length", [0, 1, 4000, 4100, 65_000])
@pytest.mark.parametrize("head", [DATAGRAM[:24], encode(Header(7, 1), Heartbeat(3))[:16]])
def test_every_length_comes_back(head, length):
    sealer, opener = pair()
    datagram = checksummed(head + bytes(length))

    assert opener.open(sealer.seal(datagram)) == datagram
    assert opener.open(bytearray(sealer.seal(datagram))) == datagram


def test_many_datagrams_are_sealed_and_opened_at_once_each_in_its_place():
    sealer, opener = pair()
    datagrams = [encode(Header(7, 1), Heartbeat(n)) for n in range(50)]

    sealed = sealer.seal_many(datagrams)
    sealed[3] = sealed[2]

    assert opener.open_many(sealed) == [*datagrams[:3], None, *datagrams[4:]]
    assert opener.refused == {"replayed": 1}


def test_nothing_of_the_message_can_be_read():
    sealer, _ = pair()

    assert b"forty-two" not in sealer.seal(DATAGRAM)


def test_the_same_datagram_is_never_sealed_to_the_same_bytes():
    sealer, _ = pair()

    assert len(set(sealer.seal_many([DATAGRAM] * 100))) == 100


def test_a_member_without_a_key_does_not_take_sealed_bytes_for_a_datagram():
    sealer, _ = pair()
    with pytest.raises(WireError):
        decode(sealer.seal(DATAGRAM))


def test_the_bytes_are_what_the_page_says():
    """Opened by hand with the library's own HKDF and AES-GCM."""
    counter = (5 << 32) + 9
    sealed = Sealer(KeyRing([OLD]), SALT, counter=counter).seal(DATAGRAM)
    info = b"gossamer traffic key 1" + DATAGRAM[8:16] + SALT + (5).to_bytes(4, "big")

    key = HKDF(SHA256(), 32, b"gossamer sealing 1", info).derive(OLD)

    assert sealed[:20] == b"S\x03" + DATAGRAM[2:16] + key_id(OLD).to_bytes(4, "big")
    assert sealed[20:44] == SALT + counter.to_bytes(8, "big") + DATAGRAM[16:24]
    assert AESGCM(key).decrypt(SALT[4:] + counter.to_bytes(8, "big"), sealed[44:], sealed[:44]) == DATAGRAM[24:-4]


def test_wire_does_not_need_cryptography():
    code = "import sys, gossamer.wire, gossamer.wire.events, gossamer.wire.fragments, gossamer.wire.keys as k; "
    code += "assert not any(name.startswith('cryptography') for name in sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True)


# What is refused


def test_every_flipped_bit_is_refused_and_the_original_is_not():
    sealer, opener = pair()
    sealed = sealer.seal(DATAGRAM)

    for bit in range(8 * len(sealed)):
        forged = bytearray(sealed)
        forged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SealError):
            opener.open(bytes(forged))

    assert opener.incarnations == 0
    assert opener.open(sealed) == DATAGRAM


def test_every_flipped_bit_is_refused_from_a_sealer_that_is_known_too():
    sealer, opener = pair()
    opener.open(sealer.seal(DATAGRAM))
    sealed = sealer.seal(DATAGRAM)

    for bit in range(8 * len(sealed)):
        forged = bytearray(sealed)
        forged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SealError):
            opener.open(bytes(forged))

    assert opener.open(sealed) == DATAGRAM


@pytest.mark.parametrize("at", range(16))
def test_the_header_cannot_be_changed(at):
    sealer, opener = pair()
    sealed = bytearray(sealer.seal(DATAGRAM))
    sealed[at] ^= 0x04

    reason = refusal(opener, bytes(sealed))

    assert reason == {0: "unsealed", 1: "version"}.get(at, "forged")


def test_every_shortened_and_a_lengthened_datagram_is_refused():
    sealer, opener = pair()
    sealed = sealer.seal(DATAGRAM)

    for length in range(len(sealed)):
        with pytest.raises(SealError):
            opener.open(sealed[:length])
    assert refusal(opener, sealed[:59]) == "short"
    assert refusal(opener, sealed + b"\x00") == "forged"


def test_a_member_with_another_key_opens_nothing():
    sealer, _ = pair()
    opener = Opener(KeyRing([OTHER]))

    assert refusal(opener, sealer.seal(DATAGRAM)) == "unknown key"
    assert opener.refused == {"unknown key": 1}


def test_another_key_under_the_same_id_opens_nothing():
    sealer = Sealer(KeyRing([OTHER]), SALT)
    _, opener = pair()
    sealed = sealer.seal(DATAGRAM)

    assert refusal(opener, sealed[:16] + key_id(OLD).to_bytes(4, "big") + sealed[20:]) == "forged"


def test_an_unsealed_datagram_is_refused():
    _, opener = pair()

    assert refusal(opener, DATAGRAM) == "unsealed"


@given(st.binary(max_size=100), st.booleans())
def test_any_bytes_open_or_raise_wire_error(data, check):
    _, opener = pair()
    key = key_id(OLD).to_bytes(4, "big")
    for datagram in (
        data,
        *(begins + more for begins in (b"S\x02", b"S\x03") for more in (data, bytes(14) + key + data)),
    ):
        with suppress(WireError):
            opener.open(datagram, check)
        with suppress(WireError):
            opener.open_repair(datagram)


def test_only_datagrams_are_sealed():
    sealer, _ = pair()
    for no_datagram in (b"", b"G", DATAGRAM[:15], DATAGRAM[:27], sealer.seal(DATAGRAM)):
        with pytest.raises(SealError):
            sealer.seal(no_datagram)


# Replays


def test_a_replay_is_refused():
    sealer, opener = pair()
    sealed = sealer.seal(DATAGRAM)
    opener.open(sealed)

    assert refusal(opener, sealed) == "replayed"


def test_all_kinds_of_datagrams_share_one_counter():
    sealer, opener = pair()
    kinds = [DATAGRAM, encode(Header(7, 1), Ack({})), encode(Header(7, 1), Heartbeat(3))]

    sealed = sealer.seal_many(kinds)

    assert [s[28:36] for s in sealed] == [n.to_bytes(8, "big") for n in range(3)]
    assert opener.open_many(sealed) == kinds


def test_any_order_within_the_window_loses_nothing_and_takes_nothing_twice():
    sealer, opener = pair(window=1024)
    sealed = sealer.seal_many([DATAGRAM] * 1000)
    Random(1).shuffle(sealed)

    assert opener.open_many(sealed) == [DATAGRAM] * 1000
    assert opener.open_many(sealed) == [None] * 1000
    assert opener.refused == {"replayed": 1000}


def test_a_datagram_older_than_the_window_is_refused_though_never_seen():
    sealer, opener = pair(window=64)
    sealed = sealer.seal_many([DATAGRAM] * 200)
    opener.open(sealed[199])

    assert refusal(opener, sealed[100]) == "too old"
    assert opener.open(sealed[150]) == DATAGRAM


def test_a_forgery_does_not_move_the_window():
    sealer, opener = pair(window=64)
    first, second = sealer.seal(DATAGRAM), sealer.seal(DATAGRAM)
    opener.open(second)

    assert refusal(opener, second[:28] + b"\x00\x00\x00\x00\xff\xff\xff\xff" + second[36:]) == "forged"
    assert opener.open(first) == DATAGRAM


@pytest.mark.parametrize("base", [0, 5, 2**32 - 100, 2**63])
@pytest.mark.parametrize("reach", [1, 3, 40, 200])
def test_the_window_is_a_set_of_counters(base, reach):
    window, seen, highest, random = ReplayWindow(64), set(), base, Random(reach)
    for _ in range(5000):
        counter = max(0, highest + random.randint(-90, reach))
        expected = "replayed" if counter in seen else None
        if seen and counter >> 3 <= (highest >> 3) - 8:
            expected = "too old"

        assert window.refuses(counter) == expected

        if expected is None:
            window.mark(counter)
            seen.add(counter)
            highest = max(seen) if len(seen) == 1 else max(highest, counter)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 30)), max_size=20))
def test_many_counters_are_marked_as_if_one_by_one(runs):
    at_once, one_by_one, at = ReplayWindow(64), ReplayWindow(64), 1000
    for skipped, count in runs:
        at += skipped
        at_once.mark_all(at, at + count)
        for counter in range(at, at + count):
            one_by_one.mark(counter)
        at += count

    assert at_once.following == one_by_one.following
    for counter in range(900, at + 20):
        assert at_once.refuses(counter) == one_by_one.refuses(counter)


@pytest.mark.parametrize("size", [0, 63, 100, -64])
def test_a_window_is_a_power_of_two(size):
    with pytest.raises(ValueError, match="power of two"):
        Opener(KeyRing([OLD]), window=size)


# Counters


def test_the_counter_never_wraps():
    sealer = Sealer(KeyRing([OLD]), SALT, counter=2**64 - 3)
    opener = Opener(KeyRing([OLD]), clock=lambda: 1_577_836_800 + (2**32 - 1) / 4)
    assert opener.open_many([sealer.seal(DATAGRAM), sealer.seal(DATAGRAM)]) == [DATAGRAM] * 2

    for _ in range(3):
        with pytest.raises(SealError, match="begin a new one"):
            sealer.seal(DATAGRAM)


def test_the_traffic_key_changes_with_the_upper_half_of_the_counter():
    sealer = Sealer(KeyRing([OLD]), SALT, counter=2**32 - 5)
    opener = Opener(KeyRing([OLD]))
    sealed = sealer.seal_many([DATAGRAM] * 10)
    sealed.reverse()

    assert opener.open_many(sealed) == [DATAGRAM] * 10
    assert opener.open_many(sealed) == [None] * 10


def test_a_burst_that_does_not_fit_under_one_key_begins_with_the_next():
    sealer, opener = Sealer(KeyRing([OLD]), SALT, counter=2**32 - 5), Opener(KeyRing([OLD]))
    run = [Packet(1, n, b"body") for n in range(10)]

    sealed = sealer.seal_packets(7, run)

    assert [int.from_bytes(datagram[28:36], "big") for datagram in sealed] == list(range(2**32, 2**32 + 10))
    assert opener.open_many(sealed) == [encode(Header(7, 1), Data(p)) for p in run]


def test_what_is_sealed_in_the_place_of_another_has_a_key_of_its_own():
    ring = KeyRing([OLD])
    origin, other = Sealer(ring, SALT), Sealer(ring, b"o" * 8)
    packet = Packet(1, 5, b"body")

    (mine,), (recovered,) = origin.seal_packets(7, [packet]), other.seal_packets(7, [packet])

    assert mine[44:] != recovered[44:]
    assert Opener(ring).open_many([mine, recovered]) == [encode(Header(7, 1), Data(packet))] * 2


def test_two_incarnations_never_share_a_key():
    a, b = Sealer(KeyRing([OLD]), SALT), Sealer(KeyRing([OLD]), bytes(8))
    mine, other = a.seal(DATAGRAM), b.seal(DATAGRAM)

    assert mine[44:] != other[44:]
    assert refusal(Opener(KeyRing([OLD])), mine[:20] + other[20:28] + mine[28:]) == "forged"


# Keys


def test_a_key_changes_without_losing_a_packet():
    """Three members, each change reaching them at different times, everybody sending at every moment."""
    rings = [KeyRing([OLD]) for _ in range(3)]
    sealers = [Sealer(ring, bytes([n]) * 8) for n, ring in enumerate(rings)]
    openers = [Opener(ring) for ring in rings]
    late = []

    def everybody_hears_everybody():
        sealed = [sealer.seal(DATAGRAM) for sealer in sealers]
        late.append(sealers[0].seal(DATAGRAM))
        for opener in openers:
            assert opener.open_many(sealed) == [DATAGRAM] * 3

    for change in (
        lambda ring: ring.install(NEW),
        lambda ring: ring.use(key_id(NEW)),
    ):
        for ring in rings:
            everybody_hears_everybody()
            change(ring)
    everybody_hears_everybody()
    assert openers[1].open_many(late) == [DATAGRAM] * len(late)
    for ring in rings:
        ring.remove(key_id(OLD))
        everybody_hears_everybody()

    assert [refusal(openers[2], sealed) for sealed in late[:3]] == ["unknown key"] * 3


def test_a_replay_is_refused_under_whatever_key():
    ring = KeyRing([OLD, NEW])
    sealer, opener = Sealer(ring, SALT), Opener(ring)
    sealed = [sealer.seal(DATAGRAM)]
    ring.use(key_id(NEW))
    sealed.append(sealer.seal(DATAGRAM))
    ring.use(key_id(OLD))
    sealed.append(sealer.seal(DATAGRAM))

    assert opener.open_many(sealed) == [DATAGRAM] * 3
    assert opener.open_many(sealed) == [None] * 3
    assert opener.incarnations == 1


def test_a_removed_key_opens_nothing_even_of_a_sealer_that_is_known():
    sealer = Sealer(KeyRing([OLD]), SALT)
    ring = KeyRing([NEW, OLD])
    opener = Opener(ring)
    opener.open(sealer.seal(DATAGRAM))

    ring.remove(key_id(OLD))

    assert refusal(opener, sealer.seal(DATAGRAM)) == "unknown key"


def test_a_ring_refuses_what_makes_no_sense():
    ring = KeyRing([OLD])
    with pytest.raises(ValueError, match="is in use"):
        ring.remove(key_id(OLD))
    with pytest.raises(ValueError, match="not installed"):
        ring.use(key_id(NEW))
    with pytest.raises(ValueError, match="32 bytes"):
        ring.install(b"short")
    with pytest.raises(ValueError, match="not random"):
        ring.install(bytes(32))
    with pytest.raises(ValueError, match="install a key first"):
        Sealer(KeyRing(), SALT).seal(DATAGRAM)
    for n in range(15):
        ring.install(Random(n + 100).randbytes(32))
    with pytest.raises(ValueError, match="remove one first"):
        ring.install(NEW)
    assert ring.install(OLD) == ring.using == key_id(OLD)


def test_a_ring_does_not_show_its_keys():
    ring = KeyRing([OLD])

    assert repr(ring) == f"KeyRing({key_id(OLD):08x})"
    assert not any(OLD in value for value in vars(ring)["_secrets"].values())


@given(st.binary(min_size=32, max_size=32).filter(lambda key: len(set(key)) >= 8))
def test_a_key_is_parsed_from_its_string(key):
    text = new_key(key)

    assert parse_key(text) == parse_key(f"  {text}\n") == parse_key(key.hex()) == parse_key(text.rstrip("=")) == key
    assert parse_key(text.replace("+", "-").replace("/", "_")) == key


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty: make one"),
        (" \n", "empty"),
        ("hello world!", "neither base64 nor hexadecimal"),
        ("zz" * 32, "neither base64 nor hexadecimal"),
        ("c2hvcnQ=", "32 bytes, this one has 5"),
        ("00" * 32, "not random"),
        ("schlüssel", "neither"),
    ],
)
def test_a_bad_key_is_refused_with_a_reason_that_does_not_show_it(text, says):
    with pytest.raises(ValueError, match=says) as caught:
        parse_key(text)
    assert not text.strip() or text.strip() not in str(caught.value)


def test_a_salt_has_8_bytes():
    with pytest.raises(ValueError, match="8 bytes"):
        Sealer(KeyRing([OLD]), b"short")


# State


def test_a_flood_of_forged_sources_takes_no_memory():
    sealer, opener = pair()
    honest, random = sealer.seal(DATAGRAM), Random(1)
    opener.open(honest)
    tracemalloc.start()
    for _ in range(5000):
        forged = honest[:8] + random.randbytes(8) + honest[16:20] + random.randbytes(45)
        assert opener.open_many([forged]) == [None]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 50_000
    assert opener.incarnations == 1
    assert opener.refused == {"forged": 5000}
    assert opener.knows(honest)
    assert not opener.knows(forged)


def test_of_too_many_incarnations_the_longest_silent_is_forgotten():
    ring, clock = KeyRing([OLD]), Clock()
    opener = Opener(ring, window=64, incarnations_max=10, clock=clock)
    busy, idle = Sealer(ring, bytes(8), clock=clock), Sealer(ring, b"i" * 8, clock=clock)
    old = idle.seal(DATAGRAM)
    opener.open(old)

    for n in range(30):
        clock.now += 0.25
        opener.open(busy.seal(DATAGRAM))
        opener.open(Sealer(ring, bytes([n + 1]) * 8, clock=clock).seal(DATAGRAM))

    assert opener.incarnations == 10
    assert opener.forgotten == 32 - 10
    assert opener.knows(busy.seal(DATAGRAM))
    assert refusal(opener, old) == "stale"  # what is forgotten cannot be replayed


def test_what_was_recorded_before_a_receiver_started_is_stale_and_what_is_alive_is_heard():
    ring, clock = KeyRing([OLD]), Clock()
    sealer = Sealer(ring, SALT, clock=clock)
    recorded = sealer.seal_many([DATAGRAM] * 3)
    clock.now += 1.0
    opener = Opener(ring, clock=clock)
    assert opener.open_many(recorded) == [None] * 3
    assert opener.refused == {"stale": 3}
    assert opener.incarnations == 0
    assert opener.open(sealer.seal(DATAGRAM)) == DATAGRAM
    assert opener.open_many(recorded) == [DATAGRAM] * 3  # late, from one that is known to be alive
    assert opener.open_many(recorded) == [None] * 3


def test_a_repair_may_hold_what_was_sealed_long_ago():
    ring, clock = KeyRing([OLD]), Clock()
    old = Sealer(ring, SALT).seal(DATAGRAM)  # by a version without clocks
    older = Sealer(ring, SALT, clock=clock).seal(DATAGRAM)
    clock.now += 7 * 86_400
    opener, repairer = Opener(ring, clock=clock), Sealer(ring, b"r" * 8, clock=clock)
    for sealed in (old, older):
        assert opener.open_repair(opener.open_content(sealed_repair(repairer, sealed)))[2] == sealed
        assert refusal(opener, sealed) == "stale"


@pytest.mark.parametrize(("apart_s", "heard"), [(-90.0, False), (-30.0, True), (30.0, True), (90.0, False)])
def test_clocks_may_differ_by_a_minute(apart_s, heard):
    ring, ours = KeyRing([OLD]), Clock()
    opener = Opener(ring, clock=ours)
    ours.now += 40.0
    sealed = Sealer(ring, SALT, clock=Clock(ours.now + apart_s)).seal(DATAGRAM)
    assert opener.open_many([sealed]) == [DATAGRAM if heard else None]


class Host:
    """One member's sealer and opener, with the clock that they share."""

    def __init__(self, salt: bytes, clock: Clock) -> None:
        self.clock, ring = clock, KeyRing([OLD])
        self.opener = Opener(ring, clock=clock)
        self.sealer = Sealer(ring, salt, clock=clock, is_agreed=self.opener.liveness.is_agreed)

    def hears(self, other: Host) -> bool:
        sealed = other.sealer.seal(DATAGRAM)
        return self.opener.open_many([sealed]) == [DATAGRAM]


@pytest.mark.parametrize("ahead_s", [90.0, 7200.0, 864_000.0])
def test_a_sealer_whose_clock_was_ahead_and_is_set_right_is_heard_by_newcomers(ahead_s):
    clocks = [Clock(), Clock()]
    jumped, other = Host(SALT, clocks[0]), Host(b"o" * 8, clocks[1])
    assert other.hears(jumped)
    clocks[0].now += ahead_s
    assert other.hears(jumped)
    clocks[0].now -= ahead_s - 1.0
    clocks[1].now += 1.0
    assert jumped.hears(other)
    newcomer = Host(b"n" * 8, clocks[1])
    assert newcomer.hears(jumped)
    assert other.hears(jumped)
    assert len({jumped.sealer.seal(DATAGRAM)[24:36] for _ in range(100)}) == 100


def test_a_sealer_whose_clock_alone_is_set_back_goes_on_as_it_was():
    clocks = [Clock(), Clock()]
    jumped, other = Host(SALT, clocks[0]), Host(b"o" * 8, clocks[1])
    for _ in range(20):
        assert other.hears(jumped)
        assert jumped.hears(other)
        clocks[0].now -= 100.0
        clocks[1].now += 1.0


def test_a_receiver_that_started_while_its_clock_was_ahead_hears_newcomers_once_it_is_right():
    ring, ours, theirs = KeyRing([OLD]), Clock(), Clock()
    ours.now += 7200.0
    opener = Opener(ring, clock=ours)
    recorded = Sealer(ring, SALT, clock=theirs).seal(DATAGRAM)
    ours.now -= 7200.0
    assert opener.open_many([recorded]) == [None]
    theirs.now += 0.25
    ours.now += 0.25
    assert opener.open_many([recorded]) == [None], "it was sealed before the clock was set"
    assert opener.open(Sealer(ring, b"n" * 8, clock=theirs).seal(DATAGRAM)) == DATAGRAM


def test_more_recorded_incarnations_than_are_remembered_are_not_accepted_in_rotation():
    ring, clock = KeyRing([OLD]), Clock()
    opener = Opener(ring, window=64, incarnations_max=8, clock=clock)
    recorded = [Sealer(ring, bytes([n]) * 8, clock=clock).seal(DATAGRAM) for n in range(9)]
    assert opener.open_many(recorded) == [DATAGRAM] * 9  # they are alive
    for _ in range(3):
        assert opener.open_many(recorded) == [None] * 9
    clock.now += 1.0
    assert opener.open(Sealer(ring, bytes(8), clock=clock).seal(DATAGRAM)) == DATAGRAM  # forgotten, but alive


def test_packets_that_change_places_when_the_clock_ticks_are_all_opened_once():
    ring, clock, random = KeyRing([OLD]), Clock(), Random(1)
    sealer, opener = Sealer(ring, SALT, clock=clock), Opener(ring, clock=clock)
    sealed = []
    for _ in range(200):
        clock.now += 0.05
        sealed.append(sealer.seal(DATAGRAM))
    late = sealed[50:]
    random.shuffle(late)
    assert opener.open_many(sealed[:50] + late) == [DATAGRAM] * 200
    assert opener.open_many(sealed) == [None] * 200


# Runs


def slowly(opener):
    """Opens one by one what does not take the short path, as an envelope does."""

    def open_one(sealed):
        try:
            header, message = decode_intact(opener.open_content(sealed))
        except WireError:
            return None
        if isinstance(message, Data) and header.group == 7:
            message.packet.sealed = sealed
            return message.packet
        return header, message

    return open_one


def flat(found):
    return [item for part in found for item in (part if isinstance(part, list) else [part])]


@given(st.data())
def test_runs_are_opened_as_if_one_by_one(data):
    """Packets, messages, strangers, another group, losses, repetitions, forgeries, in any order; the clock ticks."""
    ring, clock, random = KeyRing([OLD]), Clock(), Random(data.draw(st.integers(0, 1 << 30)))
    sealers = {source: Sealer(ring, bytes([source]) * 8, clock=clock) for source in (1, 2)}
    numbers = {1: 0, 2: 0}
    sent = []
    for kind in data.draw(st.lists(st.sampled_from("aaaaaabmgft"), max_size=40)):
        source = 2 if kind == "b" else 1
        clock.now += 0.3 if kind == "t" else 0.0
        if kind == "m":
            sent.append(sealers[source].seal(encode(Header(7, source), Heartbeat(3))))
            continue
        packet = Packet(source, numbers[source], random.randbytes(random.choice([0, 30, 5000])))
        numbers[source] += 1
        (sealed,) = sealers[source].seal_packets(8 if kind == "g" else 7, [packet])
        sent.append(sealed[:-1] + bytes([sealed[-1] ^ 1]) if kind == "f" else sealed)
    moved = data.draw(st.lists(st.integers(0, max(0, len(sent) - 1)), max_size=6)) if sent else []
    arriving = [*sent, *(sent[at] for at in moved)]
    for at in moved:
        arriving[at], arriving[0] = arriving[0], arriving[at]
    cut = data.draw(st.integers(0, len(arriving)))

    quick, slow = Opener(ring, clock=clock), Opener(ring, clock=clock)
    quick._alive_since = slow._alive_since = 0
    found = [run for part in (arriving[:cut], arriving[cut:]) for run in quick.open_runs(part, 7, slowly(quick))]

    assert flat(found) == [item for item in map(slowly(slow), arriving) if item is not None]
    assert quick.refused == slow.refused
    for run in (part for part in found if isinstance(part, list)):
        assert [(p.sender, p.seqno) for p in run] == [(run[0].sender, run[0].seqno + n) for n in range(len(run))]


def test_packets_of_one_sender_that_follow_on_are_one_run():
    sealer, opener = pair()
    sealed = sealer.seal_packets(7, [Packet(1, n, b"x") for n in range(50)])

    assert opener.open_runs(sealed, 7, slowly(opener)) == [[Packet(1, n, b"x", d) for n, d in enumerate(sealed)]]


def test_a_number_beyond_63_bits_is_not_taken_for_a_packet():
    sealer, opener = pair()
    bad = checksummed(DATAGRAM[:16] + b"\xff" * 8 + b"body")
    sealed = sealer.seal_many([DATAGRAM, bad, DATAGRAM])

    assert len(flat(opener.open_runs(sealed, 7, slowly(opener)))) == 2


def test_a_removed_key_opens_no_run():
    ring = KeyRing([NEW, OLD])
    sealer, opener = Sealer(KeyRing([OLD]), SALT), Opener(ring)
    sealed = sealer.seal_many([DATAGRAM] * 4)
    assert len(flat(opener.open_runs(sealed[:2], 7, slowly(opener)))) == 2

    ring.remove(key_id(OLD))

    assert opener.open_runs(sealed[2:], 7, slowly(opener)) == []
    assert opener.refused == {"unknown key": 2}


# Logs of version 2


def sealed_by_version_2(datagram, incarnation=bytes(range(16)), counter=(5 << 32) + 9):
    """As it was: the incarnation in full, and everything after the header encrypted, number and checksum, too."""
    head = b"S\x02" + datagram[2:16] + key_id(OLD).to_bytes(4, "big") + incarnation + counter.to_bytes(8, "big")
    info = b"gossamer traffic key 1" + incarnation + (counter >> 32).to_bytes(4, "big")
    key = HKDF(SHA256(), 32, b"gossamer sealing 1", info).derive(OLD)
    return head + AESGCM(key).encrypt(bytes(4) + counter.to_bytes(8, "big"), datagram[16:], head)


def test_what_version_2_sealed_is_read_from_a_log_and_in_a_repair_but_not_heard():
    ring = KeyRing([OLD])
    opener, repairer = Opener(ring), Sealer(ring, b"r" * 8)
    sealed = sealed_by_version_2(DATAGRAM)

    assert opener.open(sealed, replay_check=False) == DATAGRAM
    _, repair, inner = opener.open_repair(opener.open_content(sealed_repair(repairer, sealed)))
    assert (repair.packet, inner) == (Packet(1, 5, b"forty-two"), sealed)
    assert refusal(opener, sealed) == "version"
    for at in range(2, len(sealed)):
        forged = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        assert refusal(opener, forged, replay_check=False) in ("forged", "unknown key")
    assert refusal(opener, sealed[:59], replay_check=False) == "version"


# Repairs


def sealed_repair(repairer, origin):
    """A peer passes on what the origin sealed."""
    return repairer.seal_repair(Header(7, 2), "peer", origin)


def test_a_repair_carries_the_origins_sealed_datagram_verbatim():
    ring = KeyRing([OLD])
    origin, repairer, opener = Sealer(ring, SALT), Sealer(ring, b"r" * 8), Opener(ring)
    sealed = origin.seal(DATAGRAM)

    opened = opener.open_content(sealed_repair(repairer, sealed))

    assert is_repair(opened)
    assert not is_repair(DATAGRAM)
    assert opener.open_repair(opened) == (Header(7, 2), Repair(Packet(1, 5, b"forty-two"), "peer"), sealed)


def test_a_packet_can_be_repaired_any_number_of_times_but_no_repair_replayed():
    ring = KeyRing([OLD])
    origin, repairer, opener = Sealer(ring, SALT), Sealer(ring, b"r" * 8), Opener(ring, window=64)
    sealed = origin.seal(DATAGRAM)
    opener.open(sealed)
    opener.open_many(origin.seal_many([DATAGRAM] * 1000))  # far beyond the window

    repairs = [sealed_repair(repairer, sealed) for _ in range(2)]
    for repair in repairs:
        assert opener.open_repair(opener.open_content(repair))[2] == sealed

    assert refusal(opener, repairs[0]) == "replayed"


def test_after_a_repair_the_first_pass_is_still_welcome():
    """The protocol knows the packet by its number; the window must not take the one for a replay of the other."""
    ring = KeyRing([OLD])
    origin, repairer, opener = Sealer(ring, SALT), Sealer(ring, b"r" * 8), Opener(ring)
    sealed = origin.seal(DATAGRAM)

    opener.open_repair(opener.open_content(sealed_repair(repairer, sealed)))

    assert opener.open(sealed) == DATAGRAM
    assert opener.incarnations == 2


def test_what_a_repair_holds_must_be_authentic():
    ring = KeyRing([OLD])
    repairer, opener = Sealer(ring, b"r" * 8), Opener(ring)
    forged = bytearray(Sealer(ring, SALT).seal(DATAGRAM))
    forged[-1] ^= 1

    for origin, reason in ((bytes(forged), "forged"), (DATAGRAM, "unsealed")):
        opened = opener.open_content(sealed_repair(repairer, origin))
        with pytest.raises(SealError) as caught:
            opener.open_repair(opened)
        assert caught.value.reason == reason
    with pytest.raises(WireError, match="not a repair"):
        opener.open_repair(DATAGRAM)


@pytest.mark.parametrize(
    "datagram", [encode(Header(7, 1), Heartbeat(3)), encode(Header(8, 1), Data(Packet(1, 5, b"")))]
)
def test_a_repair_holds_data_of_its_group_and_nothing_else(datagram):
    ring = KeyRing([OLD])
    opener = Opener(ring)
    sealed = Sealer(ring, SALT).seal(datagram)

    with pytest.raises(WireError):
        opener.open_repair(opener.open_content(sealed_repair(Sealer(ring, b"r" * 8), sealed)))


def test_repairs_of_members_long_gone_do_not_push_out_the_living():
    ring = KeyRing([OLD])
    opener = Opener(ring, window=64, incarnations_max=4)
    living = Sealer(ring, bytes(8))
    first = living.seal(DATAGRAM)
    opener.open(first)

    for n in range(50):
        opener.open(Sealer(ring, bytes([n + 1]) * 8).seal(DATAGRAM), replay_check=False)

    assert opener.incarnations == 1
    assert len(vars(opener)["_ciphers"]) == 8
    assert refusal(opener, first) == "replayed"
