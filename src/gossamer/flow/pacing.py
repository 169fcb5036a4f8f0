"""Flow control at the sender (004 §5): how fast, and how much at a time, a member may publish.

`rate_limit` spaces packets evenly, 1/rate_limit apart, so that no second sees more than the limit. `admission` holds
new packets back while that many, of any sender, are buffered here: as old ones are collected, new ones are admitted.
`window` keeps the sender close to its receivers, as they report (see `window`), and `reach` close to what they still
miss. `congestion` keeps it at the rate that the paths to them carry (see `rate`). What may not go yet waits, in order,
in a queue of at most `queue_packets`; beyond that publishing is refused.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf

from gossamer.core.declares import COPIES_KEPT, WINDOW, Declares
from gossamer.core.effects import Refuse, Unicast
from gossamer.core.ids import Phase
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.messages import SeenReport
from gossamer.core.packets import Run
from gossamer.core.parts import Pace, PaceLimits
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings
from gossamer.flow.bucket import Bucket
from gossamer.flow.rate import TRIAL_S, RateController
from gossamer.flow.repair_share import RepairShare
from gossamer.flow.reports import Reports
from gossamer.flow.window import Window

_TOGETHER_S = 0.0005
"""What waits for the path goes a few packets at a time: a sender that woke for each of them would do nothing else."""
_HEADERS_BYTES = 80
"""About what a packet takes on the network besides its body."""


class PacedFlow(Pace):
    """The queue of what is published and may not be sent yet, and the reports that open the window."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        settings = ladder.settings
        self._queue: deque[bytes] = deque()
        self._interval = 1.0 / settings.rate_limit if settings.rate_limit else 0.0
        self._free_at = 0.0  # when the rate limit allows the next packet
        half = settings.reach // 2  # for what a receiver has not seen, as much again for what it misses of what it saw
        self._window = Window(settings.window, settings.patience, half) if settings.window else None
        self._reports = Reports(ladder, half)
        self._controller = RateController() if settings.congestion != "none" else None
        self._bucket = Bucket(inf)
        if self._controller is not None:
            ladder.repair_queue.paced_by(RepairShare(self._bucket, self._controller.is_limiting))
        self._held_by = "application"
        self._timer = ladder.timer(self._release)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Admission counts what the buffer holds; the reach is measured from a window; a rate needs its reports."""
        needs: tuple[str, ...] = (COPIES_KEPT,) if settings.admission else ()
        needs += (WINDOW,) if settings.reach or settings.congestion != "none" else ()
        return Declares(needs=needs, provides=(WINDOW,) if settings.window else ())

    def messages(self) -> Mapping[type, MessageHandler]:
        """The receivers' reports."""
        return {SeenReport: self._reported} if self._window is not None else {}

    def started(self, now: float, out: Effects) -> None:
        """The receivers that are there from the beginning."""
        self.view_changed(now, self.ladder.roster, out)

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """A receiver that is gone is not waited for."""
        if self._window is not None:
            self._window.view_changed(now, self.ladder.roster.others(), self._head())
            self._follow_paths(now)
            if self._queue and self.ladder.is_member:
                self._release(now, out)

    def _follow_paths(self, now: float) -> None:
        if self._controller is not None and self._window is not None:
            self._controller.view_changed(now, self.ladder.roster.others(), self._bucket.rate)
            self._bucket.rate = self._controller.rate(now, self._window.lagging)

    def buffered(self) -> int:
        """What waits is kept here."""
        return len(self._queue)

    def unsent(self) -> int:
        """The same: these have no number yet."""
        return len(self._queue)

    def lagging(self) -> list[int]:
        """Receivers that are let go."""
        return [] if self._window is None else list(self._window.lagging)

    def fills_path(self, now: float) -> bool:
        """Whether there is more to send than the path carries, so that whatever else is sent takes room from it."""
        return self._controller is not None and self._controller.is_limiting(now)

    def limits(self) -> PaceLimits:
        """How fast the member may send now, and what keeps it from sending more."""
        held_by, controller, window = self._held_by, self._controller, self._window
        receiver = window.slowest() if window is not None and held_by == "window" else None
        if controller is None:
            return PaceLimits(inf, held_by, receiver)
        receiver = controller.limiting if held_by == "path" else receiver
        return PaceLimits(self._bucket.rate, held_by, receiver, controller.limits())

    def room(self) -> int:
        """How many more packets the queue takes."""
        return self.ladder.settings.queue_packets - len(self._queue)

    def admit(self, now: float, bodies: Sequence[bytes], out: Effects) -> Sequence[bytes]:
        """Take what may not go yet, or has others in front of it."""
        going = 0 if self._queue else self._may_go(now, bodies)
        if going:
            self._pay(now)
        waiting = bodies[going:] if going else bodies
        if waiting:
            room = max(0, self.room())
            out.extend(Refuse(body, "send queue") for body in waiting[room:])
            if not self._queue:
                self._timer.set(now + self._wait(now))
            self._queue.extend(waiting[:room])
        return bodies[:going]

    def published(self, now: float, run: Run, out: Effects) -> None:
        """The sender's log knows when it left, and its budget that it did."""
        if self._controller is not None:
            size = sum([len(packet.body) for packet in run]) + _HEADERS_BYTES * len(run)
            self._bucket.spend(size)
            self._controller.sent(now, run[0].seqno, len(run), size)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """Report to the sender how far we have seen it, from time to time."""
        if self._reports_to(run[0].sender):
            report = self._reports.accepted(now, run, phase)
            if report is not None:
                out.append(Unicast(run[0].sender, report))

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """That may be what the sender waits for."""
        if self._reports_to(sender):
            report = self._reports.gap_closed(sender)
            if report is not None:
                out.append(Unicast(sender, report))

    def _reports_to(self, sender: int) -> bool:
        """Our own come from the past; and nobody has to wait for a member that does not listen."""
        return self._window is not None and sender != self.ladder.me and self.ladder.hearing.on

    def retired(self, now: float, sender: int) -> None:
        """It wants no more reports."""
        self._reports.forget(sender)

    def leaving(self, now: float, out: Effects) -> None:
        """What still waits will not be sent: say so."""
        out.extend(Refuse(body, "leaving") for body in self._queue)
        self._queue.clear()

    def _reported(self, now: float, source: int, report: SeenReport, out: Effects) -> None:
        assert self._window is not None
        self._window.reported(now, source, report.seen, self._head())
        if self._controller is not None and self._controller.reported(now, source, report):
            self._controller.judge(now, self._window.lagging, partial(self._let_go, now), self._follow)
            self._bucket.rate = self._controller.rate(now, self._window.lagging)
            self._bucket.late_bytes = self._controller.late_bytes
        if self._queue:
            self._release(now, out)

    def _let_go(self, now: float, member: int) -> None:
        assert self._window is not None
        self._window.let_go(member, self._head(), now + 2 * TRIAL_S)

    def _follow(self, member: int) -> None:
        assert self._window is not None
        self._window.follow(member, self._head())

    def _release(self, now: float, out: Effects) -> None:
        while self._queue:
            going = self._may_go(now, self._queue)
            if not going:
                self._timer.set(now + self._wait(now))
                return
            self._pay(max(self._free_at, now - self._interval))  # a late timer does not slow the sender down
            self.ladder.publish(now, [self._queue.popleft() for _ in range(going)], out)
        self._held_by = "application"

    def _may_go(self, now: float, wanted: Sequence[bytes]) -> int:
        """How many of `wanted` packets may go now."""
        settings = self.ladder.settings
        if self._wait(now) > 0:
            return 0
        if self._interval:
            return 1
        most = len(wanted)
        if settings.admission:
            most = min(most, settings.admission - len(self.ladder.buffer))
        if self._window is not None:
            most = min(most, self._window.floor + settings.window - self._head())
        return most if self._controller is None else self._within_rate(now, wanted, most)

    def _within_rate(self, now: float, wanted: Sequence[bytes], most: int) -> int:
        """How many of `wanted`, but at most `most`, the rate allows: the last may be longer than what is left."""
        room = self._bucket.room(now)
        for going, body in enumerate(wanted):
            if room <= 0 or going >= most:
                return going
            room -= len(body) + _HEADERS_BYTES
        return most

    def _wait(self, now: float) -> float:
        """How long the next packet has to wait; what depends on others is looked at again after a while."""
        settings = self.ladder.settings
        if settings.admission and len(self.ladder.buffer) >= settings.admission:
            self._held_by = "admission"
            return settings.gossip_period
        if self.ladder.full():
            self._held_by = "logger"
            return settings.gossip_period  # what no logger has acknowledged fills the send buffer
        logged = bool(self.ladder.roster.loggers)
        if self._window is not None and self._window.closed(now, self._head(), logged=logged):
            self._held_by = "window"
            return self._window.again()
        if self._controller is not None and not self._bucket.has_room(now):
            self._held_by = "path"
            self._controller.had_to_wait(now)
            return max(self._bucket.wait(now) + _TOGETHER_S, self._free_at - now)
        return max(0.0, self._free_at - now)

    def _head(self) -> int:
        return self.ladder.streams[self.ladder.me].next

    def _pay(self, at: float) -> None:
        self._free_at = at + self._interval
