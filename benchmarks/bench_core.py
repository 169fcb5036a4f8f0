"""The automata themselves: packets per second through a receiver on one core, and pbcast simulated against SimPy.

`in order` feeds runs of 40 consecutive packets; `1% gaps` loses every hundredth packet, asks for it, and gets it as
a repair some runs later. W+(N, M) is the work of `bench_sim.py` plus pbcast's anti-entropy until every member has
everything, with the real `pbcast` preset on our side, including FIFO order, buffers, stability and limits.

What the numbers do not show: decoding, sealing and sockets (the costs of a live member), and any other protocol.

    python benchmarks/bench_core.py [--quick]
"""

import sys
import tracemalloc
from random import Random
from time import perf_counter

import simpy_reference
from gossamer.core.effects import Deliver
from gossamer.core.inputs import Received, Started
from gossamer.core.packets import Packet
from gossamer.presets import preset
from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse
from gossamer.stack import Stack

RUN = 40


def receiver(protocol: str) -> Stack:
    """One member of a group of eight, with a logger where the protocol has one."""
    settings = preset(protocol)
    stack = Stack(1, tuple(range(8)), settings, Random(1), loggers=(7,) if settings.loggers else ())
    stack.step(0.0, Started({}))
    return stack


def in_order(protocol: str, packets: int) -> float:
    """Packets per second, nothing lost."""
    stack = receiver(protocol)
    runs = [[Packet(0, n, b"x" * 64) for n in range(at, at + RUN)] for at in range(0, packets, RUN)]
    delivered = 0
    started = perf_counter()
    for i, run in enumerate(runs):
        for effect in stack.step(i * 1e-4, Received(0, run, "first_pass")):
            if type(effect) is Deliver:
                delivered += len(effect.run)
    seconds = perf_counter() - started
    assert delivered == packets
    return packets / seconds


def with_gaps(protocol: str, packets: int) -> float:
    """Packets per second; every hundredth is lost at first and repaired five runs later."""
    stack = receiver(protocol)
    inputs: list[Received] = []
    late: list[tuple[int, Packet]] = []
    for at in range(0, packets, RUN):
        run: list[Packet] = []
        for n in range(at, at + RUN):
            if n % 100 == 50:
                late.append((at + 5 * RUN, Packet(0, n, b"x" * 64)))
                inputs.append(Received(0, run, "first_pass"))
                run = []
            else:
                run.append(Packet(0, n, b"x" * 64))
        inputs.append(Received(0, run, "first_pass"))
        while late and late[0][0] <= at:
            inputs.append(Received(2, [late.pop(0)[1]], "peer"))
    inputs += [Received(2, [packet], "peer") for _, packet in late]
    delivered = 0
    started = perf_counter()
    for i, happened in enumerate(inputs):
        for effect in stack.step(i * 1e-4, happened):
            if type(effect) is Deliver:
                delivered += len(effect.run)
    seconds = perf_counter() - started
    assert delivered == packets, (delivered, packets)
    return packets / seconds


def work_plus(leaves: int, packets: int) -> dict:
    """W+(leaves, packets) with the preset `pbcast`."""
    return simulate(
        parse(
            {
                "name": f"W+({leaves}, {packets})",
                "duration": packets / 100.0,
                "linger": 60.0,
                "topology": {"kind": "tree", "members": leaves + 1, "branching": 4, "bandwidth": 0},
                "loss": {"link": 0.001},
                "traffic": {"senders": 1, "rate": 100.0, "arrivals": "steady"},
                "protocol": {"name": "pbcast", "gossip_period": 0.1},
            }
        )
    )


def memory_per_member(leaves: int, packets: int) -> float:
    """Bytes of the whole simulation at its peak, per member."""
    tracemalloc.start()
    work_plus(leaves, packets)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / leaves


def main() -> None:
    """Measure and print everything."""
    quick = "--quick" in sys.argv
    packets = 100_000 if quick else 400_000
    print("packets per second through one receiver")
    for protocol in ("rpbcast", "lbrm", "pbcast"):
        best_in_order = max(in_order(protocol, packets) for _ in range(3))
        best_with_gaps = max(with_gaps(protocol, packets) for _ in range(3))
        print(f"{protocol:8}  in order {best_in_order:12,.0f}   with 1% gaps {best_with_gaps:12,.0f}")
    leaves, sent = (256, 200) if quick else (1024, 1000)
    ours = min((work_plus(leaves, sent) for _ in range(2)), key=lambda r: r["wall_seconds"])
    theirs = simpy_reference.run_pbcast(leaves, sent)
    print(
        f"W+({leaves}, {sent}): SimPy {theirs['seconds']:.1f} s, ours {ours['wall_seconds']:.2f} s, "
        f"{theirs['seconds'] / ours['wall_seconds']:.1f}x; delivered {ours['deliveries']['actual']:,} "
        f"of {ours['deliveries']['expected']:,}"
    )
    print(f"memory per member: {memory_per_member(leaves, min(sent, 300)) / 1000:.0f} KB")


if __name__ == "__main__":
    main()
