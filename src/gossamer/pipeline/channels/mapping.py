"""From traffic and interests to a channel map, and what it is worth.

Every member hears channel 0, which takes the subjects that no rule names. So beside the subjects of the log there is
one more thing to place: something without weight that everybody wants. The channel where it ends up becomes channel 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix

from gossamer.analysis.channels import Demand, Grouping, best, hashed
from gossamer.pipeline.channels.compact import compact
from gossamer.pipeline.channels.interests import Interests
from gossamer.pipeline.channels.pattern_trie import PatternTrie
from gossamer.pubsub.channel_map import DEFAULT_CHANNEL, ChannelMap, Rule

SUBJECTS_MAX = 20_000
"""How many subjects may get a channel of their choice; the rest, those with least traffic, share the default."""

Start = Callable[[Demand, int], dict[str, Grouping]]
"""Finds groupings of subjects to begin with."""


@dataclass(frozen=True)
class Case:
    """What was measured: the subjects by weight, the heaviest first, and who subscribes to what."""

    subjects: list[str]
    weights: NDArray[np.float64]
    interests: Interests
    members: list[str]
    wants: csr_matrix
    """Subjects x members."""

    @classmethod
    def of(cls, traffic: Mapping[str, float], interests: Interests) -> Case:
        """The case of this traffic, by subject, and these interests."""
        subjects = sorted(traffic, key=lambda subject: (-traffic[subject], subject))
        members = sorted({member for found in interests.values() for member in found})
        number = {member: at for at, member in enumerate(members)}
        by_pattern = [np.array([number[member] for member in found], np.int32) for found in interests.values()]
        trie = PatternTrie(list(interests))
        rows = [_together([by_pattern[p] for p in trie.matching(subject)]) for subject in subjects]
        weights = np.array([traffic[subject] for subject in subjects], np.float64)
        return cls(subjects, weights, interests, members, _matrix(rows, len(members)))

    def demand(self) -> Demand:
        """The subjects that get a channel of their choice and, last, the default, which everybody hears."""
        default = np.arange(len(self.members), dtype=np.int32)
        chosen = self.wants[:SUBJECTS_MAX]
        rows = [chosen.indices[a:b] for a, b in zip(chosen.indptr, chosen.indptr[1:], strict=False)]
        weights = np.append(self.weights[:SUBJECTS_MAX], self.weights[SUBJECTS_MAX:].sum())
        return Demand(weights, _matrix([*rows, default], len(self.members)))

    def with_channels(self, channel_map: ChannelMap) -> Outcome:
        """What the members hear with this map: exactly, by the channels that their subscriptions listen to."""
        channel = np.array([channel_map.channel_of(subject) for subject in self.subjects], np.int64)
        weight = _sums(channel, self.weights, channel_map.channels)
        number = {member: at for at, member in enumerate(self.members)}
        listens = np.zeros((channel_map.channels, len(self.members)), np.bool_)
        listens[DEFAULT_CHANNEL] = True
        for pattern, members in self.interests.items():
            listens[np.ix_(channel_map.channels_for(pattern), [number[member] for member in members])] = True
        wanted = np.zeros(listens.shape)
        for at in range(channel_map.channels):
            inside = channel == at
            wanted[at] = self.wants[inside].T @ self.weights[inside]
        assert not wanted[~listens].any(), "a member would not hear what it subscribed to"
        return Outcome(self.members, np.bincount(channel, minlength=channel_map.channels), weight, listens, wanted)


@dataclass(frozen=True)
class Outcome:
    """What members hear and want, by channel and member."""

    members: list[str]
    subjects: NDArray[np.int64]
    """How many subjects each channel carries."""
    weight: NDArray[np.float64]
    listens: NDArray[np.bool_]
    wanted: NDArray[np.float64]

    @property
    def wasted(self) -> NDArray[np.float64]:
        """What arrives and is not wanted, by channel and member."""
        found: NDArray[np.float64] = np.where(self.listens, self.weight[:, None] - self.wanted, 0.0)
        return found

    @property
    def waste(self) -> float:
        """All that arrives and is not wanted."""
        return float(self.wasted.sum())

    def channels(self) -> list[dict[str, Any]]:
        """One row for each channel."""
        return [
            {
                "channel": at,
                "subjects": int(self.subjects[at]),
                "listeners": int(self.listens[at].sum()),
                "weight": float(self.weight[at]),
                "waste": float(self.wasted[at].sum()),
            }
            for at in range(len(self.weight))
        ]

    def by_member(self) -> list[dict[str, Any]]:
        """One row for each member."""
        wasted, wanted, count = self.wasted.sum(axis=0), self.wanted.sum(axis=0), self.listens.sum(axis=0)
        return [
            {"member": name, "channels": int(count[at]), "wanted": float(wanted[at]), "waste": float(wasted[at])}
            for at, name in enumerate(self.members)
        ]


def find_map(case: Case, channels: int, version: int, starts: Start) -> tuple[ChannelMap, dict[str, Any]]:
    """The map with the least waste that was found, and what each way of finding one came to."""
    demand = case.demand()
    kinds, became = demand.alike()
    channels = min(channels, len(kinds.weights))
    grouping, found = best(kinds, channels, starts(kinds, channels))
    placed = _default_first(grouping[became])
    free = _free(case, demand, placed, channels)
    chosen = dict(zip(case.subjects, map(int, placed[:-1]), strict=False))
    return compact(version, channels, chosen, free, list(case.interests)), found


def numbered_like(found: ChannelMap, before: ChannelMap, traffic: Mapping[str, float]) -> ChannelMap:
    """The same map, with its channels numbered so that as little traffic as possible moves from where it is.

    Channel 0 stays what it is, because everybody hears it.
    """
    count = found.channels
    together = np.zeros((count, count))
    for subject, weight in traffic.items():
        new, old = found.channel_of(subject), before.channel_of(subject)
        if new and 0 < old < count:
            together[new, old] += weight
    numbers = [0, *(int(number) + 1 for number in linear_sum_assignment(-together[1:, 1:])[1])]
    rules = tuple(Rule(rule.pattern, numbers[rule.channel]) for rule in found.rules)
    return ChannelMap(found.version, count, rules)


def hashed_map(case: Case, channels: int) -> Outcome:
    """What the members would hear if subjects were hashed to channels: each listens where something it wants is.

    This is kind to the hash: channel 0 is taken for one like the others, which not everybody hears.
    """
    channel = hashed(case.subjects, channels)
    spread = csr_matrix((np.ones(len(channel)), (channel, np.arange(len(channel)))), (channels, len(channel)))
    wanted = (spread @ case.wants.multiply(case.weights[:, None])).toarray()
    listens = (spread @ case.wants).toarray() > 0
    weight = _sums(channel, case.weights, channels)
    return Outcome(case.members, np.bincount(channel, minlength=channels), weight, listens, wanted)


def one_channel(case: Case) -> Outcome:
    """What the members hear without channels: everything."""
    wanted = (case.wants.T @ case.weights)[None, :]
    weight = case.weights.sum(keepdims=True)
    return Outcome(case.members, np.array([len(case.subjects)]), weight, np.ones(wanted.shape, np.bool_), wanted)


def _default_first(grouping: Grouping) -> Grouping:
    """Exchange the numbers of two channels, so that the last thing placed, the default, is in channel 0."""
    default = int(grouping[-1])
    return np.where(grouping == default, DEFAULT_CHANNEL, np.where(grouping == DEFAULT_CHANNEL, default, grouping))


def _free(case: Case, demand: Demand, placed: Grouping, channels: int) -> NDArray[np.bool_]:
    """Whether a subject that nobody has published yet could go to a channel at no cost to the subscribers of a pattern.

    So it is if all of them listen to that channel anyway, or if the pattern is a subject that has been published.
    """
    spread = csr_matrix((np.ones(len(placed)), (placed, np.arange(len(placed)))), (channels, len(placed)))
    hears = (spread @ demand.wants).toarray() > 0
    number = {member: at for at, member in enumerate(case.members)}
    known = set(case.subjects[:SUBJECTS_MAX])
    rows = [
        np.full(channels, True) if pattern in known else hears[:, [number[m] for m in members]].all(axis=1)
        for pattern, members in case.interests.items()
    ]
    return np.array(rows)


def _sums(channel: Grouping, weights: NDArray[np.float64], channels: int) -> NDArray[np.float64]:
    return np.bincount(channel, weights, channels).astype(np.float64)


def _together(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int32)


def _matrix(rows: list[NDArray[np.int32]], columns: int) -> csr_matrix:
    edges = np.cumsum([0, *map(len, rows)])
    inside = np.concatenate(rows) if rows else np.zeros(0, np.int32)
    return csr_matrix((np.ones(len(inside), np.int32), inside, edges), shape=(len(rows), columns))
