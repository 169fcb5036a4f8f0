"""The graph itself: links, topologies, and the checks that every kind of topology shares."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gossamer.core.errors import Error

LINKS_MAX = 1_000_000
"""A topology has at most this many links: about half a gigabyte of them."""


class TopologyError(Error, ValueError):
    """An impossible topology: the message names the argument or file:line, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Link:
    """A bidirectional link between nodes `a` and `b`; each direction has all of the bandwidth."""

    a: int
    b: int
    latency: float
    """Seconds to cross it, one way."""
    loss: float
    """Probability that one crossing loses the packet, in [0, 1)."""
    bandwidth: float
    """Bits per second; 0 means unlimited."""


@dataclass(frozen=True, slots=True)
class Topology:
    """A connected network, with at most one link between two nodes and one member on a node."""

    nodes: int
    links: tuple[Link, ...]
    members: tuple[int, ...]
    """`members[i]` is the node on which member i lives."""
    names: tuple[str, ...] = ()
    """The nodes' names where a file gave them, else empty."""

    def __post_init__(self) -> None:
        pairs = {(min(link.a, link.b), max(link.a, link.b)) for link in self.links}
        assert len(pairs) == len(self.links), "two links between the same nodes"
        assert all(0 <= a < b < self.nodes for a, b in pairs), "a link to itself or to no node"
        assert all(0 <= node < self.nodes for node in self.members), "a member on no node"
        assert len(set(self.members)) == len(self.members), "two members on one node"
        assert unreached(self.nodes, pairs) is None, "not connected"
        assert len(self.names) in (0, self.nodes), "names for some nodes only"

    def __hash__(self) -> int:
        """Cheap, for caches keyed by topology: the generated one visits every link on every call."""
        return hash((self.nodes, len(self.links), len(self.members)))


def with_slow_members(topology: Topology, slow: Sequence[int], bandwidth: float) -> Topology:
    """The same network, in which the links at the nodes of these members have this bandwidth."""
    members = topology.members
    if strangers := [member for member in slow if member >= len(members)]:
        raise TopologyError(f"slow names member {strangers[0]}: there are only 0 to {len(members) - 1}")
    nodes = {members[member] for member in slow}
    links = (replace(link, bandwidth=bandwidth) if {link.a, link.b} & nodes else link for link in topology.links)
    return replace(topology, links=tuple(links)) if slow else topology


def unreached(nodes: int, pairs: Iterable[tuple[int, int]]) -> int | None:
    """The first node that node 0 cannot reach, or None if the graph is connected."""
    neighbours: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in pairs:
        neighbours[a].append(b)
        neighbours[b].append(a)
    reached = bytearray(nodes)
    reached[0] = 1
    frontier = [0]
    while frontier:
        for node in neighbours[frontier.pop()]:
            if not reached[node]:
                reached[node] = 1
                frontier.append(node)
    first = reached.find(0)
    return None if first < 0 else first


def check_members(members: int) -> None:
    if not 2 <= members <= LINKS_MAX:
        raise TopologyError(f"members is {members}: must be 2 to {LINKS_MAX}")


def check_size(kind: str, links: int) -> None:
    if links > LINKS_MAX:
        raise TopologyError(f"this {kind} has {links} links: at most {LINKS_MAX} are allowed; use fewer members")


def check_link(latency: float, bandwidth: float, loss: float) -> None:
    for name, value, fault in (
        ("latency", latency, latency_fault(latency)),
        ("bandwidth", bandwidth, bandwidth_fault(bandwidth)),
        ("loss", loss, loss_fault(loss)),
    ):
        if fault:
            raise TopologyError(f"{name} is {value}: {fault}")


def latency_fault(latency: float) -> str:
    """What a latency must be, if this is not one; else an empty string. The two functions below do the same."""
    return "" if math.isfinite(latency) and latency >= 0 else "must be seconds >= 0"


def loss_fault(loss: float) -> str:
    return "" if 0 <= loss < 1 else "must be a probability in [0, 1)"


def bandwidth_fault(bandwidth: float) -> str:
    return "" if math.isfinite(bandwidth) and bandwidth >= 0 else "must be bits/s >= 0, where 0 is unlimited"
