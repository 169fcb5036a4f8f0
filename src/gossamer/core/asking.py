"""What a member wants, what of it was asked for and may be on its way, and what to ask for next.

At most `limit` packets are on their way at a time, so that answers do not overrun the member that asked. What was asked
for a whole tick ago and has not come is not on its way any more: it is asked for again, but that takes at most half of
the room while there is something that was not asked for yet. So packets that nobody can send do not keep others from
being asked for, and a few that were lost on their way do not wait for all the others.
"""

from gossamer.core.packet_sets import PacketSets, count, difference, intersection, remove, take, union
from gossamer.core.ranges import RangeSet


class Asking:
    """The packets that one rung wants from others.

    A limit of 0 asks for everything, every time; then what was asked for is remembered only if it is `counted`.
    """

    __slots__ = (
        "_asked",
        "_asked_count",
        "_counted",
        "_in_vain",
        "_limit",
        "_older",
        "asked_since_tick",
        "wanted",
        "wanted_count",
    )

    def __init__(self, limit: int, *, counted: bool = False) -> None:
        self.wanted: PacketSets = {}
        self.wanted_count = 0
        self.asked_since_tick = 0
        """Packets that were asked for since the last tick, as often as they were."""
        self._limit = limit
        self._counted = counted or limit > 0
        self._asked: PacketSets = {}  # of those wanted: may be on their way
        self._asked_count = 0
        self._older: PacketSets = {}  # of those asked: since before the last tick
        self._in_vain: PacketSets = {}  # were asked for and did not come

    @property
    def on_their_way(self) -> int:
        """How many packets were asked for and have neither come nor been given up."""
        return self._asked_count

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
        assert self.wanted_count >= 0 <= self._asked_count
        return True

    def clear(self) -> None:
        """Nothing is wanted any more."""
        self.wanted, self._asked, self._older, self._in_vain = {}, {}, {}, {}
        self.wanted_count = self._asked_count = 0

    def still(self, numbers: PacketSets) -> PacketSets:
        """Of these, what is still wanted."""
        return intersection(numbers, self.wanted)

    def wants_more(self) -> bool:
        """Whether half of what may be on its way has come, and there is more to ask for."""
        return bool(self._limit) and self._asked_count < min(self._limit // 2 + 1, self.wanted_count)

    def has_room(self) -> bool:
        """Whether anything may be asked for now."""
        return not self._limit or self._asked_count < self._limit

    def choose(self, among: PacketSets | None = None) -> PacketSets:
        """What to ask for now, of `among` or of everything: nothing that may be on its way, within the limit."""
        wanted = self.wanted if among is None else self.still(among)
        if not self._limit:
            return take(wanted, 0)
        room = self._limit - self._asked_count
        if room <= 0:
            return {}
        possible = difference(wanted, self._asked)
        fresh = difference(possible, self._in_vain)
        if not fresh:
            self._in_vain = {}
            return take(possible, room)
        again = take(intersection(possible, self._in_vain), max(1, room // 2)) if self._in_vain else {}
        return union(again, take(fresh, room - count(again))) if again else take(fresh, room)

    def asked(self, numbers: PacketSets) -> None:
        """These were asked for just now, as far as they are still wanted."""
        if self._counted:
            new = difference(self.still(numbers), self._asked)
            for sender, some in new.items():
                if sender in self._asked:
                    self._asked[sender].update(some)
                else:
                    self._asked[sender] = some.copy()
            self._asked_count += count(new)
            self.asked_since_tick += count(numbers)
            assert self._asked_count <= self.wanted_count

    def unask(self, numbers: PacketSets) -> None:
        """These are not on their way: whoever was asked for them does not have them."""
        if self._counted:
            self._asked = difference(self._asked, numbers)
            self._asked_count = count(self._asked)

    def tick(self) -> None:
        """Time has passed: what was asked for before the last tick will not come."""
        if self._counted:
            for sender, numbers in intersection(self._asked, self._older).items():
                self._in_vain.setdefault(sender, RangeSet()).update(numbers)
            self._asked = difference(self._asked, self._older) if self._limit else {}
            self._asked_count = count(self._asked)
            self.asked_since_tick = 0

    def age(self) -> None:
        """What is asked for by now will be old at the next tick."""
        if self._limit:
            self._older = {sender: numbers.copy() for sender, numbers in self._asked.items()}
