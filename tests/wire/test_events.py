"""Events come back from the body of a packet, however they are mixed, and nothing else is taken for events."""

import copy
import json
import pickle
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.packets import Packet
from gossamer.wire import WireError
from gossamer.wire.attributes import NO_ATTRIBUTES
from gossamer.wire.events import (
    BODY,
    LIMIT_BYTES_MIN,
    Event,
    Packer,
    count_events,
    is_fragment,
    pack_equal,
    pack_one,
    unpack,
    unpack_simple,
)
from gossamer.wire.fragments import HEAD, Abandoned, Reassembler, fragments

subjects = st.one_of(st.sampled_from(["a", "b.c", "quotes.nyse.ibm"]), st.text(min_size=1, max_size=20))
payloads = st.one_of(st.binary(max_size=8), st.sampled_from([b"x" * 64, b"y" * 64, b"z" * 300]))
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=8),
)
attribute_maps = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"price": st.floats(allow_nan=False), "size": st.integers(0, 9)}),
    st.dictionaries(st.text(min_size=1, max_size=4), values, max_size=4),
)
published = st.lists(st.tuples(subjects, payloads, attribute_maps), max_size=60)


def pack(events, limit_bytes=1400):
    """The bodies that carry the events."""
    packer = Packer(limit_bytes)
    bodies = []
    for subject, payload, attributes in events:
        if not packer.add(subject, payload, attributes):
            bodies.append(packer.body(7))
            assert packer.add(subject, payload, attributes)
        assert len(packer) <= limit_bytes
    if packer.count:
        bodies.append(packer.body(7))
    assert packer.count == len(packer) == 0
    return bodies


def unpacked(bodies):
    """What comes out, without where and when."""
    return [event[:3] for n, body in enumerate(bodies) for event in unpack(Packet(1, n, body))]


def body_of(events):
    (body,) = pack(events, 60_000)
    return body


# Packing and unpacking


@given(published, st.integers(LIMIT_BYTES_MIN + 300, 4000))
def test_events_come_back_in_order(events, limit_bytes):
    bodies = pack(events, limit_bytes)

    assert unpacked(bodies) == events
    assert sum(map(count_events, bodies)) == len(events)
    assert all(len(body) <= limit_bytes for body in bodies)


@given(published)
def test_the_same_events_give_the_same_bytes(events):
    assert pack(events) == pack(copy.deepcopy(events))


@given(published)
def test_a_packer_knows_its_length(events):
    packer = Packer(60_000)
    for event in events:
        packer.add(*event)
    if events:
        length = len(packer)
        assert len(packer.body(1)) == length


runs = st.lists(
    st.tuples(subjects, st.lists(payloads, max_size=40), st.sampled_from([1, 1, 30])).map(
        lambda run: (run[0], [payload for payload in run[1] for _ in range(run[2])])
    ),
    max_size=6,
)


@given(runs, st.integers(LIMIT_BYTES_MIN + 300, 4000))
def test_add_many_equals_many_adds(runs, limit_bytes):
    packer, bodies = Packer(limit_bytes), []
    for subject, run in runs:
        at = 0
        while True:
            at += packer.add_many(subject, run, at)
            if at == len(run):
                break
            bodies.append(packer.body(7))
    if packer.count:
        bodies.append(packer.body(7))

    assert unpacked(bodies) == [(subject, payload, {}) for subject, run in runs for payload in run]


def test_an_event_says_which_packet_carried_it_and_when():
    packer = Packer(1400)
    packer.add("a", b"x", {"n": 1})

    assert unpack(Packet(3, 4, packer.body(1_500_000_000))) == [Event("a", b"x", {"n": 1}, 3, 4, 1.5)]


def test_the_common_case_is_a_subject_a_count_and_the_payloads():
    body = body_of([("quotes.nyse.ibm", b"12345678", {})] * 100)

    assert len(body) == 9 + 7 + len("quotes.nyse.ibm") + 800


def test_changing_subjects_and_lengths_cost_two_bytes_an_event():
    events = [(f"quotes.{n % 20:02}", b"x" * (n % 50), {}) for n in range(500)]

    body = body_of(events)

    assert unpacked([body]) == events
    assert len(body) - sum(len(payload) for _, payload, _ in events) < 2 * 500 + 20 * 11 + 30


def test_names_of_attributes_are_sent_once():
    events = [("a", b"x", {"price": n / 2, "size": n, "venue": "NYSE", "open": True, "note": None}) for n in range(100)]

    body = body_of(events)

    assert unpacked([body]) == events
    assert len(body) < 100 * (1 + 8 + 8 + 2 + 4 + 1 + 1) + 70


def test_more_subjects_than_a_block_holds_come_back():
    events = [(f"s.{n}", b"x", {}) for n in range(700)]

    assert unpacked(pack(events, 60_000)) == events


def test_types_of_attributes_come_back():
    attributes = {"b": True, "i": 1, "f": 1.0, "s": "1", "n": None, "low": -(2**63)}

    ((_, _, found),) = unpacked([body_of([("a", b"", attributes)])])

    assert [*map(type, found.values())] == [bool, int, float, str, type(None), int]


def test_without_room_add_is_false_and_changes_nothing():
    packer = Packer(400)
    for payload in (b"x" * 200, b"y" * 100):
        assert packer.add("a", payload)
    before = len(packer)

    assert not packer.add("a", b"z" * 200)
    assert not packer.add("b", b"z" * 200, {"n": 1})
    assert packer.add_many("a", [b"z" * 200]) == 0
    assert (packer.count, len(packer)) == (2, before)
    assert unpacked([packer.body(1)]) == [("a", b"x" * 200, {}), ("a", b"y" * 100, {})]


@pytest.mark.parametrize(
    ("event", "error", "says"),
    [
        (("", b"x"), ValueError, "subject of 0 bytes"),
        (("s" * 256, b"x"), ValueError, "subject of 256 bytes"),
        (("\ud800", b"x"), ValueError, "surrogates"),
        (("a", "text"), TypeError, "bytes, not str"),
        (("a", 5), TypeError, "int"),
        (("a", b"x", {"n": 2**63}), ValueError, "'n' is beyond 64 bits"),
        (("a", b"x", {"s": "x" * 65_536}), ValueError, "'s' has 65536 bytes"),
        (("a", b"x", {"l": []}), TypeError, "'l' is of type list: use int"),
        (("a", b"x", {1: 2}), TypeError, "must be a str, not 1"),
        (("a", b"x", {"": 2}), ValueError, "0 bytes"),
        (("a", b"x", {str(n): n for n in range(65)}), ValueError, "65 attributes"),
    ],
)
def test_an_invalid_event_is_refused_and_changes_nothing(event, error, says):
    packer = Packer(1400)
    packer.add("a", b"before")

    with pytest.raises(error, match=says):
        packer.add(*event)

    assert unpacked([packer.body(1)]) == [("a", b"before", {})]


@pytest.mark.parametrize(
    "run", [["12345678"] * 9, [b"12345678"] * 9 + ["12345678"], [b"x" * (n % 3) for n in range(20)] + ["y"]]
)
def test_add_many_refuses_what_is_not_bytes_and_keeps_what_it_took(run):
    packer = Packer(1400)
    with pytest.raises(TypeError):
        packer.add_many("a", run)

    taken = packer.count
    packer.add("b", b"next")
    assert [payload for _, payload, _ in unpacked([packer.body(1)])] == [*run[:taken], b"next"]


def test_a_memoryview_of_wider_items_is_measured_in_bytes():
    wide = memoryview(bytes(32)).cast("I")
    packer = Packer(1400)
    packer.add("a", wide)
    with pytest.raises(TypeError, match="not bytes"):
        packer.add_many("b", [wide] * 10)

    assert unpacked([packer.body(1)]) == [("a", bytes(32), {})]


def test_a_buffer_is_copied_when_it_is_published():
    buffer = bytearray(b"before")
    packer = Packer(1400)
    packer.add("a", b"first.")
    packer.add("a", buffer)
    packer.add_many("a", [memoryview(buffer)] * 10)
    buffer[:] = b"after!"

    assert {payload for _, payload, _ in unpacked([packer.body(1)])} == {b"first.", b"before"}


def test_no_attributes_is_an_empty_dict_that_nobody_can_fill():
    ((_, _, attributes),) = unpacked([body_of([("a", b"x", None)])])

    assert attributes == {}
    assert json.dumps(attributes) == "{}"
    assert pickle.loads(pickle.dumps(attributes)) is copy.deepcopy(attributes) is NO_ATTRIBUTES
    for change in (
        lambda: attributes.update(a=1),
        lambda: attributes.__setitem__("a", 1),
        lambda: attributes.setdefault("a", 1),
        lambda: attributes.__ior__({"a": 1}),
    ):
        with pytest.raises(TypeError, match="copy them"):
            change()


@pytest.mark.parametrize("limit_bytes", [0, LIMIT_BYTES_MIN - 1, 65_536])
def test_a_limit_that_makes_no_sense_is_refused(limit_bytes):
    with pytest.raises(ValueError, match="limit_bytes"):
        Packer(limit_bytes)


# Bytes from elsewhere


@given(st.binary(max_size=120), st.sampled_from([b"", b"\x01" + bytes(8), b"\x02" + bytes(8)]))
def test_any_bytes_unpack_or_raise_wire_error(data, head):
    packet = Packet(1, 2, head + data)
    with suppress(WireError):
        assert len(unpack(packet)) == count_events(packet.body)
    with suppress(WireError):
        count_events(packet.body)
    with suppress(WireError):
        Reassembler().add(packet)


@given(published.filter(bool), st.data())
def test_damaged_bodies_unpack_or_raise_wire_error(events, data):
    damaged = bytearray(pack(events)[0])
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, min(len(damaged) - 1, 60)))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for body in (bytes(damaged), cut):
        with suppress(WireError):
            found = unpack(Packet(1, 2, body))
            assert len(found) == count_events(body) <= len(body)


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("00 ffff 0000 0001 61", "cut short"),  # 65,535 events of no bytes
        ("00 0000 0001 0001 61", "cut short"),  # a block without events
        ("01 ffff 0000 0001 61", "cut short"),  # lengths that are not there
        ("00 0001 0001 0001 61", "cut short"),  # a payload that is not there
        ("00 0001 0001 0000 78", "subject of 0 bytes"),
        ("00 0001 0001 0001 ff 78", "utf-8"),
        ("03 0001 0001 0004 00010001 78", "unknown form"),
        ("10 0001 0001 0001 61 78", "unknown form"),
        ("01 0001 0002 0002 01 61 7878", "payloads of 1 bytes in a block of 2"),
        ("04 0001 0001 0004 01 00 01 61 78", "names none"),
        ("08 0001 0001 0002 00 61 78", "names of the attributes"),
        ("08 0001 0001 0005 01 09 01 6e 61 78", "unknown tag 9"),
        ("08 0001 0001 0005 01 02 01 6e 61 78", "cannot fit"),
        ("08 0001 0001 000b 02 00 01 00 01 6e 6e 00 00 00 61 78", "named twice"),
        ("08 0001 0001 0007 01 04 01 6e ffff 61 78", "string of an attribute"),
        ("00 0001", "unpack"),
    ],
)
def test_errors_say_what_is_wrong(block, says):
    body = b"\x01" + bytes(8) + bytes.fromhex(block)
    with pytest.raises(WireError, match=says):
        unpack(Packet(1, 2, body))


def test_a_body_of_another_kind_is_refused():
    with pytest.raises(WireError, match="Reassembler"):
        unpack(Packet(1, 2, b"\x02" + bytes(8)))
    with pytest.raises(WireError, match="kind of body 9"):
        unpack(Packet(1, 2, b"\x09" + bytes(8)))
    assert unpack(Packet(1, 2, b"\x01" + bytes(8))) == []


@pytest.mark.parametrize(
    "block",
    [
        b"\x01\xff\xff\x00\x00\xff\xff" + bytes(65_534) + b"a",  # 65,535 events without payload
        b"\x00\xff\xff\x00\x01\x00\x01a" + bytes(65_535),
        b"\x09\x03\xe0\x00\x00\xfc\x42" + bytes(992) + b"\x40" + b"\x00\x01" * 64 + bytes(range(64)) + bytes(63_489),
    ],
)
def test_memory_follows_the_length_of_the_input(block):
    body = b"\x01" + bytes(8) + block
    tracemalloc.start()
    with suppress(WireError):
        unpack(Packet(1, 2, body))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 300 * len(body)


# Fragments


def travel(reassembler, bodies, sender=1, first=10):
    """Add each body as the next packet of the sender; what came out of each."""
    return [reassembler.add(Packet(sender, first + n, body)) for n, body in enumerate(bodies)]


@given(subjects, st.binary(max_size=3000), attribute_maps, st.integers(HEAD.size + 1, 2000))
def test_a_large_event_comes_back_with_its_last_fragment(subject, payload, attributes, limit_bytes):
    bodies = fragments(subject, payload, attributes, limit_bytes, 5, time_ns=2_000_000_000)
    reassembler = Reassembler()

    *others, event = travel(reassembler, bodies)

    assert event == Event(subject, payload, attributes, 1, 9 + len(bodies), 2.0)
    assert others == [None] * (len(bodies) - 1)
    assert all(len(body) <= limit_bytes and is_fragment(body) and count_events(body) == 0 for body in bodies)
    assert reassembler.held_bytes == 0


def test_the_largest_event_goes_through_and_a_larger_one_is_refused():
    payload = bytes(16 << 20)
    *_, event = travel(Reassembler(), fragments("a", payload, {"n": 1}, 60_000, 0, time_ns=0))
    assert event.payload == payload

    with pytest.raises(ValueError, match="publish it in parts"):
        fragments("a", payload + b"x", None, 60_000, 0, time_ns=0)


def test_senders_do_not_disturb_each_other():
    reassembler = Reassembler()
    one = fragments("a", b"1" * 500, None, 100, 0, time_ns=0)
    two = fragments("b", b"2" * 500, None, 100, 0, time_ns=0)

    found = [
        travel(reassembler, [body], sender, n)[0]
        for n in range(len(one))
        for sender, body in ((1, one[n]), (2, two[n]))
    ]

    assert [event[:2] for event in found if event] == [("a", b"1" * 500), ("b", b"2" * 500)]


def test_a_lost_fragment_abandons_its_event_once_and_the_next_is_whole():
    reassembler = Reassembler()
    first = fragments("a", b"1" * 500, None, 100, 0, time_ns=0)
    second = fragments("a", b"2" * 500, None, 100, 1, time_ns=0)

    travel(reassembler, first[:3])
    assert reassembler.lost(1, 13, 13) == "fragment lost"
    assert reassembler.lost(1, 13, 13) is None
    travel(reassembler, first[4:], first=14)
    *_, event = travel(reassembler, second, first=10 + len(first))

    assert event.payload == b"2" * 500
    assert reassembler.take_abandoned() == [Abandoned(1, 10, 9 + len(first), "fragment lost")]
    assert reassembler.take_abandoned() == []
    assert reassembler.skipped == len(first) - 4
    assert reassembler.held_bytes == 0


def test_losses_elsewhere_abandon_nothing():
    reassembler = Reassembler()
    bodies = fragments("a", b"1" * 500, None, 100, 0, time_ns=0)
    travel(reassembler, bodies[:2])

    assert reassembler.lost(2, 0, 99) is None
    assert reassembler.lost(1, 0, 9) is None
    assert reassembler.lost(1, 10 + len(bodies), 99) is None
    assert travel(reassembler, bodies[2:], first=12)[-1] is not None


@pytest.mark.parametrize("missing", [1, 3])
def test_a_gap_that_nobody_reported_abandons_the_event_too(missing):
    reassembler = Reassembler()
    bodies = fragments("a", b"1" * 500, None, 100, 0, time_ns=0)

    for n, body in enumerate(bodies):
        if n != missing:
            assert reassembler.add(Packet(1, 10 + n, body)) is None

    assert reassembler.take_abandoned() == [Abandoned(1, 10, 9 + len(bodies), "cut short")]


def test_fragments_of_two_events_are_never_joined():
    one, other = (fragments("a", payload * 300, None, 100, n, time_ns=0) for n, payload in enumerate([b"1", b"2"]))
    reassembler = Reassembler()

    assert travel(reassembler, [*one[:2], *other[2:]]) == [None] * len(one)
    assert travel(reassembler, one[:2], first=30) + travel(reassembler, one[2:], first=33) == [None] * len(one)

    assert [abandoned.reason for abandoned in reassembler.take_abandoned()] == ["cut short"] * 2


def test_a_member_that_joins_in_the_middle_of_an_event_is_told_of_no_loss():
    reassembler = Reassembler()
    travel(reassembler, fragments("a", b"1" * 500, None, 100, 0, time_ns=0)[2:], first=12)

    assert reassembler.take_abandoned() == []
    assert reassembler.skipped > 0


def test_an_event_beyond_the_limit_is_refused_at_its_first_fragment():
    reassembler = Reassembler(limit_event_bytes=1000, limit_total_bytes=1 << 20)
    bodies = fragments("a", bytes(100_000), None, 1400, 0, time_ns=0)

    travel(reassembler, bodies)

    assert [abandoned.reason for abandoned in reassembler.take_abandoned()] == ["too large"]
    assert reassembler.held_bytes == 0


def test_memory_for_all_senders_is_bounded_and_evictions_are_reported():
    reassembler = Reassembler(limit_event_bytes=100_000, limit_total_bytes=400_000)
    bodies = fragments("a", bytes(99_000), None, 60_000, 0, time_ns=0)

    for sender in range(20):
        assert reassembler.add(Packet(sender, 0, bodies[0])) is None
        assert reassembler.held_bytes <= 400_000

    evicted = reassembler.take_abandoned()
    assert [abandoned.sender for abandoned in evicted] == list(range(20 - 6))  # who was silent longest
    assert {abandoned.reason for abandoned in evicted} == {"evicted"}
    assert reassembler.add(Packet(19, 1, bodies[1])) is not None


def test_fragments_that_are_only_announced_take_no_memory():
    reassembler = Reassembler()
    tracemalloc.start()
    for sender in range(10_000):
        body = HEAD.pack(2, 0, 0, 0, 16 << 20, 16 << 20) + b"x"
        reassembler.add(Packet(sender, 0, body))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 10_000 * 1024


def test_a_sender_that_left_leaves_nothing_behind():
    reassembler = Reassembler()
    travel(reassembler, fragments("a", b"1" * 500, None, 100, 0, time_ns=0)[:2])

    assert reassembler.forget(1) == "sender left"
    assert reassembler.forget(1) is None
    assert reassembler.held_bytes == 0


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ((2, 0, 0, 1, 1, 4), "fragment 1 of 1"),
        ((2, 0, 0, 0, 9, 4), "fragment 0 of 9"),
        ((2, 0, 0, 0, 1, 3), "with 4 of 3 bytes"),
        ((2, 0, 0, 0, 1, 5), "fragments of 4 bytes for an event of 5"),
        ((2, 0, 0, 0, 2, 4), "fragments of 4 bytes for an event of 4"),
        ((1, 0, 0, 0, 1, 4), "kind 1"),
    ],
)
def test_fragments_that_contradict_themselves_are_refused(head, says):
    with pytest.raises(WireError, match=says):
        Reassembler().add(Packet(1, 0, HEAD.pack(*head) + b"\x01a\x00x"))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(0, 30)), max_size=60), st.data())
def test_whatever_arrives_nothing_is_held_in_the_end(arrivals, data):
    bodies = [
        *fragments("a", b"1" * 300, None, 100, 0, time_ns=0),
        *fragments("b", b"2" * 9, {"n": 1}, 30, 1, time_ns=0),
    ]
    reassembler = Reassembler(limit_event_bytes=400, limit_total_bytes=70_000)
    for sender, number, seqno in arrivals:
        body = bytearray(bodies[number % len(bodies)])
        if data.draw(st.booleans()):
            body[data.draw(st.integers(0, len(body) - 1))] ^= 1
        with suppress(WireError):
            reassembler.add(Packet(sender, seqno, bytes(body)))
        reassembler.lost(sender, seqno + 5, seqno + 6)
    for sender in (0, 1):
        reassembler.forget(sender)

    assert reassembler.held_bytes == 0


@given(
    st.integers(1, 80),
    st.integers(0, 200),
    st.integers(0, 5),
    st.integers(LIMIT_BYTES_MIN, LIMIT_BYTES_MIN + 400),
    st.booleans(),
)
def test_equal_events_are_packed_in_bulk_as_they_are_one_by_one(length, count, start, limit, spoiled):
    payloads = [bytes([n % 251]) * length for n in range(count)]
    if spoiled and count > 3:
        payloads[count // 2] += b"x"
        payloads[count // 2 - 1] = payloads[count // 2 - 1][:-1]
    bodies = pack_equal("a.b", payloads, start, limit, 7)
    events = [event for body in bodies for event in unpack(Packet(1, 2, body))]
    assert [event.payload for event in events] == payloads[start : start + len(events)]
    assert all(len(body) <= limit and event.subject == "a.b" for body in bodies for event in events[:1])
    if not spoiled:
        packer = Packer(limit)
        each = packer.add_many("a.b", payloads, start)
        assert not bodies or packer.body(7) == bodies[0]
        assert len(bodies) == (max(0, count - start) // each if each and each < count - start else len(bodies))


@given(subjects, st.binary(max_size=400), st.integers(LIMIT_BYTES_MIN, 400), st.integers(0, 2**64 - 1))
def test_a_single_event_is_packed_as_a_packer_would_or_left_to_it(subject, payload, limit, time_ns):
    packer = Packer(limit)
    fits = packer.add(subject, payload)
    body = pack_one(subject, payload, limit, time_ns)
    assert (body is not None) == (fits and payload != b"")
    assert body is None or body == packer.body(time_ns)
    assert pack_one(subject, bytearray(payload), limit, time_ns) is None


def one_body(subject: str, payload: bytes) -> bytes:
    packer = Packer(1400)
    packer.add(subject, payload)
    return packer.body(9)


bodies = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda many, size: pack_equal("a.b", [b"x" * size] * many, 0, 1400, 7)[:1],
        st.integers(1, 99),
        st.integers(1, 1400),
    )
    .filter(bool)
    .map(lambda found: found[0]),
    st.builds(one_body, subjects, st.binary(max_size=30)),
)


@given(st.lists(bodies, max_size=8))
def test_a_run_is_unpacked_as_its_packets_are(found):
    run = [Packet(3, number, body) for number, body in enumerate(found)]
    expected: list[list[Event] | None] = []
    for packet in run:
        try:
            expected.append(unpack(packet))
        except WireError:
            expected.append(None)
    events: list[Event] = []
    at = 0
    while (at := unpack_simple(run, at, events, set())) < len(run):
        events += expected[at] or []
        at += 1
    assert events == [event for some in expected for event in some or []]


def test_a_body_that_claims_no_events_is_malformed():
    packer = Packer(1400)
    packer.add("n", b"x")
    whole = packer.body(1)
    count = slice(BODY.size + 1, BODY.size + 3)  # behind the form of the first block
    assert count_events(whole) == int.from_bytes(whole[count]) == 1
    empty = whole[: count.start] + bytes(2) + whole[count.stop : -1]
    for read in (count_events, lambda body: unpack(Packet(1, 0, body))):
        with pytest.raises(WireError):
            read(empty)


def test_fragments_that_were_undone_come_again():
    """Of an event under way: from its beginning on, or from the middle."""
    bodies = fragments("a.b", b"p" * 1000, None, 200, 1, time_ns=1)
    packets = [Packet(7, number, body) for number, body in enumerate(bodies, 5)]
    for first in (5, 7):
        reassembler = Reassembler()
        for packet in packets[:4]:
            assert reassembler.add(packet) is None
        reassembler.undo(7, first)
        assert (7 in reassembler) == (first > 5)
        found = [event for packet in packets[first - 5 :] if (event := reassembler.add(packet)) is not None]
        assert [event.payload for event in found] == [b"p" * 1000]
        assert reassembler.take_abandoned() == []
        assert reassembler.held_bytes == 0
