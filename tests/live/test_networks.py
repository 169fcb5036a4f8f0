"""Networks other than IPv4 multicast: trees of unicast, with contacts; IPv6."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from contextlib import AsyncExitStack
from textwrap import dedent

import pytest

from gossamer.core.schema import SettingError
from gossamer.live.group import Group
from gossamer.live.transport import Endpoint, TransportError, UdpTransport
from tests.live.members import GROUP, collect, impaired, payloads, run, settings, until

NUMBERS = [b"%d" % n for n in range(1000)]


def free_ports(number: int) -> list[int]:
    """Ports that nobody uses now."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(number)]
    for sock in sockets:
        sock.bind(("127.0.0.1", 0))
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def deaf(endpoint: Endpoint) -> UdpTransport:
    """A network without multicast: nobody hears it."""
    return UdpTransport(endpoint, listen=False)


async def everybody_hears_everybody(groups: list[Group]) -> None:
    heard = [group.subscribe(">") for group in groups]
    for n, payload in enumerate(NUMBERS):
        groups[0].publish("n", payload)
        groups[-1].publish("n", payload)
        if n % 5 == 0:
            await asyncio.sleep(0)
    for subscription in heard:
        events = await collect(subscription, 2 * len(NUMBERS))
        for sender in (groups[0], groups[-1]):
            assert payloads([event for event in events if event.sender == sender.me]) == NUMBERS


@pytest.mark.parametrize("loss", [0.0, 0.1])
@pytest.mark.parametrize("key", [None, "0123456789abcdef" * 4])
def test_trees_of_unicast_need_no_multicast(loss, key):
    async def story():
        ports = free_ports(4)
        place = settings()
        contacts = tuple(f"127.0.0.1:{port}" for port in ports[:2])
        async with AsyncExitStack() as stack:
            groups = []
            for seed, port in enumerate(ports):
                own = settings(address=place.address, first_pass="trees", contacts=contacts, port=port, key=key)
                line = impaired(seed, loss=loss)
                groups.append(await stack.enter_async_context(Group(GROUP, own, lambda e, line=line: line(deaf(e)))))
            await until(lambda: all(len(group.members()) == 4 for group in groups))
            await everybody_hears_everybody(groups)
            assert all(group.stats()["lost"] == {} for group in groups)
            heard = groups[2].subscribe(">")
            groups[1].publish("large", bytes(1 << 20))
            assert payloads(await collect(heard, 1)) == [bytes(1 << 20)]

    run(story())


@pytest.mark.parametrize("network", [UdpTransport, deaf])
def test_packets_may_travel_down_the_graph_of_the_order(network):
    """Whether there is multicast for everything else or not. Reference: 002 §3.2"""

    async def story():
        ports = free_ports(3)
        place = settings()
        contacts = (f"127.0.0.1:{ports[0]}",) if network is deaf else ()
        async with AsyncExitStack() as stack:
            groups = []
            for seed, port in enumerate(ports):
                own = settings(address=place.address, order="total", first_pass="graph", contacts=contacts, port=port)
                line = impaired(seed, loss=0.05)
                made = Group(GROUP, own, lambda e, line=line: line(e) if network is not deaf else line(deaf(e)))
                groups.append(await stack.enter_async_context(made))
            await until(lambda: all(len(group.members()) == 3 for group in groups))
            assert {group._member.stack.settings.dissemination for group in groups} == {"graph"}
            await everybody_hears_everybody(groups)
            assert all(group.stats()["lost"] == {} for group in groups)

    run(story())


def test_there_is_no_graph_without_an_order():
    with pytest.raises(SettingError, match="first_pass = 'graph': is the graph of order='total', not of order='fifo'"):
        settings(first_pass="graph")


def test_members_that_know_only_one_contact_find_everybody():
    async def story():
        ports = free_ports(3)
        place = settings()
        async with AsyncExitStack() as stack:
            groups = [
                await stack.enter_async_context(
                    Group(
                        GROUP,
                        settings(
                            address=place.address,
                            first_pass="trees",
                            port=port,
                            contacts=(f"127.0.0.1:{ports[0]}",),
                        ),
                        deaf,
                    )
                )
                for port in ports
            ]
            await until(lambda: all(len(group.members()) == 3 for group in groups))
            await everybody_hears_everybody(groups)

    run(story())


@pytest.mark.parametrize(("network", "expected"), [(UdpTransport, "multicast"), (deaf, "trees")])
def test_auto_tries_whether_a_contact_is_heard_over_multicast(network, expected):
    async def story():
        ports = free_ports(3)
        place = settings()
        async with AsyncExitStack() as stack:
            groups = []
            for port in ports:
                own = settings(address=place.address, port=port, contacts=(f"127.0.0.1:{ports[0]}",))
                groups.append(await stack.enter_async_context(Group(GROUP, own, network)))
            await until(lambda: all(len(group.members()) == 3 for group in groups))
            passes = [group._member.stack.settings.dissemination for group in groups]
            assert passes == ["trees", expected, expected]  # the first met nobody, and takes what always works
            await everybody_hears_everybody(groups)

    run(story())


STORY_OF_IPV6 = """
    import asyncio, gossamer, sys

    async def story():
        place = gossamer.Settings(address="[ff15::7777]:7700", interface="::1", key=sys.argv[1] or None)
        async with gossamer.join("six", place) as a, gossamer.join("six", place) as b:
            heard = b.subscribe(">")
            await a.publish_many("n", [b"%d" % n for n in range(1000)])
            got = []
            while len(got) < 1000:
                got += [event.payload for event in await heard.take(30)]
            assert got == [b"%d" % n for n in range(1000)], got
            assert a.profile()["address"].startswith("::1:"), a.profile()["address"]

    asyncio.run(asyncio.wait_for(story(), 60))
"""


@pytest.mark.parametrize("key", ["", "0123456789abcdef" * 4])
def test_a_group_meets_over_ipv6(key):
    """On loopback, which needs a route for multicast that Linux does not make: in a namespace of our own, as root."""
    line = [sys.executable, "-c", dedent(STORY_OF_IPV6), key]
    try:
        UdpTransport(Endpoint.parse("[ff15::7777]:7700", "::1")).close()
    except TransportError as error:
        route = "ip link set lo up && ip -6 route add local ff00::/8 dev lo table local"
        if os.geteuid() or not all(map(shutil.which, ("unshare", "ip"))):
            pytest.skip(f"IPv6 multicast on loopback is not to be had here: {error}")
        made = subprocess.run(["unshare", "-n", "sh", "-c", route], capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"no namespace with a route for IPv6 multicast can be made here: {made.stderr}")
        line = ["unshare", "-n", "sh", "-c", f'{route} && exec "$@"', "sh", *line]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
