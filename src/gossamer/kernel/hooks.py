"""Which rung overrides which hook, found out once: a hook that nobody overrides costs nothing."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from gossamer.core.ladder import Rung

_NAMES = (
    "accepted",
    "buffered",
    "collected",
    "disconnecting",
    "full",
    "gap_closed",
    "gossiping",
    "leaving",
    "published",
    "reconnected",
    "repeated",
    "retired",
    "revived",
    "round_over",
    "settled",
    "started",
    "unconfirmed",
    "unlogged",
    "view_changed",
)


class Hooks:
    """For each hook of `Rung` the bound methods of those that override it, in the order of the rungs."""

    __slots__ = _NAMES

    accepted: list[Any]
    buffered: list[Any]
    collected: list[Any]
    disconnecting: list[Any]
    full: list[Any]
    gap_closed: list[Any]
    gossiping: list[Any]
    leaving: list[Any]
    published: list[Any]
    reconnected: list[Any]
    repeated: list[Any]
    retired: list[Any]
    revived: list[Any]
    round_over: list[Any]
    settled: list[Any]
    started: list[Any]
    unconfirmed: list[Any]
    unlogged: list[Any]
    view_changed: list[Any]

    def __init__(self, rungs: Sequence[Rung]) -> None:
        for name, positions in _overriding(tuple(map(type, rungs))):
            setattr(self, name, [getattr(rungs[at], name) for at in positions])


@lru_cache(maxsize=1000)  # a simulation has thousands of stacks of the same kinds of rungs
def _overriding(kinds: tuple[type[Rung], ...]) -> list[tuple[str, list[int]]]:
    """For each hook the positions of those rungs that override it."""
    return [
        (name, [at for at, kind in enumerate(kinds) if getattr(kind, name) is not getattr(Rung, name)])
        for name in _NAMES
    ]
