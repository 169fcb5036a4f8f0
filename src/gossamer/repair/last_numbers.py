"""What a coordinator's null messages say of senders, and what a member that hears them has to add.

A null message gives the last numbers of a constant number of senders, whatever their total: those that were active
lately first, the others in turn. It gives them as they were a null period ago, so that packets on their way are not
taken for lost. A follower that has had more of a sender for two null messages that named it says so; and when
it says that it follows, it adds its own last number and those of a few others, in turn. All of that concerns channel 0,
which a coordinator is sure to hear.
"""

from itertools import islice

from gossamer.core.ids import channel_of
from gossamer.core.ladder import Ladder
from gossamer.core.packet_sets import Horizon
from gossamer.core.streams import Stream

_NAMED_MAX = 32
"""Senders in a null message."""
_ACTIVE_BEATS = 4
"""A sender counts as active for this many null messages after its last packet."""
_ADDED_MAX = 4
"""Senders besides itself of which a follower tells how far it has them."""


class LastNumbers:
    """How far senders have come, as one member knows it."""

    __slots__ = ("_active", "_ahead", "_ladder", "_next_turn", "_prepared", "latest", "settled")

    def __init__(self, ladder: Ladder) -> None:
        self.settled: Horizon = {}
        """The last numbers of a null period ago."""
        self.latest: Horizon = {}
        """The last numbers at the last null message."""
        self._ladder = ladder
        self._active: dict[int, int] = {}  # for how many null messages more
        self._next_turn = 0
        self._ahead: dict[int, tuple[int, int]] = {}  # what we had at the null message before the last, and at the last
        self._prepared: Horizon = {}

    def beat(self) -> None:
        """A null period of a coordinator is over."""
        before, self.settled = self.settled, self.latest
        streams = self._ladder.streams.items()
        self.latest = {s: stream.next - 1 for s, stream in streams if stream.next and not channel_of(s)}
        active = {sender: beats - 1 for sender, beats in self._active.items() if beats > 1}
        active |= {s: _ACTIVE_BEATS for s, last in self.settled.items() if before.get(s) != last}
        self._active = active

    def named(self) -> Horizon:
        """What to say in a null message."""
        found = {s: self.settled[s] for s in islice(self._active, _NAMED_MAX) if s in self.settled}
        rest = [sender for sender in self.settled if sender not in found]
        room = _NAMED_MAX - len(found)
        if len(rest) > room:
            first = self._next_turn % len(rest)
            self._next_turn = first + room
            rest = (rest + rest)[first : first + room]
        return found | {sender: self.settled[sender] for sender in rest}

    def ahead(self, lasts: Horizon) -> Horizon:
        """The senders of which we had more than this even two null messages ago: it cannot be on its way any more."""
        found: Horizon = {}
        for sender, last in lasts.items():
            stream = self._ladder.streams.get(sender)
            mine = -1 if stream is None else had_up_to(stream)
            if mine <= last:
                self._ahead.pop(sender, None)
                continue
            older, newer = self._ahead.get(sender, (-1, -1))
            if last < older:
                found[sender] = mine
            self._ahead[sender] = newer, mine
        return found

    def forget(self) -> None:
        """Another coordinator: what was said before was said by another."""
        self._ahead.clear()
        self._prepared.clear()

    def added(self) -> Horizon:
        """What a follower adds: as it was when it last did, so that everybody has had time to hear it."""
        streams, me = self._ladder.streams, self._ladder.me
        told, chosen = self._prepared, [me]
        others = [sender for sender in streams if sender != me and not channel_of(sender)]
        if others:
            first = self._next_turn % len(others)
            self._next_turn = first + _ADDED_MAX
            chosen += (others + others)[first : first + min(_ADDED_MAX, len(others))]
        lasts = {sender: had_up_to(streams[sender]) for sender in chosen}
        self._prepared = {sender: last for sender, last in lasts.items() if last >= 0}
        return told


def had_up_to(stream: Stream) -> int:
    """The highest number that was received; -1 if there is none."""
    last = stream.next - 1
    if stream.missing and stream.missing.last == last:
        last = stream.missing.firsts[-1] - 1
    return last if last >= stream.start else -1
