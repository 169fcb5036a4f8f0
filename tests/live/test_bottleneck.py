"""A bottleneck made by the kernel: links of 20 Mbit/s with a short queue, and a publisher that could send far more.

A sender that does not know what the path carries fills the queue and loses what does not fit; everything then depends
on repairs, which fill it again.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from random import Random
from subprocess import Popen
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pytest

import gossamer
from tests.netns import Network, Unavailable, hear, say, tell

MEMBERS = 3
MBIT = 20.0
"""So slow that the processor is not the limit, even if other tests run beside."""
QUEUE_KB = 128
SIZE = 1024
WIRE_BYTES = SIZE + 42
"""An event alone in a packet, as the queue counts it: UDP, IP and Ethernet."""
SECONDS = 4
EVENTS = int(SECONDS * MBIT * 1e6 / 8 / WIRE_BYTES)
AT_ONCE = 1_000
USED = 0.8
"""Of the link, by events alone: our own headers take a tenth of it."""
SHARE = 0.25
TCP_PORT = 7070
PATIENCE_S = 60.0
SEALED = {"key": Random(1).randbytes(32).hex()}


@pytest.fixture
def network() -> Iterator[Network]:
    """A publisher's node, and two behind narrow links; or a skip that says why there are none."""
    try:
        with Network(MEMBERS) as network:
            for node in range(1, MEMBERS):
                network.narrow(node, MBIT, QUEUE_KB)
            yield network
    except Unavailable as reason:
        pytest.skip(f"NO BOTTLENECK TESTED: {reason}")


# What runs on the nodes.


def publish(interface: str) -> None:
    """Wait for everybody and a line; publish as fast as the group lets it; stay until the end of the input."""

    async def story() -> None:
        async with gossamer.join("bottleneck", gossamer.Settings(interface=interface, **SEALED)) as group:
            while len(group.members()) < MEMBERS:
                await asyncio.sleep(0.05)
            say("ready")
            await asyncio.to_thread(sys.stdin.readline)
            say(monotonic())
            for first in range(0, EVENTS, AT_ONCE):
                numbers = range(first, min(first + AT_ONCE, EVENTS))
                await group.publish_many("n", [n.to_bytes(8, "big") + bytes(SIZE - 8) for n in numbers])
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


def subscribe(interface: str) -> None:
    """Hear everything; say how many came, how many were lost or out of order, and when the last one came."""

    async def story() -> None:
        async with gossamer.join("bottleneck", gossamer.Settings(interface=interface, **SEALED)) as group:
            heard = group.subscribe(">").batches()
            say("ready")
            say(await counted(heard))
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


async def counted(heard: Any) -> dict[str, Any]:
    """Count until the last event, or until patience ends."""
    count = losses = at = 0
    is_ordered = True
    try:
        async with asyncio.timeout(PATIENCE_S):
            while at < EVENTS:
                for item in await anext(heard):
                    if isinstance(item, gossamer.Lost):
                        losses += 1
                        continue
                    number = int.from_bytes(item.payload[:8], "big")
                    is_ordered &= number >= at
                    count, at = count + 1, number + 1
    except TimeoutError:
        losses += 1
    return {"count": count, "losses": losses, "ordered": is_ordered, "at": monotonic()}


# What the test sees.


def start(network: Network) -> tuple[Popen[str], list[Popen[str]]]:
    """A publisher and two subscribers in one group."""
    addresses = [node.address for node in network.nodes]
    subscribers = [network.start(n, subscribe, addresses[n]) for n in range(1, MEMBERS)]
    publisher = network.start(0, publish, addresses[0])
    assert [hear(child) for child in (*subscribers, publisher)] == ["ready"] * MEMBERS
    return publisher, subscribers


def used(report: dict[str, Any], begun: float) -> float:
    """The share of a link that a subscriber's events have taken."""
    return float(EVENTS * WIRE_BYTES * 8 / (report["at"] - begun) / (MBIT * 1e6))


def is_complete(report: dict[str, Any]) -> bool:
    """Whether everything came, in order."""
    return (report["count"], report["losses"], report["ordered"]) == (EVENTS, 0, True)


def test_a_publisher_fills_a_bottleneck_and_does_not_overflow_it(network: Network):
    publisher, subscribers = start(network)
    tell(publisher, "go")
    begun = hear(publisher)
    sleep(1)
    settled = [network.queue(node) for node in range(1, MEMBERS)]
    reports = [hear(subscriber) for subscriber in subscribers]
    later = [network.queue(node).since(early) for node, early in zip(range(1, MEMBERS), settled, strict=True)]

    assert all(map(is_complete, reports))
    for report, queue in zip(reports, later, strict=True):
        assert queue.drops <= 0.02 * (queue.packets + queue.drops)
        assert used(report, begun) >= USED


@pytest.mark.soak
def test_beside_a_tcp_connection_each_gets_its_share(network: Network):
    publisher, subscribers = start(network)
    address = network.nodes[1].address
    sink = network.start(1, receive_tcp, address)
    assert hear(sink) == "ready"
    network.start(0, send_tcp, address)
    sleep(2)  # TCP has the link to itself at first
    tell(sink, "how much?")
    before = hear(sink)
    tell(publisher, "go")
    begun = hear(publisher)
    report = hear(subscribers[0])
    tell(sink, "how much?")
    after = hear(sink)

    assert is_complete(report)
    assert used(report, begun) >= SHARE
    assert (after["bytes"] - before["bytes"]) * 8 / (after["at"] - before["at"]) >= SHARE * MBIT * 1e6


def receive_tcp(address: str) -> None:
    """Take one connection; for each line of input say how much has come."""
    with socket.create_server((address, TCP_PORT)) as server:
        say("ready")
        connection, _ = server.accept()
        received = 0

        def receive() -> None:
            nonlocal received
            while data := connection.recv(1 << 16):
                received += len(data)

        Thread(target=receive, daemon=True).start()
        for _ in sys.stdin:
            say({"bytes": received, "at": monotonic()})


def send_tcp(address: str) -> None:
    """Send as fast as TCP does, for as long as it may."""
    with socket.create_connection((address, TCP_PORT)) as connection:
        while True:
            connection.sendall(bytes(1 << 16))


def test_a_narrow_link_drops_what_does_not_fit_into_its_queue(network: Network):
    """Or the test above would show nothing."""
    assert hear(network.start(0, blast, network.nodes[1].address)) == "sent"
    queue = network.queue(1)
    assert queue.drops > 0
    assert queue.packets > QUEUE_KB * 1024 // WIRE_BYTES // 2


def blast(address: str) -> None:
    """Send datagrams without care, for some two seconds of the link."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(EVENTS // 2):
            sock.sendto(bytes(SIZE), (address, 9))
    say("sent")
