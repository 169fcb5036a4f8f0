"""Whom a member can turn to: the peers it knows, the loggers, and the choice of one for a round.

000 §4.2: the choice is uniform, or biased towards members that are near. With bias, the weight of a member
falls with its measured round-trip time r as (1 - r / (1.1 * r_max)) ** power, power 1 (linear) or 2
(quadratic); a member that was not measured yet counts as near, and so is soon asked, and one that was asked and
has not answered counts as the farthest.

Who asks again when a request brought nothing also learns who is worth asking: members that are near each other have
often lost the same. `helper` takes a member that was drawn only at the odds that it has what it is asked for.
"""

from bisect import bisect
from itertools import accumulate
from math import inf
from random import Random

_POWER = {"uniform": 0, "linear": 1, "quadratic": 2}
_SMOOTHING = 0.25
"""The share of the latest in what is known of a peer, its round-trip time and its answers."""
_ODDS_MIN = 0.05
"""Who never helped is asked now and then: that may change."""
_DRAWS_MAX = 8
_STRANGERS_MAX = 100
"""Of so many who are no members any more it may be remembered how they were."""


class Peers:
    """The other members, as far as this one is to deal with them."""

    __slots__ = (
        "_members",
        "_odds",
        "_power",
        "_unanswered",
        "_weights",
        "addresses",
        "claimants",
        "joining",
        "loggers",
        "me",
        "rtt",
        "signature",
    )

    def __init__(self, me: int, members: tuple[int, ...], loggers: tuple[int, ...], selection: str) -> None:
        self.me = me
        self.loggers = loggers
        self.claimants = members
        """Members for which packets are kept in the log: those in reach, and those that will be back."""
        self.joining: frozenset[int] = frozenset()
        """Members that do not yet know from where on they are."""
        self.signature = 0
        """How the view hashes, where views can differ; 0 where an oracle gives them."""
        self.addresses: dict[int, str] = {}
        """Where members can be reached, as far as the view says it."""
        self.rtt: dict[int, float] = {}
        self._odds: dict[int, float] = {}
        self._unanswered: set[int] = set()
        self._power = _POWER[selection]
        self._members: tuple[int, ...] = ()
        self._weights: list[float] | None = None
        self.replace(members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member: int) -> bool:
        return member in self._members

    def all(self) -> tuple[int, ...]:
        """Every peer; this member itself may be among them."""
        return self._members

    def replace(self, members: tuple[int, ...], claimants: tuple[int, ...] | None = None) -> None:
        """These are the members now; `claimants` too, if they are not the same."""
        if members == self._members and claimants in (None, self.claimants):
            return
        self._members = members
        self.claimants = members if claimants is None else claimants
        self._weights = None
        if len(self.rtt) + len(self._odds) + len(self._unanswered) > 2 * (len(members) + _STRANGERS_MAX):
            self.rtt = {m: self.rtt[m] for m in members if m in self.rtt}
            self._odds = {m: self._odds[m] for m in members if m in self._odds}
            self._unanswered.intersection_update(members)

    def other_loggers(self) -> list[int]:
        """The loggers but this member."""
        return [logger for logger in self.loggers if logger != self.me]

    def asked(self, peer: int) -> None:
        """`peer` is about to be measured."""
        if peer not in self.rtt and peer not in self._unanswered:
            self._unanswered.add(peer)
            self._weights = None

    def measured(self, peer: int, rtt: float) -> None:
        """A round trip to `peer` took `rtt` seconds."""
        if rtt < 0:
            return
        self._unanswered.discard(peer)
        known = self.rtt.get(peer)
        self.rtt[peer] = rtt if known is None else known + _SMOOTHING * (rtt - known)
        self._weights = None

    def round_trip(self, peer: int) -> float:
        """The round-trip time of `peer`, as far as it is known: one that was never measured may be the farthest."""
        known = self.rtt.get(peer)
        return max(self.rtt.values(), default=inf) if known is None else known

    def target(self, rng: Random) -> int | None:
        """One other member, drawn by the selection; None if there is none."""
        members, me = self._members, self.me
        count = len(members)
        if count < 2 and (not count or members[0] == me):
            return None
        uniform = not self._power or not self.rtt
        while True:
            member = members[int(rng.random() * count)] if uniform else self._draw(rng)
            if member != me:
                return member

    def answered(self, peer: int, share: float) -> None:
        """`peer` was asked for packets, and this share of them has come."""
        odds = self._odds.get(peer, 1.0)
        self._odds[peer] = max(_ODDS_MIN, odds + _SMOOTHING * (share - odds))

    def helper(self, rng: Random) -> int | None:
        """One other member that probably has what others have; None if there is none."""
        target = self.target(rng)
        for _ in range(_DRAWS_MAX):
            if target is None or rng.random() < self._odds.get(target, 1.0):
                break
            target = self.target(rng)
        return target

    def _draw(self, rng: Random) -> int:
        if self._weights is None:
            self._weights = self._cumulated()
        return self._members[bisect(self._weights, rng.random() * self._weights[-1])]

    def _cumulated(self) -> list[float]:
        farthest = max(self.rtt.values())
        scale = 1.1 * farthest or 1.0
        times = (self.rtt.get(m, farthest if m in self._unanswered else 0.0) for m in self._members)
        weights = ((1.0 - time / scale) ** self._power for time in times)
        return list(accumulate(0.0 if m == self.me else w for m, w in zip(self._members, weights, strict=True)))
