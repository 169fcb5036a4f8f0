"""Catastrophic losses (003 §5, 1b and 1c): what many have lost is multicast again, not repaired for each of them.

Gossip says what its source lacks, or shows it as holes in a digest. A member that hears of a hole that it has, too,
asks the packets' sender to multicast them again. If few have lost a packet that hardly ever happens; if all have, it
happens in the first round. A request comes of a gossip, so there are never more of them than of those; a member asks
for a packet no more than once in a round, and its sender multicasts it no more than once in a round, however many ask,
256 packets in all, and within its service limit.
"""

from collections.abc import Mapping
from itertools import islice

from gossamer.core.effects import Multicast, Unicast
from gossamer.core.ids import PEER, owner_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import Digest, Gossip, MulticastAgain, Repair
from gossamer.core.packet_sets import PacketSets, count, difference, intersection, put, take, union
from gossamer.core.ranges import RangeSet

_NOTHING = RangeSet()
_AT_ONCE = 64
"""Packets that one request names, at most."""
_IN_A_ROUND = 256
"""Packets that a sender multicasts again in a round, at most: a liar could ask for all that it keeps."""


class SharedGaps(Rung):
    """Both sides: a member that finds that it is not alone, and the sender."""

    __slots__ = ("_again", "_asked")

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._asked: tuple[PacketSets, PacketSets] = {}, {}  # in this round, and in the one before
        self._again: tuple[PacketSets, PacketSets] = {}, {}  # multicast again then

    def messages(self) -> Mapping[type, MessageHandler]:
        """Gossip, and the requests that come of it."""
        return {Gossip: self._gossiped, MulticastAgain: self._asked_again}

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """What did not help in a whole round may be asked for, and sent, again."""
        if self._asked[0] or self._asked[1]:
            self._asked = {}, self._asked[0]
        if self._again[0] or self._again[1]:
            self._again = {}, self._again[0]

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        theirs = gossip.missing or (_holes(gossip.digest) if gossip.digest is not None else {})
        if not theirs:
            return
        streams = self.ladder.streams
        mine = {sender: streams[sender].missing for sender in theirs if sender in streams}
        both = intersection(theirs, mine)
        for asked in self._asked:
            both = difference(both, asked)
        for sender, numbers in both.items():
            owner = owner_of(sender)
            if owner in self.ladder.roster and owner not in (self.ladder.me, source):
                wanted = take({sender: numbers}, _AT_ONCE)
                self._asked = union(self._asked[0], wanted), self._asked[1]
                out.append(Unicast(owner, MulticastAgain(wanted)))

    def _asked_again(self, now: float, source: int, message: MulticastAgain, out: Effects) -> None:
        """Only what is ours, is here, and was not multicast again a moment ago."""
        for sender in self.ladder.own:
            if sender in message.wanted:
                self._multicast_again(now, sender, message.wanted[sender], out)

    def _multicast_again(self, now: float, sender: int, numbers: RangeSet, out: Effects) -> None:
        wanted = RangeSet(numbers.ranges()[:_AT_ONCE])
        for again in self._again:
            wanted = wanted.difference(again.get(sender, _NOTHING))
        for seqno in islice(self.ladder.buffer.kept_of(sender, wanted), _AT_ONCE):
            packet = self.ladder.buffer.get(sender, seqno)
            if packet is None or count(self._again[0]) >= _IN_A_ROUND or not self.ladder.repair_queue.take(now):
                return
            self._again[0].setdefault(sender, RangeSet()).add(seqno)
            out.append(Multicast(Repair(packet, PEER)))


def _holes(digest: Digest) -> PacketSets:
    """What the source of a digest lacks between the packets that it has."""
    found: PacketSets = {}
    for sender, numbers in digest.buffered.items():
        if len(numbers.firsts) > 1:
            put(found, sender, RangeSet(numbers.gaps(numbers.first, numbers.last)))
    return found
