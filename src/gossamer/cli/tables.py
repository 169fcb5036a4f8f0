"""The tables of live groups: the loss ledger of every member, and what sets the pace of those that publish.

They fit a terminal of 80 columns: numbers that are too wide are rounded (`--json` has them all), long names lose their
middle, and what is wrong with a member stands below the table, where it squeezes nothing.
"""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

WIDTH = 80
_NAME_MIN, _NAME_TAIL = 12, 7
_STEPS = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
_COLUMNS = ("sent", "received", "= first", "+ peer", "+ logger", "lost", "twice", "drops")
_PAST = "past"
"""Shown only if somebody read the past: these events came again, and are not among those received."""


def ledger(title: str, profiles: list[dict[str, Any]], width: int = WIDTH) -> RenderableType:
    """The loss ledger of every member: received = first pass + peer + logger."""
    columns = list(_COLUMNS)
    if any(profile["stats"].get("again") for profile in profiles):
        columns.insert(columns.index("lost"), _PAST)
    rows = [_numbers(profile["stats"], columns) for profile in profiles]
    names = [_name(profile) for profile in profiles]
    cells = [[f"{number:,}" for number in row] for row in rows]
    if _width(columns, cells) + max(map(len, names), default=0) > width:
        cells = [[rounded(number) for number in row] for row in rows]
    room = max(_NAME_MIN, width - _width(columns, cells))
    table = _table(title)
    table.add_column("member", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in zip(names, cells, strict=True):
        table.add_row(escape(shortened(name, room)), *row)
    return Group(table, *_listening(profiles), *(remark for profile in profiles for remark in _remarks(profile)))


def senders(profiles: list[dict[str, Any]]) -> Table:
    """What sets the pace of every member that publishes."""
    names = {str(profile["member"]): shortened(profile["name"], 20) for profile in profiles}
    table = _table("senders")
    for name in ("sender", "may send"):
        table.add_column(name, no_wrap=True)
    for name in ("held by", "in queues", "lost on the way", "does not wait for"):
        table.add_column(name, overflow="fold")
    for profile in profiles:
        if profile["stats"]["published"]:
            table.add_row(escape(names[str(profile["member"])]), *_sender(profile["stats"], names))
    return table


def shortened(name: str, width: int) -> str:
    """The name with its middle left out if it is longer than `width`: it often ends in the number of a process."""
    if len(name) <= width:
        return name
    return f"{name[: width - _NAME_TAIL - 1]}…{name[-_NAME_TAIL:]}"


def rounded(number: int) -> str:
    """At most five characters: 9,999 or 12.3k or 4.56M."""
    if number < 10_000:
        return f"{number:,}"
    size, letter = next((size, letter) for size, letter in _STEPS if number >= size)
    short = f"{number / size:.3g}" if number / size < 999.5 else f"{number / size:.0f}"
    return f"{short}{letter}"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))


def _width(columns: list[str], cells: list[list[str]]) -> int:
    """What the columns of numbers take, each with two spaces before it; and the two edges of the table."""
    return 2 + sum(2 + max(map(len, [column, *some])) for column, *some in zip(columns, *cells, strict=True))


def _name(profile: dict[str, Any]) -> str:
    return str(profile["name"]) + (" *" if profile["logger"] and profile["name"] != "logger" else "")


def _numbers(one: dict[str, Any], columns: list[str]) -> list[int]:
    by_column = {
        "sent": one["published"],
        "received": one["received"],
        "= first": one["first_pass"],
        "+ peer": one["peer"],
        "+ logger": one["logger"],
        _PAST: one.get("again", 0),
        "lost": sum(one["lost"].values()),
        "twice": one["duplicates"],
        "drops": sum(one["dropped"].values()),
    }
    return [by_column[column] for column in columns]


def _listening(profiles: list[dict[str, Any]]) -> list[RenderableType]:
    """Which channels each member listens to, besides channel 0, if the group has a channel map."""
    told = [(profile, profile["stats"].get("channels", {})) for profile in profiles]
    if all(channels.get("map") is None for _, channels in told):
        return []
    table = _table("channels")
    for name in ("member", "map", "listens to"):
        table.add_column(name, overflow="fold")
    for profile, channels in told:
        version = "none" if channels.get("map") is None else f"version {channels['map']}"
        step = "" if channels.get("step") in ("uses", None) else f" ({channels['step']} it)"
        heard = "all" if profile["logger"] else ", ".join(map(str, channels.get("listening", ()))) or "none but 0"
        table.add_row(escape(shortened(_name(profile), _NAME_MIN + _NAME_TAIL)), version + step, heard)
    return [table]


def _remarks(profile: dict[str, Any]) -> list[str]:
    """What is wrong with a member, in a sentence each."""
    one, name, found = profile["stats"], escape(profile["name"]), []
    for reason, packets in one["lost"].items():
        found.append(f"[yellow]{name} lost {packets:,} packets: {escape(reason)}[/]")
    if not one["listening"]["on"]:
        found.append(f"[yellow]{name} has left the multicast: {escape(one['listening']['why'])}[/]")
    if one["log"].get("refusing"):
        found.append(f"[red]{name} refuses: {escape(one['log']['refusing'])}[/]")
    return found


def _sender(one: dict[str, Any], names: dict[str, str]) -> list[str]:
    pace, paths = one["pace"], one["pace"]["paths"].values()
    receiver = "" if pace["receiver"] is None else f" to {names.get(str(pace['receiver']), pace['receiver'])}"
    return [
        "no limit" if pace["rate"] is None else f"{pace['rate'] * 8 / 1e6:,.1f} Mbit/s",
        escape(pace["held_by"] + receiver),
        f"{max((path['queueing'] for path in paths), default=0.0) * 1e3:.1f} ms",
        f"{max((path['loss'] for path in paths), default=0.0):.1%}",
        escape(", ".join(names.get(str(member), str(member)) for member in one["lagging"])),
    ]
