"""Where is a sender? Asked of itself, when its own packets come far below what was seen of it.

Either they were overtaken, or somebody has lied: spoken of numbers, or sent packets under numbers, that the sender has
not come to yet. Believed, such a lie would cost the true packets: they would be taken for old when they come. So the
sender is asked, with a number that nobody else knows, and what it has not sent by then is forgotten (`Gaps.retract`).
What comes while the answer is on its way is not forgotten: it may be what the sender sent after it. And where the
answer bears out all that was seen when the question was asked, nobody has lied: what was spoken of since may be true as
well, and over a slow path the sender is well ahead of its answer.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gossamer.core.effects import Unicast
from gossamer.core.ids import channel_of, owner_of, stream_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.packet_sets import Horizon
from gossamer.core.questions import Here, Where
from gossamer.core.ranges import RangeSet

_NONCE_BITS = 62


class _Doubt(NamedTuple):
    """A question that was asked."""

    nonce: int
    again_at: float
    """When to ask again, if there is a reason."""
    since: int
    """The first number at which its own packets came."""
    heard: RangeSet
    """What had been heard of it from there on."""
    next: int
    """The first number that had not been seen."""


class Whereabouts(Rung):
    """Asks senders, and answers."""

    __slots__ = ("_doubts", "_lasts")

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._doubts: dict[int, _Doubt] = {}
        self._lasts: Horizon = {}  # what senders have said
        ladder.gaps.doubt = self._doubt

    def messages(self) -> Mapping[type, MessageHandler]:
        """The question, and its answer."""
        return {Where: self._asked, Here: self._answered}

    def retired(self, now: float, sender: int) -> None:
        """Nobody waits for its packets."""
        self._doubts.pop(sender, None)
        self._lasts.pop(sender, None)

    def _doubt(self, now: float, sender: int, first: int, out: Effects) -> bool:
        ladder, stream, doubt = self.ladder, self.ladder.streams[sender], self._doubts.get(sender)
        if owner_of(sender) not in ladder.roster or stream.next <= self._lasts.get(sender, -1) + 1:
            return False
        since = first if doubt is None else min(first, doubt.since)
        if doubt is not None and now < doubt.again_at:
            self._doubts[sender] = doubt._replace(since=since)
        else:
            self._ask(now, sender, since, out)
        return True

    def _ask(self, now: float, sender: int, since: int, out: Effects) -> None:
        ladder, stream = self.ladder, self.ladder.streams[sender]
        again_at = now + ladder.round_trips.patience(owner_of(sender), ladder.settings.gossip_period)
        heard = stream.received(RangeSet.span(since, stream.next - 1))
        self._doubts[sender] = _Doubt(ladder.rng.getrandbits(_NONCE_BITS), again_at, since, heard, stream.next)
        out.append(Unicast(owner_of(sender), Where(self._doubts[sender].nonce, channel_of(sender))))

    def _asked(self, now: float, source: int, message: Where, out: Effects) -> None:
        mine = self.ladder.own.get(stream_of(self.ladder.me, message.channel))
        if mine is not None:
            out.append(Unicast(source, Here(message.nonce, mine.next - 1, message.channel)))

    def _answered(self, now: float, source: int, message: Here, out: Effects) -> None:
        sender = stream_of(source, message.channel)
        doubt = self._doubts.get(sender)
        stream = self.ladder.streams.get(sender)
        if doubt is None or doubt.nonce != message.nonce or stream is None:
            return
        del self._doubts[sender]
        self._lasts[sender] = message.last
        if message.last + 1 < doubt.next:
            own = stream.received(RangeSet.span(message.last + 1, stream.next - 1)).difference(doubt.heard)
            self.ladder.gaps.retract(now, sender, doubt.since, message.last, own, out)
