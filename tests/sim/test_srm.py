"""SRM over whole scenarios: every specification holds, and what members keep long enough is everywhere in the end.

Each story runs with a few seeds, and with 200 under the mark `soak`. What varies with the seed is drawn from it: which
members are where, how long a partition lasts, which protocol SRM is part of.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gossamer.sim.checked import traced
from gossamer.sim.scenario import parse

ROOT = Path(__file__).parents[2]
MEMBERS = 10
Faults = list[dict[str, Any]]
CHAINS: list[dict[str, Any]] = [
    {"name": "srm"},
    {"name": "srm", "ordering": "fifo"},
    {"name": "srm", "adaptive_timers": True},
    {"name": "srm", "loggers": 1},
    {"name": "srm", "membership": "sponsored", "suspect_after": 1.0},
    {"name": "rpbcast", "repair": ["srm", "logger"]},
]


def nothing(rng: Random) -> Faults:
    return []


def burst(rng: Random) -> Faults:
    return [{"at": 2.0, "kind": "lose", "members": [rng.randrange(MEMBERS)], "packets": 40}]


def partition(rng: Random) -> Faults:
    """Shorter than buffers keep packets."""
    order = rng.sample(range(MEMBERS), MEMBERS)
    cut = rng.randrange(1, MEMBERS)
    length = rng.choice([0.3, 1.0, 4.0])
    return [{"at": 3.0, "kind": "partition", "members": [order[:cut], order[cut:]], "for": length}]


def long_partition(rng: Random) -> Faults:
    """Longer than that: what is gone is lost, unless a logger has it."""
    return [{**partition(rng)[0], "for": 14.0}]


def churn(rng: Random) -> Faults:
    leaver, joiner = rng.sample(range(4, MEMBERS - 1), 2)
    return [
        {"at": 3.0, "kind": "leave", "members": [leaver]},
        {"at": 4.0, "kind": "join", "members": [joiner]},
        {"at": 7.0, "kind": "join", "members": [leaver]},
    ]


def source_dies(rng: Random) -> Faults:
    source = rng.randrange(1, 4)
    return [{"at": 4.0, "kind": "crash", "members": [source], "memory": rng.choice(["kept", "lost"]), "for": 6.0}]


def stands_still(rng: Random) -> Faults:
    return [{"at": 2.0, "kind": "perturb", "members": rng.sample(range(MEMBERS), 3), "probability": 0.4, "for": 6.0}]


STORIES: dict[str, tuple[Callable[[Random], Faults], dict[str, float]]] = {
    "losses": (nothing, {"member": 0.05, "reorder": 0.05, "duplicate": 0.01}),
    "heavy losses": (nothing, {"member": 0.3}),
    "shared losses": (nothing, {"link": 0.03}),
    "a burst": (burst, {"member": 0.01}),
    "a partition": (partition, {"member": 0.01}),
    "a long partition": (long_partition, {"member": 0.01}),
    "churn": (churn, {"member": 0.02}),
    "source dies": (source_dies, {"member": 0.02}),
    "members stand still": (stands_still, {"member": 0.01}),
}
COMPLETE = ("losses", "shared losses", "a burst", "a partition")


def story(name: str, seed: int) -> dict[str, Any]:
    rng = Random(f"{name}/{seed}")
    faults, loss = STORIES[name]
    protocol = dict(CHAINS[seed % len(CHAINS)])
    if name in ("churn", "source dies"):
        protocol |= {"membership": "sponsored", "suspect_after": 1.0}  # somebody must notice
    return {
        "name": name,
        "seed": seed,
        "duration": 12.0 if name != "a long partition" else 20.0,
        "linger": 120.0,
        "wire": seed % 4 == 3,
        "topology": {"kind": rng.choice(["lan", "tree", "star", "tiers"]), "members": MEMBERS, "branching": 3},
        "loss": loss,
        "traffic": {"senders": 4, "rate": 60.0, "size": 200},
        "protocol": protocol,
        "fault": faults(rng),
    }


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.soak) for n in range(6, 200))])
@pytest.mark.parametrize("name", STORIES)
def test_everything_comes_to_everybody_or_is_known_to_be_lost(name, seed):
    result = traced(parse(story(name, seed)))
    assert result["violations"] == []
    assert result["outstanding"] == 0
    if name in COMPLETE:
        assert result["packets"]["lost"] == 0
        assert result["packets"]["everywhere"] == result["packets"]["sent"]
