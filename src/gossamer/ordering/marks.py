"""What the marks of a sequence come to: in the trunk, the branches that are open; in a branch, how far the trunk is."""

from gossamer.core.places import Mark


class Marks:
    """The marks of a log, with their places, and what they say together at its end."""

    __slots__ = ("_before", "_marks", "branches", "closing", "ended", "trunk")

    def __init__(self, branches: dict[int, Mark], trunk: int = 0) -> None:
        self._before = branches, trunk
        self._marks: list[tuple[int, Mark]] = []
        self._sum_up()

    def _sum_up(self) -> None:
        branches, self.trunk = self._before
        self.branches = dict(branches)
        """By the place at which it was opened, each branch whose channels are not back."""
        self.closing: dict[int, None] = {}
        """Those of them that are to end."""
        self.ended = -1
        """The place with which this branch ends; -1 if it has not."""
        for place, mark in self._marks:
            self._count(place, mark)

    def _count(self, place: int, mark: Mark) -> None:
        if mark.kind == "open":
            self.branches[place] = mark
        elif mark.kind == "close":
            self.closing[mark.number] = None
        elif mark.kind == "back":
            self.branches.pop(mark.number, None)
            self.closing.pop(mark.number, None)
        else:
            self.trunk = mark.number
            self.ended = place if mark.kind == "end" and self.ended < 0 else self.ended

    def add(self, place: int, mark: Mark) -> None:
        """The next one."""
        self._marks.append((place, mark))
        self._count(place, mark)

    def between(self, first: int, below: int) -> list[tuple[int, Mark]]:
        """Those from this place on and below that one; what is asked for is at the end, or little."""
        found: list[tuple[int, Mark]] = []
        for known in reversed(self._marks):
            if known[0] < first:
                break
            if known[0] < below:
                found.append(known)
        return found[::-1]

    def cut(self, place: int) -> None:
        """Forget those from this place on."""
        if self._marks and self._marks[-1][0] >= place:
            self._marks = [known for known in self._marks if known[0] < place]
            self._sum_up()

    def drop(self, begin: int) -> None:
        """Only what those before this place come to is still of use."""
        kept = [known for known in self._marks if known[0] >= begin]
        before = self.before(begin)
        self._before = before.branches, before.trunk
        self._marks = kept
        self._sum_up()

    def before(self, place: int) -> "Marks":
        """What the marks before this place come to."""
        found = Marks(*self._before)
        for known, mark in self._marks:
            if known < place:
                found.add(known, mark)
        return found

    @property
    def channels(self) -> int:
        """The channels that have their places in branches, a bit for each."""
        mask = 0
        for mark in self.branches.values():
            mask |= mark.channels
        return mask
