"""Gossamer: reliable multicast for Python. Every subscriber hears every event, without a broker."""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, which takes longer to import than all of this, and is not needed
if TYPE_CHECKING:
    from typing import Any

    from gossamer.core.errors import Error as Error
    from gossamer.core.errors import Misuse as Misuse
    from gossamer.core.say import Gap as Gap
    from gossamer.core.schema import SettingError as SettingError
    from gossamer.live.blocking import SyncGroup as SyncGroup
    from gossamer.live.blocking import SyncNotices as SyncNotices
    from gossamer.live.blocking import SyncSubscription as SyncSubscription
    from gossamer.live.blocking import join_sync as join_sync
    from gossamer.live.blocking import open_sync as open_sync
    from gossamer.live.errors import Full as Full
    from gossamer.live.errors import MemberFailed as MemberFailed
    from gossamer.live.errors import NameInUse as NameInUse
    from gossamer.live.errors import NobodyListens as NobodyListens
    from gossamer.live.errors import NoLogger as NoLogger
    from gossamer.live.errors import NotAMember as NotAMember
    from gossamer.live.errors import NotAnEvent as NotAnEvent
    from gossamer.live.errors import NotDurable as NotDurable
    from gossamer.live.errors import Overrun as Overrun
    from gossamer.live.errors import Timeout as Timeout
    from gossamer.live.errors import Unsent as Unsent
    from gossamer.live.errors import WrongThread as WrongThread
    from gossamer.live.errors import WrongType as WrongType
    from gossamer.live.errors import WrongValue as WrongValue
    from gossamer.live.group import Group as Group
    from gossamer.live.group import join as join
    from gossamer.live.group import open_group as _open_group
    from gossamer.live.notices import Notice as Notice
    from gossamer.live.notices import NoticeStream as NoticeStream
    from gossamer.live.sockets import TransportError as TransportError
    from gossamer.live.subscription import Blocked as Blocked
    from gossamer.live.subscription import Lost as Lost
    from gossamer.live.subscription import Subscription as Subscription
    from gossamer.live.subscription import Undo as Undo
    from gossamer.pipeline.session import PipelineError as PipelineError
    from gossamer.pubsub.channel_map import ChannelMap as ChannelMap
    from gossamer.pubsub.channel_map import ChannelMapError as ChannelMapError
    from gossamer.pubsub.subjects import SubjectError as SubjectError
    from gossamer.pubsub.where import FilterError as FilterError
    from gossamer.settings import Settings as Settings
    from gossamer.sim.topologies.graph import TopologyError as TopologyError
    from gossamer.store.contract import Damaged as Damaged
    from gossamer.store.contract import StoreDamaged as StoreDamaged
    from gossamer.store.contract import StoreError as StoreError
    from gossamer.store.contract import StoreFull as StoreFull
    from gossamer.trace.schema import TraceError as TraceError
    from gossamer.wire.codec import WireError as WireError
    from gossamer.wire.events import Event as Event

    open = _open_group  # noqa: A001 - as gzip and many others have it

__version__ = "0.1.0"

_NAMES = {
    "gossamer.core.errors": "Error Misuse",
    "gossamer.core.say": "Gap",
    "gossamer.core.schema": "SettingError",
    "gossamer.live.blocking": "SyncGroup SyncNotices SyncSubscription join_sync open_sync",
    "gossamer.live.errors": "Full MemberFailed NameInUse NobodyListens NoLogger NotAMember NotAnEvent NotDurable "
    "Overrun Timeout Unsent WrongThread WrongType WrongValue",
    "gossamer.live.group": "Group join open_group",
    "gossamer.live.notices": "Notice NoticeStream",
    "gossamer.live.sockets": "TransportError",
    "gossamer.live.subscription": "Blocked Lost Subscription Undo",
    "gossamer.pipeline.session": "PipelineError",
    "gossamer.pubsub.channel_map": "ChannelMap ChannelMapError",
    "gossamer.pubsub.subjects": "SubjectError",
    "gossamer.pubsub.where": "FilterError",
    "gossamer.settings": "Settings",
    "gossamer.sim.topologies.graph": "TopologyError",
    "gossamer.store.contract": "Damaged StoreDamaged StoreError StoreFull",
    "gossamer.trace.schema": "TraceError",
    "gossamer.wire.codec": "WireError",
    "gossamer.wire.events": "Event",
}
_SHORT = {"open_group": "open"}
"""Names that would hide a builtin of Python inside the package."""
_WHERE = {_SHORT.get(name, name): (module, name) for module, names in _NAMES.items() for name in names.split()}
"""Names that are loaded when they are first used, so that `import gossamer` stays light."""


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'gossamer' has no attribute {name!r}")
    from importlib import import_module

    module, inside = _WHERE[name]
    value = globals()[name] = getattr(import_module(module), inside)  # the next time it is simply there
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
