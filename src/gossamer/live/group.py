"""The group as an application sees it: publish, subscribe, flush, stats, members.

Published events are packed; a packet leaves when it is full, or as soon as the loop is idle. Delivered packets are
unpacked once and handed to the subscriptions that match. A subscription whose application is slow fills up and then
holds back its own member, which falls behind and catches up by repair, or loses what does not fit: nothing is dropped
silently, and nobody else waits.
"""

import asyncio
import logging
import secrets
from _thread import get_ident
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self
from zlib import crc32

from gossamer.core.effects import Effect, HandLetter, PastKnown
from gossamer.core.ids import MEMBER_BITS, PacketId
from gossamer.core.inputs import LeaveAsked
from gossamer.core.say import Gap
from gossamer.core.schema import SettingError
from gossamer.live.answers import Question
from gossamer.live.bound import event_type
from gossamer.live.callbacks import Callbacks
from gossamer.live.channelled import Channelled
from gossamer.live.channels import GroupChannels
from gossamer.live.codecs import codec_of
from gossamer.live.credentials import envelope_for, member_number, trusted
from gossamer.live.durable import Durables
from gossamer.live.envelope import Envelope
from gossamer.live.errors import (
    Full,
    NameInUse,
    NotAMember,
    NotDurable,
    Overrun,
    Timeout,
    Unsent,
    broken_down,
    replaced,
)
from gossamer.live.home import NOT_JOINED, Home, at_home
from gossamer.live.inbox import Inbox
from gossamer.live.inspecting import Inspecting
from gossamer.live.keeping import answer_to
from gossamer.live.latest import Latest, opener_of
from gossamer.live.ledger import Ledger, known_members
from gossamer.live.mail import Mail
from gossamer.live.member import Member
from gossamer.live.misuse import (
    check_count,
    check_group,
    check_is,
    check_payloads,
    check_timeout,
    check_ttl,
    not_an_event,
)
from gossamer.live.multicast_check import multicast_reaches_us
from gossamer.live.name_log import AskedNames, NameLog
from gossamer.live.names import learn
from gossamer.live.notices import Bulletin
from gossamer.live.outbox import Outbox
from gossamer.live.outboxes import Outboxes
from gossamer.live.past import Past
from gossamer.live.queueing import Queues
from gossamer.live.readers import Readers
from gossamer.live.requesting import Requesting
from gossamer.live.requests import Requests
from gossamer.live.safety import Safety
from gossamer.live.subscribing import Subscribing
from gossamer.live.subscription import Item, Lost, Subscription
from gossamer.live.transport import Endpoint, Transport, UdpTransport
from gossamer.live.tuning import Tuning, contacts_of, spare_the_collector, tuned
from gossamer.live.waiting import Waiting
from gossamer.live.watch import Watch, Witness
from gossamer.pubsub.last_values import LastValues
from gossamer.rungs import holds_back, may_log, resumes, tells_stability
from gossamer.settings import Settings
from gossamer.store.contract import LogStore
from gossamer.trace.buffer import RowBuffer
from gossamer.wire import Header
from gossamer.wire.events import Event, PlacedEvent

__all__ = [
    "Full",
    "Gap",
    "Group",
    "Item",
    "Lost",
    "NameInUse",
    "NotDurable",
    "Overrun",
    "Subscription",
    "Unsent",
    "join",
]

_log = logging.getLogger("gossamer")

JOIN_TIMEOUT_S = 30.0
GOODBYE_TIMEOUT_S = 1.0

MakeTransport = Callable[[Endpoint], Transport]


class Group(Subscribing, Requesting, Inspecting, Channelled):
    """A member of a group, made by `gossamer.join`; it leaves at the end of `async with`.

    Its `name`, its `settings`, and `me`, which is its number and the `sender` of what it publishes, are there at once.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        transport: MakeTransport = UdpTransport,
        *,
        store: LogStore | None = None,
        identity: int | None = None,
        retires: bool = False,
        trace: RowBuffer | None = None,
    ) -> None:
        """With a `store` the member is a logger; when it stops it is away, and has left only if it `retires`."""
        check_group(name, settings)
        self.name = name
        self.settings = settings
        self._make_transport = transport
        self._store = store
        self._retires = retires
        self._trace = trace
        protocol = settings.protocol_settings()
        if store is not None and not may_log(protocol):
            raise SettingError(f"protocol = {settings.protocol!r}: does not use a logger; choose rpbcast or lbrm")
        self._named = identity is None and resumes(protocol)
        if identity is None:
            identity = member_number(name, settings.name) if self._named else secrets.randbits(MEMBER_BITS)
        self.me = identity
        self._home: Home = NOT_JOINED
        self._envelope: Envelope = NOT_JOINED
        self._inbox: Inbox = NOT_JOINED
        self._member: Member = NOT_JOINED
        self._outbox: Outbox = NOT_JOINED
        self._outboxes: Outboxes = NOT_JOINED
        self._channels: GroupChannels = NOT_JOINED
        self._waiting: Waiting = NOT_JOINED
        self._safety: Safety = NOT_JOINED
        self._ledger: Ledger = NOT_JOINED
        self._watch: Watch = NOT_JOINED
        self._bulletin = Bulletin(name)
        self._failure: BaseException | None = None
        self._is_over = False
        self._callbacks = Callbacks()
        self._codec = codec_of(settings.codec)
        if self._codec is not None:
            self.__dict__["publish"] = self._publish_value  # so that a codec costs only the groups that have one
        self._past: Past = NOT_JOINED
        self._mail: Mail = NOT_JOINED
        self._requests: Requests = NOT_JOINED
        self._durables: Durables = NOT_JOINED
        self._queues: Queues = NOT_JOINED
        self._latest: Latest = NOT_JOINED
        self._readers: Readers | None = None
        self._name_log: NameLog | None = None
        self._names: AskedNames = NOT_JOINED

    async def __aenter__(self) -> Self:
        settings = self.settings
        if self._member is not NOT_JOINED:  # its sequence numbers are in use
            raise NotAMember("this membership is over: join again for a new one")
        self._home = Home()
        transport = self._make_transport(trusted(settings))
        try:
            trees = await self._needs_trees()
            tuning = self._open(transport, envelope_for(settings, self._header(self.me)), trees)
            self._member.start()
            async with asyncio.timeout(JOIN_TIMEOUT_S):  # `wait_for` of Python 3.11 may swallow an interrupt
                await self._member.joined.wait()
            if self._member.name_taken:
                raise NameInUse(
                    f"group {self.name!r}: the name {settings.name!r} is in use by another running member; stop that "
                    "one, or choose another name"
                )
            fifo = self._member.stack.order.holds_back
            outbox = partial(Outbox, self._home, self._member, settings, tuning.body_bytes, fifo)
            self._outboxes = Outboxes(self._home, outbox)
            self._outbox = self._outboxes.first
            self._safety = Safety(settings, self._member, self._outboxes, self._waiting)
            self._channels = GroupChannels(self._member, self._inbox, self._outboxes)
            await self._channels.catch_up()
            self._watch = Watch(self._bulletin, self._member, self._envelope, self._inbox, transport.endpoint)
            self._watch.start()
            self._witness.view_changed = self._watch.view_changed
            self._ledger = Ledger(
                self.name, settings, self._member, self._envelope, self._inbox, self._outboxes, self._channels
            )
        except BaseException as error:
            await self._give_up(transport)
            if isinstance(error, TimeoutError):
                raise Timeout(
                    f"group {self.name!r} at {settings.address}: no answer from its members within "
                    f"{JOIN_TIMEOUT_S:.0f} s; `gossamer doctor` checks the network"
                ) from None
            raise
        return self

    async def close(self, timeout: float | None = None) -> None:
        """Leave the group, as at the end of `async with`; for one that was made by `gossamer.open`. Once is enough.

        `timeout` is how long to wait until everything published is safe, in place of `leave_timeout`; then `Unsent`.
        """
        check_timeout(timeout)
        await self._leave(None, self.settings.leave_timeout if timeout is None else timeout, always=timeout is not None)

    async def _give_up(self, transport: Transport) -> None:
        """Stop before we are a member; others may already take us for one."""
        if self._member is not NOT_JOINED:
            if not self._member.name_taken:  # else the other member would be the one to leave
                self._member.step(LeaveAsked())
            await self._member.stop()
        else:
            transport.close()

    def _header(self, source: int) -> Header:
        return Header(crc32(self.name.encode()), source)

    async def _needs_trees(self) -> bool:
        """Whether to do without multicast: because the settings say so, or no contact is heard over it."""
        settings = self.settings
        if settings.first_pass in ("multicast", "trees") or not settings.contacts:
            return settings.first_pass == "trees"
        header = self._header(secrets.randbits(MEMBER_BITS))
        line = self._make_transport(replace(trusted(settings), unicast_port=0))
        try:
            return not await multicast_reaches_us(header, envelope_for(settings, header), line, contacts_of(settings))
        finally:
            line.close()

    def _open(self, transport: Transport, envelope: Envelope, trees: bool) -> Tuning:
        spare_the_collector()
        tuning = tuned(self.settings, transport, envelope.overhead_bytes, trees=trees)
        self._envelope = envelope
        recorder = self._witness = Witness(self._trace)
        self._inbox = Inbox(
            self.me,
            self._home,
            self.settings.event_bytes_max,
            recorder,
            ordered=holds_back(tuning.protocol),
            pause=lambda: self._member.pause(),
            resume=lambda: self._member.resume(),
        )
        self._member = Member(
            self._header(self.me),
            tuning.protocol,
            transport,
            envelope,
            recorder=recorder,
            inbox=self._inbox,
            tell=self._told,
            profile=self._answer,
            store=self._store,
            contacts=tuning.contacts,
            multicast=tuning.multicast,
            named=self._named,
            worth=self.settings.worth_repairing,
            replaced=self._replaced,
            failed=self._broke_down,
        )
        self._member.stack.name = self.settings.name
        learn(self.me, self.settings.name)
        self._waiting = Waiting(self._member)
        self._mail = Mail(self._member)
        self._names = AskedNames(self._member, self._mail)
        self._past = Past(self._member, self._inbox, self._names, lambda found: self._channels.hear_past(found))
        self._requests = Requests(self.name, self._member, self._inbox, self._mail, self._codec)
        self._inbox.event_type = event_type(
            self._home, self._requests.reply, self._codec, PlacedEvent if self.settings.order == "total" else Event
        )
        self._durables = Durables(self._member, self._inbox, self._mail, self._past, self.settings.copies)
        self._queues = Queues(self._member, self._inbox, self._mail, self.settings.queue_events)
        self._latest = Latest(self._member, self._inbox, self._mail, self._names, opener_of(self._envelope))
        if self.settings.retain:
            self._inbox.retained = LastValues(self.settings.retain)
        if self._member.disk is not None:
            self._readers = Readers(self._member, self._member.disk, self._mail)
            self._name_log = NameLog(self._member, self._member.disk, self._mail)
        return tuning

    def _told(self, effect: Effect) -> None:
        """What the stack has for us."""
        if isinstance(effect, PastKnown):
            self._past.known(effect)
        elif isinstance(effect, HandLetter):
            self._mail.read(effect)

    def _answer(self, question: Question) -> bytes:
        """What anybody who asks is told; nothing while we join."""
        return b"" if self._ledger is NOT_JOINED else answer_to(question, self._member.stack, self.profile)

    def _replaced(self) -> None:
        """Another process joined under our name while we did not answer: we are no longer the member."""
        self._end(replaced(self.name, self.settings.name))

    def _broke_down(self, error: Exception) -> None:
        """The member cannot go on; the application must not believe that it does."""
        self._end(broken_down(self.name, error))

    def _end(self, failure: BaseException) -> None:
        self._failure = failure
        self._is_over = True
        if self._outboxes is not NOT_JOINED:
            self._outboxes.close(failure)
            self._channels.close()
        self._inbox.close(failure)
        self._member.disconnect_for_good()
        self._waiting.fail(failure)
        self._requests.close(failure)
        self._watch.stop()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self._leave(error, self.settings.leave_timeout)

    async def _leave(self, error: BaseException | None, timeout: float, *, always: bool = False) -> None:
        """Leave, within `timeout` if that is possible; `Unsent` if it is not, and either there was time or `always`."""
        if self._home.is_copy:
            return  # the membership is the parent's
        if self._is_over:  # it has failed, or we have left before
            await self._member.stop()
            return
        self._outboxes.close()
        self._channels.close()
        try:
            self._inbox.pause_no_more()  # the answers have to be read
            await self._durables.finish()
            self._queues.finish()
            unsent = await self._safety.before_leaving(self.name, timeout)
        finally:
            await self._go()
        if unsent is not None and (timeout or always):
            if error is None:
                raise unsent
            _log.warning("%s", unsent)

    async def _go(self) -> None:
        try:
            if self._store is None or self._retires:
                await self._say_goodbye()
            else:
                self._member.disconnect()  # a logger will be back: senders keep what it lacks
        finally:
            self._is_over = True
            self._watch.stop()
            self._names.close()
            if self._readers is not None:
                self._readers.stop()
            if self._name_log is not None:
                self._name_log.stop()
            await self._member.stop()
            self._inbox.close()
            await self._callbacks.finish()
            over = NotAMember("this member left the group before this was done")
            self._waiting.fail(over)
            self._requests.close(over)

    async def _say_goodbye(self) -> None:
        self._member.step(LeaveAsked())
        try:
            async with asyncio.timeout(GOODBYE_TIMEOUT_S if self._member.stack.roster.others() else 0):
                await self._member.left.wait()
        except TimeoutError:
            self._member.stats["left without goodbye"] += 1

    def __repr__(self) -> str:
        if self._ledger is NOT_JOINED:
            return f"<{type(self).__name__} {self.name!r} at {self.settings.address}, not joined>"
        members = len(known_members(self._member))
        state = "left" if self._is_over else f"{members} member{'s' * (members != 1)}"
        return f"<{type(self).__name__} {self.name!r} at {self.settings.address}, {self.settings.name!r}, {state}>"

    # Publishing.

    def publish(self, subject: str, payload: Any = b"", /, **attributes: Any) -> PacketId:
        """Send an event without waiting for anybody; returns the packet that will carry it. `Full` if nothing fits.

        The payload is bytes, unless there is a `Settings.codec`. Three attributes have a meaning: `key` is what belongs
        together, `ttl` after how many seconds an event is not worth delivering, and `reply` marks a request.

        Any thread may call it, in the order in which its events are sent; one that is far ahead of the event loop waits
        for it.
        """
        if attributes and "ttl" in attributes:
            check_ttl(attributes["ttl"])
        try:
            return self._outboxes.publish(subject, payload, attributes or None)
        except (TypeError, ValueError) as error:
            raise not_an_event(error, [payload], subject) from None

    def _publish_value(self, subject: str, value: Any = b"", /, **attributes: Any) -> PacketId:
        """`publish`, in a group with a codec."""
        assert self._codec is not None
        return Group.publish(self, subject, self._codec.payload(value), **attributes)

    async def publish_wait(self, subject: str, payload: Any = b"", /, **attributes: Any) -> PacketId:
        """Like `publish`, but wait for room."""
        if get_ident() != self._home.thread:
            return await self._home.bring(self.publish_wait(subject, payload, **attributes))
        while True:
            try:
                return self.publish(subject, payload, **attributes)
            except Full as full:
                await self._waiting.until(partial(self._outboxes.room, full.packets))

    @at_home
    async def publish_many(self, subject: str, payloads: Sequence[Any]) -> None:
        """Send many events of one subject, in order, the fastest way to publish; waits for room."""
        check_payloads(payloads)
        if self._codec is not None:
            payloads = list(map(self._codec.payload, payloads))
        at = 0
        while True:
            try:
                taken, needed = self._outboxes.take(subject, payloads, at)
            except (TypeError, ValueError) as error:
                raise not_an_event(error, payloads[at:], subject) from None
            at += taken
            if at >= len(payloads):
                break
            await self._waiting.until(partial(self._outboxes.room, needed))
        await asyncio.sleep(0)  # let the loop send and receive

    @at_home
    async def flush(self, timeout: float | None = None, *, durable: bool = True, copies: int = 1) -> None:
        """Wait until everything published so far is sent and, if the group has or had a logger, durable.

        It waits for a logger that is away; Timeout after `timeout` seconds. `NotDurable` if some of it will never
        be logged, because all loggers have left for good or there was no room to keep it. With `durable=False`, wait
        only until all is sent. Durable is what `Settings.copies` loggers have; `copies` must not be more than that.
        """
        check_timeout(timeout)
        check_count("copies", copies)
        if copies > self.settings.copies:
            raise SettingError(
                f"copies = {copies}: packets are kept until {self.settings.copies} loggers have them; "
                f"join with Settings(copies={copies})"
            )
        await self._safety.flush(durable, timeout)

    @at_home
    async def stable(self, packet: PacketId, timeout: float | None = None) -> None:
        """Wait until every member has confirmed that it has this packet, which this member published.

        `publish` returns the packet of an event. Members that are away and will be back count, too, so this may take as
        long as they are away; Timeout after `timeout` seconds. Members that joined after the packet was published do
        not count.
        """
        check_timeout(timeout)
        check_is(packet, PacketId, "stable takes what publish returned, a packet")
        if not tells_stability(self._member.stack.settings):
            raise SettingError(f"protocol = {self.settings.protocol!r}: does not tell when a packet is stable")
        await self._safety.stable(packet, timeout)

    # The network.

    @at_home
    def disconnect(self) -> None:
        """Announce that the network is about to go and that this member will be back: its claim on the log is kept.

        From then on nothing is sent or received. What is published waits; what others publish comes after `reconnect`.
        """
        self._check_not_over()
        self._outboxes.send()
        self._safety.is_away(True)
        self._member.disconnect()

    @at_home
    def reconnect(self) -> None:
        """Announce that the network is back, and catch up."""
        self._check_not_over()
        self._member.reconnect()
        self._safety.is_away(False)

    def _check_not_over(self) -> None:
        if self._is_over:
            raise self._failure or NotAMember("this member has left the group: join again")


def join(name: str, settings: Settings | None = None, *, trace: RowBuffer | None = None) -> Group:
    """The group `name`, to be entered with `async with`; `trace`, if given, takes the rows of what happens."""
    return Group(name, Settings() if settings is None else settings, trace=trace)


async def open_group(name: str, settings: Settings | None = None, *, trace: RowBuffer | None = None) -> Group:
    """Join the group `name` without `async with`: end it with `await group.close()`."""
    return await join(name, settings, trace=trace).__aenter__()
