"""The group as an application sees it: publish, subscribe, flush, stats, members.

Published events are packed; a packet leaves when it is full, or as soon as the loop is idle. Delivered packets are
unpacked once and handed to the subscriptions that match. A subscription whose application is slow fills up and then
holds its own member back, which falls behind and catches up by repair: nothing is dropped in silence, and nobody else
waits.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from time import time_ns
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from gossamer.core.effects import ReportLost
from gossamer.core.ids import PacketId, Phase
from gossamer.core.inputs import LeaveAsked
from gossamer.core.packets import Run
from gossamer.core.settings import SettingError
from gossamer.live.member import Member
from gossamer.live.transport import Endpoint, UdpTransport
from gossamer.pubsub.subjects import check_subject, compile_pattern
from gossamer.pubsub.where import compile_where
from gossamer.settings import Settings
from gossamer.stack import preset
from gossamer.wire.codec import DATA_BYTES
from gossamer.wire.events import Event, Packer, unpack

QUEUE_EVENTS_MAX = 200_000
"""Events that may wait for the applications of one member; then it stops reading until half of them are taken."""
JOIN_TIMEOUT_S = 30.0
LEAVE_TIMEOUT_S = 0.7
LIVE_TUNING = {"found_after": 4, "gossip_period": 0.05, "ordering": "fifo", "loggers": 0}
"""What differs from a preset on a real network, unless the settings say otherwise."""


class Lost(NamedTuple):
    """A gap that was given up, in its place in the stream."""

    sender: int
    first: int
    last: int
    reason: str


Item = Event | Lost
Losses = Literal["report", "skip"]


class Subscription:
    """An asynchronous iterator over the events that match; `batches()` gives them in lists, the fast road."""

    def __init__(self, pattern: str, where: str | None, losses: Losses, taken: Callable[[int], None]) -> None:
        self._matches = compile_pattern(pattern)
        self._filter = compile_where(where) if where else None
        self._reports = losses == "report"
        self._everything = pattern == ">" and self._filter is None
        self._taken = taken
        self._items: list[Item] = []
        self._position = 0
        self._ready = asyncio.Event()
        self._closed = False

    def offer(self, events: list[Event]) -> int:
        """Take the events that match; how many."""
        if not self._everything:
            matches, keep = self._matches, self._filter
            events = [e for e in events if matches(e.subject) and (keep is None or keep(e.attributes))]
        if events:
            self._items += events
            self._ready.set()
        return len(events)

    def offer_loss(self, lost: Lost) -> int:
        """Take a loss, if it is wanted."""
        if not self._reports:
            return 0
        self._items.append(lost)
        self._ready.set()
        return 1

    def close(self) -> None:
        """No more will come: the iteration ends behind what is there."""
        self._closed = True
        self._ready.set()

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
        """All that is there, again and again; never an empty list."""
        while True:
            try:
                while self._position >= len(self._items):
                    await self._fetch()
            except StopAsyncIteration:
                return
            batch = self._items[self._position :]
            self._position = len(self._items)
            self._forget()
            yield batch

    async def _fetch(self) -> None:
        if self._closed:
            raise StopAsyncIteration
        self._ready.clear()
        await self._ready.wait()

    def _forget(self) -> None:
        self._taken(len(self._items))
        self._items = []
        self._position = 0


class Group:
    """A member of a group; made by `gossamer.join`, and left at the end of `async with`."""

    def __init__(self, name: str, settings: Settings, transport: type[UdpTransport] = UdpTransport) -> None:
        self.name = name
        self.settings = settings
        self._make_transport = transport
        self._subscriptions: list[Subscription] = []
        self._waiting = 0
        self._counts: Counter[str] = Counter()
        self._flushing = False

    async def __aenter__(self) -> Self:
        endpoint = Endpoint.parse(self.settings.address, self.settings.interface)
        _check_trust(self.settings, endpoint)
        transport = self._make_transport(endpoint)
        self._packer = Packer(transport.datagram_bytes_max - DATA_BYTES)
        self._loop = asyncio.get_running_loop()
        protocol = preset(self.settings.protocol, {**LIVE_TUNING, **self.settings.tuning})
        self._member = Member(self.name, protocol, transport, deliver=self._delivered, lose=self._lost)
        self._member.start()
        try:
            await asyncio.wait_for(self._member.joined.wait(), JOIN_TIMEOUT_S)
        except BaseException:
            self._member.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._send_packed()
        self._member.step(LeaveAsked())
        try:
            await asyncio.wait_for(self._member.left.wait(), LEAVE_TIMEOUT_S)
        except TimeoutError:
            self._counts["left without goodbye"] += 1
        self._member.stop()
        for subscription in self._subscriptions:
            subscription.close()

    def publish(self, subject: str, payload: bytes = b"", **attributes: Any) -> PacketId:
        """Send an event; never waits for anybody. What the stack refuses is counted in `stats()` as `refused`."""
        check_subject(subject)
        if not self._packer.add(subject, payload, attributes or None):
            self._send_packed()
            if not self._packer.add(subject, payload, attributes or None):
                raise ValueError(f"an event of {len(payload)} bytes does not fit a packet")
        self._counts["published"] += 1
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._send_packed)
        own = self._member.stack.streams[self._member.me]
        return PacketId(self._member.me, own.next)

    def subscribe(self, pattern: str, *, where: str | None = None, losses: Losses = "report") -> Subscription:
        """Events from now on whose subject matches `pattern` and whose attributes satisfy `where`."""
        subscription = Subscription(pattern, where, losses, self._took)
        self._subscriptions.append(subscription)
        return subscription

    def members(self) -> tuple[int, ...]:
        """Who is in the group, as far as this member knows."""
        return self._member.stack.peers.all()

    def stats(self) -> dict[str, int]:
        """Every counter, as a plain table."""
        return dict(sorted((self._counts + self._member.stats).items()))

    def _send_packed(self) -> None:
        self._flushing = False
        if self._packer.count:
            self._member.publish(self._packer.body(time_ns()))

    def _delivered(self, run: Run, phase: Phase) -> None:
        for packet in run:
            events = unpack(packet)
            self._counts[f"received: {phase}"] += len(events)
            for subscription in self._subscriptions:
                self._waiting += subscription.offer(events)
        if self._waiting > QUEUE_EVENTS_MAX:
            self._member.pause()

    def _lost(self, effect: ReportLost) -> None:
        self._counts[f"lost: {effect.reason}"] += effect.last - effect.first + 1
        for subscription in self._subscriptions:
            lost = Lost(effect.sender, effect.first, effect.last, effect.reason)
            self._waiting += subscription.offer_loss(lost)

    def _took(self, count: int) -> None:
        self._waiting -= count
        if self._waiting < QUEUE_EVENTS_MAX // 2:
            self._member.resume()


def join(name: str, settings: Settings | None = None) -> Group:
    """The group `name`, to be entered with `async with`."""
    return Group(name, settings or Settings())


def _check_trust(settings: Settings, endpoint: Endpoint) -> None:
    """No key, no traffic beyond loopback."""
    if settings.key is not None:
        raise SettingError("key: sealed traffic is not there yet; leave the key out and stay on 127.0.0.1")
    if not endpoint.is_loopback and not settings.insecure:
        raise SettingError(
            f"interface = {settings.interface!r}: without a key only 127.0.0.1 is allowed; insecure=True if you mean it"
        )
