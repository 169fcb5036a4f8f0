"""One live member: a stack, its sockets and its clock. It carries out effects and decides nothing.

A wake-up reads a bounded number of datagrams, steps the stack with the runs that they make, and sends what the effects
ask for in as few system calls as possible. One timer is armed for the stack's next deadline.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from time import monotonic, time

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
    HandLetter,
    HearChannels,
    InstallMap,
    Listen,
    MarkStable,
    Multicast,
    MulticastRun,
    NameTaken,
    Note,
    PastKnown,
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
from gossamer.core.ids import EVERYONE, FIRST_PASS, LOGGER, channel_of, owner_of, stream_of
from gossamer.core.inputs import (
    Disconnecting,
    Heard,
    Input,
    NamesakeHeard,
    Paused,
    Published,
    Received,
    Reconnected,
    Resumed,
    Started,
    Woke,
)
from gossamer.core.messages import Data, Leave, Message, Piece, Repair, SeenReport
from gossamer.core.packets import Run
from gossamer.core.places import Places, PlacesKept
from gossamer.core.questions import Call, Challenge, Probe, Proof, WhoKeeps
from gossamer.core.say import WorthRepairing
from gossamer.core.settings import ProtocolSettings
from gossamer.live.answers import Answers, Question
from gossamer.live.directory import Directory
from gossamer.live.envelope import Envelope
from gossamer.live.faults import Faults
from gossamer.live.handover import FOR_APPLICATION, Handover
from gossamer.live.inbox import Inbox
from gossamer.live.later import Later
from gossamer.live.log_disk import LogDisk, only_serving
from gossamer.live.pieces import Pieces, holdings
from gossamer.live.post import Lines, Post
from gossamer.live.reading import Reading
from gossamer.live.say import guarded
from gossamer.live.transport import Address, Datagrams, Transport
from gossamer.live.wakeups import Wakeups
from gossamer.stack import Stack
from gossamer.store.contract import LogStore
from gossamer.trace.recorder import Recorder
from gossamer.wire import Header, WireError


class Member:
    """A stack on the network."""

    def __init__(
        self,
        header: Header,
        protocol: ProtocolSettings,
        transport: Transport,
        envelope: Envelope,
        *,
        recorder: Recorder,
        inbox: Inbox,
        tell: Callable[[Effect], None],
        profile: Callable[[Question], bytes],
        store: LogStore | None = None,
        contacts: tuple[Address, ...] = (),
        multicast: bool = True,
        named: bool = False,
        worth: WorthRepairing | None = None,
        replaced: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`named`: whether the member's number follows from its name, so that it is the same after a restart.

        `tell` is called with what the stack has for the group; `failed` if there were too many errors of our own.
        """
        self.me = header.source
        self.stats: Counter[str] = Counter()
        self.joined = asyncio.Event()
        self.left = asyncio.Event()
        self.suspicions = 0
        """How often this member suspected that another was disconnected."""
        self.name_taken = False
        """Whether another process is a member under our name."""
        self.stable_up_to: dict[int, int] = {}
        """By sender: every member has its packets up to here, as far as we have been told."""
        self.progress: Callable[[], None] | None = None
        """Called after every step while anyone waits for something."""
        self.map_told: Callable[[int, bytes, bytes], None] = lambda number, content, in_use: None
        """Called with the number and the content of a channel map that others have."""
        self._header = header
        self._transport = transport
        self._envelope = envelope
        self._recorder = recorder
        self._inbox = inbox
        self._handover = Handover(inbox.delivered, self._tell_application)
        self._tell = tell
        self._answers = Answers(transport, envelope, profile, self.stats)
        self._directory = Directory(transport.endpoint, self.stats)
        lines = Lines(contacts, multicast)
        self._post = Post(header, transport, envelope, self._directory, lines, recorder=recorder, stats=self.stats)
        self.sent = self._post.sent
        self._pieces = Pieces()
        self._loop = asyncio.get_running_loop()
        self.sockets = Reading(transport, self._arrived, self.stats, recorder)
        self._epoch = time() - monotonic()  # the stack's clock continues across a restart, and does not jump
        self._reading = self._stopped = self._offline = False
        self._aloud = False  # what is read now was said to all
        self._later = Later(self._execute)
        self._named = named
        self._replaced = replaced
        self._faults = Faults(self.me, self.stats, failed)
        self._own_address = transport.address
        transport.ignore_self()
        loggers = (self.me,) if store is not None else ()
        place = "{}:{}".format(*transport.address)
        rng = Random(self.me)
        worth = None if worth is None else guarded(worth, self.stats)
        self.stack = Stack(self.me, (), protocol, rng, loggers=loggers, address=place, worth=worth, ignored=self.stats)
        self._wakeups = Wakeups(self.stack, self.now, self._wake)
        self.disk = None if store is None else self._open_disk(store)

    def _open_disk(self, store: LogStore) -> LogDisk:
        travelled = self._envelope.original_datagram
        disk = LogDisk(store, travelled=travelled, carry_out=self._execute, happened=self.step, now=self.now)
        if self._recorder.tracing:
            disk.noted = lambda kind, sender, seqno: self._recorder.stored(time(), self.me, kind, sender, seqno)
        return disk

    def now(self) -> float:
        """The stack's clock: seconds since the epoch, monotonic, and finer than the loop's."""
        return monotonic() + self._epoch

    def start(self) -> None:
        """Begin to listen and to join."""
        self.resume()
        self.step(self.disk.started() if self.disk is not None else Started({}, recovers=self._named))
        if self.disk is not None:
            self.step(self.disk.committed())  # before anything is collected

    async def stop(self) -> None:
        """Close everything, once."""
        if self._stopped:
            return
        self._stopped = True
        self.pause()
        self.sockets.close()
        self._wakeups.close()
        self._post.close_down()
        self._later.forget()
        if self.disk is not None:
            await self.disk.close()
        self._handover.finish()
        if self.joined.is_set() and not self.left.is_set():  # it did not leave, and its memory is gone
            self._recorder.noted(time(), self.me, "crash", "lost")
        self._transport.close()

    def pause(self) -> None:
        """Stop reading: what comes waits in the kernel, and what does not fit there is repaired later."""
        if self._reading:
            self._reading = False
            self.step(Paused())
            self.sockets.end()

    def resume(self) -> None:
        """Read again."""
        if not self._reading and not self._stopped and not self._offline:
            self._reading = True
            self.step(Resumed())
            self.sockets.begin()

    def disconnect(self) -> None:
        """The network is about to go: announce that we will be back, then send and hear nothing more."""
        if not self._offline:
            self.step(Disconnecting())
            self._offline = True
            self._recorder.noted(time(), self.me, "side")
            self.pause()

    def reconnect(self) -> None:
        """The network is back: listen again, and announce it."""
        if self._offline:
            self._offline = False
            self._recorder.noted(time(), self.me, "side", "0")
            self._transport.rejoin()
            self.resume()
            self.step(Reconnected())

    def disconnect_for_good(self) -> None:
        """Send and hear nothing more, without announcing it: another process now has our name."""
        self._offline = True
        self.pause()

    @property
    def is_offline(self) -> bool:
        """Whether the member is disconnected, and knows it."""
        return self._offline

    def flushed(self, channel: int, last: int, phase: str = "") -> None:
        """The application was told that what it published to a channel up to `last` is durable, or is not."""
        self._recorder.flushed(time(), stream_of(self.me, channel), last, phase)

    def publish(self, bodies: list[bytes], channel: int = 0) -> None:
        """Publish the bodies of some packets to a channel, to be sent together."""
        self.step(Published(*bodies, channel=channel))

    def step(self, happened: Input) -> None:
        """Step the stack with one input, carry out its effects, and arm the timer."""
        try:
            effects = self.stack.step(self.now(), happened)
        except Exception as error:  # whatever is wrong with us
            self._faults.happened(error)
            effects = self.stack.unfinished()
        self._carry_out(effects)
        self._wakeups.arm()

    # Incoming.

    def _arrived(self, datagrams: Datagrams, address: Address, *, aloud: bool = False) -> None:
        """Step with everything, and carry out all the effects together, so that answers to one member go in one burst.

        What the stack asks for when the instant is over waits until the sockets are empty: the timer is due at once.
        """
        if address == self._own_address or self._offline:
            return  # what we send to the group's address reaches us, too
        self._aloud = aloud
        effects: list[Effect] = []
        try:
            self._take_in(datagrams, address, effects)
        except Exception as error:  # whatever is wrong with us
            self._faults.happened(error)
            effects += self.stack.unfinished()
        self._carry_out(effects)
        self._wakeups.arm()
        if self.progress is not None:
            self.progress()

    def _take_in(self, datagrams: Datagrams, address: Address, effects: list[Effect]) -> None:
        now = self.now()
        for opened in self._envelope.open(datagrams):
            if isinstance(opened, list):
                effects += self._take_run(now, opened)
            else:
                header, message = opened
                effects += self._heard(now, header, message, address)

    def _take_run(self, now: float, run: Run) -> list[Effect]:
        owner = owner_of(run[0].sender)
        if owner == self.me or self._log_has_failed(len(run)):
            return []
        return self.stack.step(now, Received(owner, run, FIRST_PASS))

    def _heard(self, now: float, header: Header, message: Message, address: Address) -> list[Effect]:
        source, roster = header.source, self.stack.roster
        if header.group != self._header.group:
            self.stats["not for us"] += 1
            return []
        if type(message) in _PLAIN and source != self.me and roster.knows(source):
            return self.stack.step(now, Heard(source, message))
        if source == self.me:
            return self._heard_of_ourselves(now, message)
        if isinstance(message, _QUESTIONS):
            self._answers.answer(now, message, address)
            return []
        if isinstance(message, _INTRODUCTIONS):
            self._post.heard(message, address, aloud=self._aloud)
            return []
        if isinstance(message, Piece):
            return self._heard_piece(now, header, message, address)
        if isinstance(message, Repair) and self._log_has_failed(1):
            return []
        if not isinstance(message, Repair) and not self._directory.hears(now, source, message, address, roster):
            return []
        checked = self._directory.checked(source, message, roster)
        return [] if checked is None else self.stack.step(now, arrival(source, checked))

    def _heard_of_ourselves(self, now: float, message: Message) -> list[Effect]:
        """Another process speaks under our number: by right if it has our name, else it can only do harm."""
        if self._named:
            return self.stack.step(now, NamesakeHeard(message))
        self.stats["not ours, under our number"] += 1
        return self.stack.step(now, Heard(self.me, message)) if isinstance(message, Leave) else []

    def _heard_piece(self, now: float, header: Header, piece: Piece, address: Address) -> list[Effect]:
        try:
            message = self._pieces.add(header, piece)
        except WireError:
            self.stats["malformed pieces"] += 1
            return []
        if message is None:
            return [] if self.stack.is_member else self.stack.step(now, Heard(header.source, piece))
        return self._heard(now, header, message, address)

    def _log_has_failed(self, packets: int) -> bool:
        """Whether these packets are refused, because the log has failed; counts them if so."""
        failed = self.disk is not None and bool(self.disk.failure)
        if failed:
            self.stats["refused: the log has failed"] += packets
        return failed

    # Outgoing.

    def _carry_out(self, effects: list[Effect]) -> None:
        if self.disk is not None:
            if self.disk.failure:
                effects = only_serving(effects)
            elif self.disk.takes(effects):
                return
        self._execute(effects)

    def _execute(self, effects: list[Effect]) -> None:
        """First send everything that leaves, in few system calls, then hand over everything for the application.

        So what we publish does not wait for its delivery to ourselves; `core.effects` says why this order is as good.
        """
        if not effects or (len(effects) == 1 and type(effects[0]) is Deliver):  # most of what a subscriber does
            self._handover.give(effects)
            return
        if self._offline:
            effects = [effect for effect in effects if not isinstance(effect, _TO_NETWORK)]
            self._later.forget()
        to_application: list[Effect] = []
        if later := self._later.may_wait(effects):
            self._handover.give([effect for effect in effects if type(effect) is Deliver])
            self._later.hold(later)
            return
        try:
            self._send_out(effects, to_application)
        except Exception as error:  # whatever is wrong with us
            self._faults.happened(error)
            to_application = [effect for effect in effects if isinstance(effect, FOR_APPLICATION)]
        self._handover.give(to_application)

    def _send_out(self, effects: list[Effect], to_application: list[Effect]) -> None:
        to_group: dict[int, list[bytes]] = {}  # by channel
        to_one: dict[int, list[bytes]] = {}
        to_some: dict[tuple[int, ...], list[bytes]] = {}
        roster, tracing, first_passes = self.stack.roster, self._recorder.tracing, 0
        for effect in self._later.before(effects):
            if isinstance(effect, _OFTEN_FOR_APPLICATION):
                to_application.append(effect)
            elif isinstance(effect, MulticastRun):  # most of what a publisher does
                to_channel = to_group.setdefault(channel_of(effect.run[0].sender), [])
                if tracing:
                    for packet in effect.run:
                        to_channel += self._post.close(Data(packet), EVERYONE)
                else:
                    to_channel += self._envelope.first_pass(effect.run)
                    first_passes += len(effect.run)
            elif isinstance(effect, Multicast):
                message = effect.message
                channel = channel_of(message.packet.sender) if isinstance(message, _PACKETS) else effect.channel
                if effect.hops:
                    self._post.send_to_region(message, effect.hops, roster, channel)
                elif effect.to:
                    to_some.setdefault((channel, *effect.to), []).extend(self._post.close(message, EVERYONE))
                elif type(message) is Data and not tracing:
                    to_group.setdefault(channel, []).append(self._envelope.original_datagram(message.packet))
                    first_passes += 1
                else:
                    to_group.setdefault(channel, []).extend(self._post.close(message, EVERYONE))
            elif isinstance(effect, Unicast):
                if type(effect.message) is SeenReport and effect.message.at_us:
                    self._say_when_it_came(effect.message)
                to_one.setdefault(effect.to, []).extend(self._post.close(effect.message, effect.to))
            elif tracing or not isinstance(effect, Announce):
                self._execute_rare(effect, to_one, to_application)
        if first_passes:
            self.sent[Data.kind] += first_passes
        for channel, datagrams in to_group.items():
            self._post.send_to_group(datagrams, roster, channel)
        for (channel, *members), datagrams in to_some.items():
            self._post.send_to_some(datagrams, tuple(members), roster, channel)
        for member, datagrams in to_one.items():
            self._post.send_to(member, datagrams, roster)

    def _say_when_it_came(self, report: SeenReport) -> None:
        """As the kernel has it: a process that is slow to read must not look like a slow network."""
        waited = self._transport.waited()
        if waited:
            report.at_us = int((self.now() - waited) * 1e6)

    def _execute_rare(self, effect: Effect, to_one: dict[int, list[bytes]], to_application: list[Effect]) -> None:
        match effect:
            case Announce(run):
                for packet in run:
                    self._recorder.published(time(), packet)
            case Listen(on):
                (self._transport.rejoin if on else self._transport.leave)()
                self._recorder.noted(time(), self.me, "listen", "on" if on else "off")
            case HearChannels(channels):
                self.sockets.hear(channels)
            case Note():
                self.suspicions += effect.kind == "suspect"
                self._recorder.note(time(), self.me, effect)
            case Replay() if self.disk is not None:
                repairs = [self._envelope.repair(LOGGER, entry.datagram) for entry in self.disk.read(effect)]
                self.sent["repair"] += len(repairs)
                if effect.also:
                    to = effect.to, *effect.also
                    self._post.send_to_some(repairs, to, self.stack.roster, channel_of(effect.sender))
                else:
                    to_one.setdefault(effect.to, []).extend(repairs)
            case TellHoldings() if self.disk is not None:
                for answer in holdings(
                    self.disk.holdings(effect), effect.never_sent, effect.since_ns, self._post.piece_bytes
                ):
                    to_one.setdefault(effect.to, []).extend(self._post.close(answer, effect.to))
            case Collect() | ForgetCollected() | ReserveNumbers() if self.disk is not None:
                self.disk.carry_out(effect)
            case Collect() | ForgetCollected() | ReserveNumbers() | Replay() | TellHoldings():
                pass  # there is no log here
            case _:
                to_application.append(effect)

    def _tell_application(self, effect: Effect) -> None:
        match effect:
            case ReportLost() | ReportBlocked():
                self._inbox.report(effect)
            case UndoDeliveries():
                self._inbox.undo(effect)
            case MarkStable(sender, _, last):
                self._recorder.stable(time(), self.me, effect)
                self.stable_up_to[sender] = last
            case TakeBack(sender, first):
                self._inbox.taken_back(sender, first)
            case ForgetSender(sender):
                self.stable_up_to.pop(sender, None)
                self._inbox.sender_left(sender)
            case BecomeMember(horizon, missed):
                self._recorder.joined(time(), self.me, horizon)
                self._inbox.begin(horizon, missed)
                self._post.introduce(self.stack.roster)
                self.joined.set()
            case BecomeListener(channels, horizon):
                self.sockets.listens(self.me, channels, horizon)
                self._inbox.begin(horizon)
            case InstallMap(number, content, in_use):
                self.map_told(number, content, in_use)
            case BecomeStranger():
                self._recorder.noted(time(), self.me, "leave")
                self.left.set()
            case Refuse(_, reason):
                self.stats[f"refused: {reason}"] += 1
            case PastKnown() | HandLetter():
                self._tell(effect)
            case NameTaken() if self.joined.is_set():
                self._replaced()
            case NameTaken():
                self.name_taken = True
                self.joined.set()  # the coroutine that waits for this looks at `name_taken`
            case _:
                raise AssertionError(f"no code carries out {effect}")

    def _wake(self) -> None:
        self.step(Woke())
        if self.progress is not None:
            self.progress()


# To make a union of types for each question takes longer than the answer.
_TO_NETWORK = (Multicast, MulticastRun, Unicast, Replay)
_PLAIN = frozenset((Places, PlacesKept))  # often heard, and without packets or addresses in them
_OFTEN_FOR_APPLICATION = (Deliver, ReportLost, MarkStable)
_PACKETS = (Data, Repair)
_QUESTIONS = (Probe, WhoKeeps)
_INTRODUCTIONS = (Call, Challenge, Proof)
