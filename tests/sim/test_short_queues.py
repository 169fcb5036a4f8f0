"""After a partition the far side gets what it missed as fast as the link carries it, and hardly a packet is dropped."""

import pytest

from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse

RATE, CUT_S = 2_000.0, 8.0
MISSED = RATE * CUT_S
LINK = 100e6 / 8 / 1064
"""Packets a second."""
AS_LIVE_GROUPS_HAVE_IT = {
    "name": "rpbcast",
    "repair": ["negative"],
    "loggers": 0,
    "buffering": "size",
    "buffer_packets": 48_000,
    "membership": "static",
    "ordering": "fifo",
    "selection": "uniform",
    "round_trips": True,
    "gossip_period": 0.05,
    "ask_again": 0.001,
    "idle_after": 0.005,
    "loss_patience": 120.0,
    "service_limit": 20_000,
    "request_packets": 699,
    "window": 699,
    "reach": 36_000,
    "congestion": "delay",
    "queue_packets": 20_000,
}


@pytest.mark.parametrize(
    ("far", "queue", "dropped"),
    [(1, 50, 0.04), (1, 250, 0.005), (4, 50, 0.05), (4, 250, 0.005)],
)
def test_a_heal_fills_a_link_and_does_not_overflow_it(tmp_path, far, queue, dropped):
    members = [f"m{n}" for n in range(2 + far)]
    near = [f"left,{member},0.0001" for member in members[:2]]
    away = [f"right,{member},0.0001" for member in members[2:]]
    lines = [f"members: {','.join(members)}", "left,right,0.01,0,100e6", *near, *away]
    (tmp_path / "sides.edges").write_text("\n".join(lines) + "\n", "ascii")
    drops = repairs = 0
    for seed in (1, 2, 3):  # one of them says little: what a queue drops differs by a factor of three
        result = simulate(
            parse(
                {
                    "seed": seed,
                    "duration": 2.0 + CUT_S + 1.0,
                    "topology": {"kind": "file", "path": "sides.edges", "queue": queue},
                    "traffic": {"rate": RATE, "size": 1000},
                    "protocol": AS_LIVE_GROUPS_HAVE_IT,
                    "fault": [{"at": 2.0, "kind": "cut", "link": [0, 1], "for": CUT_S}],
                },
                str(tmp_path),
            )
        )
        caught_up = result["virtual_seconds"] - 0.5 - 2.0 - CUT_S  # it ends half a second after the last delivery
        assert result["packets"]["lost"] == 0
        assert not result["outstanding"]
        assert caught_up <= 1.7 * far * MISSED / (LINK - RATE)
        drops += result["queue_drops"]
        repairs += result["repairs"]["sent"]
    assert drops <= dropped * repairs
