"""The sender's rate: that of the receivers that it follows, and never of the slowest.

Each receiver has a path (`path.py`) that would take a rate; the sender goes at the least of those that it follows. A
receiver whose path takes much less than those of most others is not followed: it is blamed while it holds them up, and
let go after a while, as the window does with one that reads too slowly. What most can take is known only after that; if
it turns out not to be much more, the receiver is followed again, and not tried for a while.
"""

from collections.abc import Callable, Collection
from math import inf

from gossamer.core.messages import SeenReport
from gossamer.core.parts import PathLimits
from gossamer.flow.lateness import Lateness
from gossamer.flow.meter import Report
from gossamer.flow.path import INITIAL_BYTES_PER_S, RATE_MIN, TRICKLE, Path
from gossamer.flow.sent_log import SentLog

MUCH_SLOWER = 0.6
"""A receiver that takes less than this share of what most others take is much slower."""
_BLAME_S, _BLAME_MIN_S, _BLAME_SHARED_S = 0.5, 0.25, 2.0
"""How long a receiver may hold up the others: one that is slower than all reason not so long, one that seems to share
its path with others for longer."""
_RELIEF_S = 0.15
"""One that does not hold them up for so long is not blamed any more; a queue may be gone for a moment."""
_SLOWEST, _UNTESTED = 0.25, 2.0
"""Below this share of what most take a receiver is slower than all reason. What they might take counts only up to so
many times what they were seen to take."""
_RISEN, _RISEN_S, _SHARED = 1.5, 0.1, 0.25
"""A receiver that gets this many times as much for so long after it was let go has a path that carries more than it
took: it shares that with others. If it gets this share of what most can get, it is waited for."""
_LESSER, _AS_MUCH = 0.5, 0.8
_STALE_S = 1.0
"""A receiver that has not reported for this long says nothing about the path."""
TRIAL_S = 0.8
"""How long after a receiver was let go it is known what the others take."""
_EXEMPT_S = 30.0
_MOMENT_S = 0.25
_RETURN_S = 2.0


class RateController:
    """What a sender knows of the paths to its receivers."""

    def __init__(self) -> None:
        self.paths: dict[int, Path] = {}
        self.limiting: int | None = None
        """The receiver that sets the rate."""
        self._log = SentLog()
        self._lateness = Lateness()
        self._limited_at = -inf
        self._blamed: tuple[int, float] | None = None  # who holds up the others, and since when
        self._guilty_at = -inf  # when it last did
        self._let_go: dict[int, tuple[float, float]] = {}  # when, and what its path took
        self._returned: dict[int, float] = {}  # when receivers that were cut off came back
        self._risen: dict[int, float] = {}  # of these: since when the path takes much more
        self._exempt: dict[int, tuple[float, float]] = {}  # until when a receiver is not blamed, and for how long

    def view_changed(self, now: float, others: Collection[int], rate: float) -> None:
        """These are the receivers now; a new one gets what the others get."""
        started = INITIAL_BYTES_PER_S if rate == inf else max(rate, INITIAL_BYTES_PER_S)
        self.paths = {member: self.paths.get(member) or Path(now, started) for member in others}
        self._let_go = {member: was for member, was in self._let_go.items() if member in self.paths}
        self._returned = {member: at for member, at in self._returned.items() if member in self.paths}
        self._exempt = {member: was for member, was in self._exempt.items() if member in self.paths}
        if not self.paths:
            self._limited_at = -inf  # without a receiver there is no path, and the rate is infinite

    def sent(self, now: float, first: int, packets: int, size_bytes: int) -> None:
        """A burst has left."""
        self._log.add(now, first, packets, size_bytes)
        self._lateness.sent(now, first + packets - 1, size_bytes)

    def had_to_wait(self, now: float) -> None:
        """There was more to send than the rate allowed."""
        self._limited_at = now

    def is_limiting(self, now: float) -> bool:
        """Whether there was, a moment ago: then the rate is what the paths carry, as far as we know."""
        return now - self._limited_at < _MOMENT_S

    def reported(self, now: float, member: int, report: SeenReport) -> bool:
        """Take in a report; returns whether it said anything about the path."""
        path, sent = self.paths.get(member), self._log.find(report.newest)
        if path is None or sent is None or not report.at_us:
            return False
        known = Report(report.at_us / 1e6, report.newest, report.received, sent.at, sent.total_bytes)
        if now - path.heard_at > _STALE_S and path.meter.has_missed_most(known):
            # It was cut off: that says nothing about what its path carries now.
            path = self.paths[member] = Path(now, max(path.delivered, INITIAL_BYTES_PER_S))
            self._returned[member] = now
        path.reported(now, known, limited_at=self._limited_at if self._may_limit(member) else -inf)
        self._lateness.reported(report.newest, path.rate, overflowed=path.overflows)
        return True

    def _may_limit(self, member: int) -> bool:
        """Whether the sender may have waited for this receiver, not only for one that is slower than all reason.

        While it does, nobody knows what the others take.
        """
        limiting = self.paths.get(self.limiting) if self.limiting is not None else None
        return limiting is None or limiting.rate >= _SLOWEST * self.paths[member].rate

    @property
    def late_bytes(self) -> float:
        """How much a sender that is late may send at once."""
        return self._lateness.most_bytes

    def rate(self, now: float, lagging: Collection[int]) -> float:
        """Bytes per second that all receivers take which are followed."""
        followed = self._followed(now, lagging) or sorted(self.paths, key=self._rate_of)[-1:]  # if all are let go
        self.limiting = min(followed, key=self._rate_of, default=None)
        return self._rate_of(self.limiting) if self.limiting is not None else inf

    def limits(self) -> dict[int, PathLimits]:
        """All paths, for people who want to look."""
        return {
            member: PathLimits(
                path.rate,
                path.delivered,
                path.meter.queueing,
                path.meter.round_trip,
                path.meter.loss,
                path.share.is_contested,
            )
            for member, path in self.paths.items()
        }

    def judge(
        self, now: float, lagging: Collection[int], let_go: Callable[[int], None], follow: Callable[[int], None]
    ) -> None:
        """Let go of a receiver that is much slower than most, and follow again one that is not."""
        followed = [member for member in self._followed(now, lagging) if not self._has_returned(now, member)]
        if not followed:
            return
        middle = sorted(followed, key=self._rate_of)[len(followed) // 2]
        usual = self._rate_of(middle)
        self._reconsider(now, lagging, self.paths[middle], follow)
        slowest = min(followed, key=self._rate_of)
        seen = self.paths[middle].share.capacity
        if self._has_held_up_for_long(now, slowest, usual, seen):
            self._blamed = None
            self._let_go[slowest] = now, self.paths[slowest].delivered
            self._risen.pop(slowest, None)
            let_go(slowest)

    def _has_held_up_for_long(self, now: float, slowest: int, usual: float, seen: float) -> bool:
        if self._is_to_blame(now, slowest, usual, seen):
            self._guilty_at = now
            if self._blamed is None or self._blamed[0] != slowest:
                self._blamed = slowest, now
            return now - self._blamed[1] > self._patience(slowest, min(usual, _UNTESTED * seen))
        if now - self._guilty_at > _RELIEF_S:
            self._blamed = None
        return False

    def _followed(self, now: float, lagging: Collection[int]) -> list[int]:
        """The receivers that count; those that were silent for long count only if all were."""
        followed = [member for member in self.paths if member not in lagging]
        heard = [member for member in followed if now - self.paths[member].heard_at <= _STALE_S]
        return heard or followed

    def _has_returned(self, now: float, member: int) -> bool:
        """Whether it was cut off until a moment ago: then it is not known what its path carries, or who is slower."""
        return now - self._returned.get(member, -inf) < _RETURN_S

    def _rate_of(self, member: int) -> float:
        return self.paths[member].rate

    def _is_to_blame(self, now: float, member: int, usual: float, seen: float) -> bool:
        """Not one that has the lesser part of a path which carries as much in all as those of most were seen to."""
        path = self.paths[member]
        exempt = now < self._exempt.get(member, (0.0, 0.0))[0]
        shares = path.share.has_less_than(_LESSER) and path.share.capacity > _AS_MUCH * min(usual, seen)
        return path.rate < MUCH_SLOWER * usual and path.is_congested and not exempt and not shares

    def _patience(self, slowest: int, usual: float) -> float:
        path = self.paths[slowest]
        if path.share.is_suspect:
            return _BLAME_SHARED_S
        if path.trickles and path.meter.came < TRICKLE * usual:
            return 0.0
        return _BLAME_MIN_S if self._rate_of(slowest) < _SLOWEST * usual else _BLAME_S

    def _reconsider(self, now: float, lagging: Collection[int], middle: Path, follow: Callable[[int], None]) -> None:
        """What most take at the most is known if the path in the middle carries no more."""
        usual = middle.rate if middle.is_congested else inf
        for member, (at, took) in [*self._let_go.items()]:
            shares = self._shares(now, member, max(_RISEN * took, _SHARED * middle.share.capacity))
            if member not in lagging:
                del self._let_go[member]  # it has caught up
                self.paths[member] = Path(now, max(took, INITIAL_BYTES_PER_S))
            elif now - self.paths[member].heard_at > _MOMENT_S:
                continue  # it does not listen
            elif shares or (now - at > TRIAL_S and took > MUCH_SLOWER * usual):
                pause = 2 * self._exempt.get(member, (0.0, _EXEMPT_S / 2))[1]
                self._exempt[member] = now + pause, pause
                del self._let_go[member]
                self.paths[member].rate = max(took, RATE_MIN)
                follow(member)

    def _shares(self, now: float, member: int, much: float) -> bool:
        """Whether sending more has brought it more than `much`, and not just for a moment: it shares its path."""
        if self.paths[member].delivered <= much:
            self._risen.pop(member, None)
            return False
        return now - self._risen.setdefault(member, now) > _RISEN_S
