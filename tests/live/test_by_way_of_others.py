"""A first pass by way of another member, over real sockets: nobody is sent more than fits there."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from gossamer.live.group import Group
from gossamer.live.transport import Endpoint, UdpTransport
from tests.live.members import GROUP, run, settings, until

BUFFER_BYTES = 1 << 18
EVENTS, SIZE = 6_000, 8_000
SO_MEMINFO, MEMINFO = 55, struct.Struct("9I")


class SmallTransport(UdpTransport):
    """Sockets that hold little, and so windows that are small."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        for sock in (self.multicast, self.unicast):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self.rcvbuf_bytes = self.unicast.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)

    def overflown(self) -> int:
        """How many datagrams found no room."""
        found = self.unicast.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, MEMINFO.size)
        return MEMINFO.unpack(found)[-1]


@asynccontextmanager
async def members(**changes: object) -> AsyncIterator[tuple[list[Group], list[SmallTransport]]]:
    """Three, and their transports."""
    transports: list[SmallTransport] = []

    def transport(endpoint: Endpoint) -> SmallTransport:
        transports.append(SmallTransport(endpoint))
        return transports[-1]

    shared = settings(**changes)
    async with AsyncExitStack() as stack:
        groups = [await stack.enter_async_context(Group(GROUP, shared, transport)) for _ in range(3)]
        await until(lambda: all(len(group.members()) == 3 for group in groups))
        yield groups, transports


async def listen(group: Group) -> int:
    """How many of the events come."""
    came = 0
    async for batch in group.subscribe(">").batches():
        came += sum(hasattr(item, "payload") for item in batch)
        if came == EVENTS:
            break
    return came


async def stop_and_go(group: Group) -> None:
    """A process that runs only now and then."""
    while True:
        group._member.pause()
        await asyncio.sleep(0.03)
        group._member.resume()
        await asyncio.sleep(0.002)


def test_a_primary_that_reads_seldom_is_not_sent_more_than_fits():
    """Its sender tells everybody by multicast how far it has come, which may be read before the packets are."""

    async def story():
        async with members(order="total", first_pass="graph") as (groups, transports):
            primary = groups[0].stats()["order"]["primary"]
            slow, source, other = sorted(groups, key=lambda group: group.me != primary)
            listening = [asyncio.create_task(listen(group)) for group in (slow, other)]
            stopping = asyncio.create_task(stop_and_go(slow))
            await source.publish_many("a.b", [bytes(SIZE)] * EVENTS)
            assert await asyncio.gather(*listening) == [EVENTS, EVENTS]
            stopping.cancel()
            slow._member.resume()
            assert [transport.overflown() for transport in transports] == [0, 0, 0]
            sent, repaired = (
                source.stats()["sent"]["send"],
                [group.stats()["sent"].get("repair", 0) for group in groups],
            )
            assert sum(repaired) < sent / 10, "hardly anything is asked for that is on its way"

    run(story())
