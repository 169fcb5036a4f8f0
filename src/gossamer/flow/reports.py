"""The receiver's side of flow control: when to report to a sender, and what.

A report says how far the sender's packets were seen, which opens its window, and, if the sender follows the path, how
many came and when the newest did. Reports go out eight times per window, and with a path also every few milliseconds
(less often in large groups, so that a sender gets about a thousand a second at most).

What was seen has come, or was given up. A receiver may be told of packets that are still on their way, by heartbeats,
gossip and places: they wait in a socket, or with a member that passes them on. If they counted, the sender would send
more than these take.
"""

from gossamer.core.ids import FIRST_PASS, Phase, channel_of, owner_of
from gossamer.core.ladder import Ladder
from gossamer.core.messages import SeenReport
from gossamer.core.packets import Run
from gossamer.core.streams import Stream
from gossamer.flow.window import Window

_EVERY_S = 0.005
_EVERY_PER_MEMBER_S = 0.001


class _Heard:
    """What was heard of one sender."""

    __slots__ = ("due_at", "due_number", "received")

    def __init__(self) -> None:
        self.received = 0
        self.due_number = 0
        self.due_at = 0.0


class Reports:
    """What one receiver reports to all senders."""

    __slots__ = ("_beyond_gap", "_heard", "_ladder", "_of_path", "_stride")

    def __init__(self, ladder: Ladder, beyond_gap: int) -> None:
        """A report goes no further than `beyond_gap` from the first gap, if that is not 0."""
        self._ladder = ladder
        self._beyond_gap = beyond_gap
        self._of_path = ladder.settings.congestion != "none"
        self._stride = Window.stride(ladder.settings.window)
        self._heard: dict[int, _Heard] = {}

    def forget(self, sender: int) -> None:
        """It wants no more reports."""
        self._heard.pop(sender, None)

    def accepted(self, now: float, run: Run, phase: Phase) -> SeenReport | None:
        """The report that is due now that these packets came, if any."""
        sender, newest = run[0].sender, run[-1].seqno
        heard = self._heard.get(sender)
        if heard is None:
            heard = self._heard[sender] = _Heard()
        if phase is FIRST_PASS:
            heard.received += len(run)
        stream = self._ladder.streams[sender]
        came = _come_to(stream) if stream.missing.firsts else stream.nexts[stream.at]
        shows_path = self._of_path and phase is FIRST_PASS and newest + 1 == came
        seen = self._seen(sender, stream) if stream.missing.firsts else came
        if seen < heard.due_number and not (shows_path and now >= heard.due_at):
            return None
        heard.due_number = seen + self._stride
        if not shows_path:
            return SeenReport(seen, channel=channel_of(sender))
        heard.due_at = now + max(_EVERY_S, _EVERY_PER_MEMBER_S * len(self._ladder.roster))
        return SeenReport(seen, newest, heard.received, max(1, int(now * 1e6)), channel_of(sender))

    def given_up(self, sender: int) -> SeenReport | None:
        """The report that is due now that something will not come: it may be what the sender waits for."""
        heard = self._heard.get(sender)
        seen = self._seen(sender, self._ladder.streams[sender])
        if heard is None or seen < heard.due_number:
            return None
        heard.due_number = seen + self._stride
        return SeenReport(seen, channel=channel_of(sender))

    def _seen(self, sender: int, stream: Stream) -> int:
        """One that does not wait for us may do so again when we have caught up, not when we have heard of the last."""
        if not stream.missing.firsts:
            return stream.next
        if owner_of(sender) in self._ladder.hearing.let_go:
            return stream.missing.first
        came = _come_to(stream)
        return min(came, stream.missing.first + self._beyond_gap) if self._beyond_gap else came


def _come_to(stream: Stream) -> int:
    """Above the last packet that came, or was given up: what others only told us of may still be on its way."""
    missing = stream.missing
    return missing.firsts[-1] if missing.lasts[-1] + 1 == stream.next else stream.next
