"""What an executor does: one run after another, in a separate process.

A run that crashes, hangs or runs out of memory takes only that process with it; the executor records the reason and
continues with a new process. First it tries the run a second time, in case the failure was a passing one.
"""

import gc
import math
import multiprocessing
import os
import resource
import signal
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import pyarrow as pa

from gossamer.pipeline.experiments import result_rows
from gossamer.pipeline.experiments.grid import Run
from gossamer.pipeline.experiments.kinds import KINDS

ATTEMPTS_MAX = 2
PATIENCE = 10.0
"""The time limit counts a run's own CPU time; on a busy machine the run may take this many times as long."""
_FORK = multiprocessing.get_context("fork")  # the simulator is imported once per executor, not once per run


def trace_path(traces: Path, run: str) -> Path:
    """The path of a run's trace: one folder per run, as Spark partitions."""
    return traces / f"run={run.replace('/', '.')}" / "trace.parquet"


class Apart:
    """A separate process that does runs until one fails, and is then replaced.

    It is not one process per run, because a warm one is a tenth faster: its code is specialized, its memory mapped.
    """

    def __init__(self) -> None:
        self._running: tuple[ForkProcess, Connection] | None = None

    def outcome(self, run: Run, traces: Path) -> dict[str, Any]:
        """Do one run; returns its outcome."""
        began = perf_counter()
        process, line = self._ready()
        outcome: dict[str, Any]
        try:
            line.send((run, traces))
            outcome = line.recv() if line.poll(PATIENCE * run.time_limit) else _late(run)
        except (EOFError, OSError):
            process.join()
            outcome = {"status": result_rows.KILLED, "reason": f"its process ended with code {process.exitcode}"}
            if process.exitcode == -signal.SIGXCPU:
                outcome = _late(run)
        except BaseException:
            self.end()
            raise
        if outcome["status"] != result_rows.FINE:
            self.end()
        return {**outcome, "seconds": perf_counter() - began}

    def end(self) -> None:
        """End the process, whatever it is doing."""
        if self._running is not None:
            process, line = self._running
            line.close()
            process.kill()
            process.join()
            self._running = None

    def _ready(self) -> tuple[ForkProcess, Connection]:
        if self._running is None:
            ours, theirs = _FORK.Pipe()
            process = _FORK.Process(target=_do_what_is_asked, args=(theirs, ours), daemon=True)
            process.start()
            theirs.close()
            self._running = process, ours
        return self._running


_apart = Apart()
"""The process of this executor; like the executor, it outlives the task."""


def do_all(tasks: Sequence[Sequence[Run]], traces: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of a Spark task: `batches` holds the numbers of its tasks; yields the rows of their runs."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for run in tasks[number]:
                yield result_rows.batch([do(run, Path(traces), _apart)])


def do(run: Run, traces: Path, apart: Apart) -> dict[str, Any]:
    """Do one run, again if it fails; returns its row."""
    attempts = 1
    outcome = apart.outcome(run, traces)
    while outcome["status"] != result_rows.FINE and attempts < ATTEMPTS_MAX:
        attempts += 1
        outcome = apart.outcome(run, traces)
    return result_rows.row(run, outcome, attempts)


def _late(run: Run) -> dict[str, Any]:
    return {"status": result_rows.LATE, "reason": f"over the time limit of {run.time_limit:g} s"}


def _do_what_is_asked(line: Connection, parents: Connection) -> None:
    """In the separate process: do runs and report the outcome, until the executor hangs up or a run fails."""
    parents.close()
    gc.freeze()  # what the executor has loaded is shared with it; the garbage collector would copy it page by page
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    mapped = _mapped()
    outcome: dict[str, Any] = {"status": result_rows.FINE}
    while outcome["status"] == result_rows.FINE:
        try:
            run, traces = line.recv()
        except EOFError:
            break
        outcome = _limited(run, traces, mapped)
        line.send(outcome)
    line.close()
    os._exit(0)  # skips the executor's clean-up


def _limited(run: Run, traces: Path, mapped: int) -> dict[str, Any]:
    """Do a run within its limits of memory and CPU time."""
    _limit_memory(mapped + run.memory_limit * 2**20)
    before = process_time()
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(before + run.time_limit), most))
    try:
        result = _result(run, traces)
    except MemoryError:
        _limit_memory(None)  # room to report it
        return {"status": result_rows.MEMORY, "reason": f"over the memory limit of {run.memory_limit} MiB"}
    except Exception as error:  # an error of one run must not end the campaign
        return {"status": result_rows.FAILED, "reason": f"{type(error).__name__}: {error}"}
    return {"status": result_rows.FINE, "result": result, "cpu_seconds": process_time() - before}


def _mapped() -> int:
    """How much memory this process has mapped, in bytes; 0 if the system does not tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) * resource.getpagesize() if statm.exists() else 0


def _limit_memory(limit: int | None) -> None:
    """Limit the memory that this process may map; None lifts the limit."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = most if limit is None else limit
    resource.setrlimit(resource.RLIMIT_AS, (wanted if most < 0 else min(wanted, most), most))


def _result(run: Run, traces: Path) -> Mapping[str, Any]:
    kind = KINDS[run.kind]
    parent = os.getppid()

    def progress(_: float) -> None:
        """End this run if its executor was killed, since a killed executor cannot."""
        if os.getppid() != parent:
            os._exit(1)

    trace = trace_path(traces, run.run) if run.traced else None
    return kind.do(kind.parse(run.scenario, run.folder), trace, run.check, progress)
