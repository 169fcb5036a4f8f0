"""The numbers of a protocol that depend on the machine: how large a packet is, how many fit into a socket's buffer.

Everything that waits is bounded in bytes; the stack counts packets, so the bounds are converted here, once.
"""

import gc
from typing import NamedTuple

from gossamer.core.settings import ProtocolSettings
from gossamer.live.transport import Address, Transport
from gossamer.presets import LIVE
from gossamer.settings import Settings
from gossamer.wire import fragments

BUFFER_BYTES = 64 << 20
"""What a member keeps for others."""
_SMALLEST_BYTES = 256
"""What a packet takes in memory at least: as many as fit in the send buffer may wait there."""
_WINDOW_MIN, _WINDOW_MAX = 8, 2048
_PACKETS_PER_BUFFER = 16
"""A socket's buffer should hold this many packets; where it is small, so are the packets."""
_DATAGRAM_MIN = 1400


def spare_the_collector() -> None:
    """Let Python look for garbage after 50,000 new objects, not after 700, unless the application has set this itself.

    A member makes a million events a second, none of them garbage; with the default, scanning them again and again
    costs more than making them.
    """
    if gc.get_threshold() == (700, 10, 10):
        gc.set_threshold(50_000, 20, 50)


class Tuning(NamedTuple):
    """What a member runs with."""

    protocol: ProtocolSettings
    body_bytes: int
    multicast: bool
    contacts: tuple[Address, ...]


def contacts_of(settings: Settings) -> tuple[Address, ...]:
    """The addresses to contact where there is no multicast."""
    return tuple(_address(contact) for contact in settings.contacts)


def tuned(settings: Settings, transport: Transport, overhead_bytes: int, *, trees: bool) -> Tuning:
    """Work out a tuning from what the application wants and the machine offers; `trees` where there is no multicast."""
    fitting = max(_DATAGRAM_MIN, transport.rcvbuf_bytes // _PACKETS_PER_BUFFER)
    datagram = min(transport.datagram_bytes_max, fitting)
    window = max(_WINDOW_MIN, min(_WINDOW_MAX, transport.rcvbuf_bytes // 4 // datagram))
    longest = settings.event_bytes_max + fragments.ABOUT_BYTES_MAX
    is_local = transport.endpoint.is_loopback
    unlogged = max(settings.unlogged_bytes, 2 * longest)
    protocol = settings.protocol_settings(
        dissemination="trees" if trees else "multicast",
        buffer_packets=BUFFER_BYTES // min(datagram, _DATAGRAM_MIN),
        buffer_bytes=BUFFER_BYTES,
        congestion="none" if is_local or "rate_limit" in settings.tuning else "delay",
        parity=0 if is_local else LIVE["parity"],  # there no line is long: what takes long is a busy process
        window=window,
        reach=max(4 * window, BUFFER_BYTES * 3 // 4 // datagram),
        request_packets=window,
        queue_packets=2 + max(settings.send_bytes, longest) // (datagram - overhead_bytes - fragments.HEAD.size),
        send_buffer=2 + unlogged // _SMALLEST_BYTES,
        send_buffer_bytes=unlogged,
    )
    return Tuning(protocol, datagram - overhead_bytes, not trees, contacts_of(settings))


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
