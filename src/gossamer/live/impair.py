"""A bad network on purpose: a transport that loses, repeats, shuffles and damages what it hears (JGroups's habit)."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from gossamer.live.transport import Address, Datagrams, UdpTransport


@dataclass(frozen=True, slots=True)
class Impairments:
    """Probabilities, per datagram heard."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0


class ImpairedTransport(UdpTransport):
    """The same sockets, heard through a bad line."""

    def impair(self, impairments: Impairments, rng: Random) -> None:
        """From now on."""
        self._impairments, self._rng = impairments, rng

    def read(self, sock: socket.socket, handle: Callable[[Datagrams, Address], None]) -> bool:
        """Hand over what the line leaves of it."""
        return super().read(sock, lambda datagrams, address: handle(self._spoil(datagrams), address))

    def _spoil(self, datagrams: Datagrams) -> Datagrams:
        chance, bad = self._rng.random, self._impairments
        heard: Datagrams = []
        for datagram in datagrams:
            if chance() < bad.loss:
                continue
            if chance() < bad.corrupt:
                damaged = bytearray(datagram)
                damaged[int(chance() * len(damaged))] ^= 1 << int(chance() * 8)
                datagram = memoryview(damaged)
            heard.append(datagram)
            if chance() < bad.duplicate:
                heard.append(datagram)
        if len(heard) > 1 and chance() < bad.reorder:
            self._rng.shuffle(heard)
        return heard
