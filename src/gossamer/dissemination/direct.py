"""First passes without helpers: `multicast` sends one packet to the group's address; `copies` one to each member.

`multicast` relies on the network (IP multicast crosses each link once). `copies` is the first half of the
basic algorithm of 001 §3, for networks that have nothing better.
"""

from gossamer.core.declares import ONE_MULTICAST, Declares
from gossamer.core.effects import Multicast, MulticastRun, Unicast
from gossamer.core.ids import channel_of
from gossamer.core.ladder import Effects, Rung
from gossamer.core.messages import Data
from gossamer.core.packets import Run
from gossamer.core.settings import ProtocolSettings


class MulticastPass(Rung):
    """One multicast per packet (000 §2.2, phase 1)."""

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """What is sent once reaches everyone."""
        return Declares(provides=(ONE_MULTICAST,))

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Send them to everyone at once that listens to their channel."""
        out.append(MulticastRun(run) if len(run) > 1 else Multicast(Data(run[0])))


class CopiesPass(Rung):
    """One unicast per packet and member (001 §3)."""

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Send a copy of its own to each other member that listens."""
        others = self.ladder.roster.others(channel_of(run[0].sender))
        for packet in run:
            message = Data(packet)
            out.extend(Unicast(member, message) for member in others)
