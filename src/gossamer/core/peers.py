"""Whom a member can turn to: the peers it knows, the loggers, and the choice of one for a round.

000 §4.2: the choice is uniform, or biased towards members that are near. With bias, the weight of a member
falls with its measured round-trip time r as (1 - r / (1.1 * r_max)) ** power, power 1 (linear) or 2
(quadratic); a member that was not measured yet counts as near, and so is soon asked, and one that was asked and
has not answered counts as the farthest.
"""

from bisect import bisect
from itertools import accumulate
from random import Random

_POWER = {"uniform": 0, "linear": 1, "quadratic": 2}
_SMOOTHING = 0.25
"""The share of a new measurement in the estimate of a round-trip time."""


class Peers:
    """The other members, as far as this one is to deal with them."""

    __slots__ = (
        "_members",
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
