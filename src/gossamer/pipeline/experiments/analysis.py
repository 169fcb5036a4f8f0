"""Predictions as tables, so that a figure can show analysis next to simulation, and a claim can compare the two."""

from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np

from gossamer.analysis import buffering, ordering
from gossamer.analysis.bimodal import latency_distribution, susceptible
from gossamer.analysis.convergence import expected_rounds, recurrence, rounds_needed, uniform_contact
from gossamer.sim import graphs

Table = tuple[str, list[tuple[Any, ...]]]
"""The columns, as Spark declares them, and the rows."""

MEMBERS = 100
"""000 Fig. 4-2."""
REACHED = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95)
FAILURES = (1e-6, 0.5, 0.1, 0.02)
BIMODAL_ROUNDS = 30


def convergence() -> Table:
    """Rounds until all of 100 members have a packet, by how many the first pass reached (000 Fig. 4-2)."""
    models = (("pull", "markov"), ("pull", "recurrence"), ("push", "recurrence"))
    rows = [
        (mechanism, model, float(reached), failure, float(rounds_needed(MEMBERS, reached, failure, mechanism, model)))
        for mechanism, model in models
        for reached in REACHED
        for failure in FAILURES
    ]
    return "mechanism string, model string, reached double, failure double, rounds double", rows


def convergence_mean() -> Table:
    """The expected number of rounds: for pull by the Markov chain, for push by the recurrence."""
    rows = [("pull", float(r), expected_rounds(MEMBERS, r)) for r in REACHED]
    rows += [("push", float(r), _expected_push(r)) for r in REACHED]
    return "mechanism string, reached double, rounds double", rows


def _expected_push(reached: int, rounds: int = 60) -> float:
    """The expected number of rounds of push: the sum over k of the chance that k rounds are not enough."""
    initial = np.where(np.arange(MEMBERS) < reached, 1.0, 0.0)
    have = recurrence(uniform_contact(MEMBERS), initial, rounds, "push")
    return float((1.0 - have.prod(axis=1)).sum())


def bimodal_susceptible() -> Table:
    """How many of 1,000 members lack a packet after each round (004 Fig. 5)."""
    rows = [
        (float(reached), k, float(left))
        for reached in (1, 900)
        for k, left in enumerate(susceptible(1000, BIMODAL_ROUNDS, crash=0.0, reached=reached))
    ]
    return "reached double, round int, susceptible double", rows


def bimodal_latency() -> Table:
    """The chance that a member gets a packet in a given round, when gossip is the only way (004 Fig. 6)."""
    rows = [
        (float(n), k, float(chance))
        for n in (16, 128, 1024)
        for k, chance in enumerate(latency_distribution(n, BIMODAL_ROUNDS, crash=0.0))
    ]
    return "members double, round int, probability double", rows


def buffering_failure() -> Table:
    """The chance that somebody lacks a packet that no bufferer has, in groups of 50 (003 §3 eq. 3)."""
    rows = [(50.0, float(c), p, buffering.failure(50, c, p)) for c in (1, 2, 3, 4) for p in (0.02, 0.1)]
    return "members double, bufferers double, loss double, failure double", rows


def buffering_copies() -> Table:
    """The bufferers that 100 members need, by the loss of a link and the links to a receiver (003 §3, §6)."""
    rows = [
        (link, links, buffering.copies_needed(100, 1e-3, 1.0 - (1.0 - link) ** links))
        for link in (0.001, 0.005, 0.01, 0.015)
        for links in range(1, 15)
    ]
    return "link double, links int, copies int", rows


GRAPH_RUNS = 30
"""Sets of channels that are drawn for each point of 002 Graphs 1 to 5; three times as many where they are few."""


@lru_cache(maxsize=1)
def propagation_graphs() -> Table:
    """Depth, extra nodes and the highest load in random channels, by method (002 Graphs 1 to 5)."""
    fixed = [
        (members, channels, 5, False) for members in (20, 50, 100, 200, 400, 1000) for channels in (10, 20, 30, 40)
    ]
    fixed += [(200, channels, size, False) for size in (10, 20, 30, 40) for channels in (10, 20, 30, 40)]
    drawn = [(members, channels, 5, True) for members in (20, 100, 200, 1000) for channels in (20, 40)]
    rows = [row for point in fixed + drawn for row in _graph_rows(*point)]
    columns = "members int, channels int, size int, sizes string, seed int, method string, depth double, extra double"
    return f"{columns}, max_load double", rows


def _graph_rows(members: int, channels: int, size: int, exponential: bool) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for seed in range(1, GRAPH_RUNS * (3 if channels == 10 else 1) + 1):
        rng = Random(f"graphs/{members}/{channels}/{size}/{exponential}/{seed}")
        found = graphs.measure(graphs.draw(members, channels, size, rng, exponential))
        point = members, channels, size, "exponential" if exponential else "fixed", seed
        for method, load in found.load.items():
            rows.append((*point, method, found.depth.get(method, 1.0), found.extra.get(method, 0.0), float(load)))
    return rows


def order_costs() -> Table:
    """Messages for one packet to n members, and when the last may deliver it, in units of L (002 Tables 1 and 2)."""
    rows = []
    for method in ordering.METHODS:
        for n in (4, 8, 16, 32):
            one, all_ = ordering.point_to_point(method, n, 1.0, 0.01), ordering.broadcast(method, n, 1.0)
            rows.append((method, n, float(one.messages), one.delay_s, float(all_.messages), all_.delay_s))
    return "method string, n int, messages double, delay double, broadcasts double, broadcast_delay double", rows


TABLES: dict[str, Callable[[], Table]] = {
    "convergence": convergence,
    "convergence_mean": convergence_mean,
    "bimodal_susceptible": bimodal_susceptible,
    "bimodal_latency": bimodal_latency,
    "buffering_failure": buffering_failure,
    "buffering_copies": buffering_copies,
    "propagation_graphs": propagation_graphs,
    "order_costs": order_costs,
}
