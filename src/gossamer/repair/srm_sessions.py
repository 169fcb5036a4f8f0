"""Session messages (SRM): now and then each member tells all others how far it has seen every sender.

A last packet that was lost is noticed by that. Messages also carry the time, and the times that others sent, so that
members learn how far they are from each other: a time comes back with how long it was held added to it, so that it
reads like an echo that came at once (`core.round_trips`, which all rungs share). As long as echoes of gossip tell all
of that, session messages do not ask for it.

All session messages together take a small part (5%) of the bandwidth that the packets take: the more members, the more
rarely each of them speaks. But at least one of them does in every `session_period`, or else a last packet would not be
missed for long; and none more often than that.
"""

from gossamer.core.ids import channel_of
from gossamer.core.ladder import Ladder
from gossamer.core.messages import Session
from gossamer.core.packet_sets import Horizon
from gossamer.core.round_trips import stamp_of

_ENTRIES_MAX = 64
"""Senders, and members, that one message names; if there are more, they take turns."""
_MESSAGE_BYTES, _ENTRY_BYTES, _PACKET_BYTES = 60, 12, 1500
"""What a message costs, each entry of it, and a packet of which there is none to measure."""
_STAMP_MAX = 1 << 62
_ROUND_TRIP_S_MAX = 60.0
"""What is not a time of this member is not believed."""
_MEASURE_MESSAGES = 16
"""Known distances are measured again after this many messages."""


class Sessions:
    """What one member says of itself, and when."""

    __slots__ = ("_bytes", "_ladder", "_number", "_packets", "_rate", "_said_at", "_stamps", "_turn")

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self._stamps: dict[int, tuple[int, float]] = {}  # by member: the time it sent, and when that came
        self._number = self._turn = self._packets = 0
        self._bytes = _MESSAGE_BYTES
        self._said_at = self._rate = 0.0  # bytes per second of packets, smoothed

    def messages(self, now: float) -> dict[int, Session]:
        """What to tell all others now and, by channel, those that listen."""
        self._number += 1
        self._measure_rate(now)
        lasts, echoes = self._lasts(), self._echoes(now)
        self._bytes = _MESSAGE_BYTES + _ENTRY_BYTES * (len(lasts) + len(echoes))
        found = {0: Session({}, stamp_of(now) if self._wants_times() else 0, echoes)}
        for sender, last in lasts.items():
            found.setdefault(channel_of(sender), Session({})).lasts[sender] = last
        return found

    def pause(self) -> float:
        """How long to be silent until the next message: about as long as all others take together."""
        settings, members = self._ladder.settings, max(1, len(self._ladder.roster))
        shortest = pause = settings.session_period
        if self._number > 1:  # or the rate is not known yet, nor distances
            share, longest = settings.session_share * self._rate, members * shortest
            pause = members * self._bytes / share if share * longest > members * self._bytes else longest
        return max(shortest, pause) * (0.5 + self._ladder.rng.random())

    def heard(self, now: float, source: int, message: Session) -> None:
        """The times that another member has sent."""
        if 0 < message.stamp < _STAMP_MAX:
            self._stamps[source] = message.stamp, now
        echo = message.echoes.get(self._ladder.me)
        if echo is not None and echo > (now - _ROUND_TRIP_S_MAX) * 1e6:
            self._ladder.round_trips.echoed(now, source, echo)

    def keep_only_members(self) -> None:
        """The group has changed."""
        knows = self._ladder.roster.knows
        self._stamps = {member: stamp for member, stamp in self._stamps.items() if knows(member)}

    def _lasts(self) -> Horizon:
        lasts = {sender: stream.next - 1 for sender, stream in self._ladder.streams.items() if stream.next}
        if len(lasts) <= _ENTRIES_MAX:
            return lasts
        turned = list(lasts.items())
        self._turn = (self._turn + _ENTRIES_MAX) % len(turned)
        return dict((turned[self._turn :] + turned[: self._turn])[:_ENTRIES_MAX])

    def _echoes(self, now: float) -> Horizon:
        """Each time that was heard is returned once, the oldest first."""
        members = list(self._stamps)[:_ENTRIES_MAX]
        heard = {member: self._stamps.pop(member) for member in members}
        return {member: stamp + int((now - at) * 1e6) for member, (stamp, at) in heard.items()}

    def _wants_times(self) -> bool:
        times = self._ladder.round_trips.times
        return self._number % _MEASURE_MESSAGES == 0 or any(m not in times for m in self._ladder.roster.others())

    def _measure_rate(self, now: float) -> None:
        """How many bytes all senders have sent since the last message, about."""
        streams = self._ladder.streams
        packets, elapsed = sum(stream.next for stream in streams.values()), now - self._said_at
        if self._number > 1 and elapsed > 0:  # those before are of another time
            latest = max(0, packets - self._packets) * self._packet_bytes() / elapsed
            self._rate = latest if self._number == 2 else (self._rate + latest) / 2
        self._packets, self._said_at = packets, now

    def _packet_bytes(self) -> int:
        """Packets are much alike: look at one of the last."""
        for sender, stream in self._ladder.streams.items():
            packet = self._ladder.buffer.get(sender, stream.next - 1)
            if packet is not None:
                return len(packet.body)
        return _PACKET_BYTES
