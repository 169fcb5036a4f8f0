"""Where packets go: the multicast tree of each source and the path between any two members.

A multicast crosses each link of the shortest-path tree once. The tree is kept in preorder, so that
everything below a link is one contiguous range: a loss on a link is a loss of that range.
"""

from bisect import bisect_left

from gossamer.sim.topology import Topology, routes


class Tree:
    """One source's shortest-path tree, cut back to the branches that lead to members."""

    __slots__ = (
        "_delays",
        "_positions",
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
        self.ends: list[int] = [0]  # position behind everything below i
        self.receivers: list[tuple[int, int]] = []  # (position, member)
        self.scratch: list[float] = []  # arrival times, used anew by each multicast
        self._delays: list[tuple[float, list[int]]] = []
        self._positions: list[int] = []

    def delays(self) -> list[tuple[float, list[int]]]:
        """Members by how long a packet takes to them where bandwidth does not matter."""
        if not self._delays:
            times = [0.0] * len(self.links)
            for position in range(1, len(self.links)):
                times[position] = times[self.parents[position]] + self.latencies[position]
            groups: dict[float, list[int]] = {}
            for position, member in self.receivers:
                groups.setdefault(times[position], []).append(member)
            self._delays = list(groups.items())
        return self._delays

    def members_below(self, position: int) -> list[int]:
        """The members that a packet does not reach if it is lost on the way to `position`."""
        self._positions = self._positions or [p for p, _ in self.receivers]
        low = bisect_left(self._positions, position)
        high = bisect_left(self._positions, self.ends[position])
        return [member for _, member in self.receivers[low:high]]


class Router:
    """Trees and paths over the links that are up; forgets them all when a link is cut or mended."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.down: frozenset[int] = frozenset()
        self._member_at = {node: member for member, node in enumerate(topology.members)}
        self._routes: dict[int, tuple[list[int], list[int]]] = {}
        self._trees: dict[tuple[int, int], Tree] = {}
        self._paths: dict[tuple[int, int], list[int] | None] = {}

    def set_down(self, down: frozenset[int]) -> None:
        """These links (by index) do not work now; routing adapts at once."""
        self.down = down
        self._routes.clear()
        self._trees.clear()
        self._paths.clear()

    def find_link(self, a: int, b: int) -> int | None:
        """The index of the link between two nodes."""
        for index, link in enumerate(self.topology.links):
            if {link.a, link.b} == {a, b}:
                return index
        return None

    def tree(self, member: int, hops: int = 0) -> Tree:
        """The multicast tree of a member; only so many `hops` of it, if that is not 0."""
        if (member, hops) not in self._trees:
            self._trees[member, hops] = self._build_tree(self.topology.members[member], hops)
        return self._trees[member, hops]

    def path(self, source: int, target: int) -> list[int] | None:
        """The directed links from one member to another, in order; None if there is no way."""
        key = (source, target)
        if key not in self._paths:
            if len(self._paths) > 100_000:
                self._paths.clear()
            self._paths[key] = self._build_path(source, target)
        return self._paths[key]

    def directed(self, link: int, to_node: int) -> int:
        """Two directions, two numbers: 2*link towards its `b`, 2*link + 1 towards its `a`."""
        return 2 * link + (self.topology.links[link].a == to_node)

    def _from(self, node: int) -> tuple[list[int], list[int]]:
        if node not in self._routes:
            self._routes[node] = routes(self.topology, node, self.down)
        return self._routes[node]

    def _build_path(self, source: int, target: int) -> list[int] | None:
        parent_node, parent_link = self._from(self.topology.members[source])
        node = self.topology.members[target]
        end = self.topology.members[source]
        links = []
        while node != end:
            if parent_link[node] < 0:
                return None
            links.append(self.directed(parent_link[node], node))
            node = parent_node[node]
        return links[::-1]

    def _build_tree(self, source: int, hops: int) -> Tree:
        parent_node, parent_link = self._from(source)
        children: dict[int, list[int]] = {}
        wanted = {source}
        for node in self.topology.members:  # walk up from each member: what is not on a way to one is pruned
            if hops and self._depth(node, parent_node) > hops:
                continue
            while node not in wanted and parent_link[node] >= 0:
                wanted.add(node)
                children.setdefault(parent_node[node], []).append(node)
                node = parent_node[node]
        tree = Tree()
        self._preorder(tree, source, children, parent_link)
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
        self, tree: Tree, source: int, children: dict[int, list[int]], parent_link: list[int]
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
            if node in self._member_at:
                tree.receivers.append((position, self._member_at[node]))
            stack.append((-1, position))
            stack.extend((child, position) for child in reversed(children.get(node, [])))
        tree.ends[0] = len(tree.links)
