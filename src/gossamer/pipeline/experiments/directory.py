"""A run directory: an experiment and all its results.

experiment/          the files it was read from        versions.json     what it was made with
results.parquet/     one row per run, a part per wave   traces/run=.../   traces, where they were asked for
metrics/*.parquet    tables from traces, and claims     figures/          SVG and PNG
report.html          the report
"""

import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer import __version__
from gossamer.pipeline.experiments.files import Collection, load
from gossamer.pipeline.experiments.grid import fingerprint
from gossamer.pipeline.session import PipelineError


class Directory:
    """One run directory, new or existing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results = path / "results.parquet"
        self.traces = path / "traces"
        self.metrics = path / "metrics"
        self.figures = path / "figures"
        self.report = path / "report.html"

    @classmethod
    def create(cls, path: Path, collection: Collection, arguments: Mapping[str, Any]) -> "Directory":
        """Make the directory of an experiment, or continue in it; PipelineError if it holds another experiment."""
        directory = cls(path)
        fingerprints = {experiment.name: fingerprint(experiment) for experiment in collection.experiments}
        if path.exists() and any(path.iterdir()):
            directory._check_same(fingerprints)
        for part in (directory.results, directory.traces, directory.metrics, directory.figures, path / "experiment"):
            part.mkdir(parents=True, exist_ok=True)
        for name, text in collection.sources.items():
            target = path / "experiment" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        entry = next(iter(collection.sources))
        facts = {"experiment": collection.name, "file": entry, "fingerprints": fingerprints, **arguments, **versions()}
        _write(path / "versions.json", json.dumps(facts, indent=2))
        return directory

    @classmethod
    def open(cls, path: Path) -> tuple["Directory", Collection]:
        """Open an existing directory; returns it and the experiment that it holds."""
        directory = cls(path)
        facts = directory.facts()
        return directory, load(path / "experiment" / str(facts["file"]))

    def facts(self) -> dict[str, Any]:
        """The experiment, arguments and versions that the run was made with."""
        try:
            found: dict[str, Any] = json.loads((self.path / "versions.json").read_text("utf-8"))
        except (OSError, ValueError):
            raise PipelineError(
                f"{self.path}: no experiment was run here; run one with: gossamer experiment run NAME --out {self.path}"
            ) from None
        return found

    def finished(self) -> set[str]:
        """The successful runs; those that failed are tried again when an experiment is continued."""
        return {row["run"] for row in self.rows(["run", "status"]) if row["status"] == "fine"}

    def rows(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """These columns of every row."""
        return [row for part in self.parts() for row in pq.read_table(part, columns=list(names)).to_pylist()]

    def parts(self) -> list[Path]:
        """The files of `results.parquet`."""
        return sorted(self.results.glob("part-*.parquet"))

    def add(self, table: pa.Table) -> None:
        """Add rows: a new part, which appears whole or not at all."""
        partial = self.results / f".{os.getpid()}.partial"
        pq.write_table(table, partial, compression="zstd")
        partial.rename(self.results / f"part-{len(self.parts()):05d}.parquet")

    def forget_metrics(self, experiment: str) -> None:
        """Remove the metrics of an experiment, because it has new runs."""
        for table in self.metrics.glob(f"{experiment}-*.parquet"):
            shutil.rmtree(table)

    def _check_same(self, fingerprints: Mapping[str, str]) -> None:
        """Check that what determines the runs is the same; texts, plots and claims may change."""
        if not (self.path / "versions.json").exists():
            raise PipelineError(f"--out {self.path}: not empty, and holds no experiment; give another directory")
        held = self.facts()["fingerprints"]
        changed = [name for name in fingerprints if held.get(name, fingerprints[name]) != fingerprints[name]]
        if changed:
            raise PipelineError(f"--out {self.path}: holds {changed[0]} with other settings; give another directory")
        if not set(held) & set(fingerprints):
            raise PipelineError(
                f"--out {self.path}: holds another experiment ({', '.join(held)}); give another directory"
            )


def versions() -> dict[str, str]:
    """The versions of everything that the numbers may depend on."""
    names = ("pyspark", "pyarrow", "numpy", "scipy", "matplotlib")
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return {"gossamer": __version__, "python": platform.python_version(), "platform": platform.platform(), **found}


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text, "utf-8")
    partial.rename(path)
