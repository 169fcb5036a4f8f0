"""Members as views hold them, and what members say to agree on a view, on who listens to what, and on channel maps."""

from dataclasses import dataclass, field
from typing import ClassVar

from gossamer.core.packet_sets import Horizon, PacketSets

NAME_CHARACTERS_MAX = 100
"""Of what people call a member."""


@dataclass(slots=True)
class MemberEntry:
    """One member as a view holds it: of two entries the fresher one counts (000 §5.3)."""

    member: int
    status: int
    freshness: int
    logger: bool = False
    address: str = ""
    """Where the live system reaches it; the simulator needs none."""
    name: str = ""
    """What people call it, as it said itself when it joined."""
    channels: int = 0
    """The channels that it listens to besides channel 0, a bit for each; a logger listens to all."""
    map: int = 0
    """The channel map that it knows, and whether it uses it (`channel_maps`); 0 if it knows of none."""


@dataclass(slots=True)
class ViewBeat:
    """The source lives, and is in the view with this number; `settled` if it knows that all members of it are.

    `attempt` is the latest attempt to change the view that it heard of, or one more if it asks for a change; else 0.
    """

    kind: ClassVar[str] = "heartbeat"
    view: int
    attempt: int = 0
    settled: bool = False


@dataclass(slots=True)
class EnterView:
    """The source wants to be in the next view; `first` will be its first packet."""

    kind: ClassVar[str] = "gossip"
    entry: MemberEntry
    first: int


@dataclass(slots=True)
class Flush:
    """The source changes the view: send nothing new, take in nothing more of those that are `out`, say what you have.

    `attempt` and source order the attempts to change one view: a member does nothing for an earlier one any more.
    """

    kind: ClassVar[str] = "gossip"
    view: int
    attempt: int
    out: Horizon = field(default_factory=dict)
    """The members that do not answer, each with a 0."""


@dataclass(slots=True)
class NewView:
    """The view that follows: proposed in an attempt or, once most members of the last one agree, `decided`.

    `entries` are its members, the oldest first. Of each sender of the last view, packets up to `cut` belong to that
    view, and the member in `holders` has them; in the new view a sender begins at the number in `starts`.
    """

    kind: ClassVar[str] = "gossip"
    view: int
    attempt: int
    entries: list[MemberEntry]
    cut: Horizon
    starts: Horizon
    holders: Horizon
    decided: bool = False


@dataclass(slots=True)
class FlushAnswer:
    """The answer to a `Flush`: how far the source has the packets of each sender in order, and which it still keeps.

    If it has agreed to a view in an earlier attempt, of `by`, that is told as well; else `entries` are empty.
    """

    kind: ClassVar[str] = "gossip"
    view: int
    attempt: int
    have: Horizon
    kept: PacketSets = field(default_factory=dict)
    by: int = 0
    accepted_attempt: int = 0
    entries: list[MemberEntry] = field(default_factory=list)
    cut: Horizon = field(default_factory=dict)
    starts: Horizon = field(default_factory=dict)


@dataclass(slots=True)
class ViewReady:
    """The source has everything up to the cut of the view that was proposed in this attempt, and agrees to it."""

    kind: ClassVar[str] = "ack"
    view: int
    attempt: int


@dataclass(slots=True)
class Excluded:
    """The group has gone on to this view, without the target."""

    kind: ClassVar[str] = "gossip"
    view: int


@dataclass(slots=True)
class WantChannels:
    """The source, which is in the view as `entry` says, listens to these channels from now on, a bit for each.

    How far are the streams in them? `resume` asks a logger where the source stopped before a crash.
    """

    kind: ClassVar[str] = "gossip"
    entry: MemberEntry
    channels: int
    resume: bool = False


@dataclass(slots=True)
class ChannelsSeen:
    """The answer to a `WantChannels` of this freshness: how far the source has seen the streams in `channels`."""

    kind: ClassVar[str] = "gossip"
    freshness: int
    channels: int
    seen: Horizon


@dataclass(slots=True)
class WhichMap:
    """Please send the channel map that you know, if it is this one or a later one."""

    kind: ClassVar[str] = "request"
    map: int


@dataclass(slots=True)
class MapIs:
    """The channel map that the source knows, as `pubsub` writes it; `in_use` is what members may still publish by."""

    kind: ClassVar[str] = "gossip"
    map: int
    content: bytes
    in_use: bytes = b""
