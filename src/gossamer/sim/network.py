"""The modelled network: what a transmission does to links, and when it reaches whom.

By default a transmission is worked out at once, one event per path: each link keeps the time at which it is
next free. That is exact for packets that come to a link in the order in which they were sent; one that comes
earlier than its predecessor is assumed to find the link idle but for the last one that did so, too, as it nearly always
does below saturation.
`HopNetwork` (`topology.exact`) has one event per hop and is always exact.
"""

from bisect import bisect_left
from collections.abc import Callable
from random import Random
from typing import Protocol

from gossamer.sim.accounting import Accounting
from gossamer.sim.loss import Burst, LossSampler
from gossamer.sim.routing import Router, Tree, shared
from gossamer.sim.scenario import Scenario
from gossamer.sim.topology import Topology

Arrive = Callable[[float, list[int]], None]
"""Called with a time and the members that the packet reaches then."""

Schedule = Callable[[float, Callable[[], None]], None]

_NEVER = -1.0

FULL_PACKET_BYTES = 1500
"""A queue of n packets has room for n of this size, or of the largest so far: small ones fit where large ones do."""


class Drop(Protocol):
    """Told of everything that the network discards at a receiver, if somebody wants to know."""

    def __call__(self, member: int, reason: str) -> None:
        """`member` will not get it, for this reason."""


class Network:
    """One event per path."""

    def __init__(self, topology: Topology, scenario: Scenario, rng: Random) -> None:
        self.router = Router(topology)
        self.accounting = Accounting(2 * len(topology.links), self.router.ways or ())
        self.queue_drops = 0
        self.dropped: Drop | None = None
        self._rng = rng
        self._queue = scenario.topology.queue
        self._full_bytes = FULL_PACKET_BYTES
        self._limited = any(link.bandwidth for link in topology.links)
        self._last = [0.0] * (2 * len(topology.links))  # when the last packet came to each directed link
        self._free = [0.0] * (2 * len(topology.links))  # when each is done with all that came
        self._slipped = [(0.0, 0.0)] * (2 * len(topology.links))  # when the last came that slipped in, and was across
        self._seconds_per_byte = [8.0 / k.bandwidth if k.bandwidth else 0.0 for k in topology.links for _ in "ab"]
        self._latency = [link.latency for link in topology.links for _ in "ab"]
        self._link_loss = [link.loss for link in topology.links for _ in "ab"]
        self._worst_loss = max(self._link_loss, default=0.0)
        self._links_lose = LossSampler(self._worst_loss, rng)
        self._impair = ReceiverFaults(scenario, len(topology.members), rng)
        self._sides: list[int] | None = None

    def partition(self, sides: list[int] | None) -> None:
        """Members on different sides do not reach each other; None heals."""
        self._sides = sides

    def connects(self, one: int, other: int) -> bool:
        """Whether there is no partition between these members."""
        return self._sides is None or self._sides[one] == self._sides[other]

    def sides(self) -> list[int]:
        """For each member, the first of those that it reaches, itself among them."""
        found: list[int] = []
        for member in range(len(self.router.topology.members)):
            firsts = (f for f in found if self.connects(f, member) and self.router.path(f, member) is not None)
            found.append(next(firsts, member))
        return found

    def lose_next(self, member: int, packets: int) -> None:
        """`member` discards the next `packets` that reach it (004 Fig. 14)."""
        self._impair.lose_next(member, packets)

    def multicast(
        self, now: float, source: int, size: int, arrive: Arrive, hops: int = 0, to: tuple[int, ...] = ()
    ) -> None:
        """Send to everybody else, to those within `hops` links, or only to those that it is addressed `to`."""
        tree = self.router.tree_to(source, to, hops) if to else self.router.tree(source, hops)
        self.accounting.multicast(tree, size)
        if not self._limited:
            self._multicast_unlimited(now, source, tree, size, arrive)
            return
        times = self._spread(now, source, tree, size)
        at, members = tree.together(times)
        if at > _NEVER:
            self._arrive(at, source, members, arrive)
            return
        groups: dict[float, list[int]] = {}
        for position, member in tree.receivers:
            at = times[position]
            if at in groups:
                groups[at].append(member)
            else:
                groups[at] = [member]
        for member in groups.pop(_NEVER, ()):
            self._drop(member, "link")
        for at, members in groups.items():
            self._arrive(at, source, members, arrive)

    def _multicast_unlimited(self, now: float, source: int, tree: Tree, size: int, arrive: Arrive) -> None:
        """Without limits on bandwidth there are no queues, and only the losses cost anything."""
        cut = self._cut_ranges(tree, size)
        for first, end in cut if self.dropped is not None else ():
            for member in tree.members_within(first, end):
                self._drop(member, "link")
        for delay, positions, members in tree.delays():
            reached = _outside(cut, positions, members) if cut else members
            if reached:
                self._arrive(now + delay, source, reached, arrive)

    def _cut_ranges(self, tree: Tree, size: int) -> list[tuple[int, int]]:
        """Draw the losses of one multicast: the ranges of positions that it does not reach, ascending."""
        cut = []
        position, lose = 1, self._links_lose
        while position + lose.until < len(tree.links):
            position += int(lose.until)
            lose.until = 0
            if lose.one() and self._really(tree.links[position]):
                cut.append((position, tree.ends[position]))
                self.accounting.spare(tree, position + 1, tree.ends[position], size)
                position = tree.ends[position]
            else:
                position += 1
        lose.until -= len(tree.links) - position
        return cut

    def unicast(self, now: float, source: int, target: int, size: int, arrive: Arrive) -> None:
        """Send to one member."""
        if self.router.ways is not None and not self._limited and not self.router.down:
            at = self._climb(now, source, target, size)
        else:
            path = self.router.path(source, target)
            if path is None:
                self._drop(target, "cut")
                return
            at = self._travel(now, path, size) if self._limited else self._travel_unlimited(now, path, size)
        if at is None:
            self._drop(target, "link")
        elif self._sides is None and self._impair.none:
            arrive(at, [target])
        else:
            self._arrive(at, source, [target], arrive)

    def _travel(self, at: float, path: list[int], size: int) -> float | None:
        """When a packet is at the end of a path; None if it is lost on the way."""
        for link in path:
            crossed = self._cross(at, link, size)
            if crossed is None:
                return None
            at = crossed
        return at

    def _travel_unlimited(self, at: float, path: list[int], size: int) -> float | None:
        """The same without limits on bandwidth: if there is no loss, the whole path is one trial."""
        lose, latency = self._links_lose, self._latency
        if lose.until < len(path):
            return self._travel(at, path, size)
        lose.until -= len(path)
        self.accounting.path(path, size)
        return sum(map(latency.__getitem__, path), at)

    def _climb(self, at: float, source: int, target: int, size: int) -> float | None:
        """The same in a tree, where a path need not even be written out."""
        up, down = self.router.ways[source], self.router.ways[target]  # type: ignore[index]
        common = shared(up, down)
        crossings = len(up.up) + len(down.down) - 2 * common
        lose = self._links_lose
        if lose.until < crossings:
            return self._travel(at, self.router.path(source, target) or [], size)
        lose.until -= crossings
        self.accounting.by_ways(source, target, common, size)
        if common:
            return sum(down.down_latencies[common:], sum(up.up_latencies[:-common], at))
        return sum(down.down_latencies, sum(up.up_latencies, at))

    def _spread(self, now: float, source: int, tree: Tree, size: int) -> list[float]:
        """When each position of the tree is reached; `_NEVER` where a loss or a full queue is above it."""
        times, ends, count, lose = tree.scratch, tree.ends, len(tree.links), self._links_lose
        times[0] = now
        position, loss_at = 1, 1 + lose.until
        while position < count:
            stop = count if loss_at >= count else int(loss_at) + 1
            position = self._cross_all(tree, position, stop, size)
            if position < stop:  # a queue has no room
                self.queue_drops += 1
                loss_at += self._cut_off(source, tree, position, position, size)
                position = ends[position]
            elif loss_at < count:
                lost_at, lose.until = position - 1, 0
                lost = lose.one() and self._really(tree.links[lost_at])
                loss_at = position + lose.until
                if lost:
                    loss_at += self._cut_off(source, tree, lost_at, position, size)
                    position = ends[lost_at]
        lose.until = loss_at - count
        return times

    def _cross_all(self, tree: Tree, first: int, stop: int, size: int) -> int:
        """Cross the links of positions `first .. stop-1`; returns the first one whose queue has no room, or `stop`."""
        times, last, free = tree.scratch, self._last, self._free
        part = slice(first, stop)
        columns = tree.parents[part], tree.links[part], tree.seconds_per_byte[part], tree.latencies[part]
        for position, parent, link, seconds, latency in zip(range(first, stop), *columns, strict=True):
            at = times[parent]
            if at < last[link]:
                times[position] = self._slip_in(at, link, size * seconds) + latency
                continue
            done = free[link]
            if done > at:
                if done - at > self._room(seconds, size):
                    return position
                last[link] = at
                done += size * seconds
            else:
                last[link] = at
                done = at + size * seconds
            free[link] = done
            times[position] = done + latency
        return stop

    def _room(self, seconds_per_byte: float, size: int) -> float:
        """The longest wait that a queue of full packets causes (what waits is known in seconds, not in packets)."""
        if size > self._full_bytes:
            self._full_bytes = size
        return self._queue * self._full_bytes * seconds_per_byte

    def _slip_in(self, at: float, link: int, spent: float) -> float:
        """A packet comes to a link before another one that was worked out earlier; returns when it has left.

        What the queue was then is no longer known: the packet waits for the last one that slipped in before it, as a
        small one does that was sent right behind a large one, and is assumed to find the link idle otherwise. Only the
        part of its work that extends beyond the other's arrival delays what comes after.
        """
        came, left = self._slipped[link]
        done = (left if came <= at < left else at) + spent
        self._slipped[link] = at, done
        late = min(spent, done - self._last[link])
        if late > 0:
            self._free[link] += late
        return done

    def _cut_off(self, source: int, tree: Tree, position: int, spared_from: int, size: int) -> int:
        """Nothing below `position` is reached; returns how many positions are skipped, untried."""
        end = tree.ends[position]
        tree.scratch[position:end] = [_NEVER] * (end - position)
        self.accounting.spare(tree, spared_from, end, size)
        return end - spared_from

    def _really(self, link: int) -> bool:
        """Whether a loss is real: losses are drawn for the worst link, and a better one keeps only some (thinning)."""
        loss = self._link_loss[link]
        return loss == self._worst_loss or self._rng.random() * self._worst_loss < loss

    def _cross(self, at: float, link: int, size: int) -> float | None:
        """Put a packet on one link at time `at`; returns when it is across, or None if it is lost or finds no room."""
        spent = size * self._seconds_per_byte[link]
        if at < self._last[link]:
            at = self._slip_in(at, link, spent)
        else:
            self._last[link] = at
            wait = self._free[link] - at
            if wait > 0:
                if wait > self._room(self._seconds_per_byte[link], size):
                    self.queue_drops += 1
                    return None
                at += wait
            self._free[link] = at = at + spent
        self.accounting.link(link, size)
        if self._links_lose.one() and self._really(link):
            return None
        return at + self._latency[link]

    def _arrive(self, at: float, source: int, members: list[int], arrive: Arrive) -> None:
        """The last step, at the receivers: partitions, then what each receiver does on its own."""
        if self._sides is not None:
            members = self._same_side(source, members)
        for when, reached in self._impair.apply(at, members, self.dropped):
            arrive(when, reached)

    def _same_side(self, source: int, members: list[int]) -> list[int]:
        assert self._sides is not None
        side = self._sides[source]
        for member in members:
            if self._sides[member] != side:
                self._drop(member, "partition")
        return [m for m in members if self._sides[m] == side]

    def _drop(self, member: int, reason: str) -> None:
        if self.dropped is not None:
            self.dropped(member, reason)


def _outside(cut: list[tuple[int, int]], positions: list[int], members: list[int]) -> list[int]:
    """The members whose positions, ascending, are in none of the ranges."""
    kept: list[int] = []
    at = 0
    for first, end in cut:
        low = bisect_left(positions, first, at)
        kept += members[at:low]
        at = bisect_left(positions, end, low)
    return kept + members[at:]


class HopNetwork(Network):
    """One event per hop: a packet takes its place in a queue when it gets there."""

    def __init__(self, topology: Topology, scenario: Scenario, rng: Random, schedule: Schedule) -> None:
        super().__init__(topology, scenario, rng)
        self._schedule = schedule

    def multicast(
        self, now: float, source: int, size: int, arrive: Arrive, hops: int = 0, to: tuple[int, ...] = ()
    ) -> None:
        """Send to everybody else, to those within `hops` links, or only to those addressed, link by link."""
        tree = self.router.tree_to(source, to, hops) if to else self.router.tree(source, hops)
        children: dict[int, list[int]] = {}
        for position in range(1, len(tree.links)):
            children.setdefault(tree.parents[position], []).append(position)
        members = dict(tree.receivers)

        def reach(position: int, at: float) -> None:
            if position in members:
                self._arrive(at, source, [members[position]], arrive)
            for child in children.get(position, ()):
                crossed = self._cross(at, tree.links[child], size)
                if crossed is None:
                    self._drop_below(tree, child)
                else:
                    self._schedule(crossed, lambda child=child, crossed=crossed: reach(child, crossed))  # type: ignore[misc]

        reach(0, now)

    def unicast(self, now: float, source: int, target: int, size: int, arrive: Arrive) -> None:
        """Send to one member, link by link."""
        path = self.router.path(source, target)
        if path is None:
            self._drop(target, "cut")
            return

        def reach(hop: int, at: float) -> None:
            if hop == len(path):
                self._arrive(at, source, [target], arrive)
                return
            crossed = self._cross(at, path[hop], size)
            if crossed is None:
                self._drop(target, "link")
            else:
                self._schedule(crossed, lambda: reach(hop + 1, crossed))

        reach(0, now)

    def _drop_below(self, tree: Tree, position: int) -> None:
        for at, member in tree.receivers:
            if position <= at < tree.ends[position]:
                self._drop(member, "link")


class ReceiverFaults:
    """What happens at each receiver on its own: loss, bursts, duplicates, late arrivals, a `lose` fault."""

    def __init__(self, scenario: Scenario, members: int, rng: Random) -> None:
        loss = scenario.loss
        self._rng = rng
        self._latency = scenario.topology.latency
        self._member_loses = LossSampler(loss.member, rng)
        self._bursts = [Burst(*loss.burst, rng) for _ in range(members)] if loss.burst[0] > 0 else None
        self._duplicate, self._reorder = loss.duplicate, loss.reorder
        self._losing: dict[int, int] = {}
        self._rare = self._bursts is not None or self._duplicate > 0 or self._reorder > 0
        self.none = not self._rare and not loss.member
        """Whether everything passes as it came."""

    def lose_next(self, member: int, packets: int) -> None:
        """The next `packets` for `member` are discarded."""
        self.none = False
        self._losing[member] = self._losing.get(member, 0) + packets

    def apply(self, at: float, members: list[int], dropped: Drop | None) -> list[tuple[float, list[int]]]:
        """The members that are left, and when each is reached."""
        hits = self._member_loses.hits(len(members))
        if hits:
            if dropped is not None:
                for hit in hits:
                    dropped(members[hit], "member")
            members = [m for i, m in enumerate(members) if i not in hits]
        if self._losing:
            members = [m for m in members if not self._discards(m, dropped)]
        if not self._rare:
            return [(at, members)] if members else []
        return self._apply_rare(at, members, dropped)

    def _discards(self, member: int, dropped: Drop | None) -> bool:
        left = self._losing.get(member, 0)
        if not left:
            return False
        self._losing[member] = left - 1
        if left == 1:
            del self._losing[member]
        if dropped is not None:
            dropped(member, "lose")
        return True

    def _apply_rare(self, at: float, members: list[int], dropped: Drop | None) -> list[tuple[float, list[int]]]:
        reached = []
        for member in members:
            if self._bursts is not None and self._bursts[member].one():
                if dropped is not None:
                    dropped(member, "burst")
                continue
            reached.append((at + self._delay(), [member]))
            if self._duplicate and self._rng.random() < self._duplicate:
                reached.append((at + self._delay(), [member]))
        return reached

    def _delay(self) -> float:
        if self._reorder and self._rng.random() < self._reorder:
            return self._rng.random() * self._latency
        return 0.0
