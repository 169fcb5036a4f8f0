"""The simulator against SimPy doing the same work, side by side in one run.

W(N, M): the root of a balanced tree of branching 4 with N leaves multicasts M packets of 1 KB at 100/s; every link
takes 5 ms and loses 0.1% of what crosses it; every leaf learns exactly what it got and when. SimPy does it the usual
way, a process per packet and link (`simpy_reference.py`); ours runs a whole protocol stack per leaf.

What the numbers do not show: SimPy's version models neither bandwidth nor queues, so ours is measured without them
first (`bandwidth = 0`); the second line adds them on our side only. Every number includes the machine's noise: run it
twice, and trust the ratios, not the seconds.

    python benchmarks/bench_sim.py [--quick]
"""

import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import simpy_reference
from gossamer.sim.run import build_topology, metadata, simulate
from gossamer.sim.scenario import Scenario, parse
from gossamer.trace.writer import TraceWriter


def work(leaves: int, packets: int, bandwidth: float = 0.0) -> Scenario:
    """W(leaves, packets) as a scenario."""
    return parse(
        {
            "name": f"W({leaves}, {packets})",
            "duration": packets / 100.0,
            "linger": 5.0,
            "topology": {"kind": "tree", "members": leaves + 1, "branching": 4, "bandwidth": bandwidth},
            "loss": {"link": 0.001},
            "traffic": {"senders": 1, "rate": 100.0, "arrivals": "steady"},
            "protocol": {"name": "unreliable"},
        }
    )


def ours(leaves: int, packets: int, bandwidth: float = 0.0, runs: int = 3) -> tuple[float, dict[str, Any]]:
    """The best time of a few runs, and the result of the last."""
    best, result = float("inf"), {}
    for _ in range(runs):
        started = perf_counter()
        result = simulate(work(leaves, packets, bandwidth))
        best = min(best, perf_counter() - started)
    return best, result


def traced(leaves: int, packets: int, runs: int = 3) -> float:
    """The same with every row written to a Parquet file."""
    best = float("inf")
    scenario = work(leaves, packets)
    topology = build_topology(scenario)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            started = perf_counter()
            with TraceWriter(Path(folder) / "trace.parquet", "bench", metadata(scenario, leaves + 1)) as sink:
                simulate(scenario, sink=sink, topology=topology)
            best = min(best, perf_counter() - started)
    return best


def main() -> None:
    """Print the ratios, then the curve."""
    packets = 200 if "--quick" in sys.argv else 1000
    ours(64, 10, runs=1)  # imports, caches
    print(f"W(N, {packets})    SimPy     ours   ratio   delivered by SimPy, by us (of N * {packets})")
    for leaves in (64, 256, 1024):
        seconds, result = ours(leaves, packets)
        reference = simpy_reference.run(leaves, packets)
        delivered = result["deliveries"]["actual"] - result["packets"]["sent"]
        print(
            f"N = {leaves:5}  {reference['seconds']:7.2f} s {seconds:7.3f} s  {reference['seconds'] / seconds:5.1f}x"
            f"   {reference['delivered']:,.0f}, {delivered:,}"
        )
    plain, _ = ours(1024, packets)
    with_queues, _ = ours(1024, packets, bandwidth=100e6)
    print(f"with bandwidth and queues on our side: {with_queues:.3f} s, {with_queues / plain:.2f} times {plain:.3f} s")
    with_trace = traced(1024, packets)
    plain, _ = ours(1024, packets)
    print(f"with every row traced to Parquet: {with_trace:.3f} s, {with_trace / plain:.2f} times {plain:.3f} s")
    print("the curve: microseconds per packet and leaf (flat is linear)")
    for leaves in (64, 256, 1024, 4096):
        seconds, _ = ours(leaves, packets, runs=2)
        print(f"N = {leaves:5}  {seconds:7.3f} s  {1e6 * seconds / leaves / packets:.3f} us")


if __name__ == "__main__":
    main()
