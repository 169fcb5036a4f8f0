"""Ordered patterns of which the first that matches a subject decides.

Questions about whole patterns ("can anything that matches this reach rule 7?") are answered with *generic* subjects.
A generic subject of a pattern has a token that occurs in no pattern wherever the pattern has a wildcard. A rule
that matches it has wildcards there, too, so it matches every subject of that pattern with that number of tokens.
Hence one generic subject per number of tokens decides exactly, without enumerating subjects. (The only exception
is a pattern so close to the longest subject that a wildcard has room for a few one-byte tokens only: rules that name
them all count as leaving room for more.)
"""

from collections.abc import Iterator, Sequence

from gossamer.pubsub.subjects import SUBJECT_BYTES_MAX

Tokens = tuple[str, ...]

NONE = 1 << 62
"""The index of the first match where nothing matches: larger than every index."""

_FRESH = "\0"  # no token may contain it


class _Node:
    """A place in the trie of patterns with wildcards."""

    __slots__ = ("children", "ends", "rest")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.ends = NONE
        self.rest = NONE


class FirstMatch:
    """Patterns in order; a subject without wildcards costs a lookup, the patterns with wildcards a walk in a trie."""

    __slots__ = ("_exact", "_root", "_tokens_max", "visits")

    def __init__(self, patterns: Sequence[str]) -> None:
        self._exact: dict[str, int] = {}
        self._root = _Node()
        self._tokens_max = 0
        self.visits = 0  # places of the trie looked at so far: patterns that overlap much make each walk long
        for index, pattern in enumerate(patterns):
            self._add(index, pattern)

    def _add(self, index: int, pattern: str) -> None:
        tokens = tuple(pattern.split("."))
        self._tokens_max = max(self._tokens_max, len(tokens))
        if not has_wildcard(tokens):
            self._exact.setdefault(pattern, index)
            return
        node = self._root
        for token in tokens if tokens[-1] != ">" else tokens[:-1]:
            node = node.children.setdefault(token, _Node())
        if tokens[-1] == ">":
            node.rest = min(node.rest, index)
        else:
            node.ends = min(node.ends, index)

    def find(self, subject: str) -> int:
        """The index of the first pattern that matches `subject`, or NONE."""
        return min(self._exact.get(subject, NONE), self._find_wildcard(subject.split(".")))

    def _find_wildcard(self, tokens: Sequence[str]) -> int:
        best = NONE
        nodes = [self._root]
        for token in tokens:
            best = min(best, *(node.rest for node in nodes))
            nodes = [child for node in nodes for name in (token, "*") if (child := node.children.get(name))]
            if not nodes:
                return best
            self.visits += len(nodes)
        return min(best, *(node.ends for node in nodes))

    def generic(self, tokens: Tokens) -> Iterator[str]:
        """The generic subjects of a pattern: one for each number of tokens that these patterns tell apart."""
        front = [_FRESH if token == "*" else token for token in tokens]
        if tokens[-1] != ">":
            return iter(filter(_fits, [".".join(front)]))
        lengths = range(len(tokens), max(len(tokens), self._tokens_max) + 2)
        return filter(_fits, (".".join(front[:-1] + [_FRESH] * (n - len(front) + 1)) for n in lengths))

    def first_of(self, tokens: Tokens) -> set[int]:
        """The patterns that are the first to match some generic subject of a pattern; NONE where none matches."""
        return {self.find(subject) for subject in self.generic(tokens)}


def intersection(one: Tokens, other: Tokens) -> Tokens | None:
    """The pattern of the subjects that both patterns match, or None if there is none."""
    met: list[str] = []
    for place in range(max(len(one), len(other))):
        if place >= min(len(one), len(other)):
            return None
        a, b = one[place], other[place]
        if a == ">":
            return (*met, *other[place:])
        if b == ">":
            return (*met, *one[place:])
        if a != b and "*" not in (a, b):
            return None
        met.append(b if a == "*" else a)
    return tuple(met)


def has_wildcard(tokens: Sequence[str]) -> bool:
    """Whether a pattern stands for more than one subject."""
    return tokens[-1] == ">" or "*" in tokens


def _fits(subject: str) -> bool:
    return len(subject) * 4 <= SUBJECT_BYTES_MAX or len(subject.encode()) <= SUBJECT_BYTES_MAX
