"""The members that follow a coordinator, and what each of them lacks: DESC of 001, as its owner keeps it.

Who follows is soft state: a follower that is not heard for a while is forgotten. What it lacks was told by itself or
by somebody for it; what was sent to it is taken off, and for a short while not believed to be lacking again, because
it may still be on its way. But a member that has asked for a packet in vain knows when to ask again.
"""

from collections.abc import Iterator
from typing import Any

from gossamer.core.packet_sets import PacketSets, difference, remove, union
from gossamer.core.ranges import RangeSet

RANGES_MAX = 5_000
"""A member that lacks more pieces than this is told to ask again for the rest: it is not remembered."""


class Followers:
    """What is known of each; the order in which they came is kept."""

    __slots__ = ("_asked", "_heard", "_lacking", "_sent", "_sent_before")

    def __init__(self) -> None:
        self._heard: dict[int, float] = {}
        self._lacking: dict[int, PacketSets] = {}  # also of members that only asked for something
        self._asked: dict[int, PacketSets] = {}  # of those lacking: asked for by the member itself
        self._sent: dict[int, PacketSets] = {}
        self._sent_before: dict[int, PacketSets] = {}

    def __contains__(self, member: int) -> bool:
        return member in self._heard

    def __iter__(self) -> Iterator[int]:
        return iter(self._heard)

    def __len__(self) -> int:
        return len(self._heard)

    def heard(self, now: float, member: int) -> None:
        """It follows."""
        self._heard[member] = now

    def lacks(self, member: int, numbers: PacketSets, *, asked: bool = False) -> None:
        """It lacks these, as far as they are not on their way; if they are `asked` for, it will notice if they are."""
        for sent in (self._sent.get(member), self._sent_before.get(member)):
            numbers = difference(numbers, sent) if sent else numbers
        known = self._lacking.get(member)
        total = numbers if known is None else union(known, numbers)
        if total and sum(n.range_count() for n in total.values()) <= RANGES_MAX:
            self._lacking[member] = {sender: n.copy() for sender, n in total.items()}
            if asked:
                self._asked[member] = union(self._asked.get(member, {}), numbers)

    def lack_nothing(self) -> None:
        """Forget what they lack."""
        self._lacking.clear()
        self._asked.clear()

    def lacking_of(self, member: int) -> PacketSets:
        """What it lacks, as far as is known."""
        return self._lacking.get(member, {})

    def anybody_lacks(self, sender: int) -> bool:
        """Whether anybody lacks a packet of `sender`."""
        return any(sender in lacking for lacking in self._lacking.values())

    def lacking(self) -> PacketSets:
        """What anybody lacks."""
        found: PacketSets = {}
        for numbers in self._lacking.values():
            for sender, some in numbers.items():
                found.setdefault(sender, RangeSet()).update(some)
        return found

    def take(self, sender: int, seqno: int) -> tuple[int, ...]:
        """Those that lack this packet, which is sent to them now."""
        found = [m for m, lacking in self._lacking.items() if sender in lacking and seqno in lacking[sender]]
        for member in found:
            if not remove(self._asked.get(member, {}), sender, seqno, seqno):
                self._sent.setdefault(member, {}).setdefault(sender, RangeSet()).add(seqno)
            self._gone(member, sender, seqno, seqno)
        return tuple(found)

    def forget_packets(self, sender: int, numbers: RangeSet) -> None:
        """Nobody is given these from here."""
        for member in [m for m, lacking in self._lacking.items() if sender in lacking]:
            for first, last in numbers.ranges():
                self._gone(member, sender, first, last)

    def _gone(self, member: int, sender: int, first: int, last: int) -> None:
        remove(self._asked.get(member, {}), sender, first, last)
        lacking = self._lacking.get(member, {})
        if sender in lacking:
            lacking[sender].discard(first, last)
            if not lacking[sender]:
                del lacking[sender]
                if not lacking:
                    del self._lacking[member]
                    self._asked.pop(member, None)

    def age(self, before: float) -> None:
        """A while has passed: forget those that were not heard since `before`, and what was sent a while ago."""
        for member in [m for m, at in self._heard.items() if at < before]:
            self.remove(member)
        self._sent_before, self._sent = self._sent, {}

    def remove(self, member: int) -> None:
        """It does not follow any more."""
        tables: tuple[dict[int, Any], ...] = (self._heard, self._lacking, self._asked, self._sent, self._sent_before)
        for table in tables:
            table.pop(member, None)
