"""The group as an application listens through it: from when on, for how long, alone or as one of many."""

from typing import cast

from gossamer.core.packet_sets import Horizon
from gossamer.core.schema import SettingError
from gossamer.live.callbacks import Callback, Callbacks
from gossamer.live.channels import GroupChannels
from gossamer.live.durable import Durables
from gossamer.live.home import Home
from gossamer.live.inbox import Inbox
from gossamer.live.latest import Latest
from gossamer.live.member import Member
from gossamer.live.misuse import check_subscription
from gossamer.live.past import Past
from gossamer.live.queueing import Queues
from gossamer.live.subscription import LATEST, Losses, Room, Start, Subscription, WhenFull, parse_start
from gossamer.pubsub.queue import By
from gossamer.settings import Settings


class Subscribing:
    """What a `Group` can listen to."""

    settings: Settings
    _home: Home
    _inbox: Inbox
    _member: Member
    _past: Past
    _latest: Latest
    _durables: Durables
    _queues: Queues
    _callbacks: Callbacks
    _channels: GroupChannels

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
        callback: Callback | None = None,
    ) -> Subscription:
        """Subscribe to events whose subject matches a pattern and whose attributes satisfy `where`, from `start` on.

        `start` is "now", "beginning" (all that a logger holds), "latest-per-subject" (first the last event of each
        subject, from loggers or from members that `retain` it), an aware datetime, or the first number wanted from some
        senders, `{sender: seqno}`, with all that a logger holds from the others. A gap that nobody could repair comes
        as `Lost` in its place; with `losses="skip"` only events come. `when_full` is what happens when the application
        does not read: "pause", "drop" or "raise", as in the settings. With `echo=False`, what this member publishes
        does not come. With a `durable` name the loggers keep how far it was (`commit`, `event.ack`), and it goes on
        from there when it is made again, anywhere; `start` is for the first time. With a `queue` name
        each event goes to one of the members with the same queue, patterns and `where`: to any, or always to the same
        one for a sender or a key (`queue_by`). A `callback`, a function or a coroutine function, is called with each
        item in its order, and acknowledges it; its errors are logged, and the subscription goes on.
        """
        self._home.check_here("subscribe in that thread, or use gossamer.join_sync")
        check_subscription((pattern, *patterns), callback)
        if durable is not None:
            self._durables.check(durable)
        if queue is None and queue_by != "any":
            raise SettingError(f"queue_by = {queue_by!r}: is for a subscription with queue=, which is not given")
        queue_id = None if queue is None else self._queues.check(queue, (pattern, *patterns), where, queue_by)
        wish = self._checked(start, durable, queue)
        given = self.settings
        room = Room(
            given.queue_events, given.queue_bytes, cast(WhenFull, given.when_full) if when_full is None else when_full
        )
        subscription = self._inbox.subscribe((pattern, *patterns), where, losses, room, echo)
        self._channels.look()
        if queue_id is not None:
            self._queues.begin(queue_id, queue_by, subscription)
        if durable is not None:
            self._durables.begin(durable, subscription, start)
        elif wish is not None:
            self._past.wish(subscription, *wish)
        elif start == LATEST:
            self._latest.begin(subscription, (pattern, *patterns))
        if callback is not None:
            self._callbacks.begin(subscription, callback)
        return subscription

    def _checked(self, start: Start, durable: str | None, queue: str | None) -> tuple[int, Horizon] | None:
        """Since when, and from which numbers, the past is wanted; None if it is not. SettingError if it cannot be."""
        wish = parse_start(start)
        from_past = wish is not None or start == LATEST
        if durable is not None and start == LATEST:
            raise SettingError(f"start = {start!r}: a durable subscription gets everything from its position on")
        if queue is not None and durable is not None:
            raise SettingError(
                f"queue = {queue!r}, durable = {durable!r}: a queue keeps no position; let one durable subscriber give "
                "each event to the queue by request(), as docs/applications.md shows under 'A queue that outlives its "
                "workers'"
            )
        if queue is not None and from_past:
            raise SettingError(f"queue = {queue!r}, start = {start!r}: a queue begins now; leave out start=")
        if (from_past or durable is not None or queue is not None) and not self._member.stack.order.replays:
            raise SettingError(
                f"start = {start!r}: past events, durable= and queue= need order = 'fifo'; loggers keep packets but "
                "not their places in one order for all, so ask another member for its state by request(), as "
                "examples/bank.py does: the answer has its place in the order"
            )
        if (from_past or durable is not None) and self._member.disk is not None:
            raise SettingError(f"start = {start!r}: a logger cannot subscribe to the past: read its store")
        return wish
