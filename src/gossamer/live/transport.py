"""UDP sockets: one hears the group's multicast address, another sends everything and hears what is meant for us.

Each channel besides channel 0 has an address, and at a member that listens to it a socket, of its own.

Everything is sent from the second socket, so the source address of any datagram is where its member can be reached.
Where the kernel can (GSO and GRO, Linux 4.18 and 5.0), a burst of equal datagrams crosses the system call boundary as
one; where it cannot, one at a time. IPv4 and IPv6 differ only in how the sockets are made (`sockets.py`).
"""

import errno
import fcntl
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from struct import Struct
from time import time
from typing import Any, Protocol

from gossamer.live.interfaces import find
from gossamer.live.sockets import (
    HOPS,
    SOL_UDP,
    UDP_GRO,
    UDP_SEGMENT,
    Local,
    TransportError,
    ignore,
    leave,
    multicast_socket,
    rejoin,
    resolve,
    supports,
    unicast_socket,
)
from gossamer.settings.addresses import PORT_MAX, literal, multicast_address

__all__ = ["Address", "Datagrams", "Endpoint", "Handler", "Transport", "TransportError", "UdpTransport"]

Address = tuple[str, int]
"""Host and port, of either family; a link-local host is without its zone, because we have one interface."""
Datagrams = list[bytes | memoryview]
"""Bytes, or views of a buffer that the next read overwrites: copy what must stay."""
Handler = Callable[[Datagrams, Address], None]


class Arrived(Protocol):
    """Takes what was read: by multicast, if it was said `aloud`."""

    def __call__(self, datagrams: Datagrams, address: Address, *, aloud: bool = False) -> None:
        """These datagrams came from `address`."""


Ancillary = Sequence[tuple[int, int, bytes]]
"""What a datagram says to the kernel: level, kind and value of options for itself alone."""

GSO_BYTES_MAX = 65_000
GSO_SEGMENTS_MAX = 60
BYTES_PER_WAKEUP = 1 << 20
"""How much one wake-up may read, so that the application's coroutines get their turn."""
_TOGETHER_BYTES = 60_000
"""Reads are handed over together until they are this long, as a full packet of loopback is alone: what is done once for
all of them is done less often the further a member is behind."""
_COPY_MAX = 4096
"""Up to this size, copying a datagram out is quicker than taking a view of it."""
_LEAST_BYTES = 4096
"""A read counts as this much at least, for the work that it makes."""

_HEADERS_BYTES = {4: 28, 6: 48}
_PAYLOAD_BYTES_MAX = {4: 65_507, 6: 65_527}
_LAST_MULTICAST = {4: 0xEFFF_FFFF, 6: (1 << 128) - 1}
_SEGMENT, _GRO, _INT = Struct("H"), Struct("i"), Struct("i")
_HOPS = {4: (socket.IPPROTO_IP, socket.IP_TTL), 6: (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT)}
"""How a single datagram says how far it may go."""
_REFUSALS = frozenset(
    getattr(errno, name)
    for name in (
        *("ENOBUFS", "EPERM", "EACCES", "EMSGSIZE"),  # a full queue, a firewall, a broadcast, a datagram too long
        *("ENETUNREACH", "EHOSTUNREACH", "ENETDOWN"),
        *(
            "EINVAL",
            "EADDRNOTAVAIL",
            "ENODEV",
            "ENXIO",
        ),  # the interface, or our address on it, has gone: it may come back
    )
)
_SIOCGSTAMPNS = 0x8907
_STAMP = Struct("@qq")
_WAITED_MAX_S = 10.0
"""A clock that jumped must not make us believe anything else."""
_NO_GSO = frozenset((errno.EIO, errno.EINVAL, errno.EMSGSIZE, errno.EOPNOTSUPP))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A group's address, and the local interface through which to reach it."""

    group: str
    port: int
    interface: str
    unicast_port: int = 0
    channels: tuple[str, ...] = ()
    """The addresses of channels 1, 2, ..., as far as they are given."""

    @classmethod
    def parse(cls, address: str, interface: str, port: int = 0, channels: tuple[str, ...] = ()) -> "Endpoint":
        """From `239.192.77.7:7700` or `[ff15::7777]:7700`, an interface by address or name, and our unicast port."""
        try:
            group, number = multicast_address(address)
        except ValueError as error:
            raise TransportError(f"address {address!r}: {error}") from None
        if not 0 <= port <= PORT_MAX:
            raise TransportError(f"port {port}: must be from 1 to {PORT_MAX}, or 0 for any")
        return cls(str(group), number, interface, port, channels)

    def channel_address(self, channel: int) -> str:
        """The multicast address of a channel: as given, or so far after the group's own, at the end before it."""
        if 0 < channel <= len(self.channels):
            return self.channels[channel - 1]
        base = ip_address(self.group)
        last = _LAST_MULTICAST[base.version]
        number = int(base) + channel
        return str(type(base)(number if number <= last else int(base) - channel))

    @property
    def version(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.group else 4

    @property
    def is_loopback(self) -> bool:
        """Whether nothing can leave this machine."""
        address = literal(self.interface)
        if address is not None:
            return address.is_loopback
        interface = find(self.interface)
        return interface is not None and interface.is_loopback


class Transport(Protocol):
    """What a member needs from a network: `UdpTransport`, or one that wraps it."""

    endpoint: Endpoint
    multicast: socket.socket
    unicast: socket.socket
    address: Address
    mtu: int
    datagram_bytes_max: int
    rcvbuf_bytes: int

    def send_to_group(self, datagrams: list[bytes], hops: int = 0, channel: int = 0) -> int:
        """Send to all that hear `channel`, or to those within `hops`; returns how many datagrams the kernel refused."""

    def open_channel(self, channel: int) -> socket.socket:
        """Hear the multicast of a channel besides 0, at a socket of its own; TransportError if that cannot be."""

    def close_channel(self, channel: int) -> None:
        """Hear a channel no more."""

    def send_to(self, datagrams: list[bytes], address: Address) -> int:
        """Send to one member; returns how many datagrams the kernel refused."""

    def read(self, sock: socket.socket, handle: Handler) -> bool:
        """Hand over what is there, a bounded amount of it; returns whether there may be more."""

    def waited(self) -> float:
        """How long the datagram that was read last had been on this host by now, in seconds; 0 if that is not known."""

    def ignore_self(self) -> None:
        """Do not hear our own multicast, where the kernel can filter it out."""

    def rejoin(self) -> None:
        """The network was away, or we were: tell it again that we want the group's multicast."""

    def leave(self) -> None:
        """Tell the network that we do not want the group's multicast, until we rejoin."""

    def close(self) -> None:
        """Close all sockets."""


class UdpTransport:
    """The sockets of one member."""

    def __init__(self, endpoint: Endpoint, *, plain: bool = False, listen: bool = True) -> None:
        """`plain` does without GSO and GRO; `listen=False` does not join the group, and hears only unicast."""
        self.endpoint = endpoint
        self._listens = listen
        self.local: Local = resolve(endpoint.interface, endpoint.version)
        self.multicast = multicast_socket(self.local, endpoint.group, endpoint.port, listen=listen, plain=plain)
        try:
            self.unicast = unicast_socket(self.local, endpoint.unicast_port, plain=plain)
        except TransportError:
            self.multicast.close()
            raise
        host, port = self.unicast.getsockname()[:2]
        self.address: Address = (host.partition("%")[0], port)
        self.mtu = self.local.mtu
        version = endpoint.version
        self.datagram_bytes_max = min(self.mtu - _HEADERS_BYTES[version], _PAYLOAD_BYTES_MAX[version])
        """The largest datagram that crosses the interface in one piece."""
        self.rcvbuf_bytes = self.multicast.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        """What the kernel granted each socket, as it counts: twice what was asked, including its own bookkeeping."""
        self.gso = not plain and supports(self.unicast, UDP_SEGMENT)
        self.gro = not plain and supports(self.unicast, UDP_GRO)
        self._plain = plain
        self._groups = {0: self._destination((endpoint.group, endpoint.port))}  # by channel
        self._channels: dict[int, socket.socket] = {}
        self._ignores_self = False
        self._view = memoryview(bytearray(_TOGETHER_BYTES + 65_536))
        self._read = self.multicast
        self._stamp = bytearray(_STAMP.size)

    def send_to_group(self, datagrams: list[bytes], hops: int = 0, channel: int = 0) -> int:
        """Send to all that hear `channel`, or to those within `hops`; returns how many datagrams the kernel refused.

        From loopback nothing crosses a router anyway.
        """
        group = self._groups.get(channel)
        if group is None:
            address = self.endpoint.channel_address(channel), self.endpoint.port
            group = self._groups[channel] = self._destination(address)
        if not hops or self.local.is_loopback:
            return self._send(datagrams, group)
        level, kind = _HOPS[self.endpoint.version]
        limit = [(level, kind, _INT.pack(min(hops, HOPS)))]
        return sum(self._send_one(datagram, group, limit) for datagram in datagrams)

    def open_channel(self, channel: int) -> socket.socket:
        """Hear the multicast of a channel besides channel 0, at a socket of its own; TransportError if that cannot be.

        The kernel limits the groups of one socket (`igmp_max_memberships`), so each address has its own, which hears
        nothing but that address.
        """
        if channel not in self._channels:
            group, port = self.endpoint.channel_address(channel), self.endpoint.port
            sock = multicast_socket(self.local, group, port, listen=self._listens, plain=self._plain)
            self._channels[channel] = sock
            if self._ignores_self:
                ignore(sock, *self.address)
        return self._channels[channel]

    def close_channel(self, channel: int) -> None:
        """Hear a channel no more."""
        self._channels.pop(channel).close()

    def send_to(self, datagrams: list[bytes], address: Address) -> int:
        """Send to one member; returns how many datagrams the kernel refused."""
        return self._send(datagrams, self._destination(address))

    def read(self, sock: socket.socket, handle: Handler) -> bool:
        """Hand over what is there, a bounded amount of it; returns whether there may be more.

        What comes from one address is handed over together, as far as it is there.
        """
        self._read = sock
        receive, view, left = sock.recvmsg_into, self._view, BYTES_PER_WAKEUP
        found: Datagrams = []
        origin: Address = ("", 0)
        filled = 0
        while left > 0:
            try:
                size, ancillary, _, address = receive([view[filled:]], 64)
            except (BlockingIOError, InterruptedError):
                break
            except ConnectionRefusedError:
                continue  # nobody was there to receive an earlier datagram of ours
            left -= max(size, _LEAST_BYTES)
            if len(address) != 2:
                address = address[:2]  # IPv6: without flow and zone
            if found and address != origin:
                handle(found, origin)
                found = []
            origin = address
            data = view[filled : filled + size]
            found += _cut(data, ancillary) if ancillary else [data]
            filled += size
            if filled >= _TOGETHER_BYTES:
                handle(found, origin)
                found, filled = [], 0
        if found:
            handle(found, origin)
        return left <= 0

    def waited(self) -> float:
        """How long the datagram that was read last had been on this host by now, in seconds; 0 if that is not known.

        The kernel keeps the time of arrival of the last datagram, so this costs nothing unless somebody asks.
        """
        try:
            fcntl.ioctl(self._read, _SIOCGSTAMPNS, self._stamp)
        except OSError:  # nothing was read yet, or this is not Linux
            return 0.0
        seconds, nanoseconds = _STAMP.unpack(self._stamp)
        waited = time() - seconds - nanoseconds / 1e9
        return waited if 0.0 < waited < _WAITED_MAX_S else 0.0

    def ignore_self(self) -> None:
        """Do not hear our own multicast, where the kernel can filter it out."""
        if self.endpoint.version == 4:
            self._ignores_self = True
            ignore(self.multicast, *self.address)

    def rejoin(self) -> None:
        """The network was away, or we were: tell it again that we want the group's multicast."""
        for sock, group in self._joined() if self._listens else ():
            rejoin(sock, self.local, group)

    def leave(self) -> None:
        """Tell the network that we do not want the group's multicast, until we rejoin."""
        for sock, group in self._joined() if self._listens else ():
            leave(sock, self.local, group)

    def _joined(self) -> list[tuple[socket.socket, str]]:
        channels = [(sock, self.endpoint.channel_address(channel)) for channel, sock in self._channels.items()]
        return [(self.multicast, self.endpoint.group), *channels]

    def close(self) -> None:
        """Close all sockets."""
        for sock in (self.multicast, self.unicast, *self._channels.values()):
            sock.close()

    def _destination(self, address: Address) -> tuple[Any, ...]:
        """As the socket needs it: the zone of a link-local address is our interface's; other addresses ignore it."""
        if self.endpoint.version == 4:
            return address
        host, port = address
        return (host.partition("%")[0], port, 0, self.local.index)

    def _send(self, datagrams: list[bytes], destination: tuple[Any, ...]) -> int:
        if self.gso and len(datagrams) > 1:
            return sum(self._send_burst(burst, destination) for burst in bursts(datagrams))
        return sum(self._send_one(datagram, destination) for datagram in datagrams)

    def _send_burst(self, burst: list[bytes], destination: tuple[Any, ...]) -> int:
        if len(burst) == 1:
            return self._send_one(burst[0], destination)
        segment = _SEGMENT.pack(len(burst[0]))
        try:
            self.unicast.sendmsg(burst, [(SOL_UDP, UDP_SEGMENT, segment)], 0, destination)
        except (BlockingIOError, InterruptedError, ConnectionRefusedError):
            return len(burst)
        except OSError as error:
            if error.errno in _NO_GSO:  # the device cannot offload checksums, or a datagram is longer than its MTU
                self.gso = self.gso and error.errno != errno.EIO
                return sum(self._send_one(datagram, destination) for datagram in burst)
            if error.errno not in _REFUSALS:
                raise
            return len(burst)
        return 0

    def _send_one(self, datagram: bytes, destination: tuple[Any, ...], limit: Ancillary = ()) -> int:
        try:
            if limit:
                self.unicast.sendmsg([datagram], limit, 0, destination)
            else:
                self.unicast.sendto(datagram, destination)
        except (BlockingIOError, InterruptedError, ConnectionRefusedError):
            return 1
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
            return 1
        return 0


def _cut(data: memoryview, ancillary: list[tuple[int, int, bytes]]) -> Datagrams:
    """The datagrams that the kernel has joined into one read, split as its ancillary data says."""
    for level, kind, found in ancillary:
        if level == SOL_UDP and kind == UDP_GRO:
            (each,) = _GRO.unpack_from(found)
            joined = bytes(data) if each < _COPY_MAX else data
            return [joined[at : at + each] for at in range(0, len(data), each)]
    return [data]


def bursts(datagrams: list[bytes]) -> list[list[bytes]]:
    """Group datagrams into bursts that the kernel can split again: all of one size, except for a shorter last one.

    An empty datagram goes alone: it would vanish in a burst.
    """
    sizes = list(map(len, datagrams))
    size, last = sizes[0], sizes[-1]
    others = len(sizes) - sizes.count(size)
    if last and (not others or (others == 1 and last < size)):  # usually: full packets, and perhaps a shorter one
        each = max(1, min(GSO_SEGMENTS_MAX, GSO_BYTES_MAX // size))
        return [datagrams[at : at + each] for at in range(0, len(datagrams), each)]
    return _uneven_bursts(datagrams)


def _uneven_bursts(datagrams: list[bytes]) -> list[list[bytes]]:
    made: list[list[bytes]] = []
    size = total = 0
    ended = True
    for datagram in datagrams:
        fits = not ended and 0 < len(datagram) <= size and total + len(datagram) <= GSO_BYTES_MAX
        if fits and len(made[-1]) < GSO_SEGMENTS_MAX:
            made[-1].append(datagram)
        else:
            made.append([datagram])
            size, total = len(datagram), 0
        total += len(datagram)
        ended = len(datagram) < size
    return made
