"""Those that a view holds and that do not come: processes that wanted to join, and members that are away."""

from gossamer.core.views import MemberEntry
from gossamer.membership.view import DISCONNECTED, LEFT, MEMBER

_RETURNING_MAX = 1000
"""So many members that come back after a crash are remembered until they are in."""
_JOIN_S = 30.0
"""A process that has not become a member for this long does not want to, or never existed."""
_JOINING_MAX = 64
"""If more want to join at a time, the one that has wanted to for longest is forgotten, and may ask again."""


class Absentees:
    """Since when each of them is looked for."""

    def __init__(self) -> None:
        self._returning: dict[int, None] = {}
        self._joining: dict[tuple[int, int], float] = {}  # by member and freshness: since when
        self._away: dict[tuple[int, int], float] = {}  # the same, as far as we have looked

    def __contains__(self, member: int) -> bool:
        """Whether `member` crashed and is coming back."""
        return member in self._returning

    @property
    def anybody_joins(self) -> bool:
        """Whether anybody was joining when we last looked."""
        return bool(self._joining)

    def note_return(self, source: int, before: MemberEntry | None) -> None:
        """A process wants to join: if it is a member that crashed, there is something to go on with."""
        if before is not None and before.status in (MEMBER, DISCONNECTED):
            self._returning[source] = None
            if len(self._returning) > _RETURNING_MAX:
                del self._returning[next(iter(self._returning))]
        elif before is None or before.status == LEFT:
            self._returning.pop(source, None)

    def never_came(self, now: float, joining: list[MemberEntry]) -> list[MemberEntry]:
        """Of those that are joining now, the ones that have wanted to for too long, or are too many."""
        newcomers = {(e.member, e.freshness): e for e in joining}
        self._joining = {which: self._joining.get(which, now) for which in newcomers}
        longest = sorted(newcomers, key=lambda which: (self._joining[which], which))
        too_many = len(longest) - _JOINING_MAX
        gone = [w for at, w in enumerate(longest) if at < too_many or self._joining[w] < now - _JOIN_S]
        return [newcomers[which] for which in gone]

    def gone_since(self, now: float, away: list[MemberEntry], before: float) -> list[MemberEntry]:
        """Of those that are away now, the ones that were so before then."""
        absent = {(e.member, e.freshness): e for e in away}
        self._away = {which: self._away.get(which, now) for which in absent}
        return [absent[which] for which, since in self._away.items() if since < before]
