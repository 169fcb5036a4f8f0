"""A logger: a member that keeps everything durably, acknowledges, and repairs what gossip could not.

Its number comes from its store, so that it is the same member after any crash.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from gossamer.core.schema import SettingError
from gossamer.live.credentials import member_number
from gossamer.live.group import Group, MakeTransport
from gossamer.live.transport import UdpTransport
from gossamer.settings import Settings
from gossamer.trace.buffer import RowBuffer

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
FOR_EVER_S = 1e12


def logger(
    name: str,
    store: Path,
    settings: Settings | None = None,
    *,
    retain: str = "7d",
    retires: bool = False,
    transport: MakeTransport = UdpTransport,
    trace: RowBuffer | None = None,
) -> Group:
    """The group `name`, with this member as a logger whose store is a directory; to be entered with `async with`.

    When it stops, senders keep what it lacks until it is back; if it `retires`, it leaves for good instead.
    """
    from gossamer.store.on_disk import open_store

    settings = Settings() if settings is None else settings
    tuned = replace(settings, tuning={**retention(retain), **settings.tuning})
    opened = open_store(store, group=name)
    identity = member_number(name, str(opened.created_ns()))
    return Group(name, tuned, transport, store=opened, identity=identity, retires=retires, trace=trace)


def retention(text: str) -> dict[str, Any]:
    """A logger's settings for `stable`, `forever`, an age (`12h`, `7d`) or a size (`10GB`)."""
    if text == "stable":
        return {"retention_age": 0.0, "retention_bytes": 0}
    if text == "forever":
        return {"retention_age": FOR_EVER_S, "retention_bytes": 0}
    for units, name in ((_BYTES, "retention_bytes"), (_SECONDS, "retention_age")):
        for unit, factor in units.items():
            number = text.removesuffix(unit)
            if number != text and number.replace(".", "", 1).isdigit() and float(number) > 0:
                amount = float(number) * factor
                if name == "retention_bytes":
                    return {"retention_age": 0.0, name: int(amount)}
                return {name: amount}
    raise SettingError(f"retain = {text!r}: must be stable, forever, an age like 12h or 7d, or a size like 10GB")
