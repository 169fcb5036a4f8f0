"""A logger (000 §3.2, §5.2): keeps every packet durably, acknowledges, repairs, and forgets what all have.

A packet is acknowledged only after the effect that persists it. What every member that is owed it has acknowledged is
collected; an acknowledgement is derived from a member's gossip: everything that it has seen and does not say it
misses. A gossip counts only from a member whose view of the group is ours: else it may know of a member that
joined meanwhile, who still needs what we are about to forget (000 §5.3). The time-out is the fail-safe for
members that never come back.
"""

from collections.abc import Mapping
from itertools import islice
from math import inf

from gossamer.core.effects import Collect, ForgetCollected, Multicast, Persist, Unicast
from gossamer.core.ids import Phase, channel_of, owner_of, stream_of
from gossamer.core.inputs import Committed, DamageFound, LogSpan
from gossamer.core.ladder import UNLIMITED, Effects, InputHandler, Ladder, MessageHandler
from gossamer.core.messages import Ack, Gossip, Holdings, NeverSent, Request
from gossamer.core.packet_sets import Horizon, PacketSets, count, put, remove
from gossamer.core.packets import Run
from gossamer.core.parts import Keeper
from gossamer.core.ranges import RangeSet
from gossamer.core.streams import rest_of
from gossamer.logging.layers import Layers
from gossamer.logging.retention import Retention

_SWEEP_ROUNDS = 4
"""The log is swept after this many gossip periods."""
_SWEEP_SENDERS = 200
"""A sweep looks at the packets of this many senders."""
_SWEEP_ROUNDS_FIRST = 60
"""The log of a former life is not swept sooner."""
_NOTHING = RangeSet()


class Logger(Keeper):
    """What a member does more if it is a logger."""

    on_disk = True

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._log: PacketSets = {}
        self._gone: PacketSets = {}  # had and collected: lost to members that still want it
        self._finished: dict[int, float] = {}  # senders that were retired, or of which all is gone: since when
        self.never_sent: PacketSets = {}  # numbers that no packet has, as their senders say
        self._lies: PacketSets = {}  # on the disk, and not their sender's
        self._damaged: PacketSets = {}  # had and unreadable: another logger may fill it
        self._denied: PacketSets = {}  # not had, and forgotten by their senders, as those are said to have said
        self._consumers: dict[str, Horizon] = {}  # how far durable readers of the log are, by sender
        self._arrivals = Layers(ladder.settings.log_timeout, inf)
        self._expired: Horizon = {}  # up to here the fail-safe has taken effect
        self._ask_sender_at: dict[int, float] = {}  # when a sender may be asked about its numbers again
        self._settled: Horizon = {}  # what members had of senders that are retired
        self._to_sweep: list[int] = []  # senders whose turn has not come yet
        self._retention = Retention(ladder.settings.retention_age, ladder.settings.retention_bytes)
        self._timer = ladder.timer(self._sweep)

    def messages(self) -> Mapping[type, MessageHandler]:
        """A sender's word that something never was, and what other loggers hold."""
        return {NeverSent: self._told_never_sent, Holdings: self._compared}

    def inputs(self) -> Mapping[type, InputHandler]:
        """What happens to the log from outside."""
        return {Committed: self._committed, DamageFound: self._damage_found}

    def buffered(self) -> int:
        """Packets in the log."""
        return count(self._log)

    def started(self, now: float, out: Effects) -> None:
        """Go on with what the log holds."""
        restored = self.ladder.restored
        recent = self._recent(now)
        for sender, numbers in restored.logged.items():
            self._log[sender] = numbers.copy()
            # what lacks below is between the sender, other loggers and the log; a sponsor may know of more
            if sender not in self.ladder.streams:
                self.ladder.streams.begin(sender, numbers.last + 1)
                if recent is not None and sender not in recent:  # nobody speaks of it, unless it is still there
                    self.ladder.streams.retire(-inf, sender)
        for stretch in restored.stored or [LogSpan(now, s, n.last, 0) for s, n in restored.logged.items()]:
            self._arrivals.add(*stretch)
            self._retention.arrived(stretch)
        self._gone = {sender: numbers.copy() for sender, numbers in restored.collected.items()}
        self._finished = dict.fromkeys(self._gone, now)
        # first find out which members there are: those count that have not acknowledged yet
        rounds = _SWEEP_ROUNDS_FIRST if restored.logged else _SWEEP_ROUNDS
        self._timer.set(now + rounds * self.ladder.settings.gossip_period)

    def _recent(self, now: float) -> set[int] | None:
        """The senders of which the log took anything so lately that others may speak of them, if that is known."""
        restored, rest = self.ladder.restored, rest_of(self.ladder.settings)
        if not rest or not restored.stored:
            return None
        return {stretch.sender for stretch in restored.stored if stretch.at >= now - rest}

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Its own packets are logged too."""
        self._persist(now, run, out)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """Log, then acknowledge to the sender."""
        self._persist(now, run, out)
        self._acknowledge(run, out)

    def repeated(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """A sender that repeats has missed the acknowledgement (000 §3.2), or we have missed what it sent before.

        The stream counts from the time at which we joined; the log takes what was not acknowledged, however old.
        """
        sender = run[0].sender
        lacking = self.lacking({sender: RangeSet([(run[0].seqno, run[-1].seqno)])})
        for first, last in lacking[sender].ranges() if sender in lacking else ():
            self._persist(now, run[first - run[0].seqno : last - run[0].seqno + 1], out)
        if source == owner_of(sender):
            self._acknowledge(run, out)

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """Tell the target how far we have its packets: an acknowledgement, should the first be lost (000 §5.2).

        Only what was logged counts, not what was sent before we came.
        """
        gossip.logged = self._logged_up_to(to)
        if self.ladder.settings.channels > 1:
            in_channels = {c: self._logged_up_to(stream_of(to, c)) for c in range(1, self.ladder.settings.channels)}
            gossip.logged_in = {channel: last for channel, last in in_channels.items() if last >= 0}

    def _logged_up_to(self, sender: int) -> int:
        """All up to here is in the log, or was."""
        known = [table[sender] for table in (self._log, self._gone) if sender in table]
        up_to = -1
        for first, last in sorted((numbers.firsts[0], numbers.lasts[0]) for numbers in known if numbers):
            if first <= up_to + 1:
                up_to = max(up_to, last)
        return up_to

    def retracted(self, now: float, sender: int, last: int, own: RangeSet) -> None:
        """What is logged above `last` is not the sender's, but for its `own`: the true packets will take its place."""
        logged = self._log.get(sender, _NOTHING).intersection(own)
        for table in (self._log, self._gone):
            lies = RangeSet(table.get(sender, _NOTHING).within(last + 1, UNLIMITED)).difference(own)
            put(self._lies, sender, self._lies.get(sender, _NOTHING).union(lies))
        for table in (self._log, self._gone, self._denied, self._damaged, self.never_sent):
            remove(table, sender, last + 1, UNLIMITED)
        put(self._log, sender, self._log.get(sender, _NOTHING).union(logged))
        for limits in (self._settled, self._expired):
            if limits.get(sender, -1) > last:
                limits[sender] = last
        end = max([last, *logged.lasts[-1:]])
        self._arrivals.retract(sender, end)
        self._retention.retract(sender, end)

    def retired(self, now: float, sender: int) -> None:
        """Remember how far all have it, rather than how far each has it."""
        self._ask_sender_at.pop(sender, None)
        self._finished[sender] = now
        if sender in self._log:
            self._settled[sender] = self._had_by_members(sender)

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """What the log holds of them."""
        return numbers.intersection(self._log[sender]) if sender in self._log else _NOTHING

    def lost_of(self, sender: int, numbers: RangeSet, asked_by: int) -> RangeSet:
        """What was collected or is damaged, what we have given up ourselves, and what nobody can send us any more.

        Another logger may have what is damaged here: members believe that it is gone only if all loggers say so.
        """
        gone = RangeSet()
        for table in (self._gone, self._damaged, self._denied):
            if sender in table:
                gone.update(numbers.intersection(table[sender]))
        stream = self.ladder.streams.get(sender)
        if self.ladder.streams.is_retired(sender) and not self.ladder.roster.knows(owner_of(sender)):
            gone.update(numbers)
        elif stream is not None:
            gone.update(numbers.intersection(stream.abandoned))
            if not self.ladder.roster.knows(owner_of(sender)):  # it has left
                gone.update(numbers.difference(stream.missing))
        return gone

    def never_sent_of(self, sender: int, numbers: RangeSet, asked_by: int) -> RangeSet:
        """What its sender told us; and of our own numbers of earlier lives, those that our log lacks (000 §6.2)."""
        if owner_of(sender) == self.ladder.me:
            return self._lacking_of(sender, RangeSet(numbers.within(0, self.ladder.restored.reserved - 1)))
        return self.never_sent[sender].touching(numbers) if sender in self.never_sent else _NOTHING

    def asked_in_vain(self, now: float, sender: int, numbers: RangeSet, out: Effects) -> None:
        """Numbers from before we came that we never heard of: their sender knows whether there are such packets."""
        stream = self.ladder.streams.get(sender)
        unheard = numbers.difference(stream.missing) if stream is not None else numbers
        owner = owner_of(sender)
        if unheard and owner in self.ladder.roster and now >= self._ask_sender_at.get(sender, 0.0):
            self._ask_sender_at[sender] = now + self.ladder.settings.retry_period
            out.append(Unicast(owner, Request({sender: unheard})))

    def _persist(self, now: float, run: Run, out: Effects) -> None:
        sender, first, last = run[0].sender, run[0].seqno, run[-1].seqno
        out.append(Persist(run, instead=remove(self._lies, sender, first, last) > 0))
        self._log.setdefault(sender, RangeSet()).add(first, last)
        for table in (self._damaged, self._denied):
            if sender in table:
                remove(table, sender, first, last)
        self._arrivals.add(now, sender, last, 0)
        if self.ladder.settings.retention_bytes:  # counted packet by packet: a run may be as large as what is kept
            for packet in run:
                self._retention.arrived(LogSpan(now, sender, packet.seqno, len(packet.body)))
        else:
            self._retention.arrived(LogSpan(now, sender, last, 0))

    def lacking(self, numbers: PacketSets) -> PacketSets:
        """What of these was never here."""
        lacking: PacketSets = {}
        for sender, wanted in numbers.items():
            put(lacking, sender, self._lacking_of(sender, wanted))
        return lacking

    def _lacking_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        return numbers.difference(self._log.get(sender, _NOTHING)).difference(self._gone.get(sender, _NOTHING))

    def _committed(self, now: float, happened: Committed, out: Effects) -> None:
        self._consumers = happened.consumers

    def _damage_found(self, now: float, happened: DamageFound, out: Effects) -> None:
        """Another logger may have it; else members that ask for it are told that it is gone."""
        remove(self._log, happened.sender, happened.first, happened.last)
        self._damaged.setdefault(happened.sender, RangeSet()).add(happened.first, happened.last)
        if not self.ladder.roster.other_loggers():
            self._lose({}, out)
        if happened.asked_by in self.ladder.roster:  # it need not ask again to hear the truth
            numbers = {happened.sender: RangeSet.span(happened.first, happened.last)}
            out.append(Unicast(happened.asked_by, NeverSent(numbers, lost=True)))

    def _compared(self, now: float, source: int, message: Holdings, out: Effects) -> None:
        """The only other logger says what it holds: what is damaged here and not there is gone."""
        if self._damaged and message.parts == 1 and self.ladder.roster.other_loggers() == [source]:
            self._lose(message.numbers, out)

    def _lose(self, elsewhere: PacketSets, out: Effects) -> None:
        for sender, numbers in list(self._damaged.items()):
            for first, last in numbers.difference(elsewhere.get(sender, _NOTHING)).ranges():
                out.append(Collect(sender, first, last, overdue=True))
                self._gone.setdefault(sender, RangeSet()).add(first, last)
                remove(self._damaged, sender, first, last)

    def _acknowledge(self, run: Run, out: Effects) -> None:
        sender = run[0].sender
        out.append(Unicast(owner_of(sender), Ack({sender: RangeSet([(run[0].seqno, run[-1].seqno)])})))

    def _told_never_sent(self, now: float, source: int, message: NeverSent, out: Effects) -> None:
        """A sender says that these never were, or that it has forgotten them: what we lack of them, we will not get.

        If they come all the same, somebody had lied, and they are logged; of numbers that are still to come nobody can
        know. That there are no such packets is told to everybody: loggers take over that responsibility (000 §6.2).
        """
        for sender in [sender for sender in message.numbers if owner_of(sender) == source]:
            known = message.numbers[sender].within(0, self.ladder.streams.of(sender).next - 1)
            mine = self._lacking_of(sender, RangeSet(known))
            if message.lost:
                put(self._denied, sender, self._denied.get(sender, _NOTHING).union(mine))
                continue
            new = mine.difference(self.never_sent.get(sender, _NOTHING))
            if new:
                self.never_sent.setdefault(sender, RangeSet()).update(new)
                out.append(Multicast(NeverSent({sender: new}), channel=channel_of(sender)))
            if known:
                out.append(Unicast(source, NeverSent({sender: RangeSet(known)})))  # we know: it may leave

    def _sweep(self, now: float, out: Effects) -> None:
        self._arrivals.tidy(self._log)
        self._arrivals.remove(now - self.ladder.settings.log_timeout, inf, self._expired)
        self._retention.expire(now, self._log)
        for sender in self._due():
            expired = self._expired.get(sender, -1)
            free = min(self._retention.free.get(sender, -1), max(self._stable(sender), expired))
            for until, overdue in ((min(free, expired), True), (free, False)):
                for first, last in self._log[sender].within(0, until) if sender in self._log else ():
                    self._collect(now, Collect(sender, first, last, overdue), out)
        self._forget(now, out)
        self._timer.set(now + _SWEEP_ROUNDS * self.ladder.settings.gossip_period)

    def _due(self) -> list[int]:
        """The senders whose turn it is: not all of them at a time, if many have come and gone."""
        if not self._to_sweep:
            self._to_sweep = list(self._retention.free)
        due, self._to_sweep = self._to_sweep[:_SWEEP_SENDERS], self._to_sweep[_SWEEP_SENDERS:]
        return [sender for sender in due if sender in self._log]

    def _forget(self, now: float, out: Effects) -> None:
        """Forget that packets were collected, of senders that left and of which nothing is here any more.

        Another logger may have stored them later, and keep them for longer. Until it has collected them, too, we would
        take them for new, and so would it, in turn, for ever.
        """
        settings = self.ladder.settings
        patience = max(settings.retention_age, settings.log_timeout) if self.ladder.roster.other_loggers() else 0.0
        for sender in list(islice(self._finished, _SWEEP_SENDERS)):
            if self._finished[sender] > now - patience:
                break
            del self._finished[sender]
            if sender in self.ladder.streams or self.ladder.roster.knows(owner_of(sender)):
                self._finished[sender] = now
            elif sender not in self._log:  # else it is looked at again when that is collected
                for limits in (self._settled, self._expired, self._retention.free):
                    limits.pop(sender, None)
                for table in (self.never_sent, self._denied, self._lies):
                    table.pop(sender, None)
                if self._gone.pop(sender, None) is not None:
                    out.append(ForgetCollected(sender))

    def _stable(self, sender: int) -> int:
        """The number up to which every member that listens and is owed it has acknowledged the packets of `sender`."""
        had = self._had_by_members(sender)
        return min([had, *(positions.get(sender, -1) for positions in self._consumers.values())])

    def _had_by_members(self, sender: int) -> int:
        known, others = self.ladder.acknowledged, self.ladder.roster.others_owed(channel_of(sender))
        had = [known.get(member, {}).get(sender, -1) for member in others]
        return max(self._settled.get(sender, -1), min(had, default=self.ladder.streams.prefix_of(sender)))

    def _collect(self, now: float, effect: Collect, out: Effects) -> None:
        sender = effect.sender
        out.append(effect)
        self._gone.setdefault(sender, RangeSet()).add(effect.first, effect.last)
        remove(self._log, sender, effect.first, effect.last)
        if sender not in self._log:
            for table in (self._settled, self._expired, self._retention.free, self._finished):
                table.pop(sender, None)
            self._finished[sender] = now
