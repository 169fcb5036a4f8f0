"""Which subjects should share a channel: expected waste, and groupings of subjects that keep it small.

A subject has a weight (events or bytes) and the members that want it. A member listens to a channel if it wants any
subject in it, and then gets all of it. So a channel with the weight W and L listeners carries L W, and

    waste = sum over channels of L W  -  sum over subjects of (members that want it) x weight

The second sum does not depend on the grouping: a grouping is better if its channels *carry* less. To put two groups
into one channel costs  L_ab (W_a + W_b) - L_a W_a - L_b W_b  more, which `merged` keeps small pair by pair; `improved`
then moves subjects one by one as long as that helps. Finding the optimum is NP-hard.
"""

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

Weights = NDArray[np.float64]
Grouping = NDArray[np.int64]
"""By subject, the number of its channel."""

MERGED_MAX = 1024
"""Subjects that are merged pair by pair, which takes the square of their number; the rest join one by one."""
SWEEPS_MAX = 60
_GAIN_MIN = 1e-9
"""The least part of the total that a move must save: less is rounding."""


@dataclass(frozen=True)
class Demand:
    """Subjects with their weights, and who wants them: a sparse 0/1 matrix of subjects x members."""

    weights: Weights
    wants: csr_matrix

    @property
    def wanted(self) -> float:
        """The weight of all events, each counted once for every member that wants it."""
        return float(self.weights @ np.diff(self.wants.indptr))

    def row(self, subject: int) -> NDArray[np.int32]:
        """The members that want a subject."""
        found: NDArray[np.int32] = self.wants.indices[self.wants.indptr[subject] : self.wants.indptr[subject + 1]]
        return found

    def alike(self) -> tuple["Demand", Grouping]:
        """The demand with subjects that the same members want made one, and which one each subject became."""
        kinds: dict[bytes, int] = {}
        became = np.array(
            [kinds.setdefault(np.sort(self.row(s)).tobytes(), len(kinds)) for s in range(len(self.weights))], np.int64
        )
        first = np.unique(became, return_index=True)[1]
        return Demand(np.bincount(became, self.weights, len(kinds)).astype(np.float64), self.wants[first]), became


class Channels:
    """A grouping at work: the weight of every channel, and how many of its subjects each member wants."""

    def __init__(self, demand: Demand, channels: int) -> None:
        self._demand = demand
        self.weight = np.zeros(channels)
        self.wanted = np.zeros((channels, demand.wants.shape[1]), np.int32)
        self.listeners = np.zeros(channels)

    @property
    def carried(self) -> float:
        """The weight that reaches members, wanted or not."""
        return float(self.weight @ self.listeners)

    def costs(self, subject: int) -> Weights:
        """How much more each channel would carry with this subject, which is in none."""
        row, weight = self._demand.row(subject), self._demand.weights[subject]
        new = np.count_nonzero(self.wanted[:, row] == 0, axis=1)
        more: Weights = new * (self.weight + weight) + self.listeners * weight
        return more

    def put(self, subject: int, channel: int, sign: int = 1) -> None:
        """Add the subject to a channel, or with -1 take it out."""
        row = self._demand.row(subject)
        self.weight[channel] += sign * self._demand.weights[subject]
        self.wanted[channel, row] += sign
        edge = 1 if sign > 0 else 0
        self.listeners[channel] += sign * np.count_nonzero(self.wanted[channel, row] == edge)


def at_work(demand: Demand, grouping: Grouping, channels: int) -> Channels:
    """The channels that a grouping makes."""
    found = Channels(demand, channels)
    for subject, channel in enumerate(grouping):
        found.put(subject, int(channel))
    return found


def waste(demand: Demand, grouping: Grouping, channels: int) -> float:
    """The weight that reaches members that did not want it."""
    return at_work(demand, grouping, channels).carried - demand.wanted


def merged(demand: Demand, channels: int) -> Grouping:
    """A grouping by greedy merging: of the important subjects, always the pair of groups that costs least.

    The others then join, the most important first, where they cost least.
    """
    order = np.argsort(-_importance(demand), kind="stable")
    chosen = order[:MERGED_MAX]
    grouping = np.full(len(order), -1, np.int64)
    grouping[chosen] = _merge_pairs(Demand(demand.weights[chosen], demand.wants[chosen]), channels)
    found = Channels(demand, channels)
    for subject in chosen:
        found.put(int(subject), int(grouping[subject]))
    for subject in order[MERGED_MAX:]:
        grouping[subject] = int(np.argmin(found.costs(int(subject))))
        found.put(int(subject), int(grouping[subject]))
    return grouping


def _importance(demand: Demand) -> Weights:
    """The part of the traffic and the part of the interests that a subject stands for, together."""
    interests = np.diff(demand.wants.indptr)
    found: Weights = demand.weights / max(demand.weights.sum(), 1e-300) + interests / max(interests.sum(), 1)
    return found


def _merge_pairs(demand: Demand, channels: int) -> Grouping:
    members, weight = _as_bits(demand.wants), demand.weights.copy()
    group = np.arange(len(weight))
    cost = np.stack([_merge_costs(members, weight, at) for at in range(len(group))])
    cost = np.minimum(cost, cost.T)  # rounding must not make the two differ
    np.fill_diagonal(cost, np.inf)
    cheapest = cost.min(axis=1)
    for _ in range(len(weight) - channels):
        into = int(np.argmin(cheapest))
        gone = int(np.argmin(cost[into]))
        members[into] |= members[gone]
        weight[into] += weight[gone]
        group[group == gone] = into
        row = np.where(np.isinf(cost[into]), np.inf, _merge_costs(members, weight, into))
        row[gone] = np.inf
        stale = (cheapest == cost[:, into]) | (cheapest == cost[:, gone])
        cost[gone, :] = cost[:, gone] = np.inf
        cost[into, :] = cost[:, into] = row
        cheapest = np.minimum(cheapest, row)
        cheapest[stale] = cost[stale].min(axis=1)
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _as_bits(wants: csr_matrix) -> NDArray[np.uint64]:
    """The members that want each subject as bits: a union is an `or`, and its size a count of bits."""
    bits = np.packbits(wants.toarray().astype(np.bool_), axis=1)
    room = np.zeros((bits.shape[0], -(-bits.shape[1] // 8) * 8), np.uint8)
    room[:, : bits.shape[1]] = bits
    return room.view(np.uint64)


def _merge_costs(members: NDArray[np.uint64], weight: Weights, at: int) -> Weights:
    """How much more is carried if group `at` and each other group become one."""
    sizes = np.bitwise_count(members).sum(axis=1, dtype=np.float64)
    unions = np.bitwise_count(members | members[at]).sum(axis=1, dtype=np.float64)
    cost: Weights = unions * (weight + weight[at]) - sizes * weight - sizes[at] * weight[at]
    return cost


def improved(demand: Demand, grouping: Grouping, channels: int) -> Grouping:
    """Move subjects one by one to the channel where they cost least, until no move helps; never worse than before."""
    grouping = grouping.copy()
    found = at_work(demand, grouping, channels)
    for _ in range(SWEEPS_MAX):
        before = found.carried
        for subject in np.argsort(-demand.weights, kind="stable"):
            _move(found, grouping, int(subject))
        if found.carried >= before * (1 - _GAIN_MIN):
            break
    return grouping


def _move(found: Channels, grouping: Grouping, subject: int) -> None:
    here = int(grouping[subject])
    found.put(subject, here, -1)
    costs = found.costs(subject)
    there = int(np.argmin(costs))
    if costs[there] >= costs[here] - _GAIN_MIN * max(found.carried, 1.0):
        there = here
    grouping[subject] = there
    found.put(subject, there)


def hashed(subjects: list[str], channels: int) -> Grouping:
    """The grouping that knows nothing: by a hash of the subject."""
    return np.array([crc32(subject.encode()) % channels for subject in subjects], np.int64)


def best(demand: Demand, channels: int, starts: dict[str, Grouping] | None = None) -> tuple[Grouping, dict[str, Any]]:
    """The best grouping found from a greedy merge and any further `starts`, and what each start came to waste."""
    groupings = {"merge": merged(demand, channels), **(starts or {})}
    found = {name: improved(demand, grouping, channels) for name, grouping in groupings.items()}
    wasted = {
        name: {"start": waste(demand, groupings[name], channels), "improved": waste(demand, grouping, channels)}
        for name, grouping in found.items()
    }
    chosen = min(wasted, key=lambda name: wasted[name]["improved"])
    return found[chosen], {"chosen": chosen, "waste": wasted}
