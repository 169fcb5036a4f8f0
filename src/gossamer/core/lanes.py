"""What the members of one process have side by side, so that a run which reaches many is taken in by all at once.

For most members a first pass is the next packet of a sender of whom they miss nothing: they keep it and deliver it.
`Lanes.advance` does just that, what the short path of `Stack.step` does, in one loop over plain lists; whoever has
anything else to do with the run is left to its own `step`.
"""

from gossamer.core.inputs import Received
from gossamer.core.ladder import Arrivals
from gossamer.core.streams import Lane


class Lanes:
    """A lane for each sender, and where each member keeps what arrives. Members are numbered from 0."""

    def __init__(self, members: int, *, ordered: bool) -> None:
        self._members = members
        self._ordered = ordered  # whether a gap holds back what follows it
        self._lanes: dict[int, Lane] = {}
        self._arrivals: list[Arrivals | None] = [None] * members

    def enter(self, member: int, arrivals: Arrivals | None) -> None:
        """`member` begins, with nothing known of any sender; it keeps what comes in `arrivals`, if anywhere."""
        self._arrivals[member] = arrivals
        for lane in self._lanes.values():
            lane.nexts[member] = -1
            lane.gapped.discard(member)

    def of(self, sender: int) -> Lane:
        """The lane of a sender."""
        if sender not in self._lanes:
            self._lanes[sender] = Lane(self._members)
        return self._lanes[sender]

    def advance(self, now: float, members: list[int], happened: Received) -> tuple[list[int], list[int]]:
        """Let `members` receive a run: those who are to step with it themselves, and those who had it all before.

        The others have taken it in, and it is for the caller to deliver it to them.
        """
        lane = self._lanes.get(happened.sender)
        if lane is None:
            return members, []
        nexts, gapped, kept = lane.nexts, lane.gapped, self._arrivals
        held_back = gapped if self._ordered else ()
        first, following, run = happened.first, happened.following, happened.run
        asked, indifferent = [], []
        for member in members:
            if nexts[member] == first and member not in held_back:
                nexts[member] = following
                arrivals = kept[member]
                if arrivals is not None:
                    arrivals.append(now)
                    arrivals.append(run)
            elif nexts[member] >= following and member not in gapped:
                indifferent.append(member)
            else:
                asked.append(member)
        return asked, indifferent
