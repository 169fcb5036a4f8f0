"""One member's protocol: the rungs put together.

A packet climbs: published -> first pass -> accepted, or a gap -> repair by peers -> repair by a logger -> order
-> delivered. The stack does what every protocol shares: it numbers what is published, accepts each packet at most
once, and passes a gap from rung to rung until it is filled, given up or found never to have been. The rest is
the rungs' (`rungs.py` says which). `presets.py` has the choices of rungs and numbers by name.
"""

import functools
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from gossamer.core.effects import Announce, CheckOut, Note, Refuse
from gossamer.core.ids import FIRST_PASS
from gossamer.core.inputs import (
    Disconnecting,
    Heard,
    Input,
    LeaveAsked,
    Paused,
    Published,
    Received,
    Reconnected,
    Resumed,
    Started,
    ViewChanged,
    Woke,
)
from gossamer.core.ladder import UNLIMITED, Effects, Rung
from gossamer.core.lanes import Lanes
from gossamer.core.messages import Gossip, Horizon, Join, Leave, Members, PerSender
from gossamer.core.packets import Packet, Run, split_into_runs
from gossamer.core.peers import Peers
from gossamer.core.protocol import ProtocolSettings
from gossamer.core.ranges import RangeSet
from gossamer.core.service import TIMER, Service
from gossamer.core.streams import Stream, Streams
from gossamer.core.timers import Timers
from gossamer.rungs import ORDERS, buffer_of, rungs_of

Worth = Callable[[int, int, int], bool]
"""The application's say (000 §2.2, §3.3): whether `first..last` of a sender are worth asking for."""


class Stack:
    """The automaton of one member. Also the `Ladder` that its rungs see."""

    __slots__ = (  # thousands of stacks run side by side in a simulation
        "_alarms",
        "_arrivals",
        "_checked_out",
        "_fullness",
        "_holders",
        "_holds_back",
        "_keeps",
        "_lanes",
        "_messages",
        "_observed",
        "_on",
        "_on_accepted",
        "_on_disconnecting",
        "_on_gap_closed",
        "_on_gap_escalated",
        "_on_gap_found",
        "_on_gossiping",
        "_on_leave_asked",
        "_on_overheard",
        "_on_published",
        "_on_reconnected",
        "_on_repeated",
        "_on_sponsoring",
        "_on_started",
        "_on_view_changed",
        "_order",
        "_rooms",
        "_rungs",
        "_worth",
        "address",
        "alone",
        "buffer",
        "duplicates",
        "is_logger",
        "is_member",
        "logger_congested",
        "me",
        "peers",
        "restored",
        "rng",
        "service",
        "settings",
        "streams",
        "timers",
    )

    def __init__(
        self,
        me: int,
        members: tuple[int, ...],
        settings: ProtocolSettings,
        rng: Random,
        *,
        loggers: tuple[int, ...] = (),
        address: str = "",
        worth: Worth | None = None,
        observed: bool = False,
        lanes: Lanes | None = None,
    ) -> None:
        self.me = me
        self.address = address
        self.settings = settings
        self.rng = rng
        self.is_logger = me in loggers
        self.is_member = True
        self.alone = False
        self.logger_congested = False
        self.duplicates = 0
        self.restored = Started({})
        self.streams: Streams = {me: Stream()}
        self.timers = Timers()
        self.peers = Peers(me, members, loggers, settings.selection)
        self.buffer = buffer_of(settings)
        self.service = Service(settings.service_limit, settings.service_queue, self.timers)
        self._worth = worth
        self._observed = observed  # whether somebody wants to see the buffer change
        self._arrivals = None if observed else self.buffer.arrivals
        self._keeps = settings.buffering != "none" and self._arrivals is None
        self._checked_out = 0
        self._lanes = lanes
        self._order = ORDERS[settings.ordering]()
        self._holds_back = settings.ordering != "none"
        self._rungs = rungs_of(self)
        self._on: dict[type, Callable[[float, Any, Effects], None]] = {
            Received: self._received,
            Heard: self._heard,
            Woke: self._woke,
            Published: self._published,
            Started: self._started,
            ViewChanged: self._view_changed,
            LeaveAsked: lambda now, happened, out: self._call(self._on_leave_asked, now, out),
            Disconnecting: lambda now, happened, out: self._call(self._on_disconnecting, now, out),
            Reconnected: lambda now, happened, out: self._call(self._on_reconnected, now, out),
            Paused: _of_no_concern,
            Resumed: _of_no_concern,
        }
        self._index_hooks()

    # The automaton.

    def step(self, now: float, happened: Input) -> Effects:
        """Take one input; the effects are to be carried out in their order."""
        out: Effects = []
        if type(happened) is Received:
            stream = self.streams.get(happened.sender)
            if (
                stream is not None
                and stream.nexts[stream.at] == happened.first
                and happened.sender != self.me
                and self.is_member
            ):
                # The short path: the run follows on from what came before (`Lanes.advance` takes it for many at once).
                stream.nexts[stream.at] = happened.following
                arrivals = self._arrivals
                if arrivals is not None:
                    arrivals.append(now)
                    arrivals.append(happened.run)
                elif self._keeps:
                    self._keep(now, happened.run, out)
                for hook in self._on_accepted:
                    hook(now, happened.source, happened.run, happened.phase, out)
                if self._holds_back and stream.missing.firsts:
                    self._order.hold(happened)
                    return out
                return happened.delivered + out if out else happened.delivered
        elif type(happened) is Heard:  # these two are all that happens while nothing is published
            self._heard(now, happened, out)
            return out
        elif type(happened) is Woke:
            self._woke(now, happened, out)
            return out
        self._on[type(happened)](now, happened, out)
        return out

    def next_deadline(self) -> float:
        """When to step with `Woke` if nothing happens before."""
        return self.timers.next

    def buffered(self) -> int:
        """How many packets this member keeps for others."""
        return len(self.buffer) + sum(rung.buffered() for rung in self._rungs)

    def occupancy(self, now: float) -> tuple[int, float]:
        """The most packets that the buffer held, and the mean until now."""
        return self.buffer.occupancy(now)

    def room(self) -> int:
        """How many more packets may be published before one is refused."""
        return 0 if self.full() and not self._holders else min([room() for room in self._rooms], default=UNLIMITED)

    def unsent(self) -> int:
        """How many published packets have not been sent yet."""
        return sum(rung.unsent() for rung in self._rungs)

    def lagging(self) -> list[int]:
        """Members that this sender does not wait for, because they cannot keep up."""
        return [member for rung in self._rungs for member in rung.lagging()]

    def settled(self) -> int:
        """Every packet of this member below this number was sent and, if there is a logger, is logged."""
        return min(self.streams[self.me].next, *(rung.settled() for rung in self._rungs))

    # What rungs may use (see `Ladder`).

    def stream(self, sender: int) -> Stream:
        """What is known of `sender`; a new one starts at its first number."""
        if sender not in self.streams:
            self._begin_stream(sender, 0)
        return self.streams[sender]

    def learn(self, now: float, source: int, sender: int, last: int, out: Effects) -> None:
        """`source` says that the packets of `sender` up to `last` exist."""
        if sender != self.me:
            gap = self.stream(sender).learn(last)
            if gap is not None:
                self._gap_found(now, source, sender, *gap, out)

    def escalate(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """Peers cannot repair these: the next rung's turn, or a loss if there is none."""
        if not self.peers.loggers:
            self.give_up(now, sender, first, last, "collected", out)
        for part in self.stream(sender).missing.within(first, last):
            self._call(self._on_gap_escalated, now, sender, *part, out)

    def give_up(self, now: float, sender: int, first: int, last: int, reason: str, out: Effects) -> None:
        """These will not come: report what is still missing of them as lost."""
        stream = self.stream(sender)
        for part in stream.missing.within(first, last):
            stream.give_up(*part)
            self._call(self._on_gap_closed, now, sender, *part, out)
            self._order.given_up(sender, *part, reason, stream, out)

    def round_over(self, now: float, out: Effects) -> PerSender:
        """A round is over: let the buffer age; what it has collected."""
        collected = self.buffer.round_over(now)
        if self._observed:
            self._note_collected(collected, out)
        return collected

    def complete(self, now: float, to: int, gossip: Gossip) -> Gossip:
        """Let every rung add to a gossip that is about to leave."""
        self._call(self._on_gossiping, now, to, gossip)
        return gossip

    def begin(self, horizon: Horizon) -> None:
        """The member takes part from here on: it is owed what comes after `horizon`."""
        self.is_member = True
        for sender, last in horizon.items():
            if sender != self.me:
                self._begin_stream(sender, last + 1)

    def end(self) -> None:
        """The member takes part no more."""
        self.is_member = False
        self.streams = {self.me: self.streams[self.me]}
        if self._lanes is not None:
            self._lanes.enter(self.me, self._arrivals)

    def sponsor(self, to: int, resume: bool, horizon: Horizon) -> None:
        """Let every rung correct the horizon at which `to` is to begin, or to resume."""
        self._call(self._on_sponsoring, to, resume, horizon)

    def skip(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """These never were: nobody misses them."""
        self.give_up(now, sender, first, last, "", out)

    def full(self) -> str:
        """Why nothing can be sent now; empty if it can."""
        for full in self._fullness:
            if reason := full():
                return reason
        return ""

    def lacking(self, numbers: PerSender) -> PerSender:
        """What this member's log lacks of `numbers`, and never had."""
        return functools.reduce(lambda rest, rung: rung.log_lacks(rest), self._rungs, numbers)

    def suspect(self, now: float, member: int, out: Effects) -> None:
        """Nobody hears `member`: take it for disconnected."""
        for rung in self._rungs:
            rung.suspected(now, member, out)

    def rewind(self, now: float, sender: int, first: int, held: RangeSet, out: Effects) -> None:
        """Await the packets of `sender` from `first` on anew, as far as a log holds them, in their old order."""
        stream = self.stream(sender)
        wanted, holes = stream.rewind(first, held)
        self._order.rewound(sender, first)
        for hole in holes.ranges():
            self._order.given_up(sender, *hole, "not in the log", stream, out)
        for part in wanted.ranges():
            self._call(self._on_gap_escalated, now, sender, *part, out)

    # Putting it together.

    def _begin_stream(self, sender: int, start: int) -> None:
        """From here on `sender` is heard; side by side with what others hear of it, if that may be."""
        if self._lanes is None or sender == self.me:
            self.streams[sender] = Stream(start)
        else:
            self.streams[sender] = Stream(start, self._lanes.of(sender), self.me)

    def _index_hooks(self) -> None:
        """Find out once who overrides what, so that nobody pays for hooks that do nothing."""

        def overriding(hook: str) -> list[Any]:
            own = (rung for rung in self._rungs if getattr(type(rung), hook) is not getattr(Rung, hook))
            return [getattr(rung, hook) for rung in own]

        self._on_started = overriding("started")
        self._on_view_changed = overriding("view_changed")
        self._on_leave_asked = overriding("leave_asked")
        self._on_disconnecting = overriding("disconnecting")
        self._on_reconnected = overriding("reconnected")
        self._on_published = overriding("published")
        self._on_accepted = overriding("accepted")
        self._on_repeated = overriding("repeated")
        self._on_gap_found = overriding("gap_found")
        self._on_gap_escalated = overriding("gap_escalated")
        self._on_gap_closed = overriding("gap_closed")
        self._on_overheard = overriding("overheard")
        self._on_gossiping = overriding("gossiping")
        self._on_sponsoring = overriding("sponsoring")
        self._fullness: list[Callable[[], str]] = [self._not_yet, *overriding("full")]
        self._holders = overriding("holds")
        self._rooms = overriding("room")
        self._messages: dict[type, list[Any]] = {}
        for rung in self._rungs:
            for kind, handler in rung.messages().items():
                self._messages.setdefault(kind, []).append(handler)
            self._on.update(rung.inputs())
        self._alarms = {name: handler for rung in self._rungs for name, handler in rung.alarms().items()}
        self._alarms[TIMER] = self.service.drain
        self._enter_lanes()

    def _enter_lanes(self) -> None:
        """Side by side with other members goes only who has nothing to do with most packets but to deliver them."""
        if self._on_accepted or self._on_repeated or self._keeps:
            self._lanes = None
        if self._lanes is not None:
            self._lanes.enter(self.me, self._arrivals)

    def _keep(self, now: float, run: Run, out: Effects) -> None:
        if self.settings.buffering == "none":
            return
        collected = self.buffer.add(now, run)
        if self._observed:
            self._note_collected(collected, out)
            out.extend(Note("store", p.sender, p.seqno, phase="buffer") for p in run)

    def _note_collected(self, collected: PerSender, out: Effects) -> None:
        for sender, numbers in collected.items():
            out.extend(Note("collect", sender, seqno, phase="buffer") for seqno in numbers)

    @staticmethod
    def _call(hooks: list[Any], *arguments: Any) -> None:
        for hook in hooks:
            hook(*arguments)

    # Inputs.

    def _started(self, now: float, happened: Started, out: Effects) -> None:
        self.begin(happened.horizon)
        self.streams[self.me] = Stream(happened.checked_out)  # numbers that may be in use are not used again
        self._checked_out = happened.checked_out
        self.restored = happened
        self._call(self._on_started, now, out)

    def _view_changed(self, now: float, happened: ViewChanged, out: Effects) -> None:
        before = self.peers.all()
        joined = tuple(m for m in happened.members if m not in before)
        left = tuple(m for m in before if m not in happened.members)
        self.peers.replace(happened.members)
        self._call(self._on_view_changed, now, joined, left, out)

    def _published(self, now: float, happened: Published, out: Effects) -> None:
        bodies = happened.bodies
        for holds in self._holders:
            bodies = holds(now, bodies, out)
        if bodies:
            self.publish(now, bodies, out)

    def publish(self, now: float, bodies: Sequence[bytes], out: Effects) -> None:
        """Make packets of `bodies` and send them, unless the member is full."""
        if reason := self.full():
            out.extend(Refuse(body, reason) for body in bodies)
            return
        stream = self.streams[self.me]
        first, me = stream.next, self.me
        run = [Packet(me, seqno, body) for seqno, body in enumerate(bodies, first)]
        stream.next = first + len(run)
        if stream.next > self._checked_out:
            self._checked_out = stream.next - 1 + self.settings.sequence_block
            out.append(CheckOut(self._checked_out))
        out.append(Announce(run))
        self._call(self._on_published, now, run, out)
        self._keep(now, run, out)
        self._order.accepted([run], FIRST_PASS, stream, out)

    def _received(self, now: float, happened: Received, out: Effects) -> None:
        if not self.is_member or self.alone:  # not our business: we do not even want to have heard of the sender
            self._call(self._on_overheard, now, happened.source)
            return
        sender = happened.sender
        stream = self.stream(sender)
        if sender == self.me and happened.first not in stream.missing:
            return  # an echo or a forgery: nobody knows our packets better than we do
        before = stream.next
        fresh, gap = stream.accept(happened.run)
        if gap is not None:
            self._gap_found(now, happened.source, sender, *gap, out)
        self.duplicates += len(happened.run) - len(fresh)
        if not fresh:
            self._call(self._on_repeated, now, happened.source, happened.run, out)
            return
        parts = [fresh] if fresh is happened.run else split_into_runs(fresh)
        self._order.accepted(parts, happened.phase, stream, out)
        for part in parts:
            if part[0].seqno < before:
                for hook in self._on_gap_closed:
                    hook(now, sender, part[0].seqno, part[-1].seqno, out)
            self._keep(now, part, out)
            for hook in self._on_accepted:
                hook(now, happened.source, part, happened.phase, out)

    def _gap_found(self, now: float, source: int, sender: int, first: int, last: int, out: Effects) -> None:
        if self._worth is not None and not self._worth(sender, first, last):
            self.give_up(now, sender, first, last, "declined", out)
        elif self._on_gap_found and not (self.settings.adaptive and not self.logger_congested):
            self._call(self._on_gap_found, now, source, sender, first, last, out)
        elif self._on_gap_escalated and (self.peers.loggers or self.settings.repair not in ("acknowledged", "none")):
            self.escalate(now, sender, first, last, out)
        elif self.settings.repair == "none" and self._holds_back:
            self.give_up(now, sender, first, last, "unrepaired", out)

    def _not_yet(self) -> str:
        return "" if self.is_member else "not a member"

    def _heard(self, now: float, happened: Heard, out: Effects) -> None:
        if (not self.is_member or self.alone) and not isinstance(happened.message, Join | Leave | Members):
            # who is not in the group yet, or any more, deals with nothing but that
            self._call(self._on_overheard, now, happened.source)
            return
        for handler in self._messages.get(type(happened.message), ()):
            handler(now, happened.source, happened.message, out)

    def _woke(self, now: float, happened: Woke, out: Effects) -> None:
        for name in self.timers.due(now):
            self._alarms[name](now, out)


def _of_no_concern(now: float, happened: Input, out: Effects) -> None:
    """For inputs that only some rungs care about."""
