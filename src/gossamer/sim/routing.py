"""Where packets go: the multicast tree of each source and the path between any two members.

A multicast crosses each link of the shortest-path tree once. The tree is kept in preorder, so that
everything below a link is one contiguous range: a loss on a link is a loss of that range.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from gossamer.sim.topology import Topology, routes

PATHS_KEPT_MAX = 100_000
"""Paths are remembered where there are no more pairs of members than this."""


class Tree:
    """One source's shortest-path tree, cut back to the branches that lead to members."""

    __slots__ = (
        "_all",
        "_delays",
        "ends",
        "latencies",
        "links",
        "parents",
        "receivers",
        "scratch",
        "seconds_per_byte",
    )

    def __init__(self) -> None:
        self.links: list[int] = [-1]  # directed link by which position i is reached
        self.parents: list[int] = [-1]  # position of the node before
        self.latencies: list[float] = [0.0]
        self.seconds_per_byte: list[float] = [0.0]
        self.ends: list[int] = [0]  # position after everything below i
        self.receivers: list[tuple[int, int]] = []  # (position, member), ascending
        self.scratch: list[float] = []  # arrival times, reused by each multicast
        self._delays: list[tuple[float, list[int], list[int]]] = []
        self._all: tuple[Callable[[list[float]], Any], list[int]] | None = None  # what picks the receivers' times; they

    def together(self, times: list[float]) -> tuple[float, list[int]]:
        """When a multicast reaches all receivers, and these; a negative time if it does not reach all at once."""
        if len(self.receivers) < 2:
            return -1.0, []
        if self._all is None:
            self._all = itemgetter(*(at for at, _ in self.receivers)), [member for _, member in self.receivers]
        pick, members = self._all
        picked = pick(times)
        return picked[0] if picked.count(picked[0]) == len(picked) else -1.0, members

    def delays(self) -> list[tuple[float, list[int], list[int]]]:
        """Members, with their positions, by how long a packet takes to reach them where bandwidth does not matter."""
        if not self._delays:
            times = [0.0] * len(self.links)
            for position in range(1, len(self.links)):
                times[position] = times[self.parents[position]] + self.latencies[position]
            groups: dict[float, tuple[list[int], list[int]]] = {}
            for position, member in self.receivers:
                positions, members = groups.setdefault(times[position], ([], []))
                positions.append(position)
                members.append(member)
            self._delays = [(delay, *group) for delay, group in groups.items()]
        return self._delays

    def members_within(self, first: int, end: int) -> list[int]:
        """The members at positions `first .. end-1`."""
        low, high = (bisect_left(self.receivers, (position, -1)) for position in (first, end))
        return [member for _, member in self.receivers[low:high]]


@dataclass(slots=True)
class Way:
    """The way between one member and the root, node 0, in a network that is itself a tree."""

    nodes: list[int]  # from below the root to the member
    up: list[int]  # links from the member to the root
    down: list[int]  # links from the root to the member
    up_latencies: list[float]
    down_latencies: list[float]


def shared(one: Way, other: Way) -> int:
    """How many links two ways share: in a tree a path goes up to where they meet, and down again."""
    common = 0
    for mine, its in zip(one.nodes, other.nodes, strict=False):
        if mine != its:
            break
        common += 1
    return common


ADDRESSED_MAX = 1000
"""Trees that lead to a part of the group are remembered, as many as this."""
DEPTH_MAX = 64
"""A tree deeper than this is treated like any other network: the ways to its root would fill the memory."""


class Router:
    """Trees and paths over the links that are up; forgets them all when a link is cut or mended."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.down: frozenset[int] = frozenset()
        self.deaf: frozenset[int] = frozenset()
        self._member_at = {node: member for member, node in enumerate(topology.members)}
        self._routes: dict[int, tuple[list[int], list[int]]] = {}
        self._trees: dict[tuple[int, int], Tree] = {}
        self._addressed: dict[tuple[int, tuple[int, ...], int], Tree] = {}
        self._paths: dict[tuple[int, int], list[int] | None] = {}
        self._keeps_paths = len(topology.members) ** 2 <= PATHS_KEPT_MAX
        self.ways = self._hang_up() if len(topology.links) == topology.nodes - 1 else None
        """The way of each member, where the network is a tree."""

    def set_down(self, down: frozenset[int]) -> None:
        """These links (by index) do not work now; routing adapts at once."""
        self.down = down
        self._routes.clear()
        self._trees.clear()
        self._addressed.clear()
        self._paths.clear()

    def set_deaf(self, deaf: frozenset[int]) -> None:
        """These members have left the multicast: it is not carried to them."""
        self.deaf = deaf
        self._trees.clear()
        self._addressed.clear()

    def find_link(self, a: int, b: int) -> int | None:
        """The index of the link between two nodes."""
        for index, link in enumerate(self.topology.links):
            if {link.a, link.b} == {a, b}:
                return index
        return None

    def tree(self, member: int, hops: int = 0) -> Tree:
        """The multicast tree of a member; only `hops` hops of it, if that is not 0."""
        if (member, hops) not in self._trees:
            self._trees[member, hops] = self._build_tree(self.topology.members[member], hops, self.topology.members)
        return self._trees[member, hops]

    def tree_to(self, member: int, to: tuple[int, ...], hops: int = 0) -> Tree:
        """The tree of a multicast that is addressed to some members: each link that leads to any of them, once."""
        if (member, to, hops) not in self._addressed:
            if len(self._addressed) >= ADDRESSED_MAX:
                self._addressed.clear()
            nodes = [self.topology.members[other] for other in to]
            self._addressed[member, to, hops] = self._build_tree(self.topology.members[member], hops, nodes)
        return self._addressed[member, to, hops]

    def path(self, source: int, target: int) -> list[int] | None:
        """The directed links from one member to another, in order; None if there is no path."""
        if not self._keeps_paths:
            return self._find_path(source, target)
        key = (source, target)
        if key not in self._paths:
            self._paths[key] = self._find_path(source, target)
        return self._paths[key]

    def directed(self, link: int, to_node: int) -> int:
        """Two directions, two numbers: 2*link towards its `b`, 2*link + 1 towards its `a`."""
        return 2 * link + (self.topology.links[link].a == to_node)

    def _from(self, node: int) -> tuple[list[int], list[int]]:
        if node not in self._routes:
            self._routes[node] = routes(self.topology, node, self.down)
        return self._routes[node]

    def _hang_up(self) -> list[Way] | None:
        parent, link = routes(self.topology, 0)
        ways = []
        for node in self.topology.members:
            nodes = [node]
            while parent[nodes[-1]] >= 0 and len(nodes) <= DEPTH_MAX:
                nodes.append(parent[nodes[-1]])
            if nodes[-1] != 0:
                return None  # too deep, or as many links as a tree has, but not connected
            del nodes[-1]
            up = [self.directed(link[n], parent[n]) for n in nodes]
            down = [self.directed(link[n], n) for n in nodes]
            latencies = [self.topology.links[link[n]].latency for n in nodes]
            ways.append(Way(nodes[::-1], up, down[::-1], latencies, latencies[::-1]))
        return ways

    def _find_path(self, source: int, target: int) -> list[int] | None:
        if self.ways is None:
            return self._build_path(self.topology.members[source], self.topology.members[target])
        one, other = self.ways[source], self.ways[target]
        common = shared(one, other)
        path = one.up[: len(one.up) - common] + other.down[common:]
        return None if self.down and any(link // 2 in self.down for link in path) else path

    def _build_path(self, end: int, node: int) -> list[int] | None:
        parent_node, parent_link = self._from(end)
        links = []
        while node != end:
            if parent_link[node] < 0:
                return None
            links.append(self.directed(parent_link[node], node))
            node = parent_node[node]
        return links[::-1]

    def _build_tree(self, source: int, hops: int, nodes: Sequence[int]) -> Tree:
        parent_node, parent_link = self._from(source)
        children: dict[int, list[int]] = {}
        wanted = {source}
        for node in nodes:  # walk up from each member that is meant: nodes that lead to none are pruned
            if (hops and self._depth(node, parent_node) > hops) or self._member_at[node] in self.deaf:
                continue
            while node not in wanted and parent_link[node] >= 0:
                wanted.add(node)
                children.setdefault(parent_node[node], []).append(node)
                node = parent_node[node]
        tree = Tree()
        self._preorder(tree, source, children, parent_link, set(nodes))
        tree.scratch = [0.0] * len(tree.links)
        return tree

    @staticmethod
    def _depth(node: int, parent_node: list[int]) -> int:
        depth = 0
        while parent_node[node] >= 0:
            node = parent_node[node]
            depth += 1
        return depth

    def _preorder(
        self, tree: Tree, source: int, children: dict[int, list[int]], parent_link: list[int], meant: set[int]
    ) -> None:
        stack = [(child, 0) for child in reversed(children.get(source, []))]
        while stack:
            node, parent = stack.pop()
            if node < 0:  # everything below position `parent` is done
                tree.ends[parent] = len(tree.links)
                continue
            position = len(tree.links)
            link = self.topology.links[parent_link[node]]
            tree.links.append(self.directed(parent_link[node], node))
            tree.parents.append(parent)
            tree.latencies.append(link.latency)
            tree.seconds_per_byte.append(8.0 / link.bandwidth if link.bandwidth else 0.0)
            tree.ends.append(0)
            if node in meant and self._member_at[node] not in self.deaf:
                tree.receivers.append((position, self._member_at[node]))
            stack.append((-1, position))
            stack.extend((child, position) for child in reversed(children.get(node, [])))
        tree.ends[0] = len(tree.links)
