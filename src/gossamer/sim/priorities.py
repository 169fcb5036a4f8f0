"""Priority lists from the simulated network itself (001 §4.2, §5.1), and what a coordinator tree costs there."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from random import Random

from gossamer.repair.priority_lists import Distance, arbitrary, sdf, tree_cost
from gossamer.sim.routing import Router
from gossamer.sim.scenario import Scenario
from gossamer.sim.topology import Topology

_PACKET_BITS = 8 * 1500
_UNREACHED = 1e9


def with_lists(scenario: Scenario, topology: Topology) -> Scenario:
    """The scenario with the lists that it asks for; the source is member 0."""
    priority, members = scenario.protocol.priority, range(len(topology.members))
    if priority == "measured" or scenario.protocol.lists:
        return scenario
    if priority == "sdf":
        lists = sdf(members, 0, distances(topology))
    else:
        rng = Random(f"{scenario.seed}/lists")
        lists = arbitrary([*rng.sample(members[1:], len(members) - 1), 0], rng)
    given = tuple(tuple(lists[member]) for member in members)
    return replace(scenario, protocol=replace(scenario.protocol, lists=given))


def distances(topology: Topology) -> Distance:
    """How far members are from each other: the sum of the costs of the links between them (001 §5.1)."""
    router = Router(topology)

    @cache
    def distance(one: int, other: int) -> float:
        path = router.path(min(one, other), max(one, other))
        return _UNREACHED if path is None else sum(_cost(topology, link) for link in path)

    return distance


def cost_of(parents: Mapping[int, int], topology: Topology) -> dict[str, float]:
    """What a tree costs, and how far its coordinator is from the source (001 §5.1); of several trees, the largest."""
    distance = distances(topology)
    roots = [member for member, parent in parents.items() if member == parent]
    below = {root: sum(_root(parents, member) == root for member in parents) for root in roots}
    if not roots:
        return {"tree_cost": 0.0, "root_distance": 0.0}
    root = max(roots, key=lambda r: below[r])
    inside = {member: parent for member, parent in parents.items() if _root(parents, member) == root}
    return {"tree_cost": tree_cost(inside, distance), "root_distance": distance(root, 0)}


def _root(parents: Mapping[int, int], member: int) -> int:
    for _ in parents:
        member = parents.get(member, member)
    return member


def _cost(topology: Topology, directed: int) -> float:
    """What it costs to use a link: the time that a full packet takes."""
    link = topology.links[directed // 2]
    return link.latency + (_PACKET_BITS / link.bandwidth if link.bandwidth else 0.0)
