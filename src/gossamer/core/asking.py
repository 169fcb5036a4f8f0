"""What a member wants, what of it was asked for and may be on its way, and what to ask for next.

At most `limit` packets are on their way at a time, so that answers do not overrun the member that asked; or, with a
`window` that all rungs of the member share, as many as the path carries (`request_window`). What was asked for a whole
tick ago and has not come, or has not come for longer than answers usually take, is not on its way any more: it is asked
for again, but that takes at most half of the room while there is something that was not asked for yet. So packets that
nobody can send do not keep others from being asked for, and a few that were lost on their way do not wait for all the
others.
"""

from collections import deque
from collections.abc import Iterable
from math import inf

from gossamer.core.answer_times import AnswerTimes
from gossamer.core.answers import Answer, Answers
from gossamer.core.packet_sets import PacketSets, count, difference, intersection, remove, take, union
from gossamer.core.packets import Run
from gossamer.core.ranges import RangeSet
from gossamer.core.request_window import RequestWindow

_SHARE = 8
"""A window that adapts asks for more when this part of it has come, so that its path does not run dry meanwhile."""
_STEP = 8
"""But not for fewer packets than this: a request costs something, too."""
_RANGES = 300
"""Ranges of one sender that a request may name."""


class _Request:
    """What was asked for in one message: `wanted` is what may be on its way, as far as is known."""

    __slots__ = ("asked", "at", "lost", "target", "wanted")

    def __init__(self, at: float, target: int, wanted: PacketSets) -> None:
        self.at = at
        self.target = target
        self.wanted = {sender: some.copy() for sender, some in wanted.items()}
        self.asked = count(wanted)
        self.lost: PacketSets = {}

    def note_lost(self, numbers: PacketSets) -> None:
        """If these come after all, it is because they were asked for again."""
        lost = intersection(self.wanted, numbers)
        if lost:
            self.wanted = difference(self.wanted, lost)
            self.lost = union(self.lost, lost)


class Asking:
    """The packets that one rung wants from others.

    A limit of 0 asks for everything, every time; then what was asked for is remembered only if it is `counted`.
    """

    __slots__ = (
        "_answers",
        "_asked",
        "_asked_count",
        "_counted",
        "_in_vain",
        "_limit",
        "_marks",
        "_older",
        "_overdue",
        "_requests",
        "_times",
        "_times_out",
        "_window",
        "asked_since_tick",
        "wanted",
        "wanted_count",
    )

    def __init__(
        self,
        limit: int,
        *,
        counted: bool = False,
        times_out: bool = True,
        window: RequestWindow | None = None,
    ) -> None:
        """`times_out`: whether what was lost on its way is noticed here (`tick`, `overdue`), or we are told."""
        self.wanted: PacketSets = {}
        self.wanted_count = 0
        self.asked_since_tick = 0
        """Packets that were asked for since the last tick, as often as they were."""
        self._limit = limit
        self._times_out = times_out
        self._window = window
        if self._window is not None:
            self._window.shared_by(self)
        self._times = AnswerTimes()
        self._answers = Answers()
        self._marks: dict[tuple[int, int], tuple[float, int, bool]] = {}  # the first packet of each, and the last
        self._requests: deque[_Request] = deque()  # those whose answers may be on their way
        self._overdue: PacketSets = {}  # were not waited for any longer, and may still come
        self._counted = counted or limit > 0
        self._asked: PacketSets = {}  # of those wanted: may be on their way
        self._asked_count = 0
        self._older: PacketSets = {}  # of those asked: since before the last tick
        self._in_vain: PacketSets = {}  # were asked for and did not come

    @property
    def pending(self) -> PacketSets:
        """The packets that were asked for and may be on their way."""
        return self._asked

    @property
    def on_their_way(self) -> int:
        """How many packets were asked for and have neither come nor been given up."""
        return self._asked_count

    @property
    def limit(self) -> int:
        """How many packets may be on their way now; 0 means no limit."""
        return self._limit if self._window is None else self._window.part_of(self)

    def add(self, sender: int, first: int, last: int) -> None:
        """These are wanted from now on."""
        numbers = self.wanted.get(sender)
        if numbers is None:
            self.wanted[sender] = RangeSet.span(first, last)
        elif first > numbers.lasts[-1]:
            numbers.add(first, last)
        else:  # some of it may be wanted already
            self.wanted_count -= len(numbers)
            numbers.add(first, last)
            self.wanted_count += len(numbers) - (last - first + 1)
        self.wanted_count += last - first + 1

    def remove(self, sender: int, first: int, last: int) -> bool:
        """These are not wanted any more, as far as they were; returns whether any was."""
        there = remove(self.wanted, sender, first, last)
        if not there:
            return False
        self.wanted_count -= there
        if self._counted:
            self._asked_count -= remove(self._asked, sender, first, last)
            if self._in_vain:
                remove(self._in_vain, sender, first, last)
            if self._overdue:
                remove(self._overdue, sender, first, last)
            if first == last:  # most repairs
                self._marks.pop((sender, first), None)
            elif self._marks:
                for mark in [m for m in self._marks if m[0] == sender and first <= m[1] <= last]:
                    del self._marks[mark]
        assert self.wanted_count >= 0 <= self._asked_count
        return True

    def clear(self) -> None:
        """Nothing is wanted any more."""
        self.wanted, self._asked, self._older, self._in_vain, self._overdue = {}, {}, {}, {}, {}
        self._marks = {}
        self.wanted_count = self._asked_count = 0
        self._requests.clear()

    def still(self, numbers: PacketSets) -> PacketSets:
        """Of these, what is still wanted."""
        return intersection(numbers, self.wanted)

    def wants_more(self) -> bool:
        """Whether so much of what was on its way has come that it is time to ask for more, and there is more."""
        if self._asked_count >= self.wanted_count:  # usually: everything is on its way
            return False
        limit = self.limit
        if self._window is None:
            return bool(limit) and self._asked_count < limit // 2 + 1
        return self._asked_count <= limit - max(1, min(max(_STEP, limit // _SHARE), limit // 2))

    def wants_new(self) -> bool:
        """Whether it is time to ask for more, and there is something that was not asked for in vain just now."""
        return self.wants_more() and bool(difference(difference(self._front(self.wanted), self._asked), self._in_vain))

    def has_room(self) -> bool:
        """Whether anything may be asked for now."""
        return not self._limit or self._asked_count < self.limit

    def choose(self, among: PacketSets | None = None) -> PacketSets:
        """What to ask for now, of `among` or of everything: nothing that may be on its way, within the limit."""
        wanted = self.wanted if among is None else self.still(among)
        if not self._limit:
            return take(wanted, 0)
        room = self.limit - self._asked_count
        if self._window is not None:
            self._take_turns(room)
        if room <= 0:
            return {}
        possible = difference(self._front(wanted), self._asked)
        fresh = difference(possible, self._in_vain)
        if not fresh:
            self._in_vain = {}
            return take(possible, room)
        again = take(intersection(possible, self._in_vain), max(1, room // 2)) if self._in_vain else {}
        left = room - count(again)
        return union(again, take(fresh, left)) if left else again

    def _take_turns(self, room: int) -> None:
        """What nobody can send of one sender does not keep others waiting."""
        assert self._window is not None
        if self.wanted_count - self._asked_count > room:
            self._window.needed()
            if len(self.wanted) > 1:
                sender = next(iter(self.wanted))
                self.wanted[sender] = self.wanted.pop(sender)

    def _front(self, wanted: PacketSets) -> PacketSets:
        """As much of it as can matter to a request: a member that has lost a lot may want thousands of ranges."""
        front: PacketSets = {}
        for sender, numbers in wanted.items():
            taken = (self._asked.get(sender), self._in_vain.get(sender))
            front[sender] = numbers.front(_RANGES + sum(some.range_count() for some in taken if some is not None))
        return front

    def asked(self, now: float, target: int, numbers: PacketSets) -> None:
        """`target` was asked for these just now, as far as they are still wanted."""
        if self._counted:
            new = difference(self.still(numbers), self._asked)
            if self._window is not None:
                self._note_request(now, target, numbers, new)
            for sender, some in new.items():
                if sender in self._asked:
                    self._asked[sender].update(some)
                else:
                    self._asked[sender] = some.copy()
            self._asked_count += count(new)
            self.asked_since_tick += count(numbers)
            assert self._asked_count <= self.wanted_count

    def _note_request(self, now: float, target: int, numbers: PacketSets, new: PacketSets) -> None:
        """The last packet of a request is timed; one that was asked for before is not, as in Karn's rule."""
        assert self._window is not None
        again = intersection(numbers, self._asked)
        if again:
            self._note_lost(again)
        fresh = difference(new, self._overdue)
        if fresh:
            first, last = next(iter(fresh)), next(reversed(fresh))
            self._marks[first, fresh[first].first] = now, target, False
            self._marks[last, fresh[last].last] = now, target, True
        if new and self._times_out:
            self._judge_the_oldest(now)
            self._requests.append(_Request(now, target, new))

    def _judge_the_oldest(self, now: float) -> None:
        """What was lost is asked for again, and comes: so a request is judged before that, as soon as it is over."""
        assert self._window is not None
        while self._requests and not intersection(self._requests[0].wanted, self._asked):
            request = self._requests.popleft()
            self._over(now, request.target, request.at, request.asked, request.lost)

    def unask(self, numbers: PacketSets) -> None:
        """These are not on their way: whoever was asked for them does not have them."""
        if self._counted:
            self._asked = difference(self._asked, numbers)
            self._asked_count = count(self._asked)

    def did_not_come(self, numbers: PacketSets) -> None:
        """What was asked for of these was lost on its way: it may be asked for again."""
        if self._counted:
            late = intersection(numbers, self._asked)
            for sender, some in late.items() if self._limit else ():
                self._in_vain.setdefault(sender, RangeSet()).update(some)
            self._asked = difference(self._asked, late)
            self._asked_count -= count(late)
            if self._window is not None and late:
                self._note_lost(late)

    def _note_lost(self, numbers: PacketSets) -> None:
        """If one of these comes after all, nobody knows which request it answers."""
        assert self._window is not None
        self._times.missed(count(numbers), self.limit)
        self._window.missed(count(numbers))
        for request in self._requests:
            request.note_lost(numbers)
        for sender, some in numbers.items():
            self._overdue.setdefault(sender, RangeSet()).update(some)
        marks = self._marks.items()
        self._marks = {(s, n): mark for (s, n), mark in marks if s not in numbers or n not in numbers[s]}

    def came(self, now: float, source: int, run: Run) -> None:
        """A repair has come from `source`: called before these packets are removed."""
        numbers = self.wanted.get(run[0].sender) if self._window is not None else None
        if self._window is None or numbers is None:
            return
        self._answers.came(source, run)
        self._window.came(sum(last - first + 1 for first, last in numbers.within(run[0].seqno, run[-1].seqno)))
        for packet in run if self._marks else ():
            at, target, is_last = self._marks.pop((packet.sender, packet.seqno), (0.0, -1, False))
            if target == source:
                self._answered_so_far(now, source, at, is_last)

    def _answered_so_far(self, now: float, source: int, asked_at: float, is_last: bool) -> None:
        """The first packet of what `source` was asked for then is here, or the last one."""
        assert self._window is not None
        if is_last:
            self._times.measured(now - asked_at)
            self._window.measured(now, source, now - asked_at)
        self._judge(now, self._answers.reached(source, asked_at, is_last))

    def came_again(self, source: int, run: Run) -> None:
        """What `source` has sent was here by then."""
        self._answers.came(source, run)

    def declined(self, now: float, source: int, numbers: PacketSets) -> None:
        """`source` says that it cannot send these: that is an answer, too, and they are not on their way any more."""
        if self._window is None:
            return
        gone = intersection(numbers, self._asked)
        self._window.came(count(gone))
        marks = [(s, n) for s, n in self._marks if s in gone and n in gone[s]]
        for at, target, is_last in map(self._marks.pop, marks):
            if target == source:
                self._answered_so_far(now, source, at, is_last)
        for sender, some in gone.items():
            self._in_vain.setdefault(sender, RangeSet()).update(some)
            self._overdue.setdefault(sender, RangeSet()).update(some)
        self._asked = difference(self._asked, gone)
        self._asked_count -= count(gone)

    def answered(self, now: float, target: int, asked_at: float, wanted: PacketSets, missing: PacketSets) -> None:
        """The request for `wanted` is over; these of them have not come."""
        if self._window is not None:
            self._over(now, target, asked_at, count(wanted), missing)

    def _over(self, now: float, target: int, asked_at: float, asked: int, missing: PacketSets) -> None:
        self._judge(now, self._answers.over(target, asked_at, asked, missing))

    def _judge(self, now: float, answers: Iterable[Answer]) -> None:
        assert self._window is not None
        for answer in answers:
            self._window.answered(now, answer.asked_at, answer.asked, answer.missing_count)

    def timeout(self) -> float:
        """How long an answer of many packets may take; 0 if nothing is known of that."""
        return 0.0 if self._window is None else self._times.timeout()

    def overdue(self, now: float) -> float:
        """Do not wait for what should have come by now; returns when to look again."""
        if self._window is None:
            return inf
        timeout = self._times.timeout()
        while self._requests and self._requests[0].at + timeout <= now:
            request = self._requests.popleft()
            missing = union(self.still(request.wanted), request.lost)
            self._over(now, request.target, request.at, request.asked, missing)
            self.did_not_come(request.wanted)
        return self._requests[0].at + timeout if self._requests else inf

    def tick(self, now: float) -> None:
        """Time has passed: what was asked for before the last tick will not come; or what is overdue, if we know."""
        self.asked_since_tick = 0
        if self._window is not None:
            self.overdue(now)
        elif self._counted:
            self.did_not_come(self._older if self._limit else self._asked.copy())

    def age(self) -> None:
        """What is asked for by now will be old at the next tick."""
        if self._limit and self._window is None:
            self._older = {sender: numbers.copy() for sender, numbers in self._asked.items()}
