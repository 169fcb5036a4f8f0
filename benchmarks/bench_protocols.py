"""What the simulator takes for a packet with each of the protocols that the papers compare, side by side in one run.

96 members, one of which publishes 100 packets of 1 KB a second; every link takes 5 ms and loses 0.1% of what crosses
it, in a tree and in a star (004 Fig. 13). Protocols take turns, and the best of a few rounds counts: processor time for
each packet that was sent, and as a multiple of pbcast's.

What it does not show: what the protocols cost in a live group. SRM and virtual synchrony send more messages that
everybody hears, and that is what is measured here.

    python benchmarks/bench_protocols.py [--members 96] [--rounds 3] [--seconds 5]
"""

import argparse
from time import process_time
from typing import Any

from gossamer.sim.run import simulate
from gossamer.sim.scenario import Scenario, parse

PROTOCOLS: dict[str, dict[str, Any]] = {
    "pbcast": {"name": "pbcast"},
    "rpbcast": {"name": "rpbcast"},
    "redelivery": {"name": "redelivery"},
    "srm": {"name": "srm"},
    "srm, adaptive": {"name": "srm", "adaptive_timers": True},
    "virtual-synchrony": {"name": "virtual-synchrony"},
}


def scenario(kind: str, protocol: dict[str, Any], options: argparse.Namespace) -> Scenario:
    """One of the two networks with one of the protocols."""
    return parse(
        {
            "duration": options.seconds,
            "linger": 60.0,
            "topology": {"kind": kind, "members": options.members, "branching": 4, "latency": 0.005},
            "loss": {"link": 0.001},
            "traffic": {"senders": 1, "rate": 100.0, "size": 1024, "arrivals": "steady"},
            "protocol": protocol,
        }
    )


def microseconds(made: Scenario) -> float:
    """Processor time for each packet that was sent."""
    started = process_time()
    sent = simulate(made)["packets"]["sent"]
    return 1e6 * (process_time() - started) / sent


def main() -> None:
    """Print a table for each network."""
    parser = argparse.ArgumentParser(description="The simulator's time per packet, by protocol.")
    parser.add_argument("--members", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    for kind in ("tree", "star"):
        best = dict.fromkeys(PROTOCOLS, float("inf"))
        for _ in range(options.rounds):
            for name, protocol in PROTOCOLS.items():
                best[name] = min(best[name], microseconds(scenario(kind, protocol, options)))
        print(f"{kind} of {options.members} members")
        for name, taken in best.items():
            print(f"  {name:18} {taken:7.0f} us a packet  {taken / best['pbcast']:5.2f} times pbcast")


if __name__ == "__main__":
    main()
