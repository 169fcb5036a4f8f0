"""What a member lacks, and whom it asks for it when (001 §4.1 and appendix I).

A packet that was lost in passing is asked for at once, of the nearest member on the priority list, and then in turn of
the coordinator and of the next on the list. But while anybody is missing from the tree, nobody but the coordinator is
asked. A coordinator asks whoever says that it has the packets, or their sender.

After a partition a whole side lacks the same. Where members ask for no more than their path carries (`core.asking`),
one of them asks for all: the one that led them, and has told the new coordinator of everybody. If each asked for
itself, most would time answers to the requests of others, and nobody would know what the path carries. The others ask
for what was lost on its way to them, and for the rest if nothing comes any more.
"""

from collections.abc import Callable

from gossamer.core.asking import Asking
from gossamer.core.effects import Unicast
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.messages import Descendants, Request
from gossamer.core.packet_sets import Horizon, PacketSets, difference, take
from gossamer.core.packets import Run
from gossamer.core.ranges import RangeSet
from gossamer.repair.coordinator_tree import CoordinatorTree
from gossamer.repair.descent import Descent

_PATIENT_TRIES = 3
"""After so many tries in vain it is not for the coordinator alone to help."""
_FEW = 32
"""A member that lacks no more of a sender than this asks for it itself: it was lost in passing, not in a partition."""
_JUST_ASKED = -1
"""In place of a number: the next tick is too soon to say that nothing has come."""


class Wants:
    """The requests of one member."""

    def __init__(
        self,
        ladder: Ladder,
        tree: CoordinatorTree,
        descent: Descent,
        retry_over: Callable[[float, bool, Effects], None],
    ) -> None:
        """`retry_over` is called after each retry period in which something is lacking, and told if nothing comes."""
        self._ladder = ladder
        self._tree = tree
        self._descent = descent
        self._retry_over = retry_over
        self._asking = Asking(ladder.settings.request_packets, window=ladder.request_window)
        self._new: PacketSets = {}  # what was found missing in this very instant
        self._new_told = False  # whether any of it was learned from the tree
        self._heads: Horizon = {}  # the first number of each sender that was wanted at the last tick
        self._tops: Horizon = {}  # while the tree is not whole, for each sender: the highest number that was filled
        self._moved: set[int] = set()  # senders of which anything was filled since the last tick
        self._tries = 0  # at how many ticks in a row nothing had come of some sender
        self._holders: dict[int, int] = {}  # by sender: a member that says it has its packets
        self._fetching: PacketSets = {}  # what a side that has come back was asked for
        self._sharing: dict[int, tuple[int, ...]] = {}  # by member that is asked: those that lack the same
        self._instant_over = ladder.timer(self._ask_new)
        self._retry = ladder.timer(self._tick)

    @property
    def wanted(self) -> PacketSets:
        """What is lacking."""
        return self._asking.wanted

    @property
    def count(self) -> int:
        """How many packets are lacking."""
        return self._asking.wanted_count

    def includes(self, numbers: PacketSets) -> bool:
        """Whether this member asks for some of these itself, little by little."""
        return not self._descent.asks_for_all and bool(self._asking.still(numbers))

    def told(self) -> PacketSets:
        """What to tell the coordinator of it."""
        return {} if self._tree.whole else take(self._asking.wanted, 0)

    # What is lacking.

    def add(self, now: float, sender: int, first: int, last: int, *, told: bool) -> None:
        """These are lacking, as a later packet has shown, or as the tree has `told`.

        What was lost in passing is asked for at once; what was told, of the coordinator, a moment later: many may lack
        the same.
        """
        self._asking.add(sender, first, last)
        self._retry.arm(now + self._ladder.settings.retry_period)
        self._heads.setdefault(sender, _JUST_ASKED)
        few = len(self._asking.wanted[sender]) <= _FEW
        if (self._is_spoken_for() and not few) or (told and self._ladder.is_logger):
            return
        self._new_told |= told
        out_of_turn = few or self._tree.whole or self._descent.asks_for_all  # else what is oldest comes first
        new = RangeSet.span(first, last) if out_of_turn else RangeSet()
        self._ask_soon(now, sender, new, at_once=not told and self._tree.whole)

    def remove(self, sender: int, first: int, last: int) -> bool:
        """These are not lacking any more, or another's business; returns whether any was lacking."""
        return self._asking.remove(sender, first, last)

    def came(self, now: float, source: int, run: Run) -> None:
        """A repair has come: how long that took says how much may be asked for at a time."""
        self._asking.came(now, source, run)

    def closed(self, now: float, sender: int, first: int, last: int) -> bool:
        """These came, or nobody waits for them any more; returns whether they were lacking."""
        if not self._asking.remove(sender, first, last):
            return False
        self._moved.add(sender)
        if self._tree.whole or self._descent.asks_for_all:
            self._tops.clear()
        else:
            self._notice_loss(now, sender, first, last)
        if self._asks_for_more():
            self._instant_over.set(now)
        return True

    def _notice_loss(self, now: float, sender: int, first: int, last: int) -> None:
        """What is filled comes in order: what is passed over was lost. All that lack it ask a moment later."""
        top = self._tops.get(sender, last)
        self._tops[sender] = max(top, last)
        known = self._asking.wanted if self._is_spoken_for() else self._asking.pending
        lost = RangeSet(known.get(sender, RangeSet()).within(top + 1, first - 1))
        if lost:
            self._asking.did_not_come({sender: lost})
            self._new_told = True
            self._ask_soon(now, sender, lost, at_once=False)

    def fetched_for_all(self) -> PacketSets:
        """What comes, because it was asked for, to all that follow this member, too."""
        return self._asking.still(self._fetching) if self._sharing else {}

    def fetch(self, now: float, sender: int, holder: int, numbers: RangeSet, others: tuple[int, ...] = ()) -> None:
        """`holder` has these: ask it to send them, to `others`, too, unless another was asked already."""
        numbers = numbers.difference(self._fetching.get(sender, RangeSet()))
        if numbers:
            if others:
                self._sharing[holder] = others
            self._holders[sender] = holder
            self._fetching.setdefault(sender, RangeSet()).update(numbers)
            self._new.setdefault(sender, RangeSet()).update(numbers)
            self._asking.unask({sender: numbers})
            self._heads[sender] = _JUST_ASKED
            self._tries = 0
            self._instant_over.set(now)

    def turn_to_coordinator(self, now: float) -> None:
        """There is another coordinator: whoever speaks for others asks it for everything, soon."""
        self._asking.unask(self._asking.wanted)
        self._sharing.clear()
        self._tries = 0
        if self._asking.wanted and self._tree.speaks_for_others and not self._descent.asks_for_all:
            self._instant_over.set(now + self._descent.gather_s)

    def forget_sender(self, sender: int) -> None:
        """Nobody asks for its packets."""
        self._holders.pop(sender, None)

    def _is_spoken_for(self) -> bool:
        """Whether another member of this side asks for what it lacks, as far as is known."""
        asks = self._tree.whole or self._tree.speaks_for_others or self._tries > 0
        return not asks and not self._descent.asks_for_all

    def _asks_for_more(self) -> bool:
        """Whether it is time to ask for more; not for a logger, to which senders repeat what it does not have."""
        own_business = bool(self._new) or not self._is_spoken_for()
        return self._asking.wants_more() and own_business and not self._ladder.is_logger

    # When to ask.

    def _ask_soon(self, now: float, sender: int, numbers: RangeSet, *, at_once: bool) -> None:
        """Ask for `numbers`, or for whatever is lacking if there are none."""
        if numbers:
            self._new.setdefault(sender, RangeSet()).update(numbers)
        wait = 0.0 if at_once or self._tree.leads else self._ladder.rng.random() * self._descent.gather_s
        self._instant_over.set(min(self._instant_over.deadline, now + wait))

    def _ask_new(self, now: float, out: Effects) -> None:
        new, told = self._new, self._new_told
        self._new, self._new_told = {}, False
        self._ask(now, new or None, self._tree.list() if self._tree.whole and not told else [], out)
        if self._is_spoken_for():  # there was no room for all: the rest when something has come
            self._new = difference(self._asking.still(new), self._asking.pending)

    def _tick(self, now: float, out: Effects) -> None:
        """Ask again of whichever senders nothing has come that comes next: what is filled comes in order."""
        before, self._heads = self._heads, {s: numbers.first for s, numbers in self._asking.wanted.items()}
        stuck = {s: self._overdue_of(s) for s, first in self._heads.items() if before.get(s, first) == first}
        self._moved.clear()
        self._retry_over(now, bool(stuck), out)
        self._asking.tick(now)
        if not self._asking.wanted:
            self._tries = 0
            self._fetching.clear()
            self._sharing.clear()
            return
        if stuck:
            self._fetching = {s: numbers for s, numbers in self._fetching.items() if s not in stuck}
            self._ask(now, stuck, self._whom_else(), out)
            self._tries += 1
        self._asking.age()
        self._retry.set(now + self._ladder.settings.retry_period)

    def _overdue_of(self, sender: int) -> RangeSet:
        """What of `sender` should have come: all of it, or what was passed over if other packets come."""
        wanted = self._asking.wanted[sender]
        if sender in self._moved and sender in self._tops:
            return RangeSet(wanted.within(0, self._tops[sender]))
        return wanted

    # Whom to ask.

    def _ask(self, now: float, among: PacketSets | None, members: list[int], out: Effects) -> None:
        """Ask for what is wanted among these: one of `members`, or the coordinator if there are none."""
        coordinator = self._tree.coordinator
        if coordinator is None:
            return
        wanted = self._ladder.gaps.worth_asking(now, self._asking.choose(among), out)
        if not wanted:
            return
        if self._tree.leads:
            for member, numbers in self._descent.whom_to_ask(wanted, self._holders, self._tries).items():
                self._request(now, member, numbers, out)
        elif members:
            self._request(now, members[(self._tries + 1) // 2 % len(members)], wanted, out)
        else:
            self._request(now, coordinator, wanted, out)

    def _request(self, now: float, member: int, wanted: PacketSets, out: Effects) -> None:
        """A coordinator is told what we lack, and so is one that has it and can multicast it to others."""
        self._asking.asked(now, member, wanted)
        if member == self._tree.coordinator or member in self._sharing:
            others: dict[int, PacketSets] = {other: {} for other in self._sharing.get(member, ())}
            out.append(Unicast(member, Descendants({}, wanted, others)))
        else:
            out.append(Unicast(member, Request(wanted)))

    def _whom_else(self) -> list[int]:
        """At every other tick: whom to ask in place of the coordinator, if anybody.

        What a coordinator does not give, perhaps because it joined later, anybody may have.
        """
        if self._tries % 2 == 0:
            return []
        if self._tries >= _PATIENT_TRIES:
            return self._ladder.roster.others()
        return self._tree.list() if self._tree.whole else []
