"""What was sent before: an application may ask for packets of the past, as far as a logger holds them.

The member asks a logger what it holds, and then awaits it like any other gap; the order delivers the past before what
has come since. Asked again until a logger answers.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gossamer.core.effects import Unicast
from gossamer.core.inputs import RewindAsked
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung, TimerHandler
from gossamer.core.messages import Holdings, Horizon, Recall

_RETRY = "history.retry"


class History(Rung):
    """The wishes for the past that no logger has answered yet."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._since_ns: int | None = None
        self._positions: Horizon = {}

    def inputs(self) -> Mapping[type, Callable[[float, Any, Effects], None]]:
        """The wish."""
        return {RewindAsked: self._asked}

    def messages(self) -> Mapping[type, MessageHandler]:
        """A logger's holdings."""
        return {Holdings: self._told}

    def alarms(self) -> Mapping[str, TimerHandler]:
        """Ask again."""
        return {_RETRY: self._ask}

    def _asked(self, now: float, wish: RewindAsked, out: Effects) -> None:
        self._since_ns = wish.since_ns
        self._positions = dict(wish.positions)
        self._ask(now, out)

    def _ask(self, now: float, out: Effects) -> None:
        if self._since_ns is None:
            return
        if self.ladder.peers.loggers:
            out.append(Unicast(self.ladder.rng.choice(self.ladder.peers.loggers), Recall(self._since_ns)))
        self.ladder.timers.set(_RETRY, now + self.ladder.settings.retry_period)

    def _told(self, now: float, source: int, message: Holdings, out: Effects) -> None:
        if self._since_ns is None or source not in self.ladder.peers.loggers:
            return
        self._since_ns = None
        for sender, held in message.numbers.items():
            if held:
                first = max(held.first, self._positions.get(sender, 0))
                self.ladder.rewind(now, sender, first, held, out)
