"""Variable heartbeats (LBRM; 000 §1.3, Table 7.1): an idle sender repeats its last number at growing intervals."""

from collections.abc import Mapping

from gossamer.core.declares import LAST_PACKETS, Declares
from gossamer.core.effects import Multicast
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import Heartbeat
from gossamer.core.packets import Run
from gossamer.core.settings import ProtocolSettings


class VariableHeartbeat(Rung):
    """The pause starts at `heartbeat_min` after each packet and grows by the factor up to `heartbeat_max`."""

    from_strangers = (Heartbeat,)  # the last word of one that has left may come late

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._pause = 0.0
        self._timer = ladder.timer(self._beat)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """A last packet that was lost is missed at the next heartbeat."""
        return Declares(provides=(LAST_PACKETS,))

    def messages(self) -> Mapping[type, MessageHandler]:
        """Heartbeats of others."""
        return {Heartbeat: self._heard}

    def published(self, now: float, run: Run, out: Effects) -> None:
        """A packet is as good as a heartbeat."""
        self._pause = self.ladder.settings.heartbeat_min
        self._timer.set(now + self._pause)

    def reconnected(self, now: float, out: Effects) -> None:
        """Nobody has heard the heartbeats since we left: begin with short pauses again."""
        if self._pause:
            self._pause = self.ladder.settings.heartbeat_min
            self._beat(now, out)

    def leaving(self, now: float, out: Effects) -> None:
        """The last word: members that missed our last packets learn of it while somebody can still repair them."""
        out.append(Multicast(Heartbeat(self.ladder.streams[self.ladder.me].next - 1)))

    def _beat(self, now: float, out: Effects) -> None:
        settings = self.ladder.settings
        out.append(Multicast(Heartbeat(self.ladder.streams[self.ladder.me].next - 1)))
        self._pause = min(self._pause * settings.heartbeat_factor, settings.heartbeat_max)
        self._timer.set(now + self._pause)

    def _heard(self, now: float, source: int, message: Heartbeat, out: Effects) -> None:
        self.ladder.gaps.come_to(now, source, message.last, out)
