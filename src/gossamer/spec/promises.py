"""What a trace's metadata promises, and which checkers verify it.

`promises` is a list of the names in `PROMISES`; a trace without it promises `DEFAULT` only. `recovery` is
"at-most-once" (the default) or "at-least-once" (000 §6.2), `bounds` gives the most packets that a place
("buffer", "log") of a member may hold. `copies` is how many logs must hold a packet that is durable (1 if it is not
given), `heal_s` how many seconds it may take until all members have one view, `settle_s` until those that reach each
other have one coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping

from gossamer.trace.schema import TraceError

Metadata = Mapping[str, object]

PROMISES: dict[str, str] = {
    "no-bogus": "reliable-multicast",
    "at-most-once": "reliable-multicast",
    "eventual": "reliable-multicast",
    "eventual-or-lost": "reliable-multicast",
    "fifo": "fifo",
    "agreement": "agreement",
    "bounded": "bounded-buffers",
    "durable": "durability",
    "one-view": "one-view",
    "one-coordinator": "one-coordinator",
    "same-messages": "same-messages",
    "one-crossing": "one-crossing",
    "virtual-synchrony": "virtual-synchrony",
}
"""Every promise, and the checker that verifies it."""

DEFAULT = ("no-bogus", "at-most-once")

HEAL_S = 10.0
"""So long after the last change of the network or of the group, all members that reach each other have one view."""


def promised(metadata: Metadata) -> frozenset[str]:
    found = metadata.get("promises", DEFAULT)
    if not isinstance(found, list | tuple | set | frozenset):
        raise TraceError(f"promises must be a list, not {found!r}")
    for name in found:
        if name not in list(PROMISES):  # a list, since the name may not be hashable
            raise TraceError(f"unknown promise {name!r}; known promises: {', '.join(PROMISES)}")
    return frozenset(found)


def at_least_once(metadata: Metadata) -> bool:
    found = metadata.get("recovery", "at-most-once")
    if found not in ("at-most-once", "at-least-once"):
        raise TraceError(f"recovery must be at-most-once or at-least-once, not {found!r}")
    return found == "at-least-once"


def copies(metadata: Metadata) -> int:
    found = metadata.get("copies", 1)
    if not isinstance(found, int) or found < 1:
        raise TraceError(f"copies must be a whole number from 1 on, not {found!r}")
    return found


def heal_s(metadata: Metadata) -> float:
    return _seconds(metadata, "heal_s", HEAL_S)


def settle_s(metadata: Metadata) -> float:
    return _seconds(metadata, "settle_s", HEAL_S)


def _seconds(metadata: Metadata, name: str, usual: float) -> float:
    found = metadata.get(name, usual)
    if not isinstance(found, int | float) or not found >= 0:
        raise TraceError(f"{name} must be a number of seconds, not {found!r}")
    return found


def bounds(metadata: Metadata) -> dict[str, int]:
    found = metadata.get("bounds") or {}
    if not isinstance(found, Mapping):
        raise TraceError(f"bounds must be an object such as {{'buffer': 100}}, not {found!r}")
    known = {str(place): bound for place, bound in found.items() if bound is not None}
    for place, bound in known.items():
        if not isinstance(bound, int) or bound < 0:
            raise TraceError(f"the bound of {place!r} must be a whole number of packets, not {bound!r}")
    return known
