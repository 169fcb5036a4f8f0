"""The channel map, agreed in the group: the latest wins, and each member says in its entry of the view what it knows.

A map is known by a number: its version, then a checksum, so that of two with the same version all take the same one;
then a bit that says whether the member publishes by it. A member that sees that another knows a later map asks for it,
in every round until it comes. What is in a map is not this rung's business.
"""

from collections.abc import Mapping
from zlib import crc32

from gossamer.core.effects import InstallMap, Unicast
from gossamer.core.inputs import MapKnown
from gossamer.core.ladder import Effects, InputHandler, Ladder, MessageHandler, Rung
from gossamer.core.views import MapIs, WhichMap

_CHECKSUM_BITS = 32


def number_of(version: int, content: bytes) -> int:
    """The number by which a map is known."""
    return version << _CHECKSUM_BITS + 1 | crc32(content) << 1


def is_used(known: int) -> bool:
    """Whether a member publishes by the map that it knows."""
    return bool(known & 1)


class ChannelMaps(Rung):
    """The map that this member has, to give it to others."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._map = 0
        self._content = b""
        self._in_use = b""  # by which earlier maps members may publish, as far as is known here

    def messages(self) -> Mapping[type, MessageHandler]:
        """A map, and the wish for one."""
        return {WhichMap: self._asked, MapIs: self._told}

    def inputs(self) -> Mapping[type, InputHandler]:
        """What the application says."""
        return {MapKnown: self._known}

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """Ask for a later map, if anybody has one."""
        maps = self.ladder.roster.maps
        latest = max(maps.values(), default=0) & ~1
        if latest > self._map and self.ladder.is_member:
            holders = [member for member, known in maps.items() if known >= latest and member in self.ladder.roster]
            if holders:
                out.append(Unicast(self.ladder.rng.choice(holders), WhichMap(latest)))

    def _known(self, now: float, happened: MapKnown, out: Effects) -> None:
        if happened.map >= self._map:
            self._map, self._content, self._in_use = happened.map, happened.content, happened.in_use
            self.ladder.known_map = happened.map | happened.used
            self.ladder.membership.declare_channels(now, out)

    def _asked(self, now: float, source: int, message: WhichMap, out: Effects) -> None:
        if self._map >= message.map > 0:
            out.append(Unicast(source, MapIs(self._map, self._content, self._in_use)))

    def _told(self, now: float, source: int, message: MapIs, out: Effects) -> None:
        version = message.map >> _CHECKSUM_BITS + 1
        if message.map != number_of(version, message.content):
            self.ladder.ignored["channel maps that are damaged"] += 1
        elif message.map > self._map:
            self._map, self._content, self._in_use = message.map, message.content, message.in_use
            out.append(InstallMap(message.map, message.content, message.in_use))
