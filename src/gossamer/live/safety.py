"""Whether what a member published is safe: durable or, without a logger, with all members that are there."""

import asyncio
from contextlib import suppress
from time import monotonic

from gossamer.core.ids import PacketId, channel_of, owner_of
from gossamer.core.inputs import ConfirmAsked, GoAsked
from gossamer.core.packet_sets import Horizon
from gossamer.live.errors import NotDurable, Timeout, Unsent, WrongValue
from gossamer.live.member import Member
from gossamer.live.outboxes import Outboxes
from gossamer.live.waiting import Waiting
from gossamer.settings import Settings


class Safety:
    """What one member waits for when it flushes, and before it leaves."""

    def __init__(self, settings: Settings, member: Member, outboxes: Outboxes, waiting: Waiting) -> None:
        self._settings = settings
        self._member = member
        self._stack = member.stack
        self._outboxes = outboxes
        self._waiting = waiting
        self._without_loggers_since: float | None = None
        self._away: tuple[Horizon, int] | None = None  # if disconnected: what was published before then
        self._flushed: Horizon = {}  # by channel: everything below was flushed, or reported as not durable

    def is_away(self, away: bool) -> None:
        """The member disconnects, or is back: what it publishes in between is sent only afterwards."""
        if not away:
            self._away = None
        elif self._away is None:
            self._away = self._outboxes.lasts(), self._outboxes.published

    async def flush(self, durable: bool, timeout: float | None) -> None:
        """Wait until everything published so far is sent and, if `durable` and there is or was a logger, logged."""
        targets = self._outboxes.lasts()
        self._outboxes.send()
        try:
            await self._waiting.until(lambda: self._is_done(targets, durable), timeout)
        except TimeoutError:
            raise Timeout(self._late(targets, timeout)) from None
        if durable:
            self._check_durable(targets)
            if self._stack.awaits_loggers():
                for channel, target in targets.items():
                    self._member.flushed(channel, target - 1)

    def _is_done(self, targets: Horizon, durable: bool) -> bool:
        return not self._unsent_of(targets) and (not durable or self._is_logged(targets))

    def _late(self, targets: Horizon, timeout: float | None) -> str:
        """What a flush still waits for when its time is over."""
        if unsent := self._unsent_of(targets):
            return f"flush: {unsent} packets are not sent after {timeout} s; stats()['pace'] says what holds them back"
        unlogged = self._unlogged_of(targets)
        return f"flush: no logger has acknowledged {unlogged} packets after {timeout} s; is it running?"

    def _unsent_of(self, targets: Horizon) -> int:
        """What waits for its first pass has no number yet."""
        return sum(max(0, target - self._stack.following(channel)) for channel, target in targets.items())

    def _unlogged_of(self, targets: Horizon) -> int:
        return sum(max(0, target - self._stack.settled(channel)) for channel, target in targets.items())

    def _is_logged(self, targets: Horizon) -> bool:
        """As far as it ever will be."""
        return not self._unlogged_of(targets) or not self._waits_for_loggers()

    def _waits_for_loggers(self) -> bool:
        """Whether there are loggers, or are to be. Without a key whoever says that the last one has left may lie: one
        that was only away will be back, and is waited for as it would be by those that lack packets."""
        if self._stack.awaits_loggers():
            self._without_loggers_since = None
            return True
        self._without_loggers_since = self._without_loggers_since or monotonic()
        patience_s = self._settings.loss_patience if self._settings.key is None else 0.0
        return monotonic() - self._without_loggers_since < patience_s

    def _check_durable(self, targets: Horizon) -> None:
        flushed, self._flushed = self._flushed, targets
        missing, awaits = self._unlogged_of(targets), self._stack.awaits_loggers()
        unlogged = [c for c in targets if awaits and self._stack.unlogged(c) >= flushed.get(c, 0)]
        if missing or unlogged:
            for channel, target in targets.items():
                self._member.flushed(channel, target - 1, "unlogged")
        if missing:
            raise NotDurable(
                f"{missing} packets are not logged, and the last logger has left for good; start another one, or "
                "flush(durable=False)"
            )
        if unlogged:
            raise NotDurable(
                f"packets up to number {self._stack.unlogged(unlogged[0])} were sent but will not be logged: there was "
                f"no logger then, or no more room to keep them (unlogged_bytes = {self._settings.unlogged_bytes})"
            )

    async def stable(self, packet: PacketId, timeout: float | None) -> None:
        """Wait until every member that listens has confirmed that it has this packet of ours."""
        channel = channel_of(packet.sender)
        if owner_of(packet.sender) != self._member.me:
            raise WrongValue(f"packet {packet}: only its sender learns that a packet is stable")
        if packet.seqno >= self._outboxes.lasts().get(channel, 0):
            raise WrongValue(f"packet {packet}: has not been published yet")
        self._outboxes.send()
        try:
            await self._waiting.until(lambda: self._is_stable(packet, channel), timeout)
        except TimeoutError:
            raise Timeout(f"packet {packet}: not every member has confirmed it after {timeout} s") from None

    def _is_stable(self, packet: PacketId, channel: int) -> bool:
        stack = self._stack
        alone = not stack.roster.others_owed(channel) and stack.following(channel) > packet.seqno
        return alone or self._member.stable_up_to.get(packet.sender, -1) >= packet.seqno

    async def before_leaving(self, group: str, timeout: float) -> Unsent | None:
        """Wait until everything is safe; what is not when the time is over, unless that was reported before."""
        reported = all(self._flushed.get(c, 0) >= last for c, last in self._outboxes.lasts().items())
        try:
            async with asyncio.timeout(0 if self._member.is_offline else timeout):
                await self.flush(durable=True, timeout=None)
                await self._is_explained()
                await self._all_have_it()
                self._all_was_sent()
                await self._others_can_do_without()
        except (TimeoutError, NotDurable) as error:
            self._member.stats["left before everything was sent or logged"] += 1
            return None if reported and isinstance(error, NotDurable) else self._unsent(group)
        return None

    async def _is_explained(self) -> None:
        """Numbers that this member left out when it came back: others would wait for them when nobody can be asked."""
        stack = self._stack
        await self._waiting.until(lambda: not stack.unexplained() or not stack.awaits_loggers())

    async def _all_have_it(self) -> None:
        """Where nothing is logged, nobody else may be able to repair what this member published."""
        stack = self._stack
        if not stack.awaits_loggers() and stack.settings.repair:
            self._member.step(ConfirmAsked())
            await self._waiting.until(lambda: not stack.unconfirmed())

    async def _others_can_do_without(self) -> None:
        """Where most members decide, those that stay should be most of them; not for long, if these do not answer."""
        order, patience_s = self._stack.order, self._stack.settings.order_patience
        if not order.may_go():
            self._member.step(GoAsked())
            with suppress(TimeoutError):
                await self._waiting.until(order.may_go, 2 * patience_s)

    def _all_was_sent(self) -> None:
        """A member that is disconnected for long takes itself for alone, and nobody lacks what it has."""
        if any(self._never_sent(self._outboxes.lasts())):
            raise TimeoutError

    def _unsent(self, group: str) -> Unsent | None:
        """What is not safe; it may all have become safe in the last moment."""
        stack = self._stack
        lacking, loggers = stack.unconfirmed(), stack.roster.loggers
        lasts = self._outboxes.lasts()
        missed = 0 if loggers else self._unsent_of(lasts) + max(lacking.values(), default=0)
        unsafe = max(self._unlogged_of(lasts), missed, int(bool(lacking)))
        waiting, events = self._never_sent(lasts)
        unsafe = max(unsafe, waiting)
        return Unsent(group, unsafe, tuple(lacking), loggers, events) if unsafe else None

    def _never_sent(self, lasts: Horizon) -> tuple[int, int]:
        """Packets and events published since the member disconnected: they are in nobody's hands but its own."""
        if self._away is None:
            return 0, 0
        before, published = self._away
        return sum(
            last - before.get(channel, 0) for channel, last in lasts.items()
        ), self._outboxes.published - published
