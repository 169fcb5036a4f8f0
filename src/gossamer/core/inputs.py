"""What happened to a member, in the past tense: all that ever goes into an automaton."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gossamer.core.effects import Deliver, Effect
from gossamer.core.ids import Phase
from gossamer.core.messages import Message
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.packets import Run


class LogSpan(NamedTuple):
    """Packets of `sender` that came to a log about together, up to `last`."""

    at: float
    sender: int
    last: int
    size_bytes: int


@dataclass(slots=True)
class Started:
    """The member begins, or begins again after a crash that lost its memory.

    `horizon` gives, for senders that were there before it, the last number that it is not owed. The rest is
    what durable storage kept: whether it `recovers`, the numbers that are `reserved`, the packets `logged` and those
    `collected` from the log, and, as far as it is known, when and how much was `stored`.
    """

    horizon: Horizon
    recovers: bool = False
    reserved: int = 0
    logged: PacketSets = field(default_factory=dict)
    collected: PacketSets = field(default_factory=dict)
    stored: list[LogSpan] = field(default_factory=list)


@dataclass(slots=True)
class ViewChanged:
    """Somebody outside (an oracle, an operator) says who the members are now, and which channels they listen to."""

    members: tuple[int, ...]
    listening: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class LeaveAsked:
    """The application wants to leave the group."""


@dataclass(slots=True)
class ConfirmAsked:
    """The application wants to know whether all members have what it published."""


@dataclass(slots=True)
class GoAsked:
    """The application is about to leave: the others should not count on this member any more (`Order.may_go`)."""


@dataclass(slots=True)
class Disconnecting:
    """The network is about to go; the member will be back."""


@dataclass(slots=True)
class Reconnected:
    """The network is back."""


@dataclass(slots=True)
class Paused:
    """The member has stopped reading what comes, because the application is slow; its clock goes on."""


@dataclass(slots=True)
class Resumed:
    """The member reads again."""


@dataclass(slots=True)
class NamesakeHeard:
    """Another process speaks under this member's number: `message` is what it says."""

    message: Message


@dataclass(slots=True)
class MapKnown:
    """The application has this channel map and, if it is `used`, publishes by it; `content` is how `pubsub` writes it.

    The application listens to what the map asks for by now. `in_use` tells by which earlier maps members may publish.
    """

    map: int
    content: bytes
    used: bool = False
    in_use: bytes = b""


class Published:
    """The application published events to a channel, packed into the bodies of packets."""

    __slots__ = ("bodies", "channel")

    def __init__(self, *bodies: bytes, channel: int = 0) -> None:
        self.bodies = bodies
        self.channel = channel


@dataclass(slots=True)
class ListenAsked:
    """The application wants to listen to these channels (a bit for each), and to no others but channel 0.

    Where an oracle gives the views it also says what is not owed in channels that are new: the `horizon`.
    """

    channels: int
    horizon: Horizon = field(default_factory=dict)


class Received:
    """A run of packets came from `source`, which need not be their sender."""

    __slots__ = ("delivered", "first", "following", "last", "phase", "run", "sender", "source")

    def __init__(self, source: int, run: Run, phase: Phase) -> None:
        self.source, self.run, self.phase = source, run, phase
        self.sender, self.first, self.last = run[0].sender, run[0].seqno, run[-1].seqno
        self.following = self.last + 1
        """The number after the last: one object, however many members expect it next."""
        self.delivered: list[Effect] = [Deliver(run, phase)]
        """The effects if the run is just delivered, the usual case: made once, however many members receive it."""


@dataclass(slots=True)
class Heard:
    """A message that carries no packet came from `source`."""

    source: int
    message: Message


@dataclass(slots=True)
class RewindAsked:
    """The application wants packets of before again, as far as a logger holds them.

    Those logged since `since_ns` (of the epoch), but of senders in `positions` those from that number on.
    """

    since_ns: int
    positions: Horizon


@dataclass(slots=True)
class LetterWritten:
    """The application has something for the application of one other member, by `topic`."""

    to: int
    topic: int
    content: bytes


@dataclass(slots=True)
class Committed:
    """The durable readers of this member's log have done with this much, each by sender (as it is now)."""

    consumers: dict[str, Horizon]


@dataclass(slots=True)
class DamageFound:
    """Packets in this member's log cannot be read any more; `asked_by` is the member that wanted them, if any."""

    sender: int
    first: int
    last: int
    asked_by: int = -1


@dataclass(slots=True)
class Woke:
    """The time that `next_deadline()` named has come."""


Input = (
    Started
    | ViewChanged
    | LeaveAsked
    | ConfirmAsked
    | GoAsked
    | Disconnecting
    | Reconnected
    | Paused
    | Resumed
    | ListenAsked
    | MapKnown
    | Published
    | Received
    | Heard
    | NamesakeHeard
    | RewindAsked
    | LetterWritten
    | Committed
    | DamageFound
    | Woke
)
