"""A subscription: the items that match, in order, until the application takes them.

All items wait in one list that grows at the end; the application takes it whole (`batches`) or item by item.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import datetime
from typing import Literal, NamedTuple, Self

from gossamer.core.packet_sets import Horizon
from gossamer.core.schema import SettingError
from gossamer.live.home import Home
from gossamer.wire.events import Event


class Lost(NamedTuple):
    """A gap that was given up, in its place in the stream."""

    sender: int
    first: int
    last: int
    reason: str


_INSTEAD = "read there, or use gossamer.join_sync"

Item = Event | Lost
Losses = Literal["report", "skip"]
Start = Literal["last", "beginning"] | Horizon | datetime


class Subscription:
    """An asynchronous iterator over the matching events; `batches()` yields them in lists, which is faster."""

    def __init__(self, home: Home, losses: Losses, taken: Callable[[int], None], close: Callable[[], None]) -> None:
        if losses not in ("report", "skip"):
            raise SettingError(f"losses = {losses!r}: must be 'report' or 'skip'")
        self.rewound: Horizon = {}
        """For each sender whose past is still coming: the next number that is new here."""
        self._reports = losses == "report"
        self._taken = taken
        self._close = close
        self._items: list[Item] = []
        self._position = 0
        self._early: list[Item] | None = None  # what comes while the past is not known yet
        self._ready = asyncio.Event()
        self._closed = False
        self._error: BaseException | None = None
        self._home = home

    def offer(self, events: list[Event]) -> int:
        """Take these events; returns how many there are."""
        if self._early is not None:
            self._early += events
        else:
            self._items += events
            self._ready.set()
        return len(events)

    def offer_loss(self, lost: Lost) -> int:
        """Take a loss, if losses are wanted; returns how many items that is, 0 or 1."""
        if not self._reports:
            return 0
        (self._items if self._early is None else self._early).append(lost)
        self._ready.set()
        return 1

    def wait_for_past(self) -> None:
        """From now on hold back what comes, until `past_known`."""
        self._early = []

    def past_known(self, positions: Horizon) -> int:
        """The past begins at these numbers and comes now; what was held back from these senders comes again with it.

        Returns how many of the items that were held back are dropped for that reason.
        """
        early, self._early = self._early or [], None
        kept = [item for item in early if item.sender not in positions]
        self.rewound = dict(positions)
        self._items += kept
        self._ready.set()
        return len(early) - len(kept)

    @property
    def waits_for_past(self) -> bool:
        """Whether the past is not known yet."""
        return self._early is not None

    def close(self, error: BaseException | None = None) -> None:
        """End the subscription: the iteration ends after what is there, with an error if there is one."""
        if not self._closed:
            self._closed = True
            self._error = error
            self._close()
            self._items += self._early or ()
            self._early = None
            self._taken(len(self._items))  # it is the application's now
            self._ready.set()

    def __del__(self) -> None:
        """The application has dropped it, perhaps in another thread: this is as if it were closed."""
        if getattr(self, "_closed", True) or self._home.is_copy:
            return
        with suppress(RuntimeError):  # the loop has ended, and all with it
            self._home.loop.call_soon_threadsafe(self._close)
            self._home.loop.call_soon_threadsafe(self._taken, len(self._items) + len(self._early or ()))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while self._position >= len(self._items):
            await self._fetch()
        item = self._items[self._position]
        self._position += 1
        if self._position == len(self._items):
            self._forget()
        return item

    async def batches(self) -> AsyncIterator[list[Item]]:
        """Yield everything that is there, again and again; never an empty list."""
        while (batch := await self.take()) is not None:
            yield batch

    async def take(self, timeout: float | None = None) -> list[Item] | None:
        """Wait for items and return all that are there, or None at the end; TimeoutError after `timeout` seconds."""
        try:
            while self._position >= len(self._items):
                if timeout is None:  # the usual case: a timeout that never fires costs as much as the wait
                    await self._fetch()
                else:
                    async with asyncio.timeout(timeout):
                        await self._fetch()
        except StopAsyncIteration:
            return None
        return self.rest()

    def rest(self) -> list[Item]:
        """Everything that is there, perhaps nothing; does not wait."""
        batch = self._items[self._position :] if self._position else self._items
        self._forget()
        return batch

    async def _fetch(self) -> None:
        if self._closed:
            raise self._error or StopAsyncIteration
        self._home.check_here(_INSTEAD)
        self._ready.clear()
        await self._ready.wait()

    def _forget(self) -> None:
        """Forget all items, because everything is taken."""
        if not self._closed:
            self._home.check_here(_INSTEAD)
        count = len(self._items)
        self._items = []
        self._position = 0
        if not self._closed:
            self._taken(count)


def parse_start(start: Start) -> tuple[int, Horizon] | None:
    """Since when (nanoseconds since the epoch), and from which numbers; None means from now on."""
    if start == "last":
        return None
    if start == "beginning":
        return 0, {}
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise SettingError(f"start = {start!r}: give it a time zone, as in datetime.now(timezone.utc)")
        return max(0, int(start.timestamp() * 1e9)), {}
    if isinstance(start, dict) and all(isinstance(n, int) for pair in start.items() for n in pair):
        return 0, dict(start)
    raise SettingError(f"start = {start!r}: must be 'last', 'beginning', {{sender: seqno}} or an aware datetime")
