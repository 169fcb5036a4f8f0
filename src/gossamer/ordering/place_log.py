"""The places that a member keeps: what the order is, as far as it knows, in segments.

Places below `begin` were dropped: they are settled, and whoever is further behind is told where the order begins now.
Two logs that have a place from the same graph have the same up to there, because a graph has one primary, and that
never gives a place twice.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from gossamer.core.packet_sets import Horizon
from gossamer.core.places import Segment, Sites
from gossamer.ordering.marks import Marks

PLACES_MAX = 1 << 61
"""No order comes so far."""
_NO_PLACES = Segment(-1)


class PlaceLog:
    """Segments, in the order of their places."""

    __slots__ = ("_before", "_dropped", "_firsts", "_segments", "_sites", "begin", "cut_at", "end", "marks", "placed")

    def __init__(self, begin: int, before: int, placed: Horizon, sites: Sites, marks: Marks | None = None) -> None:
        self.begin = self.end = begin
        self._before = before
        self._firsts: list[int] = []
        self._segments: list[Segment] = []
        self._dropped = dict(placed)  # the highest number of each sender with a place below `begin`
        self.placed = dict(placed)
        """The highest number of each sender that has a place."""
        self._sites: list[tuple[int, Sites]] = [(-1, sites)]  # from which place on
        self.marks = Marks({}) if marks is None else marks
        self.cut_at = PLACES_MAX
        """The lowest place that was forgotten since somebody looked."""

    def __len__(self) -> int:
        return len(self._segments)

    def graph_before(self, place: int) -> int:
        """The graph that gave the place before this one; -1 if it is not known."""
        if place == self.begin:
            return self._before
        if place == self.end:
            return self._segments[-1].graph
        if not self.begin < place <= self.end:
            return -1
        return self._segments[bisect_right(self._firsts, place - 1) - 1].graph

    def append(self, segment: Segment) -> None:
        """The next places."""
        segments, count = self._segments, segment.count
        last = segments[-1] if segments else _NO_PLACES
        if (
            (last.sender == segment.sender and last.first + last.count == segment.first and last.graph == segment.graph)
            and last.sites is None
            and last.mark is None
            and segment.sites is None
            and segment.mark is None
        ):  # as nearly always
            segments[-1] = Segment(last.graph, last.sender, last.first, last.count + count)
        else:
            self._firsts.append(self.end)
            segments.append(segment)
            if segment.sites is not None:
                self._sites.append((self.end, segment.sites))
            elif segment.mark is not None:
                self.marks.add(self.end, segment.mark)
        _place(self.placed, segment, count)
        self.end += count

    def take(self, first: int, segments: Iterable[Segment], settled: int) -> bool:
        """Enter what a primary gave from `first` on; what differs from it goes, and all after that.

        Returns False if that would change what is settled, which no primary does.
        """
        assert self.begin <= first <= self.end, "places follow on"
        for segment in segments:
            following = first + segment.count
            while first < following and first < self.end:
                begins, known = self.around(first)
                if known.graph != segment.graph:
                    if first < settled:
                        return False
                    self.cut(first)
                else:
                    first = min(begins + known.count, following)
            if first < following:
                self.append(_rest(segment, segment.count - (following - first)))
            first = following
        return True

    def cut(self, place: int) -> None:
        """Forget this place and all after it: they were never settled."""
        at = bisect_right(self._firsts, place) - 1
        kept = place - self._firsts[at]
        head = self._segments[at]
        del self._segments[at:], self._firsts[at:]
        self._sites = [known for known in self._sites if known[0] < place]
        self.marks.cut(place)
        self.cut_at = min(place, self.cut_at)
        self.end = place
        if kept:
            self._firsts.append(place - kept)
            self._segments.append(Segment(head.graph, head.sender, head.first, kept))
        self.placed = self.placed_below(place)

    def part(self, first: int, most: int) -> list[Segment]:
        """At most so many segments from `first` on."""
        if not self.begin <= first < self.end:
            return []
        at = bisect_right(self._firsts, first) - 1
        found = self._segments[at : at + most]
        found[0] = _rest(found[0], first - self._firsts[at])
        return found

    def around(self, place: int) -> tuple[int, Segment]:
        """The segment that has this place, which is below the end, and its own first place."""
        firsts = self._firsts
        at = -1 if place >= firsts[-1] else bisect_right(firsts, place) - 1
        return firsts[at], self._segments[at]

    def between(self, first: int, below: int) -> Iterator[tuple[int, Segment]]:
        """The segments that have places from `first` on and below `below`, each with its first place."""
        if first >= below:
            return
        for at in range(max(0, bisect_right(self._firsts, first) - 1), len(self._segments)):
            place, segment = self._firsts[at], self._segments[at]
            if place >= below:
                break
            if place + segment.count > first:
                yield place, segment

    def placed_below(self, place: int) -> Horizon:
        """The highest number of each sender that has a place below this one."""
        placed = dict(self._dropped)
        for first, segment in zip(self._firsts, self._segments, strict=True):
            if first >= place:
                break
            _place(placed, segment, min(segment.count, place - first))
        return placed

    def begins_for(self, horizon: Horizon, senders: Sequence[int]) -> int:
        """The lowest place of a packet that follows `horizon`; of senders that it does not name, those in `senders`."""
        wanted = {**dict.fromkeys(senders, -1), **horizon}
        for first, segment in zip(self._firsts, self._segments, strict=True):
            after = wanted.get(segment.sender, PLACES_MAX)
            if segment.has_packets and segment.first + segment.count - 1 > after:
                return first
        return self.end

    def alone(self, settled: int) -> Sites | None:
        """The sites that decide from the place `settled` on, if no change of them is under way; None if there is."""
        since, sites = self._sites[-1]
        return sites if since < settled or len(self._sites) == 1 else None

    def sites(self, settled: int) -> list[Sites]:
        """The sites that decide from the place `settled` on: those in force there, and all that follow."""
        if self._sites[-1][0] < settled:
            return [self._sites[-1][1]]
        in_force = len(self._sites) - 1
        while in_force > 0 and self._sites[in_force][0] >= settled:
            in_force -= 1
        return [sites for _, sites in self._sites[in_force:]]

    @property
    def last_sites(self) -> Sites:
        """The sites in force at the end."""
        return self._sites[-1][1]

    def sites_at(self, place: int) -> Sites:
        """The sites in force before this place."""
        return next(sites for since, sites in reversed(self._sites) if since < place or since < 0)

    def drop(self, segments_max: int, below: int) -> None:
        """Forget the oldest settled places, if there are many more than this many segments."""
        if len(self._segments) <= 2 * segments_max:
            return
        at = min(len(self._segments) - segments_max, bisect_right(self._firsts, below) - 1)
        begin = self._firsts[at]
        self._dropped = self.placed_below(begin)
        self._before = self.graph_before(begin)
        self._sites = [(-1, self.sites_at(begin)), *(known for known in self._sites if known[0] >= begin)]
        self.marks.drop(begin)
        del self._segments[:at], self._firsts[:at]
        self.begin = begin


def _place(placed: dict[int, int], segment: Segment, count: int) -> None:
    """The first `count` places of the segment are given; with a branch, all come back that were given there."""
    if segment.sites is None and segment.mark is None:  # packets, as nearly always
        sender, last = segment.sender, segment.first + count - 1
        if last > placed.get(sender, -1):
            placed[sender] = last
    elif segment.mark is not None and segment.mark.kind == "back":
        placed.update({s: max(last, placed.get(s, -1)) for s, last in segment.mark.table.items()})


def _rest(segment: Segment, skipped: int) -> Segment:
    if not skipped:
        return segment
    return Segment(segment.graph, segment.sender, segment.first + skipped, segment.count - skipped)
