"""Every message comes back from its bytes, has the size that the simulator is told, and nothing else is accepted."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gossamer.core.letters import Letter, LetterSeen
from gossamer.core.messages import (
    Ack,
    AskAll,
    Collected,
    Confirm,
    Confirmed,
    CoordinatorIs,
    Data,
    Descendants,
    Digest,
    Echo,
    Gossip,
    Heartbeat,
    Heartbeats,
    Holdings,
    HowFar,
    IAmCoordinator,
    Join,
    Leave,
    LetGo,
    LossReport,
    MulticastAgain,
    NeverSent,
    Parity,
    Piece,
    Progress,
    Recall,
    Repair,
    Request,
    RequestFor,
    Seek,
    SeenReport,
    Session,
    Solicit,
    StablePoll,
    ViewUpdate,
)
from gossamer.core.packets import Packet
from gossamer.core.places import (
    MARKS,
    BranchEnded,
    CloseGraph,
    EnterOrder,
    GraphClosed,
    Mark,
    OrderBegins,
    Places,
    PlacesKept,
    PlacesWanted,
    Segment,
    Sites,
    Unplaced,
)
from gossamer.core.priorities import Decided, HighestPriority, Proposed
from gossamer.core.questions import Call, Challenge, Here, Probe, Profile, Proof, Where, WhoKeeps
from gossamer.core.ranges import RangeSet
from gossamer.core.views import (
    ChannelsSeen,
    EnterView,
    Excluded,
    Flush,
    FlushAnswer,
    MapIs,
    MemberEntry,
    NewView,
    ViewBeat,
    ViewReady,
    WantChannels,
    WhichMap,
)
from gossamer.wire import Header, WireError, decode, encode, size
from gossamer.wire.codec import checksummed, decode_runs

ids = st.integers(0, 2**63 - 1)
range_sets = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 99)), max_size=5).map(
    lambda pairs: RangeSet((first, first + length) for first, length in pairs)
)
per_sender = st.dictionaries(ids, range_sets, max_size=4)
packets = st.builds(Packet, ids, ids, st.binary(max_size=50))
phases = st.sampled_from(["first_pass", "peer", "logger"])
numbers = st.integers(0, 2**62)
signatures = st.integers(0, 2**64 - 1)
horizons = st.dictionaries(ids, st.integers(-1, 2**62), max_size=4)
addresses = st.text(st.characters(codec="ascii"), max_size=64)
names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=100)
channels = st.integers(0, 127)
channel_sets = st.integers(1, 2**128 - 1)
entry = st.builds(
    MemberEntry,
    ids,
    st.integers(0, 3),
    numbers,
    st.booleans(),
    addresses,
    names,
    st.just(0) | channel_sets,
    st.just(0) | channel_sets,
)
entries = st.lists(entry, max_size=4)
marks = st.builds(Mark, st.sampled_from(MARKS), numbers, channel_sets.map(lambda mask: mask & ~1), horizons)
segments = st.lists(
    st.builds(Segment, numbers, ids, st.integers(0, 2**61 - 1), st.integers(1, 2**60))
    | st.builds(lambda graph, sites: Segment(graph, sites=sites), numbers, st.builds(Sites, ids, horizons))
    | st.builds(lambda graph, mark: Segment(graph, mark=mark), numbers, marks),
    max_size=5,
)
places_of_a_run = st.builds(  # most of them have a form of their own
    lambda graph, settled, segments, asked, unsettled, order: Places(
        order, graph, max(0, settled + unsettled), graph, settled, [Segment(graph, *s) for s in segments], 0, asked
    ),
    st.integers(0, 2**33),
    numbers,
    st.lists(st.tuples(ids, st.integers(0, 2**61 - 1), st.integers(1, 2**17)), max_size=2),
    st.integers(1, 2**33),
    st.integers(-(2**32), 2**32),
    ids,
)
messages = st.one_of(
    st.builds(Repair, packets, phases),
    st.builds(Ack, per_sender),
    st.builds(Request, per_sender),
    st.builds(RequestFor, ids, per_sender),
    st.builds(MulticastAgain, per_sender),
    st.builds(
        Gossip,
        st.none() | per_sender,
        st.none() | st.builds(Digest, numbers, per_sender, horizons),
        horizons,
        st.integers(-1, 2**62),
        signatures,
        signatures,
        numbers,
        horizons,
    ),
    st.builds(Collected, per_sender),
    st.builds(NeverSent, per_sender, st.booleans()),
    st.builds(Echo, numbers),
    st.builds(Heartbeat, st.integers(-1, 2**62), channels),
    st.builds(Heartbeats, horizons, st.booleans()),
    st.builds(Solicit, numbers, per_sender),
    st.builds(SeenReport, numbers, channel=channels),
    st.builds(LetGo, st.booleans()),
    st.builds(HowFar, horizons),
    st.builds(Progress, horizons),
    st.builds(Where, numbers, channels),
    st.builds(Here, numbers, st.integers(-1, 2**62), channels),
    st.builds(Parity, numbers, numbers, numbers, st.binary(max_size=50), channels),
    st.builds(LossReport, numbers, numbers),
    st.builds(Confirm, st.integers(-1, 2**62), channels),
    st.builds(Confirmed, st.integers(-1, 2**62), channels),
    st.builds(Seek, numbers),
    st.builds(CoordinatorIs, ids, numbers),
    st.builds(AskAll, per_sender, horizons),
    st.builds(Session, horizons, numbers, horizons),
    st.builds(IAmCoordinator, horizons, st.booleans()),
    st.builds(
        Descendants,
        horizons,
        per_sender,
        st.dictionaries(ids, per_sender, max_size=3),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(Recall, numbers),
    st.builds(Holdings, per_sender, numbers, numbers, numbers, per_sender),
    st.builds(Probe, numbers, st.booleans(), st.binary(max_size=50)),
    st.builds(WhoKeeps, numbers, ids, numbers, st.binary(max_size=50)),
    st.builds(Profile, numbers, st.binary(max_size=50)),
    st.builds(Challenge, numbers),
    st.builds(Call, numbers),
    st.builds(Proof, numbers),
    st.builds(Piece, numbers, numbers, numbers, st.binary(max_size=50)),
    st.builds(Join, entry, st.booleans(), numbers),
    st.builds(Leave, numbers),
    st.builds(ViewUpdate, entries, st.booleans(), horizons, st.booleans()),
    st.builds(WantChannels, entry, channel_sets, st.booleans()),
    st.builds(ChannelsSeen, numbers, channel_sets, horizons),
    st.builds(WhichMap, channel_sets),
    st.builds(MapIs, channel_sets, st.binary(max_size=50), st.binary(max_size=50)),
    st.builds(Letter, numbers, numbers, numbers, numbers, st.binary(max_size=50)),
    st.builds(LetterSeen, numbers, numbers),
    st.builds(StablePoll, st.integers(-1, 2**62), st.integers(-1, 2**62)),
    st.builds(ViewBeat, numbers, numbers, st.booleans()),
    st.builds(EnterView, entry, numbers),
    st.builds(Flush, numbers, numbers, horizons),
    st.builds(NewView, numbers, numbers, entries, horizons, horizons, horizons, st.booleans()),
    st.builds(FlushAnswer, numbers, numbers, horizons, per_sender, numbers, numbers, entries, horizons, horizons),
    st.builds(ViewReady, numbers, numbers),
    st.builds(Excluded, numbers),
    st.builds(Places, numbers, numbers, numbers, numbers, numbers, segments, numbers, channel_sets),
    places_of_a_run,
    st.builds(PlacesKept, numbers, numbers, numbers, numbers, numbers),
    st.builds(PlacesWanted, numbers, numbers, numbers),
    st.builds(EnterOrder, numbers, st.booleans(), horizons, numbers),
    st.builds(OrderBegins, numbers, numbers, numbers, numbers, horizons, ids, horizons, numbers, segments),
    st.builds(CloseGraph, numbers, numbers, numbers),
    st.builds(GraphClosed, numbers, numbers, st.integers(-1, 2**62), numbers, numbers, numbers, numbers, numbers),
    st.builds(Unplaced, horizons),
    st.builds(BranchEnded, numbers, numbers, horizons),
    st.builds(Proposed, numbers, numbers, horizons),
    st.builds(Decided, numbers, horizons),
    st.builds(HighestPriority, numbers),
)
headers = st.builds(Header, st.integers(0, 2**32 - 1), ids)


@given(headers, messages)
def test_messages_are_decoded_again(header, message):
    datagram = encode(header, message)
    assert decode(datagram) == (header, message)
    assert size(message) == len(datagram)


@given(headers, packets)
def test_data_is_decoded_with_its_own_sender(header, packet):
    datagram = encode(header, Data(packet))
    assert decode(datagram) == (Header(header.group, packet.sender), Data(packet))
    assert size(Data(packet)) == len(datagram)


@given(headers, st.lists(messages, max_size=5), st.binary(max_size=40))
def test_packets_of_the_group_are_found_among_others_as_if_decoded_one_by_one(header, said, noise):
    datagrams = [*(encode(header, message) for message in said), noise, checksummed(noise)]
    damaged = [datagram[:-1] + bytes([datagram[-1] ^ 1]) for datagram in datagrams[: len(said)]]

    def slowly(datagram):
        with suppress(WireError):
            origin, message = decode(datagram)
            if isinstance(message, Data) and origin.group == header.group and origin.source == message.packet.sender:
                return message.packet
        return datagram

    found = decode_runs(datagrams + damaged, header.group, lambda datagram: (datagram,))
    packets = [item for part in found for item in part]  # of runs, or the datagram as it came
    assert packets == [slowly(datagram) for datagram in datagrams + damaged]
    assert decode_runs(datagrams, header.group ^ 1, lambda datagram: None) == []


def test_packets_that_follow_on_are_one_run():
    packets = [Packet(*name, b"") for name in [(1, 0), (1, 1), (1, 3), (1, 4), (2, 5), (2, 6), (1, 5)]]
    datagrams = [encode(Header(7, 1), Data(packet)) for packet in packets]
    datagrams.insert(2, b"noise")

    found = decode_runs(datagrams, 7, lambda datagram: datagram)

    assert found == [packets[:2], b"noise", packets[2:4], packets[4:6], packets[6:]]


@given(headers, messages, st.data())
def test_a_message_cut_short_is_refused_or_shorter(header, message, data):
    datagram = encode(header, message)
    cut = datagram[: data.draw(st.integers(0, len(datagram) - 1))]
    with suppress(WireError):
        assert size(decode(checksummed(cut))[1]) == len(cut) + 4
    with pytest.raises(WireError):
        decode(cut)


@given(st.binary(max_size=80))
def test_any_bytes_decode_or_raise_wire_error(data):
    for datagram in (data, checksummed(data), checksummed(b"G\x02" + data)):
        with suppress(WireError):
            decode(datagram)


@given(headers, messages, st.data())
def test_flipped_bits_decode_or_raise_wire_error(header, message, data):
    damaged = bytearray(encode(header, message))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assume(damaged != encode(header, message))
    with pytest.raises(WireError, match="damaged"):
        decode(bytes(damaged))
    with suppress(WireError):
        decode(checksummed(bytes(damaged[:-4])))  # as one would who knows the format


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d[:10], "shorter than a header"),
        (lambda d: b"X" + d[1:], "magic"),
        (lambda d: d[:1] + b"\x09" + d[2:], "version 9"),
        (lambda d: d[:2] + b"\xee" + d[3:], "unknown message code 238"),
        (lambda d: d[:3] + b"\x01" + d[4:], "flags"),
        (lambda d: d + b"\x00", "after the end"),
    ],
)
def test_errors_say_what_is_wrong(change, says):
    content = encode(Header(1, 2), Ack({3: RangeSet([(4, 5)])}))[:-4]
    with pytest.raises(WireError, match=says):
        decode(checksummed(change(content)))


def test_the_place_of_one_run_is_written_in_numbers_of_fixed_lengths():
    """So a packet and its place go out together, as a burst of which only the last datagram may be shorter."""
    told = Places(1 << 62, 3, 1 << 61, 3, (1 << 61) - 5, [Segment(3, 1 << 54, 1 << 60, 0xFFFF)], 0, 0b10110)
    assert decode(encode(Header(7, 1), told)) == (Header(7, 1), told)
    settled = Places(1 << 62, 3, 1 << 61, 3, 1 << 61, [])
    assert size(told) == size(settled) == 66
    for other in (
        replace(told, branch=9),
        replace(told, before=2),
        replace(told, asked=1 << 40),
        replace(told, graph=4),
    ):
        assert size(other) != 66
        assert decode(encode(Header(7, 1), other)) == (Header(7, 1), other)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"\xff" * 8),  # an order
        (8, b"\xff" * 8),  # a place
        (16, b"\xff" * 8),  # a stream
        (24, b"\xff" * 8),  # a number
        (32, b"\x7f\xff\xff\xff"),  # more is not settled than there is
        (40, b"\0\0"),  # of a stream, but no packets
        (42, b"\0\0\0\0"),  # for nobody
    ],
)
def test_a_place_of_one_run_that_cannot_be_is_refused(at, value):
    datagram = encode(Header(7, 1), Places(1, 3, 4, 3, 2, [Segment(3, 5, 6, 7)]))
    content = bytearray(datagram[:-4])
    content[16 + at : 16 + at + len(value)] = value
    with pytest.raises(WireError, match=r"beyond|nobody"):
        decode(checksummed(bytes(content)))


def test_a_count_larger_than_the_message_is_refused_before_anything_is_built():
    content = encode(Header(1, 2), Ack({}))[:-5] + b"\xff\xff\xff\x7f"
    with pytest.raises(WireError, match="cannot fit"):
        decode(checksummed(content))
