"""Negative gossip with pull (000 §4.1, §4.3): a member says what it lacks, and the member that it asks sends it.

A gap is asked for at once, and then in every round until it is filled, each time of one member drawn at random. The
note that a packet was collected moves the gap on to the next repair; so does, as a fail-safe, a number of rounds. Where
no repair could take over (there is no logger), somebody else may still keep the packet: then with `loss_patience` only
the note of the packet's sender counts, or of all members in reach, and the fail-safe takes that long.

What a gossip says is missing concerns channel 0, which all hear. What is missing in another channel is asked for, at
the end of each round, of one of its listeners or of the sender.

Where only some members keep a packet for long (003 §5), a gap that has lasted for as long as everybody keeps packets is
asked for of one of those, in every round, and not of anybody.
"""

from collections import deque
from collections.abc import Mapping

from gossamer.core.asking import Asking
from gossamer.core.declares import COPIES_KEPT, LAST_PACKETS, Declares
from gossamer.core.effects import Unicast
from gossamer.core.ids import channel_of, owner_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.messages import Collected, Gossip, Request
from gossamer.core.packet_sets import PacketSets, difference, in_channel_0, intersection, union
from gossamer.core.packets import Run
from gossamer.core.parts import Repair
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings
from gossamer.core.timers import Timer

_AT_ONCE = 500
"""So many old gaps move on to the next repair in one step."""


class NegativeGossip(Repair):
    """The first missing set of 000 §4.3: what is asked of peers."""

    gossips = True

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        again = ladder.settings.ask_again > 0  # then it is known here which requests were in vain
        self._asking = Asking(
            ladder.settings.request_packets,
            counted=again,
            times_out=not again,
            window=ladder.request_window,
        )
        self._has_channels = ladder.settings.channels > 1
        self._new: PacketSets = {}  # what was found missing in this very instant
        self._has_room = False  # whether in this instant so much has come that more may be asked for
        self._found: deque[tuple[int, int, int, int]] = deque()  # round, sender, first, last
        self._notes: dict[int, PacketSets] = {}  # by member: what it says it has collected, if one note is not enough
        self._round = 0
        self._earlier: deque[PacketSets] = deque()  # what was wanted at the ends of the last rounds, if that matters
        self._directly: PacketSets = {}  # what was asked for in this round of members that surely keep it
        self._instant_over = ladder.timer(self._ask_new)
        self._moving: Timer | None = None  # rarely needed

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Peers fill what they still keep; the rest is known to be lost."""
        return Declares(promises=("eventual-or-lost",), needs=(COPIES_KEPT, LAST_PACKETS))

    def messages(self) -> Mapping[type, MessageHandler]:
        """The note that a packet was collected."""
        return {Collected: self._told_collected}

    def repair(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """Ask one peer at once, without waiting for the round (000 §4.1): once for all that this instant shows."""
        self._asking.add(sender, first, last)
        self._found.append((self._round, sender, first, last))
        if self._asking.has_room():  # or it waits until something has come
            if sender in self._new:
                self._new[sender].add(first, last)
            else:
                self._new[sender] = RangeSet.span(first, last)
            self._instant_over.set(now)

    def release(self, sender: int, first: int, last: int) -> None:
        """Another rung's turn."""
        self._asking.remove(sender, first, last)

    def repaired(self, now: float, source: int, run: Run) -> None:
        """How long that took says how much may be asked for at a time."""
        self._asking.came(now, source, run)

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """It came, or nobody waits for it any more: if most of what was asked for has come, ask for more.

        Repairs come many at a time: what they make room for is asked for together, when the instant is over.
        """
        if self._asking.remove(sender, first, last) and not self._has_room and self._asking.wants_more():
            self._has_room = True
            self._instant_over.set(now)

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """What was asked for and has not come is due again; what nobody could fill is not for peers to fill."""
        self._round = number
        self._time_passes(now)
        if self._found:
            self._move_on_old(now, out)
        if not self._asking.wanted:
            self._notes.clear()
        if self.ladder.buffer.selects:
            self._ask_holders(now, out)
        if self._has_channels and any(map(channel_of, self._asking.wanted)):
            self._ask_listeners(now, out)
        if self._asking.wanted and self.ladder.gaps.has_say:  # what is not worth it is given up before it is gossiped
            self.ladder.gaps.worth_asking(now, self._asking.choose(), out)

    def _ask_listeners(self, now: float, out: Effects) -> None:
        """For what is missing in channels that not all hear."""
        wanted = difference(self.ladder.gaps.urgent(self._not_on_its_way()), self._directly)
        for sender, numbers in wanted.items():
            target = self._whom(sender) if channel_of(sender) else None
            if target is not None:
                self._request_in_round(now, target, {sender: numbers}, out)

    def _request_in_round(self, now: float, target: int, wanted: PacketSets, out: Effects) -> None:
        self._request(now, target, wanted, out)

    def _ask_holders(self, now: float, out: Effects) -> None:
        """What was missing when the short term began, and still is: only its bufferers have it by now."""
        self._directly = {}
        if not self._asking.wanted:
            self._earlier.clear()
            return
        self._earlier.append({sender: numbers.copy() for sender, numbers in self._asking.wanted.items()})
        if len(self._earlier) > self.ladder.settings.short_rounds:
            old = intersection(self.ladder.gaps.urgent(self._not_on_its_way()), self._earlier.popleft())
            holders, _ = self.ladder.buffer.holders_of(old, but=(self.ladder.me,))
            for member, wanted in holders.items():
                self._request(now, member, wanted, out)
                self._directly = union(self._directly, wanted)

    def _time_passes(self, now: float) -> None:
        """At the end of a round: what was asked for in the one before will not come."""
        self._asking.tick(now)

    def _not_on_its_way(self) -> PacketSets:
        """What to ask for in a round."""
        return self._asking.choose()

    def _move_on_old(self, now: float, out: Effects) -> None:
        """After a long absence thousands are old at once: some of them now, the others in the same instant."""
        period = self.ladder.settings.gossip_period
        patience = self.ladder.gaps.patience(self, self.ladder.settings.peer_rounds * period)
        oldest = self._round - round(patience / period)
        for _ in range(_AT_ONCE):
            if not self._found or self._found[0][0] >= oldest:
                return
            _, sender, first, last = self._found.popleft()
            self._move_on(now, sender, RangeSet.span(first, last), out)
        self._moving = self._moving or self.ladder.timer(self._move_on_old)
        self._moving.set(now)

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """Say what is lacking, if only that nothing is."""
        missing = difference(self.ladder.gaps.urgent(self._not_on_its_way()), self._directly)
        gossip.missing = in_channel_0(missing) if self._has_channels else missing
        self._asking.asked(now, to, gossip.missing)
        self._asking.age()

    def _ask_new(self, now: float, out: Effects) -> None:
        new, self._new = self._new, {}
        has_room, self._has_room = self._has_room and self._asking.wants_more(), False
        if new or has_room:
            self._ask(now, None if has_room else new, out)

    def _ask(self, now: float, among: PacketSets | None, out: Effects) -> None:
        wanted = self.ladder.gaps.worth_asking(now, self._asking.choose(among), out)
        for part in self._apart(wanted):
            target = self._whom(next(iter(part)))
            if target is not None:
                self._request(now, target, part, out)

    def _apart(self, wanted: PacketSets) -> list[PacketSets]:
        """What one member can be asked for: all of channel 0, and any one stream of another."""
        if not wanted or not self._has_channels:
            return [wanted] if wanted else []
        common = in_channel_0(wanted)
        others = [{sender: numbers} for sender, numbers in wanted.items() if channel_of(sender)]
        return [common, *others] if common else others

    def _whom(self, sender: int) -> int | None:
        """The member to ask between the rounds."""
        return self.ladder.peers.with_packets_of(sender)

    def _request(self, now: float, target: int, wanted: PacketSets, out: Effects) -> None:
        self._asking.asked(now, target, wanted)
        out.append(Unicast(target, Request(wanted)))

    # Answers.

    def _told_collected(self, now: float, source: int, message: Collected, out: Effects) -> None:
        patient = self.ladder.gaps.patience(self, 0.0) > 0.0
        self._asking.declined(now, source, message.gone)
        for sender, numbers in message.gone.items():
            if patient and source != owner_of(sender):
                numbers = self._noted_by_all(source, sender, numbers)
            self._move_on(now, sender, numbers, out)
        if self._asking.wants_more():
            self._ask(now, None, out)

    def _noted_by_all(self, source: int, sender: int, numbers: RangeSet) -> RangeSet:
        """What of `numbers` everybody in reach has collected by now; only what is wanted is remembered."""
        wanted = numbers.intersection(self._asking.wanted.get(sender, RangeSet()))
        self._notes.setdefault(source, {}).setdefault(sender, RangeSet()).update(wanted)
        for member in self.ladder.roster.others(channel_of(sender)):
            wanted = wanted.intersection(self._notes.get(member, {}).get(sender, RangeSet()))
        return wanted

    def _move_on(self, now: float, sender: int, numbers: RangeSet, out: Effects) -> None:
        wanted = self._asking.wanted.get(sender)
        if wanted is not None:
            for first, last in wanted.intersection(numbers).ranges():
                self._asking.remove(sender, first, last)
                self.ladder.gaps.escalate(now, self, sender, first, last, "collected", out)
