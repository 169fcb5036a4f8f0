"""`gossamer stats` and `gossamer members`: what every member of a group reports, asked over the network."""

import json
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gossamer.cli.options import Address, AsJson, GroupName, Insecure, Interface, Key, run, settings_from
from gossamer.live.probe import probe

Wait = Annotated[float, typer.Option(min=0.05, help="Seconds to wait for answers.")]


def stats(
    group: GroupName,
    wait: Wait = 1.0,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> int:
    """Show the counters of every member of a GROUP: what arrived by which rung, what was lost, and why.

    A second table is about those that publish: how fast the network lets them send, what holds them back, how long
    packets wait in queues on their way, and which receivers they do not wait for.

    Exit code 1 if nobody answers.

    Examples:

        gossamer stats quotes

        gossamer stats quotes --json | jq '.[].stats.lost'
    """
    profiles = run(probe(group, settings_from(address, interface, key, insecure), wait=wait))
    if as_json:
        typer.echo(json.dumps(profiles))
    elif profiles:
        Console().print(ledger(f"group {group}", profiles))
        if any(profile["stats"]["published"] for profile in profiles):
            Console().print(senders(profiles))
    return heard(group, profiles)


def members(
    group: GroupName,
    wait: Wait = 1.0,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> int:
    """List the members of a GROUP: name, number, address, role, uptime, and how many members each one knows.

    Exit code 1 if nobody answers.

    Example:

        gossamer members quotes
    """
    profiles = run(probe(group, settings_from(address, interface, key, insecure), wait=wait))
    if as_json:
        wanted = ("name", "member", "address", "logger", "protocol", "uptime", "members")
        typer.echo(json.dumps([{name: profile.get(name) for name in wanted} for profile in profiles]))
    elif profiles:
        table = Table("name", "member", "address", "", "up", "knows", title=f"group {group}", title_justify="left")
        for profile in profiles:
            role = "logger" if profile["logger"] else ""
            knows = f"{len(profile['members'])} members"
            table.add_row(
                profile["name"], str(profile["member"]), profile["address"], role, f"{profile['uptime']:.0f} s", knows
            )
        Console().print(table)
    return heard(group, profiles)


def ledger(title: str, profiles: list[dict[str, Any]]) -> Table:
    """The loss ledger of every member: received = first pass + peer + logger."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("member", no_wrap=True)
    for name in ("sent", "received", "= first", "+ peer", "+ logger", "lost", "twice", "drops"):
        table.add_column(name, justify="right", no_wrap=True)
    for profile in profiles:
        one = profile["stats"]
        numbers = (
            one["published"],
            one["received"],
            one["first_pass"],
            one["peer"],
            one["logger"],
            sum(one["lost"].values()),
            one["duplicates"],
            sum(one["dropped"].values()),
        )
        name = profile["name"] + (" *" if profile["logger"] and profile["name"] != "logger" else "")
        table.add_row(name, *(f"{number:,}" for number in numbers))
        if not one["listening"]["on"]:
            table.add_row(f"  [yellow]has left the multicast: {one['listening']['why']}[/]")
        if profile["stats"]["log"].get("refusing"):
            table.add_row(f"  [red]refuses: {profile['stats']['log']['refusing']}[/]")
    return table


def senders(profiles: list[dict[str, Any]]) -> Table:
    """What sets the pace of every member that publishes."""
    names = {str(profile["member"]): profile["name"] for profile in profiles}
    table = Table(title="senders", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for name in ("sender", "may send", "held by", "in queues", "lost on the way", "does not wait for"):
        table.add_column(name, no_wrap=True)
    for profile in profiles:
        if profile["stats"]["published"]:
            table.add_row(profile["name"], *_sender(profile["stats"], names))
    return table


def _sender(one: dict[str, Any], names: dict[str, str]) -> list[str]:
    pace, paths = one["pace"], one["pace"]["paths"].values()
    receiver = "" if pace["receiver"] is None else f" to {names.get(str(pace['receiver']), pace['receiver'])}"
    return [
        "no limit" if pace["rate"] is None else f"{pace['rate'] * 8 / 1e6:,.1f} Mbit/s",
        pace["held_by"] + receiver,
        f"{max((path['queueing'] for path in paths), default=0.0) * 1e3:.1f} ms",
        f"{max((path['loss'] for path in paths), default=0.0):.1%}",
        ", ".join(names.get(str(member), str(member)) for member in one["lagging"]),
    ]


def heard(group: str, profiles: list[dict[str, Any]]) -> int:
    """The exit code: 0 if anybody has answered; else say what may be wrong."""
    if profiles:
        return 0
    typer.echo(
        f"gossamer: nobody in group {group!r} answers; check that address, interface and key are the same everywhere; "
        "`gossamer doctor` checks the network",
        err=True,
    )
    return 1
