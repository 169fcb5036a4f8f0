"""The metrics that Spark computes from traces are the numbers that the simulator counted itself."""

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gossamer.live.group import Group
from gossamer.pipeline.metrics import METRICS, SUMMARIES, measure, read_traces
from gossamer.pipeline.session import PipelineError
from gossamer.sim.checked import traced
from gossamer.sim.scenario import load
from gossamer.trace.writer import TraceWriter
from tests.live import members

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCENARIOS = {
    "thesis": ["traffic.rate=120.0"],
    "pbcast-lossy": [],
    "pbcast-perturbed": ["topology.members=16", "fault=[]"],
}
NS = 2e-9


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Three protocols' worth of runs, with their traces and the simulator's own summaries."""
    folder = tmp_path_factory.mktemp("traces")
    found = {}
    for name, settings in SCENARIOS.items():
        scenario = load(Path(f"scenarios/{name}.toml"), ["duration=2.0", *settings])
        path = folder / f"{name}.parquet"
        found[f"{name}/{scenario.seed}"] = (path, traced(scenario, path, check=False))
    return found


@pytest.fixture(scope="module")
def trace(spark: "SparkSession", runs: dict[str, tuple[Path, dict[str, Any]]]) -> "DataFrame":
    return read_traces(spark, [path for path, _ in runs.values()]).cache()


Runs = dict[str, tuple[Path, dict[str, Any]]]


def by_run(table: "DataFrame") -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in table.collect():
        found.setdefault(row.run, []).append(row)
    return found


def test_latency(spark: "SparkSession", runs: Runs, trace: "DataFrame") -> None:
    measured = by_run(measure(spark, "latency", trace))

    for run, (_, result) in runs.items():
        [row] = measured[run]
        assert row.deliveries == result["deliveries"]["actual"]
        for name, value in result["latency"].items():
            assert row[name] == pytest.approx(value, abs=NS), (run, name)


def test_everywhere_latency(spark: "SparkSession", runs: Runs, trace: "DataFrame") -> None:
    measured = by_run(measure(spark, "everywhere", trace))

    for run, (_, result) in runs.items():
        [row] = measured[run]
        assert (row.sent, row.everywhere) == (result["packets"]["sent"], result["packets"]["everywhere"])
        for name, value in result["everywhere_latency"].items():
            assert row[name] == pytest.approx(value, abs=NS), (run, name)


def test_deliveries_by_phase(spark: "SparkSession", runs: Runs, trace: "DataFrame") -> None:
    measured = by_run(measure(spark, "phases", trace))

    for run, (_, result) in runs.items():
        expected = {phase: result["deliveries"][phase] for phase in ("first_pass", "peer", "logger")}
        assert {row.phase: row.deliveries for row in measured[run]} == {p: n for p, n in expected.items() if n}


def test_load_and_overhead(spark: "SparkSession", runs: Runs, trace: "DataFrame") -> None:
    load_of, overhead = by_run(measure(spark, "load", trace)), by_run(measure(spark, "overhead", trace))

    for run, (_, result) in runs.items():
        assert {str(row.member): row.repairs for row in load_of[run]} == result["repairs"]["by_member"]
        counted = {row.kind: {"packets": row.packets, "bytes": row.bytes} for row in overhead[run]}
        assert counted == result["overhead_by_kind"]


def test_buffers(spark: "SparkSession", runs: Runs, trace: "DataFrame") -> None:
    measured, over_time = by_run(measure(spark, "buffers", trace)), by_run(measure(spark, "occupancy", trace))

    for run, (_, result) in runs.items():
        peaks = {str(row.member): row.peak for row in measured[run]}
        assert peaks == result["buffers"]["peak_packets"]
        for row in measured[run]:
            assert row["mean"] == pytest.approx(result["buffers"]["mean_packets"][str(row.member)], rel=1e-3)
        highest = {m: max(row.packets for row in over_time[run] if str(row.member) == m) for m in peaks}
        assert highest == peaks


def test_delivered_fraction(spark: "SparkSession", runs: Runs, trace: "DataFrame") -> None:
    measured = by_run(measure(spark, "fraction", trace))

    for run, (_, result) in runs.items():
        assert sum(row.owed for row in measured[run]) == result["deliveries"]["expected"]
        assert sum(row.delivered for row in measured[run]) == result["deliveries"]["actual"]


def test_throughput_and_interarrival(spark: "SparkSession", trace: "DataFrame") -> None:
    steady = [row for row in measure(spark, "throughput", trace).collect() if row.run == "pbcast-perturbed/1"]
    gaps = measure(spark, "interarrival", trace).where("run = 'pbcast-perturbed/1' and member = 0").collect()

    assert {row.member: row["mean"] for row in steady}[0] == pytest.approx(100.0, abs=1.5)  # its own, evenly spaced
    assert len(steady) == 16
    assert sum(row.deliveries for row in gaps) >= 190
    assert {row.bin for row in gaps} <= {1, 2}  # 10 ms apart, in bins of 5 ms


def test_reach_counts_every_delivery_once(spark: "SparkSession", runs: Runs, trace: "DataFrame") -> None:
    measured = by_run(measure(spark, "reach", trace))

    for run, (_, result) in runs.items():
        assert sum(row.reached for row in measured[run]) == result["deliveries"]["actual"]


def test_every_metric_has_a_sentence_and_runs(spark: "SparkSession", trace: "DataFrame") -> None:
    for name, metric in {**METRICS, **SUMMARIES}.items():
        assert metric.says.startswith("per "), name
        assert "run" in measure(spark, name, trace).columns, name


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], dict[int, dict[str, Any]]]:
    """The traces of a real group on a bad line, and what its members counted themselves."""
    folder = tmp_path_factory.mktemp("live")
    paths = [folder / f"member{n}.parquet" for n in range(3)]
    counted: dict[int, dict[str, Any]] = {}

    async def story() -> None:
        place = members.settings()
        async with AsyncExitStack() as stack:
            writers = [stack.enter_context(TraceWriter(path, "live", {})) for path in paths]
            lines = [members.impaired(seed, loss=0.1) for seed in range(3)]
            groups = [
                await stack.enter_async_context(Group(members.GROUP, place, line, trace=writer))
                for line, writer in zip(lines, writers, strict=True)
            ]
            await members.until(lambda: all(len(group.members()) == 3 for group in groups))
            heard = [group.subscribe(">") for group in groups[1:]]
            for n in range(400):
                groups[0].publish("n", b"%d" % n)
                await asyncio.sleep(0.0005)
            for subscription in heard:
                await members.collect(subscription, 400)
            counted.update((group.me, group.stats()) for group in groups)

    members.run(story())
    return paths, counted


def test_the_same_metrics_on_live_traces(
    spark: "SparkSession", live: tuple[list[Path], dict[int, dict[str, Any]]]
) -> None:
    paths, counted = live
    trace = read_traces(spark, paths).cache()
    packets = trace.where("kind = 'publish'").count()

    [everywhere] = measure(spark, "everywhere", trace).collect()
    [latency] = measure(spark, "latency", trace).collect()
    phases = {row.phase: row.deliveries for row in measure(spark, "phases", trace).collect()}
    repairs = {row.member: row.repairs for row in measure(spark, "load", trace).collect()}

    assert 0 < packets <= 400
    assert (everywhere.sent, everywhere.everywhere) == (packets, packets)
    assert latency.deliveries == sum(phases.values()) == 3 * packets
    assert 0 < latency["mean"] < 10
    assert phases["peer"] > 0  # one in ten was lost
    for member, stats in counted.items():
        assert repairs.get(member, 0) >= stats["sent"].get("repair", 0)  # more may have left after it was counted
    for name in {**METRICS, **SUMMARIES}:
        assert {row.run for row in measure(spark, name, trace).select("run").distinct().collect()} <= {"live"}, name


def test_measuring_live_traces_from_the_command_line(live: tuple[list[Path], Any]) -> None:
    command = [sys.executable, "-m", "gossamer", "experiment", "measure", *map(str, live[0])]
    done = subprocess.run([*command, "--metric", "latency", "--json"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["latency"][0]["run"] == "live"


def test_an_unknown_metric_is_named(spark: "SparkSession", trace: "DataFrame") -> None:
    with pytest.raises(PipelineError, match="metric 'latencies': must be one of"):
        measure(spark, "latencies", trace)
