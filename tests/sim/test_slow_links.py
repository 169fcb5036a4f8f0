"""A receiver on a link that carries less than is sent: nothing is lost in silence, and the others notice nothing."""

from pathlib import Path

import pytest

from gossamer.presets import LIVE, LIVE_PRESETS
from gossamer.rungs import settle_s
from gossamer.sim.checked import traced
from gossamer.sim.run import metadata
from gossamer.sim.scenario import load, parse
from gossamer.trace.reader import read

SCENARIO = Path(__file__).parents[2] / "scenarios" / "slow-link.toml"
SLOW = 4


def run(tmp_path: Path, *overrides: str) -> tuple[dict, dict[int, list[str]], dict[int, int]]:
    """The result, when members left the multicast and came back, and how many packets each has lost."""
    path = tmp_path / "trace.parquet"
    result = traced(load(SCENARIO, ["duration=5.0", *overrides]), path)
    listened: dict[int, list[str]] = {}
    lost: dict[int, int] = {}
    for rows in (batch.of("listen", "lost") for batch in read(path)):
        for row in map(rows.describe, range(len(rows))):
            if row["kind"] == "listen":
                listened.setdefault(row["member"], []).append(row["phase"])
            else:
                lost[row["member"]] = lost.get(row["member"], 0) + 1
    return result, listened, lost


@pytest.mark.parametrize("exact", ["false", "true"])
def test_a_slow_receiver_reads_from_the_logger_at_its_own_pace(tmp_path, exact):
    result, listened, lost = run(tmp_path, f"topology.exact={exact}")
    assert result["violations"] == []
    assert not lost
    assert result["packets"]["everywhere"] == result["packets"]["sent"] > 3_000
    assert listened == {SLOW: ["off", "on"]}
    assert result["repairs"]["sent"] < 2 * result["packets"]["sent"]  # and not the same again and again


def test_what_it_asks_of_peers_and_of_the_logger_together_does_not_overflow_its_queue(tmp_path):
    result, _, lost = run(tmp_path, "topology.exact=true", "topology.queue=50")
    assert not lost
    assert result["queue_drops"] < 0.3 * result["repairs"]["sent"]  # most of them before it has left the multicast


def test_without_a_logger_what_no_peer_keeps_is_reported_as_lost(tmp_path):
    result, listened, lost = run(tmp_path, "protocol.loggers=0", "protocol.loss_patience=2.0")
    assert result["violations"] == []
    assert listened[SLOW][0] == "off"
    assert lost.keys() == {SLOW}
    assert result["packets"]["everywhere"] + lost[SLOW] == result["packets"]["sent"]


def test_the_others_do_not_wait_for_it(tmp_path):
    result, _, _ = run(tmp_path)
    assert result["latency"]["p50"] < 0.01


def test_a_slow_network_takes_longer_to_settle_and_a_fast_one_does_not():
    """Coordinators are elected, and sides made equal, only as fast as a link carries what is missing."""
    settle = {}
    for bandwidth in (100e6, 200e3):
        topology = {"kind": "lan", "members": 7, "bandwidth": bandwidth}
        traffic = {"rate": 100.0, "size": 436}
        table = {"topology": topology, "traffic": traffic, "duration": 10.0, "protocol": {"name": "redelivery"}}
        scenario = parse(table)
        settle[bandwidth] = metadata(scenario, 7)["settle_s"]
    assert settle == {100e6: settle_s(scenario.protocol, 7), 200e3: 20.0}


def test_senders_do_not_fill_the_link_of_a_slow_logger_with_repetitions():
    """What it has not acknowledged is sent to it again, but no more at a time than comes through."""
    links = {"kind": "star", "members": 6, "latency": 0.005, "queue": 50, "exact": True}
    bounds = {"request_packets": 32, "window": 32, "reach": 128}
    scenario = {
        "duration": 8.0,
        "linger": 60.0,
        "topology": {**links, "slow": [5], "slow_bandwidth": 300e3},
        "traffic": {"senders": 4, "rate": 60.0, "size": 1024},
        "protocol": {"name": "rpbcast", **LIVE, **LIVE_PRESETS["rpbcast"], "loggers": 1, **bounds},
    }
    result = traced(parse(scenario))
    assert result["violations"] == []
    assert result["packets"]["everywhere"] == result["packets"]["sent"] > 450
    assert result["repairs"]["sent"] < 5 * result["packets"]["sent"]
