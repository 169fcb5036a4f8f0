"""Whether anybody of the group hears at an address, before anything is sent there.

In a group without a key anybody can ask to join, or speak of a member, with somebody else's address, to have us flood
it; and what one says to all, all answer. So an address gets nothing before it has returned a number (`Challenge`,
`Proof`), and a number only if a challenge has come from there: it gets at most twice as much as it sent. A member that
has something for an address that has proven nothing calls for its member, by multicast (`Call`); that hears it, if it
is one, and challenges the caller. What is to be sent waits for the proof, which takes two round trips, once. A process
that was let in challenges those of which its sponsors told it, so that they need not call each other.

Where there is no multicast nobody can be called, and an address is challenged at once.
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
_ASK_S, CALL_AGAIN_S, CHALLENGE_AGAIN_S = 0.01, 0.02, 1.0
"""The pauses between calls for one address double up to this; a call goes to the group, and needs luck on a bad line,
as do the three messages that follow. Where an address itself is challenged, which may be a third party's, they go on
doubling for longer."""


@dataclass(slots=True)
class _Unproven:
    nonce: int = field(default_factory=lambda: randbits(60))
    held: list[bytes] = field(default_factory=list)
    held_since: float = 0.0
    pause_s: float = _ASK_S


class Proofs:
    """The addresses that have proven themselves, and those that have not; `dropped` counts what is not sent."""

    def __init__(self, trusted: tuple[Address, ...], dropped: Counter[str], again_s: float = CALL_AGAIN_S) -> None:
        """`again_s` is the longest pause between calls for one address."""
        self.proven: OrderedDict[Address, None] = OrderedDict.fromkeys(trusted)
        self._unproven: OrderedDict[Address, _Unproven] = OrderedDict()
        self._by_nonce: dict[int, Address] = {}
        self._held_bytes = 0
        self._dropped = dropped
        self._again_s = again_s

    def hold(self, now: float, address: Address, datagrams: list[bytes]) -> None:
        """Hold what is for an address that has proven nothing."""
        self._hold(now, self._of(address), datagrams, sum(map(len, datagrams)))

    def pause(self, address: Address) -> float:
        """For how many seconds not to call for it again, now that it is called for."""
        known = self._of(address)
        pause_s, known.pause_s = known.pause_s, min(2 * known.pause_s, self._again_s)
        return pause_s

    def waits(self, now: float, address: Address) -> bool:
        """Whether anything waits for this address that is not outdated."""
        known = self._unproven.get(address)
        return known is not None and bool(known.held) and known.held_since >= now - _HELD_S

    def nonce(self, address: Address) -> int:
        """The number that somebody at `address` has to return."""
        return self._of(address).nonce

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
