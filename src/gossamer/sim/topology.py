"""Networks for the simulator: nodes, links between them, and where the members live.

A topology is a value. Generators are pure functions of their arguments and, for the random kinds,
of a `random.Random`; the same arguments and seed give the same topology in any process. A wrong
argument or file raises `TopologyError`, whose message says what is allowed.

Generators number nodes so that those with close numbers are close in the network, and write every
link with `a < b`. Routing is in `routes`: the shortest-path tree, by latency, from one node.
"""

from gossamer.sim.topologies.edge_list import from_file
from gossamer.sim.topologies.graph import LINKS_MAX, Link, Topology, TopologyError, with_slow_members
from gossamer.sim.topologies.hierarchical import tiers, transit_stub
from gossamer.sim.topologies.paths import routes
from gossamer.sim.topologies.regular import lan, mesh, star, tree

__all__ = [
    "LINKS_MAX",
    "Link",
    "Topology",
    "TopologyError",
    "from_file",
    "lan",
    "mesh",
    "routes",
    "star",
    "tiers",
    "transit_stub",
    "tree",
    "with_slow_members",
]
