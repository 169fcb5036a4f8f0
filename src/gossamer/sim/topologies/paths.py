"""Shortest paths by latency: what a multicast or unicast from one node crosses."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gossamer.sim.topologies.graph import Topology


def routes(topology: Topology, source_node: int, down: frozenset[int] = frozenset()) -> tuple[list[int], list[int]]:
    """The shortest-path tree from a node over the links whose index is not in `down`.

    Returns, for every node, its parent in the tree and the index of the link to it; both are -1 for
    the source and for what it cannot reach. Which of several equally short paths is taken is scipy's
    choice: a function of the links alone, the same in every process.

    One C call per source: at 5,461 nodes about six times faster than heapq.
    """
    assert 0 <= source_node < topology.nodes, source_node
    predecessors = _predecessors(topology, down)(source_node)
    reached = predecessors >= 0
    nodes = np.flatnonzero(reached)
    parents = predecessors[nodes].astype(np.int64)
    keys, order = _link_keys(topology)
    parent_link = np.full(topology.nodes, -1, dtype=np.int64)
    parent_link[nodes] = order[np.searchsorted(keys, _key(parents, nodes, topology.nodes))]
    return np.where(reached, predecessors, -1).tolist(), parent_link.tolist()


@lru_cache(maxsize=4)
def _predecessors(topology: Topology, down: frozenset[int]) -> Callable[[int], NDArray[np.int32]]:
    """Dijkstra over a sparse matrix of the latencies. A latency of 0 is stored, so it counts as a link."""
    from scipy.sparse import csr_array  # here, because it takes a while to load
    from scipy.sparse.csgraph import dijkstra

    a, b, latency = _arrays(topology)
    assert all(0 <= link < len(a) for link in down), "no such link"
    up = np.ones(len(a), dtype=np.bool_)
    up[sorted(down)] = False
    a, b, latency = a[up], b[up], latency[up]
    ends = (np.concatenate((a, b)).astype(np.int32), np.concatenate((b, a)).astype(np.int32))
    matrix = csr_array((np.concatenate((latency, latency)), ends), shape=(topology.nodes, topology.nodes))

    def predecessors(source: int) -> NDArray[np.int32]:
        found: NDArray[np.int32] = dijkstra(matrix, indices=source, return_predecessors=True)[1]
        return found

    return predecessors


@lru_cache(maxsize=4)
def _link_keys(topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The links' keys, sorted, and the index of the link that has each."""
    a, b, _ = _arrays(topology)
    keys = _key(a, b, topology.nodes)
    order = np.argsort(keys)
    return keys[order], order


@lru_cache(maxsize=4)
def _arrays(topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    links = topology.links
    return (
        np.array([link.a for link in links], dtype=np.int64),
        np.array([link.b for link in links], dtype=np.int64),
        np.array([link.latency for link in links], dtype=np.float64),
    )


def _key(a: NDArray[np.int64], b: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """One number per pair of nodes, whichever comes first."""
    return np.minimum(a, b) * nodes + np.maximum(a, b)
