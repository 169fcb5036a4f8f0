"""What a run leaves behind: always counters, and trace rows on request.

Counters are by message kind and member; rows follow the one schema of `gossamer.trace`.
"""

from collections.abc import Sequence

from gossamer.core.effects import MarkStable, Note, ReportLost
from gossamer.core.ids import EVERYONE, FIRST_PASS, Phase, owner_of
from gossamer.core.inputs import Heard, Received
from gossamer.core.messages import Data, Message, Repair
from gossamer.core.packets import Packet
from gossamer.trace.buffer import RowBuffer


class Recorder:
    """Counts every transmission; with a sink, also writes a row for everything that happens."""

    def __init__(self, sink: RowBuffer | None = None) -> None:
        self._sink = sink
        self.tracing = sink is not None
        self.overhead: dict[str, list[int]] = {}  # by kind: packets, bytes
        self.repairs: dict[int, int] = {}  # by member

    def sent(self, now: float, member: int, to: int, message: Message, size: int) -> None:
        """`member` put a message on the network."""
        if isinstance(message, Repair):
            self.repairs[member] = self.repairs.get(member, 0) + 1
        elif not isinstance(message, Data):
            counts = self.overhead.get(message.kind)
            if counts is None:
                counts = self.overhead[message.kind] = [0, 0]
            counts[0] += 1
            counts[1] += size
        if self._sink is not None:
            sender, seqno, phase = _carried(message)
            self._sink.row(_ns(now), member, message.kind, sender, seqno, to, size, phase)

    def received(self, now: float, members: Sequence[int], happened: Received | Heard, transmitter: int) -> None:
        """A message reached `members`; `transmitter` put it on the network."""
        if self._sink is not None:
            if isinstance(happened, Received):
                sender, seqno, phase = happened.sender, happened.first, str(happened.phase)
            else:
                sender, seqno, phase = -1, -1, happened.message.kind
            self._sink.many(_ns(now), members, "receive", sender, seqno, transmitter, 0, phase)

    def published(self, now: float, packet: Packet) -> None:
        """A packet was published."""
        self._packet(now, (owner_of(packet.sender),), "publish", packet, "")

    def delivered(self, now: float, members: Sequence[int], packet: Packet, phase: Phase) -> None:
        """The applications of `members` got a packet."""
        self._packet(now, members, "deliver", packet, phase)

    def lost(self, now: float, member: int, effect: ReportLost) -> None:
        """`member` gave up some packets."""
        if self._sink is not None:
            for seqno in range(effect.first, effect.last + 1):
                self._sink.row(_ns(now), member, "lost", effect.sender, seqno, EVERYONE, 0, effect.reason)

    def undone(self, now: float, member: int, packets: Sequence[tuple[int, int]]) -> None:
        """The application of `member` was told to undo these packets."""
        if self._sink is None:
            return
        for sender, seqno in packets:
            self._sink.row(_ns(now), member, "undo", sender, seqno, EVERYONE, 0, "")

    def joined(self, now: float, member: int, horizon: dict[int, int]) -> None:
        """`member` takes part from now on, and is owed all packets after `horizon`, and its own from now on."""
        self.noted(now, member, "join")
        if self._sink is not None:
            for sender, last in sorted(horizon.items()):
                if sender == member:
                    continue  # if it published while it was alone, sponsors know less of that than it does
                self._sink.row(_ns(now), member, "join", sender, last, EVERYONE, 0, "")

    def listened(self, now: float, member: int, channel: int, horizon: dict[int, int]) -> None:
        """`member` listens to `channel` from now on, and is owed all packets after `horizon`."""
        if self._sink is not None:
            self._sink.row(_ns(now), member, "channel", -1, channel, EVERYONE, 0, "on")
            for sender, last in sorted(horizon.items()):
                self._sink.row(_ns(now), member, "join", sender, last, EVERYONE, 0, "")

    def stopped_listening(self, now: float, member: int, channel: int) -> None:
        """`member` listens to `channel` no more."""
        if self._sink is not None:
            self._sink.row(_ns(now), member, "channel", -1, channel, EVERYONE, 0, "off")

    def stored(self, now: float, member: int, kind: str, sender: int, seqno: int) -> None:
        """A packet entered (`store`) or left (`collect`) the log of `member`."""
        if self._sink is not None:
            self._sink.row(_ns(now), member, kind, sender, seqno, EVERYONE, 0, "log")

    def flushed(self, now: float, sender: int, last: int, phase: str = "") -> None:
        """A member was told that its packets of `sender` up to `last` are durable or, by the phase, `unlogged`."""
        if self._sink is not None:
            self._sink.row(_ns(now), owner_of(sender), "flush", sender, last, EVERYONE, 0, phase)

    def stable(self, now: float, member: int, effect: MarkStable) -> None:
        """`member` considers these packets stable."""
        if self._sink is not None:
            for seqno in range(effect.first, effect.last + 1):
                self._sink.row(_ns(now), member, "stable", effect.sender, seqno, EVERYONE, 0, "")

    def note(self, now: float, member: int, effect: Note) -> None:
        """What a stack notes about itself."""
        if self._sink is not None:
            self._sink.row(_ns(now), member, effect.kind, effect.sender, effect.seqno, effect.peer, 0, effect.phase)

    def dropped(self, now: float, member: int, reason: str) -> None:
        """Something did not reach `member`."""
        self.noted(now, member, "drop", reason)

    def noted(self, now: float, member: int, kind: str, phase: str = "") -> None:
        """Something happened to `member`: join, leave, crash, recover, side, listen, drop."""
        if self._sink is not None:
            self._sink.row(_ns(now), member, kind, -1, -1, EVERYONE, 0, phase)

    def _packet(self, now: float, members: Sequence[int], kind: str, packet: Packet, phase: str) -> None:
        if self._sink is not None:
            size = len(packet.body)
            self._sink.many(_ns(now), members, kind, packet.sender, packet.seqno, EVERYONE, size, phase)


def _ns(time: float) -> int:
    return round(time * 1e9)


def _carried(message: Message) -> tuple[int, int, str]:
    """The packet that a message carries, and its rung; -1 and "" if it carries none."""
    if isinstance(message, Data):
        return message.packet.sender, message.packet.seqno, FIRST_PASS
    if isinstance(message, Repair):
        return message.packet.sender, message.packet.seqno, message.phase
    return -1, -1, ""
