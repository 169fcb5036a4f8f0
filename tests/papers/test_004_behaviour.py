"""How pbcast must behave: whole scenarios, several seeds, held against the specifications.

`make test` runs a few seeds of each, `make soak` two hundred.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gossamer.sim.checked import traced
from gossamer.sim.run import simulate
from gossamer.sim.scenario import Scenario, load

from .test_004_pbcast import Rows

SCENARIOS = Path(__file__).parents[2] / "scenarios"
FEW, MANY = range(1, 4), range(4, 204)
PBCAST = ("protocol.name=pbcast", "protocol.membership=static", "protocol.loggers=0")
SCENES = {
    "lossy": ("pbcast-lossy",),
    "loss-10%": ("pbcast-lossy", "loss.member=0.1"),
    "trees": ("pbcast-trees",),
    "lossy-trees": ("pbcast-lossy", "protocol.dissemination=trees"),
    "partial-views": ("pbcast-lossy", "topology.members=40", "protocol.view_size=12"),
    "without-optimizations": (
        *("pbcast-lossy", "protocol.same_round=false", "protocol.round_bytes=0", "protocol.cyclic=false"),
        *("protocol.recent_first=false", "protocol.unsynchronized=false", "protocol.multicast_after=0"),
    ),
    "partition": ("partition", *PBCAST),
    "thesis": ("thesis", *PBCAST, "protocol.gossip_period=0.25", "protocol.selection=linear"),
    "churn": ("churn", *PBCAST),
    "sender-crash": ("sender-crash", *PBCAST),
    "receiver-crash": ("receiver-crash", *PBCAST),
    "away": ("away", *PBCAST),
}
STALL_S = 5.0
"""Well beyond what a member may wait: 13 rounds for a gap, and before that the end of the partition or the sleep in
which the packet was published and still buffered elsewhere (10 rounds, and 10 more where it was itself repaired)."""


def scenario(name: str, *changes: str, seed: int = 1) -> Scenario:
    return load(SCENARIOS / f"{name}.toml", changes).with_seed(seed)


def expect_clean(made: Scenario) -> dict:
    """Delivered or reported lost, once, in order, and before long; by all members that are there."""
    result = traced(made)
    where = f"replay with: gossamer simulate scenarios/{made.name}.toml --seed {made.seed}"
    assert result["violations"] == [], where
    assert result["deliveries"]["bogus"] == result["deliveries"]["duplicate"] == 0, where
    assert result["latency"]["max"] < STALL_S, where
    return result


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("seed", FEW)
def test_what_is_lost_is_reported_in_order_and_nobody_stalls(name, seed):
    """Reference: 004 §3 (ordering, detection of lost messages), §4"""
    expect_clean(scenario(*SCENES[name], seed=seed))


@pytest.mark.soak
@pytest.mark.parametrize("name", SCENES)
def test_nobody_stalls_for_two_hundred_seeds(name):
    for seed in MANY:
        expect_clean(scenario(*SCENES[name], seed=seed))


def healthy_rates(made: Scenario, first_s: float, last_s: float) -> list[float]:
    """What each healthy member was delivered in an interval, as a share of what was sent in it."""
    rows = Rows()
    simulate(made, sink=rows)
    window = [row for row in rows.all if first_s * 1e9 <= row[0] < last_s * 1e9]
    sent = sum(1 for row in window if row[2] == "publish")
    delivered = Counter(row[1] for row in window if row[2] == "deliver")
    perturbed = set(made.fault[0].members)
    return [delivered[m] / sent for m in range(made.topology.members) if m not in perturbed]


def expect_full_rate(seed: int) -> None:
    rates = healthy_rates(scenario("pbcast-perturbed", seed=seed), 1.0, 9.0)
    assert len(rates) == 48
    assert sum(rates) / len(rates) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("seed", FEW)
def test_healthy_members_get_the_full_rate_while_a_quarter_is_perturbed(seed):
    """64 members, 16 of them asleep half of the time. Reference: 004 §7, Fig. 9"""
    expect_full_rate(seed)


@pytest.mark.soak
def test_healthy_members_get_the_full_rate_for_two_hundred_seeds():
    for seed in MANY:
        expect_full_rate(seed)


@pytest.mark.parametrize("seed", FEW)
def test_healthy_members_lose_nothing_while_a_quarter_is_perturbed(seed):
    """Nor are the perturbed cut off: they get nearly all of it. Reference: 004 §7, Fig. 8"""
    result = expect_clean(scenario("pbcast-perturbed", seed=seed))
    assert result["deliveries"]["actual"] > 0.999 * result["deliveries"]["expected"]


def test_a_lossier_network_loses_more_and_only_then():
    """Reliable up to a point, then gaps are reported even to the healthy. Reference: 004 §7, Fig. 10"""
    lost = []
    for loss in (0.0, 0.05, 0.1, 0.3):
        result = expect_clean(scenario("pbcast-lossy", f"loss.member={loss}", "loss.burst=[0,0]"))
        lost.append(1.0 - result["deliveries"]["actual"] / result["deliveries"]["expected"])
    assert lost == sorted(lost)
    assert lost[1] < 0.001 < 0.005 < lost[3]
