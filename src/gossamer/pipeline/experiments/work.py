"""What an executor does: one run at a time, each in a process of its own.

A run that crashes, hangs or eats the memory takes only its own process with it; the executor notes the reason and
goes on. It is tried a second time first, because a machine may have a bad moment.
"""

import gc
import math
import multiprocessing
import os
import resource
import signal
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import pyarrow as pa

from gossamer.pipeline.experiments import rows
from gossamer.pipeline.experiments.grid import Run
from gossamer.sim.checked import traced
from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse

ATTEMPTS_MAX = 2
PATIENCE = 10.0
"""The time limit is of a run's own time on a core; on a busy machine it may take so many times as long."""
_FORK = multiprocessing.get_context("fork")  # the simulator is imported once per executor, not once per run


def trace_path(traces: Path, run: str) -> Path:
    """Where the trace of a run lies: one folder per run, as Spark partitions."""
    return traces / f"run={run.replace('/', '.')}" / "trace.parquet"


def do_all(tasks: Sequence[Sequence[Run]], traces: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of a Spark task: `batches` holds the numbers of its tasks; out come rows."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for run in tasks[number]:
                yield rows.batch([do(run, Path(traces))])


def do(run: Run, traces: Path) -> dict[str, Any]:
    """One run and its row, tried again if it fails."""
    attempts = 1
    outcome = _apart(run, traces)
    while outcome["status"] != rows.FINE and attempts < ATTEMPTS_MAX:
        attempts += 1
        outcome = _apart(run, traces)
    return rows.row(run, outcome, attempts)


def _apart(run: Run, traces: Path) -> dict[str, Any]:
    """The outcome of a run in a process of its own."""
    began = perf_counter()
    ours, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_child, args=(run, traces, theirs), daemon=False)
    process.start()
    theirs.close()
    outcome: dict[str, Any]
    try:
        outcome = ours.recv() if ours.poll(PATIENCE * run.time_limit) else _late(run)
    except EOFError:
        process.join()
        outcome = {"status": rows.KILLED, "reason": f"its process ended with code {process.exitcode}"}
        if process.exitcode == -signal.SIGXCPU:
            outcome = _late(run)
    finally:
        ours.close()
        process.kill()
        process.join()
    return {**outcome, "seconds": perf_counter() - began}


def _late(run: Run) -> dict[str, Any]:
    return {"status": rows.LATE, "reason": f"over the time limit of {run.time_limit:g} s"}


def _child(run: Run, traces: Path, answer: Connection) -> None:
    """In the run's own process: simulate, say what came of it, and end without any clean-up of the parent's."""
    gc.freeze()  # what the executor has loaded is shared with it, and the collector would copy it page by page
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _limit_memory(run.memory_limit)
    seconds = math.ceil(run.time_limit)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    try:
        result = _simulate(run, traces)
        answer.send({"status": rows.FINE, "result": result, "cpu_seconds": process_time()})
    except MemoryError:
        _limit_memory(None)  # room to say so
        answer.send({"status": rows.MEMORY, "reason": f"over the memory limit of {run.memory_limit} MiB"})
    except Exception as error:  # whatever a run raises is its reason, never the campaign's end
        answer.send({"status": rows.FAILED, "reason": f"{type(error).__name__}: {error}"})
    answer.close()
    os._exit(0)


def _limit_memory(mebibytes: int | None) -> None:
    """No more than this above what the executor has mapped already; None lifts the limit."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = most
    if mebibytes is not None:
        statm = Path("/proc/self/statm")
        pages = int(statm.read_text().split()[0]) if statm.exists() else 0
        limit = pages * resource.getpagesize() + mebibytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit if most < 0 else min(limit, most), most))


def _simulate(run: Run, traces: Path) -> Mapping[str, Any]:
    scenario = parse(run.scenario, run.folder)
    parent = os.getppid()

    def progress(_: float) -> None:
        """An executor that was killed cannot end its runs: they see it and end themselves."""
        if os.getppid() != parent:
            os._exit(1)

    if not run.traced:
        return traced(scenario, progress=progress) if run.check else simulate(scenario, progress=progress)
    path = trace_path(traces, run.run)
    path.parent.mkdir(parents=True, exist_ok=True)
    return traced(scenario, path, check=run.check, progress=progress)
