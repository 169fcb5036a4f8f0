"""Subscriptions that want the past: the stack asks loggers for one wish at a time.

A subject may have travelled in other channels than it does now: the member listens to all in which loggers hold
something, and then asks again.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from gossamer.core.effects import PastKnown
from gossamer.core.inputs import RewindAsked
from gossamer.core.packet_sets import Horizon
from gossamer.live.inbox import Inbox
from gossamer.live.member import Member
from gossamer.live.name_log import AskedNames
from gossamer.live.subscription import Subscription

_AGAIN_S = 0.02


class Past:
    """The wishes of one member, the first of which is being asked for."""

    def __init__(self, member: Member, inbox: Inbox, names: AskedNames, hear: Callable[[int], None]) -> None:
        self._member = member
        self._hear = hear
        self._inbox = inbox
        self._names = names
        self._wishes: deque[tuple[Subscription, int, Horizon]] = deque()

    def wish(self, subscription: Subscription, since_ns: int, positions: Horizon) -> None:
        """Get `subscription` what was logged since then, but of senders in `positions` what comes from there on."""
        subscription.wait_for_past()
        self._wishes.append((subscription, since_ns, positions))
        if len(self._wishes) == 1:
            self._names.ask(self._ask)

    def _ask(self) -> None:
        """Ask, once the member listens to all channels that its application wants: the past of others is not told."""
        stack = self._member.stack
        if stack.wanted_channels & ~stack.streams.channels:
            asyncio.get_running_loop().call_later(_AGAIN_S, self._ask)
            return
        _, since_ns, positions = self._wishes[0]
        self._member.step(RewindAsked(since_ns, positions))

    def known(self, effect: PastKnown) -> None:
        """Loggers have said what they hold, and the stack is now requesting it; or no logger has answered."""
        if effect.elsewhere:
            self._hear(effect.elsewhere)
            asyncio.get_running_loop().call_soon(self._ask)
            return
        subscription, _, positions = self._wishes.popleft()
        if effect.held is None:
            self._inbox.past_unknown(subscription)
        else:
            self._inbox.past_known(subscription, effect.held, positions, self._member.stack.roster)
        if self._wishes:
            asyncio.get_running_loop().call_soon(self._ask)
