"""Priority lists from the simulated network itself: the full knowledge of the topology that 001 §5.1 asks for."""

from dataclasses import replace
from functools import cache

from gossamer.repair.priority_lists import sdf
from gossamer.sim.routing import Router
from gossamer.sim.scenario import Scenario
from gossamer.sim.topology import Topology

_PACKET_BITS = 8 * 1500
_UNREACHED = 1e9


def with_lists(scenario: Scenario, topology: Topology) -> Scenario:
    """The scenario with the lists that its network gives, if it asks for them; the source is member 0."""
    if scenario.protocol.priority != "sdf" or scenario.protocol.lists:
        return scenario
    router = Router(topology)

    @cache
    def distance(one: int, other: int) -> float:
        path = router.path(min(one, other), max(one, other))
        return _UNREACHED if path is None else sum(_cost(topology, link) for link in path)

    lists = sdf(range(len(topology.members)), 0, distance)
    given = tuple(tuple(lists[member]) for member in range(len(topology.members)))
    return replace(scenario, protocol=replace(scenario.protocol, lists=given))


def _cost(topology: Topology, directed: int) -> float:
    """What it costs to use a link: the time that a full packet takes."""
    link = topology.links[directed // 2]
    return link.latency + (_PACKET_BITS / link.bandwidth if link.bandwidth else 0.0)
