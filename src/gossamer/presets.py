"""The presets: a name for a choice of rungs and numbers, as plain data, and what each choice promises."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from gossamer.core.protocol import ProtocolSettings
from gossamer.core.settings import SettingError, build

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "unreliable": {"dissemination": "multicast", "repair": "none"},
    "basic": {"dissemination": "copies", "repair": "acknowledged"},
    "lbrm": {"repair": "logger", "loggers": 1, "heartbeat": "variable"},
    "rpbcast": {
        "repair": "negative",
        "buffering": "age",
        "loggers": 1,
        "heartbeat": "hashed",
        "membership": "sponsored",
    },
    "pbcast": {
        "repair": "digest",
        "buffering": "age",
        "ordering": "fifo",
        "gossip_period": 0.1,
        "selection": "uniform",
        "multicast_after": 2,
    },
}


def preset(name: str, overrides: Mapping[str, Any] | None = None) -> ProtocolSettings:
    """The settings of the protocol `name`, with any of them overridden; SettingError if they cannot be."""
    if name not in PRESETS:
        raise SettingError(f"protocol.name = {name!r}: must be one of {', '.join(sorted(PRESETS))}")
    settings = build(ProtocolSettings, {"name": name, **PRESETS[name], **(overrides or {})}, "protocol")
    if settings.repair == "logger" and not settings.loggers:
        raise SettingError("protocol.loggers = 0: must be at least 1 where protocol.repair is logger")
    return settings


def promises(settings: ProtocolSettings) -> tuple[str, ...]:
    """What a protocol claims of every run, in the words of the specification checkers."""
    claimed = ["no-bogus", "at-most-once"]
    if settings.repair == "acknowledged" or settings.loggers:
        claimed.append("eventual")
    elif settings.repair != "none":
        claimed.append("eventual-or-lost")
    if settings.ordering == "fifo":
        claimed.append("fifo")
    if settings.buffering != "none":
        claimed.append("bounded")
    return tuple(claimed)


def bounds(settings: ProtocolSettings) -> dict[str, int]:
    """The most packets that a member's buffer may hold, where the protocol sets a bound."""
    return {"buffer": settings.buffer_packets} if settings.buffering == "size" else {}


def describe(settings: ProtocolSettings) -> dict[str, Any]:
    """The settings as a plain table, for traces and reports."""
    return dataclasses.asdict(settings)
