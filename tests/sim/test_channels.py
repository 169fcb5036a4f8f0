"""Channels: a member is owed what it listens to, from when it does, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gossamer.core.ids import ALL_CHANNELS, channel_of, channels_in, owner_of, stream_of
from gossamer.core.schema import SettingError
from gossamer.presets import PRESETS
from gossamer.sim.checked import traced
from gossamer.sim.run import simulate
from gossamer.sim.scenario import Scenario, load, parse
from gossamer.trace import reader

SCENARIOS = Path(__file__).parents[2] / "scenarios"
FAULTS: list[dict[str, Any]] = [
    {"at": 0.6, "kind": "partition", "members": [[0, 1, 4, 7], [2, 3, 5, 6]], "for": 0.7},
    {"at": 1.5, "kind": "crash", "members": [4], "memory": "kept", "for": 0.4},
    {"at": 2.2, "kind": "crash", "members": [5], "memory": "lost", "for": 0.5},
    {"at": 0.9, "kind": "listen", "members": [6], "channels": ["alpha"]},
    {"at": 1.9, "kind": "listen", "members": [2], "channels": ["beta", "gamma"]},
    {"at": 2.5, "kind": "listen", "members": [2], "channels": ["alpha", "gamma"]},
]
CHANNELS = [
    {"name": "alpha", "members": [0, 1, 2, 5], "senders": [0, 3]},
    {"name": "beta", "members": [2, 3, 4, 5]},
    {"name": "gamma", "members": [], "senders": [1]},
]


def scenario(preset: str = "rpbcast", faults: list[dict[str, Any]] | None = None, **settings: Any) -> Scenario:
    table = {
        "name": "channels",
        "duration": 3.0,
        "linger": 90.0,
        "topology": {"kind": "tree", "members": 8, "branching": 3, "latency": 0.002},
        "loss": {"member": 0.05, "link": 0.01, "reorder": 0.1, "duplicate": 0.02},
        "traffic": {"rate": 60.0, "size": 200},
        "channel": CHANNELS,
        "fault": faults or [],
        "protocol": {"name": preset, "gossip_period": 0.1, "retry_period": 0.1, **settings},
    }
    return parse(table)


def test_a_stream_is_a_member_and_a_channel() -> None:
    for member, channel in ((0, 0), (7, 3), (2**55 - 1, 127)):
        stream = stream_of(member, channel)
        assert (owner_of(stream), channel_of(stream)) == (member, channel)
        assert 0 <= stream < 2**63
    assert stream_of(12345, 0) == 12345
    assert channels_in(0b1010) == [1, 3]
    assert len(channels_in(ALL_CHANNELS)) == 128


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("membership", ["static", "sponsored"])
def test_whatever_goes_wrong_listeners_get_what_they_are_owed(membership: str, seed: int) -> None:
    static = [fault for fault in FAULTS if fault.get("memory") != "lost"]
    made = scenario(faults=FAULTS if membership == "sponsored" else static, membership=membership, ordering="fifo")
    result = traced(replace(made, seed=seed, wire=seed % 2 == 0))
    assert result["violations"] == [], f"seed {seed}"
    assert result["outstanding"] == 0
    assert result["channels"]["alpha"]["actual"] == result["channels"]["alpha"]["expected"] > 0


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"virtual-synchrony", "unreliable"}))
def test_every_preset_that_repairs_works_with_channels(name: str) -> None:
    loggers = 1 if name == "lbrm" else 0
    result = traced(scenario(name, FAULTS[:1] + FAULTS[3:], loggers=loggers))
    assert result["violations"] == []
    assert result["outstanding"] == 0


def test_a_protocol_with_agreed_views_refuses_channels() -> None:
    with pytest.raises(
        SettingError, match=r"cannot be combined with protocol\.channels|protocol\.channels = 4: cannot"
    ):
        scenario("virtual-synchrony")


def test_the_repository_has_a_scenario_with_channels() -> None:
    result = traced(load(SCENARIOS / "channels.toml"))
    assert result["violations"] == []
    assert set(result["channels"]) == {"alpha", "beta", "gamma"}


def test_what_nobody_listens_to_reaches_nobody() -> None:
    result = simulate(scenario(loggers=0))
    assert result["channels"]["gamma"]["sent"] > 0
    assert result["channels"]["gamma"]["expected"] == 0 == result["channels"]["gamma"]["wasted"]


def test_channels_that_share_an_address_waste_what_some_do_not_want() -> None:
    """Of each packet: one that listens to another channel gets it, too."""
    without_loss = {"loss": {}, "protocol": {"name": "unreliable"}}
    own = parse(scenario().as_dict() | without_loss)
    shared = parse(scenario().as_dict() | without_loss | {"addresses": 1})
    assert [c["wasted"] for c in simulate(own)["channels"].values()] == [0, 0, 0]
    result = simulate(shared)["channels"]
    # alpha: 3 and 4 listen to beta alone; beta: 0 and 1 to alpha alone; gamma: all six that listen to anything,
    # except for the sender itself
    assert result["alpha"]["wasted"] < 2 * result["alpha"]["sent"]  # 3 is a sender and does not hear itself
    assert result["beta"]["wasted"] == 2 * result["beta"]["sent"]
    assert result["gamma"]["wasted"] == 5 * result["gamma"]["sent"]


def test_random_interests_are_drawn_from_the_seed() -> None:
    table = scenario().as_dict() | {"channel": [], "channels": 12, "listening": 3, "protocol": {"name": "rpbcast"}}
    table["traffic"] = {"senders": 2, "rate": 60.0}
    one, again, other = (simulate(parse(table | {"seed": seed}))["channels"] for seed in (1, 1, 2))
    assert len(one) == 12
    assert one == again != other


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"channel": [{"members": [1]}]}, "each channel needs a name"),
        ({"channel": [{"name": "a", "members": [1]}] * 2}, "each channel needs a name of its own"),
        ({"channel": [{"name": "a", "members": [8]}]}, "there are only members 0 to 7"),
        ({"channel": [{"name": "a"}]}, "nobody publishes to 'a'"),
        ({"channel": 3}, "must be tables"),
        ({"channels": 3}, "give one or the other"),
        ({"channel": [], "channels": 2, "listening": 3}, "there are only 2 channels"),
        ({"channel": [], "channels": 128}, "protocol.channels = 129"),
        ({"fault": [{"at": 1.0, "kind": "listen", "members": [1], "channels": ["nu"]}]}, "there is no such channel"),
    ],
)
def test_a_scenario_that_cannot_be_says_why(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        simulate(parse(scenario().as_dict() | {"protocol": {"name": "rpbcast"}} | changes))


def test_a_member_that_begins_to_listen_late_is_owed_what_comes_after(tmp_path: Path) -> None:
    """And nothing of before: the trace says from where on."""
    fault = {"at": 1.5, "kind": "listen", "members": [6], "channels": ["alpha"]}
    path = tmp_path / "trace.parquet"
    traced(scenario(faults=[fault], membership="sponsored", loggers=1), path)
    rows = [rows.describe(i) for rows in reader.read(path) for i in range(len(rows))]
    began = next(row for row in rows if row["kind"] == "channel" and row["member"] == 6 and row["phase"] == "on")
    t_join = {r["sender"]: r["seqno"] for r in rows if r["kind"] == "join" and r["member"] == 6 and r["sender"] > 0}
    got = [row for row in rows if row["kind"] == "deliver" and row["member"] == 6]
    assert began["t_ns"] >= 1.5e9
    assert len(t_join) == 2
    assert {row["seqno"] > t_join[row["sender"]] for row in got} == {True}
    for stream, last in t_join.items():
        sent = [row["seqno"] for row in rows if row["kind"] == "publish" and row["sender"] == stream]
        assert sorted(row["seqno"] for row in got if row["sender"] == stream) == [n for n in sent if n > last]


def test_nothing_is_delivered_twice_to_a_member_that_listens_again() -> None:
    rng = Random(7)
    faults = [
        {
            "at": round(0.2 + 0.2 * at, 1),
            "kind": "listen",
            "members": [5],
            "channels": rng.choice([[], ["alpha", "beta"]]),
        }
        for at in range(12)
    ]
    for seed in range(1, 6):
        result = traced(replace(scenario(faults=faults, membership="sponsored"), seed=seed))
        assert result["violations"] == []
        assert result["deliveries"]["duplicate"] == 0
