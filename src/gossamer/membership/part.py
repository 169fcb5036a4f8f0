"""A member's part in the change of one view: what it has promised and agreed to, and what it lacks of that view."""

from collections.abc import Iterable

from gossamer.core.effects import Multicast, Note, Unicast
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.messages import Request, RequestFor
from gossamer.core.packet_sets import Horizon, PacketSets, put
from gossamer.core.ranges import RangeSet
from gossamer.core.views import FlushAnswer, NewView
from gossamer.membership.view_change import AgreedView

NUMBERS_MAX = 1 << 48
"""No view or attempt has a higher number."""


class Part:
    """It begins with the first flush of a view, and ends with the next view."""

    def __init__(self, ladder: Ladder, view: AgreedView) -> None:
        self._ladder = ladder
        self.view = view
        self.promised = 0, -1
        """The latest attempt, and whose: nothing is done for earlier ones."""
        self.attempts = 0
        """The highest attempt that was heard of."""
        self.flushes_since: float | None = None
        self._tried: tuple[Horizon, int, float] | None = None  # a cut, how much is lacking up to it, and since when
        self._accepted: tuple[int, NewView] | None = None  # what we have agreed to, and who proposed it
        self.next: tuple[int, NewView] | None = None
        """The view for which this one is completed, and who told us of it."""

    def promise(self, now: float, attempt: int, source: int) -> bool:
        """Do nothing for earlier attempts any more; returns whether the flush begins with this."""
        if (attempt, source) != self.promised:
            self.promised = attempt, source
            self.next = None
        begins = self.flushes_since is None
        self.flushes_since = now if self.flushes_since is None else self.flushes_since
        return begins

    def answer(self, attempt: int) -> FlushAnswer:
        """What we have, and what we have agreed to before."""
        answer = FlushAnswer(self.view.number, attempt, self.have(), self._kept())
        if self._accepted is not None:
            answer.by, agreed = self._accepted
            answer.accepted_attempt, answer.entries = agreed.attempt, agreed.entries
            answer.cut, answer.starts = agreed.cut, agreed.starts
        return answer

    def _kept(self) -> PacketSets:
        """What we could give to others: where members keep different packets that is not all that we have."""
        kept: PacketSets = {}
        for sender, last in self.have().items():
            if last >= 0:
                put(kept, sender, self._ladder.buffer.kept_of(sender, RangeSet.span(0, last)))
        return kept

    def have(self) -> Horizon:
        """How far we have each sender's packets in order."""
        streams, me = self._ladder.streams, self._ladder.me
        return {s: streams[me].next - 1 if s == me else streams.prefix_of(s) for s in self.view.members}

    def may_agree(self, source: int, message: NewView) -> bool:
        """Whether this is a proposal for the next view, and none of an earlier attempt."""
        follows = message.view == self.view.number + 1
        return follows and self.view.knows(source) and (message.attempt, source) >= self.promised

    def took_part(self, message: NewView) -> bool:
        """Whether we have answered when this next view was agreed on."""
        return message.view == self.view.number + 1 and self.promised[0] >= message.attempt

    def prepares(self, message: NewView) -> bool:
        """Whether this view is being completed for just that already."""
        known = None if self.next is None else self.next[1]
        return known is not None and (known.cut, known.attempt) == (message.cut, message.attempt)

    def stop(self, now: float, gone: Iterable[int], out: Effects) -> None:
        """Take in nothing more of members that are gone, for the last view ends without them.

        Where members keep different packets any of them may be left out: then nothing more of anybody, before the cut
        is known. Otherwise some would have more than they have said, and perhaps than belongs to the view.
        """
        if self._ladder.buffer.selects and self.next is None:
            self.end_streams(now, self.have(), out)
        for member in gone:
            if self.view.knows(member):
                self.end_stream(now, member, -1, out)

    def end_streams(self, now: float, cut: Horizon, out: Effects) -> None:
        """Take in the packets of this view up to its cut, and no others."""
        for sender in self.view.members:
            if sender != self._ladder.me:
                self.end_stream(now, sender, cut.get(sender, -1), out)

    def end_stream(self, now: float, sender: int, last: int, out: Effects) -> None:
        """Take in what is missing of `sender` up to `last`; what is here and was not delivered may come again."""
        self._ladder.gaps.end(now, sender, last, out)
        self._ladder.buffer.drop(now, sender, self._ladder.streams.prefix_of(sender) + 1, out)

    def lacks(self) -> PacketSets:
        """What is missing of this view."""
        streams = {s: self._ladder.streams.get(s) for s in self.view.members if s != self._ladder.me}
        return {sender: s.missing for sender, s in streams.items() if s is not None and s.missing}

    def ask(self, message: NewView, out: Effects, *, again: bool) -> bool:
        """Ask for what is lacking; returns whether anything is.

        If the one that has it all does not answer, somebody else may have it by now. Where members keep different
        packets everybody is asked then: there may be one that keeps it, and no time to go from one to the next.
        """
        me, lacking = self._ladder.me, self.lacks()
        if lacking and again and self._ladder.buffer.selects:
            out.append(Multicast(RequestFor(me, {sender: numbers.copy() for sender, numbers in lacking.items()})))
            return True
        others = [entry.member for entry in message.entries if entry.member != me]
        for sender, numbers in lacking.items():
            holder = message.holders.get(sender, me)
            if (again or holder == me) and others:
                holder = self._ladder.rng.choice([holder, *others])
            if holder != me:
                out.append(Unicast(holder, Request({sender: numbers.copy()})))
        return bool(lacking)

    def in_vain(self, now: float, message: NewView, patience: float) -> bool:
        """Whether we have tried to complete this view, up to the same cut, and nothing came for longer than that."""
        left = sum(map(len, self.lacks().values()))
        if self._tried is None or self._tried[:2] != (message.cut, left):
            self._tried = message.cut, left, now
        return now - self._tried[2] > patience

    def why_out(self, message: NewView) -> str:
        """Why we are not in the next view, as far as can be told from here."""
        if self.promised[0] != message.attempt:
            return f"excluded from view {message.view}: not heard when it was agreed on"
        for sender, last in self.have().items():
            cut = message.cut.get(sender, -1)
            if last > cut:
                return f"excluded from view {message.view}: the others cannot get packet {cut + 1} of member {sender}"
            if last < cut:
                return f"excluded from view {message.view}: nobody has packet {last + 1} of member {sender}"
        return f"excluded from view {message.view}"

    def agree(self) -> None:
        """Nothing is lacking for the next view."""
        self._accepted = self.next


def can_be(ladder: Ladder, now: float, message: NewView) -> bool:
    """Whether such a view is possible; numbers from the network may be any."""
    own = ladder.streams[ladder.me].next
    numbers = (*message.cut.values(), *message.starts.values())
    return (
        max(message.view, message.attempt) <= NUMBERS_MAX
        and sorted(message.starts) == sorted(entry.member for entry in message.entries)
        and message.starts.get(ladder.me, own) >= own
        and message.cut.get(ladder.me, -1) < own
        and min(message.starts.values(), default=0) >= 0
        and all(ladder.gaps.can_be(now, last) for last in numbers)
    )


def begin_streams(ladder: Ladder, now: float, message: NewView, before: Part | None) -> None:
    """Every sender begins where the new view says; of those that are gone nothing is taken in any more."""
    streams, me = ladder.streams, ladder.me
    for sender, first in message.starts.items():
        if sender != me:
            streams.begin(sender, first)
        elif before is not None:
            streams[me].next = first
    for sender in before.view.members if before is not None else ():
        if sender not in message.starts and sender in streams:
            ladder.retire(now, sender)


def installed(view: AgreedView) -> Note:
    """For the trace: this member is in `view`."""
    return Note("install", seqno=view.number, phase=" ".join(map(str, sorted(view.members))))
