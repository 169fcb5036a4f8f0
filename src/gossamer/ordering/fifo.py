"""FIFO per sender: packets and losses of one sender reach the application in the order of their numbers."""

from gossamer.core.effects import Deliver, ReportLost
from gossamer.core.ids import Phase
from gossamer.core.ladder import Effects
from gossamer.core.packets import Packet, Run

Held = tuple[Packet, Phase] | str
"""What waits for its turn under a number: a packet, the reason for which it was lost, or "" if it never was."""


class _Turn:
    """One sender: whose turn it is, and what came too early."""

    __slots__ = ("held", "next")

    def __init__(self, start: int) -> None:
        self.next = start
        self.held: dict[int, Held] = {}


class Fifo:
    """Holds back what is early; a gap that is given up takes its turn as a loss."""

    def __init__(self) -> None:
        self._turns: dict[int, _Turn] = {}

    def starts(self, sender: int, first: int) -> None:
        """The first number of `sender` that this member is owed."""
        self._turns[sender] = _Turn(first)

    def passes(self, sender: int, first: int, last: int) -> bool:
        """Whether `first..last` need not be held back nor make others follow; if so, their turn is over."""
        turn = self._turn(sender)
        if turn.next != first or turn.held:
            return False
        turn.next = last + 1
        return True

    def accepted(self, run: Run, phase: Phase, out: Effects) -> None:
        """Deliver the run if its turn has come, else hold it."""
        turn = self._turn(run[0].sender)
        if run[0].seqno == turn.next:
            turn.next = run[-1].seqno + 1
            out.append(Deliver(run, phase))
            if turn.held:
                self._drain(run[0].sender, turn, out)
            return
        for packet in run:
            turn.held[packet.seqno] = (packet, phase)

    def given_up(self, sender: int, first: int, last: int, reason: str, out: Effects) -> None:
        """A loss waits for its turn as a packet does; an empty reason says that there is nothing to report."""
        turn = self._turn(sender)
        if first == turn.next:
            turn.next = last + 1
            if reason:
                out.append(ReportLost(sender, first, last, reason))
            self._drain(sender, turn, out)
            return
        for seqno in range(first, last + 1):
            turn.held[seqno] = reason

    def _turn(self, sender: int) -> _Turn:
        if sender not in self._turns:
            self._turns[sender] = _Turn(0)
        return self._turns[sender]

    def _drain(self, sender: int, turn: _Turn, out: Effects) -> None:
        while (held := turn.held.pop(turn.next, None)) is not None:
            if not isinstance(held, str):
                out.append(Deliver([held[0]], held[1]))
            elif held:
                out.append(ReportLost(sender, turn.next, turn.next, held))
            turn.next += 1
