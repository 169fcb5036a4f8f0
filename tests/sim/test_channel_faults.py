"""Channels while everything goes wrong: 200 seeds, each with a group, interests and faults of its own.

What varies with the seed is drawn from it: who listens to what and publishes where, how many loggers there are, the
losses, and the faults, among which members change what they listen to, and senders leave. Six seeds run with all other
tests, the rest under the mark `soak`.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from gossamer.sim.checked import traced
from gossamer.sim.scenario import Scenario, parse

SEEDS = [*range(6), *(pytest.param(n, marks=pytest.mark.soak) for n in range(6, 200))]
DURATION_S = 3.0
ALONE = ("crash", "disconnect", "leave")
"""A member has one of these at most: one that leaves while it is offline takes with it what it has not sent, and one
that is back from a crash and leaves at once has told nobody which numbers it has skipped."""


def drawn(seed: int) -> Scenario:
    rng = Random(f"channels/{seed}")
    members, loggers = rng.randint(6, 12), rng.choice([0, 1, 1, 2])
    people = list(range(members - loggers))
    channels = [channel(rng, name, people) for name in ("alpha", "beta", "gamma", "delta")[: rng.randint(1, 4)]]
    names = [str(some["name"]) for some in channels]
    fresh = list(people)
    faults = [fault for _ in range(rng.randint(1, 4)) for fault in trouble(rng, people, fresh, names)]
    table = {
        "name": "channel faults",
        "seed": seed,
        "duration": DURATION_S,
        "linger": 120.0,
        "wire": seed % 4 == 0,
        "topology": {"kind": "tree", "members": members, "branching": 3, "latency": 0.002},
        "loss": {"member": rng.choice([0.0, 0.03, 0.1]), "link": 0.01, "reorder": 0.1, "duplicate": 0.02},
        "traffic": {"rate": rng.choice([40.0, 100.0]), "size": 200},
        "channel": channels,
        "fault": faults,
        "protocol": {
            "name": "rpbcast",
            "membership": "sponsored",
            "gossip_period": 0.1,
            "retry_period": 0.1,
            "loggers": loggers,
            "ordering": rng.choice(["none", "fifo"]),
        },
    }
    return parse(table)


def channel(rng: Random, name: str, people: list[int]) -> dict[str, Any]:
    listeners = rng.sample(people, rng.randint(0, len(people)))
    return {"name": name, "members": listeners, "senders": rng.sample(people, rng.randint(1, 3))}


def trouble(rng: Random, people: list[int], fresh: list[int], names: list[str]) -> list[dict[str, Any]]:
    at, for_ = round(rng.uniform(0.1, DURATION_S), 3), round(rng.uniform(0.1, 0.9), 3)
    kind = rng.choice(["partition", "crash", "disconnect", "listen", "listen", "leave", "leave"])
    one = rng.choice(fresh if kind in ALONE else people)
    if kind in ALONE:
        fresh.remove(one)
    if kind == "partition":
        some = rng.sample(people, len(people) // 2)
        return [{"at": at, "kind": kind, "members": [some, [m for m in people if m not in some]], "for": for_}]
    if kind == "listen":
        return [{"at": at, "kind": kind, "members": [one], "channels": rng.sample(names, rng.randint(0, len(names)))}]
    if kind == "leave":
        back = [{"at": round(at + for_, 3), "kind": "join", "members": [one]}]
        return [{"at": at, "kind": kind, "members": [one]}, *(back if rng.random() < 0.5 else [])]
    if kind == "crash":
        return [{"at": at, "kind": kind, "members": [one], "memory": rng.choice(["kept", "lost"]), "for": for_}]
    return [{"at": at, "kind": kind, "members": [one], "for": for_}]


@pytest.mark.parametrize("seed", SEEDS)
def test_listeners_get_what_they_are_owed_whatever_goes_wrong(seed: int) -> None:
    result = traced(drawn(seed))
    assert result["violations"] == [], f"seed {seed}"
    assert result["outstanding"] == 0, f"seed {seed}"
