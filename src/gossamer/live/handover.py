"""Handing over to the application: in order, and a limited amount in each turn of the event loop.

When a gap is filled at last, everything that waited for it may be delivered: megabytes, for which the loop would stand
still. So only so much goes over at once; the rest waits for the next turn, and everything else behind it.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from gossamer.core.effects import (
    BecomeListener,
    BecomeMember,
    BecomeStranger,
    Deliver,
    Effect,
    ForgetSender,
    HandLetter,
    InstallMap,
    MarkStable,
    NameTaken,
    PastKnown,
    Refuse,
    ReportBlocked,
    ReportLost,
    TakeBack,
    UndoDeliveries,
)
from gossamer.core.ids import Phase
from gossamer.core.packets import Run, memory_of

_AT_ONCE_PACKETS = 256
"""A run that is longer is cut; most are much shorter."""
_AT_ONCE_BYTES = 1 << 20
"""About what is handed over in one turn, if more than one run waits."""

FOR_APPLICATION = (
    *(Deliver, ReportLost, ReportBlocked, UndoDeliveries, TakeBack, MarkStable, ForgetSender),
    *(BecomeMember, BecomeListener, BecomeStranger, InstallMap, Refuse, PastKnown, NameTaken, HandLetter),
)
"""The effects that concern the application."""


class Handover:
    """What one member has for its application."""

    def __init__(self, deliver: Callable[[Run, Phase, int, int], None], tell: Callable[[Effect], None]) -> None:
        self._deliver = deliver
        self._tell = tell
        self._late: deque[Effect] = deque()
        self._given = 0  # packets of the first that waits
        self._loop = asyncio.get_running_loop()

    def give(self, effects: list[Effect]) -> None:
        """Hand these over, at once if nothing waits and they are few."""
        for effect in effects:
            if self._late:
                self._late.append(effect)
            elif not isinstance(effect, Deliver):
                self._tell(effect)
            elif len(effect.run) <= _AT_ONCE_PACKETS:
                self._deliver(effect.run, effect.phase, effect.place, effect.under)
            else:
                self._late.append(effect)
                self._loop.call_soon(self._go_on)

    def finish(self) -> None:
        """Hand over all that waits."""
        while self._late:
            self._next()

    def _go_on(self) -> None:
        room = _AT_ONCE_BYTES
        while self._late and room > 0:
            room -= self._next()
        if self._late:
            self._loop.call_soon(self._go_on)

    def _next(self) -> int:
        """Hand over the first that waits, or a part of it; returns about how many bytes that were."""
        effect = self._late.popleft()
        if not isinstance(effect, Deliver):
            self._tell(effect)
            return 0
        part = effect.run[self._given : self._given + _AT_ONCE_PACKETS]
        place = effect.place + self._given if effect.place >= 0 else -1
        self._given += len(part)
        if self._given < len(effect.run):
            self._late.appendleft(effect)  # to go on after what was given of it
        else:
            self._given = 0
        self._deliver(part, effect.phase, place, effect.under)
        return memory_of(part)
