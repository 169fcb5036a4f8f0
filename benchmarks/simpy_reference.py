"""The work W(N, M) done with SimPy, as a yardstick for our own simulator.

W(N, M): the root of a balanced tree of branching 4 with N leaves multicasts M packets of 1 KB at
100/s; every link takes 5 ms and loses 0.1% of what crosses it; every leaf records exactly which
packet it got and when. `run_pbcast` does the same, and repairs what was lost with pbcast's
anti-entropy: digests, solicitations, retransmissions.

Written the usual SimPy way: one process per packet and link, which waits for a timeout and then
starts the processes of the next links. It is meant to be good code of its kind. It does not model
bandwidth and queues (so sizes do not matter), duplication, reordering or traces, and ours need not
either when compared with it.

    python benchmarks/simpy_reference.py --leaves 256 --packets 100 [--pbcast]
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Generator
from itertools import pairwise
from typing import Any

import simpy

BRANCHING = 4
GOSSIP_PERIOD_S = 0.1

Wait = Generator[simpy.Event, Any, None]
Result = dict[str, float]
Arrived = Callable[[int, int, int], None]
"""Called with the source, the target, and the digest, solicited bitmap or sequence number."""


class Tree:
    """Parents, children and leaves of a balanced tree, numbered level by level from the root, 0."""

    __slots__ = ("children", "depth", "leaves", "parent")

    def __init__(self, leaves: int) -> None:
        sizes = [leaves]
        while len(sizes) == 1 or sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // BRANCHING))
        sizes.reverse()
        self.parent = [0] * sum(sizes)
        self.children: list[list[int]] = [[] for _ in self.parent]
        self.depth = [0] * len(self.parent)
        first = 0
        for upper, lower in pairwise(sizes):
            for j in range(lower):
                node, parent = first + upper + j, first + j // BRANCHING
                self.parent[node] = parent
                self.children[parent].append(node)
                self.depth[node] = self.depth[parent] + 1
            first += upper
        self.leaves = range(first, first + leaves)

    def path(self, source: int, target: int) -> list[int]:
        """The nodes between two nodes, both included: up from each until they meet."""
        depth, parent = self.depth, self.parent
        ascent, descent = [source], [target]
        while source != target:
            if depth[source] >= depth[target]:
                source = parent[source]
                ascent.append(source)
            else:
                target = parent[target]
                descent.append(target)
        descent.pop()
        return ascent + descent[::-1]


class Network:
    """The first pass: a multicast that crosses each link of the tree in a separate process."""

    def __init__(self, leaves: int, packets: int, seed: int, loss: float, latency: float, rate: float) -> None:
        self.env = simpy.Environment()
        self.rng = random.Random(seed)
        self.tree = Tree(leaves)
        self.packets, self.loss, self.latency, self.interval = packets, loss, latency, 1 / rate
        self.got: dict[int, dict[int, float]] = {leaf: {} for leaf in self.tree.leaves}
        """For every leaf, which packets arrived, and when."""
        self.env.process(self.send())

    def send(self) -> Wait:
        for seqno in range(self.packets):
            self.published(seqno)
            for child in self.tree.children[0]:
                self.env.process(self.cross(child, seqno))
            yield self.env.timeout(self.interval)

    def cross(self, node: int, seqno: int) -> Wait:
        """Cross the link above a node."""
        yield self.env.timeout(self.latency)
        if self.rng.random() < self.loss:
            return
        children = self.tree.children[node]
        if not children:
            self.arrived(node, seqno)
        for child in children:
            self.env.process(self.cross(child, seqno))

    def published(self, seqno: int) -> None:
        pass

    def arrived(self, leaf: int, seqno: int) -> None:
        self.got[leaf][seqno] = self.env.now

    def result(self, started: float) -> Result:
        return {
            "delivered": sum(map(len, self.got.values())),
            "expected": self.packets * len(self.got),
            "sum_of_arrival_times": sum(sum(times.values()) for times in self.got.values()),
            "virtual_seconds": self.env.now,
            "seconds": time.perf_counter() - started,
        }


class Pbcast(Network):
    """The same with anti-entropy. What a member has is also kept as a bitmap, which is its digest."""

    def __init__(self, leaves: int, packets: int, seed: int, loss: float, latency: float, rate: float) -> None:
        super().__init__(leaves, packets, seed, loss, latency, rate)
        self.members = [0, *self.tree.leaves]
        self.has = dict.fromkeys(self.members, 0)
        self.missing = leaves * packets
        self.everywhere = self.env.event()
        self.digests = self.solicits = self.repairs = 0
        for member in self.members:
            self.env.process(self.gossip(member))

    def gossip(self, member: int) -> Wait:
        yield self.env.timeout(self.rng.random() * GOSSIP_PERIOD_S)
        while True:
            peer = member
            while peer == member:
                peer = self.rng.choice(self.members)
            self.digests += 1
            self.unicast(member, peer, self.digest_arrived, self.has[member])
            yield self.env.timeout(GOSSIP_PERIOD_S)

    def unicast(self, source: int, target: int, arrived: Arrived, content: int) -> None:
        self.env.process(self.hop(self.tree.path(source, target), 1, arrived, content))

    def hop(self, path: list[int], at: int, arrived: Arrived, content: int) -> Wait:
        """Cross the link of a unicast that leads to the node `path[at]`."""
        yield self.env.timeout(self.latency)
        if self.rng.random() < self.loss:
            return
        at += 1
        if at == len(path):
            arrived(path[0], path[-1], content)
        else:
            self.env.process(self.hop(path, at, arrived, content))

    def digest_arrived(self, source: int, target: int, digest: int) -> None:
        lacks = digest & ~self.has[target]
        if lacks:
            self.solicits += 1
            self.unicast(target, source, self.solicit_arrived, lacks)

    def solicit_arrived(self, source: int, target: int, wanted: int) -> None:
        while wanted:
            lowest = wanted & -wanted
            wanted ^= lowest
            self.repairs += 1
            self.unicast(target, source, self.repair_arrived, lowest.bit_length() - 1)

    def repair_arrived(self, source: int, target: int, seqno: int) -> None:
        self.arrived(target, seqno)

    def published(self, seqno: int) -> None:
        self.has[0] |= 1 << seqno

    def arrived(self, leaf: int, seqno: int) -> None:
        if seqno in self.got[leaf]:
            return
        self.got[leaf][seqno] = self.env.now
        self.has[leaf] |= 1 << seqno
        self.missing -= 1
        if not self.missing:
            self.everywhere.succeed()

    def result(self, started: float) -> Result:
        counts = {"digests": self.digests, "solicits": self.solicits, "repairs": self.repairs}
        return super().result(started) | counts


def run(
    leaves: int,
    packets: int,
    seed: int = 1,
    loss: float = 0.001,
    latency: float = 0.005,
    rate: float = 100.0,
) -> Result:
    """W(leaves, packets), first pass only, until nothing is in flight."""
    started = time.perf_counter()
    network = Network(leaves, packets, seed, loss, latency, rate)
    network.env.run()
    return network.result(started)


def run_pbcast(
    leaves: int,
    packets: int,
    seed: int = 1,
    loss: float = 0.001,
    latency: float = 0.005,
    rate: float = 100.0,
    linger: float = 60.0,
) -> Result:
    """The same with pbcast, until every leaf has every packet, or `linger` seconds after the last."""
    started = time.perf_counter()
    network = Pbcast(leaves, packets, seed, loss, latency, rate)
    limit = network.env.timeout(packets / rate + linger)
    network.env.run(until=network.everywhere | limit)
    return network.result(started)


def main() -> None:
    parser = argparse.ArgumentParser(description="W(leaves, packets) with SimPy.")
    parser.add_argument("--leaves", type=int, default=256)
    parser.add_argument("--packets", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pbcast", action="store_true", help="repair losses with anti-entropy")
    options = parser.parse_args()
    if options.leaves < 1 or options.packets < 1:
        parser.error("--leaves and --packets must be at least 1")
    work = run_pbcast if options.pbcast else run
    sys.stdout.write(json.dumps(work(options.leaves, options.packets, options.seed)) + "\n")


if __name__ == "__main__":
    main()
