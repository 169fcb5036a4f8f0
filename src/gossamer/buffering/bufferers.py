"""Which members keep a packet for long: those that hear its channel and for which H(packet, member) n < C (003 §3).

Each member works this out for itself, from its view of the group. Views may differ for a while: then members disagree
on a few bufferers of a packet, and agree on most. C is a setting, or follows the group's size (`core.copies`): the
fewest for which a packet is out of reach with no more than the wanted probability. If the group is not larger than C,
everybody is a bufferer.
"""

from gossamer.buffering.hashes import BLOCK, HASHES, RANGE
from gossamer.core.copies import copies_needed
from gossamer.core.ids import channel_of
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings

_KNOWN_BLOCKS = 1024
"""Blocks of packets whose bufferers are remembered: those who ask, ask for neighbours."""
_HASHES_PER_ROUND = 8192
"""To find the bufferers of a block takes a hash for each member. Nobody can make us compute more of them."""


def copies_of(settings: ProtocolSettings, members: int) -> int:
    """C in a group of this many members: at least one, at most everybody."""
    wanted = settings.bufferers
    if not wanted:
        needed = copies_needed(members, settings.buffer_failure, settings.buffer_loss)
        wanted = members if needed is None else needed
    return max(1, min(wanted, members))


class Bufferers:
    """The bufferers of all packets, as one member's view has them."""

    __slots__ = ("_blocks", "_hash", "_left", "_me", "_roster", "_settings", "_thresholds", "copies", "threshold")

    def __init__(self, settings: ProtocolSettings, roster: Roster) -> None:
        self._settings = settings
        self._me = roster.me
        self._hash = HASHES[settings.buffer_hash]
        self._left = _HASHES_PER_ROUND
        self.follow(roster)

    def follow(self, roster: Roster) -> None:
        """The group has changed."""
        self._roster = roster
        self.copies = copies_of(self._settings, max(1, len(roster.members)))
        self._thresholds: dict[int, int] = {}
        self.threshold = self._threshold(0)
        self._blocks: dict[tuple[int, int], list[list[int]]] = {}

    @property
    def are_all(self) -> bool:
        """Whether everybody keeps everything of channel 0."""
        return self.threshold >= RANGE

    def _threshold(self, sender: int) -> int:
        """Which hashes make a bufferer of a packet: that depends on how many hear its channel."""
        channel = channel_of(sender)
        if channel not in self._thresholds:
            members = max(1, len(self._roster.listeners(channel)))
            self._thresholds[channel] = -(-copies_of(self._settings, members) * RANGE // members)
        return self._thresholds[channel]

    def mine(self, sender: int, first: int, last: int) -> list[int]:
        """Which of `first..last` this member keeps."""
        threshold = self._threshold(sender)
        if threshold >= RANGE:  # everybody keeps everything
            return list(range(first, last + 1))
        hashed, me = self._hash, self._me
        found: list[int] = []
        for block in range(first // BLOCK, last // BLOCK + 1):
            base = block * BLOCK
            found += [base + at for at, number in enumerate(hashed(me, sender, block)) if number < threshold]
        if found and (found[0] < first or found[-1] > last):
            return [seqno for seqno in found if first <= seqno <= last]
        return found

    def round_over(self) -> None:
        """Others may make us compute again."""
        self._left = _HASHES_PER_ROUND

    def of(self, sender: int, seqno: int) -> list[int] | None:
        """The bufferers of a packet, ascending; None if that would take too much of our time in this round."""
        if self._threshold(sender) >= RANGE:
            return list(self._roster.listeners(channel_of(sender)))
        block, at = divmod(seqno, BLOCK)
        known = self._blocks.get((sender, block))
        if known is None:
            if self._left <= 0:
                return None
            known = self._remember(sender, block)
        return known[at]

    def _remember(self, sender: int, block: int) -> list[list[int]]:
        members, threshold = self._roster.listeners(channel_of(sender)), self._threshold(sender)
        self._left -= len(members)
        if len(self._blocks) >= _KNOWN_BLOCKS:
            del self._blocks[next(iter(self._blocks))]
        found = self._blocks[sender, block] = [[] for _ in range(BLOCK)]
        for member in members:
            for at, number in enumerate(self._hash(member, sender, block)):
                if number < threshold:
                    found[at].append(member)
        return found
