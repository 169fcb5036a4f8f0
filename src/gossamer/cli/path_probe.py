"""Datagrams that measure a path beside a group's own traffic: how long they take, and which are lost.

A probe carries the times at which it was sent, came, was returned and came back, the latter two by the kernel's clock
where it tells, so that busy processes do not count as a slow path. The clocks of two hosts differ by a constant, which
cancels out in a round trip, and in how much longer one way takes than it did at best: what a queue adds.
"""

import asyncio
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

TOKEN_BYTES = 16
PERIOD_S = 0.005
_PROBE = struct.Struct(f"!{TOKEN_BYTES}sI4Q")
_TIMESPEC = struct.Struct("@qq")
_SO_TIMESTAMPNS = 35  # Linux; a kernel that does not know it leaves us with our own clock
_ROUND_TRIP_MAX_S = 0.5
_AT_ONCE = 64


class Trip(NamedTuple):
    """The way of one probe, in nanoseconds; one way includes the difference of the clocks."""

    there_ns: int
    round_trip_ns: int


def _open(host: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sock.bind((host, 0))
    return sock


def _received(sock: socket.socket) -> Iterator[tuple[bytes, int, tuple[str, int]]]:
    """What waits in the socket: data, when it came, from where."""
    for _ in range(_AT_ONCE):
        try:
            data, ancillary, _, address = sock.recvmsg(_PROBE.size + 1, 64)
        except OSError:  # nothing more, or a word that nobody listens there
            return
        came = time.time_ns()
        for _, kind, stamp in ancillary:
            if kind == _SO_TIMESTAMPNS and len(stamp) == _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack(stamp)
                came = seconds * 10**9 + nanoseconds
        yield data, came, address


class Echo:
    """Returns probes that carry a known token, which only members of the group can know; ignores all others."""

    def __init__(self, host: str) -> None:
        self.tokens: set[bytes] = set()
        self._sock = _open(host)
        self.port: int = self._sock.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._sock, self._answer)

    def close(self) -> None:
        """Stop answering."""
        asyncio.get_running_loop().remove_reader(self._sock)
        self._sock.close()

    def _answer(self) -> None:
        for data, came, address in _received(self._sock):
            if len(data) == _PROBE.size and data[:TOKEN_BYTES] in self.tokens:
                token, number, sent, *_ = _PROBE.unpack(data)
                with suppress(OSError):
                    self._sock.sendto(_PROBE.pack(token, number, sent, came, time.time_ns(), 0), address)


@dataclass(slots=True)
class Phase:
    """Probes of one part of a measurement."""

    sent: int = 0
    trips: list[Trip] = field(default_factory=list)

    @property
    def lost(self) -> float:
        """The share that did not come back."""
        return 1.0 - len(self.trips) / self.sent if self.sent else 0.0


class Prober:
    """Sends probes to one echo."""

    def __init__(self, token: bytes, host: str, there: tuple[str, int]) -> None:
        self._token, self._there = token, there
        self._sock = _open(host)
        self._number = 0
        self._phases: dict[int, Phase] = {}
        asyncio.get_running_loop().add_reader(self._sock, self._returned)

    async def run(self, until: asyncio.Event) -> Phase:
        """Send probes until told, and wait for the last ones."""
        phase = Phase()
        while not until.is_set():
            self._send(phase)
            with suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), PERIOD_S)
        await asyncio.sleep(_ROUND_TRIP_MAX_S)
        self._phases.clear()
        return phase

    def close(self) -> None:
        """Stop listening."""
        asyncio.get_running_loop().remove_reader(self._sock)
        self._sock.close()

    def _send(self, phase: Phase) -> None:
        self._number += 1
        self._phases[self._number] = phase
        phase.sent += 1
        with suppress(OSError):  # no room, or no way: it counts as lost
            self._sock.sendto(_PROBE.pack(self._token, self._number, time.time_ns(), 0, 0, 0), self._there)

    def _returned(self) -> None:
        for data, back, _ in _received(self._sock):
            if len(data) != _PROBE.size or data[:TOKEN_BYTES] != self._token:
                continue
            _, number, sent, came, returned, _ = _PROBE.unpack(data)
            if (phase := self._phases.pop(number, None)) is not None:
                phase.trips.append(Trip(came - sent, back - sent - (returned - came)))
