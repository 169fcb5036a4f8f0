"""Members that leave as applications do: not before nobody needs them any more."""

from __future__ import annotations

import pytest

from gossamer.sim.checked import traced
from gossamer.sim.scenario import Scenario, parse


def back_and_away(loggers: int, seed: int) -> Scenario:
    """A sender crashes, comes back without its memory, publishes a few packets, and leaves at once."""
    return parse(
        {
            "seed": seed,
            "duration": 3.0,
            "linger": 60.0,
            "topology": {"kind": "lan", "members": 6},
            "loss": {"member": 0.05},
            "traffic": {"rate": 100.0, "size": 100, "senders": 3},
            "fault": [
                {"at": 1.0, "kind": "crash", "members": [1], "memory": "lost", "for": 0.3},
                {"at": 1.45, "kind": "leave", "members": [1]},
            ],
            "protocol": {
                "name": "rpbcast",
                "membership": "sponsored",
                "gossip_period": 0.1,
                "retry_period": 0.1,
                "loggers": loggers,
                "ordering": "fifo",
            },
        }
    )


@pytest.mark.parametrize("loggers", [0, 1, 2])
@pytest.mark.parametrize("seed", range(2, 8))
def test_nobody_waits_for_numbers_that_a_sender_left_out_and_took_its_knowledge_of_with_it(loggers, seed):
    """Only the sender can say that they never were, and it does before it goes."""
    result = traced(back_and_away(loggers, seed))
    assert result["violations"] == []
    assert result["outstanding"] == 0
