"""What one order costs at least on this machine: its messages, on bare UDP sockets, and nothing else.

The event loop, the sockets and the ways in which they are read are those of a program in asyncio. There are no numbers
to check, no repairs, no membership; a datagram that is lost stays lost. `fifo` is one multicast for each event. `order`
is what a settled place needs: up to three subscribers deliver at once, and one of them says that it keeps the event;
if there are more, as many as are most of all with the publisher say so, and all deliver what a second multicast
settles. The publisher is the primary, and a place travels in the datagram of its event.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from struct import Struct

from live_worker import Plan

_HEAD = Struct("!BBQ")
"""What it is, how many have to answer (the rank of a subscriber, if it is told that), and the number of the event.

If one has to answer, it is for the publisher alone: with it every subscriber is one of most.
"""
_HELLO, _RANK, _EVENT, _KEPT, _SETTLED = range(5)


def _read(sock: socket.socket, take: Callable[[bytes, tuple[str, int]], None]) -> None:
    while True:
        try:
            datagram, address = sock.recvfrom(65_536)
        except BlockingIOError:
            return
        take(datagram, address)


def _group(plan: Plan) -> tuple[str, int]:
    return "239.192.77.8", plan.port


class _Publisher:
    def __init__(self, sock: socket.socket, plan: Plan, *, ordered: bool) -> None:
        self._sock, self._group, self._ordered = sock, _group(plan), ordered
        self._ranks: dict[tuple[str, int], int] = {}
        self._number = 0
        self._kept: dict[int, int] = {}  # by event: how many have said so

    def take(self, datagram: bytes, address: tuple[str, int]) -> None:
        """A subscriber says that it is there, or that it keeps an event."""
        what, asked, number = _HEAD.unpack_from(datagram)
        if what == _HELLO:
            rank = self._ranks.setdefault(address, len(self._ranks))
            self._sock.sendto(_HEAD.pack(_RANK, rank, 0), address)
            return
        self._kept[number] = kept = self._kept.get(number, 0) + 1
        if kept == asked:
            del self._kept[number]
            if asked > 1:
                self._sock.sendto(_HEAD.pack(_SETTLED, 0, number), self._group)

    async def send(self, payload: bytes) -> None:
        """One event."""
        asked = len(self._ranks) // 2 if self._ordered else 0
        self._number += 1
        self._sock.sendto(_HEAD.pack(_EVENT, asked, self._number) + payload, self._group)

    async def send_many(self, payloads: Sequence[bytes]) -> None:
        """Several, one by one."""
        for payload in payloads:
            await self.send(payload)

    async def sent(self) -> None:
        """They are."""

    def stats(self) -> dict[str, int]:
        """Nothing is counted."""
        return {}


class _Subscriber:
    def __init__(self, sock: socket.socket, plan: Plan) -> None:
        self._sock, self._publisher = sock, (plan.host, plan.port)
        self._rank = -1
        self._held: dict[int, bytes] = {}
        self._payloads: list[bytes] = []
        self._ready = asyncio.Event()

    def take(self, datagram: bytes, address: tuple[str, int]) -> None:
        """An event, or what is settled, or our rank."""
        what, asked, number = _HEAD.unpack_from(datagram)
        if what == _RANK:
            self._rank = asked
        elif what == _SETTLED:
            if number in self._held:
                self._deliver(self._held.pop(number))
        else:
            self._take_event(datagram[_HEAD.size :], asked, number)

    def _take_event(self, payload: bytes, asked: int, number: int) -> None:
        if self._rank < 0:
            self._sock.sendto(_HEAD.pack(_HELLO, 0, 0), self._publisher)
        waits = asked > 1
        if waits:
            self._held[number] = payload
        else:
            self._deliver(payload)
        if 0 <= self._rank < asked:
            answer = partial(self._sock.sendto, _HEAD.pack(_KEPT, asked, number), self._publisher)
            if waits:
                answer()
            else:
                asyncio.get_running_loop().call_soon(answer)  # the application first

    def _deliver(self, payload: bytes) -> None:
        self._payloads.append(payload)
        self._ready.set()

    async def receive(self, at_most: int) -> list[bytes]:
        """What has come."""
        await self._ready.wait()
        self._ready.clear()
        payloads, self._payloads = self._payloads, []
        return payloads

    def stats(self) -> dict[str, int]:
        """Nothing is counted."""
        return {}


@asynccontextmanager
async def publisher(plan: Plan, *, ordered: bool) -> AsyncIterator[_Publisher]:
    """The end that events go in at."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(plan.interface))
        sock.bind((plan.host, plan.port))
        end = _Publisher(sock, plan, ordered=ordered)
        asyncio.get_running_loop().add_reader(sock, _read, sock, end.take)
        yield end
        asyncio.get_running_loop().remove_reader(sock)


@asynccontextmanager
async def subscriber(plan: Plan) -> AsyncIterator[_Subscriber]:
    """The end that they come out at."""
    group, port = _group(plan)
    datagram = socket.AF_INET, socket.SOCK_DGRAM
    with socket.socket(*datagram) as heard, socket.socket(*datagram) as sock:
        heard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        heard.bind((group, port))
        membership = socket.inet_aton(group) + socket.inet_aton(plan.interface)
        heard.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        sock.bind((plan.interface, 0))
        end, loop = _Subscriber(sock, plan), asyncio.get_running_loop()
        for each in (heard, sock):
            each.setblocking(False)
            loop.add_reader(each, _read, each, end.take)
        yield end
        for each in (heard, sock):
            loop.remove_reader(each)
