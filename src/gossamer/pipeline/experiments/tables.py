"""The tables that plots and claims query.

Each experiment has these views:

- `results`: one row per successful run, with typed grid columns and every number of the simulator;
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
from gossamer.pipeline.experiments.result_rows import SCHEMA
from gossamer.pipeline.experiments.work import trace_path
from gossamer.pipeline.metrics import SCHEMA as TRACE_SCHEMA
from gossamer.pipeline.metrics import check_names, measure, read_traces
from gossamer.pipeline.session import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_queries(spark: SparkSession, experiment: Experiment) -> None:
    """Try every query on empty tables; PipelineError names one that is not valid SQL or asks for unknown names."""
    check_names(experiment.metrics)
    for name in experiment.analysis:
        if name not in TABLES:
            raise PipelineError(f"experiment {experiment.name}: analysis: {name!r} must be one of {', '.join(TABLES)}")
    runs = _typed(experiment, spark.createDataFrame(SCHEMA.empty_table()))
    trace = spark.createDataFrame([], TRACE_SCHEMA)
    _make_views(spark, experiment, runs, {name: measure(spark, name, trace) for name in experiment.metrics})
    for plot in experiment.plot:
        _check_query(spark, f"experiment {experiment.name}: plot {plot.name!r}", plot.sql, ("x", "y"))
    for claim in experiment.claim:
        _check_query(spark, f"experiment {experiment.name}: claim {claim.name!r}", claim.sql, ("margin",))


def open_views(spark: SparkSession, experiment: Experiment, directory: Directory, runs: DataFrame) -> None:
    """Make the views of one experiment, computing and storing the metrics that are not there yet."""
    _make_views(spark, experiment, runs, _metrics(spark, experiment, directory, runs))


def run_table(spark: SparkSession, experiment: Experiment, directory: Directory) -> DataFrame:
    """The successful runs of an experiment, with a typed column for each key of its grid."""
    parts = directory.parts()
    if not parts:
        raise PipelineError(f"{directory.path}: no run is finished yet; continue with gossamer experiment run")
    table = spark.read.parquet(*map(str, parts)).where(f"experiment = '{experiment.name}' and status = 'fine'")
    return _typed(experiment, table)


def _typed(experiment: Experiment, table: DataFrame) -> DataFrame:
    texts = set() if experiment.draw else _text_columns(experiment)
    for name in columns(experiment):
        if name not in table.columns:
            kind = "string" if name in texts else "double"
            table = table.selectExpr("*", f"cast(point['{name}'] as {kind}) as `{name}`")
    return table


def _make_views(spark: SparkSession, experiment: Experiment, runs: DataFrame, metrics: dict[str, DataFrame]) -> None:
    runs.createOrReplaceTempView("results")
    for name in experiment.analysis:
        columns_of, rows = TABLES[name]()
        spark.createDataFrame(rows, columns_of).createOrReplaceTempView(name)
    told = runs.select("run", "seed", *_told_apart(experiment, runs.columns))
    for name, table in metrics.items():
        table.join(told, "run").createOrReplaceTempView(name)


def _check_query(spark: SparkSession, where: str, sql: str, needed: Sequence[str]) -> None:
    from pyspark.errors import ParseException, PySparkException

    try:
        found = spark.sql(sql).columns
    except ParseException as error:
        raise PipelineError(f"{where}: its SQL does not parse: {short(error)}") from None
    except PySparkException as error:
        raise PipelineError(f"{where}: {short(error)}") from None
    missing = [name for name in needed if name not in found]
    if missing:
        raise PipelineError(f"{where}: its query must yield {missing[0]}; it yields {', '.join(found)}")


def short(error: Exception) -> str:
    """Spark's message in one line of limited length."""
    return " ".join(str(error).split())[:250]


def _told_apart(experiment: Experiment, known: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys([*columns(experiment), "members", "protocol"]) if name in known]


def _text_columns(experiment: Experiment) -> set[str]:
    """Grid columns with a value that is not a number."""
    return {
        name
        for point, _ in points(experiment)
        for name, value in point.items()
        if isinstance(value, bool) or not isinstance(value, int | float)
    }


def _metrics(
    spark: SparkSession, experiment: Experiment, directory: Directory, runs: DataFrame
) -> dict[str, DataFrame]:
    """Each metric, computed once and stored as a Parquet table in the directory."""
    found: dict[str, DataFrame] = {}
    trace: Any = None
    for name in experiment.metrics:
        path = directory.metrics / f"{experiment.name}-{name}.parquet"
        if not (path / "_SUCCESS").exists():
            trace = trace if trace is not None else read_traces(spark, _traces(directory, runs))
            measure(spark, name, trace).write.mode("overwrite").parquet(str(path))
        found[name] = spark.read.parquet(str(path))
    return found


def _traces(directory: Directory, runs: DataFrame) -> list[Any]:
    """The traces of the successful runs: a run that failed may have left an incomplete one."""
    names = sorted(row.run for row in runs.select("run").collect())
    return [path for path in (trace_path(directory.traces, run) for run in names) if path.exists()]
