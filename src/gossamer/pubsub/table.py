"""The table of subscriptions: which of them match an event's subject.

The answer for a subject is remembered, so a busy subject costs one dictionary lookup however many subscriptions
there are. The memory is bounded, and emptied when it is full or a subscription comes or goes: simpler than
evicting one by one, and no worse where more subjects are in use than are remembered.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from gossamer.pubsub.predicates import Filter
from gossamer.pubsub.subjects import compile_pattern
from gossamer.pubsub.where import compile_where

SUBJECTS_REMEMBERED_MAX = 10_000

K = TypeVar("K", bound=Hashable)


class Subscriptions(Generic[K]):
    """Subscriptions by key, in the order in which they were made."""

    def __init__(self, subjects_remembered_max: int = SUBJECTS_REMEMBERED_MAX) -> None:
        if subjects_remembered_max < 1:
            raise ValueError(f"subjects_remembered_max = {subjects_remembered_max}: must be at least 1")
        self._remembered_max = subjects_remembered_max
        self._remembered: dict[str, tuple[tuple[K, Filter | None], ...]] = {}
        self._subscriptions: dict[K, tuple[Callable[[str], bool], Filter | None]] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __contains__(self, key: object) -> bool:
        return key in self._subscriptions

    def add(self, *patterns: str, where: str | None = None, key: K) -> None:
        """Subscribe `key` to the subjects of any of the patterns, with an optional filter.

        SubjectError or FilterError if either is invalid, ValueError for a key that is in use; nothing is added then.
        """
        if key in self._subscriptions:
            raise ValueError(f"subscription {key!r} exists already: remove it first, or choose another key")
        self._subscriptions[key] = _any_of(patterns), None if where is None else compile_where(where)
        self._remembered.clear()

    def remove(self, key: K) -> None:
        """End the subscription of `key`; KeyError if there is none."""
        if key not in self._subscriptions:
            raise KeyError(f"no subscription {key!r}")
        del self._subscriptions[key]
        self._remembered.clear()

    def match(self, subject: str) -> tuple[tuple[K, Filter | None], ...]:
        """The subscriptions that match `subject`, in order: each key, and the filter still to be applied."""
        found = self._remembered.get(subject)
        return self._find(subject) if found is None else found

    def _find(self, subject: str) -> tuple[tuple[K, Filter | None], ...]:
        subscriptions = self._subscriptions.items()
        found = tuple((key, where) for key, (matches, where) in subscriptions if matches(subject))
        if len(self._remembered) >= self._remembered_max:
            self._remembered.clear()
        self._remembered[subject] = found
        return found


def _any_of(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    tests = [compile_pattern(pattern) for pattern in patterns]
    if len(tests) == 1:
        return tests[0]
    return lambda subject: any(matches(subject) for matches in tests)
