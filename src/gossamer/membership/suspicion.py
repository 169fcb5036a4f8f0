"""Suspicion: a member that nobody hears is taken for disconnected until it says otherwise.

Whoever has not heard of a member for `suspect_after` asks it for an echo; without an answer for as long again, it
declares the member disconnected. That is an entry of the view like any other: it spreads by gossip, and the member, if
it lives, refutes it with a fresher one (000 §5.3). A disconnected member keeps its claim on the log.

Who did not listen itself, because it was paused or stood still, has no reason to suspect anybody.
"""

from collections.abc import Mapping

from gossamer.core.effects import Note, Unicast
from gossamer.core.ids import Phase
from gossamer.core.inputs import Paused, Resumed
from gossamer.core.ladder import Effects, InputHandler, Ladder, MessageHandler, Rung, TimerHandler
from gossamer.core.messages import Ack, Echo, Gossip, Heartbeat, Heartbeats, Join, Members, Message, Report, Request
from gossamer.core.packets import Run

_LOOK = "suspicion.look"
_ASK_PER_LOOK = 4


class Suspicion(Rung):
    """When each member was last heard."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._heard: dict[int, float] = {}
        self._listens = True
        self._looked = 0.0

    def messages(self) -> Mapping[type, MessageHandler]:
        """A sign of life is whatever a member says itself."""
        return dict.fromkeys((Ack, Echo, Gossip, Heartbeat, Heartbeats, Join, Members, Report, Request), self._told)

    def alarms(self) -> Mapping[str, TimerHandler]:
        """Look who is silent."""
        return {_LOOK: self._look}

    def inputs(self) -> Mapping[type, InputHandler]:
        """Whether we listen."""
        return {Paused: self._paused, Resumed: self._resumed}

    def started(self, now: float, out: Effects) -> None:
        """Look several times in the time that it takes to become suspicious."""
        self._looked = now
        self.ladder.timers.set(_LOOK, now + self.ladder.settings.suspect_after / 4)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """So is a packet."""
        self._heard[source] = now

    def _told(self, now: float, source: int, message: Message, out: Effects) -> None:
        self._heard[source] = now

    def _paused(self, now: float, happened: Paused, out: Effects) -> None:
        self._listens = False

    def _resumed(self, now: float, happened: Resumed, out: Effects) -> None:
        self._listens = True
        self._heard.clear()

    def _look(self, now: float, out: Effects) -> None:
        patience = self.ladder.settings.suspect_after
        if not self._listens or now - self._looked > patience:  # a look was due long ago: we stood still
            self._heard.clear()
        self._looked = now
        members = [m for m in self.ladder.peers.all() if m != self.ladder.me]
        self._heard = {m: self._heard.get(m, now) for m in members}
        silent = sorted((at, m) for m, at in self._heard.items() if at < now - patience)
        for at, member in silent[:_ASK_PER_LOOK]:
            if at < now - 2 * patience:
                out.append(Note("suspect", peer=member))
                self.ladder.suspect(now, member, out)
            else:
                out.append(Unicast(member, Gossip({}, stamp=max(1, int(now * 1e6)))))
        self.ladder.timers.set(_LOOK, now + patience / 4)
