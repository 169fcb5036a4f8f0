"""Which channels this member listens to: a small join (000 §5.3) for each channel that is new.

A member that wants to listen says so to all, in its entry of the view, and hears the channel's multicast from then on.
Then it asks how far the channel's streams are. Whoever answers holds the new entry by then, so that nobody collects
what comes after; the answers' element-wise maximum is where the member is owed the channel's packets from. As for a
join, k answers of listeners are enough, or one of a logger, or those of all listeners if they are fewer. If nobody
else listens, senders answer for themselves, and a few tries are enough: those that do not answer have sent nothing.

To stop listening takes effect at once: what is missing is not awaited any more, and the others learn of it in time.
"""

from collections.abc import Mapping
from math import inf

from gossamer.core.channels import listen, unlisten
from gossamer.core.effects import HearChannels, Multicast, Unicast
from gossamer.core.ids import channel_of, channels_in, owner_of
from gossamer.core.inputs import ListenAsked
from gossamer.core.ladder import Effects, InputHandler, Ladder, MessageHandler, Rung
from gossamer.core.packet_sets import Horizon
from gossamer.core.views import ChannelsSeen, WantChannels

_TRIES_ALONE = 3
"""If nobody else listens, a channel is asked for this often before it counts as silent."""
_TRIES_MAX = 8
"""After so many tries those that have not answered are not waited for: they may have begun to listen just now, too."""
_EAGERNESS = 4
"""Of n listeners about this many times k answer, as for a join."""


class Listeners(Rung):
    """What this member wants to listen to, and what it waits for."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._freshness = -1  # of the entry with which we last asked
        self._tries = 0
        self._seen: Horizon = {}
        self._answers: dict[int, dict[int, None]] = {}  # by channel: the listeners that have answered
        self._resume = False
        self._timer = ladder.timer(self._ask)

    def messages(self) -> Mapping[type, MessageHandler]:
        """The question, and its answers."""
        return {WantChannels: self._wanted, ChannelsSeen: self._told}

    def inputs(self) -> Mapping[type, InputHandler]:
        """The application's wish."""
        return {ListenAsked: self._wish}

    def started(self, now: float, out: Effects) -> None:
        """What an oracle says that this member hears, it hears from the first moment."""
        if self.ladder.streams.channels > 1:
            out.append(HearChannels(self.ladder.streams.channels))
        self._resume = self.ladder.restored.recovers and self.ladder.settings.recovery == "at-least-once"

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """A member that joins again, because it was alone or cut off, begins again to listen."""
        if self._missing() and self.ladder.is_member and self._timer.deadline == inf:
            self._begin(now, out)

    def _missing(self) -> int:
        """The channels that are wanted and not heard yet."""
        return self.ladder.wanted_channels & ~self.ladder.streams.channels

    def _wish(self, now: float, wish: ListenAsked, out: Effects) -> None:
        ladder = self.ladder
        if ladder.is_logger:
            return  # it hears all
        ladder.wanted_channels = wish.channels | 1
        out.append(HearChannels(ladder.wanted_channels))
        ended = ladder.streams.channels & ~ladder.wanted_channels
        if ended:
            unlisten(ladder, now, ended, out)
        if not ladder.membership.self_organized:
            listen(ladder, now, ladder.wanted_channels, wish.horizon, out)
        elif ladder.is_member:
            self._begin(now, out)

    def _begin(self, now: float, out: Effects) -> None:
        """Ask from the start, with an entry that is known to be fresh."""
        self.ladder.membership.declare_channels(now, out)
        self._tries = 0
        self._seen, self._answers = {}, {}
        self._ask(now, out)

    def _ask(self, now: float, out: Effects) -> None:
        """Again, until enough have answered; one that is no member any more begins again when it is."""
        self._timer.set(inf)
        if not self._missing() or not self.ladder.is_member:
            return
        self._settle(now, out)
        entry = self.ladder.membership.own_entry()
        if (missing := self._missing()) and entry is not None:
            self._tries += 1
            self._freshness = entry.freshness
            out.append(Multicast(WantChannels(entry, missing, self._resume)))
            self._timer.set(now + self.ladder.settings.gossip_period)

    # Those that know.

    def _wanted(self, now: float, source: int, message: WantChannels, out: Effects) -> None:
        """Tell how far streams are, once the source is in our view as it wants to be."""
        if message.entry.member != source or not self.ladder.membership.take_in(now, message.entry, out):
            return
        known = message.channels & self.ladder.streams.channels  # of these we can tell how far all streams are
        if self._offers(source, message.channels, known):
            streams = self.ladder.streams
            seen = {s: streams[s].last for s in streams if message.channels >> channel_of(s) & 1}
            if message.resume and self.ladder.is_logger and self.ladder.membership.is_back(source):
                acknowledged = self.ladder.acknowledged.get(source, {})
                seen = {stream: acknowledged.get(stream, -1) for stream in seen if owner_of(stream) != source}
            out.append(Unicast(source, ChannelsSeen(message.entry.freshness, known or message.channels, seen)))

    def _offers(self, source: int, channels: int, known: int) -> bool:
        """A logger always answers, a listener often enough, a sender if nobody else listens."""
        ladder = self.ladder
        if ladder.is_logger:
            return True
        if known:
            fewest = min(len(ladder.roster.listeners(channel)) for channel in channels_in(known))
            return ladder.rng.random() * max(1, fewest) < _EAGERNESS * ladder.settings.sponsors
        mine = [channel for s in ladder.own if channels >> (channel := channel_of(s)) & 1]
        return any(not set(ladder.roster.others(channel)) - {source} for channel in mine)

    def _told(self, now: float, source: int, message: ChannelsSeen, out: Effects) -> None:
        if message.freshness != self._freshness or not self._missing():
            return
        for stream, last in message.seen.items():
            if self.ladder.gaps.can_be(now, last):
                self._seen[stream] = max(self._seen.get(stream, -1), last)
        for channel in channels_in(message.channels & self._missing()):
            self._answers.setdefault(channel, {})[source] = None
        self._settle(now, out)

    def _settle(self, now: float, out: Effects) -> None:
        """Begin to listen where enough have answered."""
        missing = [channel for channel in channels_in(self._missing()) if self.ladder.order.admits(channel)]
        settled = sum(1 << channel for channel in missing if self._is_known(channel))
        if settled:
            listen(self.ladder, now, settled, self._seen, out)
        if not self._missing():
            self._timer.set(inf)

    def _is_known(self, channel: int) -> bool:
        roster = self.ladder.roster
        answered = self._answers.get(channel, {})
        if any(member in roster.loggers for member in answered):
            return True
        others = roster.others(channel)
        if self._resume and roster.loggers:
            return False  # only a logger knows where we stopped
        if not others or self._tries >= _TRIES_MAX:
            return self._tries >= _TRIES_ALONE or len(roster) < 2
        heard = [member for member in answered if roster.hears(member, channel)]
        return len(heard) >= min(self.ladder.settings.sponsors, len(others))
