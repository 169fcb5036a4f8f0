"""The choice of one other member to talk to, for a round or a request.

000 §4.2: the choice is uniform, or biased towards members that are near. With bias, the weight of a member falls with
its round-trip time r as (1 - r / (1.1 * r_max)) ** power, power 1 (linear) or 2 (quadratic); a member that was not
measured yet counts as near, and so is soon asked, and one that was asked and has not answered counts as the farthest.

004 opt. 6, partial views: a member deals with a random subset of the others, not with all of them. The subsets together
are a random graph, on which gossip works as well as on a full one as long as it is connected. A member that is in
nobody's subset hears no gossip, which among views of k happens with probability e**-k: so k is a few times the
logarithm of the group's size (20 serves thousands), and every now and then a subset swaps one member for another, so
that nobody stays cut off.

A member that repeats requests also learns which peers are worth asking: members that are near each other have often
lost the same packets. `helper` takes a member that was drawn only at the odds that it has what it is asked for.
"""

from bisect import bisect
from itertools import accumulate
from random import Random

from gossamer.core.ids import channel_of, owner_of
from gossamer.core.roster import Roster
from gossamer.core.round_trips import RoundTrips

_POWER = {"uniform": 0, "linear": 1, "quadratic": 2}
_SMOOTHING = 0.25
"""The share of the latest answer in a peer's odds."""
_ODDS_MIN = 0.05
"""A peer that never helped is still asked now and then: that may change."""
_DRAWS_MAX = 8
_SWAP_DRAWS = 16
"""After this many draws one member of a partial view is replaced."""
_STRANGERS_MAX = 100
"""Facts about this many former members may be remembered."""


class Peers:
    """The other members, or some of them, to draw from."""

    __slots__ = (
        "_changes",
        "_known",
        "_odds",
        "_pool",
        "_power",
        "_rng",
        "_roster",
        "_round_trips",
        "_size",
        "_turn",
        "_weights",
    )

    def __init__(self, roster: Roster, selection: str, view_size: int, round_trips: RoundTrips, rng: Random) -> None:
        self._power = _POWER[selection]
        self._size = view_size
        self._round_trips = round_trips
        self._rng = rng
        self._odds: dict[int, float] = {}
        self._known: tuple[int, ...] = ()
        self._weights: list[float] | None = None
        self._changes = self._turn = 0
        self._roster = roster
        self._pool: tuple[int, ...] = () if view_size else roster.members

    def follow(self, roster: Roster) -> None:
        """The group has changed."""
        self._roster = roster
        self._weights = None
        if not self._size:
            self._pool = roster.members
        if len(self._round_trips) + len(self._odds) > 2 * (len(roster) + _STRANGERS_MAX):
            self._round_trips.keep_only(roster.members)
            self._odds = {member: self._odds[member] for member in roster.members if member in self._odds}

    def pool(self) -> tuple[int, ...]:
        """Everybody who may be drawn; this member itself may be among them."""
        if self._size and self._roster.members is not self._known:
            self._redraw()
        return self._pool

    def target(self, channel: int = 0) -> int | None:
        """One other member that hears `channel`, drawn by the selection; None if there is none."""
        if channel:
            return self._listener(channel)
        if self._size:
            self._turn += 1
            if self._turn % _SWAP_DRAWS == 0:
                self._swap()
        pool, me = self.pool() if self._size else self._pool, self._roster.me
        count = len(pool)
        if count < 2 and (not count or pool[0] == me):
            return None
        uniform = not self._power or not self._round_trips.times
        rng = self._rng
        while True:
            member = pool[int(rng.random() * count)] if uniform else self._draw()
            if member != me:
                return member

    def _listener(self, channel: int) -> int | None:
        """Mostly by the selection; if few listen, any of them."""
        listeners = self._roster.others(channel)
        for _ in range(_DRAWS_MAX if listeners else 0):
            drawn = self.target()
            if drawn is not None and self._roster.hears(drawn, channel):
                return drawn
        return self._rng.choice(listeners) if listeners else None

    def helper(self, channel: int = 0) -> int | None:
        """One other listener that probably has what others have; None if there is none."""
        target = self.target(channel)
        for _ in range(_DRAWS_MAX):
            if target is None or self._rng.random() < self._odds.get(target, 1.0):
                break
            target = self.target(channel)
        return target

    def with_packets_of(self, stream: int, *, helpful: bool = False) -> int | None:
        """One other member to ask for packets of `stream`: a listener of its channel, or its owner.

        With `helpful`, rather one that has what others have.
        """
        owner, channel, roster = owner_of(stream), channel_of(stream), self._roster
        may_be_owner = channel and owner in roster and not roster.hears(owner, channel)
        if may_be_owner and self._rng.random() * (1 + len(roster.others(channel))) < 1:
            return owner
        return self.helper(channel) if helpful else self.target(channel)

    def answered(self, peer: int, share: float) -> None:
        """`peer` was asked for packets, and this share of them has come."""
        odds = self._odds.get(peer, 1.0)
        self._odds[peer] = max(_ODDS_MIN, odds + _SMOOTHING * (share - odds))

    def _draw(self) -> int:
        if self._weights is None or self._changes != self._round_trips.changes:
            self._weights = self._cumulated()
            self._changes = self._round_trips.changes
        return self._pool[bisect(self._weights, self._rng.random() * self._weights[-1])]

    def _cumulated(self) -> list[float]:
        trips, me = self._round_trips, self._roster.me
        farthest = max(trips.times.values())
        scale = 1.1 * farthest or 1.0
        times = (trips.times.get(m, farthest if trips.was_silent(m) else 0.0) for m in self._pool)
        weights = ((1.0 - min(time, farthest) / scale) ** self._power for time in times)
        return list(accumulate(0.0 if m == me else w for m, w in zip(self._pool, weights, strict=True)))

    def _swap(self) -> None:
        """Put another member into the view for one of it."""
        view = list(self.pool())
        rest = [member for member in self._roster.others() if member not in view]
        if view and rest:
            view[int(self._rng.random() * len(view))] = self._rng.choice(rest)
            self._pool, self._weights = tuple(view), None

    def _redraw(self) -> None:
        """Members that left are replaced; one that joined gets into each view with the chance that all others had."""
        rng, before = self._rng, set(self._known)
        self._known = self._roster.members
        self._weights = None
        others = dict.fromkeys(self._roster.others())
        view = [member for member in self._pool if member in others]
        rest = [member for member in others if member not in view]
        view += rng.sample(rest, max(0, min(self._size - len(view), len(rest))))
        for newcomer in rest if before else ():
            if newcomer not in before and newcomer not in view and rng.random() * len(others) < self._size:
                view[int(rng.random() * len(view))] = newcomer
        self._pool = tuple(view)
