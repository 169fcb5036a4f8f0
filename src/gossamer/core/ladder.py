"""The contract between a stack and its rungs.

An automaton is a value with two entrances: `step(now, input)` returns the effects in order, and `next_deadline()` says
when it wants a `Woke` input if nothing else happens before. A *rung* is one part of it: it keeps its own state, reads
the member's common state through the `Ladder`, and appends effects to `out`. Rungs do not know each other. A rung
overrides the hooks that concern it; the stack calls only those, in the order in which `rungs.py` lists the rungs.
Some rungs have a further contract (`parts.py`): repairs, buffers, orders, the pace, the membership.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from gossamer.core.declares import NOTHING, Declares
from gossamer.core.effects import Effect
from gossamer.core.gaps import Gaps
from gossamer.core.hearing import Hearing
from gossamer.core.ids import Phase
from gossamer.core.inputs import Input, Started
from gossamer.core.messages import Gossip
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.packets import Packet, Run
from gossamer.core.peers import Peers
from gossamer.core.ranges import RangeSet
from gossamer.core.repair_queue import RepairQueue
from gossamer.core.request_window import RequestWindow
from gossamer.core.roster import Roster
from gossamer.core.round_trips import RoundTrips
from gossamer.core.settings import ProtocolSettings
from gossamer.core.streams import Stream, Streams
from gossamer.core.timers import Alarm, Timer

if TYPE_CHECKING:
    from gossamer.core.parts import Buffer, Keeper, Membership, Order, Pace

Effects = list[Effect]
MessageHandler = Callable[[float, int, Any, Effects], None]
InputHandler = Callable[[float, Any, Effects], None]
PacketNumbers = Iterable[tuple[int, Iterable[int]]]
"""Senders, each with some of its numbers."""
UNLIMITED = 1 << 62


class Automaton(Protocol):
    """Anything that the simulator and the live driver can run."""

    def step(self, now: float, happened: Input) -> Effects:
        """Take one input at time `now`; the effects are to be carried out in their order."""

    def next_deadline(self) -> float:
        """When to step with `Woke` if nothing happens before; infinity for never."""


class Ladder(Protocol):
    """What a rung may use of its member."""

    me: int
    address: str
    name: str
    """What people call this member."""
    settings: ProtocolSettings
    rng: Random
    streams: Streams
    wanted_channels: int
    """The channels that the application wants to listen to, a bit for each; `streams.channels` are those it hears."""
    known_map: int
    """The channel map that this member knows, and whether it uses it (`membership.channel_maps`)."""
    own: dict[int, Stream]
    """This member's own streams, channel 0's first; the others from their first packets on."""
    roster: Roster
    round_trips: RoundTrips
    peers: Peers
    repair_queue: RepairQueue
    request_window: RequestWindow | None
    """What this member may have asked for at a time, if that follows its path: all rungs that ask share it."""
    gaps: Gaps
    """What is missing: a rung finds gaps, passes them on and gives them up there."""
    buffer: "Buffer"
    keepers: "tuple[Keeper, ...]"
    """Everything that keeps packets for others: the buffer first, the log last."""
    membership: "Membership"
    pace: "Pace"
    order: "Order"
    hearing: Hearing
    acknowledged: dict[int, Horizon]
    """By member: how far it has all packets of a sender, as it said in a gossip with our view of the group."""
    siblings: dict[type, Any]
    """What members of one process share: a rung may keep under its own type what others would make just the same."""
    ignored: Counter[str]
    """How often this member was told what it does not believe, by reason."""
    is_logger: bool
    is_member: bool
    lone_founder: bool
    """Whether this member has founded its group, met nobody since, and so takes in nothing (a logger always does)."""
    restored: Started
    duplicates: int
    """Packets that came more than once."""
    tells_collected: bool
    """Whether anybody wants to hear of `collected`."""
    first_number: int
    """The first number of this life: those below were given to packets of an earlier one, or to none."""

    def timer(self, alarm: Alarm) -> Timer: ...
    def signs_of_life(self) -> dict[int, float]: ...  # when each member was last heard, in any way
    def full(self) -> str: ...  # why nothing can be sent now; empty if it can

    # What a rung may cause.
    def publish(self, now: float, bodies: Sequence[bytes], out: Effects, channel: int = 0) -> None: ...
    def recovered(self, now: float, packet: Packet, phase: Phase, out: Effects) -> None: ...  # as if it had come
    def note(self, kind: str, place: str, packets: PacketNumbers, out: Effects) -> None: ...  # if somebody looks
    def collected(
        self, now: float, numbers: PacketSets, aged: bool, out: Effects, kept: PacketNumbers | None = None
    ) -> None: ...  # left the buffer, or were forgotten; `kept`: what of it left the long-term buffer
    def install_view(self, now: float, roster: Roster, out: Effects) -> None: ...
    def stabilized(self, now: float, sender: int, last: int, out: Effects) -> None: ...  # everybody has these
    def retire(self, now: float, sender: int) -> None: ...  # it has left, and everything of it is here
    def revive(self, now: float, sender: int) -> None: ...  # somebody may have missed it
    def begin(self, horizon: Horizon, founds: bool = False) -> None: ...  # the member is owed what comes after it
    def end(self) -> None: ...  # the member takes part no more


class Rung:
    """One rung: override what concerns it."""

    __slots__ = ("ladder",)

    gossips: ClassVar[bool] = False
    """Whether this rung needs the member to gossip, not only to be asked when it does."""
    from_strangers: ClassVar[tuple[type, ...]] = ()
    """The messages that concern this rung even if they come from a process that is not in the view.

    To answer one with more bytes than it cost would lend an attacker our line."""

    def __init__(self, ladder: Ladder) -> None:
        self.ladder = ladder

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """What this rung promises, needs and provides with these settings."""
        return NOTHING

    def messages(self) -> Mapping[type, MessageHandler]:
        """The messages this rung answers to."""
        return {}

    def inputs(self) -> Mapping[type, InputHandler]:
        """The inputs that concern this rung alone."""
        return {}

    # What happens to the member. Hooks that nobody overrides cost nothing.
    def started(self, now: float, out: Effects) -> None: ...
    def view_changed(self, now: float, before: Roster, out: Effects) -> None: ...  # `ladder.roster` is the new one
    def leaving(self, now: float, out: Effects) -> None: ...
    def disconnecting(self, now: float, out: Effects) -> None: ...
    def reconnected(self, now: float, out: Effects) -> None: ...
    def round_over(self, now: float, number: int, out: Effects) -> None: ...
    def gossiping(self, now: float, to: int, gossip: Gossip) -> None: ...  # add what this rung has to say

    # What happens to packets.
    def published(self, now: float, run: Run, out: Effects) -> None: ...
    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None: ...  # all of them new
    def repeated(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None: ...  # none of them new
    def repair_heard(self, now: float, run: Run) -> None: ...  # somebody sent them as a repair, and none of them is new
    def repaired(self, now: float, source: int, run: Run) -> None: ...  # they were missing, and `source` sent them
    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None: ...  # no longer missing
    def collected(self, now: float, numbers: PacketSets, aged: bool, out: Effects) -> None: ...  # left the buffer
    def retracted(self, now: float, sender: int, last: int, own: RangeSet) -> None:
        """`sender` had not sent anything above `last` when it was asked; `own` is what it has sent since."""

    def stabilized(self, now: float, sender: int, last: int, out: Effects) -> None: ...  # all have those up to `last`

    # What happens to senders that left.
    def retired(self, now: float, sender: int) -> None: ...  # forget it; `ladder.streams` still has it
    def revived(self, now: float, sender: int) -> None: ...  # speak of it again

    # What others may want to know.
    def full(self) -> str:
        """Why nothing can be published now; empty if it can."""
        return ""

    def settled(self, stream: int) -> int:
        """Every packet of `stream`, one of this member's, below this number is done with, as far as this rung cares."""
        return UNLIMITED

    def unconfirmed(self) -> dict[int, int]:
        """Members that may lack packets of this member, as far as this rung knows, and how many each may lack."""
        return {}

    def partition(self, now: float) -> dict[str, Any]:
        """Where this member stands in a group that may be divided, for those who look; empty if the rung knows not."""
        return {}

    def buffered(self) -> int:
        """How many packets this rung keeps, apart from the member's buffer."""
        return 0

    def unlogged(self, stream: int) -> int:
        """The last packet of `stream`, one of this member's, that was not kept until a logger had it; or -1."""
        return -1

    def unexplained(self) -> bool:
        """Whether there are numbers of earlier lives of this member that others may await, once it has gone."""
        return False
