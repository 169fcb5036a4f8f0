"""From an experiment to its runs: one point per variant and combination of grid values, one run per point and seed.

A fault may give its members as a share, `members = "last 25%"` or `"last 1"`, since a grid over the group size could
not list them one by one.
"""

import copy
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gossamer.core.schema import SettingError
from gossamer.pipeline.experiments.files import Experiment
from gossamer.pipeline.experiments.kinds import KINDS

DRAWN: dict[str, Callable[[int], dict[str, Any]]] = {}
"""Generators of scenarios from a seed, by name; `campaign` adds its own."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run to do: all that an executor needs to know."""

    run: str  # experiment.point/seed, as in the trace
    experiment: str
    seed: int
    point: dict[str, Any]  # the grid's values, by column
    scenario: dict[str, Any]
    folder: str
    traced: bool
    check: bool
    time_limit: float
    memory_limit: int
    cost: float
    kind: str = "simulation"


def column(experiment: Experiment, key: str) -> str:
    """The name of a grid key in the tables: as given in `names`, else its last part."""
    return experiment.names.get(key, "protocol" if key == "protocol.name" else key.rsplit(".", 1)[-1])


def columns(experiment: Experiment) -> list[str]:
    """The columns that distinguish the points of this experiment."""
    return [*(["variant"] if experiment.variant else []), *(column(experiment, key) for key in experiment.grid)]


def runs(experiment: Experiment, seeds: int | None = None) -> list[Run]:
    """Every run of an experiment; SettingError for an invalid key or value in the grid."""
    count = seeds or experiment.seeds
    if experiment.draw:
        return [_drawn(experiment, seed) for seed in range(1, count + 1)]
    return [
        _run(experiment, index, point, table, seed)
        for index, (point, table) in enumerate(points(experiment))
        for seed in range(1, count + 1)
    ]


def points(experiment: Experiment) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every point: its columns, and its scenario as a plain table, checked."""
    variants = experiment.variant or (None,)
    for variant, *values in itertools.product(variants, *experiment.grid.values()):
        table = copy.deepcopy(experiment.scenario)
        point: dict[str, Any] = {}
        if variant is not None:
            point["variant"] = variant.name
            for key, value in variant.set.items():
                put(table, key, value)
        for key, value in zip(experiment.grid, values, strict=True):
            point[column(experiment, key)] = value
            put(table, key, value)
        name_members(table)
        try:
            KINDS[experiment.kind].parse(table, experiment.folder)
        except SettingError as error:
            raise SettingError(f"experiment {experiment.name}, point {point}: {error}") from None
        yield point, table


def put(table: dict[str, Any], key: str, value: Any) -> None:
    """Set `a.b` or `fault.0.probability` in a plain table."""
    at: Any = table
    *sections, last = key.split(".")
    for section, following in zip(sections, [*sections, last][1:], strict=True):
        if isinstance(at, list):
            if not section.isdigit() or int(section) >= len(at):
                raise SettingError(f"unknown key {key}: there is no entry {section} in the scenario")
            at = at[int(section)]
        else:
            at = at.setdefault(section, [] if following.isdigit() else {})
        if not isinstance(at, dict | list):
            raise SettingError(f"unknown key {key}: {section} is not a table")
    if isinstance(at, list):
        raise SettingError(f"unknown key {key}: give a key of one [[fault]], like fault.0.probability")
    at[last] = copy.deepcopy(value)


def name_members(table: dict[str, Any]) -> None:
    """Turn "last 25%" into the numbers of those members."""
    for fault in table.get("fault", []):
        share = re.fullmatch(r"last (\d+)(%?)", str(fault.get("members", "")))
        if share is not None:
            members = int(table.get("topology", {}).get("members", 0))
            count = round(members * int(share[1]) / 100) if share[2] else int(share[1])
            fault["members"] = list(range(members - count, members))


def _run(experiment: Experiment, index: int, point: dict[str, Any], table: Mapping[str, Any], seed: int) -> Run:
    table = {**table, "name": f"{experiment.name}.{index}", "seed": seed}
    traced = experiment.traces == "all" or (experiment.traces == "first" and seed == 1)
    kind = KINDS[experiment.kind]
    todo = kind.parse(table, experiment.folder)
    return Run(
        run=f"{todo.name}/{seed}",
        experiment=experiment.name,
        seed=seed,
        point=point,
        scenario=table,
        folder=experiment.folder,
        traced=traced,
        check=experiment.check,
        time_limit=experiment.time_limit,
        memory_limit=experiment.memory_limit,
        cost=kind.cost(todo, traced or experiment.check),
        kind=experiment.kind,
    )


def _drawn(experiment: Experiment, seed: int) -> Run:
    if experiment.draw not in DRAWN:
        raise SettingError(f"experiment {experiment.name}: draw = {experiment.draw!r}: must be {', '.join(DRAWN)}")
    table = DRAWN[experiment.draw](seed)
    return _run(experiment, 0, {"protocol": table["protocol"]["name"]}, table, seed)


def fingerprint(experiment: Experiment) -> str:
    """A hash of what determines the runs of an experiment: equal fingerprints mean equal runs, except their number."""
    variants = [(variant.name, variant.set) for variant in experiment.variant]
    decides = [experiment.scenario, experiment.grid, variants, experiment.names, experiment.draw, experiment.traces]
    if experiment.kind != "simulation":
        decides.append(experiment.kind)
    return hashlib.blake2b(json.dumps(decides, sort_keys=True).encode(), digest_size=8).hexdigest()


def dumps(point: Mapping[str, Any]) -> dict[str, str]:
    """Convert the values of a point to strings, for a column of one type."""
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in point.items()}
