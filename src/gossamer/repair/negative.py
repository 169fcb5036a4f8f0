"""Negative gossip with pull (000 §4.1, §4.3): a member says what it lacks, and whoever is asked sends it.

A gap is asked for at once, and then in every round until it is filled, each time of one member drawn anew. A
member that is asked sends what it has; for what it had and has collected it sends the garbage-collected note,
which moves the gap on to the logger; for what it never had it sends nothing.
"""

from collections import deque
from collections.abc import Mapping

from gossamer.core.effects import Multicast, Unicast
from gossamer.core.ids import PEER
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung, TimerHandler
from gossamer.core.messages import Collected, Echo, Gossip, Never, PerSender, Repair, Request, count, put, remove, take
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet

_ROUND = "negative.round"
_NEW = "negative.new"
_LOGGER_ROUNDS = 16
"""Every so many rounds the target is a logger, so that acknowledgements reach it in groups of any size."""
_PROBE_ROUNDS = 16
"""A known round-trip time is measured anew every so many rounds."""


class NegativeGossip(Rung):
    """The first missing set: what is asked of peers."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._asking: PerSender = {}
        self._asking_count = 0
        self._new: PerSender = {}  # of these, what was found missing in this very instant
        self._outstanding: PerSender = {}  # of these, what was asked for, where there is a limit to that
        self._just_asked: PerSender = {}  # of these, what was asked for since the last round
        self._outstanding_count = 0
        self._limit = ladder.settings.request_packets
        self._found: deque[tuple[int, int, int, int]] = deque()  # round, sender, first, last
        self._round = 0
        self._period = ladder.settings.gossip_period
        self._askers: dict[tuple[int, int], dict[int, None]] = {}  # who asked for a packet, of late
        self._never: PerSender = {}

    def messages(self) -> Mapping[type, MessageHandler]:
        """Requests in both forms, and the answers that are not packets."""
        return {
            Gossip: self._gossiped,
            Request: self._requested,
            Collected: self._told_collected,
            Never: self._told_never,
            Echo: self._echoed,
        }

    def alarms(self) -> Mapping[str, TimerHandler]:
        """The round, and the end of the instant in which something was found missing."""
        return {_ROUND: self._gossip, _NEW: self._ask_new}

    def started(self, now: float, out: Effects) -> None:
        """Rounds are out of step, unless they are to be in step (004 opt. 5)."""
        share = self.ladder.rng.random() if self.ladder.settings.unsynchronized else 1.0
        self.ladder.timers.set(_ROUND, now + share * self._period)

    def reconnected(self, now: float, out: Effects) -> None:
        """Hear the news soon."""
        self._hurry(now)

    def gap_found(self, now: float, source: int, sender: int, first: int, last: int, out: Effects) -> None:
        """Ask one peer at once, without waiting for the round (000 §4.1): once for all that this instant shows."""
        self._asking.setdefault(sender, RangeSet()).add(first, last)
        self._asking_count += last - first + 1
        self._found.append((self._round, sender, first, last))
        if not self._limit or self._outstanding_count < self._limit:  # or it waits until something has come
            self._new.setdefault(sender, RangeSet()).add(first, last)
            self.ladder.timers.set(_NEW, now)
        self._hurry(now)

    def _ask_new(self, now: float, out: Effects) -> None:
        new, self._new = self._new, {}
        self._ask(now, self._still_asking(new), out)

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """It came, or nobody waits for it any more: if most of what was asked for has come, ask for more."""
        self._forget(sender, first, last)
        if self._limit and self._outstanding_count < min(self._limit // 2, self._asking_count):
            known = self._outstanding
            self._ask(now, {s: n.difference(known[s]) if s in known else n for s, n in self._asking.items()}, out)

    def gap_escalated(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """It is the logger's now."""
        self._forget(sender, first, last)

    def _forget(self, sender: int, first: int, last: int) -> None:
        self._asking_count -= remove(self._asking, sender, first, last)
        self._outstanding_count -= remove(self._outstanding, sender, first, last)

    def _still_asking(self, wanted: PerSender) -> PerSender:
        """Of these, what is still asked for."""
        asking = self._asking
        return {s: left for s, n in wanted.items() if s in asking and (left := n.intersection(asking[s]))}

    def _ask(self, now: float, wanted: PerSender, out: Effects) -> None:
        """One peer, for as much as may be outstanding at a time."""
        room = self._limit - self._outstanding_count
        target = self._whom()
        if target is None or (self._limit and room <= 0):
            return
        some = take(wanted, room if self._limit else 0)
        if some:
            self._request(now, target, some, out)

    def _whom(self) -> int | None:
        """Whom to ask between the rounds."""
        return self.ladder.peers.target(self.ladder.rng)

    def _request(self, now: float, target: int, wanted: PerSender, out: Effects) -> None:
        self._note(wanted)
        out.append(Unicast(target, Request(wanted)))

    def _overdue(self) -> PerSender:
        """What was asked for before the last round, or never: what was asked for since may still be on its way."""
        known = self._just_asked
        self._outstanding = self._still_asking(known)
        self._outstanding_count = count(self._outstanding)
        self._just_asked = {}
        wanted = {s: n.difference(known[s]) if s in known else n for s, n in self._asking.items()}
        overdue = take(wanted, max(1, self._limit - self._outstanding_count))
        self._note(overdue)
        return overdue

    def _note(self, asked: PerSender) -> None:
        """These are outstanding."""
        if self._limit:
            for sender, numbers in asked.items():
                self._outstanding.setdefault(sender, RangeSet()).update(numbers)
                self._just_asked.setdefault(sender, RangeSet()).update(numbers)
            self._outstanding_count = count(self._outstanding)

    # The gossiper.

    def _gossip(self, now: float, out: Effects) -> None:
        self._round += 1
        self.ladder.round_over(now, out)
        self._escalate_old(now, out)
        for _ in range(self.ladder.settings.fanout if self.ladder.is_member else 0):
            target = self._target()
            if target is not None:
                missing = self._overdue() if self._limit else take(self._asking, 0)
                gossip = self.ladder.complete(now, target, Gossip(missing, stamp=self._stamp(now, target)))
                out.append(Unicast(target, gossip))
        if self._askers and self._round % self.ladder.settings.gc_rounds == 0:
            self._askers.clear()
        self._stretch()
        self.ladder.timers.set(_ROUND, now + self._period)

    def _target(self) -> int | None:
        loggers = self.ladder.peers.other_loggers()
        if loggers and self._round % _LOGGER_ROUNDS == 0:
            return self.ladder.rng.choice(loggers)
        return self.ladder.peers.target(self.ladder.rng)

    def _stamp(self, now: float, target: int) -> int:
        """Ask for an echo if the round-trip time matters and is not known, or not of late."""
        if self.ladder.settings.selection == "uniform" and not self.ladder.settings.round_trips:
            return 0
        if target in self.ladder.peers.rtt and self._round % _PROBE_ROUNDS:
            return 0
        self.ladder.peers.asked(target)
        return max(1, int(now * 1e6))

    def _stretch(self) -> None:
        """000 §8, variable gossip rate: rounds grow longer while nothing is missing."""
        longest = self.ladder.settings.gossip_period_max
        if longest and not self._asking:
            self._period = max(self._period, min(1.5 * self._period, longest))

    def _hurry(self, now: float) -> None:
        if self._period > self.ladder.settings.gossip_period:
            self._period = self.ladder.settings.gossip_period
            self.ladder.timers.set(_ROUND, min(self.ladder.timers.get(_ROUND), now + self._period))

    def _escalate_old(self, now: float, out: Effects) -> None:
        """The fail-safe: a gap that nobody could fill nor send a note for goes to the logger in the end."""
        while self._found and self._found[0][0] + self.ladder.settings.peer_rounds < self._round:
            _, sender, first, last = self._found.popleft()
            for part in self._asking.get(sender, RangeSet()).within(first, last):
                self.ladder.escalate(now, sender, *part, out)

    # The target.

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if gossip.stamp:
            out.append(Unicast(source, Echo(gossip.stamp)))
        self._serve(now, source, gossip.missing, out)

    def _requested(self, now: float, source: int, request: Request, out: Effects) -> None:
        self._serve(now, source, request.wanted, out)

    def _serve(self, now: float, source: int, wanted: PerSender, out: Effects) -> None:
        here: PerSender = {}
        gone: PerSender = {}
        never: PerSender = {}
        for sender, numbers in wanted.items():
            if sender not in self.ladder.streams:
                continue
            kept = self.ladder.buffer.kept_of(sender, numbers)
            put(here, sender, kept)
            put(gone, sender, self.ladder.streams[sender].received(numbers).difference(kept))
            put(never, sender, numbers.intersection(self._never.get(sender, RangeSet())))
        if here:
            self.ladder.service.offer(now, source, here, self._send, out)
        if gone and not self.ladder.is_logger:  # a logger has it in its log, and answers from there
            out.append(Unicast(source, Collected(gone)))
        if never:
            out.append(Unicast(source, Never(never)))

    def _send(self, to: int, sender: int, first: int, last: int, out: Effects) -> None:
        for seqno in range(first, last + 1):
            packet = self.ladder.buffer.get(sender, seqno)
            if packet is None:  # collected while the request waited
                out.append(Unicast(to, Collected({sender: RangeSet([(seqno, seqno)])})))
            elif self._many_ask(packet, to):
                out.append(Multicast(Repair(packet, PEER)))
            else:
                out.append(Unicast(to, Repair(packet, PEER)))

    def _many_ask(self, packet: Packet, requester: int) -> bool:
        """000 §8: negative gossip is a sample of who lacks what; if it shows many, one multicast serves all."""
        threshold = self.ladder.settings.multicast_after
        if not threshold:
            return False
        askers = self._askers.setdefault((packet.sender, packet.seqno), {})
        askers[requester] = None
        if len(askers) < threshold:
            return False
        askers.clear()
        return True

    # Answers.

    def _told_collected(self, now: float, source: int, message: Collected, out: Effects) -> None:
        for sender, numbers in message.gone.items():
            for first, last in numbers.ranges():
                for part in self._asking.get(sender, RangeSet()).within(first, last):
                    self.ladder.escalate(now, sender, *part, out)

    def _told_never(self, now: float, source: int, message: Never, out: Effects) -> None:
        """Numbers that never were: remember it for those who ask, and stop asking."""
        if message.lost:
            return
        for sender, numbers in message.numbers.items():
            if sender == self.ladder.me:
                continue
            missing = RangeSet(part for r in numbers.ranges() for part in self.ladder.stream(sender).missing.within(*r))
            self._never.setdefault(sender, RangeSet()).update(missing)
            for first, last in missing.ranges():
                self.ladder.skip(now, sender, first, last, out)

    def _echoed(self, now: float, source: int, message: Echo, out: Effects) -> None:
        self.ladder.peers.measured(source, now - message.stamp / 1e6)
