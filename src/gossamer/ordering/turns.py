"""What waits for its turn in an order that is not the stream's own: packets, and losses in their place.

What has its turn before it is settled (002 §5.2.1) is kept until it is: it may have to be undone.
"""

from gossamer.core.effects import Deliver, ReportLost, UndoDeliveries
from gossamer.core.ids import Phase, channel_of
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import Horizon
from gossamer.core.packets import Packet, Run, memory_of
from gossamer.core.ranges import RangeSet

PASSED = "its place in the order has passed"
_AHEAD_MAX = 10_000
"""Runs that are handed over before they are settled: then the others wait."""


_NOTHING: dict[int, tuple[Packet, Phase]] = {}
_NOBODY = -1, -1
"""No packet: neither a sender nor a number."""


class Turns:
    """By sender: what came and has not had its turn, and how far turns have come."""

    __slots__ = (
        "_awaited",
        "_awaited_before",
        "_follows",
        "_ladder",
        "_lost",
        "_overdue",
        "_packets",
        "_unsettled",
        "bytes",
        "keeps",
        "passed",
        "settled",
        "undone",
    )

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self._packets: dict[int, dict[int, tuple[Packet, Phase]]] = {}
        self._lost: dict[int, dict[str, RangeSet]] = {}  # by sender and reason
        self.bytes = 0
        self.passed: Horizon = {}
        """By sender: the highest number that has had its turn."""
        self.keeps = ladder.settings.order_failures == "non-atomic"
        """Whether anything has its turn before it is settled, and is kept until then."""
        # whether packets come by way of those who tell us their places, and may come after these
        self._follows = ladder.settings.dissemination == "graph"
        # whose turn it is, was a while ago, and has been for too long
        self._awaited = self._awaited_before = self._overdue = _NOBODY
        self._unsettled: list[tuple[int, Deliver | ReportLost]] = []  # what was handed over, with its first place
        self.settled = 0
        """Below this place, in the sequence that has its turn now, nothing will be undone."""
        self.undone = 0
        """Packets that were handed over and had to be undone."""

    def wait(self, run: Run, phase: Phase, out: Effects) -> None:
        """These came. Some may be too late: they belong to a past that the order does not know."""
        sender = run[0].sender
        late = self.passed.get(sender, -1) + 1 - run[0].seqno
        if late > 0:
            out.append(ReportLost(sender, run[0].seqno, run[:late][-1].seqno, PASSED))
            run = run[late:]
        if run:
            waiting = self._packets.get(sender)
            if waiting is None:
                waiting = self._packets[sender] = {}
            for packet in run:
                waiting[packet.seqno] = packet, phase
            self.bytes += memory_of(run)

    def lose(self, sender: int, first: int, last: int, why: str, out: Effects) -> None:
        """These will not come; without a reason they never were."""
        passed = self.passed.get(sender, -1)
        if first <= passed and why:
            out.append(ReportLost(sender, first, min(last, passed), why))
        if last > passed:
            self._lost.setdefault(sender, {}).setdefault(why, RangeSet()).add(max(first, passed + 1), last)

    def knows(self, sender: int, number: int) -> bool:
        """Whether it waits, is lost, or has had its turn."""
        if number <= self.passed.get(sender, -1) or number in self._packets.get(sender, {}):
            return True
        return any(numbers.around(number) is not None for numbers in self._lost.get(sender, {}).values())

    def done_with(self, sender: int) -> int:
        """The number up to which everything has had its turn, or was sent before we came."""
        streams = self._ladder.streams
        start = streams[sender].start if sender in streams else 0
        return min(streams.prefix_of(sender), max(start - 1, self.passed.get(sender, -1)))

    def await_again(self, sender: int, first: int, last: int) -> None:
        """These are not lost after all, as far as they have not had their turn."""
        for numbers in self._lost.get(sender, {}).values():
            numbers.discard(first, last)

    def forget(self, sender: int, first: int) -> None:
        """What waits of `sender` from `first` on comes again."""
        waiting = self._packets.get(sender, {})
        for number in [number for number in waiting if number >= first]:
            self.bytes -= memory_of([waiting.pop(number)[0]])
        for numbers in self._lost.get(sender, {}).values():
            if numbers and numbers.last >= first:
                numbers.discard(first, numbers.last)

    def lasts(self) -> Horizon:
        """By sender: the highest number that waits, be it a packet or a loss that is to be reported in its place."""
        lasts = {sender: max(waiting) for sender, waiting in self._packets.items() if waiting}
        for sender, by_reason in self._lost.items():
            lost = [numbers.last for why, numbers in by_reason.items() if why and numbers]
            if lost:
                lasts[sender] = max(lasts.get(sender, -1), *lost)
        return lasts

    def begin(self, placed: Horizon, out: Effects) -> None:
        """The order begins after these: what waits of them has no place in it."""
        for sender, last in placed.items():
            self.passed[sender] = max(last, self.passed.get(sender, -1))
            waiting = self._packets.get(sender, {})
            for number in sorted(number for number in waiting if number <= last):
                self.bytes -= memory_of([waiting.pop(number)[0]])
                out.append(ReportLost(sender, number, number, PASSED))

    def pass_over(self, sender: int, last: int, why: str, out: Effects) -> None:
        """The turn of everything up to `last` has passed: what waits of it is lost, and what comes."""
        lost: list[ReportLost] = []
        for reason, numbers in self._lost.get(sender, {}).items():
            lost += [ReportLost(sender, *part, reason) for part in numbers.within(0, last) if reason]
            numbers.discard(0, last)
        waiting = self._packets.get(sender, {})
        for number in [number for number in waiting if number <= last]:
            self.bytes -= memory_of([waiting.pop(number)[0]])
            lost.append(ReportLost(sender, number, number, why))
        lost.sort(key=lambda loss: loss.first)
        out.extend(lost)
        self.passed[sender] = max(last, self.passed.get(sender, -1))

    def hand_over(
        self, now: float, sender: int, first: int, last: int, place: int, out: Effects, under: int = -1
    ) -> int:
        """It is the turn of `first..last`, at `place`; returns the first number that has to be waited for.

        `under` is the place of the trunk after which places of a branch come.
        """
        if channel_of(sender) and not self._ladder.streams.hears(sender):
            self.forget(sender, 0)  # it came while we still listened
            self.passed[sender] = max(last, self.passed.get(sender, -1))
            return last + 1
        waiting = self._packets.get(sender, _NOTHING)
        number = first
        while number <= last:
            if number in waiting:
                following = self._deliver(waiting, number, last, (place + number - first, under), out)
            else:
                following = self._settle_absence(now, sender, number, last, place + number - first, out)
            if following == number:
                break
            number = following
        if number - 1 > self.passed.get(sender, -1):
            self.passed[sender] = number - 1
        if not waiting:
            self._packets.pop(sender, None)
        return number

    def _deliver(
        self, waiting: dict[int, tuple[Packet, Phase]], number: int, last: int, place: tuple[int, int], out: Effects
    ) -> int:
        packet, phase = waiting.pop(number)
        run: Run = [packet]
        number += 1
        while number <= last and number in waiting and waiting[number][1] == phase:
            run.append(waiting.pop(number)[0])
            number += 1
        self.bytes -= memory_of(run)
        handed = Deliver(run, phase, *place)
        if self.keeps:
            self._hand(place[0], handed, out)
        else:
            out.append(handed)
        return number

    def _hand(self, place: int, effect: Deliver | ReportLost, out: Effects) -> None:
        out.append(effect)
        if self.keeps and _end(place, effect) > self.settled:
            self._unsettled.append((place, effect))

    @property
    def is_far_ahead(self) -> bool:
        """Whether so much was handed over that is not settled that no more should be."""
        return len(self._unsettled) >= _AHEAD_MAX

    def settle(self, below: int) -> None:
        """What was handed over below this place stays; of a run, all or nothing."""
        unsettled, settled = self._unsettled, 0
        while settled < len(unsettled) and _end(*unsettled[settled]) <= below:
            settled += 1
        del unsettled[:settled]

    def undo_from(self, place: int, out: Effects) -> int:
        """Take back what was handed over from this place on, the last first; returns its first place, or -1."""
        undone: list[tuple[int, int]] = []
        first = under = -1
        while self._unsettled and _end(*self._unsettled[-1]) > place:
            at, effect = self._unsettled.pop()
            kept = max(0, place - at)
            first, under = at + kept, effect.under if isinstance(effect, Deliver) else under
            undone += self._take_back(effect, kept)
            if kept:
                self._unsettled.append((at, _head(effect, kept)))
        if undone:
            self.undone += len(undone)
            out.append(UndoDeliveries(undone, first, under))
        return first

    def _take_back(self, effect: Deliver | ReportLost, kept: int) -> list[tuple[int, int]]:
        """It waits again, but for the first `kept` packets; returns the others, the last first."""
        if isinstance(effect, Deliver):
            run = effect.run[kept:]
            sender, first, last = run[0].sender, run[0].seqno, run[-1].seqno
            self._packets.setdefault(sender, {}).update({p.seqno: (p, effect.phase) for p in run})
            self.bytes += memory_of(run)
        else:
            sender, first, last = effect.sender, effect.first + kept, effect.last
            self._lost.setdefault(sender, {}).setdefault(effect.reason, RangeSet()).add(first, last)
        self.passed[sender] = first - 1
        return [(sender, number) for number in range(last, first - 1, -1)]

    def is_overdue(self) -> bool:
        """A while is over: whether a packet whose turn it is was awaited at the end of the last one, too.

        One that comes down the graph may come after its place: if it were missing at once, it would be asked for in
        vain.
        """
        self._overdue = self._awaited if self._awaited == self._awaited_before else _NOBODY
        self._awaited, self._awaited_before = _NOBODY, self._awaited
        return self._follows and self._awaited_before != _NOBODY

    def _settle_absence(self, now: float, sender: int, number: int, last: int, place: int, out: Effects) -> int:
        """The number is not here: pass over what is lost or not owed, or see to it that it comes."""
        for why, numbers in self._lost.get(sender, {}).items():
            if (part := numbers.around(number)) is not None:
                end = min(part[1], last)
                numbers.discard(number, end)
                if why:
                    self._hand(place, ReportLost(sender, number, end, why), out)
                return end + 1
        return self._not_owed(now, sender, number, last, out)

    def _not_owed(self, now: float, sender: int, number: int, last: int, out: Effects) -> int:
        """The first number from this one on that is awaited: others were sent before we came, or were here before."""
        streams = self._ladder.streams
        if sender not in streams and streams.prefix_of(sender) >= number:
            return min(streams.prefix_of(sender), last) + 1  # of one that was retired
        stream = streams.of(sender)
        if number < stream.start:
            return min(stream.start - 1, last) + 1
        if number >= stream.next and not stream.is_own:
            self._awaited = sender, number
            if not self._follows or self._awaited == self._overdue:
                self._ladder.gaps.learn(now, sender, last, out)
            return number
        missing = stream.missing.around(number)
        if missing is not None or number >= stream.next:
            return number
        return number + 1


def _end(place: int, effect: Deliver | ReportLost) -> int:
    return place + (len(effect.run) if isinstance(effect, Deliver) else effect.last - effect.first + 1)


def _head(effect: Deliver | ReportLost, count: int) -> Deliver | ReportLost:
    if isinstance(effect, Deliver):
        return Deliver(effect.run[:count], effect.phase, effect.place, effect.under)
    return ReportLost(effect.sender, effect.first, effect.first + count - 1, effect.reason)
