"""What may leave a little later (`Unicast.later`): when the application has had its turn with what was handed over.

To send a datagram takes longer than to hand over an event, and wakes up whoever gets it, who then takes the processor
from others. The event loop gives turns in the order in which they are asked for, and whoever waits for an event has
asked for one when that was handed over.
"""

import asyncio
from collections.abc import Callable

from gossamer.core.effects import Deliver, Effect, Unicast


class Later:
    """What one member has not sent yet."""

    def __init__(self, send: Callable[[list[Effect]], None]) -> None:
        """`send` gets what waits when it is time, unless it went `before` something else."""
        self._send = send
        self._held: list[Effect] = []
        self._loop = asyncio.get_running_loop()

    def hold(self, effects: list[Unicast]) -> None:
        """These wait; call this after what there is for the application was handed over."""
        if not self._held:
            self._loop.call_soon(self._go)
        for effect in effects:
            effect.later = False
        self._held += effects

    def _go(self) -> None:
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


def only_later(effects: list[Effect]) -> list[Unicast]:
    """What leaves, if all that leaves may do so later, and everything else is to be delivered; else nothing."""
    found: list[Unicast] = []
    for effect in effects:
        if type(effect) is Unicast and effect.later:
            found.append(effect)
        elif type(effect) is not Deliver:
            return []
    return found
