"""From messages to datagrams, and to whom they go: to the group, to a region of it, to one member."""

import asyncio
from collections import Counter
from itertools import filterfalse
from time import monotonic, time
from typing import NamedTuple

from gossamer.core.ids import EVERYONE
from gossamer.core.messages import Message, Repair
from gossamer.core.questions import Call, Challenge, Proof
from gossamer.core.roster import Roster
from gossamer.live.directory import Directory
from gossamer.live.envelope import Envelope
from gossamer.live.pieces import cut
from gossamer.live.proof import CALL_AGAIN_S, CHALLENGE_AGAIN_S, Proofs
from gossamer.live.transport import Address, Transport
from gossamer.trace.recorder import Recorder
from gossamer.wire import Header


class Lines(NamedTuple):
    """How the group is reached."""

    contacts: tuple[Address, ...]
    multicast: bool


class Post:
    """What one member sends. `stats` counts what does not leave."""

    def __init__(
        self,
        header: Header,
        transport: Transport,
        envelope: Envelope,
        directory: Directory,
        lines: Lines,
        *,
        recorder: Recorder,
        stats: Counter[str],
    ) -> None:
        self.sent: Counter[str] = Counter()
        """Messages by their kind."""
        self.piece_bytes = transport.datagram_bytes_max - envelope.overhead_bytes
        """What fits into a datagram."""
        self._header = header
        self._transport = transport
        self._envelope = envelope
        self._directory = directory
        self._recorder = recorder
        self._stats = stats
        self._contacts, self._multicast = lines
        self._datagram_bytes = transport.datagram_bytes_max
        self._calling: dict[Address, asyncio.TimerHandle] = {}  # until when not to call again for an address
        self._closed = False
        again_s = CALL_AGAIN_S if lines.multicast else CHALLENGE_AGAIN_S
        self._proofs = None if envelope.is_sealed else Proofs(lines.contacts, stats, again_s)

    def close(self, message: Message, to: int) -> list[bytes]:
        """The datagram for a message; several, if it is too long for one."""
        datagrams = [self._envelope.close(message)]
        if len(datagrams[0]) > self._datagram_bytes and not isinstance(message, Repair):
            datagrams = [self._envelope.close(piece) for piece in cut(self._header, message, self.piece_bytes)]
        self.sent[message.kind] += 1
        if self._recorder.tracing:
            self._recorder.sent(time(), self._header.source, to, message, sum(map(len, datagrams)))
        return datagrams

    def send_to_region(self, message: Message, hops: int, roster: Roster, channel: int = 0) -> None:
        """Send by multicast within `hops` hops; without multicast there are no regions, and all listeners get it."""
        datagrams = self.close(message, EVERYONE)
        if self._multicast:
            self._stats["not taken by the kernel"] += self._transport.send_to_group(datagrams, hops, channel)
        else:
            self.send_to_group(datagrams, roster, channel)

    def send_to_some(self, datagrams: list[bytes], to: tuple[int, ...], roster: Roster, channel: int = 0) -> None:
        """Send to a few members: by multicast, which IP cannot address to a part of a group, or to each of them."""
        if self._multicast and len(to) > 1:
            self._stats["not taken by the kernel"] += self._transport.send_to_group(datagrams, channel=channel)
            return
        for member in to:
            self.send_to(member, datagrams, roster)

    def send_to_group(self, datagrams: list[bytes], roster: Roster, channel: int = 0) -> None:
        """Send by multicast; where there is none, to all listeners that we know and, in channel 0, our contacts."""
        if self._multicast:
            self._stats["not taken by the kernel"] += self._transport.send_to_group(datagrams, channel=channel)
            return
        contacts = () if channel else self._contacts
        for address in dict.fromkeys([*self._known(roster, channel), *contacts]):
            if address != self._transport.address:
                self._send(datagrams, address)

    def send_to(self, member: int, datagrams: list[bytes], roster: Roster) -> None:
        """Send to one member, where the view says that it is."""
        address = self._directory.of(member, roster)
        if address is None:
            self._stats["no address"] += len(datagrams)
        else:
            self._send(datagrams, address, member)

    def introduce(self, roster: Roster) -> None:
        """We were let in, and told of these members: show them that we hear here, and have them show the same."""
        if self._proofs is not None:
            for address in filterfalse(self._proofs.proven.__contains__, self._known(roster)):
                self._challenge(address)

    def heard(self, message: Call | Challenge | Proof, address: Address, *, aloud: bool) -> None:
        """Show that we hear here; or somebody else has shown it: send what has waited for that.

        What is said to all is answered by nobody but the member that is called.
        """
        if isinstance(message, Call):
            if message.member == self._header.source and self._proofs is not None:
                self._challenge(address)
        elif isinstance(message, Challenge):
            if aloud:
                self._stats["challenges to all"] += 1
                return
            self._transport.send_to([self._envelope.close(Proof(message.nonce))], address)
            if self._proofs is not None and address not in self._proofs.proven:
                self._challenge(address)
        elif self._proofs is not None and (found := self._proofs.prove(message.nonce)) is not None:
            proven, held = found
            self._send(held, proven)

    def _challenge(self, address: Address) -> None:
        assert self._proofs is not None
        self._transport.send_to([self._envelope.close(Challenge(self._proofs.nonce(address)))], address)

    def _known(self, roster: Roster, channel: int = 0) -> list[Address]:
        found = (self._directory.of(member, roster) for member in roster.others(channel))
        return [address for address in found if address is not None]

    def _send(self, datagrams: list[bytes], address: Address, member: int = EVERYONE) -> None:
        if self._proofs is not None and address not in self._proofs.proven:
            self._proofs.hold(monotonic(), address, datagrams)
            if address not in self._calling:
                self._call(member, address)
        elif datagrams:
            self._stats["not taken by the kernel"] += self._transport.send_to(datagrams, address)

    def _call(self, member: int, address: Address) -> None:
        """Call, and again for as long as something waits: on a bad line four messages must arrive."""
        assert self._proofs is not None
        if member == EVERYONE or not self._multicast:
            self._challenge(address)
        else:
            called = self.close(Call(member), EVERYONE)
            self._stats["not taken by the kernel"] += self._transport.send_to_group(called)
        pause_s = self._proofs.pause(address)
        self._calling[address] = asyncio.get_running_loop().call_later(pause_s, self._again, member, address)

    def _again(self, member: int, address: Address) -> None:
        del self._calling[address]
        if self._proofs is not None and self._proofs.waits(monotonic(), address) and not self._closed:
            self._call(member, address)

    def close_down(self) -> None:
        """Call nobody any more."""
        self._closed = True
        for timer in self._calling.values():
            timer.cancel()
        self._calling.clear()
