"""First passes that go by way of other members do not carry more than these take."""

from gossamer.sim.checked import traced
from gossamer.sim.scenario import parse

WINDOW = 64
SLOW_PRIMARY = {
    "duration": 0.4,
    "linger": 60.0,
    # the line of member 0 takes an eighth of what member 1 sends; in each direction there is room for three windows
    "topology": {
        "kind": "star",
        "members": 4,
        "latency": 0.0005,
        "bandwidth": 1e9,
        "slow": [0],
        "slow_bandwidth": 20e6,
        "queue": 3 * WINDOW,
        "exact": True,
    },
    "traffic": {"rate": 20_000.0, "size": 1000, "arrivals": "burst"},
    "channel": [{"name": "all", "members": [0, 1, 2, 3], "senders": [1]}],
    "protocol": {
        "name": "rpbcast",
        "ordering": "total",
        "dissemination": "graph",
        "membership": "static",
        "buffering": "size",
        "buffer_packets": 3000,
        "selection": "uniform",
        "round_trips": True,
        "gossip_period": 0.05,
        "ask_again": 0.001,
        "idle_after": 0.005,
        "loss_patience": 5.0,
        "loggers": 0,
        "service_limit": 20_000,
        "request_packets": WINDOW,
        "window": WINDOW,
        "reach": 2200,
        "queue_packets": 200_000,
    },
}


def test_a_primary_whose_line_is_slow_gets_no_more_than_a_window_to_pass_on():
    """A sender that waits for its window soon sends a heartbeat, which comes before the packets that it speaks of."""
    result = traced(parse(SLOW_PRIMARY))
    assert result["order"]["primary"] == 0
    assert result["violations"] == []
    assert result["queue_drops"] == 0
    assert result["packets"]["lost"] == 0
    assert result["repairs"]["sent"] < result["packets"]["sent"] / 50, "hardly anything is asked for that is on its way"
    assert result["packets"]["everywhere"] == result["packets"]["sent"] > 7_000
