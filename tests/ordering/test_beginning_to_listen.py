"""One order over channels: a member that begins to listen is owed what has its turn from then on, and gets it."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.sim.checked import traced
from gossamer.sim.scenario import parse


def listens(at: float, member: int, *channels: str) -> dict[str, Any]:
    return {"at": at, "kind": "listen", "members": [member], "channels": list(channels)}


BEGINNINGS = {
    "for the first time": [listens(3.0, 3, "alpha")],
    "again": [listens(2.5, 2), listens(3.0, 2, "alpha")],
}


@pytest.mark.parametrize("how", BEGINNINGS)
def test_what_waits_for_its_turn_is_kept_for_those_that_begin_to_listen(how):
    """Most sites stand still, so that nothing has its turn; everybody who listens has everything meanwhile."""
    still = {"at": 1.0, "kind": "crash", "members": [0, 4, 5, 6, 7], "memory": "kept", "for": 3.0}
    scenario = {
        "name": "beginning to listen",
        "duration": 5.0,
        "linger": 60.0,
        "grace": 7.0,
        "topology": {"kind": "lan", "members": 9, "latency": 0.002},
        "traffic": {"senders": 1, "rate": 40.0, "size": 200},
        "protocol": {"name": "rpbcast", "loggers": 1, "membership": "sponsored", "ordering": "total", "channels": 2},
        "channel": [{"name": "alpha", "members": [1, 2], "senders": [1]}],
        "fault": [still, *BEGINNINGS[how]],
    }
    scenario["protocol"] |= {"gossip_period": 0.1, "gc_rounds": 3, "order_patience": 30.0}
    result = traced(parse(scenario))
    assert result["latency"]["max"] > 2.0, "they had to wait"
    assert result["violations"] == []
    assert result["packets"]["lost"] == 0
