"""A logger (000 §3.2, §5.2): keeps every packet durably, acknowledges, repairs, and forgets what all have.

A packet is acknowledged only behind the effect that persists it. What every claimant has acknowledged is
collected; an acknowledgement is derived from a member's gossip: everything that it has seen and does not say it
misses. A gossip counts only from a member whose view of the group is ours: else it may know of a member that
joined meanwhile, who still needs what we are about to forget (000 §5.3). The time-out is the fail-safe for
members that never come back.
"""

from collections import deque
from collections.abc import Mapping

from gossamer.core.effects import Collect, Multicast, Persist, Replay, Unicast
from gossamer.core.ids import Phase
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung, TimerHandler
from gossamer.core.messages import Ack, Gossip, Horizon, Never, PerSender, Request, put
from gossamer.core.packets import Packet, Run
from gossamer.core.ranges import RangeSet

_SWEEP = "logger.sweep"
_SWEEP_ROUNDS = 4
"""The log is swept every so many gossip periods."""


class Logger(Rung):
    """What a member does more if it is a logger."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._log: PerSender = {}
        self._gone: PerSender = {}  # timed out: had, and lost to whoever still wants it
        self._never: PerSender = {}  # numbers that no packet has or ever will have
        self._acknowledged: dict[int, Horizon] = {}  # by member, by sender: everything up to here
        self._arrivals: deque[tuple[float, int, int, int]] = deque()  # when, sender, first, last

    def messages(self) -> Mapping[type, MessageHandler]:
        """Requests, and gossip, which is a request and an acknowledgement in one."""
        return {Request: self._requested, Gossip: self._gossiped, Never: self._told_never}

    def alarms(self) -> Mapping[str, TimerHandler]:
        """The sweep."""
        return {_SWEEP: self._sweep}

    def buffered(self) -> int:
        """Packets in the log."""
        return sum(len(numbers) for numbers in self._log.values())

    def started(self, now: float, out: Effects) -> None:
        """Go on with what the log holds."""
        for sender, numbers in self.ladder.restored.logged.items():
            self._log[sender] = numbers.copy()
            self._arrivals.extend((now, sender, first, last) for first, last in numbers.ranges())
        self.ladder.timers.set(_SWEEP, now + _SWEEP_ROUNDS * self.ladder.settings.gossip_period)

    def published(self, now: float, packet: Packet, out: Effects) -> None:
        """Its own packets are logged too."""
        self._persist(now, [packet], out)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """Log, then acknowledge to the sender."""
        self._persist(now, run, out)
        self._acknowledge(run, out)

    def repeated(self, now: float, source: int, run: Run, out: Effects) -> None:
        """A sender that repeats has missed the acknowledgement (000 §3.2)."""
        if source == run[0].sender:
            self._acknowledge(run, out)

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """Tell the target how far we have its packets: an acknowledgement, should the first be lost (000 §5.2)."""
        if to in self.ladder.streams:
            gossip.seen[to] = self.ladder.streams[to].prefix()

    def sponsoring(self, to: int, resume: bool, horizon: Horizon) -> None:
        """A member that crashed resumes behind what it had acknowledged (000 §6.2, at least once)."""
        if resume:
            known = self._acknowledged.get(to, {})
            horizon.update({sender: known.get(sender, -1) for sender in horizon})

    def _persist(self, now: float, run: Run, out: Effects) -> None:
        sender, first, last = run[0].sender, run[0].seqno, run[-1].seqno
        out.append(Persist(run))
        self._log.setdefault(sender, RangeSet()).add(first, last)
        self._arrivals.append((now, sender, first, last))

    def _acknowledge(self, run: Run, out: Effects) -> None:
        out.append(Unicast(run[0].sender, Ack({run[0].sender: RangeSet([(run[0].seqno, run[-1].seqno)])})))

    def _requested(self, now: float, source: int, request: Request, out: Effects) -> None:
        self._serve(now, source, request.wanted, out)

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        self._serve(now, source, gossip.missing, out)
        if gossip.view == self.ladder.peers.signature:
            known = self._acknowledged.setdefault(source, {})
            for sender, seen in gossip.seen.items():
                missing = gossip.missing.get(sender)
                known[sender] = max(known.get(sender, -1), missing.first - 1 if missing else seen)

    def _serve(self, now: float, source: int, wanted: PerSender, out: Effects) -> None:
        """From the log, what the buffer does not serve; and the truth about what cannot be served."""
        logged: PerSender = {}
        gone: PerSender = {}
        never: PerSender = {}
        for sender, numbers in wanted.items():
            in_log = numbers.intersection(self._log.get(sender, RangeSet()))
            in_log.subtract(self.ladder.buffer.kept_of(sender, in_log))
            put(logged, sender, in_log)
            put(gone, sender, numbers.intersection(self._gone.get(sender, RangeSet())))
            put(never, sender, numbers.intersection(self._never.get(sender, RangeSet())))
        if logged:
            self.ladder.service.offer(now, source, logged, self._replay, out)
        if gone:
            out.append(Unicast(source, Never(gone, lost=True)))
        if never:
            out.append(Unicast(source, Never(never)))

    def _replay(self, to: int, sender: int, first: int, last: int, out: Effects) -> None:
        out.append(Replay(to, sender, first, last))

    def _told_never(self, now: float, source: int, message: Never, out: Effects) -> None:
        """A sender says that these never were (or are gone with its memory): spread it (000 §6.2)."""
        mine = message.numbers.get(source)
        if mine is None or message.lost:
            return
        lacking = RangeSet(
            part for first, last in mine.ranges() for part in self.ladder.stream(source).missing.within(first, last)
        )
        if lacking:
            self._never.setdefault(source, RangeSet()).update(lacking)
            out.append(Multicast(Never({source: lacking})))
            for first, last in lacking.ranges():
                self.ladder.skip(now, source, first, last, out)

    def _sweep(self, now: float, out: Effects) -> None:
        for sender in list(self._log):
            stable = self._stable(sender)
            for first, last in self._log[sender].within(0, stable):
                self._collect(sender, first, last, out)
        while self._arrivals and self._arrivals[0][0] < now - self.ladder.settings.log_timeout:
            _, sender, first, last = self._arrivals.popleft()
            for part in self._log.get(sender, RangeSet()).within(first, last):
                self._gone.setdefault(sender, RangeSet()).add(*part)
                self._collect(sender, *part, out)
        self.ladder.timers.set(_SWEEP, now + _SWEEP_ROUNDS * self.ladder.settings.gossip_period)

    def _stable(self, sender: int) -> int:
        """The number up to which every claimant has acknowledged the packets of `sender`."""
        others = (m for m in self.ladder.peers.claimants if m != self.ladder.me)
        acknowledged = (self._acknowledged.get(m, {}).get(sender, -1) for m in others)
        return min(acknowledged, default=self.ladder.stream(sender).prefix())

    def _collect(self, sender: int, first: int, last: int, out: Effects) -> None:
        out.append(Collect(sender, first, last))
        self._log[sender].discard(first, last)
        if not self._log[sender]:
            del self._log[sender]
