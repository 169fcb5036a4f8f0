"""The network interfaces of this machine: names, addresses, MTU, as reported by the kernel (Linux).

Elsewhere the list is empty, and an interface can be named only by its address.
"""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

_SIOCGIFFLAGS, _SIOCGIFMTU = 0x8913, 0x8921
_UP, _LOOPBACK, _MULTICAST = 0x1, 0x8, 0x1000
_RTM_NEWADDR, _RTM_GETADDR, _NLMSG_DONE, _NLMSG_ERROR = 20, 22, 3, 2
_REQUEST_DUMP = 0x301
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_NLMSG, _IFADDRMSG, _RTATTR = struct.Struct("=IHHII"), struct.Struct("=BBBBI"), struct.Struct("=HH")

IpAddress = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface; its addresses are in the kernel's order."""

    name: str
    index: int
    mtu: int
    flags: int
    addresses: tuple[IpAddress, ...]

    @property
    def is_up(self) -> bool:
        """Whether it is switched on."""
        return bool(self.flags & _UP)

    @property
    def is_loopback(self) -> bool:
        """Whether nothing that it carries leaves this machine."""
        return bool(self.flags & _LOOPBACK)

    @property
    def does_multicast(self) -> bool:
        """Whether the kernel sends multicast over it; on loopback it always does."""
        return bool(self.flags & (_MULTICAST | _LOOPBACK))

    def address(self, version: int) -> IpAddress | None:
        """The address at which others reach it; for IPv6 a global one, if there is one."""
        own = [address for address in self.addresses if address.version == version]
        return min(own, key=lambda address: address.is_link_local, default=None)


def interfaces() -> list[Interface]:
    """All interfaces, in the kernel's order."""
    try:
        listed = list(_addresses())
    except OSError:
        return []
    found = []
    for index, name in socket.if_nameindex():
        with suppress(OSError):  # gone since it was listed
            flags = _ask(name, _SIOCGIFFLAGS, "H")
            addresses = tuple(address for at, address in listed if at == index)
            found.append(Interface(name, index, _ask(name, _SIOCGIFMTU, "i"), flags, addresses))
    return found


def find(wanted: str) -> Interface | None:
    """The interface with this name or this address (`127.0.0.2` is loopback's, `fe80::1%eth0` is eth0's)."""
    host, _, zone = wanted.partition("%")
    try:
        address = ip_address(host)
    except ValueError:
        return next((i for i in interfaces() if i.name == wanted), None)
    for interface in interfaces():
        on_it = address in interface.addresses or (address.is_loopback and interface.is_loopback)
        if on_it and zone in ("", interface.name, str(interface.index)):
            return interface
    return None


def routed(group: str, port: int) -> str | None:
    """The address of this machine from which it would send to `group`; None if no route leads there.

    The kernel is asked by connecting a UDP socket, which sends nothing.
    """
    family = socket.AF_INET6 if ":" in group else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((group, port))
        except OSError:
            return None
        return str(sock.getsockname()[0])


def _ask(name: str, request: int, kind: str) -> int:
    """One number about an interface; `struct ifreq` is its name followed by a union."""
    from fcntl import ioctl  # not on every system

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = ioctl(sock, request, struct.pack("16s24x", os.fsencode(name)))
    (number,) = struct.unpack_from(kind, answer, 16)
    return int(number)


def _addresses() -> Iterator[tuple[int, IpAddress]]:
    """Interface index and address, for both families, from rtnetlink; OSError where there is no netlink."""
    if not hasattr(socket, "AF_NETLINK"):
        raise OSError("no netlink on this system")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.settimeout(2.0)
        sock.send(
            _NLMSG.pack(_NLMSG.size + _IFADDRMSG.size, _RTM_GETADDR, _REQUEST_DUMP, 1, 0) + _IFADDRMSG.pack(*[0] * 5)
        )
        while True:
            answer = sock.recv(1 << 16)
            at = 0
            while at + _NLMSG.size <= len(answer):
                length, kind, *_ = _NLMSG.unpack_from(answer, at)
                if kind in (_NLMSG_DONE, _NLMSG_ERROR) or length < _NLMSG.size:
                    return
                if kind == _RTM_NEWADDR:
                    yield from _address(answer[at + _NLMSG.size : at + length])
                at += (length + 3) & ~3


def _address(body: bytes) -> Iterator[tuple[int, IpAddress]]:
    """The address in one message, if any. On a point-to-point link IFA_ADDRESS is the other end, and IFA_LOCAL ours."""
    *_, index = _IFADDRMSG.unpack_from(body)
    attributes = {}
    at = _IFADDRMSG.size
    while at + _RTATTR.size <= len(body):
        length, kind = _RTATTR.unpack_from(body, at)
        if length < _RTATTR.size:
            break
        attributes[kind] = body[at + _RTATTR.size : at + length]
        at += (length + 3) & ~3
    packed = attributes.get(_IFA_LOCAL) or attributes.get(_IFA_ADDRESS)
    if packed is not None and len(packed) in (4, 16):
        yield index, ip_address(packed)
