"""A queue: each event goes to one of several members, all of which hear it; each decides for itself which are its own.

Everybody applies the same rule to the same list of members, so mostly they agree. While lists differ for a moment, two
may take the same event, or nobody. Therefore members report what they have seen, taken and done. What another is
supposed to have, it has *claimed* once it reports it as taken. If it reports that it has seen it, and does not claim
it, it is an *orphan*, which the rule gives to one of the members that have it: each says from which packet of each
sender on it was there, and one that came later could not do what it never got. What a member that left had not done
becomes an orphan. So an event is handled at least once as long as one member of the queue that heard it is there. If
none is, those that came later, which know what others have in hand, report it as lost.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import islice
from operator import itemgetter
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from zlib import crc32

from gossamer.core.packet_sets import Horizon, PacketSets, difference, put, remove, union
from gossamer.core.ranges import RangeSet

By = Literal["any", "sender", "key"]
T = TypeVar("T", bound=tuple[Any, ...])
_SEQNO = itemgetter(4)
_CHOICES_MAX = 10_000
_AHEAD_MAX = 100_000
_IN_HAND_MAX = 20_000
"""Packets of which a new member is told that we have them in hand: they have to fit into a letter."""


class Report(NamedTuple):
    """What a member of a queue tells the others: how far it has seen each sender, and packets taken and done since."""

    seen: Horizon
    taken: PacketSets
    done: PacketSets
    list_hash: int
    """Of the members by which it has chosen."""
    since: Horizon
    """From which packet of each sender on it has all that the queue gets, as far as that is new."""


class Share(Generic[T]):
    """The events of one packet that are one member's."""

    __slots__ = ("claimed", "events", "list_hash", "orphan", "owner", "sender", "seqno")

    def __init__(self, owner: int, sender: int, seqno: int, events: list[T], list_hash: int) -> None:
        self.owner = owner
        self.sender = sender
        self.seqno = seqno
        self.events = events
        self.list_hash = list_hash  # of the members among whom the owner was chosen
        self.claimed = False
        self.orphan = False


class Queue(Generic[T]):
    """One queue as one member sees it; `T` is an event, a tuple of which the sender and the number are known places.

    What is returned are events that are now this member's own, in order.
    """

    def __init__(self, me: int, by: By, key_of: Callable[[T], str], events_max: int) -> None:
        self.members: tuple[int, ...] = (me,)
        self.forgotten = 0
        """Events that are no longer kept for the case that another dies, since there were too many."""
        self._me = me
        self._by = by
        self._key_of = key_of
        self._events_max = events_max
        self._events = 0
        self._open: dict[int, dict[int, list[Share[T]]]] = {}  # by sender, by packet
        self._oldest: deque[tuple[int, int]] = deque()
        self._undone: dict[tuple[int, int], int] = {}  # by packet: how many of our events are not done
        self._ahead: dict[tuple[int, int], dict[int, tuple[bool, int]]] = {}
        """Packets that are not here yet: who claims them, whether they are done, and by which list it has chosen."""
        self._seen_by: dict[int, Horizon] = {}
        self.since: Horizon = {}
        """By sender: from this packet on we have all that the queue gets."""
        self._since_of: dict[int, Horizon] = {me: self.since}
        self._since_news: Horizon = {}
        self._in_hand_of: dict[int, PacketSets] = {}  # what others have in hand that was sent before we came
        self._left_undone: PacketSets = {}
        self._choices: dict[Any, int] = {}
        self._taken: PacketSets = {}
        self._done: PacketSets = {}
        self._hash = _hash_of(self.members)

    # Which are ours.

    def arrived(self, events: list[T]) -> list[T]:
        """Events of one sender whose turn has come."""
        mine: list[T] = []
        first = 0
        while first < len(events):  # packets hold many events: look for where each ends, not at every one
            seqno = events[first][4]
            end = bisect_right(events, seqno, first, key=_SEQNO)
            mine += self._arrived(events[first][3], seqno, events[first:end])
            first = end
        return mine

    def _arrived(self, sender: int, seqno: int, events: list[T]) -> list[T]:
        mine: list[T] = []
        if sender not in self.since:
            self.since[sender] = self._since_news[sender] = seqno
        for owner, some in self._split(sender, seqno, events):
            share = Share(owner, sender, seqno, some, self._hash)
            if owner == self._me:
                mine += self._take(share)
            self._keep(share)
        for source, (done, list_hash) in self._ahead.pop((sender, seqno), {}).items():
            if self._chose_as_we_do(list_hash):
                self._claimed(source, sender, seqno)
                if done:
                    self._remove(sender, seqno, source)
        return mine + self._late(sender, seqno)

    def _late(self, sender: int, seqno: int) -> list[T]:
        """Others may have seen a packet long before us, and not claimed it."""
        mine: list[T] = []
        for share in list(self._open.get(sender, {}).get(seqno, ())):
            if not share.claimed and self._seen_by.get(share.owner, {}).get(sender, -1) >= seqno:
                share.orphan = True
                mine += self._give_away(share)
        return mine

    def lost(self, sender: int, last: int) -> None:
        """Packets up to this one do not come: what is older than the gap is better left to others that have it all."""
        if self.since.get(sender, last + 1) <= last:
            self.since[sender] = self._since_news[sender] = last + 1

    def _split(
        self, sender: int, seqno: int, events: list[T], among: tuple[int, ...] = ()
    ) -> list[tuple[int, list[T]]]:
        """Whose these are: of all members, or of some."""
        if self._by == "any":
            members = among or self.members
            return [(members[(seqno + sender) % len(members)], events)]
        if self._by == "sender":
            return [(self._chosen(sender, among), events)]
        shares: dict[int, list[T]] = {}
        for event in events:
            shares.setdefault(self._chosen(self._key_of(event) or sender, among), []).append(event)
        return list(shares.items())

    def _chosen(self, key: Any, among: tuple[int, ...] = ()) -> int:
        """The member with the highest hash for this key: if another comes or goes, few keys change their member."""
        if among and among != self.members:
            return _highest(key, among)
        found = self._choices.get(key)
        if found is None:
            if len(self._choices) >= _CHOICES_MAX:
                self._choices.clear()
            found = self._choices[key] = _highest(key, self.members)
        return found

    def _having(self, sender: int, seqno: int) -> tuple[int, ...]:
        """The members that have this packet, as all know; if nobody says so, we who have it do it."""
        having = [member for member in self.members if self._since_of.get(member, {}).get(sender, seqno + 1) <= seqno]
        return tuple(having) or (self._me,)

    def _take(self, share: Share[T]) -> list[T]:
        share.owner, share.claimed, share.orphan = self._me, True, False
        place = share.sender, share.seqno
        self._undone[place] = self._undone.get(place, 0) + len(share.events)
        self._taken.setdefault(share.sender, RangeSet()).add(share.seqno)
        remove(self._done, *place, share.seqno)  # not all of it is done any more, if that was not reported yet
        return share.events

    def _keep(self, share: Share[T]) -> None:
        self._open.setdefault(share.sender, {}).setdefault(share.seqno, []).append(share)
        self._events += len(share.events)
        self._oldest.append((share.sender, share.seqno))
        while self._events > self._events_max and self._oldest:
            sender, seqno = self._oldest.popleft()
            for old in self._open.get(sender, {}).pop(seqno, ()):
                self._events -= len(old.events)
                self.forgotten += len(old.events) if old.owner != self._me else 0

    # What is done.

    def done(self, sender: int, seqno: int, events: int = 1) -> None:
        """Some of our events of this packet are done."""
        left = self._undone.get((sender, seqno), 0) - events
        if left > 0:
            self._undone[sender, seqno] = left
        elif self._undone.pop((sender, seqno), 0):
            self._done.setdefault(sender, RangeSet()).add(seqno)
            self._remove(sender, seqno, self._me)

    def _remove(self, sender: int, seqno: int, owner: int) -> None:
        shares = self._open.get(sender, {}).get(seqno)
        if shares is None:
            return
        kept = [share for share in shares if share.owner != owner or not share.claimed]
        self._events -= sum(len(share.events) for share in shares) - sum(len(share.events) for share in kept)
        if kept:
            self._open[sender][seqno] = kept
        else:
            del self._open[sender][seqno]
            if not self._open[sender]:
                del self._open[sender]

    def report(self, seen: Horizon) -> Report:
        """What to tell the others: everything up to `seen` has been looked at here."""
        report = Report(seen, self._taken, self._done, self._hash, self._since_news)
        self._taken, self._done, self._since_news = {}, {}, {}
        self._tidy()
        return report

    def in_hand(self) -> PacketSets:
        """Packets of which events are ours, and not done."""
        packets: PacketSets = {}
        for sender, seqno in islice(self._undone, _IN_HAND_MAX):
            packets.setdefault(sender, RangeSet()).add(seqno)
        return packets

    def _tidy(self) -> None:
        """Forget places of packets that are done."""
        while self._oldest and self._oldest[0][1] not in self._open.get(self._oldest[0][0], {}):
            self._oldest.popleft()

    # What others do.

    def reported(self, source: int, report: Report, seen: Horizon) -> list[T]:
        """Another member says how far it is; its reports come in order. We have seen everything up to `seen`."""
        self.has_in_hand(source, difference(union(self._in_hand_of.get(source, {}), report.taken), report.done))
        if self._chose_as_we_do(report.list_hash):
            for taken, done in ((report.taken, False), (report.done, True)):
                for sender, numbers in taken.items():
                    for seqno in numbers:
                        self._told(source, sender, seqno, done, seen)
        self._seen_by[source] = {**self._seen_by.get(source, {}), **report.seen}
        return self._find_orphans(source, report.seen) + self._came_to_have(source, report.since)

    def has_in_hand(self, source: int, packets: PacketSets) -> None:
        """Another has taken these, and not done them. What came to us, too, is ours to keep, not to report."""
        theirs: PacketSets = {}
        for sender, numbers in packets.items():
            put(theirs, sender, _below(numbers, self.since.get(sender)))
        self._in_hand_of[source] = theirs

    def left_undone(self) -> PacketSets:
        """What members that left had not done, and no other has; it is told once."""
        left, self._left_undone = self._left_undone, {}
        return left

    def forget_but(self, may_send: Callable[[int], bool]) -> None:
        """Nothing more comes from any other sender, so who has what of it matters only while it is not done."""
        for since in self._since_of.values():
            for sender in [one for one in since if one not in self._open and not may_send(one)]:
                del since[sender]

    def _chose_as_we_do(self, list_hash: int) -> bool:
        """Whether one that has chosen by this list cannot lack anything of what is its by ours."""
        return self._by != "key" or list_hash == self._hash

    def _told(self, source: int, sender: int, seqno: int, done: bool, seen: Horizon) -> None:
        if seqno <= seen.get(sender, -1):
            if not done or self._by != "key":
                self._claimed(source, sender, seqno)
            if done:
                self._remove(sender, seqno, source)
        elif len(self._ahead) < _AHEAD_MAX:
            self._ahead.setdefault((sender, seqno), {})[source] = done, self._hash

    def _claimed(self, source: int, sender: int, seqno: int) -> None:
        """It has its share. By key, that need not be what we think was left to it, too: it may not know of that yet."""
        if self._by == "key":
            self._choose_again(sender, seqno)
        shares = self._open.get(sender, {}).get(seqno, ())
        theirs = [one for one in shares if one.owner == source or (self._by != "key" and not one.claimed)]
        own = [one for one in theirs if not one.claimed and not one.orphan] if self._by == "key" else theirs
        for share in own or theirs:
            share.owner, share.claimed, share.orphan = source, True, False

    def _choose_again(self, sender: int, seqno: int) -> None:
        """What we took for one's when it came may be another's that we did not know of: the two have not."""
        shares = self._open.get(sender, {}).get(seqno, [])
        for share in [one for one in shares if one.list_hash != self._hash and not one.claimed and not one.orphan]:
            parts = dict(self._split(sender, seqno, share.events))
            share.events, share.list_hash = parts.pop(share.owner, []), self._hash
            shares += [Share(owner, sender, seqno, events, self._hash) for owner, events in parts.items()]

    def _find_orphans(self, source: int, seen: Horizon) -> list[T]:
        """What we thought was theirs, and they have seen and not claimed."""
        mine: list[T] = []
        for sender, upto in seen.items():
            for seqno in [number for number in self._open.get(sender, ()) if number <= upto]:
                for share in list(self._open[sender][seqno]):
                    if share.owner == source and not share.claimed:
                        share.orphan = True
                        mine += self._give_away(share)
        return mine

    def _came_to_have(self, source: int, since: Horizon) -> list[T]:
        """It has these, or no longer: orphans may be another's now."""
        had = self._since_of.setdefault(source, {})
        news = {sender: first for sender, first in since.items() if first > had.get(sender, -1)}
        had.update(news)
        return self._give_orphans_away([self._open[sender] for sender in news if sender in self._open])

    def members_are(self, members: Iterable[int]) -> list[T]:
        """The members of the queue are others now: what those that left had not done goes to others."""
        before, self.members = self.members, tuple(sorted({*members, self._me}))
        if before == self.members:
            return []
        self._hash = _hash_of(self.members)
        self._choices.clear()
        self._seen_by = {member: seen for member, seen in self._seen_by.items() if member in self.members}
        self._since_of = {member: since for member, since in self._since_of.items() if member in self.members}
        for gone in sorted(self._in_hand_of.keys() - {*self.members}):
            self._has_left(self._in_hand_of.pop(gone))
        return self._give_orphans_away(list(self._open.values()))

    def _has_left(self, in_hand: PacketSets) -> None:
        for sender, numbers in in_hand.items():
            firsts = [since[sender] for since in self._since_of.values() if sender in since]
            left = _below(numbers, min(firsts, default=None))
            for seqno in self._open.get(sender, ()):  # what we have is taken over
                left.discard(seqno, seqno)
            self._left_undone = union(self._left_undone, {sender: left} if left else {})

    def _give_orphans_away(self, of_senders: list[dict[int, list[Share[T]]]]) -> list[T]:
        mine: list[T] = []
        for packets in of_senders:
            for shares in list(packets.values()):
                for share in list(shares):
                    if share.orphan or share.owner not in self.members:
                        share.orphan = True
                        mine += self._give_away(share)
        return mine

    def _give_away(self, share: Share[T]) -> list[T]:
        """To one that has it, by the rule, as it is now; another that it goes to finds that out for itself."""
        among = self._having(share.sender, share.seqno)
        parts = self._split(share.sender, share.seqno, share.events, among)
        shares = self._open[share.sender][share.seqno]
        shares.remove(share)
        mine: list[T] = []
        for owner, events in parts:
            part = Share(owner, share.sender, share.seqno, events, self._hash)
            part.orphan = True
            shares.append(part)
            if owner == self._me:
                mine += self._take(part)
        return mine


def _highest(key: Any, members: tuple[int, ...]) -> int:
    """A CRC would not do: which of two members is higher would depend on a single bit of the key's."""
    text = f"{key}/".encode()
    return max(members, key=lambda member: (blake2b(b"%b%d" % (text, member), digest_size=8).digest(), member))


def _below(numbers: RangeSet, end: int | None) -> RangeSet:
    below = numbers.copy()
    if end is not None and numbers:
        below.discard(end, max(end, numbers.ranges()[-1][1]))
    return below


def _hash_of(members: tuple[int, ...]) -> int:
    return crc32(repr(members).encode())
