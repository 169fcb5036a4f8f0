"""A bad network on purpose: a wrapper that loses, repeats, reorders, damages, delays and blocks (as JGroups does).

It wraps any transport and spoils what that transport hears, after the kernel has received it; what it sends goes out
unchanged, except to a blocked address. All randomness comes from the generator that it is given.
"""

import asyncio
import socket
from collections.abc import Callable, Container
from dataclasses import dataclass, fields
from random import Random
from typing import Self

from gossamer.core.schema import SettingError, build, check_value, setting
from gossamer.live.transport import Address, Datagrams, Endpoint, Handler, Transport, UdpTransport

REORDER_S = 0.005
"""The longest extra delay of a datagram that others overtake."""

Blocked = Container[Address] | Callable[[Address], bool]


@dataclass(frozen=True, slots=True)
class Impairments:
    """Probabilities per datagram heard, and a delay; an invalid value raises SettingError at once."""

    loss: float = setting(0.0, "Lost, independently of the others.", low=0, high=1)
    duplicate: float = setting(0.0, "Heard twice.", low=0, high=1)
    reorder: float = setting(0.0, "Overtaken by others.", low=0, high=1)
    corrupt: float = setting(0.0, "One bit flipped.", low=0, high=1)
    burst: tuple[float, float] = setting(
        (0.0, 0.0), "Gilbert-Elliott: P(good->bad), P(bad->good); in the bad state everything is lost.", low=0, high=1
    )
    delay: float = setting(0.0, "Everything comes this much later.", unit="s", low=0, high=60)

    def __post_init__(self) -> None:
        for field in fields(self):
            check_value(field.name, getattr(self, field.name), field.metadata)
        if self.burst[0] > 0 and self.burst[1] == 0:
            raise SettingError(f"burst = {self.burst!r}: the second number must be above 0, or a burst never ends")

    @classmethod
    def parse(cls, text: str) -> Self:
        """From a command line: `loss=0.05,duplicate=0.1,burst=0.01:0.3`."""
        table: dict[str, float | tuple[float, ...]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            key, equals, value = part.partition("=")
            try:
                numbers = tuple(float(number) for number in value.split(":"))
            except ValueError:
                numbers = ()
            if not equals or not numbers:
                raise SettingError(f"{part!r}: must look like loss=0.05 or burst=0.01:0.3")
            table[key.strip()] = numbers if len(numbers) > 1 else numbers[0]
        return build(cls, table)


class ImpairedTransport:
    """Any transport, heard through a bad line; given an endpoint, it makes a `UdpTransport` of its own."""

    def __init__(self, inner: Transport | Endpoint) -> None:
        self._inner: Transport = UdpTransport(inner) if isinstance(inner, Endpoint) else inner
        self.endpoint = self._inner.endpoint
        self.multicast, self.unicast = self._inner.multicast, self._inner.unicast
        self.address, self.mtu = self._inner.address, self._inner.mtu
        self.datagram_bytes_max, self.rcvbuf_bytes = self._inner.datagram_bytes_max, self._inner.rcvbuf_bytes
        self._blocks: Callable[[Address], bool] | None = None
        self._late: set[asyncio.TimerHandle] = set()
        self.impair(Impairments(), Random(0))

    def impair(self, impairments: Impairments, rng: Random) -> Self:
        """Impair from now on; a burst that is under way ends."""
        self._impairments, self._rng = impairments, rng
        self._bad = False
        self._spoils = impairments != Impairments()
        return self

    def partition(self, blocked: Blocked) -> Self:
        """From now on nothing comes from or goes to these addresses; multicast still leaves, so block us there too."""
        self._blocks = blocked if callable(blocked) else blocked.__contains__
        return self

    def heal(self) -> None:
        """End the partition."""
        self._blocks = None

    def send_to_group(self, datagrams: list[bytes], hops: int = 0, channel: int = 0) -> int:
        """Send to everyone, or to those within `hops` hops; returns how many datagrams the kernel refused."""
        return self._inner.send_to_group(datagrams, hops, channel)

    def send_to(self, datagrams: list[bytes], address: Address) -> int:
        """Send to one member, unless it is blocked; returns how many datagrams the kernel refused."""
        if self._blocks is not None and self._blocks(address):
            return 0
        return self._inner.send_to(datagrams, address)

    def read(self, sock: socket.socket, handle: Handler) -> bool:
        """Hand over what the bad line lets through."""
        if not self._spoils and self._blocks is None:
            return self._inner.read(sock, handle)
        return self._inner.read(sock, lambda datagrams, address: self._pass_on(datagrams, address, handle))

    def waited(self) -> float:
        """Unknown: what we delay has been read long ago."""
        return 0.0

    def ignore_self(self) -> None:
        """As the transport does."""
        self._inner.ignore_self()

    def open_channel(self, channel: int) -> socket.socket:
        """As it is."""
        return self._inner.open_channel(channel)

    def close_channel(self, channel: int) -> None:
        """As it is."""
        self._inner.close_channel(channel)

    def rejoin(self) -> None:
        """As the transport does."""
        self._inner.rejoin()

    def leave(self) -> None:
        """As the transport does."""
        self._inner.leave()

    def close(self) -> None:
        """Close the sockets; what is still on its way never comes."""
        for handle in self._late:
            handle.cancel()
        self._late.clear()
        self._inner.close()

    def _pass_on(self, datagrams: Datagrams, address: Address, handle: Handler) -> None:
        if self._blocks is not None and self._blocks(address):
            return
        bad = self._impairments
        heard = self._spoil(datagrams)
        overtaken: Datagrams = []
        if bad.reorder:
            chosen = [self._rng.random() < bad.reorder for _ in heard]
            overtaken = [datagram for datagram, is_late in zip(heard, chosen, strict=True) if is_late]
            heard = [datagram for datagram, is_late in zip(heard, chosen, strict=True) if not is_late]
        self._hand_over(heard, address, handle, bad.delay)
        self._hand_over(overtaken, address, handle, bad.delay + self._rng.random() * REORDER_S if overtaken else 0.0)

    def _hand_over(self, datagrams: Datagrams, address: Address, handle: Handler, delay_s: float) -> None:
        if not datagrams:
            return
        if not delay_s:
            handle(datagrams, address)
            return
        kept: Datagrams = [bytes(datagram) for datagram in datagrams]  # the buffer is overwritten before then

        def arrive() -> None:
            self._late.discard(timer)
            handle(kept, address)

        timer = asyncio.get_running_loop().call_later(delay_s, arrive)
        self._late.add(timer)

    def _spoil(self, datagrams: Datagrams) -> Datagrams:
        chance, bad = self._rng.random, self._impairments
        heard: Datagrams = []
        for datagram in datagrams:
            if (bad.burst[0] and self._in_burst()) or (bad.loss and chance() < bad.loss):
                continue
            if bad.corrupt and chance() < bad.corrupt and len(datagram):
                damaged = bytearray(datagram)
                damaged[int(chance() * len(damaged))] ^= 1 << int(chance() * 8)
                datagram = memoryview(damaged)
            heard.append(datagram)
            if bad.duplicate and chance() < bad.duplicate:
                heard.append(datagram)
        return heard

    def _in_burst(self) -> bool:
        change = self._impairments.burst[1 if self._bad else 0]
        if self._rng.random() < change:
            self._bad = not self._bad
        return self._bad
