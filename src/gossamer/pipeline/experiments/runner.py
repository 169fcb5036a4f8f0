"""Runs on Spark: waves of tasks, each task a few runs of about equal cost in all.

A wave is one Spark job and one part of `results.parquet`, so a killed campaign loses the waves under way and nothing
else. Two waves are under way at a time: the cores that have nothing left to do in one take from the next. Expensive
runs go first, so that the end is made of small ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gossamer.pipeline.experiments.directory import Directory
from gossamer.pipeline.experiments.grid import Run
from gossamer.pipeline.experiments.result_rows import SCHEMA
from gossamer.pipeline.session import PipelineError, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_PER_CORE = 2
TASKS_PER_CORE_LONG = 1
"""Where a single run takes longer than a task should: fewer of them in a wave, so that progress is seen."""
TASK_SECONDS = 3.0
"""A task should take so long, by estimate: long against the cost of a task (about 50 ms), short against patience."""
WAVES_AT_ONCE = 2
_SCHEDULES = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""A JVM that does little but schedule: the cores that its best compiler and collector would take are for the runs."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a campaign is."""

    done: int
    planned: int
    failed: int
    cost_done: float
    cost_planned: float


TellProgress = Callable[[Progress], None]


def session_conf(master: str) -> dict[str, str]:
    """Settings for a session that shares its machine with the runs; elsewhere the cluster's own stay."""
    return _SCHEDULES if is_local(master) else {}


def run_all(
    spark: SparkSession, planned: Sequence[Run], directory: Directory, report: TellProgress | None = None
) -> None:
    """Do every run that has no row yet; each wave adds its rows to the directory."""
    before = directory.finished()
    left = [run for run in planned if run.run not in before]
    waves = plan_waves(left, spark.sparkContext.defaultParallelism)
    done, failed, cost_done = len(planned) - len(left), 0, 0.0
    cost_planned = sum(run.cost for run in left)
    tell = report or (lambda progress: None)
    tell(Progress(done, len(planned), failed, cost_done, cost_planned))
    pending: dict[Future[pa.Table], float] = {}
    with ThreadPoolExecutor(WAVES_AT_ONCE, "wave") as pool:
        queue = iter(waves)
        try:
            while True:
                while len(pending) < WAVES_AT_ONCE and (wave := next(queue, None)) is not None:
                    pending[pool.submit(_wave, spark, wave, directory.traces)] = _cost(wave)
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    cost_done += pending.pop(future)
                    table = future.result()
                    directory.add(table)
                    done += table.num_rows
                    failed += sum(status != "fine" for status in table.column("status").to_pylist())
                    tell(Progress(done, len(planned), failed, cost_done, cost_planned))
        except BaseException:
            spark.sparkContext.cancelAllJobs()
            raise


def plan_waves(runs: Sequence[Run], cores: int) -> list[list[list[Run]]]:
    """Waves of tasks of runs: the expensive ones first, and tasks of a wave about equally long."""
    waves: list[list[list[Run]]] = []
    ordered = sorted(runs, key=lambda run: -run.cost)
    while ordered:
        tasks = cores * (TASKS_PER_CORE_LONG if ordered[0].cost > TASK_SECONDS else TASKS_PER_CORE)
        taken, cost = 0, 0.0
        while taken < len(ordered) and (taken < tasks or cost < tasks * TASK_SECONDS):
            cost += ordered[taken].cost
            taken += 1
        waves.append(_balanced(ordered[:taken], min(tasks, taken)))
        del ordered[:taken]
    return waves


def _balanced(runs: Sequence[Run], tasks: int) -> list[list[Run]]:
    """Each run, the expensive first, to the task that has least to do."""
    loads = [0.0] * tasks
    parts: list[list[Run]] = [[] for _ in range(tasks)]
    for run in runs:
        least = loads.index(min(loads))
        parts[least].append(run)
        loads[least] += run.cost
    return parts


def _cost(wave: Sequence[Sequence[Run]]) -> float:
    return sum(run.cost for task in wave for run in task)


def _wave(spark: SparkSession, wave: Sequence[Sequence[Run]], traces: Path) -> pa.Table:
    """One Spark job: as many partitions as tasks, each holding the number of its task."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema

    from gossamer.pipeline.experiments.work import do_all

    spark.sparkContext.setJobDescription(f"wave of {sum(map(len, wave))} runs on {threading.current_thread().name}")
    numbers = spark.range(0, len(wave), 1, len(wave))
    function = partial(do_all, wave, str(traces.absolute()))
    try:
        table: Any = numbers.mapInArrow(function, from_arrow_schema(SCHEMA)).toArrow()
    except PySparkException as error:
        raise PipelineError(f"Spark gave up on a wave of runs: {str(error).splitlines()[0]}") from None
    return table.cast(SCHEMA)
