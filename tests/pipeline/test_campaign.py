"""The fault campaign: scenarios from seeds, and a violation that one command replays."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gossamer.pipeline.experiments import result_rows
from gossamer.pipeline.experiments.campaign import draw, scenario_toml, violations
from gossamer.pipeline.experiments.directory import Directory
from gossamer.pipeline.experiments.files import load
from gossamer.pipeline.experiments.grid import runs
from gossamer.pipeline.experiments.work import Apart, do
from gossamer.sim.checked import traced
from gossamer.sim.matrix import FACTORS
from gossamer.sim.run import full_queue_s, simulate
from gossamer.sim.scenario import canonical, parse
from gossamer.sim.scenario import load as load_scenario
from gossamer.spec.promises import HEAL_S

CAMPAIGN = Path("experiments/campaign.toml")


def test_a_seed_is_a_scenario_and_every_fault_ends_before_the_traffic() -> None:
    for seed in range(1, 200):
        scenario = parse(draw(seed))

        assert canonical(scenario) == canonical(parse(draw(seed)))
        for fault in scenario.fault:
            assert fault.at + fault.for_ <= scenario.duration


def test_the_seeds_draw_everything_that_can_go_wrong() -> None:
    drawn = [draw(seed) for seed in range(1, 2000)]

    assert {table["protocol"]["name"] for table in drawn} == {
        *("rpbcast", "pbcast", "lbrm", "redelivery", "basic", "srm", "unreliable")
    }
    rows = [table["protocol"] for table in drawn if table["protocol"]["name"] == "unreliable"]
    chains = {tuple(c["repair"]) for c in FACTORS["repair"].values()}
    agreed = {chain for chain in chains if "exclusion" in chain}  # they fit few other choices: test_004_synchrony.py
    assert {tuple(row["repair"]) for row in rows} >= chains - agreed
    assert {row["ordering"] for row in rows} == {"none", "fifo", "total", "central", "two-phase"}
    assert {table["wire"] for table in drawn} == {False, True}
    assert any(table["protocol"].get("found_after") for table in drawn)  # as live groups have it
    assert {table["topology"]["kind"] for table in drawn} >= {"lan", "star", "tree", "tiers", "transit-stub", "mesh"}
    kinds = {fault["kind"] for table in drawn for fault in table["fault"]}
    assert kinds == {"partition", "crash", "disconnect", "perturb", "lose", "join", "leave", "cut"}
    assert any(fault.get("memory") == "lost" for table in drawn for fault in table["fault"])
    assert any("burst" in table["loss"] for table in drawn)
    assert any(table["protocol"].get("suspect_after") for table in drawn)


def test_most_sites_of_an_order_keep_their_memory() -> None:
    drawn = [draw(seed) for seed in [*range(1, 2000), 40067]]
    ordered = [table for table in drawn if table["protocol"].get("ordering") in ("total", "central")]
    lost = [sum(fault.get("memory") == "lost" for fault in table["fault"]) for table in ordered]

    assert any(lost)
    assert all(2 * n < table["topology"]["members"] for n, table in zip(lost, ordered, strict=True))


def test_half_of_the_networks_have_bottlenecks_for_papers_and_live_groups_alike() -> None:
    for seeds in (range(1, 400, 3), range(3, 400, 3)):
        drawn = [draw(seed) for seed in seeds]
        loads = [8 * table["traffic"]["rate"] * table["traffic"]["size"] for table in drawn]
        links = [table["topology"] for table in drawn]

        assert any(0 < link.get("bandwidth", 0) < 2 * load for link, load in zip(links, loads, strict=True))
        assert any(link.get("slow") and link["slow_bandwidth"] < load for link, load in zip(links, loads, strict=True))
        assert {link.get("queue") for link in links} == {None, 10, 50, 200}
        assert 0.3 < sum("queue" in link for link in links) / len(links) < 0.7
    assert {draw(seed)["protocol"]["congestion"] for seed in range(3, 400, 3)} == {"delay", "none"}


def test_news_may_wait_in_a_full_queue_before_views_have_to_agree() -> None:
    drawn = [parse(draw(seed)) for seed in range(1, 300)]
    waiting = {full_queue_s(scenario) for scenario in drawn if scenario.grace > 1}

    assert max(waiting) > 20
    assert min(waiting) == 0
    assert all(scenario.grace == HEAL_S + 5 + full_queue_s(scenario) for scenario in drawn if scenario.grace > 1)


def test_a_link_carries_the_copies_that_nothing_limits() -> None:
    """Senders that repeat without limit fill a link that is too narrow for its copies, for good."""
    result = traced(parse({**draw(100510), "seed": 100510}))

    assert (result["violations"], result["outstanding"]) == ([], 0)
    assert draw(100510)["protocol"]["dissemination"] == "copies"


def test_two_loggers_that_lack_the_same_packets_ask_the_sender_for_them_too() -> None:
    """By turns they asked each other whenever there was room for a request, and waited for ever."""
    result = traced(parse(draw(63936)).with_seed(63936))

    assert result["violations"] == []
    assert result["outstanding"] == 0


def test_every_third_seed_is_a_live_group() -> None:
    drawn = [draw(seed) for seed in range(3, 900, 3)]

    protocols = [table["protocol"] for table in drawn]
    assert {p["name"] for p in protocols} == {"rpbcast", "pbcast", "lbrm", "redelivery", "basic", "srm"}
    assert all(p["suspect_after"] and p["found_after"] and p["loss_patience"] and p["window"] for p in protocols)
    assert {p["loggers"] for p in protocols} == {0, 1, 2}
    faults = [(table, fault) for table in drawn for fault in table["fault"]]
    partitions = [fault for _, fault in faults if fault["kind"] == "partition"]
    assert {len(fault["members"]) for fault in partitions} == {2, 3}
    assert max(fault["for"] for fault in partitions) == 30.0
    loggers = [
        (fault["kind"], fault.get("memory"))
        for table, fault in faults
        if fault["kind"] in ("crash", "disconnect")
        and fault["members"][0] >= table["topology"]["members"] - table["protocol"]["loggers"]
    ]
    assert set(loggers) == {("crash", "lost"), ("crash", "kept"), ("disconnect", None)}
    assert any(_leaves_cut_off(table["fault"]) for table in drawn)


def _leaves_cut_off(faults: list[dict[str, Any]]) -> bool:
    cuts = [(fault["at"], fault["at"] + fault["for"]) for fault in faults if fault["kind"] == "partition"]
    leaves = [fault["at"] for fault in faults if fault["kind"] == "leave"]
    return any(begin < at < end for at in leaves for begin, end in cuts)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_live_groups_satisfy_every_specification(part: int) -> None:
    for seed in range(3 + 45 * part, 48 + 45 * part, 3):
        result = traced(parse({**draw(seed), "seed": seed}))
        assert (result["violations"], result["outstanding"]) == ([], 0), seed


@pytest.mark.parametrize("seed", [1, 2, 3, 6, 10, 27, 48])
def test_drawn_scenarios_satisfy_every_specification(seed: int) -> None:
    result = traced(parse({**draw(seed), "seed": seed}))

    assert result["violations"] == []


def test_a_scenario_file_is_the_scenario(tmp_path: Path) -> None:
    for seed in range(1, 40):
        table = {**draw(seed), "name": "x", "seed": seed}
        path = tmp_path / "x.toml"
        path.write_text(scenario_toml(table), "utf-8")

        assert canonical(load_scenario(path)) == canonical(parse(table))


def test_a_violation_names_its_seed_and_the_command_that_replays_it(tmp_path: Path) -> None:
    collection = load(CAMPAIGN)
    planned = runs(collection.experiments[0], 3)
    directory = Directory.create(tmp_path / "out", collection, {})
    apart = Apart()
    table = [do(run, directory.traces, apart) for run in planned]
    apart.end()
    assert violations_of(directory, table, planned) == []
    table[1]["violations"] = [{"spec": "reliable-multicast", "message": "planted"}]
    table[2]["outstanding"] = 7

    found = violations_of(directory, table, planned)

    assert [(v["seed"], v["spec"]) for v in found] == [(2, "reliable-multicast"), (3, "convergence")]
    path = Path(found[0]["replay"].removeprefix("gossamer simulate "))
    assert simulate(load_scenario(path))["trace_hash"] == table[1]["trace_hash"]
    json.dumps(found)


def violations_of(directory: Directory, table: list[dict[str, Any]], planned: Any) -> list[dict[str, Any]]:
    for part in directory.parts():
        part.unlink()
    directory.add(pa.Table.from_batches([result_rows.batch(table)]))
    return violations(directory, planned)
