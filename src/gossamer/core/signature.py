"""A hash that stands for a set of tuples of numbers: two members with the same set have the same signature.

It is the sum of the hashes of the tuples, so that one of them can come or go without a look at the others, and their
order does not matter.
"""

from collections.abc import Iterable
from hashlib import blake2b
from struct import pack

_MODULUS = 1 << 64


class Signature:
    """Of a set that changes."""

    __slots__ = ("_sum",)

    def __init__(self, items: Iterable[tuple[int, ...]] = ()) -> None:
        self._sum = sum(map(_hash, items))

    def add(self, *item: int) -> None:
        """This tuple comes; it was not there."""
        self._sum += _hash(item)

    def remove(self, *item: int) -> None:
        """This tuple goes; it was there."""
        self._sum -= _hash(item)

    def value(self) -> int:
        """64 bits, stable over processes and machines; never 0, which means that none was sent."""
        return self._sum % _MODULUS or 1


def combined(signatures: Iterable[Signature]) -> int:
    """The value for all of these sets, which have nothing in common, together."""
    return sum(signature._sum for signature in signatures) % _MODULUS or 1


def _hash(item: tuple[int, ...]) -> int:
    return int.from_bytes(blake2b(pack(f"<{len(item)}q", *item), digest_size=8).digest(), "little")
