"""A subscription: the items that match, in order, until the application takes them.

All items wait in one list that grows at the end; the application takes it whole (`batches`) or item by item. How much
may wait is bounded, in events and in bytes. What does not fit is reported as lost in its place, once for each sender:
while the list is full nothing else is added to it, so that place is its end.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from operator import itemgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, Self, get_args

from gossamer.core.errors import Misuse
from gossamer.core.ids import owner_of
from gossamer.core.packet_sets import Horizon
from gossamer.core.schema import SettingError
from gossamer.live.errors import Overrun, Timeout
from gossamer.live.home import at_home
from gossamer.live.misuse import check_timeout, within
from gossamer.live.names import name_of
from gossamer.wire.events import Event

if TYPE_CHECKING:
    from gossamer.live.inbox import Inbox
    from gossamer.live.queueing import Worker

_INSTEAD = "read there, or use gossamer.join_sync"
_NOT_READ = "not read"
_PAYLOAD = itemgetter(1)


class Lost(NamedTuple):
    """A gap that was given up, in its place in the stream."""

    sender: int
    first: int
    last: int
    reason: str

    @property
    def source(self) -> str:
        """What people call the sender of what is lost."""
        return name_of(self.sender)


class Blocked(NamedTuple):
    """The one order of the group cannot go on: nothing is delivered until it can (`order="total"` only)."""

    reason: str

    @property
    def sender(self) -> int:
        """Nobody in particular."""
        return -1


class Undo:
    """Take back every event from `place` on, the last first: it was delivered too early, and comes again elsewhere.

    Only with `order_failures="non-atomic"`. `packets` are the packets of these events, as (sender, seqno), in the order
    in which to undo them. Say `ack()` when that is done.
    """

    __slots__ = ("_done", "packets", "place")

    sender = -1
    reason = "delivered before most members had it"

    def __init__(self, place: tuple[int, int, int], packets: Sequence[tuple[int, int]], done: Callable[[], None]):
        self.place: Final = place
        self.packets: Final = tuple(packets)
        self._done: Callable[[], None] | None = done

    def __repr__(self) -> str:
        return f"Undo(place={self.place}, packets={self.packets})"

    def covers(self, event: Event) -> bool:
        """Whether this event, which came before, has to be undone."""
        return event.place is not None and event.place >= self.place

    def ack(self) -> None:
        """All of it is undone. It can be said once."""
        if self._done is None:
            raise Misuse(f"{self!r} was acknowledged already: its events must not be undone twice")
        done, self._done = self._done, None
        done()


Item = Event | Lost | Blocked | Undo
Losses = Literal["report", "skip"]
LATEST = "latest-per-subject"
Start = Literal["now", "new", "last", "beginning", "latest-per-subject"] | Horizon | datetime
FROM_NOW_ON = ("now", "new", "last")
"""Three words for one thing: `now` is ours, `new` is NATS's, and `last` is the first that we had."""
WhenFull = Literal["pause", "drop", "raise"]


class Room(NamedTuple):
    """How much may wait in a subscription, and what happens when it is full."""

    events: int
    size_bytes: int
    when_full: WhenFull


class Acknowledging(Protocol):
    """Keeps account of what an application has read and what of it is done."""

    def taken(self, items: list[Item]) -> None:
        """The application has read these, to acknowledge them together."""

    def taken_one_by_one(self, items: list[Item], *, shared: bool, blocking: bool) -> list[Item]:
        """The application reads these; each event can be acknowledged. Those that others have, too, are copied."""

    async def commit(self, unread: int, timeout: float | None, *, wait: bool) -> None:
        """All that was taken is done, but for the last so many items."""


class Subscription:
    """An asynchronous iterator over the matching events; `batches()` yields them in lists, which is faster."""

    def __init__(self, inbox: "Inbox", key: int, pattern: str, losses: Losses, room: Room, echo: bool = True) -> None:
        _check_choice("losses", losses, Losses)
        _check_choice("when_full", room.when_full, WhenFull)
        self.pattern = pattern
        self.rewound: Horizon = {}
        """For each sender whose past is still coming: the next number that is new here."""
        self.is_full = False
        self.pauses = room.when_full == "pause"
        """Whether the member need not read while this is full."""
        self.acks: Acknowledging | None = None
        """What keeps account of what is done, if anything does."""
        self.queue: Worker | None = None
        """The queue that says which events are for this subscription, if there is one."""
        self._not_from = -1 if echo else inbox.me
        self._inbox = inbox
        self._home = inbox.home
        self.key = key
        self._reports = losses == "report"
        self._events_max, self._bytes_max, self._when_full = room
        self._items: list[Item] = []
        self._bytes = 0
        self._unread: dict[int, Lost] = {}  # by sender: what came while this was full
        self._reading: list[Item] = []  # what is taken item by item
        self._position = 0
        self.is_blocking = False
        """Whether it is read in another thread, without asyncio."""
        self._alone_since = -1  # how many subscriptions had been made when this one was alone, at the last taking
        self._early: list[Item] | None = None  # what comes while the past is not known yet
        self._ready = asyncio.Event()
        self._past_is_here = asyncio.Event()
        self._past_is_here.set()
        self._closed = False
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        state = "closed" if self._closed else "full" if self.is_full else "open"
        return f"<{type(self).__name__} to {self.pattern!r}, {state}, {self.waiting} waiting>"

    @property
    def is_closed(self) -> bool:
        """Whether nothing more comes."""
        return self._closed

    @property
    def waiting(self) -> int:
        """How many items the application has not taken."""
        begun = len(self._reading) - self._position if self._reading else 0
        return begun + len(self._items) + len(self._early or ())

    @property
    def is_half_full(self) -> bool:
        """Whether half of what may wait does, and the application should hurry."""
        return 2 * self._bytes > self._bytes_max or 2 * self.waiting > self._events_max

    def offer(self, events: list[Event], size_bytes: int) -> None:
        """Take these events, all of one sender, unless there is no room."""
        if self._not_from >= 0 and owner_of(events[0].sender) == self._not_from:
            return
        if self.queue is not None:
            events = self.queue.arrived(events)
            size_bytes = size_of(events)
        if events:
            self._offer(events, size_bytes)

    def offer_own(self, events: list[Event]) -> None:
        """Take events that another member of the queue has left."""
        for event in events:
            self._offer([event], len(event.payload))

    def _offer(self, events: list[Event], size_bytes: int) -> None:
        if self.is_full and self._refuses(events[0].sender, events[0].seqno, events[-1].seqno, _NOT_READ):
            return
        items = self._items if self._early is None else self._early
        items += events
        self._bytes += size_bytes
        self._ready.set()
        if self._bytes > self._bytes_max or len(items) > self._events_max:
            self._fill()

    def offer_loss(self, lost: Lost) -> None:
        """Take a loss, if losses are wanted."""
        if self.queue is not None:
            self.queue.lost(lost.sender, lost.last)
        if not self._reports or (self.is_full and self._refuses(*lost)):
            return
        (self._items if self._early is None else self._early).append(lost)
        self._ready.set()
        if self.waiting > self._events_max:
            self._fill()

    def offer_blocked(self, blocked: Blocked) -> None:
        """Take the news that nothing comes, if such news are wanted: whoever does not read need not know."""
        if self._reports and not self.is_full:
            (self._items if self._early is None else self._early).append(blocked)
            self._ready.set()

    def offer_undo(self, undo: Undo) -> None:
        """Take the news that events have to be undone: whatever else is not wanted, this is."""
        (self._items if self._early is None else self._early).append(undo)
        self._ready.set()

    def _fill(self) -> None:
        if not self.is_full:
            self.is_full = True
            self._inbox.look()

    def _refuses(self, sender: int, first: int, last: int, reason: str) -> bool:
        """Whether these are not taken: then they are lost to this subscription, or it ends.

        What comes after the member has stopped reading was on its way, and is taken; but what the member itself
        publishes comes in any case.
        """
        if self._when_full == "raise":
            self.close(
                Overrun(
                    f"a subscription was not read: {self.waiting} events of {self._bytes} bytes wait in it; read "
                    "faster, or choose more queue_events and queue_bytes, or another when_full"
                )
            )
            return True
        before = self._unread.get(sender)
        if self.pauses and self._inbox.is_paused and before is None and sender != self._inbox.me:
            return False
        if reason == _NOT_READ:
            self._inbox.lost[_NOT_READ] += last - first + 1
        if before is not None:
            first, last, reason = min(first, before.first), max(last, before.last), _NOT_READ
        self._unread[sender] = Lost(sender, first, last, reason)
        return True

    def wait_for_past(self) -> None:
        """From now on hold back what comes, until `past_known`."""
        self._early = [] if self._early is None else self._early
        self._past_is_here.clear()

    def past_known(self, positions: Horizon) -> None:
        """The past begins at these numbers and comes now; what was held back from these senders comes again with it."""
        early, self._early = self._early or [], None
        self._items += [item for item in early if item.sender not in positions]
        self._unread = {sender: lost for sender, lost in self._unread.items() if sender not in positions}
        self._end_of_full()
        self._bytes = size_of([item for item in self._items if isinstance(item, Event)])
        self.rewound = dict(positions)
        self._look_at_past()
        self._ready.set()
        if self._bytes > self._bytes_max or self.waiting > self._events_max:
            self.is_full = True
        self._inbox.look()

    def went_on(self, sender: int, following: int, mark: int) -> None:
        """The past of a sender has come as far as `following`; at `mark` the present begins."""
        self.rewound[sender] = following
        if following >= mark:
            del self.rewound[sender]
            self._look_at_past()

    def _look_at_past(self) -> None:
        if not self.rewound and self._early is None:
            self._past_is_here.set()

    @at_home
    async def caught_up(self, timeout: float | None = None) -> None:
        """Wait until all of the past that was asked for is here: everything after it is new. Timeout if it is late.

        What has come waits to be read, so read meanwhile if it may be more than `queue_events`.
        """
        try:
            async with within(timeout):
                await self._past_is_here.wait()
        except TimeoutError:
            raise Timeout(f"the past was not complete within {timeout} s: {len(self.rewound)} senders") from None
        if self._error is not None:
            raise self._error

    def past_is(self, items: list[Item]) -> None:
        """These were before everything that was held back."""
        if self._early is not None:
            self._early[:0] = items if self._reports else [item for item in items if isinstance(item, Event)]
            self.past_known({})

    def past_unknown(self, lost: Lost) -> None:
        """The past is lost; it was before everything that was held back."""
        if self._reports and self._early is not None:
            self._early.insert(0, lost)
        self.past_known({})

    @property
    def waits_for_past(self) -> bool:
        """Whether the past is not known yet."""
        return self._early is not None

    @at_home
    def close(self, error: BaseException | None = None) -> None:
        """End the subscription: the iteration ends after what is there, with an error if there is one."""
        if not self._closed:
            self._closed = True
            self._error = error
            self._items += self._early or ()
            self._early = None
            self._end_of_full()
            self._inbox.unsubscribe(self.key)
            self._ready.set()
            self._past_is_here.set()

    def refuse(self, error: BaseException) -> None:
        """End the subscription because it may not be read: what was held back for it is for another."""
        self._early = None
        self.close(error)

    def __del__(self) -> None:
        """The application has dropped it, perhaps in another thread: this is as if it were closed."""
        if getattr(self, "_closed", True) or self._home.is_copy:
            return
        with suppress(RuntimeError):  # the loop has ended, and all with it
            self._home.loop.call_soon_threadsafe(self._inbox.unsubscribe, self.key)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def get(self, timeout: float | None = None) -> Item | None:
        """The next item, or None at the end; Timeout if nothing comes for `timeout` seconds."""
        try:
            async with within(timeout):
                return await anext(self)
        except StopAsyncIteration:
            return None
        except TimeoutError:
            raise Timeout(f"nothing came within {timeout} s") from None

    async def __anext__(self) -> Item:
        while not self._reading:  # what has come may all be too old
            while not self._items:
                await self._fetch()
            self._reading = self._taken(one_by_one=True)
            self._position = 0
        item = self._reading[self._position]
        self._position += 1
        if self._position == len(self._reading):
            self._reading = []
        return item

    async def batches(self, timeout: float | None = None) -> AsyncIterator[list[Item]]:
        """Yield everything that is there, again and again; Timeout if nothing comes for `timeout` seconds."""
        while (batch := await self.take(timeout)) is not None:
            yield batch

    async def take(self, timeout: float | None = None) -> list[Item] | None:
        """Wait for items and return all that are there, or None at the end; Timeout after `timeout` seconds."""
        return await self._take(timeout)

    async def _take(self, timeout: float | None, *, one_by_one: bool = False) -> list[Item] | None:
        try:
            while not (found := self.rest(one_by_one=one_by_one) if self._items or self._reading else []):
                if timeout is None:  # the usual case: a timeout that never fires costs as much as the wait
                    await self._fetch()
                else:
                    async with within(timeout):
                        await self._fetch()
        except StopAsyncIteration:
            return None
        except TimeoutError:
            raise Timeout(f"nothing came within {timeout} s") from None
        return found

    def rest(self, *, one_by_one: bool = False) -> list[Item]:
        """Everything that is there, perhaps nothing; does not wait. Events of a batch are acknowledged by `commit`."""
        begun, self._reading = self._reading, []
        taken = self._taken(one_by_one=one_by_one)
        return begun[self._position :] + taken if begun else taken

    @at_home
    async def commit(self, timeout: float | None = None, *, wait: bool = False) -> None:
        """All that was read so far is done. With `durable=`, the next subscription of that name begins after it.

        The commit travels to the loggers while you go on. This waits only while they have not kept what was committed
        a second ago; with `wait=True` until they have kept all of it, which takes a round trip and a sync of a disk. It
        raises Timeout after `timeout` seconds. What is not kept when a reader dies comes again. With `queue=` it
        never waits, and what was not committed goes to another member of the queue when this one is gone.
        """
        await self._commit_but(len(self._reading) - self._position if self._reading else 0, timeout, wait=wait)

    async def _commit_but(self, unread: int, timeout: float | None, *, wait: bool) -> None:
        """Commit all that was taken but for the last so many items."""
        check_timeout(timeout)
        if self.acks is None:
            raise Misuse("nobody waits for a commit: subscribe with durable='name' or queue='name'")
        await self.acks.commit(unread, timeout, wait=wait)

    @property
    def has_given_all(self) -> bool:
        """Whether all that has come was given to the application."""
        return not self._items and self._early is None

    async def _fetch(self) -> None:
        if self._closed:
            raise self._error or StopAsyncIteration
        self._home.check_here(_INSTEAD)
        self._ready.clear()
        await self._ready.wait()

    def _taken(self, *, one_by_one: bool = False) -> list[Item]:
        """Hand over all items: there is room again."""
        if not self._closed:
            self._home.check_here(_INSTEAD)
        was_full = self.is_full
        if was_full:
            self._end_of_full()
        items, self._items = self._items, []
        self._bytes = 0
        if self._inbox.has_ttl:
            items = self._alive(items)
        if self.acks is not None and items:
            shared, self._alone_since = self._alone_since != self._inbox.made, self._inbox.made_if_one()
            if one_by_one:
                items = self.acks.taken_one_by_one(items, shared=shared, blocking=self.is_blocking)
            else:
                self.acks.taken(items)
        if was_full:
            self._inbox.look()
        return items

    def _alive(self, items: list[Item]) -> list[Item]:
        """The items but for events that have become too old here; for a queue these are done."""
        kept = set(map(id, self._inbox.alive([item for item in items if isinstance(item, Event)])))
        old = [item for item in items if isinstance(item, Event) and id(item) not in kept]
        if self.queue is not None:
            self.queue.skipped(old)
        return [item for item in items if not isinstance(item, Event) or id(item) in kept] if old else items

    def _end_of_full(self) -> None:
        """There is room again, or nothing more comes: what was lost meanwhile follows what is there."""
        self.is_full = False
        if self._unread:
            if self._reports:
                self._items += self._unread.values()
            self._unread = {}


def size_of(events: list[Event]) -> int:
    """How many bytes the payloads of some events have."""
    return sum(map(len, map(_PAYLOAD, events)))


def _check_choice(name: str, value: object, choices: Any) -> None:
    if value not in get_args(choices):
        allowed = " or ".join(map(repr, get_args(choices)))
        raise SettingError(f"{name} = {value!r}: must be {allowed}")


def parse_start(start: Start) -> tuple[int, Horizon] | None:
    """Since when (nanoseconds since the epoch), and from which numbers; None means from now on."""
    if start in FROM_NOW_ON or start == LATEST:
        return None
    if start == "beginning":
        return 0, {}
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise SettingError(f"start = {start!r}: give it a time zone, as in datetime.now(timezone.utc)")
        return max(0, int(start.timestamp() * 1e9)), {}
    if isinstance(start, dict) and all(isinstance(n, int) for pair in start.items() for n in pair):
        return 0, dict(start)
    raise SettingError(
        f"start = {start!r}: must be 'now', 'beginning', 'latest-per-subject', {{sender: seqno}} or an aware datetime"
    )
