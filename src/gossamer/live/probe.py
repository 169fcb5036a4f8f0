"""Asking a group how it is, from outside: every member answers with its profile (as JGroups's probe does).

The process that asks is not a member and leaves no trace in the group. A group with a key answers only those that have
the key.
"""

import asyncio
import json
import secrets
from contextlib import suppress
from random import Random
from typing import Any
from zlib import crc32

from gossamer.core.ids import MEMBER_BITS
from gossamer.core.questions import Probe, WhoKeeps
from gossamer.live.credentials import envelope_for, trusted
from gossamer.live.envelope import answer_in
from gossamer.live.group import MakeTransport
from gossamer.live.transport import Address, Datagrams, UdpTransport
from gossamer.settings import Settings
from gossamer.wire import Header

_ASK_S = 0.1
_PACKET_BYTES = 18
"""What it takes to name a packet."""
_PADDING_BYTES_MAX = 16_000
"""Room for the answers of groups of thousands, where a datagram may be that long."""


async def probe(
    name: str,
    settings: Settings,
    *,
    wait: float = 1.0,
    enough: int = 0,
    packet: tuple[int, int] | None = None,
    transport: MakeTransport = UdpTransport,
) -> list[dict[str, Any]]:
    """The profiles of all members that answer within `wait` seconds, by name; returns sooner if `enough` have.

    If a `packet` is named, by sender and number, they answer what they know of that.
    """
    header = Header(crc32(name.encode()), secrets.randbits(MEMBER_BITS))
    envelope = envelope_for(settings, header)
    line = transport(trusted(settings))
    nonce = Random(header.source).getrandbits(62)
    room = line.datagram_bytes_max - envelope.overhead_bytes - len(envelope.close(Probe(nonce)))
    padding = bytes(max(0, min(room, _PADDING_BYTES_MAX) - _PACKET_BYTES))
    question = Probe(nonce, padding=padding) if packet is None else WhoKeeps(nonce, *packet, padding)
    answers: dict[int, dict[str, Any]] = {}
    complete = asyncio.Event()

    def arrived(datagrams: Datagrams, address: Address) -> None:
        for datagram in datagrams:
            if (answer := answer_in(envelope, datagram, header.group, nonce)) is not None:
                with suppress(ValueError, TypeError):  # an answer in another format
                    answers[answer[0]] = dict(json.loads(answer[1].text))
        if enough and len(answers) >= enough:
            complete.set()

    loop = asyncio.get_running_loop()
    loop.add_reader(line.unicast, line.read, line.unicast, arrived)
    try:
        end = loop.time() + wait
        while loop.time() < end and not complete.is_set():
            line.send_to_group([envelope.close(question)])
            try:
                await asyncio.wait_for(complete.wait(), min(_ASK_S + wait / 4, max(0.01, end - loop.time())))
            except TimeoutError:
                continue
    finally:
        loop.remove_reader(line.unicast)
        line.close()
    return sorted(answers.values(), key=lambda profile: (str(profile.get("name")), profile.get("member", 0)))
