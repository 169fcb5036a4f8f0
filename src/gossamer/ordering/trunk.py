"""The trunk of an order and its branches: how their places are handed over, as one order, to the application.

What has its turn is what is settled or, with non-atomic failures, all that is known (002 §5.2.1): what is handed over
before it is settled is kept until then, and undone if another primary gives these places to others.
"""

from gossamer.core.effects import Unicast
from gossamer.core.ids import channel_of
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.parts import Order
from gossamer.core.places import BranchEnded, Mark, Segment, Sites
from gossamer.ordering.branching import Branching
from gossamer.ordering.place_log import PLACES_MAX
from gossamer.ordering.sequence import Sequence
from gossamer.ordering.turns import PASSED, Turns

_HISTORY = 100_000
"""Segments of settled places that are kept, for members that were away."""
_FINISHED_MAX = 8
"""Branches that are over and are kept for members that were away."""


class Trunk(Order):
    """The sequences that a member follows, and which of them it is at."""

    branches_out = True
    """Whether channels may have branches."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self.turns = Turns(ladder)
        self._answers_due = ladder.timer(self._look_for_answers)
        self.sequence = Sequence(ladder, self)
        self.branches: dict[int, Sequence] = {}
        """Those that this member is in, or was."""
        self._at = 0  # the branch that we follow now; 0 for the trunk
        self._noticed = 0  # the first place of the trunk of which we have not seen that it is settled
        self._branching = Branching()
        self._releasing = self._more = False
        self._is_new = True  # it has to found an order, or to enter one
        self._founds = False  # which of the two
        self._beat_at = 0.0
        self._settled_at_beat = 0

    def look_for_answers(self, at: float) -> None:
        """At this time a primary has to look whether those that it asked have answered."""
        if at < self._answers_due.deadline:
            self._answers_due.set(at)

    def _look_for_answers(self, now: float, out: Effects) -> None:
        for sequence in self._sequences():
            sequence.look_for_answers(now, out)

    def _sequences(self) -> list[Sequence]:
        return [self.sequence, *self.branches.values()]

    def knows_more(self, now: float, out: Effects) -> None:
        """With non-atomic failures, more may be handed over."""
        if not self.sequence.is_atomic:
            self._hand_over(now, out)

    def undo_from(self, place: int, out: Effects) -> None:
        """What was handed over from this place on is undone, and has its turn again where it is placed now."""
        if (first := self.turns.undo_from(place, out)) >= 0:
            followed = self.branches.get(self._at, self.sequence)
            followed.turn = min(first, followed.turn)

    def settled_more(self, now: float, out: Effects) -> None:
        """More of a sequence is settled: there may be a branch to begin or to end, and packets to hand over."""
        self._notice(now, out)
        if self.branches or self._beat_at == now:
            self._tend_branches(now, out)
        self._hand_over(now, out)

    def _hand_over(self, now: float, out: Effects) -> None:
        """Hand over everything whose turn has come. What turns out to be missing may be given up at once, so again."""
        if self._releasing or self.sequence.log is None:
            self._more = True
            return
        self._releasing = True
        try:
            self._more = True
            while self._more:
                self._more = False
                self._notice(now, out)
                followed = self._followed()
                self._walk(now, followed, followed.may_hand_over(), out)
        finally:
            self._releasing = False
        if self.turns.keeps:
            self.turns.settle(self._followed().settled)

    def _forget_history(self) -> None:
        """Only so many settled places are kept, for members that were away."""
        for sequence in self._sequences():
            if sequence.log is not None:
                sequence.log.drop(_HISTORY, sequence.turn)

    def _followed(self) -> Sequence:
        """The sequence that has its turn."""
        return self.branches.get(self._at, self.sequence) if self._at else self.sequence

    def _walk(self, now: float, sequence: Sequence, below: int, out: Effects) -> None:
        """Hand over places of a sequence, as far as they are here and we still follow it."""
        log, followed = sequence.log, self._at
        if log is None:
            return
        below = min(below, log.end)
        while sequence.turn < below:
            place, segment = log.around(sequence.turn)
            end = min(place + segment.count, below)
            if segment.has_packets:
                number = segment.first + sequence.turn - place
                last = segment.first + end - place - 1
                under = sequence.under - 1 if sequence.branch else -1
                self.turns.settled = sequence.settled
                handed = self.turns.hand_over(now, segment.sender, number, last, sequence.turn, out, under)
                sequence.turn += handed - number
            elif segment.mark is None or self._pass(now, sequence, place, segment.mark, out):
                sequence.turn = end
            if sequence.turn < end or self._at != followed:
                break

    # Branches.

    def _pass(self, now: float, sequence: Sequence, place: int, mark: Mark, out: Effects) -> bool:
        """It is the turn of a mark; returns whether we can go on after it."""
        if mark.kind == "open" and place in self.branches:
            self._follow(place)
        elif mark.kind == "back":
            for sender, last in mark.table.items():
                self._pass_over(now, sender, last, out)
        elif mark.kind in ("trunk", "end") and sequence.branch:
            self._walk(now, self.sequence, min(mark.number, self.sequence.settled), out)
            if self.sequence.turn < mark.number:
                return False
            sequence.under = mark.number
            if mark.kind == "end":
                self._follow(0)
        return True

    def _follow(self, branch: int) -> None:
        """What was handed over in another sequence is settled."""
        self.turns.settle(PLACES_MAX)
        self._at, self._more = branch, True

    def _pass_over(self, now: float, sender: int, last: int, out: Effects) -> None:
        """These had their turn in a branch. If we were not in it, we lose what we are owed of them."""
        stream = self.ladder.streams.get(sender)
        if self.turns.passed.get(sender, -1) < last and stream is not None and not stream.is_own:
            self.ladder.gaps.learn(now, sender, last, out)
            for part in stream.missing.within(0, last):
                self.ladder.gaps.give_up(now, sender, *part, PASSED, out)
        self.turns.pass_over(sender, last, PASSED, out)

    def admits(self, channel: int) -> bool:
        """Not while it is in a branch that we are not in, or others may have had packets of it in another place.

        Nor while we are behind: others may have had what has its turn here, and keep it no more.
        """
        trunk = self.sequence
        if trunk.log is None or trunk.turn < self._settled_at_beat:
            return False
        marks = {**trunk.log.marks.before(trunk.turn).branches, **trunk.log.marks.branches}
        return not any(m.channels >> channel & 1 and branch not in self.branches for branch, m in marks.items())

    def begins_anew(self) -> None:
        """What we are told of a trunk from here on may not have the branch that we follow."""
        log = self.sequence.log
        if log is not None:
            self._noticed = max(log.begin, self._noticed) if self._noticed <= log.end else log.begin
            self._at = self._at if self._at in log.marks.branches else 0
            mine = [b for b, mark in log.marks.branches.items() if mark.table.get(self.ladder.me) == self.sequence.life]
            self._is_new |= any(branch not in self.branches for branch in mine)  # we missed how it began

    def _notice(self, now: float, out: Effects) -> None:
        """Take part in branches that were opened with us."""
        trunk = self.sequence
        if trunk.log is None or self._noticed >= trunk.settled:
            return
        for place, mark in trunk.log.marks.between(self._noticed, trunk.settled):
            opened = mark.kind == "open" and place not in self.branches
            if opened and mark.table.get(self.ladder.me) == trunk.life:
                self._begin_branch(now, place, mark, out)
        self._noticed = max(self._noticed, trunk.settled)

    def _begin_branch(self, now: float, place: int, mark: Mark, out: Effects) -> None:
        trunk = self.sequence
        assert trunk.log is not None
        for old in [b for b, s in self.branches.items() if self._is_over(s)][:-_FINISHED_MAX]:
            del self.branches[old]
        branch = self.branches[place] = Sequence(self.ladder, self, place, mark)
        branch.life = trunk.life
        below = trunk.log.placed_below(place)
        placed = {s: last for s, last in below.items() if mark.channels >> channel_of(s) & 1}
        branch.found(now, trunk.order, Sites(mark.number, mark.table), out, placed)

    def _is_over(self, sequence: Sequence) -> bool:
        """Whether it is a branch that we have followed to its end, and whose channels are back."""
        trunk, log = self.sequence.log, sequence.log
        return bool(sequence.branch) and (
            trunk is None
            or (
                sequence.branch not in trunk.marks.branches and log is not None and -1 < log.marks.ended < sequence.turn
            )
        )

    def _leave_behind(self, now: float, out: Effects) -> None:
        """A branch that is over and that nobody can tell us any more: what we lack of it is lost where it went back."""
        trunk, branch = self.sequence, self.branches.get(self._at)
        if branch is None or trunk.log is None or now - branch.blocked_since < 2 * trunk.patience:
            return
        if self._at not in trunk.log.marks.before(trunk.settled).branches:
            self.undo_from(0, out)
            del self.branches[self._at]
            self._at = 0
            self._hand_over(now, out)

    def _tend_branches(self, now: float, out: Effects) -> None:
        """Whoever leads a branch enters the trunk in it; whoever leads the trunk opens and closes branches."""
        trunk = self.sequence
        if trunk.log is None:
            return
        for branch in list(self.branches.values()):
            if branch.log is not None and branch.log.marks.ended < 0:
                self._lead(now, branch, out)
            elif branch.log is not None and branch.settled > branch.log.marks.ended:
                self._report_end(now, branch, out)
        if self._beat_at == now and self.branches_out and trunk.leads() and len(trunk.log.sites(trunk.settled)) == 1:
            patience = 2 * trunk.patience
            lives, marks = trunk.sites().lives, trunk.log.marks
            for mark in self._branching.wanted(now, patience, self.ladder.roster, lives, marks):
                trunk.mark(now, mark, out)

    def _lead(self, now: float, branch: Sequence, out: Effects) -> None:
        trunk, log = self.sequence.log, branch.log
        assert trunk is not None
        assert log is not None
        settled = self.sequence.settled
        if not branch.leads():
            return
        unseen = trunk.between(max(log.marks.trunk, branch.seen), settled)
        branch.seen = settled
        if branch.branch in trunk.marks.closing and branch.branch in trunk.marks.before(settled).closing:
            branch.mark(now, Mark("end", settled), out)
        elif any(self._concerns(branch, segment) for _, segment in unseen):
            branch.mark(now, Mark("trunk", settled), out)

    def _concerns(self, branch: Sequence, segment: Segment) -> bool:
        """Whether somebody in the branch may have to hand this over."""
        if not segment.has_packets:
            return segment.mark is not None
        channel, roster = channel_of(segment.sender), self.ladder.roster
        return not channel or any(roster.hears(member, channel) for member in branch.opened.table)

    def _report_end(self, now: float, branch: Sequence, out: Effects) -> None:
        """The primary says it at once, the others at their beats, until the channels are back."""
        trunk = self.sequence
        assert trunk.log is not None
        assert branch.log is not None
        if branch.branch not in trunk.log.marks.branches or not (branch.leads() or self._beat_at == now):
            return
        told = BranchEnded(trunk.order, branch.branch, branch.log.placed_below(branch.log.marks.ended))
        if trunk.leads():
            self._told_ended(now, self.ladder.me, told, out)
        elif trunk.primary >= 0:
            out.append(Unicast(trunk.primary, told))

    def _told_ended(self, now: float, source: int, message: BranchEnded, out: Effects) -> None:
        """Its channels are back in the trunk."""
        trunk = self.sequence
        if not trunk.leads() or trunk.log is None or message.order != trunk.order:
            return
        marks = trunk.log.marks
        opened = marks.branches.get(message.branch)
        if opened is None or message.branch not in marks.closing or source not in opened.table:
            self.ladder.ignored["the end of a branch that has not to end"] += 1
            return
        trunk.mark(now, Mark("back", message.branch, opened.channels, message.placed), out)
        trunk.place(now, [*self.ladder.streams, *trunk.told], out)
