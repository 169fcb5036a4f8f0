"""The datagram: a fixed header, then the fields of one message.

 0  magic 'G'    1  version    2  code of the message    3  flags (0)
 4  group, 4 bytes: which group, so that a stray datagram is not taken for ours
 8  source, 8 bytes: the member that sent this datagram
16  the message: for data its number (8 bytes) and body; for a repair its phase and the whole datagram
    of the origin, verbatim; for all others their fields, as `fields` writes them
 .  CRC-32 of all of this, 4 bytes, least significant first: so the CRC-32 of a whole datagram is one constant
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar

from gossamer.core.checksum import crc32
from gossamer.core.errors import Error
from gossamer.core.ids import Phase
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
    Message,
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
from gossamer.core.packets import Packet, Run
from gossamer.core.places import (
    BranchEnded,
    CloseGraph,
    EnterOrder,
    GraphClosed,
    OrderBegins,
    Places,
    PlacesKept,
    PlacesWanted,
    Unplaced,
)
from gossamer.core.priorities import Decided, HighestPriority, Proposed
from gossamer.core.questions import Call, Challenge, Here, Probe, Profile, Proof, Where, WhoKeeps
from gossamer.core.views import (
    ChannelsSeen,
    EnterView,
    Excluded,
    Flush,
    FlushAnswer,
    MapIs,
    NewView,
    ViewBeat,
    ViewReady,
    WantChannels,
    WhichMap,
)
from gossamer.wire import brief, gossip
from gossamer.wire.fields import (
    BYTES,
    CHANNEL,
    CHANNEL_SET,
    ENTRIES,
    ENTRY,
    FLAG,
    HORIZON,
    LAST,
    NUMBER,
    PACKET_SETS,
    PACKET_SETS_BY_MEMBER,
    PHASES,
    SEGMENTS,
    FieldCodec,
    Numbers,
)

MAGIC: Final = 0x47
VERSION: Final = 2

_HEADER = Struct("!BBBBIQ")
_SEQNO = Struct("!Q")
HEADER_BYTES: Final = _HEADER.size
SEQNO_BYTES: Final = _SEQNO.size
CHECKSUM_BYTES: Final = 4
DATA_BYTES: Final = HEADER_BYTES + SEQNO_BYTES + CHECKSUM_BYTES
"""How many bytes a data datagram has besides its body."""
REPAIR_BYTES: Final = HEADER_BYTES + 1 + DATA_BYTES + CHECKSUM_BYTES

DATA_CODE, REPAIR_CODE, _GOSSIP, _PLACES_KEPT, _BRIEF_PLACES = 1, 2, 22, 81, 89
_DATA_HEAD = Struct("!IIqq")
_DATA_BEGINS: Final = int.from_bytes((MAGIC, VERSION, DATA_CODE, 0))
_BODY_AT: Final = _DATA_HEAD.size
_INTACT: Final = 0x2144DF1C
"""The CRC-32 of anything that ends in its own CRC-32."""
_FIELDS: Final[dict[type, tuple[int, tuple[tuple[str, FieldCodec], ...]]]] = {
    Ack: (3, (("have", PACKET_SETS),)),
    Request: (4, (("wanted", PACKET_SETS),)),
    RequestFor: (38, (("requester", NUMBER), ("wanted", PACKET_SETS))),
    MulticastAgain: (39, (("wanted", PACKET_SETS),)),
    Collected: (6, (("gone", PACKET_SETS),)),
    NeverSent: (7, (("numbers", PACKET_SETS), ("lost", FLAG))),
    Echo: (8, (("stamp", NUMBER),)),
    Heartbeat: (9, (("last", LAST), ("channel", CHANNEL))),
    Heartbeats: (10, (("lasts", HORIZON), ("answer", FLAG))),
    Solicit: (12, (("round", NUMBER), ("wanted", PACKET_SETS))),
    Join: (13, (("entry", ENTRY), ("resume", FLAG), ("alone_us", NUMBER))),
    Leave: (14, (("freshness", NUMBER), ("entries", ENTRIES))),
    SeenReport: (
        16,
        (("seen", NUMBER), ("newest", NUMBER), ("received", NUMBER), ("at_us", NUMBER), ("channel", CHANNEL)),
    ),
    LetGo: (26, (("over", FLAG),)),
    HowFar: (27, (("seen", HORIZON),)),
    Progress: (28, (("lasts", HORIZON),)),
    Where: (68, (("nonce", NUMBER), ("channel", CHANNEL))),
    Here: (69, (("nonce", NUMBER), ("last", LAST), ("channel", CHANNEL))),
    Parity: (
        32,
        (("first", NUMBER), ("count", NUMBER), ("lengths", NUMBER), ("content", BYTES), ("channel", CHANNEL)),
    ),
    LossReport: (33, (("lost", NUMBER), ("of", NUMBER))),
    Confirm: (24, (("last", LAST), ("channel", CHANNEL))),
    Confirmed: (25, (("last", LAST), ("channel", CHANNEL))),
    Seek: (34, (("stamp", NUMBER),)),
    CoordinatorIs: (35, (("coordinator", NUMBER), ("stamp", NUMBER))),
    IAmCoordinator: (36, (("lasts", HORIZON), ("whole", FLAG))),
    Descendants: (
        37,
        (
            ("lasts", HORIZON),
            ("missing", PACKET_SETS),
            ("others", PACKET_SETS_BY_MEMBER),
            ("complete", FLAG),
            ("asks", FLAG),
        ),
    ),
    AskAll: (50, (("wanted", PACKET_SETS), ("distances", HORIZON))),
    Session: (51, (("lasts", HORIZON), ("stamp", NUMBER), ("echoes", HORIZON))),
    Recall: (17, (("since_ns", NUMBER),)),
    Holdings: (
        23,
        (
            ("numbers", PACKET_SETS),
            ("since_ns", NUMBER),
            ("part", NUMBER),
            ("parts", NUMBER),
            ("never_sent", PACKET_SETS),
        ),
    ),
    Probe: (19, (("nonce", NUMBER), ("aloud", FLAG), ("padding", BYTES))),
    WhoKeeps: (40, (("nonce", NUMBER), ("sender", NUMBER), ("seqno", NUMBER), ("padding", BYTES))),
    Profile: (20, (("nonce", NUMBER), ("text", BYTES))),
    Challenge: (29, (("nonce", NUMBER),)),
    Call: (31, (("member", NUMBER),)),
    Proof: (30, (("nonce", NUMBER),)),
    Piece: (21, (("message", NUMBER), ("index", NUMBER), ("count", NUMBER), ("content", BYTES))),
    WantChannels: (70, (("entry", ENTRY), ("channels", CHANNEL_SET), ("resume", FLAG))),
    ChannelsSeen: (71, (("freshness", NUMBER), ("channels", CHANNEL_SET), ("seen", HORIZON))),
    WhichMap: (72, (("map", CHANNEL_SET),)),
    MapIs: (73, (("map", CHANNEL_SET), ("content", BYTES), ("in_use", BYTES))),
    StablePoll: (60, (("last", LAST), ("stable", LAST))),
    ViewBeat: (61, (("view", NUMBER), ("attempt", NUMBER), ("settled", FLAG))),
    EnterView: (62, (("entry", ENTRY), ("first", NUMBER))),
    Flush: (63, (("view", NUMBER), ("attempt", NUMBER), ("out", HORIZON))),
    NewView: (
        64,
        (
            ("view", NUMBER),
            ("attempt", NUMBER),
            ("entries", ENTRIES),
            ("cut", HORIZON),
            ("starts", HORIZON),
            ("holders", HORIZON),
            ("decided", FLAG),
        ),
    ),
    FlushAnswer: (
        65,
        (
            ("view", NUMBER),
            ("attempt", NUMBER),
            ("have", HORIZON),
            ("kept", PACKET_SETS),
            ("by", NUMBER),
            ("accepted_attempt", NUMBER),
            ("entries", ENTRIES),
            ("cut", HORIZON),
            ("starts", HORIZON),
        ),
    ),
    ViewReady: (66, (("view", NUMBER), ("attempt", NUMBER))),
    Excluded: (67, (("view", NUMBER),)),
    Letter: (
        100,
        (("number", NUMBER), ("topic", NUMBER), ("part", NUMBER), ("parts", NUMBER), ("content", BYTES)),
    ),
    LetterSeen: (101, (("number", NUMBER), ("part", NUMBER))),
    Places: (
        80,
        (
            ("order", NUMBER),
            ("graph", NUMBER),
            ("first", NUMBER),
            ("before", NUMBER),
            ("settled", NUMBER),
            ("segments", SEGMENTS),
            ("branch", NUMBER),
            ("asked", CHANNEL_SET),
        ),
    ),
    PlacesWanted: (82, (("order", NUMBER), ("first", NUMBER), ("branch", NUMBER))),
    EnterOrder: (
        83,
        (("life", NUMBER), ("begins", FLAG), ("horizon", HORIZON), ("branch", NUMBER), ("goes", FLAG)),
    ),
    OrderBegins: (
        84,
        (
            ("order", NUMBER),
            ("life", NUMBER),
            ("first", NUMBER),
            ("before", NUMBER),
            ("placed", HORIZON),
            ("primary", NUMBER),
            ("lives", HORIZON),
            ("branch", NUMBER),
            ("branches", SEGMENTS),
        ),
    ),
    CloseGraph: (85, (("order", NUMBER), ("graph", NUMBER), ("branch", NUMBER))),
    GraphClosed: (
        86,
        (
            ("order", NUMBER),
            ("graph", NUMBER),
            ("opener", LAST),
            ("life", NUMBER),
            ("last", NUMBER),
            ("below", NUMBER),
            ("settled", NUMBER),
            ("branch", NUMBER),
        ),
    ),
    Unplaced: (87, (("lasts", HORIZON),)),
    BranchEnded: (88, (("order", NUMBER), ("branch", NUMBER), ("placed", HORIZON))),
    Proposed: (110, (("stream", NUMBER), ("below", NUMBER), ("priorities", HORIZON))),
    Decided: (111, (("stream", NUMBER), ("priorities", HORIZON))),
    HighestPriority: (112, (("priority", NUMBER),)),
    ViewUpdate: (15, (("entries", ENTRIES), ("answer", FLAG), ("seen", HORIZON), ("sponsors", FLAG))),
}


class _Part(NamedTuple):
    """Fields of a message that are written together: one, or several numbers in a row."""

    value_of: Callable[[Any], Any]
    codec: FieldCodec
    is_many: bool


def _parts(fields: tuple[tuple[str, FieldCodec], ...]) -> list[_Part]:
    parts: list[_Part] = []
    for is_number, some in groupby(fields, lambda field: field[1] is NUMBER):
        alike = list(some)
        if is_number and len(alike) > 1:
            parts.append(_Part(attrgetter(*(name for name, _ in alike)), Numbers(len(alike)), True))
        else:
            parts += [_Part(attrgetter(name), codec, False) for name, codec in alike]
    return parts


_PARTS: Final = {cls: (code, _parts(fields)) for cls, (code, fields) in _FIELDS.items()}
_BY_CODE: Final = {code: (cls, parts) for cls, (code, parts) in _PARTS.items()}
_WITHOUT_FIELDS: Final[dict[int, Callable[[memoryview, int], tuple[Message, int]]]] = {
    _GOSSIP: gossip.get,
    _PLACES_KEPT: brief.read_kept,
    _BRIEF_PLACES: brief.read_places,
}
assert len(_BY_CODE | _WITHOUT_FIELDS) == len(_FIELDS) + 3, "each message has a code of its own"


class WireError(Error, ValueError):
    """Bytes that are not a datagram of ours; the message says why."""


T = TypeVar("T")


@dataclass(slots=True)
class Header:
    """Where a datagram comes from."""

    group: int
    source: int


def encode(header: Header, message: Message) -> bytes:
    """The datagram for `message`."""
    if isinstance(message, Data):
        return encode_packet(header.group, message.packet)
    if isinstance(message, Repair):
        head = _HEADER.pack(MAGIC, VERSION, REPAIR_CODE, 0, header.group, header.source)
        return checksummed(head + bytes([PHASES.index(message.phase)]) + encode_packet(header.group, message.packet))
    if isinstance(message, Gossip):
        out = bytearray(_HEADER.pack(MAGIC, VERSION, _GOSSIP, 0, header.group, header.source))
        gossip.put(out, message)
        return checksummed(bytes(out))
    if (brief_form := _brief(message)) is not None:
        code, content = brief_form
        return checksummed(_HEADER.pack(MAGIC, VERSION, code, 0, header.group, header.source) + content)
    code, parts = _PARTS[type(message)]
    out = bytearray(_HEADER.pack(MAGIC, VERSION, code, 0, header.group, header.source))
    for value_of, codec, _ in parts:
        codec.put(out, value_of(message))
    return checksummed(bytes(out))


def _brief(message: Message) -> tuple[int, bytes] | None:
    """The code and the content of a message that has a form of fixed length; None if this one has not."""
    if isinstance(message, PlacesKept):
        return _PLACES_KEPT, brief.write_kept(message)
    if isinstance(message, Places) and (content := brief.write_places(message)) is not None:
        return _BRIEF_PLACES, content
    return None


def encode_packet(group: int, packet: Packet) -> bytes:
    """The datagram of the first pass of a packet; the body, which may be 64 KB, is copied once."""
    head = _DATA_HEAD.pack(_DATA_BEGINS, group, packet.sender, packet.seqno)
    body = packet.body
    return b"".join((head, body, crc32(body, crc32(head)).to_bytes(CHECKSUM_BYTES, "little")))


def decode_runs(
    datagrams: Iterable[bytes | memoryview], group: int, otherwise: Callable[[Any], T | None]
) -> list[Run | T]:
    """The runs of intact packets of this group among `datagrams`, quickly; for others, what `otherwise` makes of them.

    Most datagrams are packets that follow on, and come many at a time: this is a loop without a call of ours for each.
    """
    found: list[Run | T] = []
    run: Run = []
    expected = by = -1
    head, new = _DATA_HEAD.unpack_from, object.__new__
    for datagram in datagrams:
        if len(datagram) >= DATA_BYTES:
            begins, of, sender, seqno = head(datagram)
            if begins == _DATA_BEGINS and of == group and sender >= 0 <= seqno and crc32(datagram) == _INTACT:
                packet = new(Packet)  # its `__init__` would be a call, and take as long as all of this
                packet.sender, packet.seqno, packet.sealed = sender, seqno, b""
                packet.body = bytes(datagram[_BODY_AT:-CHECKSUM_BYTES])
                if seqno == expected and sender == by:
                    run.append(packet)
                else:
                    run, by = [packet], sender
                    found.append(run)
                expected = seqno + 1
                continue
        other = otherwise(datagram)
        found += [] if other is None else [other]
        expected = -1
    return found


def repair_of(header: Header, phase: Phase, datagram: bytes) -> bytes:
    """The datagram of a repair that holds the origin's data datagram as it travelled."""
    head = _HEADER.pack(MAGIC, VERSION, REPAIR_CODE, 0, header.group, header.source)
    return checksummed(b"".join((head, bytes([PHASES.index(phase)]), datagram)))


def checksummed(content: bytes) -> bytes:
    """`content` followed by its CRC-32."""
    return content + crc32(content).to_bytes(CHECKSUM_BYTES, "little")


def size(message: Message) -> int:
    """The length of `encode(header, message)`, without writing it."""
    if isinstance(message, Data):
        return DATA_BYTES + len(message.packet.body)
    if isinstance(message, Repair):
        return REPAIR_BYTES + len(message.packet.body)
    total = HEADER_BYTES + CHECKSUM_BYTES
    if isinstance(message, Gossip):
        return total + gossip.size(message)
    if (brief_form := _brief(message)) is not None:
        return total + len(brief_form[1])
    for value_of, codec, _ in _PARTS[type(message)][1]:
        total += codec.size(value_of(message))
    return total


def decode(datagram: bytes | memoryview) -> tuple[Header, Message]:
    """The header and the message of a datagram; WireError, never any other error, if it is not one."""
    return decode_intact(_intact(memoryview(datagram)))


def decode_intact(content: bytes | memoryview) -> tuple[Header, Message]:
    """The same for a datagram without its checksum, which is known to be intact."""
    data = memoryview(content)
    header, code = _decode_header(data)
    try:
        return header, _decode_message(header, code, data)
    except ValueError as error:
        raise WireError(str(error)) from None


def _intact(data: memoryview) -> memoryview:
    """The datagram without its checksum, which must be right."""
    if len(data) < CHECKSUM_BYTES or crc32(data) != _INTACT:
        raise WireError("damaged: the checksum does not match")
    return data[:-CHECKSUM_BYTES]


def _decode_header(data: memoryview) -> tuple[Header, int]:
    if len(data) < HEADER_BYTES:
        raise WireError(f"{len(data)} bytes are shorter than a header of {HEADER_BYTES}")
    magic, version, code, flags, group, source = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise WireError(f"magic byte {magic:#x} is not {MAGIC:#x}")
    if version != VERSION:
        raise WireError(f"version {version} is not {VERSION}: update the older side")
    if flags or source >= 1 << 63:
        raise WireError("unknown flags" if flags else "source beyond 63 bits")
    return Header(group, source), code


def _decode_message(header: Header, code: int, data: memoryview) -> Message:
    if code == DATA_CODE:
        return Data(_decode_packet(header, data))
    if code == REPAIR_CODE:
        return _decode_repair(header, data)
    if code in _WITHOUT_FIELDS:
        message, at = _WITHOUT_FIELDS[code](data, HEADER_BYTES)
    elif code in _BY_CODE:
        message, at = _decode_fields(code, data)
    else:
        raise WireError(f"unknown message code {code}")
    if at != len(data):
        raise WireError(f"{len(data) - at} bytes after the end of the message")
    return message


def _decode_fields(code: int, data: memoryview) -> tuple[Message, int]:
    cls, parts = _BY_CODE[code]
    at = HEADER_BYTES
    values: list[Any] = []
    for _, codec, is_many in parts:
        value, at = codec.get(data, at)
        if is_many:
            values += value
        else:
            values.append(value)
    return cls(*values), at  # fields are written in the order in which they are defined


def _decode_packet(header: Header, data: memoryview) -> Packet:
    if len(data) < _BODY_AT:
        raise WireError("data without a sequence number")
    (seqno,) = _SEQNO.unpack_from(data, HEADER_BYTES)
    if seqno >= 1 << 63:
        raise WireError("sequence number beyond 63 bits")
    return Packet(header.source, seqno, bytes(data[_BODY_AT:]))


def _decode_repair(header: Header, data: memoryview) -> Repair:
    if len(data) <= HEADER_BYTES or data[HEADER_BYTES] >= len(PHASES):
        raise WireError("repair is cut short or names no phase")
    inner = _intact(data[HEADER_BYTES + 1 :])
    origin, code = _decode_header(inner)
    if code != DATA_CODE or origin.group != header.group:
        raise WireError("repair does not hold data of its group")
    return Repair(_decode_packet(origin, inner), PHASES[data[HEADER_BYTES]])
