"""An experiment from file to verdicts, on a real Spark session and with real runs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from gossamer.core.schema import SettingError
from gossamer.pipeline.experiments import claims, work
from gossamer.pipeline.experiments.directory import Directory
from gossamer.pipeline.experiments.files import Collection, find, load
from gossamer.pipeline.experiments.grid import Run, points, runs
from gossamer.pipeline.experiments.report import number, write_report
from gossamer.pipeline.experiments.runner import Progress, plan_waves
from gossamer.pipeline.experiments.study import Outcome, conduct
from gossamer.pipeline.session import PipelineError
from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse
from tests import browser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = Path("tests/pipeline/small.toml")


def rows(directory: Directory) -> list[dict[str, Any]]:
    return [row for part in directory.parts() for row in pq.read_table(part).to_pylist()]


@pytest.fixture(scope="module")
def studied(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory
) -> tuple[Directory, Collection, Outcome, list[Progress]]:
    collection = load(SMALL)
    directory = Directory.create(tmp_path_factory.mktemp("small") / "out", collection, {})
    progress: list[Progress] = []
    return directory, collection, conduct(spark, collection, directory, report=progress.append), progress


Studied = tuple[Directory, Collection, Outcome, list[Progress]]


def test_a_row_is_what_the_simulator_gives(studied: Studied) -> None:
    directory, collection, _, _ = studied
    planned = {run.run: run for run in runs(collection.experiments[0])}

    found = rows(directory)

    assert {row["run"] for row in found} == set(planned)
    for row in found:
        result = simulate(parse(planned[row["run"]].scenario))
        assert row["trace_hash"] == result["trace_hash"]
        assert row["everywhere_latency"] == result["everywhere_latency"]
        assert dict(row["repairs"]["by_member"]) == result["repairs"]["by_member"]
        assert dict(row["links"]) == result["links"]


def test_every_verdict_is_as_expected(studied: Studied) -> None:
    outcome = studied[2]

    assert {v.name: v.verdict for v in outcome.verdicts} == {
        "true": "holds",
        "false": "fails",
        "open": "not decided",
        "predicted": "holds",
        "measured": "holds",
    }
    assert not outcome.bad  # that a claim fails is a finding
    assert [case.item for case in outcome.verdicts[0].cases] == ["rpbcast", "basic"]


def test_progress_counts_runs(studied: Studied) -> None:
    progress = studied[3]

    assert (progress[0].done, progress[0].planned) == (0, 8)
    assert progress[-1].done == 8
    assert progress[-1].cost_done == pytest.approx(progress[-1].cost_planned)


def test_a_directory_holds_it_all_and_the_report_needs_nothing_else(studied: Studied) -> None:
    directory = studied[0]

    page = write_report(directory.path).read_text("utf-8")

    for name in ("latency", "load"):
        assert (directory.figures / f"{name}.svg").exists()
        assert (directory.figures / f"{name}.png").stat().st_size > 5_000
        assert f'id="figure-{name}"' in page
    assert len(list(directory.traces.rglob("*.parquet"))) == 8
    assert (directory.metrics / "small-throughput.parquet").exists()
    assert "Because it is wrong." in page
    assert "prefers-color-scheme: dark" in page
    assert "src=" not in page
    assert 'href="http' not in page


def test_the_report_in_a_browser(studied: Studied, tmp_path: Path) -> None:
    page = write_report(studied[0].path)
    questions = {
        "figures": "[...document.querySelectorAll('figure svg')].map(s => s.getBoundingClientRect().width)",
        "claims": "document.querySelectorAll('.claim').length",
        "broken": "[...document.links].filter(a => !document.querySelector(a.hash)).length",
        "wide": "document.documentElement.scrollWidth - innerWidth",
        "paper": "getComputedStyle(document.body).backgroundColor",
        "fetched": "performance.getEntriesByType('resource').length",
    }

    light, dark = (browser.ask(page, questions, tmp_path, dark=dark) for dark in (False, True))
    narrow = browser.ask(page, questions, tmp_path, width=500)

    assert light["figures"]
    assert min(light["figures"]) > 300
    assert (light["claims"], light["broken"], light["fetched"]) == (5, 0, 0)
    assert light["wide"] <= 0
    assert narrow["wide"] <= 0  # tables scroll by themselves, the page does not
    assert (light["paper"], dark["paper"]) == ("rgb(253, 253, 251)", "rgb(22, 24, 28)")
    assert browser.pdf_of(page, tmp_path).startswith(b"%PDF")


def test_a_killed_run_continues_where_it_stopped(spark: "SparkSession", studied: Studied, tmp_path: Path) -> None:
    directory, collection, _, _ = studied
    half = Directory.create(tmp_path / "half", collection, {})
    table = pq.read_table(directory.parts()[0])
    half.add(table.slice(0, 3))

    progress: list[Progress] = []
    bare = Collection("small", "", "", (collection.experiments[0],), collection.sources)
    from gossamer.pipeline.experiments.runner import run_all

    run_all(spark, runs(bare.experiments[0]), half, progress.append)

    assert progress[0].done == 3
    assert {row["run"]: row["trace_hash"] for row in rows(half)} == {
        row["run"]: row["trace_hash"] for row in rows(directory)
    }


def a_run(**changes: Any) -> Run:
    scenario = {
        "duration": 1.0,
        "topology": {"kind": "lan", "members": 4},
        "protocol": {"name": "basic"},
        **changes.pop("scenario", {}),
    }
    facts = {"run": "x.0/1", "experiment": "x", "seed": 1, "point": {}, "folder": ".", "traced": False, "check": False}
    return Run(**{**facts, "time_limit": 30.0, "memory_limit": 2048, "cost": 1.0, "scenario": scenario, **changes})


@pytest.fixture
def apart() -> Iterator[work.Apart]:
    made = work.Apart()
    yield made
    made.end()


def test_runs_share_a_process_until_one_goes_wrong(
    apart: work.Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_result", lambda run, traces: {"events": os.getpid() // (run.seed != 3)})

    seen = [work.do(a_run(seed=seed), tmp_path, apart) for seed in (1, 2, 3, 4, 5)]

    assert [row["status"] for row in seen] == ["fine", "fine", "failed", "fine", "fine"]
    first, second, _, fourth, fifth = [row.get("events") for row in seen]
    assert first == second != fourth == fifth


def test_the_time_limit_is_for_each_run(apart: work.Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(run: Run, traces: Path) -> dict[str, int]:
        began = process_time()
        while process_time() - began < 0.7:
            pass
        return {"events": os.getpid()}

    monkeypatch.setattr(work, "_result", busy)

    seen = [work.do(a_run(time_limit=1.0), tmp_path, apart) for _ in range(4)]

    assert len({row["events"] for row in seen}) == 1


def test_a_run_that_fails_is_a_row_with_its_reason(apart: work.Apart, tmp_path: Path) -> None:
    row = work.do(a_run(scenario={"traffic": {"senders": 9}}), tmp_path, apart)

    assert (row["status"], row["attempts"]) == ("failed", 2)
    assert "traffic.senders = 9" in row["reason"]


def test_a_run_that_hangs_is_a_row_with_its_reason(apart: work.Apart, tmp_path: Path) -> None:
    endless = {"duration": 1e5, "traffic": {"rate": 1e4}}

    row = work.do(a_run(scenario=endless, time_limit=0.3), tmp_path, apart)

    assert (row["status"], row["reason"]) == ("time", "over the time limit of 0.3 s")


def test_a_run_that_takes_too_much_memory_is_a_row_with_its_reason(
    apart: work.Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_result", lambda run, traces: {"events": len(bytearray(2**28))})

    row = work.do(a_run(memory_limit=64), tmp_path, apart)

    assert (row["status"], row["reason"]) == ("memory", "over the memory limit of 64 MiB")
    assert work.do(a_run(memory_limit=2048), tmp_path, apart)["status"] == "fine"


def test_a_run_whose_process_dies_is_a_row(apart: work.Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_result", lambda run, traces: __import__("os")._exit(7))

    row = work.do(a_run(), tmp_path, apart)

    assert (row["status"], row["reason"]) == ("killed", "its process ended with code 7")


def test_waves_hold_every_run_once_and_are_balanced() -> None:
    planned = [a_run(run=f"x.{i}/1", cost=1.0 + (i % 7) ** 2) for i in range(200)]

    waves = plan_waves(planned, cores=2)

    assert sorted(run.run for wave in waves for task in wave for run in task) == sorted(run.run for run in planned)
    first = [sum(run.cost for run in task) for task in waves[0]]
    assert max(first) <= 2 * min(first)
    assert max(run.cost for task in waves[-1] for run in task) <= min(run.cost for task in waves[0] for run in task)


def test_there_is_a_point_for_each_variant_and_value() -> None:
    [experiment] = load(SMALL).experiments

    found = list(points(experiment))

    assert [point for point, _ in found] == [
        {"variant": variant, "rate": rate} for variant in ("rpbcast", "basic") for rate in (50.0, 100.0)
    ]
    assert found[3][1]["traffic"]["rate"] == 100.0


def test_verdicts_follow_the_interval() -> None:
    assert claims.decide(*claims.interval(1.0, 0.1, 5)) == "holds"
    assert claims.decide(*claims.interval(-1.0, 0.1, 5)) == "fails"
    assert claims.decide(*claims.interval(0.1, 1.0, 5)) == "not decided"
    assert claims.decide(*claims.interval(1.0, 0.0, 1)) == "not decided"
    assert claims.interval(0.0, 1.0, 5)[1] == pytest.approx(2.776 / 5**0.5, abs=1e-3)  # Student's t, 4 degrees


def test_numbers_are_formatted_for_people() -> None:
    assert [number(x) for x in (0.0, 1234.5, 12345.6, -0.0123456, 1e-7, None)] == [
        "0",
        "1234",
        "12,346",
        "−0.01235",
        "1.0e−07",
        "–",
    ]


# Bad input


def write(folder: Path, *changes: tuple[str, str]) -> Path:
    text = SMALL.read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "wrong.toml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"traffic.rate" =', '"traffic.rat" =', "unknown key traffic.rat; did you mean rate?"),
        ('"traffic.rate" =', '"fault.3.at" =', "unknown key fault.3.at"),
        ("[50.0, 100.0]", "50.0", "grid.traffic.rate = 50.0: must be a list"),
        ("[50.0, 100.0]", "[-1.0]", "traffic.rate = -1.0: must be above 0"),
        ("seeds = 2", "seeds = 0", "seeds = 0: must be at least 1"),
        ('traces = "all"', 'traces = "none"', "metrics: come from traces"),
        ("question =", "qestion =", "unknown key qestion; did you mean question?"),
        ('kind = "bars"', 'kind = "pie"', "plot[1].kind = 'pie': must be one of line, bars"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = write(tmp_path, (old, new))

    with pytest.raises(SettingError) as error:
        runs(load(path).experiments[0])

    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_sql_that_does_not_parse_is_refused_before_any_run(spark: "SparkSession", tmp_path: Path) -> None:
    collection = load(write(tmp_path, ("select seed, if(seed", "selct seed, if(seed")))
    directory = Directory.create(tmp_path / "out", collection, {})

    with pytest.raises(PipelineError, match="claim 'open': its SQL does not parse"):
        conduct(spark, collection, directory)

    assert not directory.parts()


def test_a_directory_of_another_experiment_is_refused(studied: Studied, tmp_path: Path) -> None:
    directory = studied[0]

    with pytest.raises(PipelineError, match="holds small with other settings"):
        Directory.create(directory.path, load_as("small", write(tmp_path, ("[50.0, 100.0]", "[50.0]"))), {})
    with pytest.raises(PipelineError, match=r"holds another experiment \(small\)"):
        Directory.create(directory.path, load(write(tmp_path)), {})
    with pytest.raises(PipelineError, match="not empty, and holds no experiment"):
        Directory.create(tmp_path, load(SMALL), {})


def load_as(name: str, path: Path) -> Collection:
    return load(path.rename(path.with_name(f"{name}.toml")))


def gossamer(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    command = [sys.executable, "-m", "gossamer", *arguments]
    environment = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["experiment", "run", "nothing-like-it"], {}, "no experiment 'nothing-like-it'"),
        (["experiment", "run", "absent.toml"], {}, "absent.toml: cannot be read"),
        (["experiment", "run", str(SMALL), "--master", "spark://127.0.0.1:1"], {}, "does not answer"),
        (["experiment", "run", str(SMALL), "--master", "moon"], {}, "--master moon: must be"),
        (["experiment", "run", str(SMALL)], {"JAVA_HOME": "/nowhere"}, "Spark needs Java 17"),
        (["report", "/nowhere"], {}, "no experiment was run here"),
    ],
)
def test_an_impossible_command_ends_with_exit_code_2_and_one_line(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], says: str
) -> None:
    out = ["--out", str(tmp_path / "out")] if arguments[0] == "experiment" else []

    done = gossamer(*arguments, *out, **environment)

    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_list_knows_every_file() -> None:
    done = gossamer("experiment", "list", "--json")

    found = {each["name"]: each for each in json.loads(done.stdout)}

    assert {"thesis", "campaign", "fig-7-4"} <= set(found)
    assert found["thesis"]["claims"] >= 30
    assert find("fig-7-4") == Path("experiments/thesis/fig-7-4.toml")


@pytest.mark.soak
def test_a_cluster_without_the_package_installed(tmp_path: Path) -> None:
    out = tmp_path / "out"

    done = gossamer("experiment", "run", str(SMALL), "--out", str(out), "--master", "local-cluster[2,1,1024]", "--json")

    assert done.returncode == 0, done.stderr  # that a claim fails is for the report to tell
    outcome = json.loads(done.stdout)
    assert (outcome["runs"], outcome["failed"]) == (8, [])
