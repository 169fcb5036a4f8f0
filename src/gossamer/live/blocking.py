"""The same group without asyncio: an event loop in a thread of its own, and calls that block."""

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

from gossamer.core.errors import Error
from gossamer.core.ids import PacketId
from gossamer.live.callbacks import FINISH_S, LATE, is_for_others
from gossamer.live.errors import NotAMember
from gossamer.live.group import Group
from gossamer.live.home import Home
from gossamer.live.misuse import check_subscription, check_timeout
from gossamer.live.notices import Notice, NoticeStream
from gossamer.live.subscription import Item, Losses, Start, Subscription, WhenFull
from gossamer.pubsub.channel_map import ChannelMap
from gossamer.pubsub.queue import By
from gossamer.settings import Settings
from gossamer.trace.buffer import RowBuffer
from gossamer.wire.events import Event
from gossamer.wire.keys import KeyRing

T = TypeVar("T")

_log = logging.getLogger("gossamer")
_NOT_YET = "not in the group yet: use `with gossamer.join_sync(...) as group`"
_LAST_TURNS = 4
"""Turns of the loop in which callers that still wait learn that the group is over."""


class SyncSubscription:
    """A blocking iterator over the matching events; `batches()` yields them in lists."""

    def __init__(self, group: "SyncGroup", subscription: Subscription) -> None:
        self._group = group
        self._subscription = subscription
        self._subscription.is_blocking = True
        self._items: list[Item] = []
        self._position = 0

    def __repr__(self) -> str:
        return repr(self._subscription).replace("Subscription", "SyncSubscription", 1)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        item = self.get()
        if item is None:
            raise StopIteration
        return item

    def get(self, timeout: float | None = None) -> Item | None:
        """The next item, or None at the end; Timeout if nothing comes for `timeout` seconds."""
        if self._position >= len(self._items):
            batch = self._next_batch(timeout, one_by_one=True)
            if batch is None:
                return None
            self._items, self._position = batch, 0
        self._position += 1
        return self._items[self._position - 1]

    def batches(self, timeout: float | None = None) -> Iterator[list[Item]]:
        """Yield everything that is there, again and again; Timeout if nothing comes for `timeout` seconds."""
        while (batch := self.take(timeout)) is not None:
            yield batch

    def take(self, timeout: float | None = None) -> list[Item] | None:
        """Wait for items, then take all that are there; None at the end, Timeout after `timeout` seconds."""
        if self._position < len(self._items):  # what `get` has not returned yet
            batch, self._items, self._position = self._items[self._position :], [], 0
            return batch
        return self._next_batch(timeout)

    @property
    def waiting(self) -> int:
        """How many items wait to be read."""
        return self._subscription.waiting + len(self._items) - self._position

    def commit(self, timeout: float | None = None, *, wait: bool = False) -> None:
        """All that was read so far is done; with `wait=True`, returns when loggers have kept that."""
        self._group.run(self._subscription._commit_but(len(self._items) - self._position, timeout, wait=wait))

    def caught_up(self, timeout: float | None = None) -> None:
        """Wait until all of the past that was asked for is here; Timeout if it is late."""
        self._group.run(self._subscription.caught_up(timeout))

    def call_with(self, callback: Callable[[Item], Any]) -> None:
        """Call `callback` with each item until the end; its errors are logged."""
        try:
            self._call_with(callback)
        except Error as error:  # nobody else would hear of it
            _log.error("the subscription to %r has ended: %s", self._subscription.pattern, error)

    def _call_with(self, callback: Callable[[Item], Any]) -> None:
        for item in self:
            if is_for_others(self._subscription):
                return
            try:
                callback(item)
                if self._subscription.acks is not None and isinstance(item, Event):
                    item.ack()  # here it is a plain call
            except Exception:  # the application's
                _log.exception("a callback of the subscription to %r failed on %r", self._subscription.pattern, item)

    def close(self) -> None:
        """End the subscription."""
        self._group._end(self._subscription)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _next_batch(self, timeout: float | None, *, one_by_one: bool = False) -> list[Item] | None:
        if not self._group.is_over:
            try:
                return self._group.run(self._subscription._take(timeout, one_by_one=one_by_one))
            except NotAMember:  # another thread leaves, and stopped the loop before this was done
                self._group._wait_for_end()
        return self._subscription.rest(one_by_one=one_by_one) or None


class SyncNotices:
    """A blocking iterator over the notices of a group; it ends when the member leaves."""

    def __init__(self, group: "SyncGroup", stream: NoticeStream) -> None:
        self._group = group
        self._stream = stream

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Notice:
        notice = self.get()
        if notice is None:
            raise StopIteration
        return notice

    def get(self, timeout: float | None = None) -> Notice | None:
        """The next notice, or None at the end; Timeout if there is none within `timeout` seconds."""
        if not self._group.is_over:
            try:
                return self._group.run(self._stream.get(timeout))
            except NotAMember:  # another thread leaves, and stopped the loop before this was done
                self._group._wait_for_end()
        return self._stream.next_or_none()

    def close(self) -> None:
        """End the stream after what is there."""
        self._group._end(self._stream)


class SyncGroup:
    """A member of a group, made by `gossamer.join_sync`; it leaves at the end of `with`."""

    def __init__(self, name: str, settings: Settings, *, trace: RowBuffer | None = None) -> None:
        self._group = Group(name, settings, trace=trace)
        self._thread = threading.Thread(target=self._live, name=f"gossamer-{name}", daemon=True)
        self._news: queue.Queue[Home | BaseException] = queue.Queue()
        self._home: Home | None = None
        self._leave_timeout: float | None = None
        self._callbacks: list[threading.Thread] = []

    def __enter__(self) -> Self:
        if self._thread.ident is not None:
            raise NotAMember("this membership is over: join again for a new one")
        self._thread.start()
        outcome = self._news.get()
        if isinstance(outcome, BaseException):
            self._thread.join()
            raise outcome
        self._home = outcome
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._home is None:
            raise NotAMember(_NOT_YET)
        if self.is_over or self._home.is_copy:
            return  # we have left before, or the membership is the parent's
        self._home.loop.call_soon_threadsafe(self._leave.set)
        self._thread.join()
        self._finish_callbacks()
        if error is None and not self._news.empty() and isinstance(unsent := self._news.get(), BaseException):
            raise unsent

    def _finish_callbacks(self) -> None:
        """Let callbacks take what has come, but not for ever; one of them may be the one that leaves."""
        end = monotonic() + FINISH_S
        for thread in self._callbacks:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - monotonic()))
                if thread.is_alive():
                    _log.warning(LATE, FINISH_S)

    def __repr__(self) -> str:
        return repr(self._group).replace("Group", "SyncGroup", 1)

    def close(self, timeout: float | None = None) -> None:
        """Leave the group, as at the end of `with`; for one that was made by `gossamer.open_sync`. Once is enough.

        `timeout` is how long to wait until everything published is safe, in place of `leave_timeout`; then `Unsent`.
        """
        check_timeout(timeout)
        self._leave_timeout = timeout
        self.__exit__(None, None, None)

    def publish(self, subject: str, payload: Any = b"", /, **attributes: Any) -> PacketId:
        """Send an event without waiting for any peer; returns the packet that will carry it. `Full` if nothing fits."""
        try:
            return self._group.publish(subject, payload, **attributes)
        except NotAMember:
            self._living()  # which may know better why
            raise

    def publish_wait(self, subject: str, payload: Any = b"", /, **attributes: Any) -> PacketId:
        """Like `publish`, but wait for room."""
        return self.run(self._group.publish_wait(subject, payload, **attributes))

    def publish_many(self, subject: str, payloads: Sequence[Any]) -> None:
        """Send many events of one subject, the fastest way to publish; waits for room."""
        self.run(self._group.publish_many(subject, payloads))

    def flush(self, timeout: float | None = None, *, durable: bool = True, copies: int = 1) -> None:
        """Wait until everything published so far is sent and, if there is a logger, durable."""
        self.run(self._group.flush(durable=durable, copies=copies, timeout=timeout))

    def stable(self, packet: PacketId, timeout: float | None = None) -> None:
        """Wait until every member has confirmed that it has this packet, which this member published."""
        self.run(self._group.stable(packet, timeout=timeout))

    def disconnect(self) -> None:
        """Announce that the network is about to go and that this member will be back: its claim on the log is kept."""
        self.call(self._group.disconnect)

    def reconnect(self) -> None:
        """Announce that the network is back, and catch up."""
        self.call(self._group.reconnect)

    def subscribe(
        self,
        pattern: str,
        *patterns: str,
        where: str | None = None,
        start: Start = "now",
        losses: Losses = "report",
        when_full: WhenFull | None = None,
        echo: bool = True,
        durable: str | None = None,
        queue: str | None = None,
        queue_by: By = "any",
        callback: Callable[[Item], Any] | None = None,
    ) -> SyncSubscription:
        """Subscribe as `Group.subscribe` does; returns a blocking iterator. A `callback` has a thread of its own."""
        check_subscription((pattern, *patterns), callback)
        subscription = self.call(
            lambda: self._group.subscribe(
                pattern,
                *patterns,
                where=where,
                start=start,
                losses=losses,
                when_full=when_full,
                echo=echo,
                durable=durable,
                queue=queue,
                queue_by=queue_by,
            )
        )
        blocking = SyncSubscription(self, subscription)
        if callback is not None:
            name = f"gossamer-{self._group.name}-{pattern}"
            thread = threading.Thread(target=blocking.call_with, args=(callback,), name=name, daemon=True)
            thread.start()
            self._callbacks = [*filter(threading.Thread.is_alive, self._callbacks), thread]
        return blocking

    def request(self, subject: str, payload: Any = b"", /, *, timeout: float | None = 1.0, **attributes: Any) -> Event:
        """Publish an event and wait for the first reply; Timeout without one, NobodyListens if there cannot be one."""
        return self.run(self._group.request(subject, payload, timeout=timeout, **attributes))

    def request_many(
        self,
        subject: str,
        payload: Any = b"",
        /,
        *,
        timeout: float | None = 1.0,
        limit: int | None = None,
        **attributes: Any,
    ) -> Iterator[Event]:
        """Publish an event and yield the replies to it as they come, at most `limit`, for `timeout` seconds in all."""
        replies = self._group.request_many(subject, payload, timeout=timeout, limit=limit, **attributes)
        try:
            while (reply := self.run(_next(replies))) is not None:
                yield reply
        finally:
            with suppress(NotAMember):  # what is not read to its end may be closed much later
                self.run(replies.aclose())

    def reply(self, event: Event, payload: Any = b"", /, **attributes: Any) -> None:
        """Answer a request, as `event.reply(payload)` does."""
        self._group.reply(event, payload, **attributes)

    def notices(self) -> SyncNotices:
        """What happens to the group, from now on, as `Group.notices` tells it; a blocking iterator."""
        return SyncNotices(self, self.call(self._group.notices))

    def members(self) -> tuple[int, ...]:
        """The members of the group, as far as this member knows."""
        return self.call(self._group.members)

    def name_of(self, member: int) -> str:
        """What people call a member; its number, if it has not said."""
        return self._group.name_of(member)

    def install_channels(self, channels: ChannelMap) -> None:
        """Give the group another channel map, of a higher version: all members take it over, and nothing is lost."""
        self.call(lambda: self._group.install_channels(channels))

    def channels(self) -> ChannelMap | None:
        """The channel map, which says which subjects go to which channel; None if all go to channel 0."""
        return self.call(self._group.channels)

    def channels_used(self, *, timeout: float | None = None) -> bool:
        """Wait until all members publish by the latest channel map; False if they do not after `timeout` seconds."""
        return self.run(self._group.channels_used(timeout=timeout))

    def blocked(self) -> str:
        """Why nothing can be delivered now, in a group with one order for all (`order="total"`); empty if it can."""
        return self.call(self._group.blocked)

    def loggers(self) -> tuple[int, ...]:
        """The members that are loggers."""
        return self.call(self._group.loggers)

    def stats(self) -> dict[str, Any]:
        """The loss ledger and every counter, as a plain dict."""
        return self.call(self._group.stats)

    def profile(self) -> dict[str, Any]:
        """What this member answers to a probe: who it is, whom it knows, and its counters."""
        return self.call(self._group.profile)

    @property
    def name(self) -> str:
        """The name of the group."""
        return self._group.name

    @property
    def settings(self) -> Settings:
        """What the group was joined with."""
        return self._group.settings

    @property
    def keys(self) -> KeyRing | None:
        """This member's keys, to be changed while it runs: `install`, `use`, `remove`; None without a key."""
        return self._group.keys

    @property
    def me(self) -> int:
        """This member's number, which is the `sender` of what it publishes."""
        return self._group.me

    @property
    def is_over(self) -> bool:
        """Whether this member has left the group."""
        return self._home is not None and self._home.loop.is_closed()

    def _end(self, stream: Subscription | NoticeStream) -> None:
        """End a stream; that of a group that was left has ended."""
        if not self.is_over:
            try:
                self.call(stream.close)
            except NotAMember:  # another thread leaves
                self._wait_for_end()

    def _wait_for_end(self) -> None:
        """Wait until the loop, which has stopped, is closed; NotAMember in a forked child, which has no loop."""
        assert self._home is not None, "entered"
        if self._home.is_copy:
            self._home.check()
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the group's loop, and wait for it."""
        try:
            home = self._living()
        except RuntimeError:
            work.close()
            raise
        return home.run(work)

    def call(self, work: Callable[[], T]) -> T:
        """Call a function in the group's loop, and wait for its result."""
        return self._living().call(work)

    def _living(self) -> Home:
        if self._home is None:
            raise NotAMember(_NOT_YET)
        if self.is_over and not self._home.is_copy:
            raise NotAMember("this member has left the group: join again")
        return self._home

    def _live(self) -> None:
        asyncio.run(self._be_a_member())

    async def _be_a_member(self) -> None:
        self._leave = asyncio.Event()
        try:
            async with self._group:
                self._news.put(self._group._home)
                await self._leave.wait()
                await self._group.close(self._leave_timeout)
        except BaseException as error:
            self._news.put(error)
        for _ in range(_LAST_TURNS):
            await asyncio.sleep(0)


async def _next(replies: AsyncGenerator[Event]) -> Event | None:
    return await anext(replies, None)


def join_sync(name: str, settings: Settings | None = None, *, trace: RowBuffer | None = None) -> SyncGroup:
    """The group `name` with blocking calls, to be entered with `with`."""
    return SyncGroup(name, Settings() if settings is None else settings, trace=trace)


def open_sync(name: str, settings: Settings | None = None, *, trace: RowBuffer | None = None) -> SyncGroup:
    """Join the group `name` with blocking calls and without `with`: end it with `group.close()`."""
    return join_sync(name, settings, trace=trace).__enter__()
