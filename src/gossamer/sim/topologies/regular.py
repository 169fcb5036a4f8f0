"""Topologies without randomness: one switch, a hub, a balanced tree, a full mesh."""

from itertools import pairwise

from gossamer.sim.topologies.graph import (
    LINKS_MAX,
    Link,
    Topology,
    TopologyError,
    check_link,
    check_members,
    check_size,
)


def lan(members: int, latency: float, bandwidth: float, loss: float) -> Topology:
    """Members on one switch; `latency` is one way between two members, so each link has half of it.

    `loss` is per link as everywhere: two members lose 1 - (1 - loss)² of what they send each other.
    """
    check_link(latency, bandwidth, loss)  # before it is halved: an error shows what was given
    return star(members, latency / 2, bandwidth, loss)


def star(members: int, latency: float, bandwidth: float, loss: float) -> Topology:
    """Member i on node i, with a link of `latency` to the hub, which is the last node."""
    check_members(members)
    check_link(latency, bandwidth, loss)
    links = tuple(Link(member, members, latency, loss, bandwidth) for member in range(members))
    return Topology(members + 1, links, tuple(range(members)))


def mesh(members: int, latency: float, bandwidth: float, loss: float) -> Topology:
    """Every two members have a link of their own."""
    check_members(members)
    check_size("mesh", members * (members - 1) // 2)
    check_link(latency, bandwidth, loss)
    links = tuple(Link(a, b, latency, loss, bandwidth) for a in range(members) for b in range(a + 1, members))
    return Topology(members, links, tuple(range(members)))


def tree(
    members: int | None, branching: int, depth: int | None, latency: float, bandwidth: float, loss: float
) -> Topology:
    """A balanced tree: member 0 at the root (node 0), the others at the leaves, from left to right.

    With `depth` there are branching**depth leaves. With `members` there are members - 1 leaves, on the
    smallest balanced tree that has this many, without the inner nodes that would have no leaf below.
    Nodes are numbered level by level.
    """
    check_link(latency, bandwidth, loss)
    leaves, depth = _leaves_and_depth(members, branching, depth)
    sizes = [leaves]  # of the levels, from the leaves up
    for _ in range(depth):
        sizes.append(-(-sizes[-1] // branching))
    sizes.reverse()
    assert sizes[0] == 1, "more than one root"
    check_size("tree", sum(sizes) - 1)
    links: list[Link] = []
    first = 0  # of the upper level
    for upper, lower in pairwise(sizes):
        links.extend(Link(first + j // branching, first + upper + j, latency, loss, bandwidth) for j in range(lower))
        first += upper
    return Topology(sum(sizes), tuple(links), (0, *range(first, first + leaves)))


def _leaves_and_depth(members: int | None, branching: int, depth: int | None) -> tuple[int, int]:
    if not 2 <= branching <= LINKS_MAX:
        raise TopologyError(f"branching is {branching}: must be 2 to {LINKS_MAX}")
    if members is not None:
        check_members(members)
    if depth is None:
        if members is None:
            raise TopologyError("a tree needs depth or members: neither is given")
        return members - 1, _depth_for(members - 1, branching)
    deepest = _depth_for(LINKS_MAX + 1, branching) - 1
    if not 1 <= depth <= deepest:
        raise TopologyError(f"depth is {depth}: must be 1 to {deepest} with branching {branching}")
    leaves = branching**depth
    if members not in (None, leaves + 1):
        raise TopologyError(
            f"members is {members}: branching {branching} and depth {depth} allow only {leaves + 1} "
            "(the leaves and the root); give depth or members, not both"
        )
    return leaves, depth


def _depth_for(leaves: int, branching: int) -> int:
    """The smallest depth, at least 1, at which a tree has this many leaves."""
    depth, room = 1, branching
    while room < leaves:
        depth, room = depth + 1, room * branching
    return depth
