"""What a member of a coordinated group lacks in channels that not all hear, and whom it asks for it.

A coordinator need not listen to a channel, so it cannot be the one that has everything, nor speak for senders there.
What is lacking is asked for at once, and then each retry period, of one of the listeners or of the sender; and each
sender sends null messages of its own (001 §4), more rarely after a while.
"""

from collections.abc import Callable

from gossamer.core.asking import Asking
from gossamer.core.effects import Multicast, Unicast
from gossamer.core.ids import channel_of, stream_of
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.messages import Heartbeat, Request
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Run
from gossamer.core.ranges import RangeSet

_OFTEN_BEATS = 16
"""Null messages come each period for this many of them after a packet, and then once in as many."""


class ChannelWants:
    """The requests of one member in all channels but 0."""

    def __init__(self, ladder: Ladder, retry_over: Callable[[float, bool, Effects], None]) -> None:
        """`retry_over` is called after each retry period in which something is lacking."""
        self._ladder = ladder
        self._retry_over = retry_over
        self._asking = Asking(ladder.settings.request_packets, adapts=True)
        self._beats: dict[int, tuple[int, int]] = {}  # by stream of ours: its last number, and beats since that
        self._retry = ladder.timer(self._tick)

    @property
    def wanted(self) -> PacketSets:
        """What is lacking."""
        return self._asking.wanted

    def add(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """These are lacking."""
        self._asking.add(sender, first, last)
        self._ask(now, {sender: RangeSet.span(first, last)}, out)
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
        self._asking.came(now, source, run)

    def beat(self, out: Effects) -> None:
        """A null period is over: tell the listeners of each channel of our last packet there."""
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
            target = self._ladder.peers.with_packets_of(sender)
            if target is not None:
                self._asking.asked(now, target, {sender: numbers})
                out.append(Unicast(target, Request({sender: numbers})))

    def _tick(self, now: float, out: Effects) -> None:
        self._retry_over(now, True, out)
        self._asking.tick(now)
        if self._asking.wanted:
            self._ask(now, None, out)
            self._asking.age()
            self._retry.set(now + self._ladder.settings.retry_period)
