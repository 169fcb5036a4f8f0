"""Messages <-> datagrams of one group, unsealed or sealed.

Both envelopes can repair with a datagram as its sender sent it: what a log holds goes out again without re-encoding.
"""

from collections.abc import Sequence
from time import time
from typing import Protocol

from gossamer.core.ids import Phase
from gossamer.core.messages import Data, Message, Profile, Repair
from gossamer.core.packets import Packet
from gossamer.wire import Header, WireError, decode, encode
from gossamer.wire.codec import REPAIR_BYTES, decode_packets, encode_packet, repair_of
from gossamer.wire.keys import KeyRing

Opened = Packet | tuple[Header, Message] | None
"""What a datagram holds: the packet alone if it is a first pass of this group from the packet's sender, as most are;
otherwise a header and a message; None if we cannot read it."""


class Envelope(Protocol):
    """How this group's messages travel."""

    overhead_bytes: int
    """How many bytes a repair, the longest datagram that carries a body, has besides the body."""
    is_sealed: bool
    """Whether only those who have the key can speak."""

    def close(self, message: Message) -> bytes:
        """The datagram for a message of ours."""

    def open(self, datagrams: Sequence[memoryview]) -> list[Opened]:
        """What each datagram holds; `refused` counts those that we cannot read."""

    def original_datagram(self, packet: Packet) -> bytes:
        """The data datagram of a packet, as its sender sent it."""

    def repair(self, phase: Phase, travelled: bytes) -> bytes:
        """The datagram of a repair that carries a data datagram that was kept."""

    def refused(self) -> dict[str, int]:
        """How many datagrams were not opened, by reason."""


def answer_in(envelope: Envelope, datagram: memoryview, group: int, nonce: int) -> tuple[int, Profile] | None:
    """The member that answers our probe, and its answer; None if this is anything else."""
    (opened,) = envelope.open([datagram])
    if opened is None or isinstance(opened, Packet):
        return None
    header, message = opened
    if isinstance(message, Profile) and message.nonce == nonce and header.group == group:
        return header.source, message
    return None


class OpenEnvelope:
    """No key: everybody can read and write."""

    overhead_bytes = REPAIR_BYTES
    is_sealed = False

    def __init__(self, header: Header) -> None:
        self._header = header
        self._refused = 0

    def close(self, message: Message) -> bytes:
        """Encoded, not sealed."""
        return encode(self._header, message)

    def open(self, datagrams: Sequence[memoryview]) -> list[Opened]:
        """Decoded; the checksum tells which are damaged."""
        return decode_packets(datagrams, self._header.group, self._open_other)

    def _open_other(self, datagram: memoryview) -> Opened:
        try:
            return decode(datagram)
        except WireError:
            self._refused += 1
            return None

    def original_datagram(self, packet: Packet) -> bytes:
        """Encoded again, byte for byte the same."""
        return encode_packet(self._header.group, packet)

    def repair(self, phase: Phase, travelled: bytes) -> bytes:
        """Wrapped around what was kept."""
        return repair_of(self._header, phase, travelled)

    def refused(self) -> dict[str, int]:
        """The only reason is that they are malformed."""
        return {"malformed": self._refused} if self._refused else {}


class SealedEnvelope:
    """With a key: authenticated, encrypted, and safe from replays (see `wire.sealing`)."""

    is_sealed = True

    def __init__(self, header: Header, keys: KeyRing, incarnation: bytes) -> None:
        from gossamer.wire import sealing  # needs `cryptography`, which groups without a key do not load

        self._sealing = sealing
        self._header = header
        self.overhead_bytes = REPAIR_BYTES + 2 * sealing.SEAL_BYTES
        self.keys = keys
        self._sealer = sealing.Sealer(self.keys, incarnation, clock=time)
        self._opener = sealing.Opener(self.keys, clock=time)
        self._malformed = 0

    def close(self, message: Message) -> bytes:
        """A packet is sealed once, by its sender; others pass it on verbatim."""
        if isinstance(message, Data):
            return self.original_datagram(message.packet)
        if isinstance(message, Repair):
            return self.repair(message.phase, self.original_datagram(message.packet))
        return self._sealer.seal(encode(self._header, message))

    def open(self, datagrams: Sequence[memoryview]) -> list[Opened]:
        """A datagram that is not authentic is refused before anything in it is read."""
        return [self._open_one(bytes(datagram)) for datagram in datagrams]

    def _open_one(self, sealed: bytes) -> Opened:
        try:
            plain = self._opener.open(sealed)
            (opened,) = decode_packets([plain], self._header.group, self._open_other)
        except self._sealing.SealError:
            return None  # the opener counts it
        except WireError:
            self._malformed += 1
            return None
        if isinstance(opened, Packet):
            opened.sealed = sealed
        return opened

    def _open_other(self, plain: bytes) -> Opened:
        if self._sealing.is_repair(plain):
            header, repair, inner = self._opener.open_repair(plain)
            repair.packet.sealed = inner
            return header, repair
        return decode(plain)

    def original_datagram(self, packet: Packet) -> bytes:
        """As its sender sealed it; one of our own, or one that we recovered, is sealed now, if it was not before."""
        if not packet.sealed:
            packet.sealed = self._sealer.seal(encode_packet(self._header.group, packet))
        return packet.sealed

    def repair(self, phase: Phase, travelled: bytes) -> bytes:
        """The origin's datagram verbatim, under a seal of ours."""
        return self._sealer.seal(self._sealing.repair_of(self._header, phase, travelled))

    def refused(self) -> dict[str, int]:
        """By the reasons of `SealError`, and `malformed`."""
        return self._opener.refused | ({"malformed": self._malformed} if self._malformed else {})
