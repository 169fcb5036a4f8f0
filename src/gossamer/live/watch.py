"""What a live member writes down of itself: rows of a trace, in the one schema, while a trace is wanted."""

from time import time_ns

from gossamer.core.effects import Note, ReportLost
from gossamer.core.ids import EVERYONE, Phase
from gossamer.core.messages import Data, Message, Repair
from gossamer.core.packets import Run
from gossamer.trace.buffer import RowBuffer


class Watch:
    """Writes to `trace`, or does nothing."""

    def __init__(self, me: int, trace: RowBuffer | None) -> None:
        self.me = me
        self.tracing = trace is not None
        self._trace = trace

    def published(self, run: Run) -> None:
        """Packets of ours exist."""
        if self._trace is not None:
            for packet in run:
                self._row("publish", packet.sender, packet.seqno, size=len(packet.body))

    def delivered(self, run: Run, phase: Phase) -> None:
        """Packets went to the application."""
        if self._trace is not None:
            now = time_ns()
            for packet in run:
                self._trace.row(now, self.me, "deliver", packet.sender, packet.seqno, EVERYONE, len(packet.body), phase)

    def lost(self, effect: ReportLost) -> None:
        """A gap was given up."""
        for seqno in range(effect.first, effect.last + 1):
            self._row("lost", effect.sender, seqno, phase=effect.reason)

    def joined(self, horizon: dict[int, int]) -> None:
        """We are owed what comes behind `horizon`."""
        self._row("join")
        for sender, last in horizon.items():
            self._row("join", sender, last)

    def sent(self, to: int, message: Message, size: int) -> None:
        """A datagram left."""
        packet = message.packet if isinstance(message, Data | Repair) else None
        phase = message.phase if isinstance(message, Repair) else ""
        sender, seqno = (packet.sender, packet.seqno) if packet is not None else (-1, -1)
        self._row(message.kind, sender, seqno, to, size, phase)

    def note(self, effect: Note) -> None:
        """The stack wants it written down."""
        self._row(effect.kind, effect.sender, effect.seqno, effect.peer, 0, effect.phase)

    def noted(self, kind: str) -> None:
        """Something happened to us."""
        self._row(kind)

    def _row(
        self, kind: str, sender: int = -1, seqno: int = -1, peer: int = EVERYONE, size: int = 0, phase: str = ""
    ) -> None:
        if self._trace is not None:
            self._trace.row(time_ns(), self.me, kind, sender, seqno, peer, size, phase)
