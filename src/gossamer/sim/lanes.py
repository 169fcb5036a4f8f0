"""What the members of one process keep side by side, so that a run that reaches many is taken in by all at once.

For most members a first pass is the next packet of a sender from which they miss nothing: they keep it and deliver it.
`Lanes.advance` does just that, as `Stack.step` does, but in one loop over plain lists; a member that has anything else
to do with the run is left to its own `step`.
"""

from typing import Any

from gossamer.core.ids import owner_of
from gossamer.core.inputs import Received
from gossamer.core.streams import Stream, Streams
from gossamer.stack import Stack


class Lane:
    """One sender as the members of one process see it: the `next` of each, side by side.

    A simulation has thousands of members, and a packet that reaches them all would otherwise fetch a dozen objects of
    each from all over memory, only to add one to a number.
    """

    __slots__ = ("gapped", "nexts")

    def __init__(self, members: int) -> None:
        self.nexts = [-1] * members  # -1 for members that have never heard of the sender
        self.gapped: set[int] = set()
        """Members that miss something from the sender."""

    def leave(self, member: int) -> None:
        """`member` knows nothing of the sender any more."""
        self.nexts[member] = -1
        self.gapped.discard(member)


class LaneStream(Stream):
    """A stream whose `next` lies in a lane, and which tells the lane whether anything is missing."""

    __slots__ = ("_gapped",)

    def __init__(self, start: int, lane: Lane, at: int) -> None:
        self._gapped = lane.gapped
        super().__init__(start, lane.nexts, at)
        self.changed()

    def changed(self) -> None:
        """Tell the lane."""
        super().changed()
        if self.missing:
            self._gapped.add(self.at)
        else:
            self._gapped.discard(self.at)


class LaneStreams(Streams):
    """The streams of one member, in the lanes of all; not its own, because nobody else hears that as it does."""

    __slots__ = ("_lanes", "_me")

    def __init__(self, lanes: "Lanes", me: int, own: Stream) -> None:
        super().__init__({me: own})
        self._lanes = lanes
        self._me = me

    def begin(self, sender: int, start: int) -> Stream:
        """Hear `sender` from `start` on."""
        if owner_of(sender) == self._me:
            return super().begin(sender, start)
        stream = self[sender] = LaneStream(start, self._lanes.of(sender), self._me)
        return stream

    def retire(self, now: float, sender: int) -> None:
        """Forget all of `sender` but where it stopped."""
        super().retire(now, sender)
        self._lanes.of(sender).leave(self._me)

    def end(self, me: int) -> None:
        """The member no longer takes part."""
        super().end(me)
        self._lanes.clear(me)


class Lanes:
    """A lane for each sender, and where each member keeps what arrives. Members are numbered from 0."""

    def __init__(self, members: int, *, ordered: bool) -> None:
        self._members = members
        self._ordered = ordered  # whether a gap holds back what follows it
        self._lanes: dict[int, Lane] = {}
        self._arrivals: list[list[Any] | None] = [None] * members
        self._stacks: list[Stack | None] = [None] * members

    def enter(self, stack: Stack) -> None:
        """A member begins, knowing nothing of any sender. One that does more than deliver packets stays outside."""
        self.clear(stack.me)
        self._stacks[stack.me] = stack
        if stack.only_delivers():
            self._arrivals[stack.me] = stack.buffer.arrivals
            stack.keep_streams_in(LaneStreams(self, stack.me, stack.streams[stack.me]))

    def clear(self, member: int) -> None:
        """`member` now knows of no sender."""
        for lane in self._lanes.values():
            lane.leave(member)

    def of(self, sender: int) -> Lane:
        """The lane of a sender."""
        if sender not in self._lanes:
            self._lanes[sender] = Lane(self._members)
        return self._lanes[sender]

    def advance(self, now: float, members: list[int], happened: Received) -> tuple[list[int], list[int]]:
        """Let `members` receive a run; returns those that must step with it themselves, and those that had all of it.

        The others have taken it in, and the caller must deliver it to them.
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
        for member in indifferent:
            stack = self._stacks[member]
            assert stack is not None, "it has entered"
            stack.heard_again(now, happened, [])
        return asked, indifferent
