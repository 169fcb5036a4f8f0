"""Members that leave when it is safe, as applications do (`live.safety`): when what they published is logged or, where
there is no logger, with all that listen; and when the others can give packets their order without them.

What only a member had that is gone is lost. In a channel that few hear that happens soon: a packet that none of them
received is with nobody but its sender.
"""

from collections.abc import Callable

from gossamer.core.ids import channel_of
from gossamer.core.inputs import ConfirmAsked, GoAsked, LeaveAsked
from gossamer.core.ladder import Automaton
from gossamer.sim.world import ABSENT, UP, World
from gossamer.stack import Stack

PATIENCE_S = 5.0
"""After this long a member leaves anyway."""
_LOOK_S = 0.01


class Leaving:
    """The members of one run that are about to leave."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._until: dict[int, float] = {}
        self._then: dict[int, Callable[[int], None]] = {}

    def __len__(self) -> int:
        return len(self._until)

    def begin(self, member: int) -> None:
        """`member` publishes no more, and leaves as soon as it may."""
        world, stack = self._world, self._world.stacks[member]
        if member in self._until:
            return
        world.silent.add(member)
        self._until[member] = world.now + PATIENCE_S
        if not _is_safe(stack) and not _awaits_loggers(stack):
            world.step(member, ConfirmAsked())
        if isinstance(stack, Stack) and not stack.order.may_go():
            world.step(member, GoAsked())
        self._look((member, stack))

    def then(self, member: int, do: Callable[[int], None]) -> None:
        """Do this with `member`: at once, or when it has left."""
        if member in self._until:
            self._then[member] = do
        else:
            do(member)

    def _look(self, argument: tuple[int, Automaton | None]) -> None:
        member, stack = argument
        world, state = self._world, self._world.states[member]
        if state == ABSENT or world.stacks[member] is not stack:  # it has crashed and begun again
            self._end(member)
        elif state == UP and (world.now >= self._until[member] or _is_safe(stack)):
            world.step(member, LeaveAsked())
            self._end(member)
        else:
            world.at(world.now + _LOOK_S, self._look, argument)

    def _end(self, member: int) -> None:
        del self._until[member]
        if member in self._then:
            self._return(member)

    def _return(self, member: int) -> None:
        """It wants to be back: not before it has left."""
        if self._world.states[member] == ABSENT:
            self._then.pop(member)(member)
        else:
            self._world.at(self._world.now + _LOOK_S, self._return, member)


def _awaits_loggers(stack: Automaton | None) -> bool:
    return isinstance(stack, Stack) and stack.awaits_loggers()


def _is_safe(stack: Automaton | None) -> bool:
    """Whether nothing is lost if it goes. Agreed views see to that themselves: they end with what leavers have sent."""
    if not isinstance(stack, Stack) or stack.settings.membership == "synchronous":
        return True
    if not stack.order.may_go():
        return False
    if stack.awaits_loggers():
        logged = all(stack.settled(channel_of(stream)) >= own.next for stream, own in stack.own.items())
        return logged and not stack.unexplained()
    return not stack.settings.repair or not stack.unconfirmed()
