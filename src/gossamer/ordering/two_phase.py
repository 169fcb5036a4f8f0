"""One order by two phases (002 §2; Birman & Joseph): receivers propose priorities, the sender decides the highest.

A member that has a packet, and all of its stream before it, gives it a *priority* above all that it has given or heard
of, and tells the sender. When all destinations have, the sender decides the highest and tells them. Members deliver in
the order of decided priorities, and of senders where these are equal; a packet that is not decided yet holds back
everything above its proposal, since what is decided is never lower. Nobody orders for others, and members that hear
other channels are not asked: so the order holds over several channels.

The sender waits for all destinations, so one that fails stops every sender of its channels until it is back, and a
sender that fails stops all that hold an undecided packet of it (002 §5.2.3). Members that left the view are not waited
for. If it is the sender that left, or lost its memory, members ask each other what it decided, and after
`order_patience` give the packet up as lost: others may have delivered it, but nobody delivers in another order.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from math import inf
from typing import Any

from gossamer.core.declares import AGREED_VIEWS, HOLDING_BACK, JOINING, Declares
from gossamer.core.effects import Multicast, Note, ReportBlocked, Unicast
from gossamer.core.ids import FIRST_PASS, Phase, channel_of, owner_of
from gossamer.core.ladder import UNLIMITED, Effects, Ladder, MessageHandler
from gossamer.core.packet_sets import Horizon
from gossamer.core.packets import Run
from gossamer.core.parts import Order
from gossamer.core.places import EnterOrder, Unplaced
from gossamer.core.priorities import Decided, HighestPriority, Proposed
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings
from gossamer.core.streams import Stream
from gossamer.ordering.turns import PASSED, Turns

_BEATS = 10
"""What is not decided is asked for this often in `order_patience`."""
_REMEMBERED = 100_000
"""Decisions that are kept for members that ask."""
_UNDECIDED_MAX = 10_000
"""Packets of one sender that may be undecided; then it accepts no more."""
_LEFT = "its sender left before its place was decided"
_STREAM_BITS = 64

Key = tuple[int, int]
"""A stream and a number."""


class Undecided:
    """A packet of this member: whom it waits for, and the highest priority that was proposed."""

    __slots__ = ("awaited", "priority")

    def __init__(self, awaited: list[int]) -> None:
        self.awaited = dict.fromkeys(awaited)
        self.priority = 0


class TwoPhase(Order):
    """This member's part in the order: as a sender it decides, as a destination it proposes."""

    in_stream_order = False
    holds_back = True

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self.turns = Turns(ladder)
        self._highest = 0
        self._unknown: dict[int, None] | None = None  # whom we have to ask for the highest priority before we propose
        self._proposed: dict[Key, int] = {}  # what waits here for a decision, with our priority
        self._proposed_to: Horizon = {}  # by stream: the last number that we gave a priority
        self._queue: list[tuple[int, int, int]] = []  # priority, stream, number; some are out of date
        self._own: dict[int, dict[int, Undecided]] = {}  # by own stream and number
        self._lasts: Horizon = {}  # by own stream: the last priority that was decided
        self._decided: dict[Key, int] = {}  # the latest decisions, of all senders
        self._forgotten: dict[Key, float] = {}  # what its sender cannot decide any more, and since when
        self._given_up: dict[Key, int] = {}  # what is lost here when it is its turn, at the end of what is known now
        self._late: dict[Key, int] = {}  # what was undecided at the last beat
        self._turn = 0, -1  # the priority and stream of what was delivered last
        self._stuck_at = 0.0
        self._stuck_on: tuple[int, ...] = ()
        self._blocked_since = inf
        self._blocked_s = 0.0
        self._period = ladder.settings.order_patience / _BEATS
        self._beating = ladder.timer(self._beat)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """One order. A sender has to know for whom it waits: an oracle says who belongs to the group."""
        return Declares(promises=("agreement", "fifo"), provides=(HOLDING_BACK,), excludes=(AGREED_VIEWS, JOINING))

    def messages(self) -> Mapping[type, MessageHandler]:
        """The two phases, and what is asked when they take long."""
        return {
            Proposed: self._told_proposed,
            Decided: self._told_decided,
            Unplaced: self._asked_to_propose,
            EnterOrder: self._asked_highest,
            HighestPriority: self._told_highest,
        }

    # What others may want to know.

    def blocked(self) -> str:
        """Why nothing can be delivered now; empty if nothing is in the way."""
        if self._blocked_since == inf:
            return ""
        return "a packet has been undecided for long: its sender, or a member that it waits for, is not in reach"

    def standing(self, now: float) -> dict[str, Any]:
        """What this member knows of the order: there is no graph."""
        blocked_s = self._blocked_s + (now - self._blocked_since if self._blocked_since < inf else 0.0)
        known = {"graph": 0, "primary": -1, "sites": list(self.ladder.roster.members), "depth": 1}
        progress = {"places": self._highest, "delivered": self._turn[0]}
        return {**known, **progress, "blocked": self.blocked(), "blocked_seconds": blocked_s}

    def full(self) -> str:
        """Nothing is published while the order cannot go on: it would wait without bound."""
        if self._blocked_since < inf:
            return f"the order is blocked: {self.blocked()}"
        many = max(map(len, self._own.values()), default=0) >= _UNDECIDED_MAX
        return f"{_UNDECIDED_MAX} packets wait for a decision" if many else ""

    # The beginning.

    def started(self, now: float, out: Effects) -> None:
        """A member that was not there from the first moment asks for the highest priority before it gives any."""
        roster = self.ladder.roster
        if now > 0.0 or self.ladder.me not in roster or self.ladder.restored.recovers:
            self._unknown = dict.fromkeys(roster.others())
            self._ask_highest(now, out)
        self._beating.arm(now + self._period)

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """Members that left are not waited for."""
        gone = [member for member in before.members if member not in self.ladder.roster]
        for stream, undecided in self._own.items():
            for packet in undecided.values():
                for member in gone:
                    packet.awaited.pop(member, None)
            self._decide(now, stream, out)
        for member in gone:
            self._is_known(now, member, 0, out)
        for stream, _ in [key for key in self._proposed if not self.ladder.streams.hears(key[0])]:
            self.turns.forget(stream, 0)
        self._proposed = {key: p for key, p in self._proposed.items() if self.ladder.streams.hears(key[0])}
        self._release(now, out)

    def _ask_highest(self, now: float, out: Effects) -> None:
        if not self._unknown:
            self._begin(now, out)
            return
        self._tell(list(self._unknown), EnterOrder(0, True, {}), out)

    def _asked_highest(self, now: float, source: int, message: EnterOrder, out: Effects) -> None:
        out.append(Unicast(source, HighestPriority(self._highest)))

    def _told_highest(self, now: float, source: int, message: HighestPriority, out: Effects) -> None:
        self._is_known(now, source, message.priority, out)

    def _is_known(self, now: float, member: int, highest: int, out: Effects) -> None:
        if self._unknown is not None:
            self._highest = max(self._highest, highest)
            self._unknown.pop(member, None)
            if not self._unknown:
                self._begin(now, out)

    def _begin(self, now: float, out: Effects) -> None:
        self._unknown = None
        for stream in list(self.ladder.streams):
            self._propose(now, stream, out)

    # Packets.

    def published(self, now: float, run: Run, out: Effects) -> None:
        """It needs a decision: from whom we hear what is asked for is known now."""
        stream = run[0].sender
        awaited = list(self.ladder.roster.listeners(channel_of(stream)))
        if not self.ladder.streams.hears(stream) and self.ladder.me in awaited:
            awaited.remove(self.ladder.me)
        undecided = self._own.setdefault(stream, {})
        for packet in run:
            undecided[packet.seqno] = Undecided(awaited)
        if self.ladder.streams.hears(stream):
            self.arrived(now, [run], FIRST_PASS, self.ladder.own[stream], out)
        self._decide(now, stream, out)

    def arrived(self, now: float, parts: list[Run], phase: Phase, stream: Stream, out: Effects) -> None:
        """They wait for their turn, and get our priorities."""
        for run in parts:
            self.turns.wait(run, phase, out)
        self._propose(now, parts[0][0].sender, out)

    def given_up(self, now: float, sender: int, first: int, last: int, why: str, stream: Stream, out: Effects) -> None:
        """A loss has its place in the order."""
        self.turns.lose(sender, first, last, why, out)
        self._propose(now, sender, out)

    def rewound(self, sender: int, first: int) -> None:
        """What is held of it comes again."""
        self.turns.forget(sender, first)

    def taken_back(self, sender: int, first: int, last: int) -> None:
        """They are awaited again."""
        self.turns.await_again(sender, first, last)

    # The first phase.

    def _propose(self, now: float, stream: int, out: Effects) -> None:
        """Give priorities to what is here of a stream, without gaps: so its packets keep their order."""
        if self._unknown is not None:
            return
        first = max(self._proposed_to.get(stream, -1) + 1, self._below(stream))
        last = self.ladder.streams.prefix_of(stream)
        if first > last:
            return
        self._proposed_to[stream] = last
        new: Horizon = {}
        for number in range(first, last + 1):
            if (stream, number) in self._decided:  # its sender did not wait for us
                self._enqueue(self._decided[stream, number], stream, number)
            else:
                self._highest += 1
                new[number] = self._proposed[stream, number] = self._highest
                self._enqueue(self._highest, stream, number)
        if new:
            self._tell_proposed(now, stream, new, out)
        self._release(now, out)

    def _enqueue(self, priority: int, stream: int, number: int) -> None:
        heappush(self._queue, (priority, stream, number))

    def _below(self, stream: int) -> int:
        """This member is owed nothing of the stream below this number, or is done with it."""
        if not self.ladder.streams.hears(stream):
            return UNLIMITED
        known = self.ladder.streams.get(stream)
        return max(self.turns.passed.get(stream, -1) + 1, 0 if known is None else known.start)

    def _tell_proposed(self, now: float, stream: int, priorities: Horizon, out: Effects) -> None:
        message = Proposed(stream, self._below(stream), priorities)
        if owner_of(stream) == self.ladder.me:
            self._told_proposed(now, self.ladder.me, message, out)
        else:
            out.append(Unicast(owner_of(stream), message))

    def _asked_to_propose(self, now: float, source: int, message: Unplaced, out: Effects) -> None:
        """A sender waits for our priorities: what is not here has to come, or to be given up."""
        for stream, last in message.lasts.items():
            if self._below(stream) <= last:
                self.ladder.gaps.learn(now, stream, last, out)
                self._propose(now, stream, out)
            mine = {number: p for (of, number), p in self._proposed.items() if of == stream}
            self._tell_proposed(now, stream, mine, out)

    # The second phase.

    def _told_proposed(self, now: float, source: int, message: Proposed, out: Effects) -> None:
        undecided = self._own.get(message.stream, {})
        answers: Horizon = {}
        for number, priority in message.priorities.items():
            packet = undecided.get(number)
            if packet is not None:
                packet.priority = max(packet.priority, priority)
                packet.awaited.pop(source, None)
            elif (message.stream, number) in self._decided:
                answers[number] = self._decided[message.stream, number]
            elif owner_of(message.stream) == self.ladder.me:
                answers[number] = -1
        for number, packet in undecided.items():
            if number >= message.below:
                break
            packet.awaited.pop(source, None)
        if answers and source != self.ladder.me:
            out.append(Unicast(source, Decided(message.stream, answers)))
        self._decide(now, message.stream, out)

    def _decide(self, now: float, stream: int, out: Effects) -> None:
        """Decide the first packets of an own stream that wait for nobody, each above the one before."""
        undecided, made = self._own.get(stream, {}), dict[int, int]()
        while undecided:
            number, packet = next(iter(undecided.items()))
            if packet.awaited:
                break
            del undecided[number]
            made[number] = self._lasts[stream] = max(packet.priority, self._lasts.get(stream, 0) + 1)
        if made:
            others = self.ladder.roster.others(channel_of(stream))
            self._tell(others, Decided(stream, made), out, channel_of(stream))
            self._told_decided(now, self.ladder.me, Decided(stream, made), out)

    def _told_decided(self, now: float, source: int, message: Decided, out: Effects) -> None:
        for number, priority in message.priorities.items():
            key = message.stream, number
            if priority < 0:
                if key in self._proposed:
                    self._forgotten.setdefault(key, now)
                continue
            self._highest = max(self._highest, priority)
            self._remember(key, priority)
            self._forgotten.pop(key, None)
            if self._proposed.pop(key, None) is not None:
                self._enqueue(priority, *key)
        self._release(now, out)

    def _remember(self, key: Key, priority: int) -> None:
        self._decided[key] = priority
        if len(self._decided) > _REMEMBERED:
            del self._decided[next(iter(self._decided))]

    def _tell(self, members: list[int], message: Any, out: Effects, channel: int = 0) -> None:
        """By multicast, or one by one where packets go so, too."""
        if self.ladder.settings.dissemination == "copies":
            out.extend(Unicast(member, message) for member in members)
        elif members:
            out.append(Multicast(message, channel=channel))

    def _release(self, now: float, out: Effects) -> None:
        """Hand over what is decided, in order, up to the first packet that is not."""
        while self._queue:
            priority, stream, number = self._queue[0]
            key = stream, number
            if key in self._proposed and self._proposed[key] == priority:
                return
            if self._given_up.get(key) == priority:
                del self._given_up[key]
                self.turns.pass_over(stream, number, _LEFT, out)
            elif self._decided.get(key) == priority and number >= self._below(stream):
                if (priority, stream) <= self._turn:
                    self.turns.pass_over(stream, number, PASSED, out)
                elif not self._hand_over(now, priority, stream, number, out):
                    return
            heappop(self._queue)

    def _hand_over(self, now: float, priority: int, stream: int, number: int, out: Effects) -> bool:
        place = (priority << _STREAM_BITS) + stream
        if self.turns.hand_over(now, stream, number, number, place, out) == number:
            return False  # it is repaired first
        self._turn = priority, stream
        return True

    # Time.

    def _beat(self, now: float, out: Effects) -> None:
        """Ask again for what has been undecided since the last beat; see whether anything goes on."""
        self._beating.set(now + self._period)
        if not self.ladder.is_member:
            return
        if self._unknown is not None:
            self._ask_highest(now, out)
        late: dict[int, Horizon] = {}
        for key, priority in self._proposed.items():
            if key in self._late:
                late.setdefault(key[0], {})[key[1]] = priority
        for stream, priorities in late.items():
            self._ask_decision(now, stream, priorities, out)
        self._late = dict(self._proposed)
        self._ask_for_priorities(out)
        self._give_up(now, out)
        self._see_progress(now, out)

    def _ask_decision(self, now: float, stream: int, priorities: Horizon, out: Effects) -> None:
        if owner_of(stream) not in self.ladder.roster:
            for number in priorities:
                self._forgotten.setdefault((stream, number), now)
        if any((stream, number) in self._forgotten for number in priorities):
            self._tell(self.ladder.roster.others(), Proposed(stream, self._below(stream), priorities), out)
        elif owner_of(stream) != self.ladder.me:
            self._tell_proposed(now, stream, priorities, out)

    def _ask_for_priorities(self, out: Effects) -> None:
        """Tell the members that we wait for how far our packets go: they may not have heard of the last ones."""
        awaited: dict[int, Horizon] = {}
        for stream, undecided in self._own.items():
            for number, packet in undecided.items():
                for member in packet.awaited:
                    awaited.setdefault(member, {})[stream] = number
        for member, lasts in awaited.items():
            if member != self.ladder.me:
                out.append(Unicast(member, Unplaced(lasts)))

    def _give_up(self, now: float, out: Effects) -> None:
        """What nobody can decide any more is lost here."""
        over = [key for key, since in self._forgotten.items() if now - since > _BEATS * self._period]
        for stream, number in sorted(over):
            del self._forgotten[stream, number]
            if self._proposed.pop((stream, number), None) is not None:
                self._highest += 1
                self._given_up[stream, number] = self._highest
                self._enqueue(self._highest, stream, number)
        if over:
            self._release(now, out)

    def _see_progress(self, now: float, out: Effects) -> None:
        stuck_on = self._queue[0] if self._queue else next(((u,) for s in self._own.values() for u in s), ())
        if stuck_on != self._stuck_on or not stuck_on:
            self._stuck_on, self._stuck_at = stuck_on, now
            if self._blocked_since < inf:
                self._blocked_s += now - self._blocked_since
                self._blocked_since = inf
        elif now - self._stuck_at > 2 * _BEATS * self._period and self._blocked_since == inf:
            self._blocked_since = now
            out.append(Note("block", phase="undecided"))
            out.append(ReportBlocked(self.blocked()))
