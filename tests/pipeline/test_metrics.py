"""The metrics that Spark computes from traces are the numbers that the simulator counted itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gossamer.pipeline.metrics import METRICS, SUMMARIES, measure, read_traces
from gossamer.pipeline.session import PipelineError
from gossamer.sim.checked import traced
from gossamer.sim.scenario import load

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


def test_an_unknown_metric_is_named(spark: "SparkSession", trace: "DataFrame") -> None:
    with pytest.raises(PipelineError, match="metric 'latencies': must be one of"):
        measure(spark, "latencies", trace)
