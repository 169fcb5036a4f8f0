"""How long a question and its answer take, for each peer that was ever measured.

An answer that has not come for longer than the round trip and four times what it varies by was lost (RFC 6298).
"""

from collections.abc import Collection
from math import inf

_SMOOTHING = 0.25
"""The share of the latest measurement in what is known of a peer."""
_VARIATIONS = 4
_FORGETTING = 1 / 64
"""The share of a longer measurement in what is known of the shortest: the path may be another by now."""
_FAR_S = 0.005
_PROBE_ROUNDS = 16
"""A known time is measured again after this many rounds."""


class RoundTrips:
    """Smoothed round-trip times. `changes` counts them, so that others know when to look again."""

    __slots__ = ("_shortest", "_unanswered", "_varies", "changes", "times", "wanted")

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted
        self.times: dict[int, float] = {}
        self.changes = 0
        self._shortest: dict[int, float] = {}  # without what a busy peer or a full queue adds
        self._varies: dict[int, float] = {}  # how far a measurement is from its smoothed time, smoothed
        self._unanswered: set[int] = set()

    def stamp(self, now: float, peer: int, round_number: int) -> int:
        """What to put on a gossip to `peer` so that it is echoed; 0 if its time is known well enough."""
        if peer in self.times and round_number % _PROBE_ROUNDS:
            return 0
        if peer not in self.times and peer not in self._unanswered:
            self._unanswered.add(peer)
            self.changes += 1
        return stamp_of(now)

    def measured(self, peer: int, seconds: float, *, may_wait: bool = False) -> None:
        """A question to `peer` was answered after `seconds`.

        An answer that `may_wait` for others there, as repairs do, says nothing of a way that has become longer. A busy
        receiver has hundreds of these in a second, and would soon have forgotten how near its peers are.
        """
        if seconds < 0:
            return
        self._unanswered.discard(peer)
        shortest = self._shortest.get(peer, seconds)
        longer = 0.0 if may_wait else _FORGETTING * (seconds - shortest)
        self._shortest[peer] = min(seconds, shortest + longer)
        known = self.times.get(peer)
        if known is None:
            self.times[peer], self._varies[peer] = seconds, seconds / 8
        else:
            self.times[peer] = known + _SMOOTHING * (seconds - known)
            self._varies[peer] += _SMOOTHING * (abs(seconds - known) - self._varies[peer])
        self.changes += 1

    def echoed(self, now: float, peer: int, stamp: int) -> None:
        """`peer` sent back the stamp of a gossip."""
        self.measured(peer, now - stamp / 1e6)

    def of(self, peer: int) -> float:
        """The time of `peer`; one that was never measured may be the farthest."""
        known = self.times.get(peer)
        return max(self.times.values(), default=inf) if known is None else known

    def patience(self, peer: int, unknown: float) -> float:
        """How long to wait for an answer of `peer` before it counts as lost; `unknown` if nobody was ever measured."""
        if peer in self.times:
            return self.times[peer] + _VARIATIONS * self._varies[peer]
        return max((self.times[one] + _VARIATIONS * self._varies[one] for one in self.times), default=unknown)

    def shortest(self, peer: int) -> float:
        """How long the way to `peer` and back takes in itself; 0 if that is not known."""
        return self._shortest.get(peer, 0.0)

    def is_far(self, peer: int) -> bool:
        """Whether the way to `peer` and back takes long in itself, 5 ms or more, however busy it is."""
        return self._shortest.get(peer, 0.0) >= _FAR_S

    def was_silent(self, peer: int) -> bool:
        """Whether `peer` was asked and has never answered."""
        return peer in self._unanswered

    def keep_only(self, members: Collection[int]) -> None:
        """Forget everybody else."""
        self.times = {member: self.times[member] for member in members if member in self.times}
        self._varies = {member: self._varies[member] for member in self.times}
        self._shortest = {member: self._shortest[member] for member in self.times}
        self._unanswered.intersection_update(members)
        self.changes += 1

    def __len__(self) -> int:
        return len(self.times) + len(self._unanswered)


def stamp_of(now: float) -> int:
    """The clock in microseconds, never 0, which asks for nothing."""
    return max(1, int(now * 1e6))
