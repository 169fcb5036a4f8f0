"""An attempt to close a graph, and what can be believed of what others say of places."""

from gossamer.core.places import GraphClosed, Places, Segment, Sites
from gossamer.ordering.place_log import PLACES_MAX

GRAPHS_MAX = 1 << 60
"""No group comes so far."""
GRAPHS_AHEAD = 1 << 20
"""So many graphs no member misses. Nobody can use up the numbers by steps of this size."""


class Closing:
    """An attempt of this member to close the graph and to open the next one."""

    __slots__ = ("answers", "beats", "graph", "heard", "misses_primary", "source", "taken")

    def __init__(self, graph: int, *, misses_primary: bool) -> None:
        self.graph = graph
        self.misses_primary = misses_primary
        self.answers: dict[int, GraphClosed] = {}
        self.heard: set[int] = set()  # others that said anything to it
        self.source = -1  # the site whose places we take over
        self.taken = 0  # and below which place we have
        self.beats = 0  # how long it takes

    def best(self) -> tuple[int, GraphClosed]:
        """A site that keeps the longest order, and its answer."""
        return max(self.answers.items(), key=lambda item: (item[1].last, item[1].below))

    def has_all(self, sites: Sites) -> bool:
        """Whether all sites have answered, but for a primary that is missed."""
        missed = sites.primary if self.misses_primary else None
        return all(member in self.answers for member in sites.lives if member != missed)


def can_be(message: Places) -> bool:
    """Whether any order can come to these places."""
    count = sum([segment.count for segment in message.segments])
    return message.first + count <= PLACES_MAX and message.graph <= GRAPHS_MAX


def below(message: Places, limit: int) -> list[Segment]:
    """The segments of a message as far as they are below a place."""
    found: list[Segment] = []
    place = message.first
    for segment in message.segments:
        count = min(segment.count, limit - place)
        if count <= 0:
            break
        whole = count == segment.count
        found.append(segment if whole else Segment(segment.graph, segment.sender, segment.first, count))
        place += segment.count
    return found
