"""The rungs that have a further contract: there is one of each in every stack, or a chain of them.

A gap goes to the first `Repair` of the chain, and from there to the next (`Gaps.escalate`) until it is filled, given
up or found never to have been. The `Order` decides when a packet reaches the application, the `Buffer` what is kept for
others, the `Pace` when something published may be sent, the `Membership` who belongs to the group.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any, ClassVar

from gossamer.core.ids import Phase
from gossamer.core.inputs import Received
from gossamer.core.ladder import UNLIMITED, Effects, Rung
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.packets import Packet, Run
from gossamer.core.ranges import RangeSet
from gossamer.core.streams import Stream
from gossamer.core.views import MemberEntry

_NOTHING = RangeSet()


class Repair(Rung):
    """A way to fill gaps."""

    __slots__ = ()

    place: ClassVar[str] = ""
    """Where it must stand in a chain of repairs: `first`, `last`, or anywhere."""
    asks: ClassVar[bool] = True
    """Whether it asks others by a `Request`, or a gossip that says what is missing, which the server answers."""
    by_multicast: ClassVar[bool] = False
    """Whether its repairs come by multicast alone, so that a member that does not listen gets none."""
    from_log: ClassVar[bool] = False
    """Whether it asks the durable log, which also has what was sent before this member joined."""

    def repair(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """`first..last` of `sender` are missing, and it is this rung's turn."""
        raise NotImplementedError

    def release(self, sender: int, first: int, last: int) -> None:
        """Another rung's turn: these are not this one's business any more."""

    def ready(self) -> bool:
        """Whether it can do anything for a gap now."""
        return True

    def eager(self, now: float) -> bool:
        """Whether gaps should come here at once, past the repairs before this one."""
        return False


class Keeper(Rung):
    """A rung that keeps packets which others may ask for."""

    __slots__ = ()

    on_disk: ClassVar[bool] = False
    """Whether packets have to be read from the member's log (`Replay`) in place of a call of `get`."""

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are kept now."""
        raise NotImplementedError

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is kept."""
        return None

    def lost_of(self, sender: int, numbers: RangeSet, asked_by: int) -> RangeSet:
        """Which of `numbers` were here and are gone permanently, so that nobody need wait for them."""
        return _NOTHING

    def never_sent_of(self, sender: int, numbers: RangeSet, asked_by: int) -> RangeSet:
        """Which of `numbers` no packet has, as this keeper alone knows; their neighbours may come with them."""
        return _NOTHING

    def asked_in_vain(self, now: float, sender: int, numbers: RangeSet, out: Effects) -> None:
        """Somebody asked for `numbers`, and nobody here knows anything of them."""


class Buffer(Keeper):
    """What a member keeps for its peers, for as long as the buffer's rule says."""

    __slots__ = ()

    arrivals: list[Any] | None = None
    """A list that takes time and run of whatever comes, in place of a call of `keep`; None if `keep` must be called.
    It is flat (a time, the run that came then, the next time, its run, ...) since every packet of all passes here."""
    keeps: ClassVar[bool] = True
    """Whether anything is ever kept."""
    selects: ClassVar[bool] = False
    """Whether members keep different packets, so that a request may have to be passed on."""

    def __len__(self) -> int:
        raise NotImplementedError

    def keep(self, now: float, run: Run, out: Effects) -> None:
        """Store the run, evicting what has to go for it."""
        raise NotImplementedError

    def held(self) -> PacketSets:
        """What can be offered to others: a table that later changes do not touch."""
        raise NotImplementedError

    def occupancy(self, now: float) -> tuple[int, float]:
        """The most packets that were kept, and the mean until `now`."""
        raise NotImplementedError

    def standing(self) -> dict[str, Any]:
        """What is in it, for those who look; empty if the number of packets says it all."""
        return {}

    def drop(self, now: float, sender: int, first: int, out: Effects) -> None:
        """Let go of the packets of `sender` from `first` on: they come again, or belong to no view.

        Only where views are agreed on.
        """

    # Where members keep different packets.

    def bufferers_of(self, sender: int, seqno: int) -> list[int] | None:
        """The members that should keep a packet for long; None if all members keep alike."""
        return None

    def holders_of(self, wanted: PacketSets, *, but: tuple[int, ...]) -> tuple[dict[int, PacketSets], PacketSets]:
        """By member: what of `wanted` to ask it for; and what nobody keeps, except perhaps `but`.

        Nothing in either, if all members keep alike.
        """
        return {}, {}

    def pass_on(self, now: float, requester: int, wanted: PacketSets, out: Effects) -> PacketSets:
        """Have others send `wanted`, which is not kept here, to `requester`; returns what they may have of it."""
        return {}


class Order(Rung):
    """When a packet that was received, or published here, reaches the application.

    Its own `published` decides when the member's own packets do.
    """

    __slots__ = ()

    in_stream_order: ClassVar[bool] = True
    """Whether a run that follows on in its stream is delivered at once, if nothing before it is missing."""
    holds_back: ClassVar[bool] = False
    """Whether a gap holds back what follows it in its stream."""
    replays: ClassVar[bool] = False
    """Whether the past, if it is asked for again, is delivered before what has come since."""

    def begun(self, founds: bool) -> None:
        """The member takes part from here on, as a new one; whether nobody answered it, so that it founds the group."""

    def blocked(self) -> str:
        """Why the order cannot go on now; empty if it can."""
        return ""

    def standing(self, now: float) -> dict[str, Any]:
        """What this member knows of the order, for those who look; empty if it is the streams' own."""
        return {}

    def begins_after(self, horizon: Horizon, channels: int) -> Horizon:
        """After which numbers a member is owed the streams of `channels`, if others say that they are so far.

        Nothing comes again that it heard when it listened before.
        """
        return {stream: max(last, self.ladder.streams.prefix_of(stream)) for stream, last in horizon.items()}

    def done_with(self, stream: int) -> int:
        """The number up to which this member needs nothing of `stream` any more, whatever becomes of it."""
        return self.ladder.streams.prefix_of(stream)

    def may_go(self) -> bool:
        """Whether this member may leave now: the others do without it. If not, `GoAsked` asks them to."""
        return True

    def admits(self, channel: int) -> bool:
        """Whether this member may begin to hear `channel` now."""
        return True

    def onward(self, stream: int) -> tuple[int, ...]:
        """Where this member sends, or passes on, packets of `stream` that travel along the graph of the order."""
        return ()

    def is_full(self) -> bool:
        """Whether so much is held back that senders of which much waits have no room for more."""
        return False

    def has_room_for(self, sender: int) -> bool:
        """Whether first passes of `sender` should be taken in that have to wait."""
        return not self.is_full()

    def urgent(self, wanted: PacketSets) -> PacketSets:
        """Of the missing packets `wanted`, those that may come now; the others would wait where there is no room."""
        return wanted

    def hold(self, happened: Received) -> None:
        """A run followed on in its stream while something before it is missing; called only if that holds it back."""
        raise NotImplementedError

    def arrived(self, now: float, parts: list[Run], phase: Phase, stream: Stream, out: Effects) -> None:
        """New packets of one sender came, in one or more runs."""
        raise NotImplementedError

    def given_up(self, now: float, sender: int, first: int, last: int, why: str, stream: Stream, out: Effects) -> None:
        """These will not come; without a reason there is nothing to report, because they never were."""
        raise NotImplementedError

    def rewound(self, sender: int, first: int) -> None:
        """Everything of `sender` from `first` on is awaited again: what is held of it comes again, or is lost again."""

    def taken_back(self, sender: int, first: int, last: int) -> None:
        """These were given up and are awaited again: a loss that still waits for its turn is none."""


@dataclass(frozen=True, slots=True)
class PathLimits:
    """The path to one receiver, as a sender sees it; in bytes per second and seconds."""

    rate: float
    delivered: float
    queueing: float
    round_trip: float
    loss: float
    contested: bool
    """Whether others keep the path's queue full."""


@dataclass(frozen=True, slots=True)
class PaceLimits:
    """What sets the pace of a sender."""

    rate: float = inf
    """Bytes per second; infinite if nothing limits it."""
    held_by: str = "application"
    """What kept it from sending more when it last looked: there was nothing to send, or the window was closed, ..."""
    receiver: int | None = None
    """The receiver on whose account that was, if there is one."""
    paths: dict[int, PathLimits] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """As plain data; a rate of None is unlimited."""
        paths = {str(member): asdict(path) for member, path in self.paths.items()}
        rate = self.rate if self.rate < inf else None
        return {"rate": rate, "held_by": self.held_by, "receiver": self.receiver, "paths": paths}


class Pace(Rung):
    """How fast a member may publish. This one sets no limit."""

    __slots__ = ()

    def admit(self, now: float, bodies: Sequence[bytes], out: Effects, channel: int = 0) -> Sequence[bytes]:
        """What of `bodies` may be sent to `channel` now; the rest this rung queues, to `publish` it later, or refuses.

        It keeps the order of what goes to one channel.
        """
        return bodies

    def room(self) -> int:
        """How many more packets may be published now."""
        return 0 if self.ladder.full() else UNLIMITED

    def unsent(self) -> int:
        """How many published packets wait for their turn."""
        return 0

    def lagging(self) -> list[int]:
        """Receivers that the sender does not wait for, because they cannot keep up."""
        return []

    def fills_path(self, now: float) -> bool:
        """Whether there is more to send than the path carries, so that whatever else is sent takes room from it."""
        return False

    def awaits_receivers(self, stream: int) -> bool:
        """Whether more of this stream follows as soon as receivers report that they have what was sent."""
        return False

    def limits(self) -> PaceLimits:
        """How fast the member may send now, and what keeps it from sending more."""
        return PaceLimits()


class Membership(Rung):
    """Who belongs to the group. This one is told by an oracle (`ViewChanged`)."""

    __slots__ = ()

    self_organized: ClassVar[bool] = False
    """Whether members find out for themselves who belongs to the group."""
    outside: ClassVar[tuple[type, ...]] = ()
    """The messages that a process deals with while it is not in the group."""

    only_members: ClassVar[bool] = False
    """Whether nothing is taken in of senders outside the view; else their packets may come before the news of them."""

    asks: ClassVar[bool] = False
    """Whether it asks others for packets by a `Request`, which the server answers."""

    def declare_channels(self, now: float, out: Effects) -> None:
        """Tell everybody what this member wants to listen to now. An oracle does that itself."""

    def own_entry(self) -> MemberEntry | None:
        """This member as it says it is; None if it is none."""
        return None

    def take_in(self, now: float, entry: MemberEntry, out: Effects) -> bool:
        """A member says this of itself; returns whether it is what we hold of it now."""
        return False

    def is_back(self, member: int) -> bool:
        """Whether it crashed and is back, so that there is something to go on with."""
        return False

    agreed: ClassVar[bool] = False
    """Whether all members have one view, and what one of them has in it all of them get."""

    def changing(self) -> bool:
        """Whether the view changes, or members may not be in it yet that need packets of the last one."""
        return False

    def stuck(self, now: float, out: Effects) -> bool:
        """This member lacks what nobody gives it; returns whether the group now finds out if it can stay."""
        return False

    def suspect(self, now: float, member: int, out: Effects) -> None:
        """Nobody hears `member`."""

    def overheard(self, now: float, source: int) -> None:
        """`source` was heard while this process is not in the group."""
