"""What Spark costs: the same runs by Spark and by a bare process pool, side by side.

The runs are the thesis setting at 360 packets/s with different seeds and losses, about a second each. Spark's time
includes everything that a command pays for: starting the session, scheduling, Arrow, separate processes for the runs,
the Parquet parts and stopping; the pool's includes forking. Both use the same number of processes. The first ratio is
for an experiment of this length; the second, without the session's start, is what a long campaign approaches.

On a busy machine the two halves run under different conditions: trust only ratios from a quiet machine.
"""

import argparse
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from gossamer.pipeline.experiments.directory import Directory
from gossamer.pipeline.experiments.files import Collection, Experiment
from gossamer.pipeline.experiments.grid import Run, runs
from gossamer.pipeline.experiments.runner import run_all, session_conf
from gossamer.pipeline.session import spark_session
from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse

LOSSES = [0.001, 0.01, 0.02, 0.05]
TARGET = 0.20


def experiment(count: int) -> Experiment:
    scenario = tomllib.loads(Path("scenarios/thesis.toml").read_text("utf-8"))
    seeds = max(1, count // len(LOSSES))
    return Experiment(name="bench", seeds=seeds, scenario=scenario, grid={"loss.member": LOSSES})


def one(run: Run) -> str:
    return str(simulate(parse(run.scenario))["trace_hash"])


def by_pool(planned: list[Run], processes: int) -> tuple[float, set[str]]:
    began = perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        hashes = set(pool.map(one, sorted(planned, key=lambda run: -run.cost)))
    return perf_counter() - began, hashes


def by_spark(planned: list[Run], tested: Experiment, processes: int) -> tuple[float, float, set[str]]:
    began = perf_counter()
    with TemporaryDirectory() as folder:
        collection = Collection(tested.name, "", "", (tested,), {"bench.toml": ""})
        directory = Directory.create(Path(folder) / "out", collection, {})
        master = f"local[{processes}]"
        spark = spark_session("bench", master, **session_conf(master))
        started = perf_counter()
        run_all(spark, planned, directory)
        spark.stop()
        ended = perf_counter()
        import pyarrow.parquet as pq

        hashes = {h for part in directory.parts() for h in pq.read_table(part).column("trace_hash").to_pylist()}
    return started - began, ended - started, hashes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=160)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    tested = experiment(arguments.runs)
    planned = runs(tested)
    pool, expected = by_pool(planned, arguments.processes)
    start, spark, found = by_spark(planned, tested, arguments.processes)
    assert found == expected, "Spark and the pool must do the same runs"
    print(f"{len(planned)} runs, {arguments.processes} processes")
    print(f"process pool         {pool:8.1f} s")
    print(f"Spark, session start {start:8.1f} s")
    print(f"Spark, runs          {spark:8.1f} s")
    print(f"Spark's cost         {(start + spark) / pool - 1:8.1%} of the pool's time (target: below {TARGET:.0%})")
    print(f"without the start    {spark / pool - 1:8.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
