"""The member's rounds: at the end of each, rungs do what is due, and one gossip goes to one other member.

000 §4.1 and 004 §4 gossip in rounds; buffers age in rounds; views, hashes of heartbeats and acknowledgements travel
with whatever gossip there is. So there is one round for all of them, and one message, to which every rung adds its
part. A protocol in which no rung needs gossip sends none.
"""

from collections.abc import Sequence
from typing import Any

from gossamer.core.effects import Unicast
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.messages import Gossip

_LOGGER_ROUNDS = 16
"""Every 16th round goes to a logger, so that acknowledgements reach it in groups of any size."""
_LOOK_ROUNDS = 16
"""And after as many we note how far senders have come."""
_STRETCH = 1.5


class Rounds:
    """Counts rounds, and makes them longer while nothing is missing if the settings allow it (000 §8)."""

    __slots__ = (
        "_fanout",
        "_gossiping",
        "_in_step",
        "_ladder",
        "_measures",
        "_period",
        "_round_over",
        "_speaks",
        "_timer",
        "number",
    )

    def __init__(self, ladder: Ladder, round_over: Sequence[Any], gossiping: Sequence[Any], *, speaks: bool) -> None:
        self.number = 0
        self._ladder = ladder
        self._round_over = round_over
        self._gossiping = gossiping
        self._speaks = speaks
        self._period = ladder.settings.gossip_period
        self._fanout = ladder.settings.fanout
        self._measures = ladder.round_trips.wanted
        self._in_step = not ladder.settings.unsynchronized
        self._timer = ladder.timer(self._end)

    def start(self, now: float) -> None:
        """Rounds are out of step, unless they are to be in step (004 opt. 5)."""
        if self._speaks or self._round_over:
            self._timer.set(self._next(now) if self._in_step else now + self._ladder.rng.random() * self._period)

    def hurry(self, now: float) -> None:
        """Something is missing: no long rounds now."""
        if self._period > self._ladder.settings.gossip_period:
            self._period = self._ladder.settings.gossip_period
            self._timer.set(min(self._timer.deadline, now + self._period))

    def _end(self, now: float, out: Effects) -> None:
        self.number = number = self.number + 1
        for hook in self._round_over:
            hook(now, number, out)
        ladder = self._ladder
        if number % _LOOK_ROUNDS == 0:
            ladder.gaps.look(now)
        if self._speaks and ladder.is_member:
            for _ in range(self._fanout):
                target = self._target()
                if target is not None:
                    self._gossip(now, target, out)
        if ladder.settings.gossip_period_max:
            self._stretch()
        self._timer.set(self._next(now) if self._in_step else now + self._period)

    def _next(self, now: float) -> float:
        """The next common end of a round."""
        return (int(now / self._period + 1e-6) + 1) * self._period

    def _gossip(self, now: float, target: int, out: Effects) -> None:
        gossip = Gossip()
        if self._measures:
            gossip.stamp = self._ladder.round_trips.stamp(now, target, self.number)
        for hook in self._gossiping:
            hook(now, target, gossip)
        if gossip.says_something():
            out.append(Unicast(target, gossip))

    def _target(self) -> int | None:
        ladder = self._ladder
        if ladder.roster.loggers and self.number % _LOGGER_ROUNDS == 0:
            loggers = ladder.roster.loggers_to_ask()
            if loggers:
                return ladder.rng.choice(loggers)
        return ladder.peers.target()

    def _stretch(self) -> None:
        if not any(stream.missing for stream in self._ladder.streams.values()):
            longest = self._ladder.settings.gossip_period_max
            self._period = max(self._period, min(_STRETCH * self._period, longest))
