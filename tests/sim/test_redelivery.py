"""Redelivery by coordinators (001) over whole scenarios: every specification holds, and everything is everywhere.

Each story runs with a few seeds, and with 200 under the mark `soak`. What varies with the seed is drawn from it: which
members are where, how long a partition lasts, how much is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gossamer.sim.checked import traced
from gossamer.sim.scenario import parse

MEMBERS = 9
Faults = list[dict[str, Any]]
CHAINS: list[dict[str, Any]] = [
    {"name": "redelivery"},
    {"name": "redelivery", "ordering": "fifo"},
    {"name": "redelivery", "loggers": 1},
    {"name": "redelivery", "membership": "sponsored", "suspect_after": 1.0},
    {"name": "rpbcast", "repair": ["negative", "coordinator", "logger"], "membership": "static"},
    {"name": "redelivery", "ordering": "fifo", "request_packets": 64, "round_trips": True},
    {
        "name": "rpbcast",
        "repair": ["negative", "coordinator", "logger"],
        "membership": "static",
        "ordering": "fifo",
        "request_packets": 64,
        "ask_again": 0.02,
        "round_trips": True,
    },
]


def sides(rng: Random, count: int) -> list[list[int]]:
    order = rng.sample(range(MEMBERS), MEMBERS)
    cuts = sorted(rng.sample(range(1, MEMBERS), count - 1))
    return [order[a:b] for a, b in zip([0, *cuts], [*cuts, MEMBERS], strict=True)]


def partition(rng: Random, at: float, length: float, count: int = 2) -> dict[str, Any]:
    return {"at": at, "kind": "partition", "members": sides(rng, count), "for": length}


def transient(rng: Random) -> Faults:
    return [{"at": 2.0, "kind": "lose", "members": [rng.randrange(MEMBERS)], "packets": 30}]


def one(rng: Random) -> Faults:
    return [partition(rng, 3.0, rng.choice([0.5, 2.0, 6.0, 14.0]))]


def two(rng: Random) -> Faults:
    return [partition(rng, 3.0, 4.0), partition(rng, 9.0, rng.choice([1.0, 6.0]), rng.choice([2, 3]))]


def nested(rng: Random) -> Faults:
    """One side splits once more, then the halves fuse before the whole does."""
    a, b = sides(rng, 2)
    inner = [a[: len(a) // 2], a[len(a) // 2 :]] if len(a) > 1 else [a]
    found = [{"at": at, "kind": "partition", "members": s} for at, s in ((3.0, [a, b]), (7.0, [*inner, b]))]
    return [*found, {"at": 11.0, "kind": "partition", "members": [a, b]}, {"at": 15.0, "kind": "heal"}]


def flapping(rng: Random) -> Faults:
    faults, at = [], 3.0
    for _ in range(6):
        length = rng.choice([0.2, 0.7, 1.5])
        faults.append(partition(rng, at, length))
        at += length + rng.choice([0.1, 0.5, 1.0])
    return faults


def coordinator_dies(rng: Random) -> Faults:
    """Member 0 leads all; of a partition, the lowest number of each side does."""
    split = partition(rng, 3.0, 10.0)
    leader = min(split["members"][rng.randrange(2)])
    return [split, {"at": 6.0, "kind": "crash", "members": [leader], "memory": "kept", "for": rng.choice([2.0, 9.0])}]


def source_dies(rng: Random) -> Faults:
    return [
        partition(rng, 3.0, rng.choice([3.0, 8.0])),
        {"at": 4.0, "kind": "crash", "members": [rng.randrange(1, 4)], "memory": "lost", "for": 15.0},
    ]


def churn(rng: Random) -> Faults:
    """Members leave and come while the group is divided."""
    leaver, joiner = rng.sample(range(4, MEMBERS - 1), 2)
    return [
        partition(rng, 3.0, 8.0),
        {"at": 4.0, "kind": "leave", "members": [leaver]},
        {"at": 5.0, "kind": "join", "members": [joiner]},
        {"at": 7.0, "kind": "join", "members": [leaver]},
    ]


STORIES: dict[str, tuple[Callable[[Random], Faults], float]] = {
    "transient losses": (transient, 0.05),
    "one partition": (one, 0.0),
    "two partitions": (two, 0.01),
    "nested partitions": (nested, 0.01),
    "flapping partitions": (flapping, 0.01),
    "coordinator dies": (coordinator_dies, 0.01),
    "source dies": (source_dies, 0.01),
    "heal under loss": (one, 0.1),
    "churn in a partition": (churn, 0.01),
}


def story(name: str, seed: int) -> dict[str, Any]:
    rng = Random(f"{name}/{seed}")
    faults, loss = STORIES[name]
    protocol = dict(CHAINS[seed % len(CHAINS)])
    made = faults(rng)
    if name in ("source dies", "churn in a partition"):
        protocol["membership"] = "sponsored"  # somebody must notice
        protocol["suspect_after"] = 1.0
    return {
        "name": name,
        "seed": seed,
        "duration": 20.0,
        "linger": 90.0,
        "grace": 12.0,
        "wire": seed % 4 == 3,
        "topology": {"kind": rng.choice(["lan", "tree"]), "members": MEMBERS, "branching": 3, "latency": 0.005},
        "loss": {"member": loss, "reorder": 0.05},
        "traffic": {"senders": 4, "rate": 60.0, "size": 200},
        "protocol": protocol,
        "fault": made,
    }


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(n, marks=pytest.mark.soak) for n in range(5, 200))])
@pytest.mark.parametrize("name", STORIES)
def test_everything_comes_to_everybody(name, seed):
    result = traced(parse(story(name, seed)))
    assert result["violations"] == []
    assert result["outstanding"] == 0
    if name not in ("source dies", "churn in a partition"):
        assert result["packets"]["lost"] == 0
        assert result["packets"]["everywhere"] == result["packets"]["sent"]


@pytest.mark.parametrize("seed", [*range(1, 7), *(pytest.param(n, marks=pytest.mark.soak) for n in range(7, 200))])
def test_a_coordinator_that_joined_late_does_not_keep_others_from_what_came_before_it(seed):
    """One member dies for good, one stands still, and whoever joins may lead all: it has no old packets to give."""
    rng = Random(seed)
    order = rng.sample(range(5), 5)
    dead, still = rng.sample([1, 2, 3], 2)
    result = traced(
        parse(
            {
                "name": "late leader",
                "seed": seed,
                "duration": 7.0,
                "linger": 100.0,
                "topology": {"kind": "lan", "members": 5, "latency": 0.0002},
                "loss": {"member": 0.05},
                "traffic": {"senders": 1, "rate": 60.0, "size": 200},
                "protocol": {
                    "name": "redelivery",
                    "ordering": "fifo",
                    "membership": "sponsored",
                    "suspect_after": 5.0,
                    "lists": [order[: order.index(member)] for member in range(5)],
                },
                "fault": [
                    {"at": 0.7, "kind": "crash", "members": [dead], "memory": "lost"},
                    {"at": 1.2, "kind": "crash", "members": [still], "memory": "kept", "for": 3.0},
                    {"at": 1.3, "kind": "join", "members": [4]},
                ],
            }
        )
    )
    assert (result["violations"], result["outstanding"], result["packets"]["lost"]) == ([], 0, 0)


CHANNELS = [
    {"name": "alpha", "members": [0, 2, 4, 6, 8], "senders": [0, 1]},
    {"name": "beta", "members": [1, 2, 3, 5, 7], "senders": [2, 3, 8]},
]


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(n, marks=pytest.mark.soak) for n in range(5, 200))])
@pytest.mark.parametrize("name", ["transient losses", "two partitions", "flapping partitions", "heal under loss"])
def test_everything_comes_to_all_that_listen(name, seed):
    """Senders that listen to what they publish, and senders that do not."""
    table = story(name, seed)
    del table["traffic"]["senders"]
    result = traced(parse({**table, "channel": CHANNELS}))
    assert (result["violations"], result["outstanding"], result["packets"]["lost"]) == ([], 0, 0)


@pytest.mark.parametrize("limits", [{}, {"request_packets": 64, "round_trips": True, "ordering": "fifo"}], ids=str)
def test_what_listeners_of_a_channel_missed_crosses_the_mended_link_once(limits):
    """Two sides of eight, of which four each listen. Reference: 001 §6"""
    edges = Path(__file__).parents[2] / "experiments" / "redelivery" / "two-sides.edges"
    table = {
        "duration": 10.0,
        "linger": 90.0,
        "topology": {"kind": "file", "path": str(edges)},
        "channel": [{"name": "alpha", "members": [1, 2, 3, 4, 9, 10, 11, 12], "senders": [1, 10]}],
        "traffic": {"rate": 60.0, "size": 1000},
        "fault": [{"at": 3.0, "kind": "cut", "link": [0, 1], "for": 5.0}],
        "protocol": {"name": "redelivery", **limits},
    }
    result = traced(parse(table))
    assert (result["violations"], result["outstanding"], result["packets"]["lost"]) == ([], 0, 0)
    assert result["links"]["0-1"]["bytes"] < 1.2 * result["packets"]["sent"] * 1028
