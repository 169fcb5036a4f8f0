"""What an application may want to know of its group besides events: `group.notices()`, and the log.

A notice is about the group, not in the order of its events, and nobody repairs one: a stream of notices that is not
read drops the oldest and says how many. What is wrong is also logged as a warning of `logging.getLogger("gossamer")`,
each kind at most once a minute, so that an application that asks for nothing still hears of it.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from time import monotonic, time
from typing import Final, Literal, NamedTuple, Self
from weakref import WeakSet

from gossamer.live.errors import Timeout
from gossamer.live.misuse import within

_log = logging.getLogger("gossamer")

Kind = Literal[
    "member-joined",
    "member-left",
    "member-suspected",
    "member-lagging",
    "loss",
    "key-mismatch",
    "clock-skew",
    "other-version",
    "unreadable",
    "logger-refuses",
    "not-logged",
    "multicast",
    "alone",
    "subscription-lags",
    "notices-dropped",
]
GOOD_TO_KNOW: Final = ("member-joined", "member-left", "member-lagging", "notices-dropped")
"""Kinds that are logged as information; all others are warnings."""
WAITING_MAX: Final = 1000
"""Notices that wait in a stream that is not read."""
LOG_AGAIN_S: Final = 60.0


class Notice(NamedTuple):
    """Something about the group: `text` says what, and what to do about it."""

    kind: Kind
    text: str
    member: int | None = None
    """The other member that it is about, if it is about one."""
    times: int = 1
    """How often it happened since the last notice like it: datagrams, packets."""
    time: float = 0.0
    """Seconds since the epoch: when it was noticed."""


class NoticeStream:
    """An asynchronous iterator over the notices of a group, from now on; it ends when the member leaves."""

    def __init__(self) -> None:
        self._waiting: deque[Notice] = deque()
        self._dropped = 0
        self._ready = asyncio.Event()
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notice:
        notice = await self.get()
        if notice is None:
            raise StopAsyncIteration
        return notice

    async def get(self, timeout: float | None = None) -> Notice | None:
        """The next notice, or None at the end; Timeout if there is none within `timeout` seconds."""
        try:
            async with within(timeout):
                while not self._waiting and not self._closed:
                    self._ready.clear()
                    await self._ready.wait()
        except TimeoutError:
            raise Timeout(f"no notice within {timeout} s") from None
        return self.next_or_none()

    def next_or_none(self) -> Notice | None:
        """The next notice, if there is one now."""
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            return Notice("notices-dropped", f"{dropped} notices were not read in time", times=dropped, time=time())
        return self._waiting.popleft() if self._waiting else None

    def offer(self, notice: Notice) -> None:
        """Take a notice; the oldest makes room."""
        if self._closed:
            return
        if len(self._waiting) >= WAITING_MAX:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(notice)
        self._ready.set()

    def close(self) -> None:
        """End the stream after what is there."""
        self._closed = True
        self._ready.set()


class Bulletin:
    """Where the notices of one member are posted."""

    def __init__(self, group: str, clock: Callable[[], float] = monotonic) -> None:
        self.posted: Counter[str] = Counter()
        """Notices by kind."""
        self._group = group
        self._clock = clock
        self._streams: WeakSet[NoticeStream] = WeakSet()  # one that the application has dropped need not be filled
        self._logged: dict[str, float] = {}  # by kind: when it was last logged,
        self._unlogged: Counter[str] = Counter()  # and how many notices were not since
        self._closed = False

    def stream(self) -> NoticeStream:
        """A new stream, from now on."""
        stream = NoticeStream()
        if self._closed:
            stream.close()
        self._streams.add(stream)
        return stream

    def post(self, kind: Kind, text: str, *, member: int | None = None, times: int = 1) -> None:
        """Tell everybody who reads, and the log."""
        notice = Notice(kind, text, member, times, time())
        self.posted[kind] += 1
        for stream in list(self._streams):
            stream.offer(notice)
        self._write(notice)

    def close(self) -> None:
        """End all streams: the member has left."""
        self._closed = True
        for stream in list(self._streams):
            stream.close()

    def _write(self, notice: Notice) -> None:
        now, kind = self._clock(), notice.kind
        if now - self._logged.get(kind, -LOG_AGAIN_S) < LOG_AGAIN_S:
            self._unlogged[kind] += 1
            return
        self._logged[kind] = now
        others = self._unlogged.pop(kind, 0)
        more = f" ({others} more like this since the last time)" if others else ""
        level = logging.INFO if kind in GOOD_TO_KNOW else logging.WARNING
        _log.log(level, "group %r: %s%s", self._group, notice.text, more)
