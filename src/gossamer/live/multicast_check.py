"""Whether IP multicast works here: a contact is asked by unicast to answer over multicast, and we listen.

This tests one direction, from the contact to us; networks that carry only the other are rare.
"""

import asyncio
import secrets

from gossamer.core.questions import Probe
from gossamer.live.envelope import Envelope, answer_in
from gossamer.live.transport import Address, Datagrams, Transport
from gossamer.wire import Header

HEARD_WITHIN_S = 0.5
_ASK_S = 0.1


async def multicast_reaches_us(
    header: Header, envelope: Envelope, line: Transport, contacts: tuple[Address, ...]
) -> bool:
    """Whether any of the contacts is heard over multicast when asked; False if none of them is there yet."""
    nonce = secrets.randbits(62)
    heard = asyncio.Event()

    def arrived(datagrams: Datagrams, _: Address) -> None:
        for datagram in datagrams:
            if answer_in(envelope, datagram, header.group, nonce) is not None:
                heard.set()

    loop = asyncio.get_running_loop()
    loop.add_reader(line.multicast, line.read, line.multicast, arrived)
    try:
        end = loop.time() + HEARD_WITHIN_S
        while not heard.is_set() and loop.time() < end:
            for contact in contacts:
                line.send_to([envelope.close(Probe(nonce, aloud=True))], contact)
            await _wait(heard, _ASK_S)
    finally:
        loop.remove_reader(line.multicast)
    return heard.is_set()


async def _wait(heard: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await heard.wait()
    except TimeoutError:
        pass
