"""Whether anybody of the group hears at an address, before much is sent there.

In a group without a key anybody can ask to join, or speak of a member, with somebody else's address, to have us flood
it. So an address gets nothing but a number, until it has returned that (`Challenge`, `Proof`). What is to be sent there
waits for the proof, which takes one round trip, once. Where a datagram came from proves nothing, for anybody can write
that.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from secrets import randbits

from gossamer.live.transport import Address

_PROVEN_MAX = 10_000
_UNPROVEN_MAX = 1000
"""So many addresses are known; the oldest are forgotten, and have to prove themselves again."""
_HELD_BYTES_MAX = 8 << 20
"""What waits for all proofs together."""
_HELD_S = 1.0
"""What waits for longer is outdated: whoever needs it will ask again."""
_ASK_S, _ASK_MAX_S = 0.02, 1.0
"""The pauses between challenges to one address, which double."""


@dataclass(slots=True)
class _Unproven:
    nonce: int = field(default_factory=lambda: randbits(60))
    held: list[bytes] = field(default_factory=list)
    held_since: float = 0.0
    pause_s: float = _ASK_S
    ask_at: float = 0.0


class Proofs:
    """The addresses that have proven themselves, and those that have not; `dropped` counts what is not sent."""

    def __init__(self, trusted: tuple[Address, ...], dropped: Counter[str]) -> None:
        self.proven: OrderedDict[Address, None] = OrderedDict.fromkeys(trusted)
        self._unproven: OrderedDict[Address, _Unproven] = OrderedDict()
        self._by_nonce: dict[int, Address] = {}
        self._held_bytes = 0
        self._dropped = dropped

    def hold(self, now: float, address: Address, datagrams: list[bytes]) -> int | None:
        """Hold what is for an address that has proven nothing; returns the number to challenge it with, if any."""
        known = self._of(address)
        self._hold(now, known, datagrams, sum(map(len, datagrams)))
        if now < known.ask_at:
            return None
        known.ask_at = now + known.pause_s
        known.pause_s = min(2 * known.pause_s, _ASK_MAX_S)
        return known.nonce

    def prove(self, nonce: int) -> tuple[Address, list[bytes]] | None:
        """Somebody returns a number: the address to which it was sent, and what has waited for that."""
        address = self._by_nonce.get(nonce)
        if address is None:
            return None
        held = self._forget(address).held
        self.proven[address] = None
        if len(self.proven) > _PROVEN_MAX:
            self.proven.popitem(last=False)
        return address, held

    def _of(self, address: Address) -> _Unproven:
        known = self._unproven.get(address)
        if known is None:
            known = self._unproven[address] = _Unproven()
            self._by_nonce[known.nonce] = address
            if len(self._unproven) > _UNPROVEN_MAX:
                self._drop(self._forget(next(iter(self._unproven))))
        return known

    def _forget(self, address: Address) -> _Unproven:
        known = self._unproven.pop(address)
        del self._by_nonce[known.nonce]
        self._held_bytes -= sum(map(len, known.held))
        return known

    def _hold(self, now: float, known: _Unproven, datagrams: list[bytes], size_bytes: int) -> None:
        if known.held and known.held_since < now - _HELD_S:
            self._held_bytes -= sum(map(len, known.held))
            self._drop(known)
        if self._held_bytes + size_bytes > _HELD_BYTES_MAX:
            self._dropped["to unproven addresses"] += len(datagrams)
            return
        known.held_since = known.held_since if known.held else now
        known.held += datagrams
        self._held_bytes += size_bytes

    def _drop(self, known: _Unproven) -> None:
        self._dropped["to unproven addresses"] += len(known.held)
        known.held = []
