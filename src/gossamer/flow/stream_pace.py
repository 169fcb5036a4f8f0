"""The pace of one stream: what a member has to say in one channel waits here until it may go.

Receivers differ from channel to channel, and so do the window, and the rate that the paths carry. The limit on the
member's rate, and the length of its queue, are for all channels together.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from operator import attrgetter

from gossamer.core.effects import Refuse, Unicast
from gossamer.core.ids import stream_of
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.messages import LetGo, SeenReport
from gossamer.core.packets import Run
from gossamer.core.parts import PaceLimits
from gossamer.core.settings import ProtocolSettings
from gossamer.flow.bucket import HEADERS_BYTES, Bucket, within
from gossamer.flow.rate import TRIAL_S, RateController
from gossamer.flow.window import Window

_BODY = attrgetter("body")
_TOGETHER_S = 0.0005
"""What waits for the path goes a few packets at a time: a sender that woke for each of them would do nothing else."""


class Spacing:
    """The limit on a member's rate: packets are an interval apart, whatever their channel."""

    __slots__ = ("free_at", "interval")

    def __init__(self, rate_limit: float) -> None:
        self.interval = 1.0 / rate_limit if rate_limit else 0.0
        self.free_at = 0.0
        """When the next packet may go."""

    def pay(self, at: float) -> None:
        """Packets went at `at`."""
        self.free_at = at + self.interval


class Flight:
    """What all channels of a member have in flight together: peers keep packets in one buffer, whatever their channel.

    Each channel has a window of its own, but what is not seen yet in all of them must be within the `reach` of
    receivers that lose it; and while one channel waits for a receiver that is about to lose something, the others must
    not push it out of the buffer.
    """

    def __init__(self, settings: ProtocolSettings) -> None:
        self._reach = settings.reach
        self._stride = Window.stride(settings.window)
        self.paces: list[StreamPace] = []
        self.is_shared = False

    def add(self, pace: "StreamPace") -> None:
        """There is one more channel: its part of the reach is for what a receiver has not seen, half of it.

        As much again is for what it misses of what it saw.
        """
        self.paces.append(pace)
        self.is_shared = len(self.paces) > 1
        for window in [pace.window for pace in self.paces if pace.window is not None]:
            window.reach = self._reach // 2 // len(self.paces)

    def room(self, own: int) -> float:
        """How many packets may still go in a channel with `own` in flight.

        Its part is its own in any case: a receiver that is dead in one channel must not stop the others. Receivers
        report a stride at a time, so there is room for two.
        """
        if not self.is_shared or not self._reach:
            return inf
        part = max(self._reach // len(self.paces), 2 * self._stride) - own
        return max(part, self._reach - sum([pace.in_flight() for pace in self.paces]))

    def is_held(self, now: float) -> bool:
        """Whether a channel waits for a receiver that is about to lose something; it looks whether it still does."""
        return self.is_shared and any(pace.holds(now) for pace in self.paces)

    def release(self, now: float, out: Effects) -> None:
        """A receiver has seen something: what waits may go."""
        for pace in self.paces if self.is_shared else ():
            pace.release(now, out)


class StreamPace:
    """The queue of what is published to one channel and may not be sent yet, and the window of its receivers."""

    def __init__(self, ladder: Ladder, channel: int, spacing: Spacing, flight: Flight, room: Callable[[], int]) -> None:
        """`room` is how many more packets the member's queue takes."""
        settings = ladder.settings
        self._ladder, self._channel, self._stream = ladder, channel, stream_of(ladder.me, channel)
        self._spacing, self._room = spacing, room
        self.queue: deque[bytes] = deque()
        self.window = Window(settings.window, settings.patience) if settings.window else None
        self._flight = flight
        flight.add(self)
        self.controller = RateController() if settings.congestion != "none" else None
        self.bucket = Bucket(inf)
        self._held_by = "application"
        self._timer = ladder.timer(self._release)

    def view_changed(self, now: float, out: Effects) -> None:
        """A receiver that is gone is not waited for."""
        if self.window is not None:
            self.window.view_changed(now, self._receivers(), self._head())
            self._follow_paths(now)
            if self.queue and self._ladder.is_member:
                self._release(now, out)

    def holds(self, now: float) -> bool:
        """Whether this channel still waits for a receiver that is about to lose something."""
        return self.window is not None and self.window.holds and self._is_shut(now, self.window) and self.window.holds

    def awaits_receivers(self) -> bool:
        """Whether what is next waits for the window."""
        return bool(self.queue) and self._held_by == "window"

    def in_flight(self) -> int:
        """What receivers that are waited for have not seen yet."""
        return 0 if self.window is None else self._head() - self.window.floor

    def release(self, now: float, out: Effects) -> None:
        """Send what may go now."""
        if self.queue:
            self._release(now, out)

    def _receivers(self) -> list[int]:
        return self._ladder.roster.others(self._channel)

    def _follow_paths(self, now: float) -> None:
        if self.controller is not None and self.window is not None:
            self.controller.view_changed(now, self._receivers(), self.bucket.rate)
            self.bucket.rate = self.controller.rate(now, self.window.lagging)

    def fills_path(self, now: float) -> bool:
        """Whether there is more to send than the path carries."""
        return self.controller is not None and self.controller.is_limiting(now)

    def limits(self) -> PaceLimits:
        """How fast the member may send now, and what keeps it from sending more."""
        held_by, controller, window = self._held_by, self.controller, self.window
        receiver = window.slowest() if window is not None and held_by == "window" else None
        if controller is None:
            return PaceLimits(inf, held_by, receiver)
        receiver = controller.limiting if held_by == "path" else receiver
        return PaceLimits(self.bucket.rate, held_by, receiver, controller.limits())

    def admit(self, now: float, bodies: Sequence[bytes], out: Effects) -> Sequence[bytes]:
        """Take what may not go yet, or has others in front of it."""
        going = 0 if self.queue else self._may_go(now, bodies)
        if going:
            self._spacing.pay(now)
        waiting = bodies[going:] if going else bodies
        if waiting:
            room = max(0, self._room())
            out.extend(Refuse(body, "send queue") for body in waiting[room:])
            if not self.queue:
                self._timer.set(now + self._wait(now))
            self.queue.extend(waiting[:room])
        return bodies[:going]

    def published(self, now: float, run: Run, out: Effects) -> None:
        """The sender's log knows when it left, and its budget that it did."""
        if self.controller is not None:
            size = sum(map(len, map(_BODY, run))) + HEADERS_BYTES * len(run)
            self.bucket.spend(size)
            self.controller.sent(now, run[0].seqno, len(run), size)

    def leaving(self, now: float, out: Effects) -> None:
        """What still waits will not be sent: say so."""
        out.extend(Refuse(body, "leaving") for body in self.queue)
        self.queue.clear()

    def reported(self, now: float, source: int, report: SeenReport, out: Effects) -> None:
        """What a receiver has seen opens the window."""
        assert self.window is not None
        self.window.reported(now, source, report.seen, self._head())
        if self.controller is not None and self.controller.reported(now, source, report):
            self.controller.judge(now, self.window.lagging, partial(self._let_go, now, out), self._follow)
            self.bucket.rate = self.controller.rate(now, self.window.lagging)
            self.bucket.late_bytes = self.controller.late_bytes
        if self.queue:
            self._release(now, out)

    def _let_go(self, now: float, out: Effects, member: int) -> None:
        """And say so, as long as its path is not full: of what is said in the next round most may be lost."""
        assert self.window is not None
        self.window.let_go(member, self._head(), now + 2 * TRIAL_S)
        if self._ladder.settings.unlisten_after:
            out.append(Unicast(member, LetGo()))

    def _follow(self, member: int) -> None:
        assert self.window is not None
        self.window.follow(member, self._head())

    def _release(self, now: float, out: Effects) -> None:
        while self.queue:
            going = self._may_go(now, self.queue)
            if not going:
                self._timer.set(now + self._wait(now))
                return
            # a late timer does not slow the sender down
            self._spacing.pay(max(self._spacing.free_at, now - self._spacing.interval))
            self._ladder.publish(now, [self.queue.popleft() for _ in range(going)], out, self._channel)
        self._held_by = "application"

    def _may_go(self, now: float, wanted: Sequence[bytes]) -> int:
        """How many of `wanted` packets may go now."""
        settings = self._ladder.settings
        if self._wait(now) > 0:
            return 0
        if self._spacing.interval:
            return 1
        most = len(wanted)
        if settings.admission:
            most = min(most, settings.admission - len(self._ladder.buffer))
        if self.window is not None:
            most = min(most, self.window.floor + settings.window - self._head())
            if self._flight.is_shared:
                most = int(min(most, self._flight.room(self.in_flight())))
        return most if self.controller is None else within(self.bucket.room(now), wanted, most)

    def _wait(self, now: float) -> float:
        """How long the next packet has to wait; what depends on others is looked at again after a while."""
        settings = self._ladder.settings
        if settings.admission and len(self._ladder.buffer) >= settings.admission:
            self._held_by = "admission"
            return settings.gossip_period
        if self._ladder.full():
            self._held_by = "logger"
            return settings.gossip_period  # what no logger has acknowledged fills the send buffer
        if self.window is not None and self._window_closed(now, self.window):
            self._held_by = "window"
            return self.window.again()
        if self.controller is not None and not self.bucket.has_room(now):
            self._held_by = "path"
            self.controller.had_to_wait(now)
            return max(self.bucket.wait(now) + _TOGETHER_S, self._spacing.free_at - now)
        return max(0.0, self._spacing.free_at - now)

    def _window_closed(self, now: float, window: Window) -> bool:
        """By the receivers of this channel, or by those of all of them."""
        if self._is_shut(now, window):
            return True
        flight = self._flight
        return flight.is_shared and (flight.room(self.in_flight()) <= 0 or flight.is_held(now))

    def _is_shut(self, now: float, window: Window) -> bool:
        return window.closed(now, self._head(), logged=bool(self._ladder.roster.loggers))

    def _head(self) -> int:
        """The next number of the stream."""
        own = self._ladder.own.get(self._stream)
        return self._ladder.first_number if own is None else own.next
