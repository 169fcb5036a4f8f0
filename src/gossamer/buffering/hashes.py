"""The hash H of 003 §3: from a packet and a member to a number, which decides whether that member keeps the packet.

It must be fair, so that a packet has about C bufferers and members keep equally much, and cheap, because every member
computes it for every packet. Two functions, each for `BLOCK` consecutive packets of a sender at a time, so that the
packets of a run share the work. Numbers are out of `RANGE`.

`shuffle` is the one of 003 §4: a byte at a time through a table of random integers. Its last step picks one of 256
entries, so members are not drawn independently of each other; `benchmarks/bench_buffering.py` shows it. `blake` is a
cryptographic hash, which 003 rejects for its cost: one of 64 bytes gives 16 packets their numbers, and in Python that
is nine times cheaper than the table.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final

BLOCK: Final = 16
RANGE: Final = 1 << 32

Hash = Callable[[int, int, int], Sequence[int]]
"""Called with a member, a sender and a block: the numbers of that block's packets for that member."""

_INPUT = Struct("!QQQ").pack
_WORDS = Struct(f"!{BLOCK}I").unpack
_SHUFFLE: Final = tuple(
    word for row in range(256 // BLOCK) for word in _WORDS(blake2b(b"gossamer shuffle table %d" % row).digest())
)
"""256 integers that look random and are the same everywhere."""


def blake(member: int, sender: int, block: int) -> Sequence[int]:
    """One cryptographic hash for the whole block."""
    return _WORDS(blake2b(_INPUT(member, sender, block)).digest())


def shuffle(member: int, sender: int, block: int) -> Sequence[int]:
    """003 §4: hash = hash XOR shuffle[byte XOR least significant byte of hash], for the packet's id and the member.

    The packets of a block have all bytes of their ids in common but the last.
    """
    first = block * BLOCK
    common = _through(0, sender.to_bytes(8) + (first >> 8).to_bytes(7))
    address = member.to_bytes(8)
    return [_through(_through(common, bytes((seqno & 0xFF,))), address) for seqno in range(first, first + BLOCK)]


def _through(state: int, some: bytes) -> int:
    for byte in some:
        state ^= _SHUFFLE[byte ^ (state & 0xFF)]
    return state


HASHES: Final[Mapping[str, Hash]] = {"blake": blake, "shuffle": shuffle}
