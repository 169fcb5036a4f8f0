"""`gossamer stats` and `gossamer members`: what every member of a group reports, asked over the network."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.ids import with_ids
from gossamer.cli.options import Address, AsJson, GroupName, Insecure, Interface, Key, ask, settings_from
from gossamer.cli.tables import ledger, senders

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
    profiles = ask(group, settings_from(address, interface, key, insecure), wait)
    if as_json:
        typer.echo(json.dumps(with_ids(profiles)))
    elif profiles:
        console = Console()
        console.print(ledger(f"group {group}", profiles, console.width))
        if any(profile["stats"]["published"] for profile in profiles):
            console.print(senders(profiles))
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
    profiles = ask(group, settings_from(address, interface, key, insecure), wait)
    if as_json:
        wanted = ("name", "member", "address", "logger", "protocol", "uptime", "members")
        typer.echo(json.dumps(with_ids([{name: profile.get(name) for name in wanted} for profile in profiles])))
    elif profiles:
        table = Table("name", "member", "address", "", "up", "knows", title=f"group {group}", title_justify="left")
        for profile in profiles:
            role = "logger" if profile["logger"] else ""
            others = len(profile["members"])
            knows = "1 member" if others == 1 else f"{others} members"
            table.add_row(
                profile["name"], str(profile["member"]), profile["address"], role, f"{profile['uptime']:.0f} s", knows
            )
        Console().print(table)
    return heard(group, profiles)


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
