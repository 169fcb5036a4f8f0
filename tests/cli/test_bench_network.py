"""`gossamer bench --network` between two hosts, behind a link that the kernel makes narrow."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from random import Random

import pytest

from gossamer.cli import main
from tests.cli.test_live import gossamer_says
from tests.live.members import settings
from tests.netns import Network, Unavailable, hear

MBIT = 20.0
QUEUE_KB = 128
KEY = Random(1).randbytes(32).hex()


@pytest.fixture
def network() -> Iterator[Network]:
    """Two nodes; the way to the second is narrow. Or a skip that says why there are none."""
    try:
        with Network(2) as network:
            network.narrow(1, MBIT, QUEUE_KB)
            yield network
    except Unavailable as reason:
        pytest.skip(f"NO PATH MEASURED: {reason}")


def bench(side: str, interface: str) -> None:
    """The command, as on a node's command line."""
    sys.argv = ["gossamer", "bench", "--network", side, "--interface", interface, "--key", KEY, "--json"]
    main()


def test_a_path_is_measured_between_two_hosts(network: Network):
    here, there = (node.address for node in network.nodes)
    network.start(1, bench, "serve", there)
    measuring = network.start(0, bench, "measure", here)
    result = hear(measuring)
    (path,) = result["paths"]
    assert measuring.wait() == (1 if path["lost"] else 0)
    assert path["received"] + path["lost"] == result["published"] > 0
    assert 0 < path["mbit_per_s"] < MBIT
    assert path["first_pass"] + path["peer"] + path["logger"] >= path["received"]
    assert path["round_trip_ms"]["idle"]["p50"] > 0
    assert 0 < path["queueing_ms"]["p50"] < QUEUE_KB * 8 * 1.024 / MBIT  # less than a full queue
    assert path["probes_lost"]["idle"] < 0.1
    assert sum(result["held_by"].values()) == pytest.approx(1.0)  # it could have published far more


def test_it_says_so_if_nobody_serves():
    status, out, err = gossamer_says("bench", "--network", "measure", "--json", "--address", settings().address)
    assert status == 1
    assert json.loads(out)["paths"] == []
    assert "nobody serves" in err
