"""The group as one member knows it, at one moment: never changed, only replaced (`Ladder.install_view`)."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

_NO_ADDRESSES: Mapping[int, str] = {}


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

    def others(self) -> list[int]:
        """The members but this one."""
        return [member for member in self.members if member != self.me]

    def others_owed(self) -> list[int]:
        """All other members for which packets are kept."""
        return [member for member in self.owed if member != self.me]

    def loggers_to_ask(self) -> list[int]:
        """The other loggers in reach; if there are none, all of them, for one may be back before we hear of it."""
        return [logger for logger in self.other_loggers() if logger in self.members] or self.other_loggers()

    def other_loggers(self) -> list[int]:
        """The loggers but this member."""
        return [logger for logger in self.loggers if logger != self.me]
