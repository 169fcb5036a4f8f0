"""Repair by coordinators (001): what was missed crosses a mended link once, and reaches exactly those that lack it.

Each part of the group has one coordinator (`coordinator_tree`), to which the others say now and then that they follow
it, and what they lack. When a partition heals, the coordinator of one side comes to follow that of the other and tells
it, in one message, what all of its side have and lack (`Descendants`). That one fills what it can (`descent`), asks
for what it lacks itself, and goes on filling as that comes: redelivery down the tree and up.

A packet that was lost in passing is asked for at once, of a member near by (`wants`); a member that lacks it, too,
sends it on as soon as it comes (§4.1, the end). But while anybody is missing from the tree, nobody but the coordinator
is asked: others may be behind a link that is about to be mended, and what crosses it should cross it once.

Null messages tell of last packets that were lost (`last_numbers`); a member that has more than the coordinator says
so. Thus a packet that reached one member before its sender failed comes to everybody who is connected to that member
(§3 (4)).
"""

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Any

from gossamer.core.declares import COPIES_KEPT, LAST_PACKETS, Declares
from gossamer.core.effects import Multicast, Note, Unicast
from gossamer.core.ids import channel_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.messages import Collected, Descendants, Heartbeat, IAmCoordinator, Request
from gossamer.core.packet_sets import Horizon, by_channel
from gossamer.core.packets import Run
from gossamer.core.parts import Repair
from gossamer.core.ranges import RangeSet
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings
from gossamer.repair.account import Account
from gossamer.repair.channel_wants import ChannelWants
from gossamer.repair.coordinator_tree import CoordinatorTree
from gossamer.repair.descent import Descent
from gossamer.repair.last_numbers import LastNumbers
from gossamer.repair.wants import Wants

_REFRESH_S = 0.005
"""A coordinator hears from one of its followers this often on average, if there are many."""
_ENOUGH_PACKETS = 10_000
"""A buffer that keeps this many is taken to keep what a partition misses."""
_HEALING_BEATS = 16
"""A heal is over if for so many null periods nothing came of it."""
_RETURN_BEATS = 2
"""If we never missed those that are back, or have nothing for them, that was no partition: only so long it may be one.
Where many messages are lost, somebody takes over for a moment all the time."""
_MEASURE_REFRESHES = 8
"""Every so often a member measures how far one of its list is."""


class Coordinator(Repair):
    """Both sides of it: a coordinator, and a member that follows one."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self.tree = CoordinatorTree(ladder, self._report)
        self.account = Account()
        self.descent = Descent(ladder, self.account)
        self._numbers = LastNumbers(ladder)
        self.wants = Wants(ladder, self.tree, self.descent, self._move_on_old)
        self._elsewhere = ChannelWants(ladder, self.account, self._move_on_old)
        self._found: deque[tuple[int, int, int, int]] = deque()  # at which tick, sender, first, last
        self._ticks = self._refreshes = self._filled = 0
        self._told = False  # whether the gap that is being found was learned from the tree
        self._was_whole = False  # whether all have followed us at any time
        self._surplus: Horizon = {}  # what the coordinator seems to lack
        self._refresh_at = self._beat_at = self._healing_until = self._settled_at = 0.0
        self._beat = ladder.timer(self._period_over)
        self._tell = ladder.timer(self._tell_surplus)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Members fill what they still keep; the rest is known to be lost. Each part has one coordinator.

        If all gaps come here and nothing is collected soon, a partition's members have the same messages; and if nobody
        else sends repairs, what was missed crosses once. That is checked where there is one channel; in others, which a
        coordinator need not hear, senders fill what listeners lack.
        """
        keeps = settings.repair[:1] == ("coordinator",) and settings.buffering == "size"
        keeps = keeps and settings.channels == 1
        same = ("same-messages",) if keeps and settings.buffer_packets >= _ENOUGH_PACKETS else ()
        once = ("one-crossing",) if same and settings.repair == ("coordinator",) else ()
        return Declares(
            promises=("eventual-or-lost",),
            always=("one-coordinator", *same, *once),
            needs=(COPIES_KEPT,),
            provides=(LAST_PACKETS,),
        )

    def messages(self) -> Mapping[type, MessageHandler]:
        """Those of the tree, and what packets are lacking."""
        return {
            **self.tree.messages(),
            IAmCoordinator: self._led,
            Descendants: self._described,
            Request: self._requested,
            Collected: self._told_collected,
            Heartbeat: self._elsewhere.heard,
        }

    # The tree.

    def started(self, now: float, out: Effects) -> None:
        """Beats are out of step, but a member that nobody may lead begins at once."""
        self._beat_at = now
        self.tree.begin(now)
        self._beat.set(now + (self.ladder.rng.random() * self._period if self.tree.list() else 0.0))

    def leaving(self, now: float, out: Effects) -> None:
        """A member on its way out leads nobody, and follows nobody."""
        self._beat.set(inf)
        self.tree.begin(now)
        out.append(Note("coordinator", phase="leaving"))

    def reconnected(self, now: float, out: Effects) -> None:
        """Much may have been missed: look for the others at once."""
        self.tree.search(now, out)

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """Those that left follow nobody."""
        self.descent.keep_only(self.ladder.roster)
        self._elsewhere.descent.keep_only(self.ladder.roster)
        self.tree.view_changed(now, out)

    def retired(self, now: float, sender: int) -> None:
        """Nobody asks for its packets."""
        self.wants.forget_sender(sender)

    @property
    def _period(self) -> float:
        return self.ladder.settings.null_period

    @property
    def _refresh_period(self) -> float:
        return max(2 * self._period, _REFRESH_S * len(self.ladder.roster.owed))

    def _period_over(self, now: float, out: Effects) -> None:
        self._beat.set(now + self._period)
        stood_still = now - self._beat_at > 3 * self._period
        self._beat_at = now
        if not self.ladder.is_member or stood_still:
            self.tree.begin(now)
        if not self.ladder.is_member:
            return
        self.tree.look(now, out)
        heard_since = now - self.ladder.settings.null_misses * self._refresh_period
        self._elsewhere.beat(now, heard_since, out)
        self.descent.age(now, heard_since, out)
        if self.tree.leads:
            self._numbers.beat()
            whole = not self.descent.absent()
            self.account.looked(now, whole)
            if now < self._healing_until and self.account.filled > self._filled:
                self._heal(now)
            self._filled = self.account.filled
            self.tree.whole = whole and now >= max(self._healing_until, self._settled_at)
            self._was_whole |= whole
            if self.tree.speaks(now):  # event 5
                out.append(Multicast(IAmCoordinator(self._numbers.named(), self.tree.whole)))
        elif self.tree.coordinator is not None and now >= self._refresh_at:
            self._refresh(now, self.tree.coordinator, out)

    def _refresh(self, now: float, coordinator: int, out: Effects) -> None:
        """Say that we follow, and what we lack."""
        self._refresh_at = now + self._refresh_period * (0.75 + self.ladder.rng.random() / 2)
        self._refreshes += 1
        asks = self.descent.asks_for_all
        out.append(Unicast(coordinator, Descendants(self._numbers.added(), self.wants.told(), asks=asks)))
        if self._refreshes % _MEASURE_REFRESHES == 0:
            self.tree.measure(now, out)

    def _report(self, now: float, coordinator: int, out: Effects) -> None:
        """Action 3: we led ourselves, and perhaps others, until now. Tell the coordinator of everybody."""
        self._refresh_at = now + self._refresh_period
        self.wants.turn_to_coordinator(now)
        out.append(Unicast(coordinator, self.descent.everything()))
        self.descent.hand_over()

    def _led(self, now: float, source: int, message: IAmCoordinator, out: Effects) -> None:
        """Event 6, and a null message of all senders."""
        before = self.tree.coordinator
        if not self._is_member(source) or not self.tree.heard(now, source, out):
            return
        if before != source:
            self._numbers.forget()
            self.wants.turn_to_coordinator(now)
        self.tree.whole = message.whole
        for sender, last in message.lasts.items():
            self._learn(now, sender, last, out)
        self._surplus = self._numbers.ahead(message.lasts)
        if self._surplus:  # the sender itself need not wait for others to say it
            self._tell.set(
                now if self.ladder.me in self._surplus else now + self.ladder.rng.random() * 2 * self._period
            )

    def _heal(self, now: float) -> None:
        """A side has come back, or is still being served: the group is not whole before that is over."""
        self._healing_until = now + _HEALING_BEATS * self._period

    def _is_member(self, source: int) -> bool:
        """Whether it may have a say; counted if not."""
        known = self.ladder.roster.knows(source)
        self.ladder.ignored["not from a member"] += not known
        return known

    def _tell_surplus(self, now: float, out: Effects) -> None:
        """Redelivery up the tree: the coordinator may ask for what it lacks."""
        coordinator = self.tree.coordinator
        if coordinator is not None and not self.tree.leads and self._surplus:
            out.append(Unicast(coordinator, Descendants(self._surplus, {})))

    def _learn(self, now: float, sender: int, last: int, out: Effects) -> None:
        self._told = True
        self.ladder.gaps.learn(now, sender, last, out)
        self._told = False

    def _described(self, now: float, source: int, message: Descendants, out: Effects) -> None:
        """Event 4: fill, and pass on what cannot be filled here."""
        if not self._is_member(source) or not self.descent.credible(message):
            return
        if any(map(channel_of, message.missing)):
            self._elsewhere.described(now, source, message, out)
            return
        leads = self.tree.leads
        is_back = leads and (
            message.complete or (self._was_whole and not self.tree.whole and source not in self.descent.followers)
        )
        sides = (source, *message.others)
        was_missed = any(member not in self.descent.followers for member in sides if member != self.ladder.me)
        if is_back:
            self.account.healed(now, len(sides), ongoing=now < self._healing_until)
        comes = self.wants.fetched_for_all() if leads and not message.complete else {}
        rest = self.descent.take_in(now, source, message, self._numbers.latest, leads, comes)
        if leads:
            self._learn_from(now, source, message, out)
        if is_back:
            if was_missed and self.descent.can_fill(sides):
                self._heal(now)
            self._settled_at = now + _RETURN_BEATS * self._period
        self.descent.tell(source, rest.missing, out)
        lacks_something = bool(rest.missing or any(rest.others.values()))
        if self.tree.coordinator is None and lacks_something:
            self.tree.search(now, out)
        elif not leads and self.tree.coordinator not in (None, source) and (lacks_something or message.complete):
            rest.asks &= not self.wants.includes(rest.missing)  # what we lack, too, we ask for ourselves
            out.append(Unicast(self.tree.coordinator, rest))

    def _learn_from(self, now: float, source: int, message: Descendants, out: Effects) -> None:
        """Whoever has what we lack can be asked for it (appendix I)."""
        for sender, last in message.lasts.items():
            if sender not in self.ladder.own and last > self.ladder.streams.prefix_of(sender):
                self._learn(now, sender, last, out)
                self._fetch(now, sender, source, message)
        for sender, numbers in message.missing.items():
            if numbers:
                self._learn(now, sender, numbers.last, out)

    def _fetch(self, now: float, sender: int, source: int, message: Descendants) -> None:
        """Ask this member for what it has, unless another was asked already.

        What a side has that has come back nobody here has: it is for all that follow, but for that side. Who is asked
        for it sends it to all of them by one multicast, so that it crosses the link once, and not back again. A logger
        gets it from the senders, and sends it on.
        """
        stream = self.ladder.streams.get(sender)
        missing = RangeSet() if stream is None else stream.missing
        lacking = missing.difference(message.missing.get(sender, RangeSet()))
        lacking = RangeSet(lacking.within(0, message.lasts[sender]))
        alone = self.tree.whole and not message.complete  # else a side is back, whichever of its members is heard first
        others = () if alone else self.descent.others_than({source, *message.others})
        if self.ladder.is_logger:
            self.descent.lacking_here(others, {sender: lacking})
        else:
            self.wants.fetch(now, sender, source, lacking, others)
            if others:
                self.descent.followers.forget_packets(sender, lacking)  # some may have asked for them already

    # Gaps.

    def repair(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """Ask for these, now or soon."""
        self._found.append((self._ticks, sender, first, last))
        if channel_of(sender):
            self._elsewhere.add(now, sender, first, last, out)
        else:
            self.wants.add(now, sender, first, last, told=self._told)

    def release(self, sender: int, first: int, last: int) -> None:
        """Another rung's turn."""
        self._wants_of(sender).remove(sender, first, last)

    def _wants_of(self, sender: int) -> Wants | ChannelWants:
        return self._elsewhere if channel_of(sender) else self.wants

    def repaired(self, now: float, source: int, run: Run) -> None:
        """Somebody has answered."""
        self._wants_of(run[0].sender).came(now, source, run)

    def gap_closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """It came, or nobody waits for it any more; others may wait for it."""
        if channel_of(sender):
            self._elsewhere.closed(now, sender, first, last, out)
            self._elsewhere.descent.came(now, sender, first, last)
            return
        if self.wants.closed(now, sender, first, last):
            if now < self._healing_until:
                self._heal(now)
            self.account.received += last - first + 1
        self.descent.came(now, sender, first, last)

    def eager(self, now: float) -> bool:
        """What the tree has told, or a partition has kept, is not for others to ask for one by one."""
        return self._told or (self.tree.coordinator is not None and not self.tree.whole)

    def _move_on_old(self, now: float, stuck: bool, out: Effects) -> None:
        """A gap that nobody fills goes to the next repair, or is lost.

        If there is none, what is missing may be with those that are missing: unless `loss_patience` says how long to
        wait for them, only time in which all members are in the tree counts, and in which nothing else came.
        """
        settings = self.ladder.settings
        if stuck and (self.tree.whole or settings.loss_patience or self._is_relieved()):
            self._ticks += 1
        usual = settings.peer_rounds * settings.gossip_period
        oldest = self._ticks - self.ladder.gaps.patience(self, usual) / settings.retry_period
        while self._found and self._found[0][0] < oldest:
            _, sender, first, last = self._found.popleft()
            self._move_on(now, sender, RangeSet.span(first, last), "nobody has it", out)

    def _is_relieved(self) -> bool:
        """Whether another repair can take over from this one."""
        repairs = self.ladder.gaps.repairs
        return any(repair.ready() for repair in repairs[repairs.index(self) + 1 :])

    def _move_on(self, now: float, sender: int, numbers: RangeSet, why: str, out: Effects) -> None:
        wants = self._wants_of(sender)
        for first, last in numbers.intersection(wants.wanted.get(sender, RangeSet())).ranges():
            wants.remove(sender, first, last)
            self.ladder.gaps.escalate(now, self, sender, first, last, why, out)

    def _told_collected(self, now: float, source: int, message: Collected, out: Effects) -> None:
        """A note that a packet was collected counts if another repair may have it."""
        if self._is_relieved():
            for sender, numbers in message.gone.items():
                self._move_on(now, sender, numbers, "collected", out)

    def _requested(self, now: float, source: int, message: Request, out: Effects) -> None:
        """What is asked of us and lacking here, too, is passed on when it comes."""
        if self.ladder.roster.knows(source):
            for channel, wanted in by_channel(message.wanted).items():
                descent = self._elsewhere.descent if channel else self.descent
                descent.asked_in_vain(source, wanted)

    # For those who look.

    def partition(self, now: float) -> dict[str, Any]:
        """Where this member stands: its coordinator, who is on its side as far as it knows, and what was exchanged."""
        standing = {"whole": self.tree.whole, "missing": self.wants.count + self._elsewhere.count}
        seen = (
            self.descent.seen() | self.account.of_divisions(now) if self.tree.leads else {"followers": [], "absent": []}
        )
        return self.tree.standing(now) | standing | self.account.counts() | seen
