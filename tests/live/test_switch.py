"""The benchmark's switch does to packets what it says: bandwidth, queues, delay, loss, and groups that are left."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from time import sleep
from typing import Any

import pytest

from tests.netns import Unavailable, hear, say, start, tell

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from switch import Port, Switch, worst_queue

GROUP = "239.192.77.9"
PORT = 5_000
SIZE = 1_000
WIRE_BYTES = SIZE + 66
BURST = 200
Build = Callable[..., Switch]


@pytest.fixture
def build() -> Iterator[Build]:
    """A way to build switches, which are gone afterwards; or a skip that says why there are none."""
    with ExitStack() as stack:

        def made(*ports: Port) -> Switch:
            try:
                return stack.enter_context(Switch(list(ports)))
            except Unavailable as reason:
                pytest.skip(f"NO SWITCH TESTED: {reason}")

        yield made


def send(address: str, count: str) -> None:
    """Send datagrams, all at once."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        for _ in range(int(count)):
            sock.sendto(bytes(SIZE), (address, PORT))
    say("sent")


def listen(interface: str) -> None:
    """Join and leave the group as told; everything that is told is answered."""
    membership = socket.inet_aton(GROUP) + socket.inet_aton(interface)
    options = {"join": socket.IP_ADD_MEMBERSHIP, "leave": socket.IP_DROP_MEMBERSHIP}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for line in sys.stdin:
            sock.setsockopt(socket.IPPROTO_IP, options[line.strip()], membership)
            say("done")


def told(child: Popen[str], line: str) -> None:
    tell(child, line)
    assert hear(child) == "done"


def burst(switch: Switch, address: str, count: int = BURST) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Counters before and after host 0 has sent so many datagrams, and the switch has done with them."""
    with start(switch.nodes[0], send, address, "1") as first:  # so that addresses are known
        assert hear(first) == "sent"
    sleep(0.3)
    before = switch.stats()
    with start(switch.nodes[0], send, address, str(count)) as sender:
        assert hear(sender) == "sent"
    sleep(0.5)
    return before, switch.stats()


def grown(before: dict[str, Any], after: dict[str, Any], key: str) -> int:
    return int(after[key]) - int(before[key])


def test_a_link_takes_its_time_and_its_queue_drops_what_does_not_fit(build: Build):
    room = 50
    switch = build(Port(), Port(down_mbit=1, queue_kb=room * WIRE_BYTES / 1024, delay_ms=1))
    before, after = burst(switch, switch.nodes[1].address)
    packets = grown(before[1]["down"], after[1]["down"], "packets")
    dropped = grown(before[1]["down"], after[1]["down"], "dropped")
    assert packets >= BURST
    assert BURST - 2 * room < dropped <= BURST - room + 1
    assert worst_queue(before, after) == (dropped / packets, "down 1")
    assert (room - 3) * WIRE_BYTES * 8 <= after[1]["down"]["waited_max_us"] <= room * WIRE_BYTES * 8


def test_a_link_without_limits_passes_everything_but_what_is_lost_at_random(build: Build):
    switch = build(Port(), Port(loss=0.5))
    before, after = burst(switch, switch.nodes[1].address, 1_000)
    lost, delivered = (grown(before[1], after[1], key) for key in ("lost", "delivered"))
    assert lost + delivered >= 1_000
    assert 400 < lost < 600
    assert worst_queue(before, after)[0] == 0.0


def test_a_multicast_crosses_the_uplink_once_and_reaches_only_members(build: Build):
    switch = build(Port(up_mbit=100), Port(), Port(), Port())
    with ExitStack() as stack:
        members = [stack.enter_context(start(node, listen, node.address)) for node in switch.nodes[1:]]
        for member in members[:2]:
            told(member, "join")
        before, after = burst(switch, GROUP)
        assert BURST <= grown(before[0]["up"], after[0]["up"], "packets") < 1.5 * BURST
        delivered = [grown(old, new, "delivered") >= BURST for old, new in zip(before, after, strict=True)]
        assert delivered == [False, True, True, False]

        told(members[1], "leave")
        told(members[2], "join")
        before, after = burst(switch, GROUP)
        delivered = [grown(old, new, "delivered") >= BURST for old, new in zip(before, after, strict=True)]
        assert delivered == [False, True, False, True]
        for member in members:
            member.kill()


def test_a_port_can_be_changed_while_it_runs(build: Build):
    switch = build(Port(), Port(loss=0.999999))
    before, after = burst(switch, switch.nodes[1].address)
    assert grown(before[1], after[1], "delivered") < BURST // 2
    switch.change(1, Port())
    before, after = burst(switch, switch.nodes[1].address)
    assert grown(before[1], after[1], "delivered") >= BURST
    assert switch.unread() == 0
