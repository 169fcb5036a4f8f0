"""A view: one entry per member ever heard of, merged by freshness (000 §5.3).

Of two entries for a member the fresher one counts, so views that meet become one, in any order. Entries of
members that left are kept for a while as tombstones: without them, an old view would bring the dead back.
"""

from collections.abc import Iterable
from math import inf

from gossamer.core.signature import Signature
from gossamer.core.views import MemberEntry

LEFT, MEMBER, DISCONNECTED, JOINING = range(4)
STATUS_NAMES = ("left", "member", "disconnected", "joining")
_FORGET_EVERY_S = 60.0
"""Tombstones are looked through this often."""
_ENTRIES_MAX = 100_000
"""A larger view is made up."""


class View:
    """The members of the group, as far as this member knows."""

    def __init__(self, entries: Iterable[MemberEntry] = ()) -> None:
        self._alive = {entry.member: entry for entry in entries}
        self._tombstones: dict[int, MemberEntry] = {}  # apart: there may be many more, and they are rarely asked for
        self._signature: int | None = None
        self._left: dict[int, float] = {}  # since when there is a tombstone, as far as we have looked
        self._looked = -inf

    def alive(self) -> list[MemberEntry]:
        """All but the tombstones."""
        return list(self._alive.values())

    def get(self, member: int) -> MemberEntry | None:
        """What is known of `member`."""
        return self._alive.get(member) or self._tombstones.get(member)

    def merge(self, entries: Iterable[MemberEntry]) -> list[MemberEntry]:
        """Merge the fresher entries; returns those that changed."""
        taken = []
        for entry in entries:
            known = self.get(entry.member)
            is_news = len(self._alive) < _ENTRIES_MAX if known is None else entry.freshness > known.freshness
            if is_news and entry.status < len(STATUS_NAMES):
                self._put(entry)
                taken.append(entry)
        if taken:
            self._signature = None
        return taken

    def _put(self, entry: MemberEntry) -> None:
        """In the place of what was known of the member; if there are too many tombstones, the oldest goes."""
        self._tombstones.pop(entry.member, None)
        if entry.status != LEFT:
            self._alive[entry.member] = entry
            return
        self._alive.pop(entry.member, None)
        self._tombstones[entry.member] = entry
        if len(self._tombstones) > _ENTRIES_MAX:
            del self._tombstones[next(iter(self._tombstones))]

    def fresher_than(self, entries: Iterable[MemberEntry]) -> list[MemberEntry]:
        """The living members that the sender of `entries` does not know, or whose entries here are fresher."""
        theirs = {entry.member: entry.freshness for entry in entries}
        return [e for e in self.alive() if e.freshness > theirs.get(e.member, -1)]

    def tombstones_of(self, entries: Iterable[MemberEntry]) -> list[MemberEntry]:
        """Of the members that are alive in `entries`, those that have left: nobody else needs to be told."""
        known = ((entry, self._tombstones.get(entry.member)) for entry in entries if entry.status != LEFT)
        return [mine for entry, mine in known if mine and mine.freshness > entry.freshness]

    def left_since(self, freshness: int) -> list[MemberEntry]:
        """Those that have left, according to entries at least this fresh, the freshest last."""
        left = [entry for entry in self._tombstones.values() if entry.freshness >= freshness]
        return sorted(left, key=lambda entry: (entry.freshness, entry.member))

    def members(self) -> tuple[int, ...]:
        """Those in reach, ascending; also those that are about to join, for they must hear what comes."""
        return tuple(sorted(m for m, e in self._alive.items() if e.status in (MEMBER, JOINING)))

    def newcomers(self) -> list[MemberEntry]:
        """Those that are about to join."""
        return [e for e in self._alive.values() if e.status == JOINING]

    def joining(self) -> frozenset[int]:
        """Those of them that do not yet know from where on they are members."""
        return frozenset(m for m, e in self._alive.items() if e.status == JOINING)

    def owed(self) -> tuple[int, ...]:
        """The members for which packets are kept: in reach, or expected back."""
        return tuple(sorted(e.member for e in self.alive()))

    def away(self) -> list[MemberEntry]:
        """Those that are to be back."""
        return [e for e in self._alive.values() if e.status == DISCONNECTED]

    def loggers(self) -> tuple[int, ...]:
        """Those of the owed that are loggers."""
        return tuple(sorted(e.member for e in self.alive() if e.logger))

    def knows_loggers(self) -> bool:
        """Whether there is, or was, any logger."""
        return any(e.logger for known in (self._alive, self._tombstones) for e in known.values())

    def signature(self) -> int:
        """The hash of the members; tombstones do not count, so they can be forgotten at any time."""
        if self._signature is None:
            self._signature = Signature((e.member, e.status, e.freshness) for e in self.alive()).value()
        return self._signature

    def forget_left(self, now: float, after: float) -> None:
        """Drop tombstones that have been here for this long: by our clock, since theirs may be any."""
        if now < self._looked + _FORGET_EVERY_S:
            return
        self._looked = now
        self._left = {member: self._left.get(member, now) for member in self._tombstones}
        for member in [m for m, since in self._left.items() if since < now - after]:
            del self._tombstones[member], self._left[member]
