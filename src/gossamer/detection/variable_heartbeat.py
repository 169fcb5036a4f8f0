"""Variable heartbeats (LBRM; 000 §1.3, Table 7.1): an idle sender repeats its last number at growing intervals."""

from collections.abc import Mapping

from gossamer.core.declares import LAST_PACKETS, Declares
from gossamer.core.effects import Multicast
from gossamer.core.ids import channel_of, stream_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import Heartbeat
from gossamer.core.packets import Run
from gossamer.core.settings import ProtocolSettings


class VariableHeartbeat(Rung):
    """The pause starts at `heartbeat_min` after each packet and grows by the factor up to `heartbeat_max`.

    Each channel to which the member publishes has a pause of its own.
    """

    from_strangers = (Heartbeat,)  # the last word of one that has left may come late

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._pauses: dict[int, float] = {}  # by stream of ours
        self._due: dict[int, float] = {}
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
        self._wait(now, run[0].sender, self.ladder.settings.heartbeat_min)
        self._timer.set(min(self._due.values()))

    def reconnected(self, now: float, out: Effects) -> None:
        """Nobody has heard the heartbeats since we left: begin with short pauses again."""
        for sender in self._pauses:
            self._wait(now, sender, self.ladder.settings.heartbeat_min)
            self._due[sender] = now
        self._beat(now, out)

    def leaving(self, now: float, out: Effects) -> None:
        """The last word: members that missed our last packets learn of it while somebody can still repair them."""
        for sender in self.ladder.own:
            self._tell(sender, out)

    def _beat(self, now: float, out: Effects) -> None:
        settings = self.ladder.settings
        for sender in [sender for sender, due in self._due.items() if due <= now]:
            self._tell(sender, out)
            self._wait(now, sender, min(self._pauses[sender] * settings.heartbeat_factor, settings.heartbeat_max))
        if self._due:
            self._timer.set(min(self._due.values()))

    def _wait(self, now: float, sender: int, pause: float) -> None:
        self._pauses[sender], self._due[sender] = pause, now + pause

    def _tell(self, sender: int, out: Effects) -> None:
        channel = channel_of(sender)
        out.append(Multicast(Heartbeat(self.ladder.own[sender].next - 1, channel), channel=channel))

    def _heard(self, now: float, source: int, message: Heartbeat, out: Effects) -> None:
        self.ladder.gaps.come_to(now, stream_of(source, message.channel), message.last, out)
