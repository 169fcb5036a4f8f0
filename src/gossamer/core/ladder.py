"""The contract between a stack and its rungs.

An automaton is a value with two entrances: `step(now, input)` returns the effects in order, and
`next_deadline()` says when it wants a `Woke` input if nothing else happens before. A *rung* is one part of
it: it keeps its own state, reads the member's common state through the `Ladder`, and appends effects to `out`.
Rungs do not know each other. A rung overrides the hooks that concern it; the stack calls only those.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

from gossamer.core.effects import Effect
from gossamer.core.ids import Phase
from gossamer.core.inputs import Input, Started
from gossamer.core.messages import Gossip, Horizon, PerSender
from gossamer.core.packets import Packet, Run
from gossamer.core.peers import Peers
from gossamer.core.protocol import ProtocolSettings
from gossamer.core.ranges import RangeSet
from gossamer.core.service import Service
from gossamer.core.streams import Stream, Streams
from gossamer.core.timers import Timers

Effects = list[Effect]
MessageHandler = Callable[[float, int, Any, Effects], None]
TimerHandler = Callable[[float, Effects], None]
InputHandler = Callable[[float, Any, Effects], None]
UNLIMITED = 1 << 62


class Automaton(Protocol):
    """Anything that the simulator and the live driver can run."""

    def step(self, now: float, happened: Input) -> Effects:
        """Take one input at time `now`; the effects are to be carried out in their order."""

    def next_deadline(self) -> float:
        """When to step with `Woke` if nothing happens before; infinity for never."""


Arrivals = list[Any]
"""A time, the run that came then, the next time, its run, and so on: flat, since every packet of all passes here."""


class Buffer(Protocol):
    """What a member keeps for others (see `gossamer.buffering`)."""

    @property
    def arrivals(self) -> Arrivals | None:
        """Where whoever is in a hurry leaves (time, run) instead of calling `add`; None if that needs to be called."""

    def __len__(self) -> int: ...

    def add(self, now: float, run: Run) -> PerSender:
        """Keep these packets, for as long as the buffer's rule says; what has to go for them."""

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is kept."""

    def occupancy(self, now: float) -> tuple[int, float]:
        """The most packets that were kept, and the mean until `now`."""

    def held(self) -> PerSender:
        """What is kept since the last round's end or before: a table for good, which later changes do not touch."""

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are kept now."""

    def round_over(self, now: float) -> PerSender:
        """A round is over: what has been collected."""


class Ladder(Protocol):
    """What a rung may use of its member."""

    me: int
    address: str
    settings: ProtocolSettings
    rng: Random
    streams: Streams
    timers: Timers
    peers: Peers
    buffer: Buffer
    service: Service
    is_logger: bool
    is_member: bool
    alone: bool
    """Whether this member has founded its group, met nobody since, and so takes in nothing (no logger does that)."""
    logger_congested: bool
    restored: Started

    def stream(self, sender: int) -> Stream:
        """What is known of `sender`; a new one starts at its first number."""

    def learn(self, now: float, source: int, sender: int, last: int, out: Effects) -> None:
        """`source` says that the packets of `sender` up to `last` exist."""

    def full(self) -> str:
        """Why nothing can be sent now; empty if it can."""

    def lacking(self, numbers: PerSender) -> PerSender:
        """What this member's log lacks of `numbers`, and never had."""

    def suspect(self, now: float, member: int, out: Effects) -> None:
        """Nobody hears `member`: take it for disconnected."""

    def rewind(self, now: float, sender: int, first: int, held: RangeSet, out: Effects) -> None:
        """Await the packets of `sender` from `first` on anew, as far as a log holds them."""

    def publish(self, now: float, bodies: Sequence[bytes], out: Effects) -> None:
        """Make packets of `bodies` and send them, unless the member is full."""

    def escalate(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """Peers cannot repair these: the next rung's turn, or a loss if there is none."""

    def give_up(self, now: float, sender: int, first: int, last: int, reason: str, out: Effects) -> None:
        """These will not come: report what is still missing of them as lost."""

    def round_over(self, now: float, out: Effects) -> PerSender:
        """A round is over: let the buffer age; what it has collected."""

    def complete(self, now: float, to: int, gossip: Gossip) -> Gossip:
        """Let every rung add to a gossip that is about to leave."""

    def begin(self, horizon: Horizon) -> None:
        """The member takes part from here on: it is owed what comes after `horizon`."""

    def end(self) -> None:
        """The member takes part no more."""

    def sponsor(self, to: int, resume: bool, horizon: Horizon) -> None:
        """Let every rung correct the horizon at which `to` is to begin, or to resume."""

    def skip(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """These never were: nobody misses them."""


class Rung:
    """One rung: override what concerns it. `messages` and `alarms` name the handlers of its own words."""

    __slots__ = ("ladder",)

    def __init__(self, ladder: Ladder) -> None:
        self.ladder = ladder

    def messages(self) -> Mapping[type, MessageHandler]:
        """The messages this rung answers to."""
        return {}

    def alarms(self) -> Mapping[str, TimerHandler]:
        """The timers this rung sets, by name."""
        return {}

    def inputs(self) -> Mapping[type, InputHandler]:
        """The inputs that concern this rung alone."""
        return {}

    def full(self) -> str:
        """Why nothing can be published now; empty if it can."""
        return ""

    def room(self) -> int:
        """How many more packets may be published now."""
        return UNLIMITED

    def log_lacks(self, numbers: PerSender) -> PerSender:
        """What the log of this rung lacks of `numbers`."""
        return numbers

    def suspected(self, now: float, member: int, out: Effects) -> None:
        """Nobody hears `member`."""

    def unsent(self) -> int:
        """How many published packets wait here for their number."""
        return 0

    def lagging(self) -> list[int]:
        """Receivers that this rung does not wait for."""
        return []

    def settled(self) -> int:
        """Every packet of this member below this number is done with, as far as this rung cares."""
        return UNLIMITED

    def holds(self, now: float, bodies: Sequence[bytes], out: Effects) -> Sequence[bytes]:
        """What may go of what was published; the rest this rung takes over, to `publish` it later or to refuse it."""
        return bodies

    def buffered(self) -> int:
        """How many packets this rung keeps, apart from the member's buffer."""
        return 0

    def started(self, now: float, out: Effects) -> None:
        """The member began."""

    def view_changed(self, now: float, joined: tuple[int, ...], left: tuple[int, ...], out: Effects) -> None:
        """The members are others now."""

    def leave_asked(self, now: float, out: Effects) -> None:
        """The application wants to leave."""

    def disconnecting(self, now: float, out: Effects) -> None:
        """The network is about to go."""

    def reconnected(self, now: float, out: Effects) -> None:
        """The member was cut off and is back."""

    def overheard(self, now: float, source: int) -> None:
        """`source` was heard, by a process that is not in its group yet."""

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """A gossip is about to leave: add what this rung has to say."""

    def sponsoring(self, to: int, resume: bool, horizon: Horizon) -> None:
        """`to` is about to be told to begin at `horizon`: correct it, if this rung knows better."""

    def published(self, now: float, run: Run, out: Effects) -> None:
        """The member published packets."""

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """New packets came (never twice the same)."""

    def repeated(self, now: float, source: int, run: Run, out: Effects) -> None:
        """Packets came of which none was new."""

    def gap_found(self, now: float, source: int, sender: int, first: int, last: int, out: Effects) -> None:
        """`first..last` of `sender` exist and were not received."""

    def gap_escalated(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """`first..last` of `sender` are missing and peers cannot help."""

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """`first..last` of `sender` are not missing any more: received, given up or skipped."""
