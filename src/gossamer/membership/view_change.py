"""Agreed views, and one attempt of a coordinator to change one.

A view is decided like any value on which processes must agree though some of them crash, with one agreement for each
view number: the coordinator of an attempt first learns what most members of the last view have agreed to before, and
asks them to do nothing for earlier attempts any more; if there is such a view, it proposes that again, else one of its
own; what most of them agree to is decided. Any two sets of most members share one, so no two views are decided for one
number, whatever coordinators come and go.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gossamer.core.packet_sets import Horizon, PacketSets, union
from gossamer.core.ranges import RangeSet
from gossamer.core.views import FlushAnswer, MemberEntry, NewView


@dataclass(frozen=True, slots=True)
class AgreedView:
    """A view that all its members have, or will have; the oldest member comes first."""

    number: int
    entries: tuple[MemberEntry, ...]

    @property
    def members(self) -> list[int]:
        """Its members, the oldest first."""
        return [entry.member for entry in self.entries]

    def has(self, member: int, freshness: int) -> bool:
        """Whether `member` belongs to it, in this life."""
        return any(entry.member == member and entry.freshness == freshness for entry in self.entries)

    def knows(self, member: int) -> bool:
        """Whether `member` belongs to it, in whichever life."""
        return any(entry.member == member for entry in self.entries)

    def is_news(self, entry: MemberEntry) -> bool:
        """Whether `entry` is of a process that is not in it, or of a later life of one that is."""
        return all(entry.freshness > known.freshness for known in self.entries if known.member == entry.member)

    def is_most(self, some: Collection[int]) -> bool:
        """Whether these are more than half of its members, or half of them with the oldest (the primary partition)."""
        present = sum(entry.member in some for entry in self.entries)
        return 2 * present > len(self.entries) or (2 * present == len(self.entries) and self.entries[0].member in some)


class ViewChange:
    """One attempt to change `view`: who is out, what the others have, and who has agreed."""

    __slots__ = ("answers", "attempt", "began", "out", "proposal", "ready", "view")

    def __init__(self, view: AgreedView, attempt: int, out: Iterable[int], now: float) -> None:
        self.view = view
        self.attempt = attempt
        self.out = dict.fromkeys(out, 0)
        self.began = now
        self.answers: dict[int, FlushAnswer] = {}
        self.proposal: NewView | None = None
        self.ready: dict[int, None] = {}

    def lacking(self) -> list[int]:
        """The members that have to answer, or to agree, and have not."""
        done: Collection[int] = self.answers if self.proposal is None else self.ready
        return [member for member in self.view.members if member not in self.out and member not in done]

    def propose(self, joining: dict[int, tuple[MemberEntry, int]], leaving: Collection[int]) -> NewView:
        """The view to propose, once all have answered: what somebody has agreed to before, or else a new one."""
        latest = self._agreed_before()
        together = list(self.answers) if latest is not None else self._together(leaving)
        holders, cut = self._longest(together)
        if latest is not None:
            entries, cut, starts = latest.entries, latest.cut, latest.starts
        else:
            stay = [e for e in self.view.entries if e.member in together and e.member not in leaving]
            come = [entry for entry, _ in joining.values() if entry.member not in self.answers]
            entries = stay + come
            # One number is left out: whoever has not heard of the new view finds a gap that nobody can fill, and
            # delivers nothing of what was sent in it.
            starts = {entry.member: cut[entry.member] + 2 for entry in stay}
            starts |= {entry.member: joining[entry.member][1] for entry in come}
        self.proposal = NewView(self.view.number + 1, self.attempt, entries, cut, starts, holders)
        return self.proposal

    def _agreed_before(self) -> FlushAnswer | None:
        """The answer with the latest view that anybody has agreed to, if it can have been decided.

        It cannot if somebody of it has more than its cut: then that member was told of a later proposal, which was
        another only because most had not agreed to this one, and had promised that they never would. Of members that
        are not in it nothing follows: they may have had more all the time.
        """
        agreed = [answer for answer in self.answers.values() if answer.entries]
        latest = max(agreed, key=lambda answer: (answer.accepted_attempt, answer.by), default=None)
        members = [] if latest is None else [entry.member for entry in latest.entries]
        if latest is None or any(exceeds(self.answers[m].have, latest.cut) for m in members if m in self.answers):
            return None
        return latest

    def _together(self, leaving: Collection[int]) -> list[int]:
        """The members that can go on together: each can get what it lacks of what any of them has.

        If some have a packet that others lack and nobody keeps, there is a partition in the membership (003 §8), as if
        the network were cut between them. The larger side goes on, or the one with the oldest member. Members that want
        to leave do not count, unless all do: without them somebody has to go on.
        """
        together = [member for member in self.view.members if member in self.answers]
        while (packet := self._out_of_reach(together)) is not None:
            sender, lost = packet
            have = [member for member in together if self._has(member, sender) >= lost]
            lack = [member for member in together if self._has(member, sender) < lost]
            oldest = have if together[0] in have else lack
            together = max(have, lack, key=lambda side: (len(set(side).difference(leaving)), len(side), side is oldest))
        return together

    def _has(self, member: int, sender: int) -> int:
        return self.answers[member].have.get(sender, -1)

    def _out_of_reach(self, together: list[int]) -> tuple[int, int] | None:
        """A packet that some of these members have, some lack, and none keeps: what others keep goes with them."""
        kept: PacketSets = {}
        for member in together:
            kept = union(kept, self.answers[member].kept)
        for sender in self.view.members:
            ends = [self._has(member, sender) for member in together]
            gaps = kept.get(sender, RangeSet()).gaps(min(ends) + 1, max(ends)) if min(ends) < max(ends) else []
            if gaps:
                return sender, gaps[0][0]
        return None

    def _longest(self, among: list[int]) -> tuple[Horizon, Horizon]:
        """For each sender the member that has most of it in order, the sender itself if it answered, and how much."""
        holders: Horizon = {}
        cut: Horizon = {}
        for sender in self.view.members:
            who = [sender] if sender in among else among
            holders[sender] = max(who, key=lambda member: self.answers[member].have.get(sender, -1))
            cut[sender] = self.answers[holders[sender]].have.get(sender, -1)
        return holders, cut


def exceeds(have: Horizon, cut: Horizon) -> bool:
    """Whether a member that has this much has more of some sender than belongs to the view."""
    return any(last > cut.get(sender, -1) for sender, last in have.items())
