"""The group as one member knows it, at one moment: never changed, only replaced (`Ladder.install_view`)."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from gossamer.core.ids import ALL_CHANNELS

_NO_ADDRESSES: Mapping[int, str] = {}
_NO_CHANNELS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class Roster:
    """The members of the group. If `owed` is not given, it is the members."""

    me: int
    members: tuple[int, ...]
    """Members in reach, ascending; this member itself may be among them."""
    loggers: tuple[int, ...] = ()
    owed: tuple[int, ...] = ()
    """Members for which packets are kept, ascending: those in reach, and those that will be back."""
    joining: frozenset[int] = frozenset()
    """Members that do not yet know at which packets their membership begins."""
    addresses: Mapping[int, str] = field(default_factory=lambda: _NO_ADDRESSES)
    """Where members can be reached, as far as the view says it."""
    signature: int = 0
    """The hash of the view, where views can differ; 0 where an oracle gives them."""
    listening: Mapping[int, int] = field(default_factory=lambda: _NO_CHANNELS)
    """The channels that members listen to, a bit for each. All hear channel 0, and loggers hear all."""
    maps: Mapping[int, int] = field(default_factory=lambda: _NO_CHANNELS)
    """The channel maps that members know, and whether they use them (`membership.channel_maps`)."""
    _listeners: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        if not self.owed:
            object.__setattr__(self, "owed", self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, member: object) -> bool:
        return member in self.members

    def knows(self, member: int) -> bool:
        """Whether it belongs to the group, in reach or not."""
        at = bisect_left(self.owed, member)
        return at < len(self.owed) and self.owed[at] == member

    def others(self, channel: int = 0) -> list[int]:
        """The members but this one that hear `channel`."""
        return [member for member in self.listeners(channel) if member != self.me]

    def others_owed(self, channel: int = 0) -> list[int]:
        """All other members for which packets of `channel` are kept."""
        return [member for member in self.listeners_owed(channel) if member != self.me]

    # Channels.

    def hears(self, member: int, channel: int) -> bool:
        """Whether `member` listens to `channel`."""
        return not channel or bool(self.listening.get(member, 0) >> channel & 1) or member in self.loggers

    def channels_of(self, member: int) -> int:
        """The channels that `member` hears, a bit for each."""
        return ALL_CHANNELS if member in self.loggers else self.listening.get(member, 0) | 1

    def listeners(self, channel: int) -> tuple[int, ...]:
        """The members in reach that hear `channel`, ascending; this member may be among them."""
        return self._of(channel)[0] if channel else self.members

    def listeners_owed(self, channel: int) -> tuple[int, ...]:
        """The members for which packets of `channel` are kept, ascending."""
        return self._of(channel)[1] if channel else self.owed

    def _of(self, channel: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        found = self._listeners.get(channel)
        if found is None:
            members, owed = (tuple(m for m in of if self.hears(m, channel)) for of in (self.members, self.owed))
            found = self._listeners[channel] = members, owed
        return found

    def loggers_to_ask(self) -> list[int]:
        """The other loggers in reach; if there are none, all of them, for one may be back before we hear of it."""
        return [logger for logger in self.other_loggers() if logger in self.members] or self.other_loggers()

    def other_loggers(self) -> list[int]:
        """The loggers but this member."""
        return [logger for logger in self.loggers if logger != self.me]
