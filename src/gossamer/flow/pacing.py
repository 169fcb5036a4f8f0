"""Flow control at the sender (004 §5): how fast, and how much at a time, a member may publish.

`rate_limit` spaces packets evenly, 1/rate_limit apart, so that no second sees more than the limit. `admission` holds
new packets back while that many, of any sender, are buffered here: as old ones are collected, new ones are admitted.
`window` keeps the sender close to its receivers, as they report (see `window`), and `reach` close to what they still
miss. `congestion` keeps it at the rate that the paths to them carry (see `rate`). What may not go yet waits, in order,
in a queue of at most `queue_packets`; beyond that publishing is refused.
"""

from collections.abc import Mapping, Sequence

from gossamer.core.declares import COPIES_KEPT, WINDOW, Declares
from gossamer.core.effects import Unicast
from gossamer.core.ids import Phase, channel_of, owner_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.messages import SeenReport
from gossamer.core.packets import Run
from gossamer.core.parts import Pace, PaceLimits
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings
from gossamer.flow.repair_share import RepairShare
from gossamer.flow.reports import Reports
from gossamer.flow.stream_pace import Flight, Spacing, StreamPace


class PacedFlow(Pace):
    """The pace in each channel (`stream_pace`), and the reports that open the windows of others."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        settings = ladder.settings
        self._spacing = Spacing(settings.rate_limit)
        self._reports = Reports(ladder, settings.reach // 2) if settings.window else None
        self._flight = Flight(settings)
        first = StreamPace(ladder, 0, self._spacing, self._flight, self.room)
        self._paces = {0: first}
        if first.controller is not None:
            ladder.repair_queue.paced_by(RepairShare(first.bucket, first.controller.is_limiting))

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Admission counts what the buffer holds; the reach is measured from a window; a rate needs its reports."""
        needs: tuple[str, ...] = (COPIES_KEPT,) if settings.admission else ()
        needs += (WINDOW,) if settings.reach or settings.congestion != "none" else ()
        return Declares(needs=needs, provides=(WINDOW,) if settings.window else ())

    def messages(self) -> Mapping[type, MessageHandler]:
        """The receivers' reports."""
        return {SeenReport: self._reported} if self._reports is not None else {}

    def started(self, now: float, out: Effects) -> None:
        """The receivers that are there from the beginning."""
        self.view_changed(now, self.ladder.roster, out)

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """A receiver that is gone is not waited for."""
        for pace in self._paces.values():
            pace.view_changed(now, out)

    def buffered(self) -> int:
        """What waits is kept here."""
        return self.unsent()

    def unsent(self) -> int:
        """The same: these have no number yet."""
        return sum([len(pace.queue) for pace in self._paces.values()])

    def lagging(self) -> list[int]:
        """Receivers that are let go."""
        windows = (pace.window for pace in self._paces.values() if pace.window is not None)
        return list(dict.fromkeys(member for window in windows for member in window.lagging))

    def fills_path(self, now: float) -> bool:
        """Whether there is more to send than the path carries, so that whatever else is sent takes room from it."""
        return any(pace.fills_path(now) for pace in self._paces.values())

    def awaits_receivers(self, stream: int) -> bool:
        """Whether more of this stream follows as soon as receivers report that they have what was sent."""
        pace = self._paces.get(channel_of(stream))
        return pace is not None and pace.awaits_receivers()

    def limits(self) -> PaceLimits:
        """How fast the member may send now, in the channel that waits if there is one, and what keeps it from more."""
        waiting = (pace for pace in self._paces.values() if pace.queue)
        return next(waiting, self._paces[0]).limits()

    def room(self) -> int:
        """How many more packets the queue takes."""
        return self.ladder.settings.queue_packets - self.unsent()

    def admit(self, now: float, bodies: Sequence[bytes], out: Effects, channel: int = 0) -> Sequence[bytes]:
        """Take what may not go yet, or has others in front of it."""
        pace = self._paces.get(channel)
        if pace is None:
            pace = self._paces[channel] = StreamPace(self.ladder, channel, self._spacing, self._flight, self.room)
            pace.view_changed(now, out)
        return pace.admit(now, bodies, out)

    def published(self, now: float, run: Run, out: Effects) -> None:
        """The sender's log knows when it left, and its budget that it did."""
        pace = self._paces.get(channel_of(run[0].sender))
        if pace is not None:
            pace.published(now, run, out)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """Report to the sender how far we have seen it, from time to time."""
        sender, ladder = run[0].sender, self.ladder
        if self._reports is not None and sender not in ladder.own and ladder.hearing.on:  # `_reports_to`
            report = self._reports.accepted(now, run, phase)
            if report is not None:
                out.append(Unicast(owner_of(sender), report))

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """What was given up may be what the sender waits for; what came is `accepted`."""
        if self._reports is not None and self._reports_to(sender) and first in self.ladder.streams[sender].abandoned:
            report = self._reports.given_up(sender)
            if report is not None:
                out.append(Unicast(owner_of(sender), report))

    def _reports_to(self, sender: int) -> bool:
        """Our own come from the past; and nobody has to wait for a member that does not listen."""
        return sender not in self.ladder.own and self.ladder.hearing.on

    def retired(self, now: float, sender: int) -> None:
        """It wants no more reports."""
        if self._reports is not None:
            self._reports.forget(sender)

    def leaving(self, now: float, out: Effects) -> None:
        """What still waits will not be sent: say so."""
        for pace in self._paces.values():
            pace.leaving(now, out)

    def _reported(self, now: float, source: int, report: SeenReport, out: Effects) -> None:
        pace = self._paces.get(report.channel)
        if pace is not None:
            pace.reported(now, source, report, out)
            self._flight.release(now, out)
