"""One member's protocol: the rungs put together.

A packet climbs: published -> first pass -> accepted, or a gap -> the chain of repairs -> order -> delivered. The stack
does what every protocol shares: it numbers what is published, accepts each packet at most once, passes a gap along the
chain until it is filled, given up or found never to have been, and installs views. The rest is the rungs' (`rungs.py`
says which, `presets.py` has the choices by name).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from gossamer.core.effects import Announce, ForgetSender, Note, Refuse, ReserveNumbers
from gossamer.core.gaps import Gaps
from gossamer.core.hearing import Hearing
from gossamer.core.ids import ALL_CHANNELS, FIRST_PASS, Phase, owner_of, stream_of
from gossamer.core.inputs import (
    Disconnecting,
    Heard,
    Input,
    LeaveAsked,
    Published,
    Received,
    Reconnected,
    Started,
    ViewChanged,
    Woke,
)
from gossamer.core.ladder import Effects, InputHandler, PacketNumbers
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.packets import Packet, Run, split_into_runs
from gossamer.core.peers import Peers
from gossamer.core.repair_queue import RepairQueue
from gossamer.core.request_window import RequestWindow
from gossamer.core.roster import Roster
from gossamer.core.round_trips import RoundTrips
from gossamer.core.say import ApplicationSay, WorthRepairing
from gossamer.core.settings import ProtocolSettings
from gossamer.core.streams import Stream, Streams
from gossamer.core.timers import Alarm, Timer, Timers
from gossamer.kernel.hooks import Hooks, from_strangers
from gossamer.kernel.rounds import Rounds
from gossamer.rungs import rungs_of


class Stack:
    """The automaton of one member. Also the `Ladder` that its rungs see."""

    __slots__ = (  # thousands of stacks run side by side in a simulation
        *(
            "me",
            "address",
            "name",
            "settings",
            "rng",
            "restored",
            "first_number",
            "duplicates",
            "recoveries",
            "ignored",
        ),
        *("is_logger", "is_member", "lone_founder", "streams", "own", "wanted_channels", "known_map"),
        *("roster", "acknowledged", "tells_collected"),
        *("round_trips", "peers", "repair_queue", "request_window", "gaps", "hearing", "siblings"),
        *("buffer", "order", "pace", "membership", "keepers"),
        *("_arrivals", "_at_once", "_from_strangers", "_heard_at", "_holds_back", "_hooks", "_keeps", "_messages"),
        *("_observed", "_on_accepted", "_out", "_reserved", "_rounds", "_rung_inputs", "_timers"),
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
        worth: WorthRepairing | None = None,
        observed: bool = False,
        siblings: dict[type, Any] | None = None,
        ignored: Counter[str] | None = None,
        listening: Mapping[int, int] | None = None,
    ) -> None:
        """`observed` if somebody wants to see the buffer change; `siblings` is what stacks of one process may share.

        `ignored` counts, by reason, what was said to this member and not believed. `listening` are the channels that
        `members` listen to, a bit for each; all hear channel 0, and loggers hear all.
        """
        self.me = me
        self.address = address
        self.name = ""  # of the simulator's members; live ones get theirs before they start
        self.settings = settings
        self.rng = rng
        self.is_logger = me in loggers
        self.is_member = True
        self.lone_founder = False
        self.hearing = Hearing()
        self.duplicates = self.recoveries = 0
        self.ignored: Counter[str] = Counter() if ignored is None else ignored
        self.restored = Started({})
        self.acknowledged: dict[int, Horizon] = {}
        self.siblings: dict[type, Any] = {} if siblings is None else siblings
        self.known_map = 0
        self.own: dict[int, Stream] = {}
        self.streams = Streams({})
        self.first_number = self._reserved = 0
        self._begin_own(me)
        self._timers = Timers()
        self.roster = Roster(me, members, loggers, listening=listening or {})
        self.streams.channels = self.wanted_channels = ALL_CHANNELS if self.is_logger else self.roster.channels_of(me)
        self.round_trips = RoundTrips(wanted=settings.round_trips or settings.selection != "uniform")
        self.peers = Peers(self.roster, settings.selection, settings.view_size, self.round_trips, rng)
        limit, queue, asks = settings.service_limit, settings.service_queue, settings.request_packets
        self.repair_queue = RepairQueue(limit, queue, self._timers, smooth=asks > 0)
        self.request_window = RequestWindow(asks, lambda: self.hearing.carried) if asks else None
        self._heard_at: dict[int, float] | None = None  # kept if a rung wants to know
        self._observed = observed
        self._out: Effects = []
        say = None if worth is None else ApplicationSay(worth)
        self.gaps = Gaps(self.roster, self.streams, settings, say, self.ignored)
        self._put_together()

    def _put_together(self) -> None:
        rungs = rungs_of(self)
        self.buffer, self.order, self.pace = rungs.buffer, rungs.order, rungs.pace
        self.membership, self.keepers = rungs.membership, rungs.keepers
        self._arrivals = None if self._observed else self.buffer.arrivals
        self._keeps = self.buffer.keeps and self._arrivals is None
        self._at_once, self._holds_back = self.order.in_stream_order, self.order.holds_back
        self._hooks = hooks = Hooks(rungs.all)
        self._on_accepted = hooks.accepted
        self.tells_collected = self._observed or bool(hooks.collected)
        speaks = any(rung.gossips for rung in rungs.all)
        self._rounds = Rounds(self, hooks.round_over, hooks.gossiping, speaks=speaks)
        self.gaps.connect(
            rungs.repairs, rungs.order, self._rounds.hurry, hooks.gap_closed, hooks.retracted, self.retire
        )
        self.streams.only_members = self.membership.only_members
        self._messages: dict[type, list[Any]] = {}
        for messages in hooks.messages:
            for kind, handler in messages().items():
                self._messages.setdefault(kind, []).append(handler)
        self._from_strangers = from_strangers(rungs.all) if self.membership.self_organized else None
        self._rung_inputs: dict[type, InputHandler] = {}
        for inputs in hooks.inputs:
            self._rung_inputs.update(inputs())

    # The automaton.

    def step(self, now: float, happened: Input) -> Effects:
        """Take one input; the effects are to be carried out in their order."""
        out: Effects = []
        self._out = out
        if type(happened) is Received:
            stream = self.streams.get(happened.sender)
            if stream is None or stream.nexts[stream.at] != happened.first or stream.is_own or not self.is_member:
                self._received(now, happened, out)
                return out
            # The short path: the run follows on from what came before (`sim.lanes` takes it for many at once).
            waits = self._holds_back and stream.missing.firsts
            if waits and happened.phase is FIRST_PASS and not self.order.has_room_for(happened.sender):
                return out  # as if it had been lost: it is repaired when there is room
            stream.nexts[stream.at] = happened.following
            if self._arrivals is not None:
                self._arrivals.append(now)
                self._arrivals.append(happened.run)
            elif self._keeps:
                self._keep(now, happened.run, out)
            if self._heard_at is not None:
                self._heard_at[happened.source] = now
            for accepted in self._on_accepted:
                accepted(now, happened.source, happened.run, happened.phase, out)
            if self._at_once and not waits:
                return happened.delivered + out if out else happened.delivered
            self._wait_for_turn(now, happened, stream, out)
        elif type(happened) is Heard:  # these two are all that happens while nothing is published
            self._heard(now, happened, out)
        elif type(happened) is Woke:
            self._timers.go_off(now, out)
        elif type(happened) in self._rung_inputs:
            self._rung_inputs[type(happened)](now, happened, out)
        elif type(happened) in _INPUTS:
            _INPUTS[type(happened)](self, now, happened, out)
        return out

    def unfinished(self) -> Effects:
        """The effects of a step that an error has cut short: they are as true as any, and have to be carried out."""
        return self._out

    def keep_streams_in(self, streams: Streams) -> None:
        """Before it starts: keep what is known of senders there."""
        streams.only_members, streams.channels = self.streams.only_members, self.streams.channels
        self.streams = streams
        self.gaps.follow(streams)

    def next_deadline(self) -> float:
        """When to step with `Woke` if nothing happens before."""
        return self._timers.next

    def only_delivers(self) -> bool:
        """Whether a run that follows on is kept in `buffer.arrivals`, if anywhere, and delivered, and that is all."""
        unconcerned = not self._on_accepted and not self._hooks.repeated and self._heard_at is None
        return unconcerned and self._at_once and not self._keeps

    def buffered(self) -> int:
        """How many packets this member keeps for others."""
        return len(self.buffer) + sum([int(hook()) for hook in self._hooks.buffered])

    def following(self, channel: int = 0) -> int:
        """The number of this member's next packet in `channel`."""
        stream = self.own.get(stream_of(self.me, channel))
        return self.first_number if stream is None else stream.next

    def settled(self, channel: int = 0) -> int:
        """Every packet of this member in `channel` below this number was sent and, if there is a logger, is logged."""
        stream = stream_of(self.me, channel)
        return min([self.following(channel), *(int(settled(stream)) for settled in self._hooks.settled)])

    def awaits_loggers(self) -> bool:
        """Whether there are loggers, in reach or away, or are to be."""
        return bool(self.roster.loggers) or self.settings.durable

    def unlogged(self, channel: int = 0) -> int:
        """The last packet of this member in `channel` that was let go before any logger had it; -1 if there is none."""
        stream = stream_of(self.me, channel)
        return max([-1, *(int(unlogged(stream)) for unlogged in self._hooks.unlogged)])

    def unconfirmed(self) -> dict[int, int]:
        """The members in reach that may lack packets of this one, and how many each may lack."""
        return {member: lacks for hook in self._hooks.unconfirmed for member, lacks in hook().items()}

    def unexplained(self) -> bool:
        """Whether others may await numbers of an earlier life for ever if this member goes now."""
        return any(hook() for hook in self._hooks.unexplained)

    def partition(self, now: float) -> dict[str, Any]:
        """Where this member stands in a group that may be divided; empty if there are no coordinators."""
        return {name: value for hook in self._hooks.partition for name, value in hook(now).items()}

    def full(self) -> str:
        """Why nothing can be sent now; empty if it can."""
        if not self.is_member:
            return "not a member"
        for full in self._hooks.full:
            if reason := full():
                return str(reason)
        return ""

    # Packets.

    def publish(self, now: float, bodies: Sequence[bytes], out: Effects, channel: int = 0) -> None:
        """Make packets of `bodies` and send them to `channel`, unless the member is full."""
        if reason := self.full():
            out.extend(Refuse(body, reason) for body in bodies)
            return
        sender = stream_of(self.me, channel)
        stream = self.own.get(sender) or self._begin_own(sender)
        first = stream.next
        run = [Packet(sender, seqno, body) for seqno, body in enumerate(bodies, first)]
        stream.next = first + len(run)
        if stream.next > self._reserved:
            self._reserved = stream.next - 1 + self.settings.sequence_block
            out.append(ReserveNumbers(self._reserved))
        out.append(Announce(run))
        self._keep(now, run, out)
        _call(self._hooks.published, now, run, out)

    def _begin_own(self, sender: int) -> Stream:
        """The first packet to a channel. Numbers are reserved for all channels together."""
        stream = self.own[sender] = self.streams[sender] = Stream(self.first_number)
        stream.is_own = True
        return stream

    def _published(self, now: float, happened: Published, out: Effects) -> None:
        bodies = self.pace.admit(now, happened.bodies, out, happened.channel)
        if bodies:
            self.publish(now, bodies, out, happened.channel)

    def _wait_for_turn(self, now: float, happened: Received, stream: Stream, out: Effects) -> None:
        if self._at_once:
            self.order.hold(happened)
        else:
            self.order.arrived(now, [happened.run], happened.phase, stream, out)

    def _received(self, now: float, happened: Received, out: Effects) -> None:
        if not self.is_member or self.lone_founder:  # not our business: the sender does not even become known
            self.membership.overheard(now, happened.source)
            return
        if self._heard_at is not None:
            self._heard_at[happened.source] = now
        sender = happened.sender
        stream = self.streams.get(sender)
        if owner_of(sender) == self.me and (stream is None or happened.first not in stream.missing):
            return  # an echo or a forgery: nobody knows our packets better than we do
        if stream is None or happened.last >= stream.next:
            stream = self.gaps.believe(now, sender, happened.last)
            if stream is None:
                return
        before = stream.next
        if happened.first > before and happened.phase is FIRST_PASS:
            if not self.order.has_room_for(sender) or self.gaps.leaps(now, happened, stream, out):
                return  # it has to wait
            if (leapt := stream.continued_by(happened.first)) is not None:
                self._received(now, Received(happened.source, leapt, FIRST_PASS), out)
                before = stream.next
        if happened.phase == FIRST_PASS and stream.is_ahead_of(now, happened.last):
            asked = self.gaps.doubt(now, sender, happened.first, out)
            if asked and stream.abandoned.around(happened.first - 1) is not None:
                return  # its turn may not have come: as if it had been lost, until it is known what was a lie
        if happened.last < before and not stream.missing.firsts:
            self.heard_again(now, happened, out)
            return
        waits = happened.phase is FIRST_PASS and happened.first > stream.prefix() + 1
        if waits and not self.order.has_room_for(sender):
            return  # others had spoken of it before it came
        fresh, gap = stream.accept(happened.run)
        if gap is not None:
            self.gaps.found(now, sender, *gap, out)
        if not fresh:
            self.heard_again(now, happened, out)
            return
        self.duplicates += len(happened.run) - len(fresh)
        parts = [fresh] if fresh is happened.run else split_into_runs(fresh)
        self.order.arrived(now, parts, happened.phase, stream, out)
        for part in parts:
            if part[0].seqno < before:
                if happened.phase is not FIRST_PASS:
                    _call(self._hooks.repaired, now, happened.source, part)
                for hook in self._hooks.gap_closed:
                    hook(now, sender, part[0].seqno, part[-1].seqno, out)
            self._keep(now, part, out)
            for hook in self._on_accepted:
                hook(now, happened.source, part, happened.phase, out)

    def heard_again(self, now: float, happened: Received, out: Effects) -> None:
        """Packets came that are all here."""
        run, hooks = happened.run, self._hooks
        self.duplicates += len(run)
        if hooks.repeated:
            _call(hooks.repeated, now, happened.source, run, happened.phase, out)
        if happened.phase is not FIRST_PASS:
            for hook in hooks.repair_heard:
                hook(now, run)

    def recovered(self, now: float, packet: Packet, phase: Phase, out: Effects) -> None:
        """A packet that was lost is here after all, because others that came by `phase` say what it was."""
        self.recoveries += 1
        self._received(now, Received(owner_of(packet.sender), [packet], phase), out)

    def _keep(self, now: float, run: Run, out: Effects) -> None:
        if self.buffer.keeps:
            self.buffer.keep(now, run, out)
            if self._observed:
                out.extend(Note("store", p.sender, p.seqno, phase="buffer") for p in run)

    def note(self, kind: str, place: str, packets: PacketNumbers, out: Effects) -> None:
        """These packets entered or left a place where this member keeps some."""
        if self._observed:
            for sender, numbers in packets:
                out.extend(Note(kind, sender, seqno, phase=place) for seqno in numbers)

    def collected(
        self, now: float, numbers: PacketSets, aged: bool, out: Effects, kept: PacketNumbers | None = None
    ) -> None:
        """The buffer let go of these; `aged` if they have been there for as long as it keeps anything.

        With `kept` most of them were let go before, and these leave the long-term buffer now.
        """
        if self._observed:
            place, packets = ("buffer", numbers.items()) if kept is None else ("long-term", kept)
            self.note("collect", place, packets, out)
        if self._hooks.collected:
            _call(self._hooks.collected, now, numbers, aged, out)

    def stabilized(self, now: float, sender: int, last: int, out: Effects) -> None:
        """All members of the view have the packets of `sender` up to `last`."""
        _call(self._hooks.stabilized, now, sender, last, out)

    # The group.

    def timer(self, alarm: Alarm) -> Timer:
        """A timer of this member."""
        return self._timers.new(alarm)

    def signs_of_life(self) -> dict[int, float]:
        """When each member was last heard, by whatever it said; kept from now on."""
        if self._heard_at is None:
            self._heard_at = {}
        return self._heard_at

    def install_view(self, now: float, roster: Roster, out: Effects) -> None:
        """The group is another now: the only way to change it."""
        before, self.roster = self.roster, roster
        if _shown(before) != _shown(roster):
            self.peers.follow(roster)
            self.gaps.follow_view(roster)
            _call(self._hooks.view_changed, now, before, out)

    def retire(self, now: float, sender: int) -> None:
        """A sender has left and everything of it is here: forget it, but for where it stopped.

        What members have of it that are away is remembered: they may be back, and want to know where they were.
        """
        _call(self._hooks.retired, now, sender)
        for member in self.roster.members:
            if member in self.acknowledged:
                self.acknowledged[member].pop(sender, None)
        self.streams.retire(now, sender)
        self._out.append(ForgetSender(sender))

    def revive(self, now: float, sender: int) -> None:
        """Speak again of a sender that was retired."""
        if self.streams.hears(sender):
            self.streams.of(sender)
            _call(self._hooks.revived, now, sender)

    def begin(self, horizon: Horizon, founds: bool = False) -> None:
        """The member takes part from here on: it is owed what comes after `horizon`, and may have founded the group."""
        self.is_member = True
        self.order.begun(founds)
        for sender, last in horizon.items():
            if owner_of(sender) != self.me and self.streams.hears(sender):
                self.streams.begin(sender, last + 1)
        mine = {stream: last for stream, last in horizon.items() if owner_of(stream) == self.me}
        if any(last >= self.own.get(s, self.own[self.me]).next for s, last in mine.items()):
            # of an earlier life, of which we know nothing else: no more can have been on its way
            self._begin_numbers(max(mine.values()) + 1 + self.settings.send_buffer)

    def _begin_numbers(self, first: int) -> None:
        self.first_number = self._reserved = first
        for stream in self.own:
            del self.streams[stream]
        self.own = {}
        self._begin_own(self.me)

    def end(self) -> None:
        """The member takes part no more."""
        self.is_member = False
        self.streams.end(self.me)

    def _started(self, now: float, happened: Started, out: Effects) -> None:
        self.begin(happened.horizon)
        self._begin_numbers(happened.reserved)  # numbers that may be in use are not used again
        self.restored = happened
        _call(self._hooks.started, now, out)
        self._rounds.start(now)

    def _view_given(self, now: float, happened: ViewChanged, out: Effects) -> None:
        roster = Roster(self.me, happened.members, self.roster.loggers, listening=happened.listening)
        self.install_view(now, roster, out)

    def _leave_asked(self, now: float, happened: LeaveAsked, out: Effects) -> None:
        _call(self._hooks.leaving, now, out)

    def _disconnecting(self, now: float, happened: Disconnecting, out: Effects) -> None:
        _call(self._hooks.disconnecting, now, out)

    def _reconnected(self, now: float, happened: Reconnected, out: Effects) -> None:
        self._rounds.hurry(now)
        _call(self._hooks.reconnected, now, out)

    def _heard(self, now: float, happened: Heard, out: Effects) -> None:
        message = happened.message
        if (not self.is_member or self.lone_founder) and type(message) not in self.membership.outside:
            self.membership.overheard(now, happened.source)
            return
        if self._from_strangers is not None and not self.roster.knows(happened.source):
            for handler in self._from_strangers.get(type(message), ()):
                handler(now, happened.source, message, out)
            return
        if self._heard_at is not None:
            self._heard_at[happened.source] = now
        for handler in self._messages.get(type(message), ()):
            handler(now, happened.source, message, out)


def _shown(roster: Roster) -> tuple[Any, ...]:
    """What rungs know a group by."""
    return roster.members, roster.owed, roster.loggers, roster.listening


def _call(hooks: Sequence[Any], *arguments: Any) -> None:
    for hook in hooks:
        hook(*arguments)


_INPUTS: Final[dict[type, Callable[[Stack, float, Any, Effects], None]]] = {
    Published: Stack._published,
    Started: Stack._started,
    ViewChanged: Stack._view_given,
    LeaveAsked: Stack._leave_asked,
    Disconnecting: Stack._disconnecting,
    Reconnected: Stack._reconnected,
}
"""What the stack itself does with an input; others concern some rung, or nobody."""
