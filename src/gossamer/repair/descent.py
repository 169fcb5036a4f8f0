"""DESC and fill() of 001, appendix I: what those that follow a member have and lack, and how they get it.

A packet goes once to all that lack it, by one multicast with their addresses, within the limit of what a member may
send. Those that ask a little later, while it waits for its turn, are served by the same multicast.

What a whole side lacks may be more than its link carries at once, and only those behind the link notice. So a packet is
not sent because it is lacking, but when it is `due`: because somebody has asked for it, which takes as much as its path
carries (`core.asking`), or because it has just come here, at the pace of what we asked for ourselves.
"""

from typing import Any

from gossamer.core.effects import Multicast, Replay, Unicast
from gossamer.core.ids import EVERYONE, PEER, channel_of
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.messages import Collected, Descendants, NeverSent, Repair
from gossamer.core.packet_sets import Horizon, PacketSets, difference, intersection, put, remove, union
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.roster import Roster
from gossamer.repair.account import Account
from gossamer.repair.followers import RANGES_MAX, Followers

_GATHER = 0.1
"""Of a null period: how long a coordinator waits for others that lack the same before it fills."""
_RETURN_PERIODS = 2.0
"""If a member asks that was absent, others of its side are back, too, and will ask or be told of: wait for so long."""


class Descent:
    """The followers of one member, and what is sent to them."""

    def __init__(self, ladder: Ladder, account: Account) -> None:
        self.followers = Followers()
        self._account = account
        self._ladder = ladder
        self._gather_s = _GATHER * ladder.settings.null_period
        self._hold_until = 0.0
        self._due: PacketSets = {}  # of what followers lack: to be sent as soon as may be
        self._gathering: PacketSets = {}  # the same, when there was time for others to ask for it, too
        self._gathered = ladder.timer(self._gather_over)
        self._timer = ladder.timer(self._fill)

    @property
    def gather_s(self) -> float:
        """How long a coordinator waits before it fills."""
        return self._gather_s

    def absent(self) -> list[int]:
        """The members of the group that do not follow this one."""
        roster = self._ladder.roster
        return [m for m in roster.others_owed() if m not in self.followers and m not in roster.joining]

    def seen(self) -> dict[str, Any]:
        """Who follows, and who does not, and where those were."""
        absent, addresses = self.absent(), self._ladder.roster.addresses
        places = {str(member): addresses[member] for member in absent if member in addresses}
        return {"followers": sorted(self.followers), "absent": absent, "addresses": places}

    def whom_to_ask(self, wanted: PacketSets, holders: dict[int, int], tries: int) -> dict[int, PacketSets]:
        """Whom a coordinator asks for what: first those that have it, and each twice, for answers may be late."""
        requests: dict[int, PacketSets] = {}
        alone = not len(self.followers) and tries > 0
        for sender, numbers in wanted.items():
            likely = (holders.get(sender, sender), sender)
            known = [member for member in likely if member in self.followers or alone]
            asked = [*dict.fromkeys([*known, *self.followers])] if tries else known
            if asked:
                requests.setdefault(asked[tries // 2 % len(asked)], {})[sender] = numbers
        return requests

    def keep_only(self, roster: Roster) -> None:
        """Those that are no members any more follow nobody."""
        for member in [m for m in self.followers if not roster.knows(m)]:
            self.followers.remove(member)

    def everything(self) -> Descendants:
        """DESC of this member: what it has and lacks of everybody, and what each that follows it lacks besides."""
        streams = self._ladder.streams
        lasts = {s: stream.next - 1 for s, stream in streams.items() if stream.next and not channel_of(s)}
        missing = {s: stream.missing.copy() for s, stream in streams.items() if stream.missing and not channel_of(s)}
        others = {m: difference(self.followers.lacking_of(m), missing) for m in self.followers}
        return Descendants(lasts, missing, others, complete=True, asks=self.asks_for_all)

    @property
    def asks_for_all(self) -> bool:
        """Whether this member asks for everything that it lacks, at once."""
        return not self._ladder.settings.request_packets

    def hand_over(self) -> None:
        """What followers lack is the business of another now."""
        self.followers.lack_nothing()
        self._due.clear()
        self._gathering.clear()

    def credible(self, message: Descendants) -> bool:
        """Whether it is of a size that a group can have; counted if not."""
        tables = [message.missing, *message.others.values()]
        ranges = sum(numbers.range_count() for table in tables for numbers in table.values())
        if ranges > RANGES_MAX or len(message.others) > 2 * len(self._ladder.roster.owed):
            self._ladder.ignored["descendants beyond measure"] += 1
            return False
        return True

    def take_in(
        self, now: float, source: int, message: Descendants, latest: Horizon, leads: bool, comes: PacketSets
    ) -> Descendants:
        """Action 4: remember what all of them lack; returns what this member cannot fill.

        `latest` is how far senders had come at our last null message, which left before any answer that led here: what
        came before it, and is not in the message, did not reach its source. What `comes` to all need not be filled.
        """
        common = union(message.missing, self._beyond(message, latest)) if message.complete else message.missing
        members = self._members_in(source, message)
        everything = common
        for member in members[1:]:
            everything = union(everything, message.others[member])
        kept, rest = self._kept(everything), {}
        if message.complete:
            self._hold_until = now
        elif leads and source not in self.followers:
            self._hold_until = now + _RETURN_PERIODS * self._ladder.settings.null_period
        named = bool(message.others) or not difference(kept, self.followers.lacking_of(source))
        for member in members:
            lacking = union(common, message.others.get(member, {})) if member != source else dict(common)
            lacking.pop(member, None)  # nobody lacks its own packets
            rest[member] = difference(lacking, kept)
            self.followers.heard(now, member)
            asked = message.asks and member == source and not self.asks_for_all
            to_fill = difference(lacking, comes) if leads else intersection(lacking, kept)
            self.followers.lacks(member, to_fill, asked=asked)
        if message.asks:
            self._is_due(now, kept, known=named and not message.complete)
        others = {member: lacking for member, lacking in rest.items() if member != source}
        return Descendants(message.lasts, rest.get(source, {}), others, message.complete, message.asks)

    def can_fill(self, members: tuple[int, ...]) -> bool:
        """Whether any of these lacks what is kept here."""
        return any(self._kept(self.followers.lacking_of(member)) for member in members)

    def _is_due(self, now: float, numbers: PacketSets, *, known: bool) -> None:
        """Send these, at once if it is known who else lacks them."""
        if known:
            self._due = union(self._due, numbers)
            self._timer.set(now)
        elif numbers:
            self._gathering = union(self._gathering, numbers)
            self._gathered.arm(now + self._gather_s)

    def _gather_over(self, now: float, out: Effects) -> None:
        self._due = union(self._due, self._gathering)
        self._gathering = {}
        self._fill(now, out)

    def others_than(self, members: set[int]) -> tuple[int, ...]:
        """Those that follow, but for some."""
        return tuple(member for member in self.followers if member not in members)

    def lacking_here(self, members: tuple[int, ...], numbers: PacketSets) -> None:
        """None of these members, which follow, has these packets."""
        for member in members:
            self.followers.lacks(member, {s: n for s, n in numbers.items() if s != member})

    def asked_in_vain(self, member: int, wanted: PacketSets) -> None:
        """`member` has asked for these: what we lack ourselves it gets when it comes."""
        lacking = {s: stream.missing for s in wanted if (stream := self._ladder.streams.get(s)) is not None}
        if here := intersection(wanted, lacking):
            self.followers.lacks(member, here)

    def came(self, now: float, sender: int, first: int, last: int) -> None:
        """These have come, or are given up, and were missing: somebody else may lack them."""
        if self.followers.anybody_lacks(sender):
            self._due.setdefault(sender, RangeSet()).add(first, last)
            self._timer.set(now)

    def tell(self, source: int, rest: PacketSets, out: Effects) -> None:
        """The truth about what cannot be filled: that it was here and is gone, or never was."""
        collected: PacketSets = {}
        never_sent: PacketSets = {}
        for sender, numbers in rest.items():
            stream = self._ladder.streams.get(sender)
            if stream is not None:
                never = numbers.intersection(stream.never_sent or RangeSet())
                put(never_sent, sender, never)
                put(collected, sender, stream.received(numbers.difference(never)))
        if collected:
            out.append(Unicast(source, Collected(collected)))
        if never_sent:
            out.append(Unicast(source, NeverSent(never_sent)))

    def age(self, now: float, before: float, out: Effects) -> None:
        """A null period is over: forget who was not heard since `before`, and what can never be filled."""
        self.followers.age(before)
        for sender, numbers in self.followers.lacking().items():
            stream = self._ladder.streams.get(sender)
            possible = self._kept({sender: numbers}).get(sender, RangeSet())
            awaited = RangeSet() if stream is None else numbers.intersection(stream.missing)
            self.followers.forget_packets(sender, numbers.difference(possible).difference(awaited))
        self._due = intersection(self._due, self.followers.lacking())
        self._fill(now, out)

    def _members_in(self, source: int, message: Descendants) -> list[int]:
        roster, me = self._ladder.roster, self._ladder.me
        known = [m for m in message.others if m not in (source, me) and roster.knows(m)]
        self._ladder.ignored["descendants that are no members"] += sum(not roster.knows(m) for m in message.others)
        return [source, *known]

    def _beyond(self, message: Descendants, latest: Horizon) -> PacketSets:
        """What follows the last numbers in the message, of all senders that we know."""
        found: PacketSets = {}
        for sender, last in latest.items():
            stream = self._ladder.streams.get(sender)
            if stream is not None:
                first = max(message.lasts.get(sender, -1) + 1, stream.start)
                if first <= last:
                    put(found, sender, RangeSet.span(first, last).difference(stream.never_sent or RangeSet()))
        return found

    def _kept(self, wanted: PacketSets) -> PacketSets:
        """What of it this member keeps, in memory or in its log."""
        found: PacketSets = {}
        for sender, numbers in wanted.items():
            kept = RangeSet()
            for keeper in self._ladder.keepers:
                kept.update(keeper.kept_of(sender, numbers))
            put(found, sender, kept)
        return found

    def _fill(self, now: float, out: Effects) -> None:
        """Send what is due, lacking and kept."""
        if now < self._hold_until:
            self._timer.set(self._hold_until)
            return
        kept = self._kept(intersection(self._due, self.followers.lacking()))
        if kept:
            self._ladder.repair_queue.enqueue(now, EVERYONE, kept, self._send, out)

    def _send(self, to: int, sender: int, first: int, last: int, out: Effects) -> None:
        remove(self._due, sender, first, last)
        for seqno in range(first, last + 1):
            members = self.followers.take(sender, seqno)
            if members:
                self._account.filled += 1
                self._account.addressed += len(members)
                self._send_one(members, sender, seqno, out)

    def _send_one(self, members: tuple[int, ...], sender: int, seqno: int, out: Effects) -> None:
        packet = self._packet(sender, seqno)
        if packet is None:  # on disk, or collected while it waited
            one = RangeSet.span(seqno, seqno)
            if any(keeper.on_disk and keeper.kept_of(sender, one) for keeper in self._ladder.keepers):
                out.append(Replay(members[0], sender, seqno, seqno, also=members[1:]))
        elif len(members) == 1:
            out.append(Unicast(members[0], Repair(packet, PEER)))
        else:
            out.append(Multicast(Repair(packet, PEER), to=members))

    def _packet(self, sender: int, seqno: int) -> Packet | None:
        found = (keeper.get(sender, seqno) for keeper in self._ladder.keepers if not keeper.on_disk)
        return next((packet for packet in found if packet is not None), None)
