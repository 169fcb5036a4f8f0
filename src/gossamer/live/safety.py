"""Whether what a member published is safe: durable or, without a logger, with all members that are there."""

import asyncio
from time import monotonic

from gossamer.core.inputs import ConfirmAsked
from gossamer.live.errors import NotDurable, Timeout, Unsent
from gossamer.live.member import Member
from gossamer.live.outbox import Outbox
from gossamer.live.waiting import Waiting
from gossamer.settings import Settings


class Safety:
    """What one member waits for when it flushes, and before it leaves."""

    def __init__(self, settings: Settings, member: Member, outbox: Outbox, waiting: Waiting) -> None:
        self._settings = settings
        self._member = member
        self._stack = member.stack
        self._outbox = outbox
        self._waiting = waiting
        self._without_loggers_since: float | None = None
        self._flushed = 0  # everything below was flushed, or reported as not durable

    async def flush(self, durable: bool, timeout: float | None) -> None:
        """Wait until everything published so far is sent and, if `durable` and there is or was a logger, logged."""
        target = self._outbox.last
        self._outbox.send()
        try:
            await self._waiting.until(lambda: self._is_done(target, durable), timeout)
        except TimeoutError:
            raise Timeout(self._late(target, timeout)) from None
        if durable:
            self._check_durable(target)
            if self._stack.awaits_loggers():
                self._member.flushed(target - 1)

    def _is_done(self, target: int, durable: bool) -> bool:
        return self._is_sent(target) and (not durable or self._is_logged(target))

    def _late(self, target: int, timeout: float | None) -> str:
        """What a flush still waits for when its time is over."""
        if not self._is_sent(target):
            unsent = target - self._stack.streams[self._stack.me].next
            return f"flush: {unsent} packets are not sent after {timeout} s; stats()['pace'] says what holds them back"
        return (
            f"flush: no logger has acknowledged {target - self._stack.settled()} packets after {timeout} s; is it "
            "running?"
        )

    def _is_sent(self, target: int) -> bool:
        """What waits for its first pass has no number yet."""
        return self._stack.streams[self._stack.me].next >= target

    def _is_logged(self, target: int) -> bool:
        """As far as it ever will be."""
        return self._stack.settled() >= target or not self._waits_for_loggers()

    def _waits_for_loggers(self) -> bool:
        """Whether there are loggers, or are to be. Without a key whoever says that the last one has left may lie: one
        that was only away will be back, and is waited for as it would be by those that lack packets."""
        if self._stack.awaits_loggers():
            self._without_loggers_since = None
            return True
        self._without_loggers_since = self._without_loggers_since or monotonic()
        patience_s = self._settings.loss_patience if self._settings.key is None else 0.0
        return monotonic() - self._without_loggers_since < patience_s

    def _check_durable(self, target: int) -> None:
        flushed, self._flushed = self._flushed, target
        missing = target - self._stack.settled()
        unlogged = self._stack.awaits_loggers() and self._stack.unlogged() >= flushed
        if missing > 0 or unlogged:
            self._member.flushed(target - 1, "unlogged")
        if missing > 0:
            raise NotDurable(
                f"{missing} packets are not logged, and the last logger has left for good; start another one, or "
                "flush(durable=False)"
            )
        if unlogged:
            raise NotDurable(
                f"packets up to number {self._stack.unlogged()} were sent but will not be logged: there was no logger "
                f"then, or no more room to keep them (unlogged_bytes = {self._settings.unlogged_bytes})"
            )

    async def before_leaving(self, group: str) -> Unsent | None:
        """Wait until everything is safe; what is not when `leave_timeout` is over, unless that was reported before."""
        reported = self._flushed >= self._outbox.last
        try:
            async with asyncio.timeout(0 if self._member.is_offline else self._settings.leave_timeout):
                await self.flush(durable=True, timeout=None)
                await self._all_have_it()
        except (TimeoutError, NotDurable) as error:
            self._member.stats["left before everything was sent or logged"] += 1
            return None if reported and isinstance(error, NotDurable) else self._unsent(group)
        return None

    async def _all_have_it(self) -> None:
        """Where nothing is logged, nobody else may be able to repair what this member published."""
        stack = self._stack
        if not stack.awaits_loggers() and stack.settings.repair:
            self._member.step(ConfirmAsked())
            await self._waiting.until(lambda: not stack.unconfirmed())

    def _unsent(self, group: str) -> Unsent:
        stack = self._stack
        lacking, loggers = stack.unconfirmed(), stack.roster.loggers
        arrived = () if loggers else (max(has + 1, stack.first_number) for has in lacking.values())
        return Unsent(group, self._outbox.last - min([stack.settled(), *arrived]), tuple(lacking), loggers)
