"""The paths of packets that travel along the propagation graph themselves, and not only their places (002 §3.2).

The tree of a channel has its listeners as nodes: below its primary destination, each hangs below the nearest one above
it in the graph. The graph's other members on these paths, the *extra* nodes, are passed over: the paper's merge what
passes, but here places do that. A packet enters the tree at the primary of its order, which can then give it a place,
or if that does not listen at the primary destination; from there it leaves every node by the edges that lead away.
A source that is in the tree does not get it back: it serves the edges that lead away from it at once.

Members may see different graphs for a while: then a packet comes twice, or has to be repaired.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from gossamer.core.ids import channel_of, owner_of
from gossamer.core.ladder import Ladder
from gossamer.core.roster import Roster
from gossamer.ordering.graph import ROOT, Graph, greedy

MemberIds = tuple[int, ...]
_KNOWN_MAX = 10_000


class Tree(NamedTuple):
    """The listeners of one channel, as its packets reach them."""

    root: int
    """The primary destination; ROOT if nobody listens."""
    above: Mapping[int, int]
    """By listener: the one that it hangs below."""
    below: Mapping[int, MemberIds]
    """By listener: those that hang below it."""

    def beside(self, member: int) -> MemberIds:
        """The ends of all edges of `member`."""
        above = self.above.get(member, ROOT)
        return self.below.get(member, ()) if above == ROOT else (above, *self.below.get(member, ()))

    def towards(self, member: int, to: int) -> int:
        """The next one on the way from one listener to another."""
        while to != ROOT and (above := self.above[to]) != member:
            to = above
        return self.above[member] if to == ROOT else to


def tree_of(graph: Graph, channel: int) -> Tree:
    """The tree of a channel: of the graph, without extra nodes."""
    listeners = graph.listeners.get(channel, frozenset())
    above = {member: _nearest_above(graph, channel, member) for member in sorted(listeners)}
    below: dict[int, MemberIds] = {}
    for member, parent in above.items():
        below[parent] = (*below.get(parent, ()), member)
    return Tree(graph.primaries.get(channel, ROOT), above, below)


def _nearest_above(graph: Graph, channel: int, member: int) -> int:
    listening = [node for node in graph.path(channel, member)[:-1] if node in graph.listeners[channel]]
    return listening[-1] if listening else ROOT


@lru_cache(maxsize=64)  # members of one process share what they would all derive alike
def _tree(listeners: tuple[MemberIds, ...], channel: int, primary: int) -> Tree:
    return tree_of(greedy(dict(enumerate(listeners)), (primary,)), channel)


class Paths:
    """Where one member sends packets along the graph."""

    __slots__ = ("_known", "_ladder", "_roster")

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self._roster: Roster | None = None
        self._known: dict[tuple[int, int], MemberIds] = {}  # by stream and primary

    def onward(self, stream: int, primary: int) -> MemberIds:
        """Where packets of `stream` go from here, if `primary` gives them their places."""
        if self._ladder.roster is not self._roster or len(self._known) > _KNOWN_MAX:
            self._roster = self._ladder.roster
            self._known.clear()
        known = self._known.get((stream, primary))
        if known is None:
            known = self._known[stream, primary] = self._find(stream, primary)
        return known

    def _find(self, stream: int, primary: int) -> MemberIds:
        me, source, roster = self._ladder.me, owner_of(stream), self._ladder.roster
        channels = range(self._ladder.settings.channels)
        tree = _tree(tuple(roster.listeners(c) for c in channels), channel_of(stream), primary)
        entrance = primary if primary in tree.above else tree.root
        if me == entrance or entrance == ROOT:
            return tuple(member for member in tree.beside(me) if member != source)
        came_from = tree.towards(me, entrance) if me in tree.above else ROOT
        away = [member for member in tree.beside(me) if member not in (came_from, source)]
        return (entrance, *away) if me == source else tuple(away)
