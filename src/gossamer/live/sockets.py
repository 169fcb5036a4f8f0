"""How a member's sockets are made, for IPv4 and for IPv6: interface, membership, buffers, GSO and GRO."""

import ctypes
import errno
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gossamer.core.errors import Error
from gossamer.live.interfaces import find, interfaces
from gossamer.settings.addresses import literal

SOL_UDP = 17
UDP_SEGMENT = 103
UDP_GRO = 104

SOCKET_BUFFER_BYTES = 16 << 20
"""What we ask the kernel for; it grants what net.core.rmem_max and wmem_max allow (root gets all)."""
HOPS = 8
"""Routers that multicast may cross; none from loopback."""
MTU_UNKNOWN = 1500

_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33  # root only
_SO_ATTACH_FILTER, _SKF_NET_OFF = 26, 0xFFF00000
_IP_MULTICAST_ALL, _SO_BINDTOIFINDEX = 49, 62


class TransportError(Error, OSError):
    """The sockets cannot be made as asked: the message says what to change."""


@dataclass(frozen=True, slots=True)
class Local:
    """Our end: the interface as the kernel knows it, and our address on it."""

    version: int
    host: str
    index: int
    mtu: int
    is_loopback: bool

    @property
    def family(self) -> socket.AddressFamily:
        """The address family of the sockets."""
        return socket.AF_INET if self.version == 4 else socket.AF_INET6

    def name(self, host: str, port: int) -> tuple[Any, ...]:
        """What to bind to: IPv6 needs the interface too, for addresses that mean something only there."""
        return (host, port) if self.version == 4 else (host, port, 0, self.index)


def resolve(interface: str, version: int) -> Local:
    """An interface by its address (`127.0.0.1`, `fe80::1%eth0`) or name (`lo`); TransportError lists what there is."""
    address, found = literal(interface), find(interface)
    if address is not None and address.version != version:
        raise TransportError(
            f"interface {interface!r}: is IPv{address.version} and the group's address is IPv{version}; "
            f"give an IPv{version} address or the interface's name (this machine has {known_interfaces(version)})"
        )
    if found is None:
        if address is None or version == 6 or interfaces():
            raise TransportError(
                f"interface {interface!r}: this machine has no such interface; give one of {known_interfaces(version)}"
            )
        return Local(version, interface, 0, MTU_UNKNOWN, address.is_loopback)
    own = address or found.address(version)
    if own is None:
        raise TransportError(
            f"interface {interface!r}: has no IPv{version} address; give one of {known_interfaces(version)}"
        )
    if not found.is_up:
        raise TransportError(f"interface {interface!r}: is down; switch it on with `ip link set {found.name} up`")
    return Local(version, str(own).partition("%")[0], found.index, found.mtu, found.is_loopback)


def known_interfaces(version: int) -> str:
    return ", ".join(f"{i.name} ({i.address(version)})" for i in interfaces() if i.address(version)) or "none"


def multicast_socket(local: Local, group: str, port: int, *, listen: bool, plain: bool) -> socket.socket:
    """A socket that hears the group, on our interface only; it hears nothing at all unless `listen`."""
    sock = _udp_socket(local, plain)
    if not listen:
        return sock
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(local.name(group, port))
        _join(sock, local, group)
        _check_route(local, group, port)
    except OSError as error:
        sock.close()
        raise TransportError(f"cannot listen to {group} port {port} on {local.host}: {_why(error, port)}") from None
    return sock


def unicast_socket(local: Local, port: int, *, plain: bool) -> socket.socket:
    """A socket that sends everything, from our interface, and hears what is meant for us."""
    sock = _udp_socket(local, plain)
    hops = 0 if local.is_loopback else HOPS
    try:
        sock.bind(local.name(local.host, port))
        if local.version == 4:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, _mreqn("0.0.0.0", local))
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, hops)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, local.index)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, hops)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
    except OSError as error:
        sock.close()
        raise TransportError(f"cannot send from {local.host} port {port or 'any'}: {_why(error, port)}") from None
    return sock


def ignore(sock: socket.socket, host: str, port: int) -> None:
    """Let the kernel drop what comes from this IPv4 address: a member need not hear its own multicast.

    A classic BPF program: accept unless the source port (the first half word of the UDP header) and the source address
    (at byte 12 of the IP header) are these. Where it cannot be attached, the datagrams are read and dropped.
    """
    (source,) = struct.unpack("!I", socket.inet_aton(host))
    program = (
        (0x28, 0, 0, 0),  # load the port
        (0x15, 0, 3, port),  # not this one: accept
        (0x20, 0, 0, _SKF_NET_OFF + 12),  # load the address
        (0x15, 0, 1, source),  # not this one: accept
        (0x06, 0, 0, 0),  # drop
        (0x06, 0, 0, 0xFFFFFFFF),  # accept
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("@HBBI", *line) for line in program))
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)))


def _join(sock: socket.socket, local: Local, group: str) -> None:
    """Join on one interface, and hear only that one: otherwise Linux also delivers what other sockets here joined."""
    if local.version == 4:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, _mreqn(group, local))
        with suppress(OSError):  # only Linux needs to be told
            sock.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
    else:
        membership = socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", local.index)
        sock.setsockopt(socket.SOL_SOCKET, _SO_BINDTOIFINDEX, local.index)  # IPV6_MULTICAST_ALL ignores interfaces
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, membership)


def leave(sock: socket.socket, local: Local, group: str) -> None:
    """Leave the group, so that switches and routers do not send it here (IGMP, MLD)."""
    if local.version == 4:
        option = (socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, _mreqn(group, local))
    else:
        membership = socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", local.index)
        option = (socket.IPPROTO_IPV6, socket.IPV6_LEAVE_GROUP, membership)
    with suppress(OSError):  # the kernel may have left it already, when the interface went
        sock.setsockopt(*option)


def rejoin(sock: socket.socket, local: Local, group: str) -> None:
    """Leave the group and join it again, so that switches and routers hear of us after the network was away."""
    leave(sock, local, group)
    try:
        _join(sock, local, group)
    except OSError as error:
        raise TransportError(f"cannot listen to {group} on {local.host} again: {_why(error, 0)}") from None


def _check_route(local: Local, group: str, port: int) -> None:
    """IPv6 sends multicast only where it has a route for it, and Linux creates none for loopback."""
    if local.version == 4:
        return
    with socket.socket(local.family, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, local.index)
        probe.connect(local.name(group, port))


def _mreqn(group: str, local: Local) -> bytes:
    """`struct ip_mreqn`; where the interface's index is not known, `struct ip_mreq`, which names it by its address."""
    named = socket.inet_aton(group) + socket.inet_aton(local.host)
    if not local.index:
        return named if group != "0.0.0.0" else named[4:]
    return named + struct.pack("@i", local.index)


def _udp_socket(local: Local, plain: bool) -> socket.socket:
    sock = socket.socket(local.family, socket.SOCK_DGRAM)
    sock.setblocking(False)
    if local.version == 6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    for forced, option in ((_SO_RCVBUFFORCE, socket.SO_RCVBUF), (_SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            sock.setsockopt(socket.SOL_SOCKET, forced, SOCKET_BUFFER_BYTES)
        except OSError:
            sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    if not plain:
        with suppress(OSError):
            sock.setsockopt(SOL_UDP, UDP_GRO, 1)
    return sock


def supports(sock: socket.socket, option: int) -> bool:
    """Whether the kernel knows this UDP option."""
    try:
        sock.getsockopt(SOL_UDP, option)
    except OSError:
        return False
    return True


def _why(error: OSError, port: int) -> str:
    advice = {
        errno.EADDRINUSE: f"port {port} is taken; choose another, or 0 for any",
        errno.EPERM: "not allowed; IPv6 needs Linux 5.7, or root",
        errno.EACCES: "not allowed; choose a port above 1023",
        errno.ENODEV: "the interface does not support multicast; choose another, or first_pass='trees'",
        errno.EADDRNOTAVAIL: "no interface here has this address, or not yet (tentative); see `ip address`",
        errno.ENETUNREACH: "there is no route for IPv6 multicast over it; for loopback, add one as root with "
        "`ip -6 route add local ff00::/8 dev lo table local`, or use IPv4",
        errno.ENOBUFS: "too many groups joined; raise the sysctl net.ipv4.igmp_max_memberships",
    }
    return advice.get(error.errno or 0, f"{error.strerror or error}; try `gossamer doctor`")
