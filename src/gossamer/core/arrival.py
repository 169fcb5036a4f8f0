"""From a message to the input that it is: the one place where the simulator, live groups and tests agree on that."""

from gossamer.core.ids import FIRST_PASS, owner_of
from gossamer.core.inputs import Heard, Received
from gossamer.core.messages import Data, Message, Repair


def arrival(source: int, message: Message) -> Received | Heard:
    """What a member is told when `message` comes from `source`.

    A first pass counts as coming from the packet's sender, whoever forwarded it: a forwarded datagram is the sender's
    own, word for word, and names nobody else.
    """
    if isinstance(message, Data):
        return Received(owner_of(message.packet.sender), [message.packet], FIRST_PASS)
    if isinstance(message, Repair):
        return Received(source, [message.packet], message.phase)
    return Heard(source, message)
