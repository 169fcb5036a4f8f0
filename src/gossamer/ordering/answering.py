"""Whom a primary asks to say that they keep its places: no more sites than have to, and those that are quick to say so.

All sites keep a place, and most of them have to before it is settled, but the words of the others change nothing: in a
group of nine, four are enough. So a primary names those that were the first to answer when it last asked everybody,
which it does at its beats. If they take longer than usual (one has failed, or a message was lost), it asks everybody
again, and goes on with that for a while: where messages get lost, the first answers of all come sooner than those of
a few. Only who answers at once is decided here. What is settled, and by whom, is not.
"""

from math import inf

from gossamer.core.places import EVERYBODY, Sites

_SLOWER = 3.0
_WAIT_S = 0.01
"""Answers are late that take this many times as long as usual, and so much longer."""
_SHARE = 0.125
"""How much a new time counts for what is usual."""
_RANKS = 127
"""A site of a higher rank has no bit."""


class Answering:
    """What one primary knows of its sites' answers."""

    __slots__ = ("_all_until", "_asked", "_asked_for", "_asked_of", "_awaited", "_first", "_quick", "_usual_s")

    def __init__(self) -> None:
        self._first: dict[int, None] = {}  # who answered since everybody was asked last, in that order
        self._quick: tuple[int, ...] = ()  # who was quick then
        self._usual_s = inf  # until a place is settled
        self._awaited: tuple[int, float] | None = None  # below which place all should be settled, and since when
        self._all_until = 0.0
        self._asked_of: Sites | None = None  # the last answer to `asked`: of which sites, for whom, and what it was
        self._asked_for: tuple[int, ...] = ()
        self._asked = EVERYBODY

    def asked(self, now: float, primary: int, sites: Sites) -> int:
        """Who should answer: a bit for each site by its rank, after that for everybody."""
        if now < self._all_until or self._usual_s == inf:
            return EVERYBODY
        if sites is not self._asked_of or self._quick is not self._asked_for:
            self._asked_of, self._asked_for = sites, self._quick
            self._asked = self._name(primary, sites)
        return self._asked

    def _name(self, primary: int, sites: Sites) -> int:
        ranks = {site: rank for rank, site in enumerate(sorted(sites.lives)) if rank < _RANKS}
        enough = [site for site in self._quick if site in ranks and site != primary][: (len(sites.lives) - 1) // 2]
        if not enough or not sites.are_most((primary, *enough)):
            return EVERYBODY
        return sum(2 << ranks[site] for site in enough)

    def everybody(self) -> None:
        """Everybody is asked: those who answer first are quick."""
        if self._first:  # the others may have had nothing to say
            self._quick = (*self._first, *[site for site in self._quick if site not in self._first])[:_RANKS]
            self._first = {}

    def answered(self, site: int) -> None:
        """A site has said what it keeps."""
        self._first.setdefault(site)

    def given(self, now: float, end: int) -> float:
        """Places below `end` are given; returns when to look whether they are settled."""
        if self._awaited is None:
            self._awaited = end, now
        return self._due()

    def settled(self, now: float, below: int) -> None:
        """More is settled."""
        if self._awaited is not None and below >= self._awaited[0]:
            took = now - self._awaited[1]
            self._usual_s = took if self._usual_s == inf else self._usual_s + _SHARE * (took - self._usual_s)
            self._awaited = None
            self._quick = self._quick or tuple(self._first)

    def _due(self) -> float:
        return inf if self._awaited is None else self._awaited[1] + _SLOWER * self._usual_s + _WAIT_S

    def late(self, now: float, patience: float) -> float:
        """When to look again; 0 if everybody has to be asked now, because answers are late."""
        if self._awaited is None or now < self._all_until:
            return inf
        if now < self._due():
            return self._due()
        self._all_until, self._awaited = now + patience, None  # what takes so long is not what is usual
        return 0.0
