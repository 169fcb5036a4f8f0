"""Letters from one member to one other: each part is repeated until it is acknowledged, and each letter arrives once.

Events go to everybody, and a log keeps them. What concerns only one other member (the reply to a request, what a
durable subscriber has finished) goes as a letter instead. Letters keep no order among each other. A letter to a member
that has left the view is dropped, and counted.
"""

from collections.abc import Mapping
from math import inf

from gossamer.core.effects import HandLetter, Unicast
from gossamer.core.inputs import LetterWritten
from gossamer.core.ladder import Effects, InputHandler, Ladder, MessageHandler, Rung
from gossamer.core.letters import Letter, LetterSeen
from gossamer.core.ranges import RangeSet
from gossamer.core.roster import Roster
from gossamer.core.timers import Timer

LETTER_BYTES_MAX = 1 << 20
PART_BYTES = 1200
"""Fits into a datagram on any network, sealed or not."""
_PARTS_MAX = -(-LETTER_BYTES_MAX // PART_BYTES)
_AT_A_TIME = 32
"""Parts of one letter that may be on their way."""
_WAIT_S = 0.01
"""A part is repeated after this and two round trips, and then more and more rarely, up to once in _WAIT_MAX_S."""
_WAIT_MAX_S = 0.5
_SEEN_AFTER_S = 0.002
"""What has come is acknowledged after this long: the application, which may wait for it, comes first."""
_WAITING_MAX = 10_000
"""Letters on their way, to all members together."""
_UNREAD_BYTES_MAX = 32 << 20
"""For letters that have not arrived completely: what does not fit is not acknowledged, and comes again."""


class _Sent:
    """A letter on its way."""

    __slots__ = ("due", "following", "on_way", "parts", "topic", "wait")

    def __init__(self, topic: int, content: bytes, wait: float) -> None:
        self.topic = topic
        self.parts = [content[at : at + PART_BYTES] for at in range(0, len(content), PART_BYTES)] or [b""]
        self.following = 0  # the next part that was never sent
        self.on_way: dict[int, None] = {}  # parts that were sent and are not acknowledged
        self.wait = wait
        self.due = inf


class Letters(Rung):
    """The letters that this member sends and receives."""

    __slots__ = ("_arriving", "_next", "_read", "_seen", "_sent", "_soon", "_timer", "_unread_bytes")

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._next: dict[int, int] = {}  # by member: the number of the next letter to it
        self._sent: dict[tuple[int, int], _Sent] = {}
        self._arriving: dict[tuple[int, int], dict[int, bytes]] = {}
        self._read: dict[int, RangeSet] = {}  # by member: the letters of it that were handed over
        self._seen: list[Unicast] = []  # acknowledgements that are due soon
        self._unread_bytes = 0
        self._timer: Timer | None = None  # few members ever write
        self._soon: Timer | None = None

    def messages(self) -> Mapping[type, MessageHandler]:
        """Parts of letters, and their acknowledgements."""
        return {Letter: self._arrived, LetterSeen: self._was_seen}

    def inputs(self) -> Mapping[type, InputHandler]:
        """What the application writes."""
        return {LetterWritten: self._written}

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """Nothing more goes to a member that has left, or comes from it."""
        roster = self.ladder.roster
        for key in [key for key in self._sent if not roster.knows(key[0])]:
            del self._sent[key]
            self.ladder.ignored["letters to members that left"] += 1
        for key in [key for key in self._arriving if not roster.knows(key[0])]:
            self._forget(key)
        for table in (self._next, self._read):
            for member in [member for member in table if not roster.knows(member)]:
                del table[member]

    # Sending.

    def _written(self, now: float, written: LetterWritten, out: Effects) -> None:
        to = written.to
        if not self.ladder.roster.knows(to):
            self.ladder.ignored["letters to members that left"] += 1
            return
        if len(self._sent) >= _WAITING_MAX:
            self.ladder.ignored["letters without room"] += 1
            return
        # numbers continue across a restart, after which a logger is the same member
        number = self._next.get(to) or int(now * 1e6)
        self._next[to] = number + 1
        self._sent[to, number] = letter = _Sent(written.topic, written.content, self._patience(to))
        self._send_more(now, to, number, letter, out)

    def _patience(self, to: int) -> float:
        return _WAIT_S + 2 * self.ladder.round_trips.times.get(to, 0.0)

    def _send_more(self, now: float, to: int, number: int, letter: _Sent, out: Effects) -> None:
        while letter.following < len(letter.parts) and len(letter.on_way) < _AT_A_TIME:
            self._send(to, number, letter, letter.following, out)
            letter.on_way[letter.following] = None
            letter.following += 1
        letter.due = now + letter.wait
        self._timer = self._timer or self.ladder.timer(self._repeat)
        if letter.due < self._timer.deadline:
            self._timer.set(letter.due)

    def _send(self, to: int, number: int, letter: _Sent, part: int, out: Effects) -> None:
        out.append(Unicast(to, Letter(number, letter.topic, part, len(letter.parts), letter.parts[part])))

    def _was_seen(self, now: float, source: int, message: LetterSeen, out: Effects) -> None:
        letter = self._sent.get((source, message.number))
        if letter is None or message.part not in letter.on_way:
            return
        del letter.on_way[message.part]
        letter.wait = self._patience(source)
        if letter.on_way or letter.following < len(letter.parts):
            self._send_more(now, source, message.number, letter, out)
        else:
            del self._sent[source, message.number]

    def _repeat(self, now: float, out: Effects) -> None:
        for (to, number), letter in self._sent.items():
            if letter.due <= now:
                for part in letter.on_way:
                    self._send(to, number, letter, part, out)
                letter.wait = min(2 * letter.wait, _WAIT_MAX_S)
                letter.due = now + letter.wait
        if self._sent and self._timer is not None:
            self._timer.set(min(letter.due for letter in self._sent.values()))

    # Receiving.

    def _arrived(self, now: float, source: int, message: Letter, out: Effects) -> None:
        key = source, message.number
        if message.number in self._read.get(source, ()):
            self._acknowledge(now, source, message)
            return
        if not message.part < message.parts <= _PARTS_MAX or len(message.content) > PART_BYTES:
            self.ladder.ignored["impossible letters"] += 1
            return
        parts = self._arriving.setdefault(key, {})
        if message.part not in parts:
            if self._unread_bytes + PART_BYTES > _UNREAD_BYTES_MAX:
                self.ladder.ignored["letters without room"] += 1
                return
            parts[message.part] = message.content
            self._unread_bytes += PART_BYTES
        self._acknowledge(now, source, message)
        if len(parts) == message.parts:
            self._forget(key)
            self._read.setdefault(source, RangeSet()).add(message.number)
            out.append(HandLetter(source, message.topic, b"".join(parts[at] for at in sorted(parts))))

    def _acknowledge(self, now: float, source: int, message: Letter) -> None:
        self._seen.append(Unicast(source, LetterSeen(message.number, message.part)))
        self._soon = self._soon or self.ladder.timer(self._acknowledge_all)
        self._soon.arm(now + _SEEN_AFTER_S)

    def _acknowledge_all(self, now: float, out: Effects) -> None:
        out += self._seen
        self._seen = []

    def _forget(self, key: tuple[int, int]) -> None:
        self._unread_bytes -= PART_BYTES * len(self._arriving.pop(key))
