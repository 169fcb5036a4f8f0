"""The hashes that choose bufferers (003 §4): how fair they are, by chi-square, and what they cost for each packet.

    python benchmarks/bench_buffering.py [--packets 20000]

Fair means: numbers are spread evenly over their range, members are chosen equally often, and the number of bufferers of
a packet is distributed as if each member had drawn a lot for itself (binomial). A p-value below 0.001 says that it is
not so. Members are numbered from 0, as in simulations, or have random numbers, as live. The cost is that of one member
deciding which packets of a run it keeps; it does not include storing them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from random import Random
from time import perf_counter

from scipy.stats import binom, chisquare

from gossamer.buffering.bufferers import Bufferers
from gossamer.buffering.hashes import BLOCK, HASHES, RANGE
from gossamer.core.roster import Roster
from gossamer.presets import preset

COPIES = 6


def fairness(kind: str, members: Sequence[int], packets: int) -> dict[str, float]:
    """The p-values of the three tests, the mean number of bufferers and its variance against the binomial's."""
    threshold = COPIES * RANGE // len(members)
    numbers = [[n for b in range(packets // BLOCK) for n in HASHES[kind](m, 17, b)] for m in members]
    over_range = Counter(n * 64 // RANGE for some in numbers for n in some)
    places = [sum(some[at] < threshold for some in numbers) for at in range(len(numbers[0]))]
    share = COPIES / len(members)
    most = 2 * COPIES
    seen = Counter(min(most, count) for count in places)
    expected = [len(places) * binom.pmf(k, len(members), share) for k in range(most)]
    expected.append(len(places) - sum(expected))
    mean = sum(places) / len(places)
    variance = sum((count - mean) ** 2 for count in places) / len(places)
    return {
        "range": chisquare([over_range[at] for at in range(64)]).pvalue,
        "members": chisquare([sum(n < threshold for n in some) for some in numbers]).pvalue,
        "places": chisquare([seen[k] for k in range(most + 1)], expected).pvalue,
        "mean": mean,
        "variance": variance / (COPIES * (1 - share)),
        "nowhere": sum(count == 0 for count in places) / len(places),
    }


def cost_ns(kind: str, packets: int) -> float:
    """Nanoseconds for each packet of runs of 64, in a group of 64."""
    settings = preset("pbcast", {"buffering": "hashed", "bufferers": COPIES, "buffer_hash": kind})
    bufferers = Bufferers(settings, Roster(5, tuple(range(64))))
    best = float("inf")
    for _ in range(5):
        began = perf_counter()
        for first in range(0, packets, 64):
            bufferers.mine(3, first, first + 63)
        best = min(best, perf_counter() - began)
    return best / packets * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=20_000)
    packets = parser.parse_args().packets // BLOCK * BLOCK
    rng = Random("ids")
    kinds = {"numbered": range(64), "random": [rng.getrandbits(63) for _ in range(64)]}
    print(f"{packets} packets, 64 members, C = {COPIES}; p-values of chi-square tests")
    print("hash     members   over range  by member   places      mean   variance/binomial  nowhere (binomial: 0.18%)")
    for kind in HASHES:
        for name, members in kinds.items():
            one = fairness(kind, list(members), packets)
            print(
                f"{kind:8} {name:9} {one['range']:<11.2g} {one['members']:<11.2g} {one['places']:<11.2g}"
                f" {one['mean']:<6.2f} {one['variance']:<18.2f} {one['nowhere']:.2%}"
            )
    for kind in HASHES:
        print(f"{kind:8} {cost_ns(kind, packets):.0f} ns for each packet")


if __name__ == "__main__":
    main()
