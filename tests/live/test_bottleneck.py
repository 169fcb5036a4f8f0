"""A bottleneck made by the kernel: links of 20 Mbit/s with a short queue, and a publisher that could send far more.

A sender that does not know what the path carries fills the queue and loses what does not fit; everything then depends
on repairs, which fill it again.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from subprocess import Popen
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pytest

import gossamer
from gossamer.live.logger_group import logger
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
SLOW_MBIT = 5.0
USED_BESIDE_SLOW = 0.65
"""At first the group goes at the pace of the slow one."""
SHARE = 0.25
TCP_PORT = 7070
PATIENCE_S = 60.0
SEALED = {"key": Random(1).randbytes(32).hex()}


@contextmanager
def nodes(count: int) -> Iterator[Network]:
    """Nodes on wide links, or a skip that says why there are none."""
    try:
        with Network(count) as network:
            yield network
    except Unavailable as reason:
        pytest.skip(f"NO BOTTLENECK TESTED: {reason}")


@pytest.fixture
def network() -> Iterator[Network]:
    """A publisher's node, and two behind narrow links."""
    with nodes(MEMBERS) as network:
        for node in range(1, MEMBERS):
            network.narrow(node, MBIT, QUEUE_KB)
        yield network


# What runs on the nodes.


def publish(interface: str, members: str = str(MEMBERS)) -> None:
    """Wait for everybody and a line; publish as fast as the group lets it; stay until the end of the input."""

    async def story() -> None:
        async with gossamer.join("bottleneck", gossamer.Settings(interface=interface, **SEALED)) as group:
            while len(group.members()) < int(members):
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


def log(interface: str, store: str) -> None:
    """Log everything until the end of the input."""

    async def story() -> None:
        async with logger("bottleneck", Path(store), gossamer.Settings(interface=interface, **SEALED)):
            say("ready")
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


async def counted(heard: Any) -> dict[str, Any]:
    """Count until the last event, or until patience ends."""
    count = losses = lost = at = 0
    is_ordered = True
    try:
        async with asyncio.timeout(PATIENCE_S):
            while at < EVENTS:
                for item in await anext(heard):
                    if isinstance(item, gossamer.Lost):
                        losses += 1
                        lost += item.last - item.first + 1
                        continue
                    number = int.from_bytes(item.payload[:8], "big")
                    is_ordered &= number >= at
                    count, at = count + 1, number + 1
    except TimeoutError:
        losses += 1
    return {"count": count, "losses": losses, "lost": lost, "ordered": is_ordered, "at": monotonic()}


# What the test sees.


def start(network: Network, subscribers: int = MEMBERS - 1, store: str = "") -> tuple[Popen[str], list[Popen[str]]]:
    """A publisher and its subscribers in one group; with a store also a logger, on the node after theirs."""
    addresses = [node.address for node in network.nodes]
    children = [network.start(n, subscribe, addresses[n]) for n in range(1, subscribers + 1)]
    if store:
        children.append(network.start(subscribers + 1, log, addresses[subscribers + 1], store))
    publisher = network.start(0, publish, addresses[0], str(len(children) + 1))
    assert {hear(child) for child in (*children, publisher)} == {"ready"}
    return publisher, children[:subscribers]


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
@pytest.mark.parametrize("logged", [False, True])
def test_a_receiver_on_a_slow_link_does_not_hold_up_the_others_and_gets_everything_at_its_own_pace(logged, tmp_path):
    with nodes(5) as network:
        network.snoop()  # or what a receiver has left goes on filling its link
        sleep(2)
        for node, mbit in ((1, MBIT), (2, MBIT), (3, SLOW_MBIT)):
            network.narrow(node, mbit, QUEUE_KB)
        publisher, subscribers = start(network, 3, str(tmp_path) if logged else "")
        tell(publisher, "go")
        begun = hear(publisher)
        sleep(1)
        settled = [network.queue(node) for node in (1, 2)]
        *healthy, slow = [hear(subscriber) for subscriber in subscribers]
        later = [network.queue(node).since(early) for node, early in zip((1, 2), settled, strict=True)]

    assert all(map(is_complete, healthy))
    assert min(used(report, begun) for report in healthy) >= USED_BESIDE_SLOW
    assert slow["ordered"]
    assert is_complete(slow) if logged else slow["count"] + slow["lost"] >= EVENTS  # nothing is lost in silence
    assert slow["at"] - begun <= 1.5 * EVENTS * WIRE_BYTES * 8 / (SLOW_MBIT * 1e6)
    for queue in later:
        assert queue.drops <= 0.02 * (queue.packets + queue.drops)


@pytest.mark.soak
def test_six_subscribers_behind_one_uplink_share_one_copy():
    with nodes(7) as network:
        network.narrow_uplink(0, MBIT, QUEUE_KB)
        publisher, subscribers = start(network, 6)
        tell(publisher, "go")
        begun = hear(publisher)
        sleep(1)
        settled = network.uplink_queue(0)
        reports = [hear(subscriber) for subscriber in subscribers]
        later = network.uplink_queue(0).since(settled)

    assert all(map(is_complete, reports))
    assert min(used(report, begun) for report in reports) >= USED
    assert later.drops <= 0.02 * (later.packets + later.drops)


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
