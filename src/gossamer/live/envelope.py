"""Messages <-> datagrams of one group, unsealed or sealed.

Both envelopes can repair with a datagram as its sender sent it: what a log holds goes out again without re-encoding.
"""

from collections.abc import Sequence
from time import time
from typing import Protocol

from gossamer.core.ids import Phase
from gossamer.core.messages import Data, Message, Repair
from gossamer.core.packets import Packet, Run
from gossamer.core.questions import Profile
from gossamer.wire import Header, WireError, decode, encode
from gossamer.wire.codec import REPAIR_BYTES, decode_intact, decode_runs, encode_packet, repair_of
from gossamer.wire.keys import KeyRing

Said = tuple[Header, Message]
"""Where a message comes from, and the message."""


class Envelope(Protocol):
    """How this group's messages travel."""

    overhead_bytes: int
    """How many bytes a repair, the longest datagram that carries a body, has besides the body."""
    is_sealed: bool
    """Whether only those who have the key can speak."""

    @property
    def keys(self) -> KeyRing | None:
        """The keys, which may be changed; None where there are none."""

    def close(self, message: Message) -> bytes:
        """The datagram for a message of ours."""

    def open(self, datagrams: Sequence[bytes | memoryview]) -> list[Run | Said]:
        """What the datagrams hold, in order, the packets in runs; `refused` counts those that we cannot read."""

    def first_pass(self, run: Run) -> list[bytes]:
        """The data datagrams of packets of ours."""

    def original_datagram(self, packet: Packet) -> bytes:
        """The data datagram of a packet, as its sender sent it."""

    def repair(self, phase: Phase, travelled: bytes) -> bytes:
        """The datagram of a repair that carries a data datagram that was kept."""

    def refused(self) -> dict[str, int]:
        """How many datagrams were not opened, by reason."""


def answer_in(envelope: Envelope, datagram: bytes | memoryview, group: int, nonce: int) -> tuple[int, Profile] | None:
    """The member that answers our probe, and its answer; None if this is anything else."""
    for opened in envelope.open([datagram]):
        if not isinstance(opened, list):
            header, message = opened
            if isinstance(message, Profile) and message.nonce == nonce and header.group == group:
                return header.source, message
    return None


class OpenEnvelope:
    """No key: everybody can read and write."""

    overhead_bytes = REPAIR_BYTES
    is_sealed = False
    keys = None

    def __init__(self, header: Header) -> None:
        self._header = header
        self._refused = 0

    def close(self, message: Message) -> bytes:
        """Encoded, not sealed."""
        return encode(self._header, message)

    def open(self, datagrams: Sequence[bytes | memoryview]) -> list[Run | Said]:
        """Decoded; the checksum tells which are damaged."""
        return decode_runs(datagrams, self._header.group, self._open_other)

    def _open_other(self, datagram: bytes | memoryview) -> Said | None:
        try:
            return decode(datagram)
        except WireError:
            self._refused += 1
            return None

    def first_pass(self, run: Run) -> list[bytes]:
        """Encoded."""
        group = self._header.group
        return [encode_packet(group, packet) for packet in run]

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

    def __init__(self, header: Header, keys: KeyRing, salt: bytes) -> None:
        from gossamer.wire import sealing  # needs `cryptography`, which groups without a key do not load

        self._sealing = sealing
        self._header = header
        self.overhead_bytes = REPAIR_BYTES + 2 * sealing.SEAL_BYTES
        self.keys = keys
        self._opener = sealing.Opener(self.keys, clock=time)
        self._sealer = sealing.Sealer(self.keys, salt, clock=time, is_agreed=self._opener.liveness.is_agreed)
        self._malformed = 0

    def close(self, message: Message) -> bytes:
        """A packet is sealed once, by its sender; others pass it on verbatim."""
        if isinstance(message, Data):
            return self.original_datagram(message.packet)
        if isinstance(message, Repair):
            return self.repair(message.phase, self.original_datagram(message.packet))
        return self._sealer.seal(encode(self._header, message))

    def open(self, datagrams: Sequence[bytes | memoryview]) -> list[Run | Said]:
        """A datagram that is not authentic is refused before anything in it is read."""
        return self._opener.open_runs(datagrams, self._header.group, self._open_other)

    def _open_other(self, sealed: bytes) -> Packet | Said | None:
        try:
            return self._read(sealed, self._opener.open_content(sealed))
        except self._sealing.SealError:
            return None  # the opener counts it
        except WireError:
            self._malformed += 1
            return None

    def _read(self, sealed: bytes, content: bytes) -> Packet | Said:
        if self._sealing.is_repair(content):
            header, repair, inner = self._opener.open_repair(content)
            repair.packet.sealed = inner
            return header, repair
        header, message = decode_intact(content)
        if not isinstance(message, Data) or header.group != self._header.group:
            return header, message
        message.packet.sealed = sealed
        return message.packet

    def first_pass(self, run: Run) -> list[bytes]:
        """Sealed, if not before: a log has sealed what it has written.

        The datagrams are not kept, which would take as much memory as the packets, and more time than the few take that
        are sealed again for repairs.
        """
        if run[0].sealed:
            return [packet.sealed for packet in run]
        return self._sealer.seal_packets(self._header.group, run)

    def original_datagram(self, packet: Packet) -> bytes:
        """As its sender sealed it; one of our own, or one that we recovered, is sealed now, if it was not before."""
        if not packet.sealed:
            (packet.sealed,) = self._sealer.seal_packets(self._header.group, [packet])
        return packet.sealed

    def repair(self, phase: Phase, travelled: bytes) -> bytes:
        """The origin's datagram verbatim, under a seal of ours."""
        return self._sealer.seal_repair(self._header, phase, travelled)

    def refused(self) -> dict[str, int]:
        """By the reasons of `SealError`, and `malformed`."""
        return self._opener.refused | ({"malformed": self._malformed} if self._malformed else {})
