"""Runs on Spark: waves of tasks, each with a few runs, of about equal total cost.

A wave is one Spark job and one part of `results.parquet`, so a killed campaign loses only the waves under way. Two
waves are under way at a time: cores that have nothing left to do in one take tasks from the next. Expensive runs go
first, so that only small ones are left at the end.
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
"""If a single run takes longer than a task should: fewer tasks in a wave, so that progress shows."""
TASK_SECONDS = 3.0
"""How long a task should take, by estimate: long compared with its cost (about 50 ms), short enough to wait for."""
WAVES_AT_ONCE = 2
_SCHEDULES = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""The JVM does little but schedule, so it must not take cores from the runs for its best compiler and collector."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a campaign."""

    done: int
    planned: int
    failed: int
    cost_done: float
    cost_planned: float


TellProgress = Callable[[Progress], None]


def session_conf(master: str) -> dict[str, str]:
    """Settings for a session that shares its machine with the runs; a cluster keeps its own."""
    return _SCHEDULES if is_local(master) else {}


def run_all(
    spark: SparkSession, planned: Sequence[Run], directory: Directory, report: TellProgress | None = None
) -> None:
    """Do every run that is not finished yet; each wave adds its rows to the directory."""
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
    """Divide the runs into waves of tasks: expensive runs first, and the tasks of a wave about equally long."""
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
    """Give each run, expensive ones first, to the task that has least to do."""
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
    """Run one Spark job with one partition per task, which holds the number of the task."""
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
