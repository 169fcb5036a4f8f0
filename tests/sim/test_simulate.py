"""Whole runs: delivered fractions, faults, determinism, endings."""

import json
import os
import subprocess
import sys
from math import sqrt
from pathlib import Path

import pytest

from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.schema import SettingError
from gossamer.sim.checked import traced
from gossamer.sim.disk import Disk
from gossamer.sim.run import simulate, stack_maker
from gossamer.spec.promises import HEAL_S
from gossamer.trace.reader import read

ROOT = Path(__file__).parents[2]


def test_unreliable_delivers_what_the_loss_leaves(scenario):
    result = simulate(
        scenario(
            topology={"members": 20},
            loss={"member": 0.01},
            traffic={"rate": 500.0, "senders": 20, "arrivals": "poisson"},
            duration=10.0,
        )
    )
    others = result["packets"]["sent"] * 19
    fraction = (result["deliveries"]["actual"] - result["packets"]["sent"]) / others
    assert abs(fraction - 0.99) < 3 * sqrt(0.01 * 0.99 / others)


def test_basic_delivers_everything_once_in_spite_of_loss(scenario):
    """Reference: 001 §3"""
    result = simulate(
        scenario("basic", topology={"members": 8}, loss={"member": 0.2, "duplicate": 0.05, "reorder": 0.2})
    )
    assert result["packets"]["everywhere"] == result["packets"]["sent"] == 200
    assert result["deliveries"]["actual"] == result["deliveries"]["expected"] == 1600
    assert result["deliveries"]["duplicate"] == result["deliveries"]["bogus"] == 0
    assert result["deliveries"]["peer"] > 0


def test_basic_stops_when_everything_is_acknowledged_or_settled(scenario):
    result = simulate(scenario("basic", linger=1000.0))
    assert result["virtual_seconds"] < 3.0


def test_a_run_that_cannot_finish_ends_at_linger(scenario):
    result = simulate(
        scenario("rpbcast", linger=5.0, fault=[{"at": 0.5, "kind": "partition", "members": [[0], [1, 2, 3]]}])
    )
    assert result["virtual_seconds"] == pytest.approx(7.0, abs=0.3)
    assert result["outstanding"] > 0
    assert result["packets"]["lost"] > 0


def test_a_partition_heals_and_basic_repairs(scenario):
    fault = {"at": 0.5, "kind": "partition", "members": [[0, 1], [2, 3]], "for": 1.0}
    result = simulate(scenario("basic", fault=[fault]))
    assert result["packets"]["lost"] == 0
    assert result["latency"]["max"] > 0.5


def test_unreliable_loses_what_a_partition_cuts_off(scenario):
    fault = {"at": 0.5, "kind": "partition", "members": [[0, 1], [2, 3]], "for": 1.0}
    result = simulate(scenario(fault=[fault]))
    assert result["deliveries"]["actual"] == 200 * 4 - 100 * 2


def test_a_cut_link_partitions_a_tree_and_is_mended(scenario):
    topology = {"kind": "tree", "members": 0, "branching": 2, "depth": 2}
    cut = {"at": 0.5, "kind": "cut", "link": [0, 1], "for": 1.0}
    lost = simulate(scenario(topology=topology, fault=[cut]))
    assert lost["deliveries"]["expected"] - lost["deliveries"]["actual"] == 100 * 2
    assert simulate(scenario("basic", topology=topology, fault=[cut]))["packets"]["lost"] == 0


def test_a_cut_link_of_a_mesh_is_routed_around(scenario):
    result = simulate(scenario(topology={"kind": "mesh"}, fault=[{"at": 0.5, "kind": "cut", "link": [0, 1]}]))
    assert result["deliveries"]["actual"] == result["deliveries"]["expected"]


def test_a_crashed_receiver_is_not_owed_what_it_missed_and_comes_back(scenario):
    fault = {"at": 0.5, "kind": "crash", "members": [3], "for": 1.0, "memory": "lost"}
    result = simulate(scenario("basic", fault=[fault]))
    assert result["deliveries"]["actual"] == result["deliveries"]["expected"] >= 200 * 3 + 90
    assert result["deliveries"]["duplicate"] == 0


def test_a_receiver_that_kept_its_memory_gets_everything_with_basic(scenario):
    fault = {"at": 0.5, "kind": "crash", "members": [3], "for": 1.0}
    result = simulate(scenario("basic", grace=2.0, fault=[fault]))  # what is not owed is waited for that long
    assert result["deliveries"]["actual"] == 800


def test_a_disconnected_member_catches_up_with_basic(scenario):
    result = simulate(scenario("basic", fault=[{"at": 0.5, "kind": "disconnect", "members": [2], "for": 1.0}]))
    assert result["deliveries"]["actual"] == 800


def test_a_disconnected_member_that_stands_still_is_disconnected_when_it_goes_on(scenario):
    away = {"at": 0.5, "kind": "disconnect", "members": [2], "for": 1.0}
    still = {"at": 0.7, "kind": "crash", "members": [2], "memory": "kept", "for": 0.3}
    result = traced(scenario("rpbcast", grace=HEAL_S + 2, fault=[away, still]))
    assert result["violations"] == []


def test_a_trace_says_which_members_reach_each_other(scenario, tmp_path):
    faults = [
        {"at": 0.5, "kind": "partition", "members": [[0, 1], [2, 3]], "for": 0.2},
        {"at": 1.0, "kind": "disconnect", "members": [3], "for": 0.2},
        {"at": 1.5, "kind": "cut", "link": [0, 1], "for": 0.2},
    ]
    tree = {"kind": "tree", "members": 4, "branching": 3}
    traced(scenario("rpbcast", topology=tree, fault=faults), tmp_path / "trace.parquet")
    rows = [rows.of("side") for rows in read(tmp_path / "trace.parquet")]
    sides = [(round(d["t_ns"] / 1e9, 1), d["member"], d["phase"]) for r in rows for d in map(r.describe, range(len(r)))]
    assert sides == [
        *((0.5, 2, "2"), (0.5, 3, "2"), (0.7, 2, "0"), (0.7, 3, "0")),
        *((1.0, 3, ""), (1.2, 3, "0")),
        *((1.5, 1, "1"), (1.7, 1, "0")),
    ]


def test_a_sender_that_lost_its_memory_does_not_use_a_number_twice(scenario):
    fault = {"at": 0.5, "kind": "crash", "members": [0], "for": 0.5, "memory": "lost"}
    result = simulate(scenario("basic", fault=[fault]))
    assert result["deliveries"]["duplicate"] == 0
    assert result["deliveries"]["actual"] == result["deliveries"]["expected"]


def test_a_perturbed_member_is_late_but_loses_nothing_of_what_fits_its_inbox(scenario):
    """Reference: 004 §7"""
    fault = {"at": 0.0, "kind": "perturb", "members": [1], "probability": 0.5}
    calm, perturbed = simulate(scenario()), simulate(scenario(fault=[fault]))
    assert perturbed["deliveries"]["actual"] == calm["deliveries"]["actual"]
    assert perturbed["latency"]["max"] > 0.09 > calm["latency"]["max"]


def test_a_set_of_members_discards_consecutive_packets(scenario):
    """Reference: 004 Fig. 14"""
    result = simulate(scenario(fault=[{"at": 0.5, "kind": "lose", "members": [1, 2], "packets": 30}]))
    assert result["deliveries"]["expected"] - result["deliveries"]["actual"] == 60


def test_members_join_and_leave(scenario):
    faults = [{"at": 1.0, "kind": "join", "members": [3]}, {"at": 1.5, "kind": "leave", "members": [2]}]
    result = simulate(scenario("basic", fault=faults))
    assert (
        result["deliveries"]["actual"]
        == result["deliveries"]["expected"]
        == pytest.approx(200 + 200 + 150 + 100, abs=3)
    )


def test_packets_that_were_published_together_are_not_repeated_together(scenario):
    """They would overflow the same queue again, at every turn. Reference: 001 §3"""
    burst = {"size": 7168, "arrivals": "burst", "burst_size": 100}
    result = simulate(scenario("basic", topology={"queue": 10, "bandwidth": 100e6}, traffic=burst))
    assert result["packets"]["sent"] == result["packets"]["everywhere"] == 100
    assert result["repairs"]["sent"] <= 3 * 100, "each packet once to each of three"


def test_fifo_order_is_kept_over_reordering(scenario):
    loss = {"reorder": 0.5, "member": 0.1}
    made = scenario("basic", loss=loss, protocol={"ordering": "fifo"}, topology={"latency": 0.05})
    result = simulate(made)
    assert result["deliveries"]["actual"] == 800


def test_a_full_send_buffer_refuses_and_says_so(scenario):
    fault = {"at": 0.2, "kind": "partition", "members": [[0], [1, 2, 3]], "for": 1.5}
    result = simulate(scenario("basic", protocol={"send_buffer": 10}, fault=[fault]))
    assert result["packets"]["refused"] > 100
    assert result["packets"]["lost"] == 0


def test_poisson_steady_and_burst_send_the_same_amount(scenario):
    sent = {
        kind: simulate(scenario(traffic={"rate": 400.0, "arrivals": kind}, duration=10.0))["packets"]["sent"]
        for kind in ("poisson", "steady", "burst")
    }
    assert sent["steady"] == 4000
    assert sent["poisson"] == pytest.approx(4000, rel=0.06)
    assert sent["burst"] == pytest.approx(4000, rel=0.2)


@pytest.mark.parametrize("scenario", ["churn", "bufferers"])
def test_the_same_seed_gives_the_same_run_in_any_process(scenario):
    """Two processes, two hash seeds, one hash."""
    hashes = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "gossamer", "simulate", f"scenarios/{scenario}.toml", "--json"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        hashes.add(json.loads(done.stdout)["trace_hash"])
    assert len(hashes) == 1


def test_another_seed_gives_another_run(scenario):
    lossy = {"loss": {"member": 0.1}}
    assert simulate(scenario(**lossy))["trace_hash"] == simulate(scenario(**lossy))["trace_hash"]
    assert simulate(scenario(**lossy))["trace_hash"] != simulate(scenario(**lossy, seed=2))["trace_hash"]


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"loss": {"member": 1.5}}, r"loss\.member = 1\.5"),
        ({"topology": {"members": 0}}, r"topology\.members = 0"),
        ({"topology": {"color": 1}}, r"unknown key topology\.color"),
        ({"topology": {"kind": "ring"}}, "must be one of tiers"),
        ({"traffic": {"rate": "fast"}}, r"traffic\.rate = 'fast': must be a number"),
        ({"traffic": {"senders": 9}}, r"traffic\.senders = 9: there are only 4 members"),
        ({"protocol": {"name": "carrier-pigeon"}}, r"protocol\.name"),
        ({"protocol": {"gosip": 1}}, r"unknown key protocol\.gosip"),
        ({"duration": 0}, "duration"),
        ({"colour": 1}, "unknown key colour"),
        ({"fault": [{"kind": "partition", "members": [[0], [99]]}]}, "names member 99"),
        ({"fault": [{"kind": "partition", "members": [0, 1]}]}, "names its sides"),
        ({"fault": [{"kind": "crash", "members": []}]}, "list of members"),
        ({"fault": [{"kind": "cut", "link": [0, 1]}]}, "there is no link"),
        ({"fault": [{"kind": "melt", "members": [1]}]}, r"fault\[0\]\.kind = 'melt'"),
    ],
)
def test_invalid_scenarios_are_refused_by_name(scenario, sections, says):
    with pytest.raises(SettingError, match=says):
        simulate(scenario(**sections))


def test_a_trace_does_not_change_what_happens(scenario):
    """With rows written or not, the run and its hash are the same."""
    made = scenario("rpbcast", topology={"members": 6}, loss={"member": 0.05})
    assert simulate(made)["trace_hash"] == traced(made)["trace_hash"]


@pytest.mark.parametrize(
    ("protocol", "faults"),
    [
        ("unreliable", []),
        ("pbcast", []),
        ("lbrm", []),
        (
            "pbcast",
            [{"at": 0.5, "kind": "crash", "members": [3], "for": 0.5}, {"at": 1.0, "kind": "leave", "members": [5]}],
        ),
    ],
)
def test_members_side_by_side_do_what_each_would_do_alone(scenario, protocol, faults):
    """Lanes only save time: stacks that do not share them give the very same run."""
    made = scenario(
        protocol,
        topology={"kind": "tree", "members": 17, "branching": 4, "bandwidth": 0},
        loss={"link": 0.03},
        traffic={"senders": 2, "rate": 100.0},
        fault=faults,
    )
    alone = simulate(made, make_stack=stack_maker(made, 17))
    assert simulate(made)["trace_hash"] == alone["trace_hash"]
    assert alone["deliveries"]["actual"] > 2000


def test_a_disk_does_not_name_a_sender_whose_packets_were_all_collected():
    """As a store does not: a logger that comes back takes every sender in its log to have left something there."""
    disk = Disk()
    disk.log = {3: {}, 4: {7: Packet(4, 7, b"")}}
    assert disk.logged() == {4: RangeSet([(7, 7)])}
