"""The simulated world: virtual time, a stack per member, and the execution of effects.

One heap of (time, order, action). The order breaks ties, so that the same scenario and seed give the same
run in any process. The world decides nothing: it carries messages, wakes members, and records what it sees.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Any

from gossamer.core.arrival import arrival
from gossamer.core.effects import (
    Announce,
    BecomeListener,
    BecomeMember,
    BecomeStranger,
    Collect,
    Deliver,
    Effect,
    ForgetCollected,
    ForgetSender,
    HearChannels,
    JoinAnew,
    Listen,
    MarkStable,
    Multicast,
    MulticastRun,
    Note,
    Persist,
    Refuse,
    Replay,
    ReportBlocked,
    ReportLost,
    ReserveNumbers,
    TakeBack,
    TellHoldings,
    UndoDeliveries,
    Unicast,
)
from gossamer.core.ids import ALL_CHANNELS, EVERYONE, LOGGER, Phase, channel_of
from gossamer.core.inputs import Heard, Input, ListenAsked, Published, Received, Reconnected, Started, ViewChanged, Woke
from gossamer.core.ladder import Automaton
from gossamer.core.messages import Data, Holdings, Message, Repair
from gossamer.core.packets import Run
from gossamer.rungs import may_log, self_organized
from gossamer.sim.channels import Channels, sources
from gossamer.sim.disk import Disk
from gossamer.sim.lanes import Lanes
from gossamer.sim.ledger import Ledger
from gossamer.sim.network import HopNetwork, Network
from gossamer.sim.scenario import Scenario
from gossamer.sim.topology import Topology
from gossamer.sim.traffic import arrivals
from gossamer.stack import Stack
from gossamer.trace.recorder import Recorder
from gossamer.wire import Header, decode, encode
from gossamer.wire import size as wire_size

MakeStack = Callable[[int, tuple[int, ...], Random], Automaton]

UP, ASLEEP, OFFLINE, DOWN, ABSENT = range(5)
"""What a member can be: only UP takes part; ASLEEP keeps what comes for later (004 §7), the rest lose it."""

INBOX_PACKETS = 1000
"""What a sleeping member's operating system keeps for it; more is dropped, as by a full socket buffer."""


_WOKE = Woke()  # one for all: it holds nothing


class World:
    """Everything of one run that is not a fault."""

    def __init__(
        self,
        scenario: Scenario,
        topology: Topology,
        make_stack: MakeStack,
        recorder: Recorder,
        lanes: Lanes | None = None,
    ) -> None:
        self.scenario = scenario
        self.count = len(topology.members)
        self.now = 0.0
        self.events = 0
        self.ledger = Ledger(self.count)
        self.recorder = recorder
        self.states = [UP] * self.count
        self.silent: set[int] = set()  # members that publish no more, because they are about to leave
        self.self_organized = self_organized(scenario.protocol)
        self.disturbed = bool(scenario.fault)  # whether any member can be other than UP
        self.view: tuple[int, ...] = ()
        self.stacks: list[Automaton | None] = [None] * self.count
        self.network = self._make_network(topology)
        self.channels = Channels(scenario, self.count, self.ledger, recorder)
        self._make_stack = make_stack
        self._lanes = lanes  # what the stacks share, if they do
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._order = 0
        self._wake_at = [inf] * self.count
        self.disks = [Disk() for _ in range(self.count)]
        tells = recorder.tracing and may_log(scenario.protocol)
        self._flushing = 1 + max(s for s, *_ in sources(scenario)) if tells else 0  # those below may flush something
        self._flushed: dict[int, int] = {}  # by stream
        self._inboxes: dict[int, list[tuple[Received | Heard, int]]] = {}
        self._sized: tuple[Message | None, int] = None, 0
        self._body = bytes(scenario.traffic.size)
        self.publishing = 0
        self._rejoining: dict[int, None] = {}
        self.suspicions = {"false": 0, "true": 0}
        """How often a member that was there was suspected, and how often one that was not."""
        self.parents: dict[int, int] = {}
        """Whom each member has found that it could follow: the coordinator tree; itself, if it found nobody."""
        self._execute: dict[type, Callable[[int, Any], None]] = {
            Multicast: self._multicast,
            MulticastRun: self._multicast_run,
            Unicast: self._unicast,
            Deliver: self._deliver,
            Announce: self._announce,
            ReportLost: self._report_lost,
            UndoDeliveries: self._undo,
            Refuse: self._refuse,
            Persist: self._persist,
            Replay: self._replay,
            Collect: self._collect,
            **dict.fromkeys((ReportBlocked, ForgetCollected, ForgetSender, TakeBack), self._nothing),
            TellHoldings: self._tell_holdings,
            ReserveNumbers: self._reserve,
            MarkStable: self._mark_stable,
            Note: self._note,
            Listen: self._listen,
            HearChannels: lambda member, effect: self.channels.tune(member, effect.channels),
            BecomeListener: lambda m, effect: self.channels.begin(self.now, m, effect.channels, effect.horizon),
            BecomeMember: self._become_member,
            BecomeStranger: self._become_stranger,
            JoinAnew: self._join_anew,
        }

    def rng(self, purpose: str) -> Random:
        """A generator of its own for each purpose, so that one does not disturb another. String seeds hash stably."""
        return Random(f"{self.scenario.seed}/{purpose}")

    def at(self, time: float, action: Callable[[Any], None], argument: Any = None) -> None:
        """Do `action(argument)` at `time`."""
        self._order += 1
        heappush(self._heap, (time, self._order, action, argument))

    def start(self, members: tuple[int, ...]) -> None:
        """Bring up the first members and begin to publish."""
        self.view = members
        for member in range(self.count):
            if member in members:
                self.bring_up(member, {})
            else:
                self.states[member] = ABSENT
        for sender, channel, traffic in sources(self.scenario):
            times = arrivals(traffic, self.rng(f"traffic/{sender}/{channel}" if channel else f"traffic/{sender}"))
            self.publishing += 1
            self._publish_next((sender, channel, times))

    def run(self, finished: Callable[[], bool], tick: Callable[[float], None] | None = None) -> None:
        """Go on until nothing is left to do, `finished()` says so, or the time is up."""
        end = self.scenario.duration + self.scenario.linger
        heap = self._heap
        while heap and not finished():
            time, _, action, argument = heappop(heap)
            if time > end:
                break
            self.now = time
            self.events += 1
            action(argument)
            if tick is not None and not self.events & 0x3FF:
                tick(time)

    def bring_up(self, member: int, horizon: dict[int, int], recovers: bool = False) -> None:
        """Give `member` a fresh stack, which goes on with what is on its disk; it is owed what follows `horizon`."""
        disk = self.disks[member]
        view = self.view
        if self.self_organized and self.now > 0:  # it has to find out who is there, and where to begin
            view, horizon = (), {}
            self.channels.begin(self.now, member, 0, {})
            if recovers:
                self._rejoining[member] = None
        elif not recovers:
            self.recorder.joined(self.now, member, {s: last for s, last in horizon.items() if not channel_of(s)})
            self.channels.record(self.now, member, self.channels.heard[member], horizon)
        self.states[member] = UP
        self.silent.discard(member)
        self.ledger.begins_anew(member)
        self.network.router.set_deaf(self.network.router.deaf - {member})
        stack = self._make_stack(member, view, self.rng(f"member/{member}/{self._order}"))
        self.stacks[member] = stack
        self._wake_at[member] = inf
        self.step(member, Started(horizon, recovers, disk.reserved, disk.logged()))

    def change_view(self, view: tuple[int, ...]) -> None:
        """The oracle tells everyone who the members are now, unless they find out for themselves."""
        self.view = view
        if self.self_organized:
            return
        for member in view:
            if self.states[member] == UP:
                self.step(member, ViewChanged(view, self.channels.listening()))

    def step(self, member: int, happened: Input) -> None:
        """Give one input to a member and do what it asks for."""
        self._carry_out(member, self.stacks[member].step(self.now, happened))  # type: ignore[union-attr]
        if member < self._flushing:
            self._note_flush(member)

    def _carry_out(self, member: int, effects: list[Effect]) -> None:
        execute = self._execute
        for effect in effects:
            execute[type(effect)](member, effect)
        deadline = self.stacks[member].next_deadline()  # type: ignore[union-attr]
        if deadline < self._wake_at[member]:
            self._wake_at[member] = deadline
            self.at(max(deadline, self.now), self._wake, member)

    def _note_flush(self, member: int) -> None:
        """Record what an application that flushed all the time would be told now (`live.safety`)."""
        stack = self.stacks[member]
        if not isinstance(stack, Stack) or not stack.awaits_loggers():
            return
        for sender in stack.own:
            flushed, settled = self._flushed.get(sender, 0), stack.settled(channel_of(sender))
            if settled > flushed:
                self._flushed[sender] = settled
                phase = "unlogged" if stack.unlogged(channel_of(sender)) >= flushed else ""
                self.recorder.flushed(self.now, sender, settled - 1, phase)

    def wake_up(self, member: int) -> None:
        """A member is back with its memory: it gets first what waited for it, then its timers."""
        was_offline = self.states[member] == OFFLINE
        self.states[member] = UP
        if was_offline:
            self.step(member, Reconnected())
        for happened, transmitter in self._inboxes.pop(member, []):
            self._arrived(([member], happened, transmitter))
        self._wake_at[member] = inf
        if self.states[member] == UP:  # it has not left meanwhile
            self.step(member, Woke())

    def _make_network(self, topology: Topology) -> Network:
        rng = self.rng("network")
        network: Network
        if self.scenario.topology.exact:
            network = HopNetwork(topology, self.scenario, rng, lambda time, do: self.at(time, lambda _: do()))
        else:
            network = Network(topology, self.scenario, rng)
        if self.recorder.tracing:
            network.dropped = lambda member, reason: self.recorder.dropped(self.now, member, reason)
        return network

    def _publish_next(self, argument: Any) -> None:
        time = next(argument[2])
        if time < self.scenario.duration:
            self.at(time, self._publish, argument)
        else:
            self.publishing -= 1

    def _publish(self, argument: Any) -> None:
        sender, channel, _ = argument
        if self.states[sender] in (UP, OFFLINE) and sender not in self.silent:
            self.step(sender, Published(self._body, channel=channel))
        self._publish_next(argument)

    def _wake(self, member: int) -> None:
        if self._wake_at[member] > self.now or self.states[member] not in (UP, OFFLINE):
            return
        deadline = self.stacks[member].next_deadline()  # type: ignore[union-attr]
        if deadline <= self.now:
            self._wake_at[member] = inf
            self.step(member, _WOKE)
        else:
            self._wake_at[member] = deadline
            self.at(deadline, self._wake, member)

    def _arrived(self, argument: Any) -> None:
        """A message reaches `members`, all at this moment; `transmitter` sent it last."""
        members, happened, transmitter = argument
        if self.disturbed:
            members = self._awake(members, happened, transmitter)
        if self.recorder.tracing:
            self.recorder.received(self.now, members, happened, transmitter)
        if type(happened) is Received:
            if channel := channel_of(happened.sender):
                self.channels.reached(members, channel)
            self._received(members, happened)
        else:
            for member in members:
                self.step(member, happened)

    def _received(self, members: list[int], happened: Received) -> None:
        """Packets reach `members`.

        Most of them do nothing but deliver, which the lanes know without asking. A member that is asked says so by
        returning the list of effects that came with the input. All these are settled together, the others one by one.
        """
        now, stacks, usual = self.now, self.stacks, happened.delivered
        asked, indifferent = (members, []) if self._lanes is None else self._lanes.advance(now, members, happened)
        others = set(indifferent)
        for member in asked:
            effects = stacks[member].step(now, happened)  # type: ignore[union-attr]
            if effects is usual:
                continue
            if effects and effects[0] is usual[0]:
                self._carry_out(member, effects[1:])  # it delivers like the others, and has more to do
            else:
                others.add(member)
                self._carry_out(member, effects)
        if len(others) < len(members):
            delivering = [m for m in members if m not in others] if others else members
            self._delivered(delivering, happened.run, happened.phase)

    def _awake(self, members: list[int], happened: Received | Heard, transmitter: int) -> list[int]:
        awake = []
        for member in members:
            if self.states[member] == UP:
                awake.append(member)
            elif self.states[member] == ASLEEP:
                self._keep_for_later(member, happened, transmitter)
            else:
                self.recorder.dropped(self.now, member, "unreachable")
        return awake

    def _keep_for_later(self, member: int, happened: Received | Heard, transmitter: int) -> None:
        inbox = self._inboxes.setdefault(member, [])
        if len(inbox) < INBOX_PACKETS:
            inbox.append((happened, transmitter))
        else:
            self.recorder.dropped(self.now, member, "inbox")

    def _multicast(self, member: int, effect: Multicast) -> None:
        if self.states[member] == OFFLINE:
            return
        message = effect.message
        size = self._size(message)
        channel = channel_of(message.packet.sender) if isinstance(message, Data | Repair) else effect.channel
        to = effect.to or (self.channels.hearers(channel) if channel else ())
        self.recorder.sent(self.now, member, EVERYONE, message, size)
        if to or not channel:
            self.network.multicast(self.now, member, size, self._arrival(member, message), effect.hops, to)

    def _multicast_run(self, member: int, effect: MulticastRun) -> None:
        for packet in effect.run:
            self._multicast(member, Multicast(Data(packet)))

    def _unicast(self, member: int, effect: Unicast) -> None:
        if self.states[member] == OFFLINE:
            return
        message = effect.message
        size = self._size(message)
        self.recorder.sent(self.now, member, effect.to, message, size)
        self.network.unicast(self.now, member, effect.to, size, self._arrival(member, message))

    def _size(self, message: Message) -> int:
        """How many bytes it is on the wire. One message is often sent many times in a row."""
        if self._sized[0] is not message:
            self._sized = message, wire_size(message)
        return self._sized[1]

    def _arrival(self, source: int, message: Message) -> Callable[[float, list[int]], None]:
        if self.scenario.wire:
            return self._arrival_by_wire(source, encode(Header(0, source), message))
        happened = arrival(source, message)

        def arrive(time: float, members: list[int]) -> None:
            self._order += 1  # as `at` does, repeated here because most events come from here
            heappush(self._heap, (time, self._order, self._arrived, (members, happened, source)))

        return arrive

    def _arrival_by_wire(self, transmitter: int, datagram: bytes) -> Callable[[float, list[int]], None]:
        """Every receiver decodes it for itself, so that receivers share nothing."""

        def arrive(time: float, members: list[int]) -> None:
            for member in members:
                header, message = decode(datagram)
                self.at(time, self._arrived, ([member], arrival(header.source, message), transmitter))

        return arrive

    def _announce(self, member: int, effect: Announce) -> None:
        owed_to = [m for m in self.view if self.states[m] != DOWN] if self.disturbed else self.view
        if channel := channel_of(effect.run[0].sender):
            owed_to = [m for m in owed_to if self.channels.hears(m, channel)]
        for packet in effect.run:
            self.ledger.published(self.now, packet, owed_to)
            self.recorder.published(self.now, packet)

    def _deliver(self, member: int, effect: Deliver) -> None:
        if effect.place >= 0:
            self.ledger.placed(member, effect.run, effect.place, effect.under)
        self._delivered([member], effect.run, effect.phase)

    def _delivered(self, members: list[int], run: Run, phase: Phase) -> None:
        for packet in run:
            self.ledger.delivered(self.now, members, packet, phase)
            if self.recorder.tracing:
                self.recorder.delivered(self.now, members, packet, phase)

    def _report_lost(self, member: int, effect: ReportLost) -> None:
        self.ledger.given_up(self.now, member, effect.sender, effect.first, effect.last)
        self.recorder.lost(self.now, member, effect)

    def _undo(self, member: int, effect: UndoDeliveries) -> None:
        self.ledger.undone(member, effect.packets)
        self.recorder.undone(self.now, member, effect.packets)

    def _refuse(self, member: int, effect: Refuse) -> None:
        self.ledger.refused += 1

    def _persist(self, member: int, effect: Persist) -> None:
        for packet in effect.run:
            self.disks[member].write(packet)
            self.recorder.stored(self.now, member, "store", packet.sender, packet.seqno)

    def _collect(self, member: int, effect: Collect) -> None:
        for seqno in self.disks[member].delete(effect.sender, effect.first, effect.last):
            self.recorder.stored(self.now, member, "collect", effect.sender, seqno)

    def _nothing(self, member: int, effect: Effect) -> None:
        """Nobody lies in a simulation, `block` rows are in the trace, and nobody minds how many senders there were."""

    def _replay(self, member: int, effect: Replay) -> None:
        for packet in self.disks[member].read(effect.sender, effect.first, effect.last):
            if effect.also:
                self._multicast(member, Multicast(Repair(packet, LOGGER), to=(effect.to, *effect.also)))
            else:
                self._unicast(member, Unicast(effect.to, Repair(packet, LOGGER)))

    def _tell_holdings(self, member: int, effect: TellHoldings) -> None:
        self._unicast(member, Unicast(effect.to, Holdings(self.disks[member].logged(), never_sent=effect.never_sent)))

    def _reserve(self, member: int, effect: ReserveNumbers) -> None:
        self.disks[member].reserved = effect.below

    def _mark_stable(self, member: int, effect: MarkStable) -> None:
        if self.recorder.tracing:
            self.recorder.stable(self.now, member, effect)

    def _note(self, member: int, effect: Note) -> None:
        if effect.kind == "suspect":
            there = self.states[effect.peer] == UP and self.network.connects(member, effect.peer)
            self.suspicions["false" if there else "true"] += 1
        elif effect.kind == "coordinator" and (effect.phase != "told" or self.parents.get(member, member) == member):
            self.parents[member] = effect.sender
        self.recorder.note(self.now, member, effect)

    def _listen(self, member: int, effect: Listen) -> None:
        router = self.network.router
        router.set_deaf(router.deaf - {member} if effect.on else router.deaf | {member})
        self.recorder.noted(self.now, member, "listen", "on" if effect.on else "off")

    def listen(self, member: int, channels: int) -> None:
        """The application of `member` wants to listen to these, and to no others."""
        self.channels.wanted[member] = channels
        if self.states[member] != UP:
            return  # it says so when it is there
        self.step(member, ListenAsked(channels, {} if self.self_organized else self.ledger.horizon()))
        self.change_view(self.view)

    def _become_member(self, member: int, effect: BecomeMember) -> None:
        self.view = tuple(sorted({*self.view, member}))
        self._rejoining.pop(member, None)
        self.recorder.joined(self.now, member, effect.horizon)
        self.ledger.joined(self.now, member, effect.horizon)
        if member in self.channels.loggers:
            self.channels.begin(self.now, member, ALL_CHANNELS, effect.horizon)
        elif self.channels.wanted[member]:
            self.at(self.now, lambda _: self.listen(member, self.channels.wanted[member]))

    def _become_stranger(self, member: int, effect: BecomeStranger) -> None:
        if effect.unfinished:
            self.recorder.noted(self.now, member, "crash", "lost")
            self.ledger.excuse_sender(self.now, member)
        self.leave(member)

    def _join_anew(self, member: int, effect: JoinAnew) -> None:
        """To the others it is as if it had crashed: so it is written down, and another stack takes its place."""
        self.recorder.noted(self.now, member, "crash", "lost")
        self.recorder.noted(self.now, member, "recover", "lost")
        self.view = tuple(m for m in self.view if m != member)
        self.ledger.excuse_member(self.now, member)
        self.ledger.excuse_sender(self.now, member)
        self.at(self.now, lambda _: self.bring_up(member, {}, recovers=True))

    def rejoins(self) -> bool:
        """Whether a member that lost its memory, or its membership, is not in again yet."""
        return any(self.states[member] == UP for member in self._rejoining)

    def leave(self, member: int) -> None:
        """`member` is gone and owed nothing more."""
        self.states[member] = ABSENT
        self.view = tuple(m for m in self.view if m != member)
        self.recorder.noted(self.now, member, "leave")
        self.ledger.excuse_member(self.now, member)
