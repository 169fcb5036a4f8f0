"""Real sockets: both families, bursts and the plain path, MTU, fixed ports, and errors that say what to do."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import textwrap
import time
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer import Settings
from gossamer.live.interfaces import find, interfaces
from gossamer.live.transport import GSO_BYTES_MAX, GSO_SEGMENTS_MAX, Endpoint, TransportError, UdpTransport, bursts
from gossamer.live.tuning import tuned

_ports = count(40_000 + os.getpid() * 41 % 20_000)


def endpoint(interface: str = "127.0.0.1") -> Endpoint:
    return Endpoint.parse(f"239.192.77.8:{next(_ports)}", interface)


@pytest.fixture
def open_transport():
    """Transports that are closed at the end of the test."""
    opened: list[UdpTransport] = []

    def open_one(*arguments, **options) -> UdpTransport:
        opened.append(UdpTransport(*arguments, **options))
        return opened[-1]

    yield open_one
    for transport in opened:
        transport.close()


def heard(transport: UdpTransport, sock, wanted: int) -> list[tuple[bytes, tuple[str, int]]]:
    found: list[tuple[bytes, tuple[str, int]]] = []
    until = time.monotonic() + 5.0
    while len(found) < wanted and time.monotonic() < until:
        select.select([sock], [], [], 0.1)
        transport.read(sock, lambda datagrams, address: found.extend((bytes(d), address) for d in datagrams))
    return found


MIXED = [b"a" * 1000] * 130 + [b"b" * 10, b"c" * 1400, b"", b"d" * 60_000, b"e" * 60_000]


@pytest.mark.parametrize("interface", ["127.0.0.1", "lo"])
@pytest.mark.parametrize("plain", [False, True])
def test_what_is_sent_is_heard_in_order_from_where_the_sender_can_be_reached(interface, plain, open_transport):
    a = open_transport(place := endpoint(interface), plain=plain)
    b = open_transport(place, plain=plain)

    assert a.send_to_group(MIXED) == 0
    assert heard(b, b.multicast, len(MIXED)) == [(d, a.address) for d in MIXED]
    assert b.send_to(MIXED, a.address) == 0
    assert heard(a, a.unicast, len(MIXED)) == [(d, b.address) for d in MIXED]
    assert (a.gso, a.gro) == ((False, False) if plain else (True, True))


def test_a_plain_member_and_one_with_bursts_understand_each_other(open_transport):
    place = endpoint()
    a, b = open_transport(place), open_transport(place, plain=True)
    sent = [b"%04d" % n * 100 for n in range(200)]
    a.send_to_group(sent)
    b.send_to_group(sent)
    expected = [(d, a.address) for d in sent] + [(d, b.address) for d in sent]
    assert sorted(heard(a, a.multicast, 400)) == sorted(heard(b, b.multicast, 400)) == sorted(expected)


def test_a_segment_beyond_the_mtu_goes_without_gso(open_transport):
    """The kernel refuses to cut a burst into datagrams that would be fragmented; one at a time it sends them."""
    a = open_transport(endpoint())
    assert a.send_to([b"x" * 30_000] * 2, a.address) == 0
    assert [len(d) for d, _ in heard(a, a.unicast, 2)] == [30_000] * 2


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=200) | st.lists(st.just(1400), min_size=1, max_size=200))
def test_bursts_keep_the_order_and_what_the_kernel_can_split(sizes):
    datagrams = [bytes(size) for size in sizes]
    cut = bursts(datagrams)
    assert [d for burst in cut for d in burst] == datagrams
    for burst in cut:
        assert len(burst) <= GSO_SEGMENTS_MAX
        assert len(burst) == 1 or all(burst)
        assert len(burst) == 1 or sum(map(len, burst)) <= GSO_BYTES_MAX
        assert all(len(d) == len(burst[0]) for d in burst[:-1])
        assert len(burst[-1]) <= len(burst[0])


def test_loopback_has_its_own_mtu_and_a_buffer_as_granted(open_transport):
    transport = open_transport(endpoint())
    assert transport.mtu == int(Path("/sys/class/net/lo/mtu").read_text())
    assert transport.datagram_bytes_max == min(transport.mtu - 28, 65_507)
    assert transport.rcvbuf_bytes >= 100_000


def test_the_unicast_port_can_be_chosen_and_is_refused_when_taken(open_transport):
    free = open_transport(endpoint()).address[1] + 1
    place = Endpoint.parse(f"239.192.77.8:{next(_ports)}", "127.0.0.1", free)
    assert open_transport(place).address == ("127.0.0.1", free)
    with pytest.raises(TransportError, match=f"port {free} is taken"):
        UdpTransport(place)


def test_without_listening_nothing_of_the_group_is_heard(open_transport):
    place = endpoint()
    deaf, other = open_transport(place, listen=False), open_transport(place)
    other.send_to_group([b"x"])
    assert heard(other, other.multicast, 1)
    assert not select.select([deaf.multicast], [], [], 0.05)[0]


def test_a_member_that_leaves_the_multicast_hears_nothing_of_it_until_it_rejoins(open_transport):
    place = endpoint()
    slow, other = open_transport(place), open_transport(place)
    slow.leave()
    slow.leave()  # it has left already
    other.send_to_group([b"x"])
    assert heard(other, other.multicast, 1)
    assert not select.select([slow.multicast], [], [], 0.05)[0]
    other.send_to([b"y"], slow.address)
    assert heard(slow, slow.unicast, 1) == [(b"y", other.address)]
    slow.rejoin()
    other.send_to_group([b"z"])
    assert heard(slow, slow.multicast, 1) == [(b"z", other.address)]


@pytest.mark.parametrize(
    ("address", "interface", "says"),
    [
        ("239.192.77.8:7700", "no-such", r"has no such interface; give one of .*lo \(127\.0\.0\.1\)"),
        ("239.192.77.8:7700", "203.0.113.77", "has no such interface; give one of"),
        ("239.192.77.8:7700", "::1", "is IPv6 and the group's address is IPv4"),
        ("[ff15::7777]:7700", "127.0.0.1", "is IPv4 and the group's address is IPv6"),
    ],
)
def test_an_unusable_interface_is_refused_with_a_reason(address, interface, says):
    with pytest.raises(TransportError, match=says):
        UdpTransport(Endpoint.parse(address, interface))


@pytest.mark.parametrize(
    "address", ["ff15::7777:7700", "[ff15::7777]", "[fe80::1]:7700", "[ff15::1]:0", "239.1.1.1:-1", ""]
)
def test_an_invalid_address_is_refused(address):
    with pytest.raises(TransportError, match="must"):
        Endpoint.parse(address, "127.0.0.1")


def test_loopback_is_recognized_by_any_of_its_names():
    def is_loopback(interface: str) -> bool:
        return Endpoint.parse("239.1.1.1:7700", interface).is_loopback

    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "lo", "::1")))
    assert not any(map(is_loopback, ("203.0.113.7", "no-such", "lo2", "fe80::1%lo")))


def test_interfaces_are_found_by_name_and_address():
    lo = find("lo")
    assert lo is not None
    assert lo == find("127.0.0.1") == find("127.0.0.2") == next(i for i in interfaces() if i.name == "lo")
    assert lo.is_up
    assert lo.is_loopback
    assert find("203.0.113.77") is find("no-such") is None


# In a network namespace of its own, with a second interface and a route for IPv6 multicast.

SETUP = """
ip link set lo up
ip -6 route add local ff00::/8 dev lo table local
ip link add br0 type bridge
ip link set br0 mtu 1400 up
ip address add 192.0.2.9/24 dev br0
ip -6 address add fd77::9/64 dev br0 nodad
ip -6 address add fe80::9/64 dev br0 nodad
"""
_can_unshare = (
    bool(shutil.which("unshare") and shutil.which("ip"))
    and subprocess.run(["unshare", "-n", "sh", "-ec", SETUP], capture_output=True, check=False).returncode == 0
)
in_namespace = pytest.mark.skipif(not _can_unshare, reason="needs root and a kernel with namespaces and bridges")


def run_in_namespace(story: str) -> str:
    """Run a story, in another process, where nothing else is; what it prints."""
    common = "import select, time\nfrom gossamer.live.transport import *\n" + textwrap.dedent(HEARD)
    script = SETUP + f'exec "{sys.executable}" -c "$STORY"'
    result = subprocess.run(
        ["unshare", "-n", "sh", "-ec", script],
        env=os.environ | {"STORY": common + textwrap.dedent(story), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


HEARD = """
def heard(transport, sock, wanted, patience=3.0):
    found, until = [], time.monotonic() + patience
    while len(found) < wanted and time.monotonic() < until:
        select.select([sock], [], [], 0.05)
        transport.read(sock, lambda ds, address: found.extend((bytes(d), address) for d in ds))
    return found
"""


@in_namespace
def test_ipv6_over_loopback_and_over_an_interface_by_name_address_and_zone():
    told = run_in_namespace("""
        sent = [b"%04d" % n * 300 for n in range(100)] + [b"end"]
        for group in ("ff15::7777", "ff02::7777"):
            for interface in ("::1", "lo", "br0", "fd77::9", "fe80::9%br0"):
                a, b = (UdpTransport(Endpoint.parse(f"[{group}]:7700", interface), plain=p) for p in (False, True))
                assert a.send_to_group(sent) == b.send_to_group(sent) == 0
                everything = sorted([(d, t.address) for d in sent for t in (a, b)])
                assert sorted(heard(a, a.multicast, 202)) == everything, (group, interface)
                assert sorted(heard(b, b.multicast, 202)) == everything, (group, interface)
                assert a.send_to(sent, b.address) == 0
                assert heard(b, b.unicast, 101) == [(d, a.address) for d in sent], (group, interface)
                assert len(a.address) == 2 and "%" not in a.address[0]
                print(a.datagram_bytes_max)
                a.close(), b.close()
    """)
    assert told.split() == ["65488", "65488", "1352", "1352", "1352"] * 2


@in_namespace
def test_a_member_on_loopback_hears_nothing_of_the_same_group_elsewhere():
    """Linux would hand it over, because somebody on this machine joined the group there (IP_MULTICAST_ALL)."""
    run_in_namespace("""
        for group, home in (("239.192.77.8", "127.0.0.1"), ("[ff15::7777]", "::1")):
            inside, outside = (UdpTransport(Endpoint.parse(group + ":7700", i)) for i in (home, "br0"))
            outside.send_to_group([b"from outside"])
            assert heard(outside, outside.multicast, 1) == [(b"from outside", outside.address)]
            assert heard(inside, inside.multicast, 1, 0.1) == []
            inside.send_to_group([b"from inside"])
            assert heard(inside, inside.multicast, 1) == [(b"from inside", inside.address)]
            assert heard(outside, outside.multicast, 1, 0.1) == []
    """)


@in_namespace
def test_a_multicast_may_be_limited_to_a_few_hops():
    """Reference: 004 §4 opt. 7 (regional multicast)"""
    told = run_in_namespace("""
        import socket
        for group, home in (("239.192.77.8", "br0"), ("[ff15::7777]", "br0")):
            a, b = (UdpTransport(Endpoint.parse(group + ":7700", home), plain=True) for _ in range(2))
            v4 = a.endpoint.version == 4
            told = (socket.IPPROTO_IP, 12) if v4 else (socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT)
            b.multicast.setsockopt(*told, 1)
            for hops in (0, 3, 200):
                assert a.send_to_group([b"x", b"y"], hops) == 0
                for _ in range(2):
                    select.select([b.multicast], [], [], 3.0)
                    _, ancillary, _, _ = b.multicast.recvmsg(100, 100)
                    print(*[int.from_bytes(data, "little") for _, _, data in ancillary])
            a.close(), b.close()
    """)
    assert told.split() == ["8", "8", "3", "3", "8", "8"] * 2  # the group's own limit is 8


@in_namespace
def test_the_mtu_of_an_interface_bounds_datagrams_and_longer_ones_go_without_gso():
    run_in_namespace("""
        t = UdpTransport(Endpoint.parse("239.192.77.8:7700", "br0"))
        assert (t.mtu, t.datagram_bytes_max) == (1400, 1372)
        for size in (1372, 1373, 5000):
            assert t.send_to_group([bytes(size)] * 50) == 0
            assert [len(d) for d, _ in heard(t, t.multicast, 50)] == [size] * 50, size
        assert t.gso
    """)


@in_namespace
def test_a_network_that_goes_down_refuses_and_one_that_comes_back_is_used_again():
    run_in_namespace("""
        import subprocess
        subprocess.run(["ip", "address", "add", "192.0.2.8/24", "dev", "br0"], check=True)
        second = ("192.0.2.8", "239.192.77.8", "192.0.2.10")
        v4, v6 = ("192.0.2.9", "239.192.77.8", "192.0.2.10"), ("fd77::9", "[ff15::7777]", "fd77::10")
        cuts = [(second, "address del 192.0.2.8/24 dev br0", "address add 192.0.2.8/24 dev br0"),
                (v4, "address del 192.0.2.9/24 dev br0", "address add 192.0.2.9/24 dev br0"),
                (v6, "-6 address del fd77::9/64 dev br0", "-6 address add fd77::9/64 dev br0 nodad"),
                (v4, "link set br0 down", "link set br0 up")]
        for (host, group, other), cut, mend in cuts:
            t = UdpTransport(Endpoint.parse(f"{group}:7700", host))
            burst = [bytes(100)] * 3
            subprocess.run(["ip", *cut.split()], check=True)
            assert t.send_to_group(burst) in (0, 3)  # the kernel may take it, and lose it
            assert t.send_to(burst, (other, 9)) == 3, cut
            heard(t, t.multicast, 3, 0.1)
            subprocess.run(["ip", *mend.split()], check=True)
            assert t.send_to_group(burst) == 0, cut
            assert len(heard(t, t.multicast, 3)) == 3, cut
            t.close()
    """)


@in_namespace
def test_an_interface_that_is_down_is_refused():
    told = run_in_namespace("""
        import subprocess
        subprocess.run(["ip", "link", "set", "br0", "down"], check=True)
        try:
            UdpTransport(Endpoint.parse("239.192.77.8:7700", "192.0.2.9"))
        except TransportError as error:
            print(error)
    """)
    assert "ip link set br0 up" in told


@in_namespace
def test_ipv6_without_a_route_says_which_to_add():
    told = run_in_namespace("""
        import subprocess
        subprocess.run("ip -6 route del local ff00::/8 dev lo table local", shell=True, check=True)
        try:
            UdpTransport(Endpoint.parse("[ff15::7777]:7700", "::1"))
        except TransportError as error:
            print(error)
    """)
    assert "ip -6 route add local ff00::/8 dev lo table local" in told


@pytest.mark.parametrize(("tuning", "parity"), [({}, 0), ({"parity": 3}, 3)])
def test_on_loopback_there_is_no_parity_unless_one_is_asked_for(tuning, parity):
    """There a round trip takes long only because processes are busy, and parities would keep them busier."""
    transport = UdpTransport(Endpoint.parse("239.192.77.7:7700", "127.0.0.1"))
    try:
        settings = Settings(interface="127.0.0.1", tuning=tuning)
        assert tuned(settings, transport, 0, trees=False).protocol.parity == parity
    finally:
        transport.close()
