"""The way of a gap: from repair to repair, until it is filled, given up, or found never to have been.

A gap begins when a later packet shows it, or when somebody says that its packets exist. It goes to the first repair of
the chain, or past it to one that is eager; a repair that cannot fill it passes it on, and after the last it is lost.
Before each request the application may say that packets are not worth it (000 §2.2, §3.3).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gossamer.core.effects import TakeBack
from gossamer.core.ids import owner_of
from gossamer.core.packet_sets import PacketSets, difference
from gossamer.core.ranges import RangeSet
from gossamer.core.roster import Roster
from gossamer.core.say import ApplicationSay
from gossamer.core.settings import ProtocolSettings
from gossamer.core.streams import RATE_MAX, Stream, Streams

if TYPE_CHECKING:
    from gossamer.core.inputs import Received
    from gossamer.core.ladder import Effects, Rung
    from gossamer.core.parts import Order, Repair

_SLACK_PACKETS = 10_000
"""A sender may be this much farther than the time since it was last heard explains: clocks and rounds are coarse."""
_STRANGERS_MAX = 256
"""Senders outside the view of which anything is kept: the packets of a new member may come before the news of it."""


class Gaps:
    """What one member misses, and whose turn it is to repair it."""

    __slots__ = (
        "_closed",
        "_found",
        "_ignored",
        "_loss_patience",
        "_me",
        "_order",
        "_retire",
        "_retracted",
        "_roster",
        "_say",
        "_slack",
        "_strangers",
        "_streams",
        "doubt",
        "repairs",
    )

    def __init__(
        self,
        roster: Roster,
        streams: Streams,
        settings: ProtocolSettings,
        say: ApplicationSay | None,
        ignored: Counter[str],
    ) -> None:
        self._me = roster.me
        self._roster = roster
        self._streams = streams
        self._say = say
        self._ignored = ignored
        self._loss_patience = settings.loss_patience
        self._slack = _SLACK_PACKETS + settings.send_buffer + settings.sequence_block  # a new life skips as many
        self._strangers: dict[int, None] = {}
        self.repairs: tuple[Repair, ...] = ()
        """The chain."""
        self.doubt: Callable[[float, int, int, Effects], bool] = lambda now, sender, first, out: False
        """A sender's packets, from this number on, come far below what was seen of it: ask it; whether it is asked."""

    def connect(
        self,
        repairs: "tuple[Repair, ...]",
        order: "Order",
        found: Callable[[float], None],
        closed: Sequence[Any],
        retracted: Sequence[Any],
        retire: Callable[[float, int], None],
    ) -> None:
        """The rungs that deal with gaps: `found` is told of each new one, `closed` are the hooks for the end of one.

        `retracted` are those for numbers that were seen and have not been sent; `retire` forgets a sender but for where
        it stopped.
        """
        self.repairs = repairs
        self._order = order
        self._found = found
        self._closed = closed
        self._retracted = retracted
        self._retire = retire

    def follow(self, streams: Streams) -> None:
        """The member keeps its streams elsewhere now."""
        self._streams = streams

    def follow_view(self, roster: Roster) -> None:
        """The group has changed."""
        self._roster = roster

    # What is believed.

    def believe(self, now: float, sender: int, last: int) -> Stream | None:
        """The stream of `sender`, if it can be true that its packets up to `last` exist; else None, and it is counted.

        The one place where that is decided, however a number is learned. Of channels to which this member does not
        listen it takes in nothing.
        """
        stream = self._streams.get(sender)
        if stream is None and (self._streams.only_members or not self._streams.hears(sender)):
            return None
        if stream is None:
            if not self.can_be(now, last):
                return None
            if not self._roster.knows(owner_of(sender)) and not self._room_for_stranger(now, sender):
                self._ignored["too many unknown senders"] += 1
                return None
            stream = self._streams.of(sender)
        if stream.believes(now, last, self._slack):
            return stream
        self._ignored["numbers too high"] += 1
        return None

    def can_be(self, now: float, last: int) -> bool:
        """Whether any sender can have come so far since the epoch; counted if not."""
        possible = last < self._slack + RATE_MAX * now
        self._ignored["numbers too high"] += not possible
        return possible

    def look(self, now: float) -> None:
        """Note how far senders have come: from here on we know how long they have had to come any further."""
        for stream in self._streams.values():
            stream.look(now, self._slack)

    def _room_for_stranger(self, now: float, sender: int) -> bool:
        if len(self._strangers) >= _STRANGERS_MAX:
            self._retire_strangers(now)
        if len(self._strangers) < _STRANGERS_MAX:
            self._strangers[sender] = None
        return sender in self._strangers

    def _retire_strangers(self, now: float) -> None:
        """Some have become members, or have been forgotten; of the others those can go of which nothing is missing."""
        strangers = [s for s in self._strangers if s in self._streams and not self._roster.knows(owner_of(s))]
        for sender in strangers:
            if not self._streams[sender].missing:
                self._retire(now, sender)
        self._strangers = {sender: None for sender in strangers if sender in self._streams}

    # The way of a gap.

    def learn(self, now: float, sender: int, last: int, out: "Effects") -> None:
        """The packets of `sender` up to `last` are said to exist."""
        if self._streams.is_retired(sender, last):
            return  # and were here
        if owner_of(sender) != self._me and (stream := self.believe(now, sender, last)) is not None:
            gap = stream.learn(last)
            if gap is not None:
                self.found(now, sender, *gap, out)

    def leaps(self, now: float, happened: "Received", stream: Stream, out: "Effects") -> bool:
        """Whether these came from too far ahead to be taken in: a lie must not take the place of the true packets.

        They are put aside until others continue them; what is below them is missing.
        """
        if not stream.is_leap(happened.first):
            return False
        stream.leapt = happened.run
        self.learn(now, happened.sender, happened.first - 1, out)
        return True

    def found(self, now: float, sender: int, first: int, last: int, out: "Effects") -> None:
        """These exist and were not received."""
        if self._say is not None:
            self._say.gap_found(now, sender, first, last, self._streams.of(sender).missing)
        self._found(now)
        for repair in self.repairs:
            if repair.eager(now):
                repair.repair(now, sender, first, last, out)
                return
        if self.repairs:
            self.repairs[0].repair(now, sender, first, last, out)
        elif self._order.holds_back:
            self.give_up(now, sender, first, last, "unrepaired", out)

    def escalate(self, now: float, by: "Rung", sender: int, first: int, last: int, why: str, out: "Effects") -> None:
        """The repair `by` cannot fill these: the next one's turn, or a loss if there is none."""
        position = next(at for at, repair in enumerate(self.repairs) if repair is by)
        for part in self._streams.of(sender).missing.within(first, last):
            if position + 1 < len(self.repairs):
                self.repairs[position + 1].repair(now, sender, *part, out)
            else:
                self.give_up(now, sender, *part, why, out)

    def patience(self, by: "Rung", usual: float) -> float:
        """For how many seconds the repair `by` tries: as long as usual, or longer if nobody could take over from it."""
        return usual if self.is_relieved(by) else max(usual, self._loss_patience)

    def is_relieved(self, by: "Rung") -> bool:
        """Whether another repair could take over from `by` now."""
        position = next(at for at, repair in enumerate(self.repairs) if repair is by)
        return any(repair.ready() for repair in self.repairs[position + 1 :])

    def give_up(self, now: float, sender: int, first: int, last: int, why: str, out: "Effects") -> None:
        """These will not come: report what is still missing of them as lost; nothing, if there is no reason."""
        stream = self._streams.of(sender)
        for part in stream.missing.within(first, last):
            stream.give_up(*part, never_sent=not why)
            for hook in self._closed:
                hook(now, sender, *part, out)
            self._order.given_up(now, sender, *part, why, stream, out)

    def come_to(self, now: float, sender: int, last: int, out: "Effects") -> None:
        """The sender itself says that it has come to `last`."""
        self.learn(now, sender, last, out)
        stream = self._streams.get(sender)
        if stream is not None and stream.is_ahead_of(now, last) and owner_of(sender) != self._me:
            self.doubt(now, sender, last + 1, out)

    def retract(self, now: float, sender: int, since: int, last: int, own: RangeSet, out: "Effects") -> None:
        """The sender says that `last` was its last number: what was seen above, but for its `own`, it has not sent yet.

        Nobody waits for that, or reports it, and what came under these numbers was not the sender's. What it has sent
        since `since` is looked for as if it were found missing only now, even if it was given up: nobody could have it
        before.
        """
        stream = self._streams.get(sender)
        if stream is None or last + 1 >= stream.next or stream.ended is not None:
            return  # it is as far as we thought
        self._ignored["numbers not sent yet"] += 1
        ahead = stream.missing.within(last + 1, stream.next)
        begin, again = stream.retract(now, since, last, own)
        end = stream.next - 1
        out.append(TakeBack(sender, min([end + 1, *again.firsts[:1]]), end))
        self._order.rewound(sender, end + 1)
        for part in ahead:
            for hook in self._closed:
                hook(now, sender, *part, out)
        for hook in self._retracted:
            hook(now, sender, last, own)
        for part in again.ranges():
            self._order.taken_back(sender, *part)
        for part in stream.missing.within(begin, end):
            for repair in self.repairs:
                repair.release(sender, *part)
            self.found(now, sender, *part, out)

    def skip(self, now: float, sender: int, first: int, last: int, out: "Effects") -> None:
        """These never were: nobody misses them."""
        self.give_up(now, sender, first, last, "", out)

    @property
    def has_say(self) -> bool:
        """Whether the application is asked what is worth repairing."""
        return self._say is not None

    def is_full(self) -> bool:
        """Whether so much waits for its turn that no more first passes are taken in."""
        return self._order.is_full()

    def urgent(self, wanted: PacketSets) -> PacketSets:
        """Of `wanted`, what need not wait for a place where it can wait for its turn."""
        return self._order.urgent(wanted)

    def worth_asking(self, now: float, wanted: PacketSets, out: "Effects") -> PacketSets:
        """What of `wanted` to ask for now: for what has room, and what the application wants; the rest is given up."""
        wanted = self.urgent(wanted)
        if self._say is None or not wanted:
            return wanted
        declined = self._say.declined(now, wanted)
        for sender, numbers in declined.items():
            for part in numbers.ranges():
                self.give_up(now, sender, *part, "declined", out)
        return difference(wanted, declined)

    def end(self, now: float, sender: int, last: int, out: "Effects") -> None:
        """Take in nothing of `sender` above `last`, and deliver nothing of it above what came in order so far.

        What is lacking up to `last` is awaited, but no repair is told of it: whoever ended the stream asks for it.
        """
        stream = self._streams.of(sender)
        prefix, missing = stream.prefix(), stream.missing.ranges()
        stream.end(max(last, prefix))
        self._order.rewound(sender, prefix + 1)
        for part in missing:
            for hook in self._closed:
                hook(now, sender, *part, out)

    def drop(self, now: float, sender: int, out: "Effects") -> None:
        """Nothing of `sender` is awaited any more, and nobody is told of a loss: it is not wanted."""
        for part in self._streams.of(sender).missing.ranges():
            for hook in self._closed:
                hook(now, sender, *part, out)
        self._order.rewound(sender, 0)

    def rewind(self, now: float, sender: int, first: int, held: RangeSet, out: "Effects") -> None:
        """Await the packets of `sender` from `first` on again, as far as a log holds them, in their old order."""
        stream = self.believe(now, sender, held.last)
        if stream is None:
            return
        wanted, holes = stream.rewind(first, held)
        self._order.rewound(sender, first)
        never_sent = holes.intersection(stream.never_sent or RangeSet())
        for numbers, why in ((never_sent, ""), (holes.difference(never_sent), "not in the log")):
            for hole in numbers.ranges():
                self._order.given_up(now, sender, *hole, why, stream, out)
        for part in wanted.ranges():
            for repair in self.repairs:
                if repair.from_log:
                    repair.repair(now, sender, *part, out)
                else:
                    repair.release(sender, *part)
