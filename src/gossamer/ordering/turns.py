"""What waits for its turn in an order that is not the stream's own: packets, and losses in their place."""

from gossamer.core.effects import Deliver, ReportLost
from gossamer.core.ids import Phase
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import Horizon
from gossamer.core.packets import Packet, Run, memory_of
from gossamer.core.ranges import RangeSet

PASSED = "its place in the order has passed"


class Turns:
    """By sender: what came and has not had its turn, and how far turns have come."""

    __slots__ = ("_ladder", "_lost", "_packets", "bytes", "passed")

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self._packets: dict[int, dict[int, tuple[Packet, Phase]]] = {}
        self._lost: dict[int, dict[str, RangeSet]] = {}  # by sender and reason
        self.bytes = 0
        self.passed: Horizon = {}
        """By sender: the highest number that has had its turn."""

    def wait(self, run: Run, phase: Phase, out: Effects) -> None:
        """These came. Some may be too late: they belong to a past that the order does not know."""
        sender = run[0].sender
        late = max(0, self.passed.get(sender, -1) + 1 - run[0].seqno)
        if late:
            out.append(ReportLost(sender, run[0].seqno, run[:late][-1].seqno, PASSED))
            run = run[late:]
        if run:
            waiting = self._packets.setdefault(sender, {})
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
        """By sender: the highest number that waits."""
        return {sender: max(waiting) for sender, waiting in self._packets.items() if waiting}

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
        if not self._ladder.streams.hears(sender):
            self.forget(sender, 0)  # it came while we still listened
            self.passed[sender] = max(last, self.passed.get(sender, -1))
            return last + 1
        waiting = self._packets.get(sender, {})
        number = first
        while number <= last:
            if number in waiting:
                following = self._deliver(waiting, number, last, (place + number - first, under), out)
            else:
                following = self._settle_absence(now, sender, number, last, out)
            if following == number:
                break
            number = following
        self.passed[sender] = max(number - 1, self.passed.get(sender, -1))
        if not waiting:
            self._packets.pop(sender, None)
        return number

    def _deliver(
        self, waiting: dict[int, tuple[Packet, Phase]], number: int, last: int, place: tuple[int, int], out: Effects
    ) -> int:
        phase = waiting[number][1]
        run: Run = []
        while number <= last and number in waiting and waiting[number][1] == phase:
            run.append(waiting.pop(number)[0])
            number += 1
        self.bytes -= memory_of(run)
        out.append(Deliver(run, phase, *place))
        return number

    def _settle_absence(self, now: float, sender: int, number: int, last: int, out: Effects) -> int:
        """The number is not here: pass over what is lost or not owed, or see to it that it comes."""
        for why, numbers in self._lost.get(sender, {}).items():
            if (part := numbers.around(number)) is not None:
                end = min(part[1], last)
                numbers.discard(number, end)
                if why:
                    out.append(ReportLost(sender, number, end, why))
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
            self._ladder.gaps.learn(now, sender, last, out)
            return number
        missing = stream.missing.around(number)
        if missing is not None or number >= stream.next:
            return number
        return number + 1
