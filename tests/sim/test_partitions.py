"""Partitions of any shape, with the settings of live groups: views merge, and peers repair what they keep."""

from random import Random

import pytest

from gossamer.presets import describe
from gossamer.settings import Settings
from gossamer.sim.checked import traced
from gossamer.spec.promises import HEAL_S

NUMBERS = {"buffer_packets": 40_000, "buffer_bytes": 64 << 20, "window": 200, "reach": 4_000, "request_packets": 200}
PROTOCOLS = [("rpbcast", 0), ("rpbcast", 1), ("pbcast", 0), ("pbcast", 1), ("lbrm", 1), ("basic", 0)]


def live(protocol: str, loggers: int) -> dict:
    """The settings of a live group, as a table for a scenario."""
    found = describe(Settings(protocol=protocol).protocol_settings(**NUMBERS))
    return {**found, "repair": list(found["repair"]), "loggers": loggers}


def partitioned(scenario, protocol, loggers, members, faults, *, seed=1, loss=0.01, after=8.0):
    end = max(fault["at"] + fault["for"] for fault in faults)
    made = scenario(
        protocol,
        protocol=live(protocol, loggers),
        duration=end + after,
        linger=60.0,
        grace=HEAL_S + 2,
        topology={"members": members},
        loss={"member": loss},
        traffic={"senders": members - loggers, "rate": 60.0, "size": 200},
        fault=faults,
    )
    return traced(made.with_seed(seed))


def expect_healed(result):
    assert result["violations"] == []
    assert result["packets"]["lost"] == 0
    assert result["packets"]["everywhere"] == result["packets"]["sent"]


@pytest.mark.parametrize(("protocol", "loggers"), PROTOCOLS)
@pytest.mark.parametrize("sides", [[[0], [1]], [[0, 1, 2], [3, 4, 5]], [[0], [1, 2, 3, 4, 5]]], ids=str)
def test_members_that_took_each_other_for_dead_find_each_other_again(scenario, protocol, loggers, sides):
    members = sum(map(len, sides))
    if loggers and members == 2:
        sides = [[0], [1, 2]]
        members = 3
    fault = {"at": 3.0, "kind": "partition", "members": sides, "for": 15.0}  # longer than suspicion takes
    expect_healed(partitioned(scenario, protocol, loggers, members, [fault]))


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(n, marks=pytest.mark.soak) for n in range(4, 200))])
def test_partitions_that_come_and_go_in_any_shape_heal(scenario, seed):
    rng = Random(seed)
    protocol, loggers = rng.choice(PROTOCOLS)
    members = rng.choice([3, 4, 6, 8])
    faults, at = [], 3.0
    for _ in range(rng.randint(1, 4)):
        order = rng.sample(range(members), members)
        cuts = sorted(rng.sample(range(1, members), rng.choice([1, 1, 2])))
        sides = [order[a:b] for a, b in zip([0, *cuts], [*cuts, members], strict=True)]
        length = rng.choice([0.5, 3.0, 8.0, 12.0, 20.0])
        faults.append({"at": at, "kind": "partition", "members": sides, "for": length})
        at += length + rng.choice([0.2, 1.0, 3.0, 12.0])
    loss, after = rng.choice([0.0, 0.01, 0.05]), rng.choice([0.1, 8.0])
    expect_healed(partitioned(scenario, protocol, loggers, members, faults, seed=seed, loss=loss, after=after))


def test_a_member_that_was_alone_and_joins_again_is_owed_nothing_from_before(scenario):
    faults = [
        {"at": 3.0, "kind": "partition", "members": [[0], [1], [2]], "for": 8.0},
        {"at": 9.0, "kind": "crash", "members": [0], "memory": "lost", "for": 0.5},
    ]
    protocol = {**live("pbcast", 0), "ordering": "none", "loss_patience": 20.0}
    traffic = {"senders": 3, "rate": 60.0, "size": 200}
    made = scenario(
        "pbcast", protocol=protocol, duration=14.0, linger=60.0, topology={"members": 3}, traffic=traffic, fault=faults
    )
    result = traced(made)
    assert (result["violations"], result["outstanding"]) == ([], 0)
