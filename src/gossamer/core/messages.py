"""What members say to each other. One class per message; `wire` turns each into bytes and back.

`kind` is the word under which a message is traced and its traffic is counted; `Data` and `Repair` carry a
packet, everything else is overhead (000 §7.4).
"""

from dataclasses import dataclass, field
from typing import ClassVar

from gossamer.core.ids import Phase
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet

PerSender = dict[int, RangeSet]
"""For each sender a set of its sequence numbers."""


def put(table: PerSender, sender: int, numbers: RangeSet) -> None:
    """Enter `numbers`, unless there are none."""
    if numbers:
        table[sender] = numbers


def count(table: PerSender) -> int:
    """How many packets are in it."""
    return sum(len(numbers) for numbers in table.values())


def take(table: PerSender, packets: int, ranges: int = 300) -> PerSender:
    """The first of it, but no more than `packets` (0 for no limit) and `ranges` of each sender: a bounded request."""
    taken: PerSender = {}
    left = packets or 1 << 62
    for sender, numbers in table.items():
        if left <= 0:
            break
        some = RangeSet()
        for first, last in numbers.ranges()[:ranges]:
            last = min(last, first + left - 1)
            some.add(first, last)
            left -= last - first + 1
            if left <= 0:
                break
        put(taken, sender, some)
    return taken


def in_parts(table: PerSender, ranges_max: int) -> list[PerSender]:
    """The same in several tables, at least one, none with more ranges than this."""
    parts: list[PerSender] = [{}]
    room = ranges_max
    for sender, numbers in table.items():
        ranges = numbers.ranges()
        while ranges:
            if not room:
                parts.append({})
                room = ranges_max
            parts[-1][sender] = RangeSet(ranges[:room])
            ranges, room = ranges[room:], room - min(room, len(ranges))
    return parts


def remove(table: PerSender, sender: int, first: int, last: int) -> int:
    """Take `first..last` of `sender` out; how many there were."""
    numbers = table.get(sender)
    if numbers is None:
        return 0
    there = numbers.discard(first, last)
    if not numbers.firsts:
        del table[sender]
    return there


Horizon = dict[int, int]
"""For each sender one sequence number: a vector time (000 §5.3)."""


@dataclass(slots=True)
class Data:
    """The first pass: a packet as its sender sends it (or as a member forwards it along a random tree)."""

    kind: ClassVar[str] = "send"
    packet: Packet


@dataclass(slots=True)
class Repair:
    """A retransmission of a packet, by a peer or by a logger, as its sender made it."""

    kind: ClassVar[str] = "repair"
    packet: Packet
    phase: Phase


@dataclass(slots=True)
class Ack:
    """The source of this message has these packets (a logger: durably)."""

    kind: ClassVar[str] = "ack"
    have: PerSender


@dataclass(slots=True)
class Request:
    """Please send these packets. From a member to a logger, or to a peer as soon as a gap is seen."""

    kind: ClassVar[str] = "request"
    wanted: PerSender


@dataclass(slots=True)
class Gossip:
    """A negative gossip (000 §4.1): what the source lacks, and how its view of the group hashes.

    `seen` is how far the source has seen each sender; to a logger it is complete, and with `missing` gives
    the derived acknowledgement (000 §5.2). A signature of 0 means that none is sent this time. `stamp` is the
    source's clock in microseconds, to be echoed by an answer; 0 asks for none.
    """

    kind: ClassVar[str] = "gossip"
    missing: PerSender
    seen: Horizon = field(default_factory=dict)
    heartbeats: int = 0
    view: int = 0
    stamp: int = 0


@dataclass(slots=True)
class Collected:
    """The garbage-collected note (000 §4.3): the source had these packets and has collected them."""

    kind: ClassVar[str] = "gossip"
    gone: PerSender


@dataclass(slots=True)
class Never:
    """Nobody need wait for these numbers: they were never sent (000 §6.2) or, if `lost`, are gone for good."""

    kind: ClassVar[str] = "gossip"
    numbers: PerSender
    lost: bool = False


@dataclass(slots=True)
class Echo:
    """Answers the `stamp` of a gossip, so that its source learns the round-trip time."""

    kind: ClassVar[str] = "gossip"
    stamp: int


@dataclass(slots=True)
class Heartbeat:
    """The last number of the source, which falls idle (000 §5.1) or has been so for a while (LBRM)."""

    kind: ClassVar[str] = "heartbeat"
    last: int


@dataclass(slots=True)
class Heartbeats:
    """The last numbers of idle senders, after two signatures disagreed; `answer` asks for what is lacking here."""

    kind: ClassVar[str] = "heartbeat"
    lasts: Horizon
    answer: bool


@dataclass(slots=True)
class Digest:
    """A positive gossip (004 §4): what the source has buffered, in its round `round`.

    `idle` gives the last numbers of senders of whom it has nothing buffered any more.
    """

    kind: ClassVar[str] = "gossip"
    round: int
    buffered: PerSender
    idle: Horizon = field(default_factory=dict)


@dataclass(slots=True)
class Solicit:
    """Please send these of the packets in the digest of your round `round` (004 §4)."""

    kind: ClassVar[str] = "request"
    round: int
    wanted: PerSender


@dataclass(slots=True)
class Report:
    """The source has seen your packets up to, not including, `seen`: credit for a sender's window."""

    kind: ClassVar[str] = "ack"
    seen: int


@dataclass(slots=True)
class Recall:
    """Which of the packets of before does the log hold that were logged since then (nanoseconds since the epoch)?"""

    kind: ClassVar[str] = "request"
    since_ns: int


@dataclass(slots=True)
class Holdings:
    """A logger's answer to a `Recall` of `since_ns`: these can be asked for. A long answer comes in several parts."""

    kind: ClassVar[str] = "gossip"
    numbers: PerSender
    since_ns: int = 0
    part: int = 0
    parts: int = 1


@dataclass(slots=True)
class Probe:
    """Who are you, and how are you? Asked by anybody, a member or not; the answer names `nonce`.

    `aloud` asks for the answer over multicast, to learn whether it can be heard.
    """

    kind: ClassVar[str] = "request"
    nonce: int
    aloud: bool = False


@dataclass(slots=True)
class Profile:
    """The answer to a `Probe`: the member's standing and counters, as JSON."""

    kind: ClassVar[str] = "gossip"
    nonce: int
    text: bytes


@dataclass(slots=True)
class Piece:
    """One of the pieces of a message that is too long for a datagram; `message` tells which belong together."""

    kind: ClassVar[str] = "gossip"
    message: int
    index: int
    count: int
    content: bytes


@dataclass(slots=True)
class Entry:
    """One member as a view holds it: of two entries the fresher one counts (000 §5.3)."""

    member: int
    status: int
    freshness: int
    logger: bool = False
    address: str = ""
    """Where the live system reaches it; the simulator needs none."""


@dataclass(slots=True)
class Join:
    """The source wants to be a member; `resume` asks a logger where it stopped before a crash (000 §6.2)."""

    kind: ClassVar[str] = "gossip"
    entry: Entry
    resume: bool = False


@dataclass(slots=True)
class Leave:
    """The source wants to be a member no more."""

    kind: ClassVar[str] = "gossip"
    freshness: int


@dataclass(slots=True)
class Members:
    """What the source knows of the members; `answer` asks for what is fresher elsewhere.

    To a member that joins it is a sponsorship, and `seen` the sponsor's time TS (000 §5.3).
    """

    kind: ClassVar[str] = "gossip"
    entries: list[Entry]
    answer: bool = False
    seen: Horizon = field(default_factory=dict)
    sponsors: bool = False


Message = (
    Data
    | Repair
    | Ack
    | Request
    | Gossip
    | Collected
    | Never
    | Echo
    | Heartbeat
    | Heartbeats
    | Digest
    | Solicit
    | Report
    | Recall
    | Holdings
    | Probe
    | Profile
    | Piece
    | Join
    | Leave
    | Members
)
