"""Columns hold exactly what `unpack` gives one by one, and refuse what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.packets import Packet
from gossamer.wire import WireError
from gossamer.wire.columns import ColumnBuilder, Columns
from gossamer.wire.events import BODY, SWITCH, Event, Packer, unpack
from gossamer.wire.fragments import Reassembler, fragments

subjects = st.sampled_from(["a", "b.c", "quotes.nyse.ibm", "ü"])
payloads = st.one_of(st.binary(max_size=8), st.sampled_from([b"x" * 64, b"y" * 64, b"z" * 300]))
attribute_maps = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"price": st.floats(allow_nan=False), "size": st.integers(0, 9)}),
    st.dictionaries(
        st.text(min_size=1, max_size=4), st.one_of(st.none(), st.booleans(), st.text(max_size=5)), max_size=64
    ),
)
published = st.lists(st.tuples(subjects, payloads, attribute_maps), max_size=60)


def bodies_of(events: list[tuple[str, bytes, dict]]) -> list[bytes]:
    """Several packets, each published a second after the one before."""
    packer, bodies = Packer(1400), []
    for event in events:
        if not packer.add(*event):
            bodies.append(packer.body(len(bodies) * 1_000_000_000))
            packer.add(*event)
    if packer.count:
        bodies.append(packer.body(len(bodies) * 1_000_000_000))
    return bodies


def events_of(columns: Columns) -> list[Event]:
    attributes = dict(columns.attributes)
    return [
        Event(
            columns.subjects[columns.subject[i]],
            columns.payloads[columns.edges[i] : columns.edges[i + 1]],
            attributes.get(i, {}),
            7,
            int(columns.packet[i]),
            float(columns.times_ns[columns.packet[i]]) / 1e9,
        )
        for i in range(len(columns))
    ]


@given(published)
def test_columns_hold_what_unpack_gives(events):
    bodies = bodies_of(events)
    builder = ColumnBuilder()
    for body in bodies:
        builder.add(body)

    columns = builder.columns()

    expected = [unpack(Packet(7, n, body)) for n, body in enumerate(bodies)]
    assert events_of(columns) == [event for packet in expected for event in packet]
    assert columns.index.tolist() == [i for packet in expected for i in range(len(packet))]
    assert builder.count == len(events)
    assert builder.payload_bytes == sum(len(payload) for _, payload, _ in events)


@given(published.filter(bool), st.data())
def test_a_malformed_body_is_refused_where_unpack_refuses_it_and_leaves_no_trace(events, data):
    good = bodies_of(events)[0]
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good[: data.draw(st.integers(at, len(good)))])
    if at < len(bad):
        bad[at] = data.draw(st.integers(0, 255))
    expected = unpacked_or_none(bytes(bad))
    builder = ColumnBuilder()
    builder.add(good)

    try:
        builder.add(bytes(bad))
        taken = True
    except WireError:
        taken = False

    assert taken == (expected is not None)
    assert events_of(builder.columns())[len(unpack(Packet(7, 0, good))) :] == (expected or [])


@pytest.mark.parametrize("length", [1, BODY.size - 1])
def test_a_switch_that_is_cut_short_is_refused(length):
    body = bytes([SWITCH]).ljust(length, b"\0")
    assert unpacked_or_none(body) is None
    with pytest.raises(WireError):
        ColumnBuilder().add(body)


def unpacked_or_none(body: bytes) -> list[Event] | None:
    try:
        return unpack(Packet(7, 1, body))
    except WireError:
        return None


def test_an_event_in_fragments_is_a_row_like_any_other():
    builder, whole = ColumnBuilder(), Reassembler()
    bodies = fragments("big", b"x" * 5000, {"n": 1}, 1400, 0, time_ns=3_000_000_000)
    event = [whole.add(Packet(7, n, body)) for n, body in enumerate(bodies)][-1]
    assert event is not None

    builder.add_event(event, 3_000_000_000)

    assert events_of(builder.columns()) == [Event("big", b"x" * 5000, {"n": 1}, 7, 0, 3.0)]


def test_no_events_give_empty_columns():
    columns = ColumnBuilder().columns()

    assert len(columns) == 0
    assert columns.edges.tolist() == [0]
