"""What a member asks of the world, in the imperative, in the order in which it must be done.

The order is part of the meaning. An executor keeps three rules:

- whatever follows a `Persist` or a `ReserveNumbers` waits until that is durable, but for a `SeenReport`, which says
  what came here, and nothing of the log;
- what goes to the application (`Deliver`, `ReportLost` and the like) keeps its order;
- what goes to one destination on the network keeps its order.

Between the network and the application there is no order, because neither can see the other: an executor may send
everything that a step asks for in a few bursts, and then hand over what was delivered.
"""

from dataclasses import dataclass, field

from gossamer.core.ids import Phase
from gossamer.core.messages import Message
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Run


@dataclass(slots=True)
class Multicast:
    """Send to the whole group, unreliably. The sender does not hear itself.

    `hops` limits how far it goes (the TTL of IP multicast); 0 is as far as the group reaches. `to` are the members that
    it is meant for (001 §2.2: a multicast with a list of addresses); nobody means everybody. A network that cannot
    address a part of a group may take it to the others, too.
    """

    message: Message
    hops: int = 0
    to: tuple[int, ...] = ()
    channel: int = 0
    """To whom it goes: all hear channel 0. A packet goes to the channel of its stream, whatever is said here."""


@dataclass(slots=True)
class MulticastRun:
    """Send the first pass of several packets to their channel: the same as a `Multicast` of the `Data` of each."""

    run: Run


@dataclass(slots=True)
class Unicast:
    """Send to one member, unreliably.

    If it may go `later`, hardly anybody waits for it: an executor hands over first what the application waits for, and
    sends it when this has had its turn, or with whatever else is sent before that.
    """

    to: int
    message: Message
    later: bool = False


@dataclass(slots=True)
class Listen:
    """Hear the group's multicast from now on, or not: leave it, so that the network does not carry it here."""

    on: bool


@dataclass(slots=True)
class HearChannels:
    """Hear the multicast of these channels (a bit for each) from now on, and of no others but channel 0."""

    channels: int


@dataclass(slots=True)
class BecomeListener:
    """This member listens to `channels` now, all that are not new among them.

    Of those that are, it is owed what comes after `horizon`.
    """

    channels: int
    horizon: dict[int, int]


@dataclass(slots=True)
class InstallMap:
    """Others have this channel map, which is newer than ours; `content` is how `pubsub` writes it.

    `in_use` tells by which earlier maps they may still publish.
    """

    map: int
    content: bytes
    in_use: bytes = b""


@dataclass(slots=True)
class Announce:
    """These packets now exist: what was published travels under their ids."""

    run: Run


@dataclass(slots=True)
class Refuse:
    """What was published is not accepted (it never becomes a packet); `reason` says what is full."""

    body: bytes
    reason: str


@dataclass(slots=True)
class Deliver:
    """Hand these packets to the application; `phase` is the rung by which they came.

    Where all members have one order, `place` is that of the first of them, and the others follow on; those of a branch
    of the order come after the place `under` of its trunk.
    """

    run: Run
    phase: Phase
    place: int = -1
    under: int = -1


@dataclass(slots=True)
class ReportLost:
    """Tell the application, in its place in the order, that `first..last` of `sender` will not come."""

    sender: int
    first: int
    last: int
    reason: str


@dataclass(slots=True)
class UndoDeliveries:
    """Tell the application that it has to undo these packets, the last first: they come again in other places.

    Each is the number of its sender and its own; some may have been reported as lost. They are all that it got from
    `place` on; in a branch of the order, from that place on after the place `under` of its trunk.
    """

    packets: list[tuple[int, int]]
    place: int
    under: int = -1


@dataclass(slots=True)
class ReportBlocked:
    """Tell the application that nothing can be delivered for now, because the one order of the group cannot go on."""

    reason: str


@dataclass(slots=True)
class TakeBack:
    """Some of `first..last` of `sender` may have been reported as lost: they come now, or are reported again."""

    sender: int
    first: int
    last: int


@dataclass(slots=True)
class MarkStable:
    """Tell the application that every member is taken to have `first..last` of `sender`."""

    sender: int
    first: int
    last: int


@dataclass(slots=True)
class Persist:
    """Write these packets to this member's log. Effects after this one rely on it: wait for the disk.

    What is there under the same numbers stays, unless these are to be there `instead`.
    """

    run: Run
    instead: bool = False


@dataclass(slots=True)
class Replay:
    """Read `first..last` of `sender` from this member's log and send it to `to` as a logger's repairs.

    If it is meant for others as well, these are `also`: then one multicast serves them all.
    """

    to: int
    sender: int
    first: int
    last: int
    also: tuple[int, ...] = ()


@dataclass(slots=True)
class Collect:
    """Delete `first..last` of `sender` from this member's log.

    What a durable reader still wants stays, unless it is `overdue`: it was there for as long as the fail-safe allows.
    """

    sender: int
    first: int
    last: int
    overdue: bool = False


@dataclass(slots=True)
class ForgetCollected:
    """Forget which packets of `sender` were collected from this member's log: nobody will speak of it again."""

    sender: int


@dataclass(slots=True)
class ForgetSender:
    """Forget how far the application is with `sender`: it left long ago, and everything of it was handed over."""

    sender: int


@dataclass(slots=True)
class TellHoldings:
    """Tell `to` which packets this member's log holds that were logged since `since_ns` (of the epoch).

    Tell it also which numbers no packet ever had: they are no holes.
    """

    to: int
    since_ns: int
    never_sent: PacketSets = field(default_factory=dict)


@dataclass(slots=True)
class PastKnown:
    """Tell the application that the past it asked for comes now: what loggers hold; None if none of them answers.

    If they hold packets that are wanted in channels which the member does not hear, these are `elsewhere`, a bit for
    each: then nothing comes, and the application may listen to them and ask again.
    """

    held: PacketSets | None
    elsewhere: int = 0


@dataclass(slots=True)
class HandLetter:
    """Hand a letter of `source` to the application."""

    source: int
    topic: int
    content: bytes


@dataclass(slots=True)
class ReserveNumbers:
    """Write down, durably, that numbers up to `below` may be in use (000 §6.2), before any effect that follows."""

    below: int


@dataclass(slots=True)
class Note:
    """Write a row of the trace that nothing else would cause: a view, a suspicion, a buffer's change."""

    kind: str
    sender: int = -1
    seqno: int = -1
    peer: int = -1
    phase: str = ""


@dataclass(slots=True)
class BecomeMember:
    """The join is complete: this member is owed what comes after `horizon`.

    `missed`, if not empty, is why it was owed more, of which nobody can say what it was.
    """

    horizon: dict[int, int]
    missed: str = ""


@dataclass(slots=True)
class BecomeStranger:
    """The leave is complete: nobody keeps anything for this member any more.

    If the group went on without it before it could leave, `unfinished` says why: what it published last may not have
    reached everybody, as after a crash.
    """

    unfinished: str = ""


@dataclass(slots=True)
class JoinAnew:
    """The group has gone on without this member, or it cannot go on with the group: forget everything but what is
    durable, as after a crash, and join again. What it published last may not have reached everybody."""

    reason: str


@dataclass(slots=True)
class NameTaken:
    """Another process is a member under this one's name: this one cannot be."""


Effect = (
    Multicast
    | MulticastRun
    | Unicast
    | Listen
    | HearChannels
    | BecomeListener
    | InstallMap
    | Announce
    | Refuse
    | Deliver
    | ReportLost
    | UndoDeliveries
    | ReportBlocked
    | TakeBack
    | MarkStable
    | Persist
    | Replay
    | Collect
    | ForgetCollected
    | ForgetSender
    | TellHoldings
    | PastKnown
    | HandLetter
    | ReserveNumbers
    | Note
    | BecomeMember
    | BecomeStranger
    | JoinAnew
    | NameTaken
)
