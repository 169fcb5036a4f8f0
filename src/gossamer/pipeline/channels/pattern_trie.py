"""All subscription patterns in a trie: which match a subject, and which could match a subject below a prefix."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]


class Node:
    """A place in the trie: the patterns that end here, and those that go on with `>`."""

    __slots__ = ("children", "ends", "onwards", "rest", "rests")

    def __init__(self) -> None:
        self.children: dict[str, Node] = {}
        self.ends: list[int] = []
        self.rest: list[int] = []
        self.rests: Flags
        """What is true of all patterns that go on from here with `>`."""
        self.onwards: Flags
        """What is true of all patterns that go on from here."""

    def step(self, token: str) -> Iterator["Node"]:
        """The places after one more token."""
        for name in (token, "*"):
            if (child := self.children.get(name)) is not None:
                yield child


class PatternTrie:
    """Patterns, known by their numbers."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.root = Node()
        for number, pattern in enumerate(patterns):
            *front, last = pattern.split(".")
            node = self.root
            for token in front if last == ">" else [*front, last]:
                node = node.children.setdefault(token, Node())
            (node.rest if last == ">" else node.ends).append(number)

    def matching(self, subject: str) -> list[int]:
        """The patterns that match a subject."""
        found: list[int] = []
        nodes = [self.root]
        for token in subject.split("."):
            for node in nodes:
                found += node.rest
            nodes = [child for node in nodes for child in node.step(token)]
        for node in nodes:
            found += node.ends
        return found

    def settle(self, flags: Flags) -> None:
        """Tell every place what is true of all patterns that go on from there; `flags` has a row for each pattern."""
        _settle(self.root, flags)


def _settle(node: Node, flags: Flags) -> Flags:
    """Returns what is true of all patterns that end here or go on."""
    node.rests = np.all(flags[node.rest], axis=0)
    node.onwards = node.rests
    for child in node.children.values():
        node.onwards = node.onwards & _settle(child, flags)
    ended: Flags = node.onwards & flags[node.ends].all(axis=0)
    return ended
