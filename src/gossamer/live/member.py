"""One live member: a stack, its sockets and its clock. It carries out effects and decides nothing.

A wake-up reads a bounded number of datagrams, steps the stack with the runs that they make, and sends what the effects
ask for in as few system calls as they allow. One timer is armed for the stack's next deadline.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from random import Random
from zlib import crc32

from gossamer.core.effects import (
    BecomeMember,
    BecomeStranger,
    Deliver,
    Effect,
    Multicast,
    Refuse,
    ReportLost,
    Unicast,
)
from gossamer.core.ids import FIRST_PASS, Phase
from gossamer.core.inputs import Heard, Input, Published, Received, Started, Woke
from gossamer.core.messages import Data, Message, Repair
from gossamer.core.packets import Packet, Run
from gossamer.core.protocol import ProtocolSettings
from gossamer.live.transport import Address, Datagrams, UdpTransport
from gossamer.stack import Stack
from gossamer.wire import Header, WireError, decode, encode

_SLACK_S = 0.0005
"""A timer that is this close to the deadline is not armed anew."""


class Member:
    """A stack on the network."""

    def __init__(
        self,
        group: str,
        protocol: ProtocolSettings,
        transport: UdpTransport,
        *,
        deliver: Callable[[Run, Phase], None],
        lose: Callable[[ReportLost], None],
    ) -> None:
        self.me = secrets.randbits(63)
        self.stats: Counter[str] = Counter()
        self.joined = asyncio.Event()
        self.left = asyncio.Event()
        self._transport = transport
        self._deliver = deliver
        self._lose = lose
        self._header = Header(crc32(group.encode()), self.me)
        self._addresses: dict[int, Address] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._reading = False
        host, port = transport.address
        self.stack = Stack(self.me, (), protocol, Random(self.me), address=f"{host}:{port}")

    def start(self) -> None:
        """Open the ears and begin to join."""
        self.resume()
        self.step(Started({}))

    def stop(self) -> None:
        """Close everything."""
        self.pause()
        if self._timer is not None:
            self._timer.cancel()
        self._transport.close()

    def pause(self) -> None:
        """Stop reading: what comes waits in the kernel, and what does not fit there is repaired later."""
        if self._reading:
            self._reading = False
            for sock in (self._transport.multicast, self._transport.unicast):
                self._loop.remove_reader(sock)

    def resume(self) -> None:
        """Read again."""
        if not self._reading:
            self._reading = True
            for sock in (self._transport.multicast, self._transport.unicast):
                self._loop.add_reader(sock, self._transport.read, sock, self._arrived)

    def publish(self, body: bytes) -> None:
        """One packet's worth of events."""
        self.step(Published(body))

    def step(self, happened: Input) -> None:
        """One input, its effects, and the next deadline."""
        self._carry_out(self.stack.step(self._loop.time(), happened))
        self._arm()

    # Incoming.

    def _arrived(self, datagrams: Datagrams, address: Address) -> None:
        run: list[Packet] = []
        source = -1
        now = self._loop.time()
        for datagram in datagrams:
            try:
                header, message = decode(datagram)
            except WireError:
                self.stats["dropped: malformed"] += 1
                continue
            if header.group != self._header.group or header.source == self.me:
                self.stats["dropped: not for us"] += header.source != self.me
                continue
            if isinstance(message, Data):
                packet = message.packet
                if run and (run[-1].sender != packet.sender or run[-1].seqno + 1 != packet.seqno):
                    self._carry_out(self.stack.step(now, Received(source, run, FIRST_PASS)))
                    run = []
                run.append(packet)
                source = header.source
                self._addresses[source] = address
                continue
            self._addresses[header.source] = address
            self._heard(now, header.source, message)
        if run:
            self._carry_out(self.stack.step(now, Received(source, run, FIRST_PASS)))
        self._arm()

    def _heard(self, now: float, source: int, message: Message) -> None:
        if isinstance(message, Repair):
            happened: Input = Received(source, [message.packet], message.phase)
        else:
            happened = Heard(source, message)
        self._carry_out(self.stack.step(now, happened))

    # Outgoing.

    def _carry_out(self, effects: list[Effect]) -> None:
        to_group: list[bytes] = []
        to_one: dict[int, list[bytes]] = {}
        for effect in effects:
            if isinstance(effect, Deliver):
                self._deliver(effect.run, effect.phase)
            elif isinstance(effect, Multicast):
                to_group.append(self._encode(effect.message))
            elif isinstance(effect, Unicast):
                to_one.setdefault(effect.to, []).append(self._encode(effect.message))
            else:
                self._carry_out_rare(effect)
        if to_group:
            self.stats["refused by the kernel"] += self._transport.send_to_group(to_group)
        for member, datagrams in to_one.items():
            self._send_to(member, datagrams)

    def _carry_out_rare(self, effect: Effect) -> None:
        if isinstance(effect, ReportLost):
            self._lose(effect)
        elif isinstance(effect, BecomeMember):
            self.joined.set()
        elif isinstance(effect, BecomeStranger):
            self.left.set()
        elif isinstance(effect, Refuse):
            self.stats["refused"] += 1

    def _encode(self, message: Message) -> bytes:
        self.stats[f"sent: {message.kind}"] += 1
        return encode(self._header, message)

    def _send_to(self, member: int, datagrams: list[bytes]) -> None:
        address = self._addresses.get(member) or self._address_in_view(member)
        if address is None:
            self.stats["dropped: no address"] += len(datagrams)
        else:
            self.stats["refused by the kernel"] += self._transport.send_to(datagrams, address)

    def _address_in_view(self, member: int) -> Address | None:
        text = self.stack.peers.addresses.get(member, "")
        host, _, port = text.rpartition(":")
        if not host or not port.isdigit():
            return None
        self._addresses[member] = (host, int(port))
        return self._addresses[member]

    # Time.

    def _arm(self) -> None:
        deadline = self.stack.next_deadline()
        if self._timer is not None and self._timer_at <= deadline + _SLACK_S:
            return  # fires early enough; what is not due then is armed anew
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._wake) if deadline < float("inf") else None

    def _wake(self) -> None:
        self._timer = None
        if self.stack.next_deadline() <= self._loop.time():
            self.step(Woke())
        else:
            self._arm()
