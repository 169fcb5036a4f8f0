"""Which rung overrides which hook, found out once: a hook that nobody overrides costs nothing."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from gossamer.core.ladder import Rung


class Hooks:
    """For each hook of `Rung` the bound methods of those that override it, in the order of the rungs."""

    accepted: Sequence[Any] = ()
    buffered: Sequence[Any] = ()
    collected: Sequence[Any] = ()
    disconnecting: Sequence[Any] = ()
    full: Sequence[Any] = ()
    gap_closed: Sequence[Any] = ()
    gossiping: Sequence[Any] = ()
    inputs: Sequence[Any] = ()
    leaving: Sequence[Any] = ()
    messages: Sequence[Any] = ()
    partition: Sequence[Any] = ()
    published: Sequence[Any] = ()
    reconnected: Sequence[Any] = ()
    repair_heard: Sequence[Any] = ()
    repaired: Sequence[Any] = ()
    repeated: Sequence[Any] = ()
    retired: Sequence[Any] = ()
    retracted: Sequence[Any] = ()
    revived: Sequence[Any] = ()
    round_over: Sequence[Any] = ()
    settled: Sequence[Any] = ()
    stabilized: Sequence[Any] = ()
    started: Sequence[Any] = ()
    unconfirmed: Sequence[Any] = ()
    unexplained: Sequence[Any] = ()
    unlogged: Sequence[Any] = ()
    view_changed: Sequence[Any] = ()

    def __init__(self, rungs: Sequence[Rung]) -> None:
        for name, positions in _overriding(tuple(map(type, rungs))):
            setattr(self, name, [getattr(rungs[at], name) for at in positions])


_NAMES = tuple(Hooks.__annotations__)


@lru_cache(maxsize=1000)  # a simulation has thousands of stacks of the same kinds of rungs
def _overriding(kinds: tuple[type[Rung], ...]) -> list[tuple[str, list[int]]]:
    """For each hook that any overrides, the positions of those rungs."""
    found = ((name, getattr(Rung, name)) for name in _NAMES)
    overridden = [(n, [at for at, kind in enumerate(kinds) if getattr(kind, n) is not hook]) for n, hook in found]
    return [(name, positions) for name, positions in overridden if positions]


def from_strangers(rungs: Sequence[Rung]) -> dict[type, list[Any]]:
    """The handlers of messages that are heard even from processes outside the view."""
    found: dict[type, list[Any]] = {}
    for rung in rungs:
        handlers = rung.messages() if rung.from_strangers else {}
        for kind in rung.from_strangers:
            found.setdefault(kind, []).append(handlers[kind])
    return found
