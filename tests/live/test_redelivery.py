"""A real partition with coordinators: two sides of four members, joined by one link that the kernel cuts and counts.

    hub A: bridge ---- link ---- bridge :hub B        everybody is in a namespace of its own
           0 1 2 3                4 5 6 7

The publisher is member 0. The others hear everything, whatever side they are on, and say so.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from subprocess import Popen
from time import sleep
from typing import Any

import pytest

import gossamer
from gossamer.cli.partitions import sides as sides_of
from gossamer.live.probe import probe
from tests import netns
from tests.live.test_namespace import hear, say
from tests.netns import Network, Node, Unavailable, run

MEMBERS = 8
RATE = 150
PAYLOAD_BYTES = 1000
WIRE_BYTES = PAYLOAD_BYTES + 75
"""What one event takes on the link: its payload, ours and IP's headers."""


class TwoSides(Network):
    """The nodes of a network on two bridges, with one link between them."""

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes)
        self._far = Node(self.hub.namespace.replace("-hub", "-far"), "")

    def _build(self) -> None:
        super()._build()
        run("ip", "netns", "add", self._far.namespace)
        far = ("ip", "-n", self._far.namespace, "link")
        run(*far, "add", "bridge", "type", "bridge", "mcast_snooping", "0", "stp_state", "0")
        run(*far, "set", "bridge", "up")
        for n in range(len(self.nodes) // 2, len(self.nodes)):
            run("ip", "-n", self.hub.namespace, "link", "set", "dev", f"port{n}", "netns", self._far.namespace)
            run(*far, "set", "dev", f"port{n}", "master", "bridge", "mtu", "1500", "up")
        run(*far, "add", "trunk", "type", "veth", "peer", "name", "trunk", "netns", self.hub.namespace)
        for hub in (self.hub, self._far):
            run("ip", "-n", hub.namespace, "link", "set", "dev", "trunk", "master", "bridge", "up")
            hub.filter('table netdev cut {\n chain out { type filter hook egress device "trunk" priority 0; }\n}\n')

    def _remove(self) -> None:
        super()._remove()
        if (self._far.namespace + "\n") in run("ip", "netns", "list").replace(" ", "\n"):
            run("ip", "netns", "delete", self._far.namespace)

    def cut(self) -> None:
        """Nothing crosses the link any more."""
        for hub in (self.hub, self._far):
            hub.filter("add rule netdev cut out counter drop\n")

    def mend(self) -> None:
        """The link works again."""
        for hub in (self.hub, self._far):
            hub.filter("flush chain netdev cut out\n")

    def crossed(self) -> int:
        """The bytes that went over the link, in both directions."""
        hubs = (self.hub.namespace, self._far.namespace)
        shown = [json.loads(run("ip", "-n", hub, "-s", "-j", "link", "show", "dev", "trunk")) for hub in hubs]
        return sum(int(found[0]["stats64"]["tx"]["bytes"]) for found in shown)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoSides]:
    monkeypatch.setattr(netns, "CHILD_LIMIT_S", 200)  # the longest story takes more than a minute
    try:
        with TwoSides(MEMBERS) as network:
            yield network
    except Unavailable as reason:
        pytest.skip(f"NO REAL NETWORK TESTED: {reason}")


# What runs on the nodes.


def publish(settings: str, events: str) -> None:
    """Wait for everybody and a line; publish; stay until the end of the input."""

    async def story() -> None:
        async with gossamer.join("sides", gossamer.Settings(**json.loads(settings))) as group:
            while len(group.members()) < MEMBERS:
                await asyncio.sleep(0.05)
            say("ready")
            await asyncio.to_thread(sys.stdin.readline)
            clock = asyncio.get_running_loop().time
            began = clock()
            for n in range(int(events)):
                await group.publish_wait("n", b"%d " % n + bytes(PAYLOAD_BYTES - 10))
                await asyncio.sleep(max(0.0, began + n / RATE - clock()))  # a busy machine does not make it longer
            say("published")
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


def subscribe(settings: str, events: str) -> None:
    """Hear as many events as there are; say how many different ones, and whether in order; stay."""

    async def story() -> None:
        async with gossamer.join("sides", gossamer.Settings(**json.loads(settings))) as group:
            heard = group.subscribe(">")
            say("ready")
            numbers: list[int] = []
            async with asyncio.timeout(int(events) / RATE + 60):
                async for item in heard:
                    assert isinstance(item, gossamer.Event), item
                    numbers.append(int(item.payload.split()[0]))
                    if numbers[-1] == int(events) - 1:
                        break
            say([len(numbers), numbers == list(range(int(events)))])
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


def look(settings: str) -> None:
    """What an operator on this node sees of the sides."""
    say(sides_of(asyncio.run(probe("sides", gossamer.Settings(**json.loads(settings)), wait=1.5))))


# The story.


class Story:
    def __init__(self, network: TwoSides, protocol: str, seconds: float) -> None:
        self.network = network
        self.seconds = seconds
        self.events = int(RATE * (seconds + 3))
        self._settings = {"protocol": protocol, "insecure": True}
        children = [self._start(node, subscribe) for node in range(1, MEMBERS)]
        self.publisher, self.subscribers = self._start(0, publish), children
        assert [hear(child) for child in [*children, self.publisher]] == ["ready"] * MEMBERS

    def _start(self, node: int, role: Any) -> Popen[str]:
        return self.network.start(node, role, self._own(node), str(self.events))

    def _own(self, node: int) -> str:
        return json.dumps({"interface": self.network.nodes[node].address, "name": f"m{node}", **self._settings})

    def seen_from(self, node: int) -> list[dict[str, Any]]:
        return list(hear(self.network.start(node, look, self._own(node))))

    def run(self) -> float:
        """Cut the link in the midst of it; returns how many copies of everything went over the link."""
        before = self.network.crossed()
        assert self.publisher.stdin is not None
        self.publisher.stdin.write("go\n")
        self.publisher.stdin.flush()
        sleep(1.0)
        self.network.cut()
        sleep(self.seconds)
        self.during = self.seen_from(4) if self.seconds >= 2 else []
        self.network.mend()
        assert hear(self.publisher) == "published"
        assert [hear(child) for child in self.subscribers] == [[self.events, True]] * (MEMBERS - 1)
        sleep(0.5)
        return (self.network.crossed() - before) / (self.events * WIRE_BYTES)


@pytest.mark.parametrize("seconds", [2, *(pytest.param(n, marks=pytest.mark.soak) for n in (15, 60))])
def test_what_a_side_missed_crosses_the_mended_link_once(network: TwoSides, seconds: int):
    story = Story(network, "redelivery", seconds)
    copies = story.run()
    assert copies < 1.3
    far = {member["name"] for side in story.during for member in side["members"]}
    assert far == {"m4", "m5", "m6", "m7"}
    assert len(story.during) == 1
    absent = {member["name"] for side in story.during for member in side["absent"]}
    assert absent
    assert absent <= {"m0", "m1", "m2", "m3"}
    (whole,) = story.seen_from(4)
    assert len(whole["members"]) == MEMBERS
    assert whole["absent"] == []
    assert whole["healed"]["filled"] + whole["healed"]["received"] > 0


@pytest.mark.soak
def test_without_coordinators_it_crosses_for_each_member(network: TwoSides):
    """For comparison: rpbcast asks for itself, member by member."""
    assert Story(network, "rpbcast", 2).run() > 2.0
