"""What every member does with a gossip, whatever else it runs: it answers, and remembers what the other one has.

A stamp is echoed, so that the source learns the round-trip time. How far the source has a sender's packets counts only
if its view of the group is ours: else it may know of a member that joined meanwhile and still needs what is about to be
forgotten (000 §5.3).
"""

from collections.abc import Mapping

from gossamer.core.effects import Unicast
from gossamer.core.ladder import Effects, MessageHandler, Rung
from gossamer.core.messages import Echo, Gossip
from gossamer.core.ranges import RangeSet
from gossamer.core.roster import Roster


class Presence(Rung):
    """Echoes, round-trip times, and acknowledgements derived from gossip (000 §5.2)."""

    __slots__ = ()

    def messages(self) -> Mapping[type, MessageHandler]:
        """Gossip of any kind, and echoes."""
        return {Gossip: self._gossiped, Echo: self._echoed}

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """Forget what members had that nothing is owed to any more."""
        owed = set(self.ladder.roster.owed)
        for member in [m for m in self.ladder.acknowledged if m not in owed]:
            del self.ladder.acknowledged[member]

    def retracted(self, now: float, sender: int, last: int, own: RangeSet) -> None:
        """Members that believe the same lies have acknowledged what was not sent yet: who knows what they have."""
        for known in self.ladder.acknowledged.values():
            if known.get(sender, -1) > last:
                del known[sender]

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if gossip.stamp:
            out.append(Unicast(source, Echo(gossip.stamp)))
        if gossip.seen and gossip.view == self.ladder.roster.signature:
            known = self.ladder.acknowledged.setdefault(source, {})
            for sender, last in gossip.seen.items():
                stream = self.ladder.streams.get(sender)
                # nobody acknowledges what we have never heard of; or who does believes a lie that we know of
                if stream is not None and (last < stream.next or not stream.lied_about):
                    known[sender] = max(known.get(sender, -1), min(last, stream.next - 1))

    def _echoed(self, now: float, source: int, message: Echo, out: Effects) -> None:
        self.ladder.round_trips.echoed(now, source, message.stamp)
