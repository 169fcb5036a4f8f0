"""An experiment file: a base scenario, a grid over its keys, what to measure, what to plot, and what is claimed.

`load` returns checked `Experiment`s or raises `SettingError` with one line that names the file and the key. A file with
`include` is a collection: its own title and text, and the experiments of the files that it lists.

A **variant** is a name for several settings that go together (a protocol and its numbers); a grid has one point per
variant and combination of values. A **claim** is a sentence of a paper and a query that yields, for every case and
seed, the `margin` by which it is true; see `claims`.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gossamer.core.schema import SettingError, build, setting

SHIPPED = Path(__file__).parents[2] / "experiments"
"""Experiments that come with this package."""
TRACES = ("none", "first", "all")
PLOTS = ("line", "bars")
RUNS = ("simulation", "channels")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A name for settings that go together."""

    name: str = setting("", "What the legend calls it.")
    set: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One figure: its query yields `series, x, y` and, if known, `low` and `high`."""

    name: str = setting("", "The name of the plot's file.")
    title: str = setting("", "The caption.")
    kind: str = setting("line", "The kind of plot.", choices=PLOTS)
    sql: str = setting("", "A query that yields series, x, y and optionally low, high.")
    xlabel: str = setting("", "The label of the x axis.")
    ylabel: str = setting("", "The label of the y axis.")
    xlog: bool = setting(False, "Logarithmic x axis.")
    ylog: bool = setting(False, "Logarithmic y axis.")
    note: str = setting("", "What to look for in the plot.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence that runs can refute."""

    name: str = setting("", "A short name.")
    says: str = setting("", "The sentence.")
    place: str = setting("", "Where the paper says it.")
    sql: str = setting("", "A query that yields `margin` for each `item` and seed: at least 0 where the claim is true.")
    exact: bool = setting(False, "The margin is computed, not sampled: one row decides.")
    paper: str = setting("", "The paper's own number, where it gives one.")
    finding: str = setting("", "If the claim does not hold: by how much, and why we think that is.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One question, answered by many runs."""

    name: str = setting("", "A short name: letters, digits and dashes.")
    title: str = setting("", "The heading.")
    place: str = setting("", "Where the paper asks it.")
    question: str = setting("", "What is asked.")
    answer: str = setting("", "What a reader should know about how we ask it, and where we differ.")
    kind: str = setting("simulation", "What a run does: simulates, or maps demand to channels.", choices=RUNS)
    seeds: int = setting(5, "Runs per point.", low=1, high=1_000_000)
    traces: str = setting("none", "Which runs keep a trace: none, the first seed's, or all.", choices=TRACES)
    check: bool = setting(False, "Check every run against the specifications.")
    time_limit: float = setting(300.0, "How long a run may take before it is aborted.", unit="s", above=0)
    memory_limit: int = setting(4096, "How much memory a run may use before it is aborted.", unit="MiB", low=64)
    analysis: tuple[str, ...] = setting((), "Tables of predictions that the queries may use.")
    metrics: tuple[str, ...] = setting((), "Metrics to compute from the traces.")
    draw: str = setting("", "A generator that draws the scenario from the seed; there is no grid then.")
    scenario: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    variant: tuple[Variant, ...] = ()
    plot: tuple[Plot, ...] = ()
    claim: tuple[Claim, ...] = ()
    folder: str = setting(".", "Where relative paths start.")


@dataclass(frozen=True, slots=True)
class Collection:
    """What one command runs: experiments, with a title and a text."""

    name: str
    title: str
    text: str
    experiments: tuple[Experiment, ...]
    sources: dict[str, str]
    """The files it was read from, by name; a run directory keeps copies of them."""


def load(path: Path) -> Collection:
    """Read an experiment file, or a collection of them."""
    text = _read(path)
    table = _toml(path, text)
    included = table.pop("include", None)
    if included is None:
        experiment = _experiment(path, table)
        return Collection(experiment.name, experiment.title, "", (experiment,), {path.name: text})
    unknown = sorted(set(table) - {"name", "title", "text"})
    if unknown:
        raise SettingError(f"{path}: unknown key {unknown[0]}; a collection has name, title, text and include")
    if not isinstance(included, list) or not all(isinstance(name, str) for name in included):
        raise SettingError(f"{path}: include = {included!r}: must be a list of files")
    sources = {path.name: text}
    experiments = []
    for name in included:
        sources[name] = _read(path.parent / name)
        experiments.append(_experiment(path.parent / name, _toml(path.parent / name, sources[name])))
    names = [experiment.name for experiment in experiments]
    if len(set(names)) != len(names):
        raise SettingError(f"{path}: two experiments have the same name; names are {', '.join(names)}")
    name = str(table.get("name", path.stem))
    return Collection(name, str(table.get("title", name)), str(table.get("text", "")), tuple(experiments), sources)


def folder_here() -> Path:
    """The folder `experiments` if there is one here, else the one that comes with this package."""
    here = Path("experiments")
    return here if here.is_dir() else SHIPPED


def find(name: str, folder: Path | None = None) -> Path:
    """The file of an experiment: a path as given, or a bare name looked up in a folder of experiments."""
    folder = folder or folder_here()
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        return path
    for found in sorted(folder.rglob("*.toml")):
        if found.stem == name:
            return found
    known = sorted({found.stem for found in folder.rglob("*.toml")})
    raise SettingError(f"no experiment {name!r}; give a .toml file, or one of: {', '.join(known) or 'none here'}")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise SettingError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingError(f"{path}: not valid TOML: {error}") from None


def _toml(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{path}: not valid TOML: {error}") from None


def _experiment(path: Path, table: Mapping[str, Any]) -> Experiment:
    try:
        table = {"name": path.stem, **table, "folder": str(path.parent)}
        for key, cls in (("variant", Variant), ("plot", Plot), ("claim", Claim)):
            table[key] = tuple(_parts(table, key, cls))
        experiment = build(Experiment, table)
        _check(experiment)
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from None
    return experiment


def _parts(table: Mapping[str, Any], key: str, cls: type[Any]) -> list[Any]:
    parts = table.get(key, [])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise SettingError(f"{key}: must be a list of tables, each headed [[{key}]]")
    return [build(cls, part, f"{key}[{i}]") for i, part in enumerate(parts)]


def _check(experiment: Experiment) -> None:
    if not experiment.name.replace("-", "").isalnum():
        raise SettingError(f"name = {experiment.name!r}: may only have letters, digits and dashes")
    for key, values in experiment.grid.items():
        if not isinstance(values, list) or not values:
            raise SettingError(f"grid.{key} = {values!r}: must be a list of at least one value")
    for i, plot in enumerate(experiment.plot):
        if not plot.name or not plot.sql:
            raise SettingError(f"plot[{i}]: needs a name and sql")
    for i, claim in enumerate(experiment.claim):
        if not claim.says or not claim.sql:
            raise SettingError(f"claim[{i}]: needs says and sql")
    if experiment.metrics and experiment.traces == "none":
        raise SettingError('metrics: come from traces; set traces = "first" or "all"')
