"""Subscriptions that call a function: one task for each, which reads and calls in order."""

import asyncio
import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from gossamer.core.errors import Error
from gossamer.live.subscription import Item, Subscription
from gossamer.wire.events import Event

_log = logging.getLogger("gossamer")
FINISH_S = 1.0
"""How long a callback that is still busy may take when the member leaves."""

LATE = "a callback did not finish within %.0f s after its member left"

Callback = Callable[[Item], Any]


class Callbacks:
    """The callbacks of one group."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, subscription: Subscription, callback: Callback) -> None:
        """Call `callback` with everything that comes, until the subscription ends."""
        task = asyncio.get_running_loop().create_task(_call(subscription, callback))
        self._tasks.add(task)  # the loop alone would not keep it
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """The subscriptions have ended: let the callbacks take what has come, but not for ever.

        A callback may be the one that leaves, and waits for us.
        """
        if others := self._tasks - {asyncio.current_task()}:
            _, late = await asyncio.wait(others, timeout=FINISH_S)
            for task in late:
                _log.warning(LATE, FINISH_S)
                task.cancel()


async def _call(subscription: Subscription, callback: Callback) -> None:
    try:
        await _call_with_each(subscription, callback)
    except Error as error:  # nobody else would hear of it
        _log.error("the subscription to %r has ended: %s", subscription.pattern, error)


async def _call_with_each(subscription: Subscription, callback: Callback) -> None:
    async for item in subscription:
        if is_for_others(subscription):
            return
        try:
            outcome = callback(item)
            if isawaitable(outcome):
                await outcome
            if subscription.acks is not None and isinstance(item, Event):
                await item.ack()
        except (Exception, asyncio.CancelledError) as error:  # the application's
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            _log.exception("a callback of the subscription to %r failed on %r", subscription.pattern, item)


def is_for_others(subscription: Subscription) -> bool:
    """Whether what waits is not for the callback any more: it is not done, so it comes again, or goes to others."""
    return subscription.acks is not None and subscription.is_closed


def _is_cancelled() -> bool:
    """Whether we are, and not just something that the callback awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
