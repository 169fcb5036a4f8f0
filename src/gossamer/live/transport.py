"""Two UDP sockets: one hears the group's multicast address, the other sends everything and hears what is meant for us.

Everything is sent from the second socket, so the source address of any datagram is where its member can be reached.
Where the kernel can (GSO and GRO, Linux 4.18 and 5.0), a burst of equal datagrams crosses the system call boundary as
one; where it cannot, one at a time.
"""

import errno
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

Address = tuple[str, int]
Datagrams = list[memoryview]

SOL_UDP = 17
UDP_SEGMENT = 103
UDP_GRO = 104

SOCKET_BUFFER_BYTES = 16 << 20
GSO_BYTES_MAX = 65_000
GSO_SEGMENTS_MAX = 60
READS_PER_WAKEUP = 64
"""How many reads one wake-up may take, so that the application's coroutines get their turn."""

_IPV4_UDP_BYTES = 28


class TransportError(OSError):
    """The sockets cannot be made as asked: the message says what to change."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A group's address and the local interface to reach it by."""

    group: str
    port: int
    interface: str

    @classmethod
    def parse(cls, address: str, interface: str) -> "Endpoint":
        """From `239.192.77.7:7700` and the address of a local interface."""
        host, _, port = address.rpartition(":")
        try:
            first = int(host.split(".")[0])
            number = int(port)
        except ValueError:
            raise TransportError(f"address {address!r}: must look like 239.192.77.7:7700") from None
        if not 224 <= first <= 239 or not 0 < number < 65536:
            raise TransportError(
                f"address {address!r}: must be an IPv4 multicast address, 224.0.0.0 to 239.255.255.255, and a port"
            )
        return cls(host, number, interface)

    @property
    def is_loopback(self) -> bool:
        """Whether nothing can leave this machine."""
        return self.interface.startswith("127.")


class UdpTransport:
    """The sockets of one member."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.multicast = _multicast_socket(endpoint)
        self.unicast = _unicast_socket(endpoint)
        self.address: Address = self.unicast.getsockname()
        self.mtu = _mtu(endpoint)
        self._group: Address = (endpoint.group, endpoint.port)
        self._buffer = bytearray(65_536)
        self._view = memoryview(self._buffer)
        self._gso = _supports(self.unicast, UDP_SEGMENT)

    @property
    def datagram_bytes_max(self) -> int:
        """The largest datagram that crosses the interface in one piece."""
        return min(self.mtu - _IPV4_UDP_BYTES, 65_507)

    def send_to_group(self, datagrams: list[bytes]) -> int:
        """Send to everyone; how many the kernel did not take."""
        return self._send(datagrams, self._group)

    def send_to(self, datagrams: list[bytes], address: Address) -> int:
        """Send to one member; how many the kernel did not take."""
        return self._send(datagrams, address)

    def read(self, sock: socket.socket, handle: Callable[[Datagrams, Address], None]) -> bool:
        """Hand over what is there, a bounded amount of it; whether there may be more."""
        for _ in range(READS_PER_WAKEUP):
            try:
                size, ancillary, _, address = sock.recvmsg_into([self._buffer], 64)
            except (BlockingIOError, InterruptedError):
                return False
            except ConnectionRefusedError:
                continue  # an earlier datagram of ours found nobody
            handle(self._segments(size, ancillary), address)
        return True

    def close(self) -> None:
        """Both sockets."""
        self.multicast.close()
        self.unicast.close()

    def _segments(self, size: int, ancillary: list[tuple[int, int, bytes]]) -> Datagrams:
        for level, kind, data in ancillary:
            if level == SOL_UDP and kind == UDP_GRO:
                (each,) = struct.unpack_from("i", data)
                return [self._view[at : min(at + each, size)] for at in range(0, size, each)]
        return [self._view[:size]]

    def _send(self, datagrams: list[bytes], address: Address) -> int:
        refused = 0
        for burst in _bursts(datagrams) if self._gso and len(datagrams) > 1 else ([d] for d in datagrams):
            refused += 0 if self._send_burst(burst, address) else len(burst)
        return refused

    def _send_burst(self, burst: list[bytes], address: Address) -> bool:
        try:
            if len(burst) == 1:
                self.unicast.sendto(burst[0], address)
            else:
                segment = struct.pack("H", len(burst[0]))
                self.unicast.sendmsg(burst, [(SOL_UDP, UDP_SEGMENT, segment)], 0, address)
        except (BlockingIOError, InterruptedError, ConnectionRefusedError):
            return False
        except OSError as error:
            if error.errno not in (errno.ENOBUFS, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EPERM, errno.EMSGSIZE):
                raise
            return False
        return True


def _bursts(datagrams: list[bytes]) -> list[list[bytes]]:
    """Cut into bursts that the kernel can split again: all of one size, but for a shorter last one."""
    bursts: list[list[bytes]] = []
    size = total = 0
    ended = True
    for datagram in datagrams:
        fits = not ended and len(datagram) <= size and total + len(datagram) <= GSO_BYTES_MAX
        if fits and len(bursts[-1]) < GSO_SEGMENTS_MAX:
            bursts[-1].append(datagram)
        else:
            bursts.append([datagram])
            size, total = len(datagram), 0
        total += len(datagram)
        ended = len(datagram) < size
    return bursts


def _multicast_socket(endpoint: Endpoint) -> socket.socket:
    sock = _udp_socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((endpoint.group, endpoint.port))
        membership = socket.inet_aton(endpoint.group) + socket.inet_aton(endpoint.interface)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError as error:
        sock.close()
        raise TransportError(
            f"cannot listen to {endpoint.group}:{endpoint.port} on {endpoint.interface}: {error.strerror or error}; "
            "is that the address of an interface of this machine, and does it do multicast?"
        ) from None
    return sock


def _unicast_socket(endpoint: Endpoint) -> socket.socket:
    sock = _udp_socket()
    try:
        sock.bind((endpoint.interface, 0))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(endpoint.interface))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0 if endpoint.is_loopback else 8)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    except OSError as error:
        sock.close()
        raise TransportError(f"cannot use interface {endpoint.interface}: {error.strerror or error}") from None
    return sock


def _udp_socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    for forced, plain in ((33, socket.SO_RCVBUF), (32, socket.SO_SNDBUF)):  # SO_RCVBUFFORCE, SO_SNDBUFFORCE: root only
        try:
            sock.setsockopt(socket.SOL_SOCKET, forced, SOCKET_BUFFER_BYTES)
        except OSError:
            sock.setsockopt(socket.SOL_SOCKET, plain, SOCKET_BUFFER_BYTES)
    with suppress(OSError):
        sock.setsockopt(SOL_UDP, UDP_GRO, 1)
    return sock


def _supports(sock: socket.socket, option: int) -> bool:
    try:
        sock.getsockopt(SOL_UDP, option)
    except OSError:
        return False
    return True


def _mtu(endpoint: Endpoint) -> int:
    """The MTU of the interface, asked of the kernel by way of a connected socket; 1500 where it does not say."""
    if not endpoint.is_loopback:
        return 1500
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        probe.connect((endpoint.interface, 9))
        return probe.getsockopt(socket.IPPROTO_IP, 14)  # IP_MTU
    except OSError:
        return 1500
    finally:
        probe.close()
