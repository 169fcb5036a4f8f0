"""Variable heartbeats (LBRM; 000 §1.3, Table 7.1): an idle sender repeats its last number, ever more rarely."""

from collections.abc import Mapping

from gossamer.core.effects import Multicast
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung, TimerHandler
from gossamer.core.messages import Heartbeat
from gossamer.core.packets import Run

_BEAT = "variable_heartbeat.beat"


class VariableHeartbeat(Rung):
    """The pause starts at `heartbeat_min` after each packet and grows by the factor up to `heartbeat_max`."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._pause = 0.0

    def messages(self) -> Mapping[type, MessageHandler]:
        """Heartbeats of others."""
        return {Heartbeat: self._heard}

    def alarms(self) -> Mapping[str, TimerHandler]:
        """The next heartbeat."""
        return {_BEAT: self._beat}

    def published(self, now: float, run: Run, out: Effects) -> None:
        """A packet is as good as a heartbeat."""
        self._pause = self.ladder.settings.heartbeat_min
        self.ladder.timers.set(_BEAT, now + self._pause)

    def _beat(self, now: float, out: Effects) -> None:
        settings = self.ladder.settings
        out.append(Multicast(Heartbeat(self.ladder.streams[self.ladder.me].next - 1)))
        self._pause = min(self._pause * settings.heartbeat_factor, settings.heartbeat_max)
        self.ladder.timers.set(_BEAT, now + self._pause)

    def _heard(self, now: float, source: int, message: Heartbeat, out: Effects) -> None:
        self.ladder.learn(now, source, source, message.last, out)
