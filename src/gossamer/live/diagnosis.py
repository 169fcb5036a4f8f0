"""Tests of what a member would find on this machine: each finding is ok, warn or fail, and says what to change.

Multicast is really sent and received, on all interfaces at once, from a port of our own unless one is asked for, so
that a running group does not hear it.
"""

import os
import secrets
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from gossamer.live.credentials import endpoint_of
from gossamer.live.interfaces import find, interfaces
from gossamer.live.sockets import SOCKET_BUFFER_BYTES
from gossamer.live.transport import Address, Datagrams, Endpoint, TransportError, UdpTransport
from gossamer.settings import Settings
from gossamer.settings.group import read_key
from gossamer.wire.keys import key_id

PATIENCE_S = 0.5
"""How long a datagram may take on this machine."""
MTU_USUAL = 1280
"""The smallest MTU that an IPv6 link may have (RFC 8200)."""
MONOTONIC_S_MAX = 1e-3
WALL_CLOCK_MIN = 1_735_689_600.0
"""The first of January 2025: a clock that shows an earlier time was never set."""

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis."""

    check: str
    verdict: Verdict
    says: str
    change: str = ""


def network(address: str, interface: str, only: bool) -> list[Finding]:
    """Test multicast, MTU, bursts and buffers on every interface that is up, or on `interface` only.

    Multicast must work on `interface`; on the others a failure is only a warning.
    """
    version = Endpoint.parse(address, interface).version
    chosen = find(interface)
    wanted = [(chosen.name if chosen else interface, interface)]
    if not only:
        others = (i for i in interfaces() if i != chosen and i.is_up and i.address(version) is not None)
        wanted += [(other.name, other.name) for other in others]
    findings: list[Finding] = []
    opened: dict[str, UdpTransport] = {}
    with ExitStack() as stack:
        for name, by in wanted:
            try:
                opened[name] = UdpTransport(Endpoint.parse(address, by))
                stack.callback(opened[name].close)
            except TransportError as error:
                findings.append(Finding(f"multicast on {name}", "fail" if by == interface else "warn", *_cut(error)))
        heard = _who_hears_whom(opened)
        for name, transport in opened.items():
            must = transport.endpoint.interface == interface
            findings += [_multicast(name, heard[name], must), _mtu(name, transport.mtu, transport.datagram_bytes_max)]
            findings.append(_bursts(name, transport))
        for transport in list(opened.values())[:1]:  # the same for all
            findings += _buffers(transport)
    return findings


def free_port(host: str) -> int:
    """A port that nobody uses, so that nobody hears the tests."""
    family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])


def _who_hears_whom(opened: dict[str, UdpTransport]) -> dict[str, set[str]]:
    """For each interface, the interfaces that heard what was sent on it."""
    tokens = {name: secrets.token_bytes(16) for name in opened}
    by_token = {token: name for name, token in tokens.items()}
    by_sock = {transport.multicast: (name, transport) for name, transport in opened.items()}
    heard: dict[str, set[str]] = {name: set() for name in opened}
    for name, transport in opened.items():
        transport.send_to_group([tokens[name]])
    until = time.monotonic() + PATIENCE_S
    while (left := until - time.monotonic()) > 0 and not all(len(heard[name]) == len(opened) for name in heard):
        for sock in select.select(list(by_sock), [], [], left)[0]:
            listener, transport = by_sock[sock]
            got: list[bytes] = []
            transport.read(sock, partial(_keep, got))
            for sender in filter(None, map(by_token.get, got)):
                heard[sender].add(listener)
    return heard


def _keep(got: list[bytes], datagrams: Datagrams, _: Address) -> None:
    got.extend(map(bytes, datagrams))


def _multicast(name: str, listeners: set[str], must: bool) -> Finding:
    check = f"multicast on {name}"
    if name not in listeners:
        change = "let UDP to the group through the firewall, or use first_pass='trees' with contacts"
        return Finding(check, "fail" if must else "warn", "sent, but not heard on the same interface", change)
    others = sorted(listeners - {name})
    return Finding(check, "ok", "sent and heard" + (f", also on {', '.join(others)}" if others else ""))


def _mtu(name: str, mtu: int, datagram_bytes_max: int) -> Finding:
    says = f"{mtu:,} bytes: packets of up to {datagram_bytes_max:,}"
    if mtu < MTU_USUAL:
        return Finding(f"mtu of {name}", "warn", says, f"raise it with `ip link set {name} mtu 1500`")
    return Finding(f"mtu of {name}", "ok", says)


def _bursts(name: str, transport: UdpTransport) -> Finding:
    """Send a burst to ourselves, and count the reads that it takes to get it back."""
    check = f"bursts on {name}"
    size = min(1000, transport.datagram_bytes_max)
    sent = [bytes([n]) * size for n in range(8)]
    reads: list[list[bytes]] = []
    transport.send_to(sent, transport.address)
    until = time.monotonic() + PATIENCE_S
    while sum(map(len, reads)) < len(sent) and (left := until - time.monotonic()) > 0:
        select.select([transport.unicast], [], [], left)
        transport.read(transport.unicast, lambda datagrams, _: reads.append(list(map(bytes, datagrams))))
    if [datagram for read in reads for datagram in read] != sent:
        return Finding(check, "fail", "a burst to ourselves did not come back complete", "let UDP through the firewall")
    has = f"GSO {'yes' if transport.gso else 'no'}, GRO {'yes' if transport.gro else 'no'}"
    if not (transport.gso and transport.gro):
        return Finding(check, "warn", has, "use Linux 5.0 or later: otherwise each packet takes a system call")
    return Finding(check, "ok", f"{has}: {len(sent)} datagrams in {len(reads)} read{'s' if len(reads) > 1 else ''}")


def _buffers(transport: UdpTransport) -> Iterator[Finding]:
    """The kernel doubles what it grants, for its own bookkeeping; root may exceed the limits, others may not."""
    options = (("receive", socket.SO_RCVBUF, "net.core.rmem_max"), ("send", socket.SO_SNDBUF, "net.core.wmem_max"))
    for kind, option, sysctl in options:
        granted = transport.unicast.getsockopt(socket.SOL_SOCKET, option) // 2
        limit = _number(Path("/proc/sys") / sysctl.replace(".", "/"))
        says = f"asked for {SOCKET_BUFFER_BYTES:,} bytes, granted {granted:,}"
        change = f"sysctl -w {sysctl}={SOCKET_BUFFER_BYTES}"
        if granted < SOCKET_BUFFER_BYTES:
            yield Finding(f"{kind} buffer", "warn", says, change)
        elif limit is not None and limit < SOCKET_BUFFER_BYTES:
            yield Finding(f"{kind} buffer", "warn", f"{says} because you are root; others get {limit:,}", change)
        else:
            yield Finding(f"{kind} buffer", "ok", says)


def clock() -> Iterator[Finding]:
    """Timers need a fine monotonic clock; the times of events and `start` need a wall clock that was set."""
    resolution = time.get_clock_info("monotonic").resolution
    says = f"resolution {resolution * 1e9:,.0f} ns"
    if resolution > MONOTONIC_S_MAX:
        yield Finding("monotonic clock", "warn", says, "timers may be late by this much: use another clock source")
    else:
        yield Finding("monotonic clock", "ok", says)
    now = time.time()
    says = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < WALL_CLOCK_MIN:
        yield Finding("wall clock", "fail", f"{says}: the clock was never set", "set it, with NTP or `date -s`")
    else:
        yield Finding("wall clock", "ok", says)


def keys(settings: Settings) -> Iterator[Finding]:
    """Test that each key can be read, and by nobody else; say which key it is."""
    ring = settings.key_ring()
    if ring is None:
        yield _no_key(settings)
        return
    for text in dict.fromkeys((settings.key or "", *settings.keys)):
        number = key_id(read_key("key", text))
        check = f"key {number:08x}"
        use = "seals and opens" if number == ring.using else "opens"
        if not text.startswith("@"):
            yield Finding(check, "ok", f"{use}; from the settings or the environment")
            continue
        path = Path(text[1:]).expanduser()
        mode = path.stat().st_mode & 0o777
        if mode & 0o077:
            yield Finding(check, "fail", f"{use}; {path} has mode {mode:04o}: others can read it", f"chmod 600 {path}")
        else:
            yield Finding(check, "ok", f"{use}; {path} has mode {mode:04o}")


def _no_key(settings: Settings) -> Finding:
    if endpoint_of(settings).is_loopback:
        return Finding("key", "ok", "none, and none is needed: the interface is loopback")
    change = "run `gossamer key new --out group.key`, copy the file to every host, and set key='@group.key'"
    if settings.insecure:
        return Finding("key", "warn", "none, and insecure: anybody on the network can read and publish", change)
    return Finding("key", "fail", f"none, and {settings.interface} is not loopback: joining is refused", change)


def variables(known: set[str]) -> Iterator[Finding]:
    """Environment variables that look like ours and are unknown: perhaps misspelt."""
    for name in sorted(os.environ):
        if name.startswith("GOSSAMER_") and name not in known and not name.startswith("GOSSAMER_TUNING_"):
            yield Finding("environment", "warn", f"{name} is not a setting", "see docs/settings.md for the names")


def _cut(error: TransportError) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
    says, _, change = str(error).partition("; ")
    return says, change


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
