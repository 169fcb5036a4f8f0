"""Partial views (004 opt. 6): a member gossips within a random subset of the others, not with all of them.

The subsets together are a random graph, on which gossip works as well as on a full one as long as it is connected:
a member that is in nobody's subset hears no gossip, which among views of k happens with probability e**-k. So k is
a few times the logarithm of the group's size; 20 serves thousands.
"""

from gossamer.core.ladder import Ladder
from gossamer.core.peers import Peers


class PartialView:
    """Whom a member gossips to: everybody, or a subset that follows the changes of the membership."""

    __slots__ = ("_chosen", "_known", "_ladder", "_measures", "_size")

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self._size = ladder.settings.view_size
        self._known: tuple[int, ...] = ()
        self._chosen = Peers(ladder.me, (), (), ladder.settings.selection) if self._size else ladder.peers
        self._measures = ladder.settings.selection != "uniform"

    def members(self) -> tuple[int, ...]:
        """Everyone in it."""
        if self._size and self._ladder.peers.all() is not self._known:
            self._follow(self._ladder.peers.all())
        return self._chosen.all()

    def target(self) -> int | None:
        """One of them, drawn by the selection; None if there is none."""
        if self._size:
            self.members()
        return self._chosen.target(self._ladder.rng)

    def measured(self, peer: int, rtt: float) -> None:
        """A round trip took so long; who draws uniformly does not care."""
        if self._measures:
            self._chosen.measured(peer, rtt)

    def _follow(self, members: tuple[int, ...]) -> None:
        """Who left is replaced; who joined gets into each view with the chance that all others had."""
        rng, before = self._ladder.rng, set(self._known)
        self._known = members
        others = dict.fromkeys(m for m in members if m != self._ladder.me)
        view = [m for m in self._chosen.all() if m in others]
        rest = [m for m in others if m not in view]
        view += rng.sample(rest, max(0, min(self._size - len(view), len(rest))))
        for newcomer in rest if before else ():
            if newcomer not in before and newcomer not in view and rng.random() * len(others) < self._size:
                view[int(rng.random() * len(view))] = newcomer
        self._chosen.replace(tuple(view))
