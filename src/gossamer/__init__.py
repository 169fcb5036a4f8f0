"""Gossamer: reliable multicast for Python. Every subscriber hears every event, without a broker."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossamer.live.blocking import SyncGroup as SyncGroup
    from gossamer.live.blocking import join_sync as join_sync
    from gossamer.live.errors import NameInUse as NameInUse
    from gossamer.live.errors import NotDurable as NotDurable
    from gossamer.live.errors import Overrun as Overrun
    from gossamer.live.errors import Unsent as Unsent
    from gossamer.live.group import Full as Full
    from gossamer.live.group import Gap as Gap
    from gossamer.live.group import Group as Group
    from gossamer.live.group import Lost as Lost
    from gossamer.live.group import Subscription as Subscription
    from gossamer.live.group import join as join
    from gossamer.settings import Settings as Settings
    from gossamer.wire.events import Event as Event

__version__ = "0.1.0"

_WHERE = {
    "Settings": "gossamer.settings",
    "Event": "gossamer.wire.events",
    **dict.fromkeys(("Full", "Gap", "Group", "Lost", "Subscription", "join"), "gossamer.live.group"),
    **dict.fromkeys(("NameInUse", "NotDurable", "Overrun", "Unsent"), "gossamer.live.errors"),
    **dict.fromkeys(("SyncGroup", "join_sync"), "gossamer.live.blocking"),
}
"""Names that are loaded when they are first used, so that `import gossamer` stays light."""


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'gossamer' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_WHERE[name]), name)  # the next time it is simply there
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
