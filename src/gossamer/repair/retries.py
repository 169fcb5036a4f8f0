"""Negative gossip that does not wait for a round when a request has brought nothing.

The member that was asked may lack the same packets (members that are near each other often do), or a request or its
answer was lost. Without order a late packet hurts only itself; in FIFO order everything after it waits. So what was
asked for and has not come after a round trip, and what it varies by, is asked for again, first of the packet's own
sender, which surely had it (but in a large group only by some members, which can then pass it on: if all have lost it,
the sender could not serve them all), then of anybody, each time with a longer pause. When the pause is as long as a
round, the rounds take over. Until then what was asked for is on its way, however many rounds a round trip takes, and no
gossip asks for it.

Where an answer takes long, so does it to notice that there will be none. There two members are asked at once, as long
as that concerns few packets: if both answer, one packet in a hundred comes twice, at most.

On the way the member learns which peers have what others have (`Peers.helper`), and how long they take: from a request
until a packet that was in it comes, even if that is too late. And it learns how late packets are that others overtake
(`core.reordering`): a gap is given that time before it counts as a loss.
"""

from heapq import heappop, heappush
from itertools import count as counter
from math import inf
from typing import NamedTuple

from gossamer.core.effects import Unicast
from gossamer.core.ids import FIRST_PASS, Phase, owner_of
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.messages import Gossip, Request
from gossamer.core.packet_sets import PacketSets, count, difference
from gossamer.core.packets import Packet, Run
from gossamer.core.ranges import RangeSet
from gossamer.core.reordering import Reordering
from gossamer.core.settings import ProtocolSettings
from gossamer.repair.negative import NegativeGossip

_AT_THE_SENDER = 16
"""About this many members ask the sender of a packet that all have lost, if there are more."""
_SPARE, _SPARE_MAX = 0.01, 20.0
"""Two members are asked for one packet in a hundred, where they are far away; no more than 20 in a row."""
_FEW = 8
"""An answer of more packets takes as long as these need to cross the path, and not only a round trip."""
_DRAWS = 8
"""After so many draws there may be nobody else to ask."""
_BY_ROUNDS = 64
"""In place of how often something was asked for: it was asked for in a round, and is left to the rounds."""


def negative_gossip(settings: ProtocolSettings) -> type[NegativeGossip]:
    """The rung that the settings ask for: without retries they cost nothing."""
    return RetryingNegativeGossip if settings.ask_again else NegativeGossip


class _Asked(NamedTuple):
    """A request that may have brought nothing."""

    due: float
    """When to look whether it has."""
    number: int
    """Decides between requests that are due at the same time."""
    times: int
    """How often this was asked for, including this request."""
    target: int
    wanted: PacketSets
    at: float


class _Timed(NamedTuple):
    """One packet of a request, by which its answer is timed."""

    sender: int
    seqno: int
    asked_at: float
    is_doubtful: bool = False
    """Whether the same peer was asked for it again: then nobody knows which request it answers (Karn's rule)."""
    came_at: float = 0.0


class _Late(NamedTuple):
    """Packets that others overtook, and that may still come."""

    due: float
    number: int
    sender: int
    numbers: RangeSet


class RetryingNegativeGossip(NegativeGossip):
    """The same, with requests that are repeated."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._asked: list[_Asked] = []  # a heap: the next that is due comes first
        self._late: list[_Late] = []  # another
        self._numbers = counter()
        self._timed: dict[int, _Timed] = {}  # for each peer one packet that it was asked for
        self._reordering: dict[int, Reordering] = {}  # by sender
        self._spare: dict[int, tuple[int, float]] = {}  # by sender: its next number, and what may come twice since then
        self._filled = False  # whether what is accepted next was missing
        self._retry = ladder.timer(self._ask_again)
        self._too_late = ladder.timer(self._ask_for_late)

    # How late packets come, and how soon answers.

    def repair(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """Ask at once, or as soon as a packet that was only overtaken would be here."""
        reordering = self._reordering.get(sender)
        if reordering is None:
            reordering = self._reordering[sender] = Reordering()
        reordering.gap_found(now, first, last)
        owner = owner_of(sender)
        wait = reordering.tolerance(self.ladder.round_trips.shortest(owner))
        if wait > 0:
            wait = min(wait, self._patience(owner))
        if wait <= 0:
            super().repair(now, sender, first, last, out)
        else:
            heappush(self._late, _Late(now + wait, next(self._numbers), sender, RangeSet.span(first, last)))
            self._too_late.set(self._late[0].due)

    def release(self, sender: int, first: int, last: int) -> None:
        """Another rung's turn."""
        super().release(sender, first, last)
        for late in self._late:
            if late.sender == sender:
                late.numbers.discard(first, last)

    def _ask_for_late(self, now: float, out: Effects) -> None:
        while self._late and self._late[0].due <= now:
            late = heappop(self._late)
            missing = self.ladder.streams.of(late.sender).missing.intersection(late.numbers)
            for first, last in missing.ranges():
                super().repair(now, late.sender, first, last, out)
        self._too_late.set(self._late[0].due if self._late else inf)

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """How it was filled is known when it is accepted."""
        super().gap_closed(now, sender, first, last, out)
        self._filled = True

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """How long a peer takes, if this was asked for; how late it was, if not."""
        if self._filled:
            self._filled = False
            reordering = self._reordering.get(run[0].sender)
            if reordering is not None and phase == FIRST_PASS:
                reordering.came_late(now, run[0].seqno)
            elif reordering is not None:
                reordering.repaired()
        if phase == FIRST_PASS:
            if (window := self.ladder.request_window) is not None:
                window.arrived += len(run)  # so much the path carries at least
        elif source in self._timed:
            self._measure(now, source, run[0])

    def repeated(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """It came too late, and tells all the more."""
        if phase == FIRST_PASS and run[0].sender in self._reordering:
            self._reordering[run[0].sender].came_late(now, run[0].seqno)
        elif phase != FIRST_PASS:
            self._asking.came_again(source, run)
            if source in self._timed:
                self._measure(now, source, run[0])

    def retired(self, now: float, sender: int) -> None:
        """Nothing of it is missing."""
        self._reordering.pop(sender, None)
        self._spare.pop(sender, None)

    def _measure(self, now: float, source: int, packet: Packet) -> None:
        timed = self._timed[source]
        if packet.seqno != timed.seqno or packet.sender != timed.sender:
            return
        if timed.is_doubtful and not timed.came_at:  # if it comes again, each request was answered
            self._timed[source] = timed._replace(came_at=now)
        else:
            del self._timed[source]
            self.ladder.round_trips.measured(source, (timed.came_at or now) - timed.asked_at, may_wait=True)

    def _patience(self, peer: int) -> float:
        """How long an answer of `peer` may take; a round, as long as nothing is known."""
        return self.ladder.round_trips.patience(peer, self.ladder.settings.gossip_period)

    # Requests and what became of them.

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """What a gossip asks for is on its way for as long as an answer takes."""
        super().gossiping(now, to, gossip)
        if gossip.missing:
            self._await(now, to, gossip.missing, _BY_ROUNDS)

    def _time_passes(self, now: float) -> None:
        """Requests end one by one."""

    def _not_on_its_way(self) -> PacketSets:
        return difference(self._asking.choose(), self._asking.pending)

    def _whom(self, sender: int) -> int | None:
        """Rather not the sender, if this member does not listen: what it repairs for us, it does not send to all."""
        target = self.ladder.peers.with_packets_of(sender, helpful=True)
        for _ in range(0 if self.ladder.hearing.on else _DRAWS):
            if target != owner_of(sender):
                break
            target = self.ladder.peers.with_packets_of(sender, helpful=True)
        return target

    def _request_in_round(self, now: float, target: int, wanted: PacketSets, out: Effects) -> None:
        super()._request(now, target, wanted, out)
        self._await(now, target, wanted, _BY_ROUNDS)

    def _request(self, now: float, target: int, wanted: PacketSets, out: Effects, times: int = 1) -> None:
        super()._request(now, target, wanted, out)
        self._await(now, target, wanted, times)
        for sender, numbers in wanted.items() if self.ladder.round_trips.is_far(target) else ():
            self._ask_another(now, target, sender, numbers, out)

    def _ask_another(self, now: float, asked: int, sender: int, numbers: RangeSet, out: Effects) -> None:
        """The sender, if it was not asked, or anybody: one of the two will answer."""
        owner = owner_of(sender)
        target = owner if owner != asked and self._may_ask(owner) else self._whom(sender)
        if target is not None and target != asked and self._can_spare(sender, len(numbers)):
            wanted = {sender: numbers}
            self._begin_to_measure(now, target, wanted, self._patience(target))
            out.append(Unicast(target, Request(wanted)))

    def _can_spare(self, sender: int, packets: int) -> bool:
        following = self.ladder.streams.of(sender).next
        before, spare = self._spare.get(sender, (following, 0.0))
        spare = min(_SPARE_MAX, spare + _SPARE * (following - before))
        affordable = packets <= spare
        self._spare[sender] = following, spare - packets if affordable else spare
        return affordable

    def _await(self, now: float, target: int, wanted: PacketSets, times: int) -> None:
        patience = self._patience(target)
        self._begin_to_measure(now, target, wanted, patience)
        wait = patience + (self._pause(times) if self._is_repeated(times) else 0.0)
        due = now + (max(wait, self._asking.timeout()) if count(wanted) > _FEW else wait)
        heappush(self._asked, _Asked(due, next(self._numbers), times, target, wanted, now))
        self._retry.set(self._asked[0].due)

    def _pause(self, times: int) -> float:
        return self.ladder.settings.ask_again * 2.0 ** (times - 1)

    def _is_repeated(self, times: int) -> bool:
        """Whether what was asked for this often is asked for again before the next round."""
        return self._pause(times) < self.ladder.settings.gossip_period

    def _begin_to_measure(self, now: float, target: int, wanted: PacketSets, patience: float) -> None:
        """One packet of one request to each peer at a time; if it has not come for a while, it will not."""
        before = now - max(self.ladder.settings.gossip_period, 4 * patience)
        self._timed = {peer: timed for peer, timed in self._timed.items() if timed.asked_at > before}
        timed = self._timed.get(target)
        if timed is None:
            sender, numbers = next(iter(wanted.items()))
            self._timed[target] = _Timed(sender, numbers.first, now)
        elif timed.sender in wanted and timed.seqno in wanted[timed.sender]:
            self._timed[target] = timed._replace(is_doubtful=True)

    def _ask_again(self, now: float, out: Effects) -> None:
        while self._asked and self._asked[0].due <= now:
            request = heappop(self._asked)
            left = self._asking.still(request.wanted)
            self._asking.answered(now, request.target, request.at, request.wanted, left)
            if request.times < _BY_ROUNDS:
                self.ladder.peers.answered(request.target, 1.0 - count(left) / count(request.wanted))
            if left:
                again = self._repeat(now, request, left, out) if self._is_repeated(request.times) else {}
                self._asking.did_not_come(difference(left, again))
        self._retry.set(self._asked[0].due if self._asked else inf)

    def _repeat(self, now: float, request: _Asked, left: PacketSets, out: Effects) -> PacketSets:
        """Ask somebody else for what is `left`; returns what of it was asked for."""
        times, asked = request.times, request.target
        again: PacketSets = {}
        for sender, numbers in self.ladder.gaps.worth_asking(now, left, out).items():
            owner = owner_of(sender)
            target = owner if times == 1 and asked != owner and self._may_ask(owner) else self._whom(sender)
            if target is not None:
                self._request(now, target, {sender: numbers}, out, times + 1)
                again[sender] = numbers
        return again

    def _may_ask(self, owner: int) -> bool:
        """Whether the member whose stream it is may be asked."""
        roster = self.ladder.roster
        return self.ladder.rng.random() * len(roster) < _AT_THE_SENDER and owner in roster
