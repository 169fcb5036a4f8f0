"""What may leave a little later (`Unicast.later`): when the application has had its turn with what was handed over.

To send a datagram takes longer than to hand over an event, and wakes up whoever gets it, who then takes the processor
from others. The event loop gives turns in the order in which they are asked for, and whoever waits for an event has
asked for one when that was handed over. If the application needs long for its turn, nothing waits for it for a while.
"""

import asyncio
from collections.abc import Callable
from time import monotonic

from gossamer.core.effects import Deliver, Effect, Unicast

_LONG_S = 0.005
"""A turn is long: somebody waits for what leaves later, too."""
_AT_ONCE_S = 1.0
"""For so long nothing waits after that."""


class Later:
    """What one member has not sent yet."""

    def __init__(self, send: Callable[[list[Effect]], None]) -> None:
        """`send` gets what waits when it is time, unless it went `before` something else."""
        self._send = send
        self._held: list[Effect] = []
        self._since = self._at_once_until = 0.0
        self._loop = asyncio.get_running_loop()

    def may_wait(self, effects: list[Effect]) -> list[Unicast]:
        """What leaves, if all that leaves may do so later, and everything else is to be delivered; else nothing."""
        found: list[Unicast] = []
        for effect in effects:
            if type(effect) is Unicast and effect.later:
                found.append(effect)
            elif type(effect) is not Deliver:
                return []
        return found if found and monotonic() > self._at_once_until else []

    def hold(self, effects: list[Unicast]) -> None:
        """These wait; call this after what there is for the application was handed over."""
        if not self._held:
            self._since = monotonic()
            self._loop.call_soon(self._go)
        for effect in effects:
            effect.later = False
        self._held += effects

    def _go(self) -> None:
        now = monotonic()
        if now - self._since > _LONG_S:
            self._at_once_until = now + _AT_ONCE_S
        self._send(self.before([]))

    def before(self, effects: list[Effect]) -> list[Effect]:
        """What waits, and then these: so what goes to one destination keeps its order."""
        if not self._held:
            return effects
        held, self._held = self._held, []
        return held + effects

    def forget(self) -> None:
        """Nothing can be sent any more, or for now."""
        self._held = []
