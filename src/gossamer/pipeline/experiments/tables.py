"""The tables that plots and claims are queries over.

For each experiment, these views:

- `results`: one row per run that went well, its grid columns typed, every number of the simulator beside them;
- the metrics that it asks for, each with the run's grid columns and seed;
- the predictions that it asks for (`analysis.py`), under their own names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gossamer.pipeline.experiments.analysis import TABLES
from gossamer.pipeline.experiments.directory import Directory
from gossamer.pipeline.experiments.files import Experiment
from gossamer.pipeline.experiments.grid import columns, points
from gossamer.pipeline.experiments.work import trace_path
from gossamer.pipeline.metrics import check_names, measure, read_traces
from gossamer.pipeline.session import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_queries(spark: SparkSession, experiment: Experiment) -> None:
    """Parse every query of the experiment; PipelineError names the one that is no SQL."""
    for what, part in [("plot", p) for p in experiment.plot] + [("claim", c) for c in experiment.claim]:
        problem = _problem(spark, part.sql)
        if problem:
            raise PipelineError(
                f"experiment {experiment.name}: {what} {part.name!r}: its SQL does not parse: {problem}"
            )
    check_names(experiment.metrics)
    for name in experiment.analysis:
        if name not in TABLES:
            raise PipelineError(f"experiment {experiment.name}: analysis: {name!r} must be one of {', '.join(TABLES)}")


def open_views(spark: SparkSession, experiment: Experiment, directory: Directory) -> None:
    """Make the views of one experiment, computing and keeping the metrics that are not there yet."""
    runs = run_table(spark, experiment, directory)
    runs.createOrReplaceTempView("results")
    for name in experiment.analysis:
        columns_of, rows = TABLES[name]()
        spark.createDataFrame(rows, columns_of).createOrReplaceTempView(name)
    told = runs.select("run", "seed", *_told_apart(experiment, runs.columns))
    for name, table in _metrics(spark, experiment, directory).items():
        table.join(told, "run").createOrReplaceTempView(name)


def run_table(spark: SparkSession, experiment: Experiment, directory: Directory) -> DataFrame:
    """The runs of an experiment that went well, with a typed column for each key of its grid."""
    parts = directory.parts()
    if not parts:
        raise PipelineError(f"{directory.path}: no run is finished yet; continue with gossamer experiment run")
    table = spark.read.parquet(*map(str, parts)).where(f"experiment = '{experiment.name}' and status = 'fine'")
    texts = set() if experiment.draw else _text_columns(experiment)
    for name in columns(experiment):
        if name not in table.columns:
            kind = "string" if name in texts else "double"
            table = table.selectExpr("*", f"cast(point['{name}'] as {kind}) as `{name}`")
    return table


def _told_apart(experiment: Experiment, known: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys([*columns(experiment), "members", "protocol"]) if name in known]


def _text_columns(experiment: Experiment) -> set[str]:
    """Grid columns with a value that is no number."""
    return {
        name
        for point, _ in points(experiment)
        for name, value in point.items()
        if isinstance(value, bool) or not isinstance(value, int | float)
    }


def _metrics(spark: SparkSession, experiment: Experiment, directory: Directory) -> dict[str, DataFrame]:
    """Each metric, computed once and kept as a Parquet table of the directory."""
    found: dict[str, DataFrame] = {}
    trace: Any = None
    for name in experiment.metrics:
        path = directory.metrics / f"{experiment.name}-{name}.parquet"
        if not (path / "_SUCCESS").exists():
            trace = trace if trace is not None else read_traces(spark, _traces(spark, experiment, directory))
            measure(spark, name, trace).write.mode("overwrite").parquet(str(path))
        found[name] = spark.read.parquet(str(path))
    return found


def _traces(spark: SparkSession, experiment: Experiment, directory: Directory) -> list[Any]:
    """The traces of the runs that went well: a run that failed may have left half of one."""
    runs = [row.run for row in run_table(spark, experiment, directory).select("run").collect()]
    return [path for path in (trace_path(directory.traces, run) for run in sorted(runs)) if path.exists()]


def _problem(spark: SparkSession, sql: str) -> str:
    from pyspark.errors import ParseException

    try:
        spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    except ParseException as error:
        return " ".join(str(error).split())[:200]
    return ""
