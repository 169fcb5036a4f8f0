"""Polled stability: a sender asks until all have its packets, those that are away included."""

from gossamer.sim.checked import traced
from gossamer.sim.scenario import parse


def test_a_member_that_was_away_is_asked_when_it_is_back():
    """Nothing else would tell it of a sender that said all that it had to say meanwhile."""
    protocol = {
        "name": "unreliable",
        "repair": ["negative", "logger"],
        "buffering": "size",
        "buffer_packets": 60,
        "heartbeat": "none",
        "membership": "sponsored",
        "loggers": 1,
        "stability": "polled",
    }
    result = traced(
        parse(
            {
                "name": "away",
                "seed": 1,
                "duration": 2.0,
                "linger": 60.0,
                "topology": {"kind": "lan", "members": 5, "latency": 0.002},
                "traffic": {"senders": 1, "rate": 20.0, "size": 64, "arrivals": "steady"},
                "protocol": protocol,
                "fault": [{"at": 0.01, "kind": "disconnect", "members": [2], "for": 6.0}],
                "grace": 10.0,
            }
        )
    )
    assert result["violations"] == []
    assert (result["outstanding"], result["packets"]["lost"]) == (0, 0)
