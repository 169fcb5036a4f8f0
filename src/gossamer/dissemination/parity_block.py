"""The arithmetic of parity: what some packets have in common, from which any one of them follows from the others.

The parity of a block is the exclusive or of its bodies, the shorter ones filled up with zeros, and of their lengths.
"""

from collections.abc import Iterable

from gossamer.core.messages import Parity

COUNT_MIN, COUNT_MAX = 2, 64
"""How many packets a block may have."""


class Block:
    """Consecutive packets of one sender, as they are published."""

    __slots__ = ("_bits", "_lengths", "_longest", "count", "first")

    def __init__(self, first: int) -> None:
        self.first = first
        self.count = 0
        self._bits = self._lengths = self._longest = 0

    def add(self, body: bytes) -> None:
        """Take in the next packet."""
        self._bits ^= int.from_bytes(body, "little")
        self._lengths ^= len(body)
        self._longest = max(self._longest, len(body))
        self.count += 1

    def parity(self) -> Parity:
        """What is sent for them."""
        return Parity(self.first, self.count, self._lengths, self._bits.to_bytes(self._longest, "little"))


def can_be(parity: Parity) -> bool:
    """Whether there can be such a block."""
    return COUNT_MIN <= parity.count <= COUNT_MAX and parity.first + parity.count < 1 << 63


def recovered(parity: Parity, others: Iterable[bytes]) -> bytes | None:
    """The body that is missing from a block; None if `others` are not the rest of it."""
    bits, length = int.from_bytes(parity.content, "little"), parity.lengths
    for body in others:
        bits ^= int.from_bytes(body, "little")
        length ^= len(body)
    if length > len(parity.content) or bits >> (8 * length):
        return None
    return bits.to_bytes(length, "little")
