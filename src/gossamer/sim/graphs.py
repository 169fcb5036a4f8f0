"""Propagation graphs of random channels: how deep, how many extra nodes, how much load (002 §4.1, Graphs 1 to 5).

As in the paper: of so many members, so many channels of a size are drawn uniformly, and each channel gets one message.
For comparison, the load of the other two methods in the same channels: with a central order one member gets every
message and sends it to all others of its channel; with two phases every member of a channel gets the message and its
final number, and sends one of its own (the source, which sends to all and hears from all, is not counted).
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from gossamer.ordering.graph import Graph, Listeners, balanced, greedy

METHODS: dict[str, Callable[[Listeners], Graph]] = {"greedy": greedy, "balanced": balanced}


class Measured(NamedTuple):
    """One set of channels: means over channels, and the highest load of any member, by method."""

    depth: dict[str, float]
    extra: dict[str, float]
    load: dict[str, int]


def draw(members: int, channels: int, size: float, rng: Random, exponential: bool = False) -> Listeners:
    """Channels with random listeners, of one size or of sizes with that mean."""
    found = {}
    for channel in range(channels):
        wanted = max(2, round(rng.expovariate(1 / size))) if exponential else int(size)
        found[channel] = rng.sample(range(members), min(members, wanted))
    return found


def measure(listeners: Listeners) -> Measured:
    """What these channels cost."""
    graphs = {method: make(listeners) for method, make in METHODS.items()}
    count = len(listeners)
    load = {method: max(graph.load.values()) for method, graph in graphs.items()}
    heard = Counter(member for members in listeners.values() for member in members)
    load["two-phase"] = 3 * max(heard.values())
    load["central"] = _central_load(listeners, heard)
    return Measured(
        {method: sum(map(graph.depth, listeners)) / count for method, graph in graphs.items()},
        {method: sum(len(graph.extra(c)) for c in listeners) / count for method, graph in graphs.items()},
        load,
    )


def _central_load(listeners: Listeners, heard: Counter[int]) -> int:
    """The central member is one of those in most channels; it sends to all others of each channel."""
    center = min(heard, key=lambda member: (-heard[member], member))
    return sum(1 + len(members) - (center in members) for members in listeners.values())
