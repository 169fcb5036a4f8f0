"""What a member of a coordinated group lacks in channels that not all hear, and whom it asks for it.

A coordinator need not listen to a channel, so it cannot be the one that has everything, nor speak for senders there.
Each sender sends null messages of its own (001 §4), more rarely after a while. What was lost in passing is asked for at
once of one of the listeners, and each retry period again. What a part of the group has missed all of its listeners
learn at the same time: each tells the sender what it lacks, and the sender fills it by one multicast to all of them
(`descent`), so that it crosses a mended link once. If that brings nothing, others are asked, in turns with the sender.
"""

from collections.abc import Callable

from gossamer.core.asking import Asking
from gossamer.core.effects import Multicast, Unicast
from gossamer.core.ids import channel_of, owner_of, stream_of
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.messages import Descendants, Heartbeat, Request
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Run
from gossamer.core.ranges import RangeSet
from gossamer.repair.account import Account
from gossamer.repair.descent import Descent

_OFTEN_BEATS = 16
"""Null messages come each period for this many of them after a packet, and then once in as many."""
_FEW = 8
"""More packets of a sender than this were not lost in passing."""


class ChannelWants:
    """The requests of one member in all channels but 0."""

    def __init__(self, ladder: Ladder, account: Account, retry_over: Callable[[float, bool, Effects], None]) -> None:
        """`retry_over` is called after each retry period in which something is lacking."""
        self.descent = Descent(ladder, account)
        """What others lack in these channels, and have told us."""
        self._ladder = ladder
        self._retry_over = retry_over
        self._tries = 0  # retry periods in which nothing came
        self._asking = Asking(ladder.settings.request_packets, window=ladder.request_window)
        self._beats: dict[int, tuple[int, int]] = {}  # by stream of ours: its last number, and beats since that
        self._retry = ladder.timer(self._tick)

    @property
    def wanted(self) -> PacketSets:
        """What is lacking."""
        return self._asking.wanted

    @property
    def count(self) -> int:
        """How many packets that is."""
        return self._asking.wanted_count

    def add(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """These are lacking."""
        self._asking.add(sender, first, last)
        self._ask(now, {sender: RangeSet.span(first, last)}, out)
        if last - first >= _FEW:
            self._tell(out)
        self._retry.arm(now + self._ladder.settings.retry_period)

    def remove(self, sender: int, first: int, last: int) -> bool:
        """These are not lacking any more, or another's business; returns whether any was lacking."""
        return self._asking.remove(sender, first, last)

    def closed(self, now: float, sender: int, first: int, last: int, out: Effects) -> bool:
        """These came, or nobody waits for them any more; returns whether they were lacking."""
        there = self._asking.remove(sender, first, last)
        if there and self._asking.wants_more():
            self._ask(now, None, out)
        return there

    def came(self, now: float, source: int, run: Run) -> None:
        """A repair has come."""
        self._tries = 0
        self._asking.came(now, source, run)

    def described(self, now: float, source: int, message: Descendants, out: Effects) -> None:
        """A listener says what it lacks."""
        rest = self.descent.take_in(now, source, message, {}, False, {})
        self.descent.asked_in_vain(source, rest.missing)
        self.descent.tell(source, rest.missing, out)

    def beat(self, now: float, heard_since: float, out: Effects) -> None:
        """A null period is over: tell the listeners of each channel of our last packet there."""
        self.descent.age(now, heard_since, out)
        for sender, stream in self._ladder.own.items():
            channel, last = channel_of(sender), stream.next - 1
            if not channel:
                continue
            known, beats = self._beats.get(sender, (-1, 0))
            beats = beats + 1 if known == last else 0
            self._beats[sender] = last, beats
            if beats < _OFTEN_BEATS or beats % _OFTEN_BEATS == 0:
                out.append(Multicast(Heartbeat(last, channel), channel=channel))

    def heard(self, now: float, source: int, message: Heartbeat, out: Effects) -> None:
        """A null message of a sender."""
        if message.channel:
            self._ladder.gaps.come_to(now, stream_of(source, message.channel), message.last, out)

    def _ask(self, now: float, among: PacketSets | None, out: Effects) -> None:
        wanted = self._ladder.gaps.worth_asking(now, self._asking.choose(among), out)
        for sender, numbers in wanted.items():
            spoken_to = self._filler(sender)
            target = self._ladder.peers.with_packets_of(sender) if spoken_to is None else spoken_to
            if target is not None:
                self._asking.asked(now, target, {sender: numbers})
                asks = Request({sender: numbers}) if spoken_to is None else Descendants({}, {sender: numbers})
                out.append(Unicast(target, asks))

    def _filler(self, sender: int) -> int | None:
        """The member that is told what we lack of this stream, if it is much: its owner."""
        owner, numbers = owner_of(sender), self._asking.wanted.get(sender)
        much = numbers is not None and len(numbers) > _FEW
        return owner if much and self._tries % 2 == 0 and self._ladder.roster.knows(owner) else None

    def _tell(self, out: Effects) -> None:
        """Where requests are limited, senders know from this who else lacks what one of the listeners asks for."""
        for sender, numbers in self._asking.wanted.items():
            owner = self._filler(sender)
            if owner is not None and not self.descent.asks_for_all:
                out.append(Unicast(owner, Descendants({}, {sender: numbers.copy()}, asks=False)))

    def _tick(self, now: float, out: Effects) -> None:
        self._retry_over(now, True, out)
        self._asking.tick(now)
        if self._asking.wanted:
            self._ask(now, None, out)
            self._tell(out)
            self._tries += 1
            self._asking.age()
            self._retry.set(now + self._ladder.settings.retry_period)
