"""Suspicion: a member that nobody hears is taken for disconnected until it says otherwise.

A member that has not heard another one for `suspect_after`, in any way, asks it for an echo; without an answer for as
long again, it declares the other one disconnected. That is an entry of the view like any other: it spreads by gossip,
and the member, if it lives, refutes it with a fresher one (000 §5.3). A disconnected member keeps its claim on the log.

A member that did not listen itself, because it was paused or stood still, has no reason to suspect anybody.
"""

from collections.abc import Mapping

from gossamer.core.declares import JOINING, Declares
from gossamer.core.effects import Note, Unicast
from gossamer.core.inputs import Paused, Resumed
from gossamer.core.ladder import Effects, InputHandler, Ladder, Rung
from gossamer.core.messages import Gossip
from gossamer.core.round_trips import stamp_of
from gossamer.core.settings import ProtocolSettings

_ASK_PER_LOOK = 4
_LOOKS = 4
"""Looks in the time that it takes to become suspicious."""


class Suspicion(Rung):
    """When each member was last heard."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._heard = ladder.signs_of_life()
        self._listens = True
        self._looked = 0.0
        self._timer = ladder.timer(self._look)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Somebody must be able to act on a suspicion, and to refute it."""
        return Declares(needs=(JOINING,))

    def inputs(self) -> Mapping[type, InputHandler]:
        """Whether we listen."""
        return {Paused: self._paused, Resumed: self._resumed}

    def started(self, now: float, out: Effects) -> None:
        """Nobody is suspected before it had time to be heard."""
        self._looked = now
        self._timer.set(now + self.ladder.settings.suspect_after / _LOOKS)

    def reconnected(self, now: float, out: Effects) -> None:
        """Nobody could be heard."""
        self._heard.clear()

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
        heard = {member: self._heard.get(member, now) for member in self.ladder.roster.others()}
        self._heard.clear()
        self._heard.update(heard)
        silent = sorted((at, m) for m, at in heard.items() if at < now - patience)
        for at, member in silent[:_ASK_PER_LOOK]:
            if at < now - 2 * patience:
                out.append(Note("suspect", peer=member))
                self.ladder.membership.suspect(now, member, out)
            else:
                out.append(Unicast(member, Gossip(stamp=stamp_of(now))))
        self._timer.set(now + patience / _LOOKS)
