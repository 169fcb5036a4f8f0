"""The presets: a name for a choice of rungs and numbers, as plain data."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from gossamer.core.ids import CHANNELS_MAX
from gossamer.core.schema import SettingError, build
from gossamer.core.settings import ProtocolSettings
from gossamer.rungs import REPAIRS, check

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
        "stability": "aged",
        "gossip_period": 0.1,
        "selection": "uniform",
        "multicast_after": 2,
    },
    "redelivery": {"repair": "coordinator", "buffering": "size", "buffer_packets": 100_000},
    "virtual-synchrony": {
        "repair": ["negative", "exclusion"],
        "buffering": "unstable",
        "ordering": "fifo",
        "stability": "polled",
        "membership": "synchronous",
        "unstable_packets": 64,
        "gossip_period": 0.1,
        "selection": "uniform",
        "peer_rounds": 100,
    },
    "srm": {"repair": "srm", "buffering": "age", "gc_rounds": 40, "selection": "uniform"},
}


LIVE: Final[Mapping[str, Any]] = {
    "membership": "sponsored",  # members find each other, whatever the preset
    "found_after": 4,
    "loggers": 0,  # they come and go
    "gossip_period": 0.05,
    "ask_again": 0.001,
    "idle_after": 0.005,  # or a lone packet that is lost would be missed a round later
    "selection": "uniform",  # near members have often lost the same: a bias rarely asks the far one that has it
    "round_trips": True,  # for the statistics
    "service_limit": 20_000,
    "parity": -1,  # where packets are lost on long lines
    "stability": "acknowledged",
    "suspect_after": 5.0,
    "unlisten_after": 0.5,
    "hold_bytes": 64 << 20,
    "channels": CHANNELS_MAX,  # a map may come at any time
}
"""What live groups set on every machine."""
LIVE_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "unreliable": {"stability": "none"},
    "basic": {"repair": ["acknowledged", "logger"], "dissemination": "copies"},
    "lbrm": {"repair": ["logger"]},
    "rpbcast": {"repair": ["negative", "logger"], "buffering": "size"},
    "pbcast": {"repair": ["digest", "logger"], "buffering": "size", "gc_rounds": 100},
    "redelivery": {"repair": ["coordinator", "logger"], "null_period": 0.1, "probe_period": 0.05},
    "srm": {"repair": ["srm", "logger"], "buffering": "size", "session_period": 0.1},
}
"""What live groups set for each preset: a logger may come to any of them that repairs, and buffers count bytes.

With buffers this large, digests offer a packet for a long time, so a gap is not given up after ten rounds.
"""

SIMULATED_ONLY: Final[Mapping[str, str]] = {
    "virtual-synchrony": "runs in simulations only (gossamer simulate): two processes that found their group at the"
    " same time would be two groups, whose views never become one; for a live group choose rpbcast",
}
"""Presets that live groups cannot have, and why."""
LIVE_BUFFERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "hashed": {"short_rounds": 5, "gc_rounds": 1200, "buffer_failure": 1e-6},
}
"""What live groups set for each buffer: packets are collected after a minute, unless the preset says otherwise.

A member that was away for longer than the short term lacks everything, so a packet is lost to it whenever nobody
happens to keep that: with 003's P_fail of 0.1% one in a few hundred would be.
"""

_FOLLOWS: Final = ("stability", "aged", "buffering")
"""What a preset sets only because of another of its choices: it goes, if the other is overridden."""


def preset(name: str, overrides: Mapping[str, Any] | None = None) -> ProtocolSettings:
    """The settings of the protocol `name`, with any of them overridden; SettingError if they cannot be."""
    if name not in PRESETS:
        raise SettingError(f"protocol.name = {name!r}: must be one of {', '.join(sorted(PRESETS))}")
    overrides = overrides or {}
    follower, value, leader = _FOLLOWS
    usual = {k: v for k, v in PRESETS[name].items() if (k, v) != (follower, value) or leader not in overrides}
    table = {"name": name, **usual, **overrides}
    table["repair"] = _chain(table["repair"], table.get("loggers", 0))
    settings = build(ProtocolSettings, table, "protocol")
    check(settings)
    return settings


def _chain(repair: Any, loggers: Any) -> Any:
    """A single word is a chain of one, and of two where there are loggers: they have the last word."""
    if not isinstance(repair, str):
        return repair
    if repair not in ("none", *REPAIRS):
        raise SettingError(
            f"protocol.repair = {repair!r}: must be one of none, {', '.join(REPAIRS)}, or a list of these"
        )
    chain = () if repair == "none" else (repair,)
    return (*chain, "logger") if loggers and repair != "logger" else chain


def describe(settings: ProtocolSettings) -> dict[str, Any]:
    """The settings as a plain table, for traces and reports."""
    return dataclasses.asdict(settings)
