"""Stability: what every member is taken to have, told to the application. One rung per meaning of the word.

`aged` (004 §3): what the buffer has kept, and gossip has offered, for `gc_rounds` rounds. It holds with high
probability, for the packets of all senders. `acknowledged`: what every member of the view has said that it has, in
gossip. It is certain, and each member learns it of its own packets.
"""

from collections.abc import Mapping

from gossamer.core.declares import AGEING, Declares
from gossamer.core.effects import MarkStable
from gossamer.core.ids import channel_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import Gossip
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings
from gossamer.core.streams import streams_of


class AgedStability(Rung):
    """What has been gossiped about for long enough is stable."""

    __slots__ = ()

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """A buffer that lets go of packets because of their age, not for lack of room."""
        return Declares(needs=(AGEING,))

    def collected(self, now: float, numbers: PacketSets, aged: bool, out: Effects) -> None:
        """Tell the application."""
        if aged:
            for sender, gone in numbers.items():
                for first, last in zip(gone.firsts, gone.lasts, strict=True):
                    out.append(MarkStable(sender, first, last))


class AcknowledgedStability(Rung):
    """Each member tells a sender how far it has its packets, and the sender takes the minimum."""

    gossips = True

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._stable_below: Horizon = {}  # by stream of ours

    def messages(self) -> Mapping[type, MessageHandler]:
        """Gossip, which `Presence` has taken in."""
        return {Gossip: self._gossiped}

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """Tell the target how far we have what it sent."""
        for sender in streams_of(to, self.ladder.streams):
            gossip.seen[sender] = self.ladder.streams[sender].prefix()

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """Nobody waits for a member that left."""
        self._settle(out)

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if any(stream in gossip.seen for stream in self.ladder.own):
            self._settle(out)

    def _settle(self, out: Effects) -> None:
        """A packet is stable when all have it that listen to its channel."""
        known = self.ladder.acknowledged
        for sender, stream in self.ladder.own.items():
            last = stream.next - 1
            below = max(self._stable_below.get(sender, 0), self.ladder.first_number)
            for member in self.ladder.roster.others_owed(channel_of(sender)):
                last = min(last, known.get(member, {}).get(sender, -1))
            if last >= below:
                out.append(MarkStable(sender, below, last))
                below = last + 1
            self._stable_below[sender] = below
