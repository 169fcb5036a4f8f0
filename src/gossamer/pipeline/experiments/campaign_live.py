"""The part of the fault campaign that has the settings of live groups.

Members suspect each other, found groups, announce themselves, wait for `loss_patience` and send by windows. Partitions
last long enough for both sides to take each other for dead; loggers are killed, or stopped and started again; members
leave while they are cut off. One trouble follows another, or begins before it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from gossamer.presets import describe
from gossamer.settings import Settings
from gossamer.spec.promises import HEAL_S

_PROTOCOLS = (
    *(("rpbcast", 0), ("rpbcast", 1), ("rpbcast", 2), ("pbcast", 0), ("pbcast", 1), ("lbrm", 1), ("basic", 0)),
    *(("redelivery", 0), ("redelivery", 1), ("srm", 0), ("srm", 1)),
)
_BEGIN_S = 3.0
_LINGER_S = 300.0
"""Longer than the longest `loss_patience`, twice: a gap may be given up by one repair after the other."""

Table = dict[str, Any]


class _Cast(NamedTuple):
    """Who plays in a scenario: senders first, loggers last."""

    members: int
    senders: int
    loggers: int

    @property
    def receivers(self) -> list[int]:
        """Those that only listen."""
        return list(range(self.senders, self.members - self.loggers))


def draw(rng: Random) -> Table:
    """A scenario with the settings of a live group."""
    protocol, loggers = rng.choice(_PROTOCOLS)
    members = rng.randint(loggers + 2, 9)
    cast = _Cast(members, rng.randint(1, members - loggers), loggers)
    faults = _faults(rng, cast)
    end = max(fault["at"] + fault.get("for", 0.0) for fault in faults)
    return {
        "duration": round(end + rng.choice((0.1, 4.0)), 3),
        "linger": _LINGER_S,
        "grace": HEAL_S + 5,
        "wire": rng.random() < 0.3,
        "topology": {"kind": rng.choice(("lan", "tree")), "members": members, "latency": rng.choice((0.0005, 0.005))},
        "loss": {"member": rng.choice((0.0, 0.01, 0.05, 0.2))},
        "traffic": {"senders": cast.senders, "rate": rng.choice((5.0, 20.0, 60.0)), "size": rng.choice((64, 1024))},
        "protocol": {**_settings(rng, protocol), "loggers": loggers},
        "fault": faults,
    }


def _settings(rng: Random, protocol: str) -> Table:
    """What a live group would run with: everything is given, so that the environment has no say."""
    recovery = rng.choice(("at-most-once", "at-most-once", "at-most-once", "at-least-once"))
    settings = Settings(
        protocol=protocol,
        name="campaign",
        order=rng.choice(("fifo", "fifo", "none")),
        durable=rng.random() < 0.2,
        copies=rng.choice((1, 1, 1, 2)),
        when_unlogged=rng.choice(("refuse", "go-on")),
        loss_patience=rng.choice((10.0, 30.0, 120.0)),
        tuning={"recovery": recovery},
    )
    window = rng.choice((8, 32, 200))
    reach = rng.choice((4 * window, 4_000))
    found = settings.protocol_settings(
        dissemination=rng.choice(("multicast", "multicast", "trees")),
        buffer_packets=rng.choice((2 * reach, 40_000)),
        buffer_bytes=64 << 20,
        window=window,
        reach=reach,
        request_packets=window,
        send_buffer=rng.choice((50, 1_000_000)),
    )
    return {key: list(value) if isinstance(value, tuple) else value for key, value in describe(found).items()}


def _faults(rng: Random, cast: _Cast) -> list[Table]:
    faults: list[Table] = []
    at = _BEGIN_S
    for _ in range(rng.randint(1, 3)):
        trouble = _TROUBLES[rng.choice([name for name in _TROUBLES if cast.loggers or "logger" not in name])]
        more = trouble(rng, cast, at)
        faults += more
        end = max(fault["at"] + fault.get("for", 0.0) for fault in more)
        at = rng.uniform(at, end) if rng.random() < 0.3 else end + rng.choice((0.2, 1.0, 3.0, 12.0))
    return [{**fault, "at": round(fault["at"], 3)} for fault in faults]


def _sides(rng: Random, cast: _Cast) -> list[list[int]]:
    """Two or three of any size, with any members."""
    order = rng.sample(range(cast.members), cast.members)
    cuts = sorted(rng.sample(range(1, cast.members), min(cast.members - 1, rng.choice((1, 1, 2)))))
    return [sorted(order[a:b]) for a, b in zip([0, *cuts], [*cuts, cast.members], strict=True)]


def _partition(rng: Random, cast: _Cast, at: float) -> list[Table]:
    length = rng.choice((0.5, 3.0, 8.0, 12.0, 20.0, 30.0))
    return [{"at": at, "kind": "partition", "members": _sides(rng, cast), "for": length}]


def _flapping(rng: Random, cast: _Cast, at: float) -> list[Table]:
    """The network comes and goes, now along one line, now along another."""
    faults: list[Table] = []
    sides = _sides(rng, cast)
    for _ in range(rng.randint(3, 6)):
        length = round(rng.uniform(0.3, 6.0), 2)
        faults.append({"at": at, "kind": "partition", "members": sides, "for": length})
        at += length + rng.uniform(0.1, 2.0)
        sides = sides if rng.random() < 0.6 else _sides(rng, cast)
    return faults


def _leave_cut_off(rng: Random, cast: _Cast, at: float) -> list[Table]:
    """A member that only listens leaves while it is cut off, and may come back."""
    faults = _partition(rng, cast, at)
    if cast.receivers:
        who, length = [rng.choice(cast.receivers)], faults[0]["for"]
        faults.append({"at": at + rng.uniform(0.1, 0.9) * length, "kind": "leave", "members": who})
        if rng.random() < 0.5:
            faults.append({"at": at + length + rng.choice((0.5, 5.0)), "kind": "join", "members": who})
    return faults


def _away(kind: str, who: Callable[[Random, _Cast], list[int]], **more: str) -> Callable[..., list[Table]]:
    def trouble(rng: Random, cast: _Cast, at: float) -> list[Table]:
        length = rng.choice((0.5, 4.0, 15.0))
        return [{"at": at, "kind": kind, "members": who(rng, cast), **more, "for": length}]

    return trouble


def _someone(rng: Random, cast: _Cast) -> list[int]:
    return [rng.randrange(cast.members)]


def _loggers(rng: Random, cast: _Cast) -> list[int]:
    """One of them, or all."""
    loggers = range(cast.members - cast.loggers, cast.members)
    return sorted(rng.sample(loggers, rng.randint(1, cast.loggers)))


_TROUBLES: Mapping[str, Callable[[Random, _Cast, float], list[Table]]] = {
    "partition": _partition,
    "flapping": _flapping,
    "leave cut off": _leave_cut_off,
    "member killed": _away("crash", _someone, memory="lost"),
    "member paused": _away("crash", _someone, memory="kept"),
    "member offline": _away("disconnect", _someone),
    "logger killed": _away("crash", _loggers, memory="lost"),
    "logger stopped": _away("disconnect", _loggers),
}
