"""What everybody lost that hears a channel: the primary, which does not hear it, is told until it has its place."""

from random import Random

from gossamer.core.effects import Unicast
from gossamer.core.ids import stream_of
from gossamer.core.inputs import Started, Woke
from gossamer.core.places import Unplaced
from gossamer.core.settings import ProtocolSettings
from gossamer.stack import Stack

PRIMARY, LISTENER, SENDER = range(3)
STREAM = stream_of(SENDER, 1)
BEAT_S = 0.1


def listener() -> Stack:
    """One that hears a channel which the primary does not hear, and has given up the only packet sent there."""
    settings = ProtocolSettings(ordering="central", order_patience=10 * BEAT_S, channels=2)
    listening = {PRIMARY: 0, LISTENER: 0b10, SENDER: 0b10}
    made = Stack(LISTENER, (PRIMARY, LISTENER, SENDER), settings, Random(1), listening=listening)
    made.step(0.0, Started({}))
    made.order.sequence.primary = PRIMARY
    made.order.ladder.gaps.learn(0.0, STREAM, 0, out := [])
    made.order.ladder.gaps.give_up(0.0, STREAM, 0, 0, "nobody has it", out)
    return made


def test_a_loss_is_told_to_the_primary_until_it_has_a_place():
    """One word of it may be lost, and nobody else knows that there was anything."""
    stack = listener()
    told = [effect for beat in range(1, 9) for effect in stack.step(beat * BEAT_S + 0.001, Woke())]
    reminders = [e for e in told if isinstance(e, Unicast) and e.to == PRIMARY and e.message == Unplaced({STREAM: 0})]
    assert len(reminders) >= 6
