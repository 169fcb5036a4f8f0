"""From a channel for each subject to few rules: patterns where they say the same, and exceptions before them.

A rule `prefix.>` also decides for subjects that the log has not seen. It is used only where every subscription that
could match such a subject listens to that channel anyway, so it wastes nothing. Among these maps, the one with the
fewest rules is found by dynamic programming over the tree of subjects: what a subtree costs if it inherits channel c.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from gossamer.pipeline.channels.pattern_trie import Flags, Node, PatternTrie
from gossamer.pubsub.channel_map import DEFAULT_CHANNEL, WILDCARDS_MAX, ChannelMap, Rule

_Costs = NDArray[np.float64]


class _Place:
    """A prefix of subjects: those that continue, and the channel of the subject that ends here."""

    __slots__ = ("allowed", "channel", "children", "costs")

    def __init__(self) -> None:
        self.children: dict[str, _Place] = {}
        self.channel: int | None = None
        self.allowed: Flags
        self.costs: _Costs


def compact(version: int, channels: int, chosen: Mapping[str, int], free: Flags, patterns: list[str]) -> ChannelMap:
    """The smallest map found that sends each subject to its channel.

    `free[p, c]` says whether subjects that nobody has published yet may go to channel c as far as pattern p goes.
    """
    root = _tree(chosen)
    trie = PatternTrie(patterns)
    trie.settle(free)
    _allow(root, [trie.root], np.ones(channels, np.bool_))
    for rule_cost in (1.0, 2.0, 4.0, 16.0, 64.0, np.inf):
        _weigh(root, channels, rule_cost)
        rules = list(_rules(root, (), DEFAULT_CHANNEL, rule_cost))
        if sum(rule.pattern.endswith(">") for rule in rules) <= WILDCARDS_MAX:
            break
    return ChannelMap(version, channels, tuple(sorted(rules, key=_order)) or (Rule(">", DEFAULT_CHANNEL),))


def _order(rule: Rule) -> tuple[int, str]:
    """Subjects first, then the longest patterns: an exception comes before its rule."""
    return (-rule.pattern.count(".") if rule.pattern.endswith(">") else -(1 << 10)), rule.pattern


def _tree(chosen: Mapping[str, int]) -> _Place:
    root = _Place()
    for subject, channel in chosen.items():
        place = root
        for token in subject.split("."):
            place = place.children.setdefault(token, _Place())
        place.channel = channel
    return root


def _allow(place: _Place, nodes: list[Node], above: Flags) -> None:
    """Work out which channels a rule for all that continues from here may name.

    `nodes` are where the subscription patterns are after these tokens; `above` is for those that ended in `>` before.
    """
    place.allowed = above
    rests = above
    for node in nodes:
        place.allowed = place.allowed & node.onwards
        rests = rests & node.rests
    for token, child in place.children.items():
        if child.children:
            _allow(child, [deeper for node in nodes for deeper in node.step(token)], rests)


def _weigh(place: _Place, channels: int, rule_cost: float) -> None:
    """Work out how many rules all that continues from here needs, by the channel that it inherits."""
    place.costs = np.zeros(channels)
    for child in place.children.values():
        if child.channel is not None:
            place.costs += 1.0
            place.costs[child.channel] -= 1.0
        if child.children:
            _weigh(child, channels, rule_cost)
            place.costs += np.minimum(child.costs, rule_cost + _own(child)[1])


def _own(place: _Place) -> tuple[int, float]:
    """The best channel for a rule of this place's own, and what is needed beside that rule."""
    costs = np.where(place.allowed, place.costs, np.inf)
    best = int(np.argmin(costs))
    return best, float(costs[best])


def _rules(place: _Place, tokens: tuple[str, ...], inherited: int, rule_cost: float) -> Iterator[Rule]:
    for token, child in place.children.items():
        here = (*tokens, token)
        if child.channel not in (None, inherited):
            yield Rule(".".join(here), int(child.channel or DEFAULT_CHANNEL))
        if child.children:
            best, cost = _own(child)
            if rule_cost + cost < child.costs[inherited]:
                yield Rule(".".join((*here, ">")), best)
                yield from _rules(child, here, best, rule_cost)
            else:
                yield from _rules(child, here, inherited, rule_cost)
