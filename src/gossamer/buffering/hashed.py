"""Hash-selected bufferers (003): everybody keeps a packet for a short time, and about C members keep it for long.

Two buffers (003 §5). The *short-term* buffer has everything that came in the last `short_rounds` rounds, or the newest
`short_bytes` of it. What leaves it goes to the *long-term* buffer if it hashes to this member (`bufferers`), and
otherwise only its number is remembered. After `gc_rounds` rounds, or when `buffer_bytes` more have come, it is
collected everywhere: so the group remembers as long as with a buffer by age or by size, and a member keeps C/n of it.
Where views are agreed on nothing is collected because of its age: the bufferers of a packet keep it until it is stable.

What a member does not keep, but others do, it does not refuse: it passes the request on to a bufferer, drawn at random,
with the number of the member that wants the packet (003 §4). A bufferer answers that member or ignores the request; it
never passes it on again, so there are no circles however much views differ. Only the members of the view can be
answered, a packet that is passed on counts like one that is sent, and of a long request only a part is passed on.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from gossamer.buffering.buckets import EMPTY, Arrivals, Bucket, LatestBucket
from gossamer.buffering.bufferers import Bufferers
from gossamer.buffering.occupancy import Occupancy
from gossamer.core.declares import AGEING, COPIES_KEPT, UNSTABLE_KEPT, Declares
from gossamer.core.effects import Unicast
from gossamer.core.ids import PEER
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.messages import Repair, RequestFor
from gossamer.core.packet_sets import Horizon, PacketSets, count, put, take
from gossamer.core.packets import Packet, Run, Span
from gossamer.core.parts import Buffer
from gossamer.core.ranges import RangeSet
from gossamer.core.roster import Roster
from gossamer.core.settings import ProtocolSettings

_SLICES = 16
"""Where bytes are limited, a bucket holds no more than this part of them, so that little has to go at a time."""
_SHORT_PART = 8
"""The short term has this part of `buffer_bytes`, if it is not given."""
_PASSED_ON_MAX = 64
"""Packets of one request that are passed on."""


class _Recent(NamedTuple):
    """A bucket of the short-term buffer."""

    round: int
    bucket: Bucket
    bytes: int


class _Old(NamedTuple):
    """What was in a bucket: all of its numbers, and which of them are in the long-term buffer."""

    round: int
    parts: list[Span]
    numbers: PacketSets
    bytes: int
    kept: list[tuple[int, list[int]]]
    """By sender, and perhaps several times: the numbers of the packets."""


class Hashed(Buffer):
    """Both buffers of one member."""

    selects = True

    __slots__ = (
        "_bytes",
        "_held",
        "_history_bytes",
        "_latest",
        "_long",
        "_new",
        "_occupancy",
        "_old",
        "_passed_on",
        "_recent",
        "_recent_bytes",
        "_round",
        "_stable",
        "arrivals",
        "bufferers",
    )

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self.bufferers = Bufferers(ladder.settings, ladder.roster)
        self._new: Arrivals = []  # what came since the last bucket was made
        self._recent: deque[_Recent] = deque()
        self._old: deque[_Old] = deque()
        self._long: dict[int, dict[int, Packet]] = {}
        self._held: PacketSets = {}
        self._stable: Horizon = {}
        self._passed_on = 0
        self._round = self._bytes = self._recent_bytes = self._history_bytes = 0
        self._occupancy = Occupancy()
        self._latest: LatestBucket = ladder.siblings.setdefault(Hashed, LatestBucket())
        self.arrivals = None if ladder.settings.buffer_bytes else self._new
        """What came in this round; the stack may append here instead of calling `keep`, unless bytes are counted."""

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Bounded by what comes in `gc_rounds` rounds; only if bytes do not bound it is everything kept that long."""
        ageing = () if settings.buffer_bytes else (AGEING,)
        return Declares(promises=("bounded",), provides=(COPIES_KEPT, UNSTABLE_KEPT, *ageing))

    def messages(self) -> Mapping[type, MessageHandler]:
        """Requests that others pass on."""
        return {RequestFor: self._requested_for}

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """From now on others may be the bufferers; what was decided before stands (003 §3: the sets mostly overlap)."""
        self.bufferers.follow(self.ladder.roster)
        self._stable = {s: last for s, last in self._stable.items() if s in self._held or s in self.ladder.roster}

    def stabilized(self, now: float, sender: int, last: int, out: Effects) -> None:
        """Nobody will ask for these any more: where views are agreed on, they go in the next round."""
        self._stable[sender] = max(last, self._stable.get(sender, -1))

    # What is kept.

    def __len__(self) -> int:
        return self._occupancy.count + sum(map(len, self._new[1::2]))

    def keep(self, now: float, run: Run, out: Effects) -> None:
        """Store the run in the short-term buffer; if bytes are limited, the oldest packets make room."""
        self._new += (now, run)
        if limit := self.ladder.settings.buffer_bytes:
            self._bytes += sum([len(packet.body) for packet in run])
            if self._bytes * _SLICES > limit:
                self._close(self._round + 1)
                self._make_room(now, out)

    def get(self, sender: int, seqno: int) -> Packet | None:
        """The packet, if it is in one of the buffers."""
        for recent in reversed(self._recent):
            found = recent.bucket.get(sender, seqno)
            if found is not None:
                return found
        for run in self._new[1::2]:
            if run[0].sender == sender and run[0].seqno <= seqno <= run[-1].seqno:
                packet: Packet = run[seqno - run[0].seqno]
                return packet
        return self._long.get(sender, {}).get(seqno)

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        """Which of `numbers` are in one of the buffers."""
        kept = RangeSet()
        for recent in self._recent:
            if sender in recent.bucket.numbers:
                kept.update(numbers.intersection(recent.bucket.numbers[sender]))
        for run in self._new[1::2]:
            if run[0].sender == sender:
                for first, last in numbers.within(run[0].seqno, run[-1].seqno):
                    kept.add(first, last)
        long = self._long.get(sender, {})
        some = numbers if len(numbers) < len(long) else sorted(long)  # numbers from the network may be any
        for seqno in some:
            if seqno in long and seqno in numbers:
                kept.add(seqno)
        return kept

    def held(self) -> PacketSets:
        """What the group keeps, as far as we know: it can be offered, because a request for it is passed on."""
        return self._held

    def occupancy(self, now: float) -> tuple[int, float]:
        """The most packets that were in both buffers, and the mean until `now`."""
        entering = Bucket(self._new)
        return self._occupancy.so_far(now, entering.count, entering.time_sum)

    def standing(self) -> dict[str, Any]:
        """How many packets are in each buffer, how many are remembered, and how many members keep one for long."""
        long = sum(map(len, self._long.values()))
        return {
            "short_term": len(self) - long,
            "long_term": long,
            "remembered": count(self._held),
            "bufferers": self.bufferers.copies,
            "passed_on": self._passed_on,
        }

    # From the short term to the long term, and out.

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """One round older: what is no longer recent is thinned out, what is old is collected.

        While a view changes only what is stable leaves the short-term buffer: what somebody has said that it keeps can
        be had.
        """
        self.bufferers.round_over()
        if not self.ladder.is_member:
            return
        self._round += 1
        if self._new:
            self._close(self._round)
        settings = self.ladder.settings
        changing = self.ladder.membership.changing()
        while self._recent and self._recent[0].round + min(settings.short_rounds, settings.gc_rounds) <= self._round:
            if changing and not self._are_stable(self._recent[0].bucket.parts):
                break
            self._thin_out(now, out)
        while self._old and self._is_over(self._old[0]):
            self._collect(now, True, out)
        if settings.buffer_bytes:
            self._make_room(now, out)

    def _is_over(self, old: _Old) -> bool:
        """Whether it is as old as anything gets or, where views are agreed on, stable."""
        if self.ladder.membership.agreed:
            return self._are_stable(old.parts)
        return old.round + self.ladder.settings.gc_rounds <= self._round

    def _are_stable(self, parts: list[Span]) -> bool:
        return all(last <= self._stable.get(sender, -1) for sender, _, last in parts)

    def _close(self, ends: int) -> None:
        """Make a bucket of what has come in the round that ends as number `ends`."""
        bucket = self._latest.bucket_of(self._new)
        self._new.clear()
        self._occupancy.entered(bucket.count, bucket.time_sum)
        self._recent.append(_Recent(ends, bucket, self._bytes))
        self._recent_bytes += self._bytes
        self._history_bytes += self._bytes
        self._bytes = 0
        self._held = bucket.turn(self._held, EMPTY.parts)

    def _make_room(self, now: float, out: Effects) -> None:
        settings = self.ladder.settings
        short = settings.short_bytes or settings.buffer_bytes // _SHORT_PART
        while self._recent and self._recent_bytes > min(short, settings.buffer_bytes):
            self._thin_out(now, out)
        while self._old and self._history_bytes > settings.buffer_bytes:
            self._collect(now, False, out)

    def _thin_out(self, now: float, out: Effects) -> None:
        """The oldest bucket leaves the short-term buffer, and what hashes to us enters the other one."""
        recent = self._recent.popleft()
        bucket = recent.bucket
        self._recent_bytes -= recent.bytes
        kept, entered = self._enter(bucket)
        self._occupancy.left(now, bucket.count - entered)
        self._old.append(_Old(recent.round, bucket.parts, bucket.numbers, recent.bytes, kept))
        self.ladder.note("collect", "buffer", bucket.numbers.items(), out)
        self.ladder.note("store", "long-term", kept, out)

    def _enter(self, bucket: Bucket) -> tuple[list[tuple[int, list[int]]], int]:
        """Put what hashes to us into the long-term buffer; returns what that is, and how many packets of it are new."""
        packets, kept, at, entered = bucket.packets(), [], 0, 0
        for sender, first, last in bucket.parts:
            mine = self.bufferers.mine(sender, first, last)
            if mine:
                long = self._long.setdefault(sender, {})
                entered -= len(long)
                skip = at - first
                long.update(zip(mine, [packets[skip + seqno] for seqno in mine], strict=True))
                entered += len(long)
                kept.append((sender, mine))
            at += last - first + 1
        return kept, entered

    def _collect(self, now: float, aged: bool, out: Effects) -> None:
        """The oldest numbers are forgotten, and what was kept of them."""
        old = self._old.popleft()
        self._history_bytes -= old.bytes
        left = 0
        for sender, numbers in old.kept:
            long = self._long.get(sender, {})
            left += len(long)
            for seqno in numbers:
                long.pop(seqno, None)
            left -= len(long)
            if not long:
                self._long.pop(sender, None)
        self._occupancy.left(now, left)
        assert self._occupancy.count >= 0
        self._held = EMPTY.turn(self._held, old.parts)
        self.ladder.collected(now, old.numbers, aged, out, kept=old.kept)

    def drop(self, now: float, sender: int, first: int, out: Effects) -> None:
        """Take these out of both buffers, and out of what is remembered."""
        if self._new:
            self._close(self._round + 1)
        gone = self._held[sender].within(first, self._held[sender].last) if sender in self._held else []
        if gone:
            self._recent = deque(self._recent_without(now, recent, sender, first, out) for recent in self._recent)
            self._old = deque(self._old_without(now, old, sender, first, out) for old in self._old)
            self._held = EMPTY.turn(self._held, [(sender, *part) for part in gone])

    def _recent_without(self, now: float, recent: _Recent, sender: int, first: int, out: Effects) -> _Recent:
        numbers = recent.bucket.numbers.get(sender)
        if numbers is None or numbers.last < first:
            return recent
        gone = RangeSet(numbers.within(first, numbers.last))
        packets = [p for p in recent.bucket.packets() if p.sender == sender and p.seqno >= first]
        size = sum(len(packet.body) for packet in packets) if recent.bytes else 0
        self._recent_bytes -= size
        self._history_bytes -= size
        self._occupancy.left(now, len(packets))
        self.ladder.note("collect", "buffer", [(sender, gone)], out)
        return _Recent(recent.round, _without(recent.bucket, sender, first), recent.bytes - size)

    def _old_without(self, now: float, old: _Old, sender: int, first: int, out: Effects) -> _Old:
        numbers = old.numbers.get(sender)
        if numbers is None or numbers.last < first:
            return old
        parts = [(s, a, b if s != sender else min(b, first - 1)) for s, a, b in old.parts if s != sender or a < first]
        going = [(s, [n for n in kept if n >= first]) for s, kept in old.kept if s == sender]
        for seqno in [seqno for _, some in going for seqno in some]:
            del self._long[sender][seqno]
            self._occupancy.left(now, 1)
        self.ladder.note("collect", "long-term", going, out)
        kept = [(s, [n for n in some if n < first] if s == sender else some) for s, some in old.kept]
        left = {s: some for s, some in old.numbers.items() if s != sender}
        put(left, sender, RangeSet(numbers.within(0, first - 1)))
        return old._replace(parts=parts, numbers=left, kept=kept)

    # Requests for what others keep.

    def bufferers_of(self, sender: int, seqno: int) -> list[int] | None:
        """The bufferers of a packet, as our view has them; None if this member has no time to work it out."""
        return self.bufferers.of(sender, seqno)

    def holders_of(self, wanted: PacketSets, *, but: tuple[int, ...]) -> tuple[dict[int, PacketSets], PacketSets]:
        """By bufferer: what of `wanted` to ask it for, drawn at random; and what nobody but `but` could have."""
        asked: dict[int, PacketSets] = {}
        nobody: PacketSets = {}
        left = _PASSED_ON_MAX
        for sender, numbers in wanted.items():
            for seqno in numbers:
                if left <= 0:
                    return asked, nobody
                left -= 1
                bufferers = self.bufferers.of(sender, seqno)
                if bufferers is None:
                    return asked, nobody
                able = [member for member in bufferers if member not in but]
                of = asked.setdefault(self.ladder.rng.choice(able), {}) if able else nobody
                of.setdefault(sender, RangeSet()).add(seqno)
        return asked, nobody

    def pass_on(self, now: float, requester: int, wanted: PacketSets, out: Effects) -> PacketSets:
        """Ask bufferers to send `wanted` to `requester`; returns what they may still have, whether they are asked."""
        theirs: PacketSets = {}
        for sender, numbers in wanted.items():
            put(theirs, sender, self._remembered(sender, numbers))
        asked, nobody = self.holders_of(theirs, but=(self.ladder.me, requester)) if theirs else ({}, {})
        for member, packets in asked.items():
            granted = self.ladder.repair_queue.take(now, count(packets))
            if not granted:
                break
            self._passed_on += granted
            out.append(Unicast(member, RequestFor(requester, take(packets, granted))))
        return {s: n.difference(nobody[s]) if s in nobody else n for s, n in theirs.items()}

    def _remembered(self, sender: int, numbers: RangeSet) -> RangeSet:
        """What of `numbers` exists, as we have seen, and was not collected, as far as we know."""
        stream = self.ladder.streams.get(sender)
        if stream is None:
            return RangeSet()
        known = RangeSet(numbers.within(0, stream.next - 1)).difference(stream.never_sent or RangeSet())
        collected = stream.received(known)
        if sender in self._held:
            collected = collected.difference(self._held[sender])
        return known.difference(collected)

    def _requested_for(self, now: float, source: int, message: RequestFor, out: Effects) -> None:
        """Send what is here; the rest is ignored (003 §4), or it might be passed on for ever."""
        if message.requester not in self.ladder.roster or message.requester == self.ladder.me:
            self.ladder.ignored["requests for strangers"] += 1
            return
        kept: PacketSets = {}
        for sender, numbers in message.wanted.items():
            put(kept, sender, self.kept_of(sender, numbers))
        if kept:
            self.ladder.repair_queue.enqueue(now, message.requester, kept, self._send, out)

    def _send(self, to: int, sender: int, first: int, last: int, out: Effects) -> None:
        found = (self.get(sender, seqno) for seqno in range(first, last + 1))
        out.extend(Unicast(to, Repair(packet, PEER)) for packet in found if packet is not None)


def _without(bucket: Bucket, sender: int, first: int) -> Bucket:
    """The bucket without the packets of `sender` from `first` on."""
    arrivals: Arrivals = []
    for at, run in zip(bucket.arrivals[::2], bucket.arrivals[1::2], strict=True):
        left = [packet for packet in run if packet.sender != sender or packet.seqno < first]
        arrivals += (at, left) if left else ()
    return Bucket(arrivals)
