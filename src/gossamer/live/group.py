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
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self, cast
from zlib import crc32

from gossamer.core.ids import MEMBER_BITS, PacketId
from gossamer.core.inputs import LeaveAsked, RewindAsked
from gossamer.core.names import learn, name_of
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.say import Gap
from gossamer.core.schema import SettingError
from gossamer.live.answers import Question
from gossamer.live.callbacks import Callback, Callbacks
from gossamer.live.channels import GroupChannels
from gossamer.live.credentials import envelope_for, member_number, trusted
from gossamer.live.envelope import Envelope, SealedEnvelope
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
from gossamer.live.keeping import answer_to
from gossamer.live.ledger import Ledger, known_members
from gossamer.live.member import Member
from gossamer.live.misuse import check_group, not_an_event
from gossamer.live.multicast_check import multicast_reaches_us
from gossamer.live.notices import Bulletin, NoticeStream
from gossamer.live.outbox import Outbox
from gossamer.live.outboxes import Outboxes
from gossamer.live.safety import Safety
from gossamer.live.subscription import Item, Losses, Lost, Room, Start, Subscription, WhenFull, parse_start
from gossamer.live.transport import Endpoint, Transport, UdpTransport
from gossamer.live.tuning import Tuning, contacts_of, spare_the_collector, tuned
from gossamer.live.waiting import Waiting
from gossamer.live.watch import Watch, Witness
from gossamer.pubsub.channel_map import ChannelMap
from gossamer.rungs import holds_back, may_log, resumes, tells_stability
from gossamer.settings import Settings
from gossamer.store.contract import LogStore
from gossamer.trace.buffer import RowBuffer
from gossamer.wire import Header
from gossamer.wire.keys import KeyRing

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


class Group:
    """A member of a group, made by `gossamer.join`; it leaves at the end of `async with`."""

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
        self._past: deque[tuple[Subscription, int, Horizon]] = deque()

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
            self._outboxes = Outboxes(self._home, partial(self._make_outbox, tuning.body_bytes))
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

    def _make_outbox(self, body_bytes: int, channel: int) -> Outbox:
        fifo = self._member.stack.order.holds_back
        return Outbox(self._home, self._member, self.settings, body_bytes, fifo=fifo, channel=channel)

    async def close(self) -> None:
        """Leave the group, as at the end of `async with`; for one that was made by `gossamer.open`."""
        await self.__aexit__(None, None, None)

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
        """Whether packets travel by trees: because the settings say so, or no contact is heard over multicast."""
        settings = self.settings
        if settings.first_pass != "auto" or not settings.contacts:
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
            past_known=self._past_known,
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
        return tuning

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
        self._watch.stop()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._home.is_copy:
            return  # the membership is the parent's
        if self._failure is not None:
            await self._member.stop()
            return
        self._outboxes.close()
        self._channels.close()
        try:
            self._inbox.pause_no_more()  # the answers have to be read
            unsent = await self._safety.before_leaving(self.name)
        finally:
            await self._go()
        if unsent is not None and self.settings.leave_timeout:
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
            await self._member.stop()
            self._inbox.close()
            await self._callbacks.finish()
            self._waiting.fail(NotAMember("this member left the group before this was done"))

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
        state = "left" if self._is_over else f"{len(known_members(self._member))} members"
        return f"<{type(self).__name__} {self.name!r} at {self.settings.address}, {self.settings.name!r}, {state}>"

    # Publishing.

    def publish(self, subject: str, payload: bytes = b"", /, **attributes: Any) -> PacketId:
        """Send an event without waiting for anybody; returns the packet that will carry it. `Full` if nothing fits.

        Any thread may call it; one that is not the event loop's waits until the loop has taken the event.
        """
        try:
            return self._outboxes.publish(subject, payload, attributes or None)
        except (TypeError, ValueError) as error:
            raise not_an_event(error, [payload]) from None

    async def publish_wait(self, subject: str, payload: bytes = b"", /, **attributes: Any) -> PacketId:
        """Like `publish`, but wait for room."""
        if get_ident() != self._home.thread:
            return await self._home.bring(self.publish_wait(subject, payload, **attributes))
        while True:
            try:
                return self.publish(subject, payload, **attributes)
            except Full as full:
                await self._waiting.until(partial(self._outboxes.room, full.packets))

    @at_home
    async def publish_many(self, subject: str, payloads: Sequence[bytes]) -> None:
        """Send many events of one subject, in order, the fastest way to publish; waits for room."""
        at = 0
        while True:
            try:
                taken, needed = self._outboxes.take(subject, payloads, at)
            except (TypeError, ValueError) as error:
                raise not_an_event(error, payloads[at:]) from None
            at += taken
            if at >= len(payloads):
                break
            await self._waiting.until(partial(self._outboxes.room, needed))
        await asyncio.sleep(0)  # let the loop send and receive

    @at_home
    async def flush(self, *, durable: bool = True, copies: int = 1, timeout: float | None = None) -> None:
        """Wait until everything published so far is sent and, if the group has or had a logger, durable.

        It waits for a logger that is away; Timeout after `timeout` seconds. `NotDurable` if some of it will never
        be logged, because all loggers have left for good or there was no room to keep it. With `durable=False`, wait
        only until everything is sent. `copies` says how many loggers must have it, up to `Settings.copies`.
        """
        if copies > self.settings.copies:
            raise SettingError(
                f"copies = {copies}: packets are kept until {self.settings.copies} loggers have them; "
                f"join with Settings(copies={copies})"
            )
        await self._safety.flush(durable, timeout)

    @at_home
    async def stable(self, packet: PacketId, *, timeout: float | None = None) -> None:
        """Wait until every member has confirmed that it has this packet, which this member published.

        `publish` returns the packet of an event. Members that are away and will be back count, too, so this may take as
        long as they are away; Timeout after `timeout` seconds. Members that joined after the packet was published do
        not count.
        """
        if not tells_stability(self._member.stack.settings):
            raise SettingError(f"protocol = {self.settings.protocol!r}: does not tell when a packet is stable")
        await self._safety.stable(packet, timeout)

    # The network.

    @at_home
    def disconnect(self) -> None:
        """Announce that the network is about to go and that this member will be back: its claim on the log is kept.

        From then on nothing is sent or received. What is published waits; what others publish comes after `reconnect`.
        """
        self._outboxes.send()
        self._member.disconnect()

    @at_home
    def reconnect(self) -> None:
        """Announce that the network is back, and catch up."""
        self._member.reconnect()

    # Subscribing.

    def subscribe(
        self,
        pattern: str,
        *patterns: str,
        where: str | None = None,
        start: Start = "now",
        losses: Losses = "report",
        when_full: WhenFull | None = None,
        echo: bool = True,
        callback: Callback | None = None,
    ) -> Subscription:
        """Subscribe to events whose subject matches a pattern and whose attributes satisfy `where`, from `start` on.

        `start` is "now", "beginning" (all that a logger holds), an aware datetime, or the first number wanted from some
        senders, `{sender: seqno}`, with all that a logger holds from the others. A gap that nobody could repair comes
        as `Lost` in its place; with `losses="skip"` only events come. `when_full` is what happens when the application
        does not read: "pause", "drop" or "raise", as in the settings. With `echo=False`, what this member publishes
        does not come. A `callback`, a function or a coroutine function, is called with each item in its order; its
        errors are logged, and the subscription goes on.
        """
        self._home.check_here("subscribe in that thread, or use gossamer.join_sync")
        wish = parse_start(start)
        if wish is not None and not self._member.stack.order.holds_back:
            raise SettingError(f"start = {start!r}: past events need order = 'fifo'")
        if wish is not None and self._store is not None:
            raise SettingError(f"start = {start!r}: a logger cannot subscribe to the past: read its store")
        given = self.settings
        room = Room(given.queue_events, given.queue_bytes, when_full or cast(WhenFull, given.when_full))
        subscription = self._inbox.subscribe((pattern, *patterns), where, losses, room, echo)
        self._channels.look()
        if wish is not None:
            subscription.wait_for_past()
            self._past.append((subscription, *wish))
            if len(self._past) == 1:
                self._ask_for_past()
        if callback is not None:
            self._callbacks.begin(subscription, callback)
        return subscription

    def _ask_for_past(self) -> None:
        _, since_ns, positions = self._past[0]
        self._member.step(RewindAsked(since_ns, positions))

    def _past_known(self, held: PacketSets | None) -> None:
        """Loggers have said what they hold, and the stack is now requesting it; or no logger has answered."""
        subscription, _, positions = self._past.popleft()
        if held is None:
            self._inbox.past_unknown(subscription)
        else:
            self._inbox.past_known(subscription, held, positions, self._member.stack.roster)
        if self._past:
            asyncio.get_running_loop().call_soon(self._ask_for_past)

    # Channels.

    @at_home
    def install_channels(self, channels: ChannelMap) -> None:
        """Give the group another channel map, of a higher version: all members take it over by and by, losing nothing.

        `channels()` is the map that this member knows.
        """
        self._channels.install(channels)

    @at_home
    def channels(self) -> ChannelMap | None:
        """The channel map, which says which subjects go to which channel; None if all go to channel 0."""
        return self._channels.map

    # Inspecting.

    @at_home
    def members(self) -> tuple[int, ...]:
        """The members of the group, as far as this member knows; they are owed whatever is published from now on."""
        return known_members(self._member)

    @at_home
    def loggers(self) -> tuple[int, ...]:
        """The members that are loggers."""
        return self._member.stack.roster.loggers

    def notices(self) -> NoticeStream:
        """What happens to the group, from now on, as an asynchronous iterator of `Notice(kind, text, member, ...)`.

        Members join, leave, are suspected or lag; packets are lost; keys, clocks or versions do not fit; a logger
        refuses; multicast does not arrive; a subscription is not read fast enough. What is wrong is also logged, as
        warnings of `logging.getLogger("gossamer")`.
        """
        self._home.check_here("read notices in that thread, or use gossamer.join_sync")
        return self._bulletin.stream()

    def name_of(self, member: int) -> str:
        """What people call a member; its number, if it has not said."""
        return name_of(member)

    @property
    def keys(self) -> KeyRing | None:
        """This member's keys, to be changed while it runs: `install`, `use`, `remove`; None without a key."""
        return self._envelope.keys if isinstance(self._envelope, SealedEnvelope) else None

    @at_home
    def stats(self) -> dict[str, Any]:
        """The loss ledger and every counter, as a plain dict.

        `received` = `first_pass` + `peer` + `logger`: events from others, by the rung through which they came.
        """
        return self._ledger.counters()

    @at_home
    def profile(self) -> dict[str, Any]:
        """What this member answers to a probe: who it is, whom it knows, and its counters."""
        return self._ledger.profile()


def join(name: str, settings: Settings | None = None, *, trace: RowBuffer | None = None) -> Group:
    """The group `name`, to be entered with `async with`; `trace`, if given, takes the rows of what happens."""
    return Group(name, settings or Settings(), trace=trace)


async def open_group(name: str, settings: Settings | None = None, *, trace: RowBuffer | None = None) -> Group:
    """Join the group `name` without `async with`: end it with `await group.close()`."""
    return await join(name, settings, trace=trace).__aenter__()
