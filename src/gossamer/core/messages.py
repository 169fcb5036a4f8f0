"""What members say to each other. One class per message; `wire` turns each into bytes and back.

`kind` is the word under which a message is traced and its traffic is counted; `Data` and `Repair` carry a
packet, everything else is overhead (000 §7.4).
"""

from dataclasses import dataclass, field
from typing import ClassVar

from gossamer.core.ids import Phase
from gossamer.core.letters import Letter, LetterSeen
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.packets import Packet
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
    MemberEntry,
    NewView,
    ViewBeat,
    ViewReady,
    WantChannels,
    WhichMap,
)


@dataclass(slots=True)
class Data:
    """The first pass: a packet as its sender sends it (or as a member forwards it along a random tree)."""

    kind: ClassVar[str] = "send"
    packet: Packet


@dataclass(slots=True)
class Parity:
    """What `count` packets of the source, from `first` on, have in common: one that is lost follows from the others.

    `content` is the exclusive or of their bodies, `lengths` that of their lengths.
    """

    kind: ClassVar[str] = "parity"
    first: int
    count: int
    lengths: int
    content: bytes
    channel: int = 0


@dataclass(slots=True)
class LossReport:
    """Of your last `of` packets, `lost` did not reach the source by themselves."""

    kind: ClassVar[str] = "ack"
    lost: int
    of: int


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
    have: PacketSets


@dataclass(slots=True)
class Request:
    """Please send these packets. From a member to a logger, or to a peer as soon as a gap is seen."""

    kind: ClassVar[str] = "request"
    wanted: PacketSets


@dataclass(slots=True)
class AskAll:
    """The request of SRM: whoever has these packets, please send them to everybody.

    `distances` says how far the source is from their senders, in microseconds.
    """

    kind: ClassVar[str] = "request"
    wanted: PacketSets
    distances: Horizon = field(default_factory=dict)


@dataclass(slots=True)
class Session:
    """The session message of SRM: the last numbers of senders, as far as the source has seen them.

    `stamp` is the source's clock in microseconds, if it wants to know how far the others are; `echoes` are the clocks
    of others, by member, each with the time added for which it was held here.
    """

    kind: ClassVar[str] = "heartbeat"
    lasts: Horizon
    stamp: int = 0
    echoes: Horizon = field(default_factory=dict)


@dataclass(slots=True)
class RequestFor:
    """Please send these packets to `requester`: the source was asked for them and does not keep them (003 §4)."""

    kind: ClassVar[str] = "request"
    requester: int
    wanted: PacketSets


@dataclass(slots=True)
class MulticastAgain:
    """Please multicast these packets of yours again: the source is not alone in lacking them (003 §5, 1b)."""

    kind: ClassVar[str] = "request"
    wanted: PacketSets


@dataclass(slots=True)
class Digest:
    """The part of a gossip that says what its source has buffered, in its round `round` (004 §4).

    `idle` gives the last numbers of senders from which it has nothing buffered any more. Never changed once it is made:
    members of one process that would say the same share it, and its size on the wire (`wire` enters it).
    """

    round: int
    buffered: PacketSets
    idle: Horizon = field(default_factory=dict)
    size_bytes: int = field(default=0, compare=False)


@dataclass(slots=True)
class Gossip:
    """What a member tells another in a round. Every rung adds its part; a part at its default is not said at all.

    `missing` is what the source lacks and asks for (000 §4.1; empty: nothing is lacking), `digest` what it has to
    offer. `seen` is how far it has all packets of a sender: of every sender if the target is a logger, which derives
    acknowledgements from it (000 §5.2), else of the target. `logged` is how far a logger has logged the target's own
    packets, `logged_in` the same for channels other than 0. `heartbeats` and `view` are hashes of what is known of idle
    senders and of the group; `stamp` is the source's clock in microseconds, to be echoed.
    """

    kind: ClassVar[str] = "gossip"
    missing: PacketSets | None = None
    digest: Digest | None = None
    seen: Horizon = field(default_factory=dict)
    logged: int = -1
    heartbeats: int = 0
    view: int = 0
    stamp: int = 0
    logged_in: Horizon = field(default_factory=dict)

    def says_something(self) -> bool:
        """Whether any rung had anything to say."""
        return (
            self.digest is not None
            or self.missing is not None
            or bool(self.view or self.heartbeats or self.seen or self.stamp or self.logged >= 0 or self.logged_in)
        )


@dataclass(slots=True)
class Collected:
    """The garbage-collected note (000 §4.3): the source had these packets and has collected them."""

    kind: ClassVar[str] = "gossip"
    gone: PacketSets


@dataclass(slots=True)
class NeverSent:
    """Nobody need wait for these numbers: they were never sent (000 §6.2) or, if `lost`, are gone for good."""

    kind: ClassVar[str] = "gossip"
    numbers: PacketSets
    lost: bool = False


@dataclass(slots=True)
class Echo:
    """Answers the `stamp` of a gossip, so that its source learns the round-trip time."""

    kind: ClassVar[str] = "gossip"
    stamp: int


@dataclass(slots=True)
class Heartbeat:
    """The last number of the source in a channel, where it falls idle (000 §5.1) or has been so for a while (LBRM)."""

    kind: ClassVar[str] = "heartbeat"
    last: int
    channel: int = 0


@dataclass(slots=True)
class Heartbeats:
    """The last numbers of idle senders, after two signatures disagreed; `answer` asks for what is lacking here."""

    kind: ClassVar[str] = "heartbeat"
    lasts: Horizon
    answer: bool


@dataclass(slots=True)
class Solicit:
    """Please send these of the packets in the digest of your round `round` (004 §4)."""

    kind: ClassVar[str] = "request"
    round: int
    wanted: PacketSets


@dataclass(slots=True)
class SeenReport:
    """The source has seen your packets in a channel up to, not including, `seen`: credit for a sender's window.

    What it was only told of does not count: it may still be on its way.
    With `at_us` it also tells of the path: `newest` came at that time, by the source's clock in microseconds, and was
    the last of `received` packets that came by first pass. An executor that knows how long a packet had waited on this
    host before it was read takes that off.
    """

    kind: ClassVar[str] = "ack"
    seen: int
    newest: int = 0
    received: int = 0
    at_us: int = 0
    channel: int = 0


@dataclass(slots=True)
class LetGo:
    """The source does not wait for the target, which is slower than most; `over` if it does again.

    Said in every round, since much is lost on a path that is too slow.
    """

    kind: ClassVar[str] = "ack"
    over: bool = False


@dataclass(slots=True)
class HowFar:
    """How far have these senders come? Asked by a member that does not hear the multicast: it has seen this much."""

    kind: ClassVar[str] = "request"
    seen: Horizon


@dataclass(slots=True)
class Progress:
    """The answer to a `HowFar`: the last numbers of senders that the source has seen, as far as they are news."""

    kind: ClassVar[str] = "heartbeat"
    lasts: Horizon


@dataclass(slots=True)
class Confirm:
    """Up to which number do you have all my packets in a channel, of which `last` is the last?"""

    kind: ClassVar[str] = "request"
    last: int
    channel: int = 0


@dataclass(slots=True)
class Confirmed:
    """The answer to a `Confirm`: the source awaits none of your packets in the channel up to `last`."""

    kind: ClassVar[str] = "ack"
    last: int
    channel: int = 0


@dataclass(slots=True)
class Seek:
    """The probe of 001: who is your coordinator? `stamp` is the source's clock in microseconds, to be echoed."""

    kind: ClassVar[str] = "gossip"
    stamp: int


@dataclass(slots=True)
class CoordinatorIs:
    """The answer to a `Seek`: the source follows `coordinator`, which may be itself."""

    kind: ClassVar[str] = "gossip"
    coordinator: int
    stamp: int


@dataclass(slots=True)
class IAmCoordinator:
    """The source coordinates whoever hears this, and lives (001 §4: a null message for all senders at once).

    `lasts` are last numbers of some senders, as the source knew them a while ago: what is on its way is not among them.
    `whole` says that all members of the group follow it.
    """

    kind: ClassVar[str] = "heartbeat"
    lasts: Horizon
    whole: bool = True


@dataclass(slots=True)
class Descendants:
    """DESC of 001: what the source and those that follow it have and lack, to the coordinator that may fill it.

    `lasts` is the highest number of each sender (of all that are known, if `complete`), `missing` what is lacking below
    it. `others` are those that follow the source, each with what it lacks besides. What is missing is wanted now if it
    `asks`; else it will be asked for little by little, as the path allows.
    """

    kind: ClassVar[str] = "gossip"
    lasts: Horizon
    missing: PacketSets
    others: dict[int, PacketSets] = field(default_factory=dict)
    complete: bool = False
    asks: bool = True


@dataclass(slots=True)
class Recall:
    """Which of the packets of before does the log hold that were logged since then (nanoseconds since the epoch)?"""

    kind: ClassVar[str] = "request"
    since_ns: int


@dataclass(slots=True)
class Holdings:
    """A logger's answer to a `Recall` of `since_ns`: these can be asked for. A long answer comes in several parts.

    The first part also says which numbers no packet ever had.
    """

    kind: ClassVar[str] = "gossip"
    numbers: PacketSets
    since_ns: int = 0
    part: int = 0
    parts: int = 1
    never_sent: PacketSets = field(default_factory=dict)


@dataclass(slots=True)
class Piece:
    """One of the pieces of a message that is too long for a datagram; `message` tells which belong together."""

    kind: ClassVar[str] = "gossip"
    message: int
    index: int
    count: int
    content: bytes


@dataclass(slots=True)
class Join:
    """The source wants to be a member; `resume` asks a logger where it stopped before a crash (000 §6.2).

    `alone_us` is for how long it has been a member already, of a group that it founded because nobody answered.
    """

    kind: ClassVar[str] = "gossip"
    entry: MemberEntry
    resume: bool = False
    alone_us: int = 0


@dataclass(slots=True)
class Leave:
    """The source wants to be a member no more; `entries` are others that have left, as perhaps only it knows."""

    kind: ClassVar[str] = "gossip"
    freshness: int
    entries: list[MemberEntry] = field(default_factory=list)


@dataclass(slots=True)
class ViewUpdate:
    """What the source knows of the members; `answer` asks for what is fresher elsewhere.

    To a member that joins it is a sponsorship, and `seen` the sponsor's time TS (000 §5.3).
    """

    kind: ClassVar[str] = "gossip"
    entries: list[MemberEntry]
    answer: bool = False
    seen: Horizon = field(default_factory=dict)
    sponsors: bool = False


@dataclass(slots=True)
class StablePoll:
    """Up to which number do you have all my packets, of which `last` is the last? All members have those to `stable`.

    The answer is a `Confirmed`.
    """

    kind: ClassVar[str] = "request"
    last: int
    stable: int


Message = (
    Data
    | Parity
    | LossReport
    | Repair
    | Ack
    | Request
    | AskAll
    | Session
    | RequestFor
    | MulticastAgain
    | Gossip
    | Collected
    | NeverSent
    | Echo
    | Heartbeat
    | Heartbeats
    | Solicit
    | SeenReport
    | LetGo
    | HowFar
    | Progress
    | Where
    | Here
    | Confirm
    | Confirmed
    | Seek
    | CoordinatorIs
    | IAmCoordinator
    | Descendants
    | Recall
    | Holdings
    | Probe
    | WhoKeeps
    | Profile
    | Call
    | Letter
    | LetterSeen
    | Challenge
    | Proof
    | Piece
    | Join
    | Leave
    | ViewUpdate
    | WantChannels
    | ChannelsSeen
    | WhichMap
    | MapIs
    | StablePoll
    | ViewBeat
    | EnterView
    | Flush
    | NewView
    | FlushAnswer
    | ViewReady
    | Excluded
    | Places
    | PlacesKept
    | PlacesWanted
    | EnterOrder
    | OrderBegins
    | CloseGraph
    | GraphClosed
    | Unplaced
    | BranchEnded
    | Proposed
    | Decided
    | HighestPriority
)
