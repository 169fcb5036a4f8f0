"""The rate that follows the path, in whole groups in the simulator: bandwidth, queues, losses, several senders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gossamer.core.schema import SettingError
from gossamer.presets import preset
from gossamer.sim.checked import traced
from gossamer.sim.scenario import load

SCENARIO = Path(__file__).parents[2] / "scenarios" / "bottleneck.toml"
PACKET_BITS = 8 * 1070


def result(*changes: str, seed: int = 1) -> dict[str, Any]:
    found = traced(load(SCENARIO, list(changes)).with_seed(seed))
    assert not found["violations"]
    assert not found["packets"]["lost"]
    assert found["deliveries"]["actual"] == found["deliveries"]["expected"]
    return found


def needed(packets: int, bandwidth: float) -> float:
    """The seconds that the link is busy with so many packets."""
    return packets * PACKET_BITS / bandwidth


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("latency", [0.0005, 0.01])
def test_a_group_behind_a_bottleneck_repairs_only_what_was_lost_at_random(latency, seed):
    found = result(f"topology.latency={latency}", seed=seed)
    lost_at_random = 0.01 * found["deliveries"]["expected"]
    assert found["repairs"]["sent"] <= 4 * lost_at_random
    assert found["queue_drops"] <= 0.01 * found["deliveries"]["expected"]


def test_without_it_most_of_what_is_sent_is_dropped_and_sent_again():
    """The same group, to show that the test above can fail."""
    follows, does_not = (
        traced(load(SCENARIO, [f"protocol.congestion={word}", "linger=20"]).with_seed(1)) for word in ("delay", "none")
    )
    assert does_not["queue_drops"] > 20 * follows["queue_drops"]
    assert does_not["repairs"]["sent"] > 2 * follows["repairs"]["sent"]  # requests follow the path, at least


def test_a_link_is_kept_busy():
    found = result("loss.member=0", "duration=10")
    packets = found["packets"]["sent"]
    busy = needed(packets, 10e6)
    assert found["virtual_seconds"] <= 1.06 * busy + 1.0


@pytest.mark.parametrize("seed", range(2))
def test_several_senders_share_a_bottleneck(seed):
    found = result("traffic.senders=3", "loss.member=0", seed=seed)
    assert found["queue_drops"] <= 0.02 * found["deliveries"]["expected"]


def test_a_rate_that_follows_the_path_needs_reports():
    with pytest.raises(SettingError, match="window"):
        preset("rpbcast", {"congestion": "delay"})


def test_a_rate_that_is_set_by_hand_still_holds():
    found = result("protocol.rate_limit=500", "duration=1", "traffic.rate=800")
    assert found["virtual_seconds"] >= 800 / 500
