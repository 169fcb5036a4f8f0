"""The propagation graph (002 §3.1, appendix I): the paths on which packets of all channels get one order.

It is a forest of members. A packet goes to the *primary destination* of its channel and from there down the tree to all
that listen, and every member on the way merges what it gets from above with what it is the primary destination of. Two
members that both hear two channels are both below the lower of the two primaries, which has merged them once for both.
A member on the way that does not listen to the channel is an *extra* node: it passes on what it does not deliver.

The forest is a pure function of who listens to what. The choice is greedy, as in the paper: whoever is in most channels
comes highest, which keeps trees short. `balanced` then moves leaves below their siblings, so that members near the root
have less to send, and trees grow by at most one level (002 §4.1, Fig. 5).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

Listeners = Mapping[int, Collection[int]]
"""By channel: the members that listen to it."""

ROOT = -1
"""As a parent: there is none."""


@dataclass(frozen=True, slots=False)
class Graph:
    """A forest of members, and where the packets of each channel enter it."""

    parents: Mapping[int, int]
    """By member, ascending: the one above it, or ROOT."""
    primaries: Mapping[int, int]
    """By channel, ascending: its primary destination."""
    listeners: Mapping[int, frozenset[int]]

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """By member: those right below it, ascending. The children of ROOT are the roots."""
        found: dict[int, list[int]] = defaultdict(list)
        for member, parent in self.parents.items():
            found[parent].append(member)
        return dict(found)

    def path_up(self, member: int) -> list[int]:
        """The member, the one above it, and so on up to the root."""
        path = [member]
        while (above := self.parents[path[-1]]) != ROOT:
            path.append(above)
        return path

    def path(self, channel: int, member: int) -> list[int]:
        """From the primary destination of `channel` down to `member`; empty if it is not below that."""
        up, primary = self.path_up(member), self.primaries[channel]
        return up[up.index(primary) :: -1] if primary in up else []

    @cached_property
    def edges(self) -> dict[int, list[tuple[int, int]]]:
        """By channel: the edges that its packets travel, ascending by the lower end."""
        return {channel: self._edges_of(channel) for channel in self.primaries}

    def _edges_of(self, channel: int) -> list[tuple[int, int]]:
        seen = {self.primaries[channel]: ROOT}
        for member in self.listeners[channel]:
            while member not in seen:
                seen[member] = member = self.parents[member]
        return sorted(((above, member) for member, above in seen.items() if above != ROOT), key=_lower_end)

    def extra(self, channel: int) -> list[int]:
        """The members that pass packets of `channel` on though they do not listen to it."""
        return [member for _, member in self.edges[channel] if member not in self.listeners[channel]]

    def depth(self, channel: int) -> int:
        """How many edges the member of `channel` that is farthest from the primary destination is away from it."""
        return max(len(self.path(channel, member)) for member in self.listeners[channel]) - 1

    @cached_property
    def load(self) -> dict[int, int]:
        """By member: the messages that it gets and sends if one packet is sent to each channel (002 §4.1)."""
        load: Counter[int] = Counter(self.primaries.values())  # each gets it from the source
        for edges in self.edges.values():
            for above, member in edges:
                load[above] += 1
                load[member] += 1
        return {member: load[member] for member in self.parents}


def _lower_end(edge: tuple[int, int]) -> int:
    return edge[1]


def faults(graph: Graph) -> list[str]:
    """What is wrong with a graph: PG1 and PG2 must hold for any, PG3 for those made here; empty if nothing is.

    PG4, that no member passes on what it does not listen to, cannot always be had: `Graph.extra` tells.
    """
    found = [f"PG1: channel {c} has no primary destination" for c in graph.listeners if c not in graph.primaries]
    found += [f"PG2: member {m} is above itself" for m in graph.parents if _is_above_itself(graph, m)]
    if found:
        return found
    for channel, primary in graph.primaries.items():
        if primary not in graph.listeners[channel]:
            found.append(f"PG3: the primary destination {primary} of channel {channel} does not listen to it")
        lost = [m for m in sorted(graph.listeners[channel]) if m not in graph.parents or not graph.path(channel, m)]
        found += [f"PG2: no path from {primary} to member {m} of channel {channel}" for m in lost]
    return found


def _is_above_itself(graph: Graph, member: int) -> bool:
    seen = {member}
    while (member := graph.parents.get(member, ROOT)) != ROOT:
        if member in seen:
            return True
        seen.add(member)
    return False


def greedy(listeners: Listeners, prefer: Sequence[int] = ()) -> Graph:
    """The generator of 002, appendix I.

    The paper leaves open whom to take of several that are in equally many channels: those in `prefer`, the first one
    first, or else the one with the lowest number.
    """
    return _Growing(listeners, prefer).grow()


def balanced(listeners: Listeners, prefer: Sequence[int] = ()) -> Graph:
    """The greedy graph with less load near the roots: leaves hang below siblings that hear all that they hear.

    A leaf is moved while that lowers the higher of the two loads. No extra nodes come of it, and no path grows by more
    than one edge, since neither a leaf that took others in nor one that was moved is moved again.
    """
    graph = greedy(listeners, prefer)
    parents, load = dict(graph.parents), dict(graph.load)
    heard = _channels_of(graph.listeners)
    for parent, children in graph.children.items():
        if parent != ROOT:
            leaves = [child for child in children if child not in graph.children]
            for child, to in _moves(parent, children, leaves, heard, load):
                parents[child] = to
    return Graph(parents, graph.primaries, graph.listeners)


def _moves(
    parent: int, children: list[int], leaves: list[int], heard: Mapping[int, frozenset[int]], load: dict[int, int]
) -> list[tuple[int, int]]:
    """Which leaves to move below which of their siblings; `load` becomes what it is then."""
    moves: dict[int, int] = {}
    takers: set[int] = set()
    for leaf in sorted(leaves, key=lambda leaf: (len(heard[leaf]), leaf)):
        cost = len(heard[leaf])
        able = [c for c in children if c != leaf and c not in moves and heard[leaf] <= heard[c]]
        to = min(able, key=lambda child: (load[child], child), default=None)
        if leaf not in takers and to is not None and load[to] + cost < load[parent]:
            moves[leaf] = to
            takers.add(to)
            load[parent] -= cost
            load[to] += cost
    return list(moves.items())


def _channels_of(listeners: Mapping[int, frozenset[int]]) -> dict[int, frozenset[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    for channel, members in listeners.items():
        for member in members:
            found[member].add(channel)
    return {member: frozenset(channels) for member, channels in found.items()}


class _Growing:
    """A forest that grows: the channels without a primary destination, and by member how many of those it hears."""

    def __init__(self, listeners: Listeners, prefer: Sequence[int]) -> None:
        self.listeners = {channel: frozenset(listeners[channel]) for channel in sorted(listeners) if listeners[channel]}
        self.unmarked = dict.fromkeys(self.listeners)
        self.heard = _channels_of(self.listeners)
        self.rank = {member: at - len(prefer) for at, member in enumerate(prefer)}
        self.parents: dict[int, int] = {}
        self.primaries: dict[int, int] = {}

    def grow(self) -> Graph:
        while self.unmarked:
            root = self._most_frequent(self.unmarked, sorted(self.heard))
            waiting = [(root, ROOT)]
            while waiting:
                member, parent = waiting.pop()
                self.parents[member] = parent
                waiting += [(child, member) for child in self._children(member)]
        parents = {member: self.parents[member] for member in sorted(self.parents)}
        return Graph(parents, {channel: self.primaries[channel] for channel in self.listeners}, self.listeners)

    def _children(self, subroot: int) -> list[int]:
        """The procedure new_subtree: mark the channels of `subroot`, and find a child for each part of the others."""
        marked = [channel for channel in sorted(self.heard[subroot]) if channel in self.unmarked]
        for channel in marked:
            self.primaries[channel] = subroot
            del self.unmarked[channel]
        intersecters = sorted({m for c in marked for m in self.listeners[c] if m not in self.parents})
        children: list[int] = []
        placed: set[int] = set()
        for member in intersecters:
            if member not in placed:
                part = self._part_around(member)
                within = {m for channel in part for m in self.listeners[channel]} | {member}
                placed |= within
                children.append(self._most_frequent(part, [m for m in intersecters if m in within]))
        return children

    def _part_around(self, member: int) -> list[int]:
        """The unmarked channels that `member` hears, those that share a member with these, and so on."""
        part = [channel for channel in sorted(self.heard[member]) if channel in self.unmarked]
        known = set(part)
        seen = {member}
        for channel in part:  # grows
            for other in sorted(self.listeners[channel] - seen):
                seen.add(other)
                new = [c for c in sorted(self.heard[other]) if c in self.unmarked and c not in known]
                part += new
                known.update(new)
        return part

    def _most_frequent(self, channels: Collection[int], candidates: Sequence[int]) -> int:
        among = frozenset(channels)
        return min(candidates, key=lambda m: (-len(self.heard[m] & among), self.rank.get(m, 0), m))
