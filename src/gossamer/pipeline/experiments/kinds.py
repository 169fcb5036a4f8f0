"""What a run does: it simulates a scenario, or it maps a made-up demand to channels.

A kind checks the table of a run, estimates how long it takes, and does it, in a process of its own (`work`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.core.schema import build
from gossamer.pipeline.channels.change import cost_of
from gossamer.pipeline.channels.mapping import Case, find_map, hashed_map, numbered_like, one_channel
from gossamer.pipeline.channels.workload import Workload, demand, interests, subject_names
from gossamer.pubsub.channel_map import ChannelMap
from gossamer.sim.checked import traced
from gossamer.sim.run import simulate
from gossamer.sim.scenario import Scenario, parse

SECONDS_PER_DELIVERY = 25e-6
SECONDS_PER_GOSSIP = 40e-6
SECONDS_PER_SUBJECT = 4e-4
TRACED_FACTOR = 1.6
"""An estimate of what a run costs, good enough to balance the work and to say how much is left."""

Progress = Callable[[float], None]


class Kind(NamedTuple):
    """One kind of runs."""

    parse: Callable[[Mapping[str, Any], str], Any]
    """From a plain table, and the folder where its paths start, to what is to be done; SettingError if it is wrong."""
    cost: Callable[[Any, bool], float]
    """About how many seconds it takes, traced or not."""
    do: Callable[[Any, Path | None, bool, Progress], Mapping[str, Any]]
    """Do it, with a trace at this path if there is one, checked or not; returns the numbers of `result_rows`."""


def scenario_cost(scenario: Scenario, traced: bool) -> float:
    """Estimate how many seconds a simulation takes."""
    deliveries = scenario.duration * scenario.traffic.rate * max(scenario.topology.members, 8)
    gossips = scenario.duration * scenario.topology.members / scenario.protocol.gossip_period
    seconds = deliveries * SECONDS_PER_DELIVERY + gossips * SECONDS_PER_GOSSIP
    return 0.02 + seconds * (TRACED_FACTOR if traced else 1.0)


def _simulate(scenario: Scenario, trace: Path | None, check: bool, progress: Progress) -> Mapping[str, Any]:
    if trace is None:
        return traced(scenario, progress=progress) if check else simulate(scenario, progress=progress)
    trace.parent.mkdir(parents=True, exist_ok=True)
    return traced(scenario, trace, check=check, progress=progress)


def _parse_workload(table: Mapping[str, Any], folder: str) -> Workload:
    return build(Workload, table)


def _map_channels(load: Workload, trace: Path | None, check: bool, progress: Progress) -> Mapping[str, Any]:
    """Everything but Spark's part: the demand is drawn, not counted, and the greedy merge is the only start."""
    case = _case(load)
    found, told = find_map(case, load.channels, 1, lambda kinds, channels: {})
    outcome = case.with_channels(found)
    waste = {
        "wanted": float(outcome.wanted.sum()),
        "one": one_channel(case).waste,
        "hashed": hashed_map(case, load.channels).waste,
        "merged": told["waste"]["merge"]["start"],
        "mapped": outcome.waste,
        "rules": float(len(found.rules)),
        "map_bytes": float(len(found.to_bytes())),
    }
    change = _change(load, found) if load.drift else None
    return {"name": load.name, "members": load.members, "waste": waste, "change": change}


def _case(load: Workload, *, later: bool = False) -> Case:
    names, drawn = subject_names(load), demand(load, later=later)
    return Case.of(dict(zip(names, map(float, drawn.weights), strict=True)), interests(load, drawn))


def _change(load: Workload, before: ChannelMap) -> Mapping[str, float]:
    """What another map costs and saves, when some members want something else."""
    case = _case(load, later=True)
    found, _ = find_map(case, load.channels, 2, lambda kinds, channels: {})
    traffic = dict(zip(case.subjects, map(float, case.weights), strict=True))
    return cost_of(case, before, numbered_like(found, before, traffic))


KINDS: dict[str, Kind] = {
    "simulation": Kind(parse, scenario_cost, _simulate),
    "channels": Kind(_parse_workload, lambda load, _: 0.1 + load.subjects * SECONDS_PER_SUBJECT, _map_channels),
}
