"""The channel map of a live group: from subscriptions to channels, and from one map to the next without a loss.

A map is installed in four steps, and each member takes them by itself, looking at what the others say in the view:

1. It learns of the map, and listens to the channels that its subscriptions need in the new map and in the old one.
2. When it does, it says that it knows the map.
3. When all others say so, it publishes by it (`outboxes`). So whoever subscribes to a subject hears it by either map.
   If some of them know a later map already, it waits for that one: they may never have known this one.
   A member that is away is waited for, but not for long: it is told that it may have missed something.
4. When all others publish by it, and nothing is missing in the old channels, it stops listening to those.

A member that knows no map publishes to channel 0, which all hear. One that comes while maps change is told of all that
members may still publish by, and listens by these, too. One that reads the past also hears, until it has caught up, the
channels in which a log holds something: by which maps that was published, nobody remembers.
"""

import asyncio
import logging
from math import inf
from time import monotonic

from gossamer.core.ids import channel_of, channels_in
from gossamer.core.inputs import ListenAsked, MapKnown
from gossamer.live.inbox import Inbox
from gossamer.live.member import Member
from gossamer.live.outboxes import Outboxes
from gossamer.live.switches import Switches
from gossamer.membership.channel_maps import is_used, number_of
from gossamer.pubsub.channel_map import CHANNELS_MAX, ChannelMap, ChannelMapError
from gossamer.pubsub.maps_in_use import NONE_IN_USE, MapsInUse

_log = logging.getLogger("gossamer")

_LOOK_S = 0.05
_LOOK_SELDOM_S = 0.5
"""If no map is on its way: a subscription may have been dropped, or others may know a later map."""
PATIENCE_S = 15.0
"""A member that does not take the next step, because it is away, is waited for this long."""
_CATCH_UP_S = 5.0
_DRAIN_S = 1.0
"""How long after the last publisher has switched the old channels are still heard."""


class GroupChannels:
    """The map of one member, and how far it is with it."""

    def __init__(self, member: Member, inbox: Inbox, outboxes: Outboxes) -> None:
        self.map: ChannelMap | None = None
        self._member, self._inbox, self._outboxes = member, inbox, outboxes
        self._old: list[ChannelMap] = []  # maps by which others may still publish
        self._old_unknown = False  # whether there may be more of them than we know
        self._past = 0  # the channels that are heard because a log holds packets of them
        self._publishes_by = 0  # the version of our own map, 0 before the first
        self._number = 0
        self._content = b""
        self._says = 0  # what our entry says: nothing yet, that we know the map, or that we publish by it
        self._since = self._drained_since = 0.0
        self._needs: tuple[tuple[tuple[str, ...], tuple[ChannelMap, ...]], int] = ((), ()), 1
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        member.map_told = self._told

    def close(self) -> None:
        """Look at nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    async def catch_up(self) -> None:
        """Wait for the map that others know, if they do: what is subscribed to first depends on it."""
        until = monotonic() + _CATCH_UP_S
        while self.is_behind and monotonic() < until:
            await asyncio.sleep(_LOOK_S / 5)

    def install(self, channels: ChannelMap) -> None:
        """Let the group use this map from now on; ChannelMapError if it is not newer than the one that it has."""
        if self._member.stack.settings.channels == 1:
            raise ChannelMapError("this group was given one channel (tuning: channels = 1)")
        known = 0 if self.map is None else self.map.version
        if channels.version <= known:
            raise ChannelMapError(
                f"version {channels.version}: the group has version {known} already; give the new map a higher one"
            )
        content = channels.to_bytes()
        self._adopt(number_of(channels.version, content), content, channels, NONE_IN_USE)

    def hear_past(self, channels: int) -> None:
        """Listen to these, too, until no subscription waits for the past any more."""
        self._past |= channels
        self._prepare(channels.bit_length())
        self._listen()
        self._look_again(_LOOK_S)

    @property
    def is_behind(self) -> bool:
        """Whether others know a later map."""
        return max(self._member.stack.roster.maps.values(), default=0) & ~1 > self._number

    @property
    def is_used_by_all(self) -> bool:
        """Whether all members in reach publish by the latest map."""
        return self._says == 2 and self._all_say(self._number | 1, self._member.stack.roster.others())

    async def used_by_all(self, timeout: float | None) -> bool:
        """Wait for that; False if it takes too long."""
        until = inf if timeout is None else monotonic() + timeout
        while not self.is_used_by_all and monotonic() < until:
            await asyncio.sleep(_LOOK_S)
        return self.is_used_by_all

    def standing(self) -> dict[str, object]:
        """What there is to see of it."""
        stack = self._member.stack
        steps = ("learns", "knows", "uses")
        return {
            "map": None if self.map is None else self.map.version,
            "step": None if self.map is None else steps[self._says],
            "listening": [] if stack.is_logger else [c for c in channels_in(stack.streams.channels) if c],
        }

    def look(self) -> None:
        """Subscriptions have changed, or time has passed: take the next step, if it can be taken."""
        if self._past and not self._inbox.awaits_past():
            self._past = 0
        if self.map is None:
            if self._inbox.switches is not None:
                self._listen()
            return
        self._listen()
        if self._says == 0 and self._hears_all():
            self._say(1)
        if self._says == 1 and (self._all_know_it() or self._waited()):
            self._outboxes.use(self.map)
            self._publishes_by = self.map.version
            self._say(2)
        if self._says == 2 and (self._old or self._old_unknown) and self._is_drained():
            self._old, self._old_unknown = [], False
            self._say(2)
            self._listen()

    def _told(self, number: int, content: bytes, in_use: bytes) -> None:
        """Others have a later map."""
        try:
            channels = ChannelMap.from_bytes(content)
            earlier = MapsInUse.from_bytes(in_use) if in_use else NONE_IN_USE
        except ChannelMapError as error:
            self._member.stats["channel maps that cannot be read"] += 1
            _log.warning("a channel map that others use cannot be read here: %s", error)
            return
        if number == number_of(channels.version, content) and number > self._number:
            self._adopt(number, content, channels, earlier)

    def _adopt(self, number: int, content: bytes, channels: ChannelMap, in_use: MapsInUse) -> None:
        before, known = self._wanted(), 0 if self.map is None else self.map.version
        own = () if self.map is None else (self.map,)
        self._old += [earlier for earlier in (*own, *in_use.earlier) if earlier not in self._old]
        self._old_unknown |= not in_use.complete
        self.map, self._number, self._content = channels, number, content
        self._says, self._since = 0, monotonic()
        self._prepare(CHANNELS_MAX if self._old_unknown else max(some.channels for some in (channels, *self._old)))
        self._warn_if_late(before, in_use.version > known)
        self.look()
        self._look_again(_LOOK_S)

    def _prepare(self, channels: int) -> None:
        """There may be something to hear in so many channels."""
        if self._inbox.switches is None:
            self._inbox.switches = Switches(
                self._member.stack.streams.hears, self._inbox.handed_over, self._member.stats
            )
        self._member.sockets.has_channels(channels)

    def _look_again(self, after_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(after_s, self._tick)

    def _warn_if_late(self, before: int, missed_one: bool) -> None:
        """Somebody publishes by it, or by one that we never knew, before we know it: we were away when it came."""
        maps = self._member.stack.roster.maps
        used = missed_one or any(is_used(known) and known >= self._number for known in maps.values())
        if used and self._wanted() & ~before and self._inbox.patterns():
            assert self.map is not None
            self._inbox.missed(f"channel map {self.map.version} was in use before this member knew it")

    def _tick(self) -> None:
        self.look()
        settled = self._says == 2 and not self._old and not self._past
        self._look_again(_LOOK_SELDOM_S if settled else _LOOK_S)

    def _wanted(self) -> int:
        """The channels that subscriptions need, by any map that may be in use, or for the past; a bit for each."""
        if self._old_unknown and self._inbox.patterns():
            return (1 << CHANNELS_MAX) - 1
        maps = (*self._old, *(() if self.map is None else (self.map,)))
        needs = tuple(self._inbox.patterns()), maps
        if needs != self._needs[0]:
            found = (c for pattern in needs[0] for channels in maps for c in channels.channels_for(pattern))
            self._needs = needs, sum(1 << channel for channel in {0, *found})
        return self._needs[1] | self._past

    def _listen(self) -> None:
        stack, wanted = self._member.stack, self._wanted()
        if not stack.is_logger and wanted != stack.wanted_channels:
            self._member.step(ListenAsked(wanted))

    def _hears_all(self) -> bool:
        stack = self._member.stack
        return not stack.wanted_channels & ~stack.streams.channels

    def _say(self, step: int) -> None:
        self._says, self._since = step, monotonic()
        in_use = MapsInUse(self._publishes_by, tuple(self._old), not self._old_unknown).to_bytes()
        self._member.step(MapKnown(self._number, self._content, step == 2, in_use))

    def _all_know_it(self) -> bool:
        """Whether all others listen by this map; one that knows a later map need not have known this one."""
        maps = self._member.stack.roster.maps
        return all(maps.get(member, 0) & ~1 == self._number for member in self._member.stack.roster.others_owed())

    def _all_say(self, at_least: int, members: list[int]) -> bool:
        maps = self._member.stack.roster.maps
        return all(maps.get(member, 0) >= at_least for member in members)

    def _waited(self) -> bool:
        return monotonic() - self._since > PATIENCE_S

    def _is_drained(self) -> bool:
        """Whether nobody publishes by an older map any more, and all that was is here."""
        stack, now = self._member.stack, monotonic()
        missing = any(stream.missing for sender, stream in stack.streams.items() if channel_of(sender))
        if missing or not (self._all_say(self._number | 1, stack.roster.others()) or self._waited()):
            self._drained_since = now
        return now - self._drained_since > _DRAIN_S
