"""Real processes on a real network: packets that the kernel loses, and partitions that it makes and heals.

The publisher lives on node 0, the subscribers on nodes 1 and 2. A subscriber says what it heard as a list of pieces:
`[first, last]` for numbers without a gap, the reason for a loss that was reported in its place.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from random import Random
from statistics import quantiles
from subprocess import Popen
from time import sleep, time
from typing import Any

import pytest

import gossamer
from tests.netns import Network, Unavailable, hear, say, tell

MEMBERS = 3
RATE = 3_000
"""Events/s, ten to a burst: some 300 packets/s."""
BURST = 10
PATIENCE_S = 60.0
OPEN = {"insecure": True}
SEALED = {"key": Random(1).randbytes(32).hex()}
Pieces = list[Any]


@pytest.fixture
def network() -> Iterator[Network]:
    """Three nodes, or a skip that says why there are none."""
    try:
        with Network(MEMBERS) as network:
            yield network
    except Unavailable as reason:
        pytest.skip(f"NO REAL NETWORK TESTED: {reason}")


# What runs on the nodes.


def publish(settings: str, events: str) -> None:
    """Wait for everybody and a line; publish; stay, to repair, until the end of the input."""

    async def story() -> None:
        async with gossamer.join("namespace", gossamer.Settings(**json.loads(settings))) as group:
            while len(group.members()) < MEMBERS:
                await asyncio.sleep(0.05)
            say("ready")
            await asyncio.to_thread(sys.stdin.readline)
            for n in range(int(events)):
                group.publish("n", b"%d" % n)
                if n % BURST == BURST - 1:
                    await asyncio.sleep(BURST / RATE)
            say("published")
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


def subscribe(settings: str, events: str) -> None:
    """Hear everything up to the last number; say it in pieces, and how late half and nine of ten came, in seconds.

    Stay, to repair, until the end of the input.
    """

    async def story() -> None:
        async with gossamer.join("namespace", gossamer.Settings(**json.loads(settings))) as group:
            heard = group.subscribe(">")
            say("ready")
            pieces: Pieces = []
            late: list[float] = []
            with suppress(TimeoutError):  # then the pieces show how far it came
                async with asyncio.timeout(PATIENCE_S):
                    async for item in heard:
                        add(pieces, item)
                        late += [time() - item.time] if isinstance(item, gossamer.Event) else []
                        if isinstance(pieces[-1], list) and pieces[-1][1] == int(events) - 1:
                            break
            say(pieces)
            say(quantiles(late, n=10)[4::4])
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


def add(pieces: Pieces, item: gossamer.Event | gossamer.Lost) -> None:
    """Lengthen the last piece, or begin another."""
    if isinstance(item, gossamer.Lost):
        pieces.append(item.reason)
        return
    number = int(item.payload)
    if pieces and isinstance(pieces[-1], list) and pieces[-1][1] == number - 1:
        pieces[-1][1] = number
    else:
        pieces.append([number, number])


# What the test does with them.


class Story:
    """A publisher and two subscribers, started and in one group."""

    def __init__(self, network: Network, events: int, nodes: Sequence[int] = (1, 2, 0), **settings: Any) -> None:
        """The publisher is on the last of the `nodes`."""
        self.network = network
        roles = [subscribe] * (MEMBERS - 1) + [publish]
        self._children: list[Popen[str]] = []
        for node, role in zip(nodes, roles, strict=True):
            own = json.dumps({"interface": network.nodes[node].address, **settings})
            self._children.append(network.start(node, role, own, str(events)))
        *self.subscribers, self.publisher = self._children
        assert [hear(child) for child in self._children] == ["ready"] * MEMBERS

    def go(self) -> None:
        """Begin to publish."""
        tell(self.publisher, "go")

    def cut(self, seconds: float) -> None:
        """Cut the last subscriber off for a while, in the midst of it."""
        sleep(0.5)
        self.network.partition([0, 1], [2])
        sleep(seconds)
        assert self.network.dropped() > 0
        self.network.heal()

    def heard(self) -> list[Pieces]:
        """What each subscriber heard, in pieces."""
        assert hear(self.publisher) == "published"
        return [hear(subscriber) for subscriber in self.subscribers]

    def late(self) -> list[list[float]]:
        """How late half of the events were at each subscriber, and nine of ten, after what was `heard`."""
        return [hear(subscriber) for subscriber in self.subscribers]


@pytest.mark.parametrize("trust", [OPEN, SEALED], ids=["open", "sealed"])
def test_with_five_percent_of_real_loss_every_event_arrives_once_and_in_order(network: Network, trust: dict[str, Any]):
    network.lose(5)
    story = Story(network, 6_000, **trust)
    story.go()

    assert story.heard() == [[[0, 5_999]], [[0, 5_999]]]
    assert network.dropped() > 20  # the loss was real


def test_with_five_percent_of_real_loss_most_events_arrive_soon(network: Network):
    """Both subscribers are on one node, and so lose the same: every other member that they could ask is of no use."""
    network.lose(5)
    story = Story(network, 6_000, nodes=(1, 1, 0), **OPEN)
    story.go()

    assert story.heard() == [[[0, 5_999]], [[0, 5_999]]]
    for half, most in story.late():  # a round is 50 ms
        assert half < 0.01
        assert most < 0.04


@pytest.mark.parametrize("seconds", [3, pytest.param(15, marks=pytest.mark.soak)])
def test_after_a_partition_everything_that_was_kept_long_enough_arrives(network: Network, seconds: int):
    events = RATE * (seconds + 2)
    story = Story(network, events, **OPEN)  # the buffers of the default hold tens of thousands of packets
    story.go()
    story.cut(seconds)

    assert story.heard() == [[[0, events - 1]], [[0, events - 1]]]


@pytest.mark.parametrize("deaf", [0, 2], ids=["the publisher", "a subscriber"])
@pytest.mark.parametrize("seconds", [3, pytest.param(15, marks=pytest.mark.soak)])
def test_after_a_partition_in_one_direction_everything_arrives(network: Network, deaf: int, seconds: int):
    """One node hears none of the others, which hear it: for longer than it takes to suspect each other, or not."""
    events = RATE * (seconds + 2)
    story = Story(network, events, **OPEN)
    story.go()
    sleep(0.5)
    network.deafen(deaf)
    sleep(seconds)
    assert network.dropped() > 0
    network.heal()

    assert story.heard() == [[[0, events - 1]], [[0, events - 1]]]


@pytest.mark.soak
@pytest.mark.parametrize("trust", [OPEN, SEALED], ids=["open", "sealed"])
def test_after_partitions_that_come_and_go_everything_arrives(network: Network, trust: dict[str, Any]):
    rng, events = Random(3), RATE * 30
    story = Story(network, events, **trust)
    story.go()
    for _ in range(10):
        one, *others = rng.sample(range(MEMBERS), MEMBERS)
        if rng.random() < 0.5:
            network.partition([one], others)
        else:
            network.deafen(one)
        sleep(rng.uniform(0.2, 4.0))
        network.heal()
        sleep(rng.uniform(0.1, 1.0))

    assert story.heard() == [[[0, events - 1]], [[0, events - 1]]]


def test_after_a_partition_what_nobody_kept_is_reported_in_its_place(network: Network):
    events = RATE * 4
    story = Story(network, events, tuning={"buffer_packets": 100}, **OPEN)
    story.go()
    story.cut(2)

    near, far = story.heard()
    assert near == [[0, events - 1]]
    runs = [piece for piece in far if isinstance(piece, list)]
    assert runs[0][0] == 0
    assert runs == sorted(runs)  # nothing twice, nothing out of order
    assert len(runs) > 1  # something was lost
    assert not any(isinstance(a, list) and isinstance(b, list) for a, b in pairwise(far))  # no gap without a word
