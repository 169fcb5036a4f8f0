"""Suspicion: a member that nobody hears is taken for disconnected until it says otherwise.

Members stand in a ring, in the order of their numbers, and each watches the few that follow it: what one finds, all
learn from its view. A watched member that has not been heard for `suspect_after`, in any way, is asked for an echo
again and again; if it has not answered for as long again, it is declared disconnected. That is an entry of the view
like any other: it spreads by gossip, and the member, if it lives, refutes it with a fresher one (000 §5.3). A
disconnected member keeps its claim on the log.

While some do not answer, twice as many behind them are watched: so a partition is noticed soon, however many of those
that follow are on the other side.

A member that did not listen itself, because it was paused or stood still, has no reason to suspect anybody.
"""

from bisect import bisect
from collections.abc import Mapping

from gossamer.core.declares import JOINING, Declares
from gossamer.core.effects import Note, Unicast
from gossamer.core.inputs import Paused, Resumed
from gossamer.core.ladder import Effects, InputHandler, Ladder, Rung
from gossamer.core.messages import Gossip
from gossamer.core.round_trips import stamp_of
from gossamer.core.settings import ProtocolSettings

_WATCHED = 3
"""Members that are watched while all of them answer."""
_LOOKS = 4
"""Looks in the time that it takes to become suspicious."""
_STRANGERS_MAX = 100
"""Signs of life of this many former members may be remembered."""


class Suspicion(Rung):
    """When each member was last heard, and how often those that are silent were asked."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._heard = ladder.signs_of_life()
        self._asked: dict[int, int] = {}  # how often each was asked since it was heard
        self._listens = True
        self._since = self._looked = 0.0  # when we began to listen, and when we last looked
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
        self._begin(now)
        self._looked = now
        self._timer.set(now + self.ladder.settings.suspect_after / _LOOKS)

    def reconnected(self, now: float, out: Effects) -> None:
        """Nobody could be heard."""
        self._begin(now)

    def _paused(self, now: float, happened: Paused, out: Effects) -> None:
        self._listens = False

    def _resumed(self, now: float, happened: Resumed, out: Effects) -> None:
        self._listens = True
        self._begin(now)

    def _begin(self, now: float) -> None:
        """Whatever was heard, or asked in vain, before now means nothing."""
        self._since = now
        self._heard.clear()
        self._asked.clear()

    def _look(self, now: float, out: Effects) -> None:
        patience = self.ladder.settings.suspect_after
        if not self._listens or now - self._looked > patience:  # a look was due long ago: we stood still
            self._begin(now)
        self._looked = now
        self._forget_strangers()
        asked, self._asked = self._asked, {}
        unanswered = len(self._silent(now, list(asked)))
        for member in self._silent(now, self._followers(_WATCHED + 2 * unanswered)):
            times = asked.get(member, 0)
            if times == _LOOKS:
                out.append(Note("suspect", peer=member))
                self.ladder.membership.suspect(now, member, out)
            else:
                self._asked[member] = times + 1
                out.append(Unicast(member, Gossip(stamp=stamp_of(now))))
        self._timer.set(now + patience / _LOOKS)

    def _followers(self, count: int) -> list[int]:
        """The members that follow this one in the ring."""
        ring, me = self.ladder.roster.members, self.ladder.me
        place = bisect(ring, me)
        return [member for member in (ring[place:] + ring[:place])[:count] if member != me]

    def _silent(self, now: float, members: list[int]) -> list[int]:
        before = now - self.ladder.settings.suspect_after
        return [member for member in members if self._heard.get(member, self._since) < before]

    def _forget_strangers(self) -> None:
        members = self.ladder.roster.members
        if len(self._heard) > len(members) + _STRANGERS_MAX:
            heard = {member: self._heard[member] for member in members if member in self._heard}
            self._heard.clear()
            self._heard.update(heard)
