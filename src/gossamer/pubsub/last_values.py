"""The last event of each subject, of so many subjects: the first that came make room."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])


class LastValues(Generic[T]):
    """A table of events by subject, their first place."""

    def __init__(self, subjects_max: int) -> None:
        self.dropped = 0
        """Subjects that had to make room."""
        self._subjects_max = subjects_max
        self._table: dict[str, T] = {}

    def __len__(self) -> int:
        return len(self._table)

    def note(self, events: list[T]) -> None:
        """These came, in this order."""
        table = self._table
        for event in events:
            table[event[0]] = event
        while len(table) > self._subjects_max:
            del table[next(iter(table))]
            self.dropped += 1

    def matching(self, matches: Callable[[str], bool]) -> list[T]:
        """The last events of subjects that match."""
        return [event for subject, event in self._table.items() if matches(subject)]


def newest(some: list[T]) -> list[T]:
    """Of events from several tables, the newest of each subject: by time, the sixth place, then sender and number."""
    found: dict[str, T] = {}
    for event in some:
        before = found.get(event[0])
        if before is None or (event[5], event[3], event[4]) > (before[5], before[3], before[4]):
            found[event[0]] = event
    return list(found.values())
