"""An experiment from beginning to end: check it, do its runs, measure, judge the claims, draw the figures.

The outcome is data: verdicts in `claims.json`, the points of every figure in `metrics/`. The report is made from these
alone and needs no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from gossamer.pipeline.experiments import campaign, claims, figures, tables
from gossamer.pipeline.experiments.directory import Directory
from gossamer.pipeline.experiments.files import Collection, Experiment, Plot
from gossamer.pipeline.experiments.grid import Run, runs
from gossamer.pipeline.experiments.runner import TellProgress, run_all
from gossamer.pipeline.session import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a study."""

    verdicts: list[claims.Verdict]
    planned: int
    failed: list[dict[str, Any]]
    violations: list[dict[str, Any]]

    @property
    def bad(self) -> bool:
        """Whether a run failed or a specification was violated; a claim that fails is a finding, for the report."""
        return bool(self.failed or self.violations)

    def as_dict(self) -> dict[str, Any]:
        """Convert to plain data, as in `claims.json`."""
        verdicts = [verdict.as_dict() for verdict in self.verdicts]
        return {"runs": self.planned, "verdicts": verdicts, "failed": self.failed, "violations": self.violations}


def plan(collection: Collection, seeds: int | None = None) -> list[Run]:
    """Every run of a collection; SettingError if a grid is invalid."""
    return [run for experiment in collection.experiments for run in runs(experiment, seeds)]


def conduct(
    spark: SparkSession,
    collection: Collection,
    directory: Directory,
    seeds: int | None = None,
    report: TellProgress | None = None,
    say: Say | None = None,
) -> Outcome:
    """Run, measure and judge every experiment; runs that are done already are not repeated."""
    for experiment in collection.experiments:
        tables.check_queries(spark, experiment)
    planned = plan(collection, seeds)
    finished = directory.finished()
    for name in {run.experiment for run in planned if run.run not in finished}:
        directory.forget_metrics(name)
    run_all(spark, planned, directory, report)
    verdicts = []
    for experiment in collection.experiments:
        if say is not None:
            say(f"measuring and plotting {experiment.name}")
        verdicts += evaluate(spark, experiment, directory)
    outcome = Outcome(verdicts, len(planned), unfinished(directory), campaign.violations(directory, planned))
    (directory.path / "claims.json").write_text(json.dumps(outcome.as_dict(), indent=1), "utf-8")
    return outcome


def evaluate(spark: SparkSession, experiment: Experiment, directory: Directory) -> list[claims.Verdict]:
    """Draw the figures of one experiment and return its verdicts, from the rows and traces that are there."""
    runs = tables.run_table(spark, experiment, directory).coalesce(1).cache()  # many small files, read many times
    try:
        if runs.isEmpty():
            return [claims.nothing(experiment, claim) for claim in experiment.claim]
        tables.open_views(spark, experiment, directory, runs)
        for plot in experiment.plot:
            points = _points(spark, experiment, plot, directory)
            if points:  # a plot of runs that all failed has none
                figures.draw(plot, points, directory.figures / plot.name)
        return [claims.judge(spark, experiment, claim) for claim in experiment.claim]
    finally:
        runs.unpersist()


def unfinished(directory: Directory) -> list[dict[str, Any]]:
    """The runs that failed and did not succeed later either, each with its last reason."""
    rows = directory.rows(["run", "experiment", "status", "reason", "attempts"])
    last = {row["run"]: row for row in rows if row["status"] != "fine"}
    fine = directory.finished()
    return [row for run, row in last.items() if run not in fine]


def _points(spark: SparkSession, experiment: Experiment, plot: Plot, directory: Directory) -> list[dict[str, Any]]:
    from pyspark.errors import PySparkException

    try:
        table = spark.sql(plot.sql).toArrow()
    except PySparkException as error:
        says = " ".join(str(error).split())[:300]
        raise PipelineError(f"experiment {experiment.name}: plot {plot.name!r}: {says}") from None
    pq.write_table(table, directory.metrics / f"plot-{plot.name}.parquet")
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
