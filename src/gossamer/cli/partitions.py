"""`gossamer partitions`: who follows whom in a group with coordinators, who is missing, and what a heal exchanged."""

import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.options import Address, AsJson, GroupName, Insecure, Interface, Key, run, settings_from
from gossamer.cli.stats import Wait, heard
from gossamer.live.probe import probe


def partitions(
    group: GroupName,
    wait: Wait = 1.0,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> int:
    """Show the sides of a GROUP that is divided, or was: the coordinator of each, who follows, who is missing.

    For protocols with coordinators (`redelivery`, or a chain of repairs with `coordinator`). Only members that can be
    reached from here answer; their coordinators say who else is missing. Exit code 1 if nobody answers.

    Example:

        gossamer partitions quotes
    """
    profiles = run(probe(group, settings_from(address, interface, key, insecure), wait=wait))
    found = sides(profiles)
    if as_json:
        typer.echo(json.dumps(found))
    elif found:
        _show(group, found)
    elif profiles:
        typer.echo(f"group {group} has no coordinators: its protocol is {profiles[0]['protocol']}")
    return heard(group, profiles)


def sides(profiles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each coordinator that anybody follows, the one with most followers first."""
    names = {profile["member"]: profile["name"] for profile in profiles}
    standing = {p["member"]: p["stats"].get("partition") or {} for p in profiles}
    followed: dict[int, list[int]] = {}
    for member, where in standing.items():
        if where.get("coordinator") is not None:
            followed.setdefault(where["coordinator"], []).append(member)
    found = [_side(coordinator, members, standing, names) for coordinator, members in followed.items()]
    return sorted(found, key=lambda side: (-len(side["members"]), side["coordinator"]["name"]))


def _side(
    coordinator: int, members: list[int], standing: dict[int, dict[str, Any]], names: dict[int, str]
) -> dict[str, Any]:
    def who(member: int) -> dict[str, Any]:
        return {"member": member, "name": names.get(member, str(member))}

    own = standing.get(coordinator, {})
    return {
        "coordinator": who(coordinator),
        "since_s": own.get("since_s"),
        "members": [{**who(m), "missing": standing[m]["missing"]} for m in members],
        "absent": [who(member) for member in own.get("absent", [])],
        "divided_s": own.get("divided_s"),
        "healed": own.get("healed"),
    }


def _show(group: str, found: list[dict[str, Any]]) -> None:
    table = Table("coordinator", "since", "members", "missing", "absent", "last heal", title=f"group {group}")
    table.title_justify = "left"
    for side in found:
        since = "" if side["since_s"] is None else f"{side['since_s']:.0f} s"
        absent = ", ".join(member["name"] for member in side["absent"])
        if side["divided_s"] is not None:
            absent += f" (for {side['divided_s']:.0f} s)"
        table.add_row(
            side["coordinator"]["name"],
            since,
            ", ".join(member["name"] for member in side["members"]),
            str(sum(member["missing"] for member in side["members"])),
            absent,
            _heal(side["healed"]),
        )
    Console().print(table)


def _heal(healed: dict[str, Any] | None) -> str:
    if healed is None:
        return ""
    return (
        f"{healed['ago_s']:.0f} s ago, {healed['members']} members: sent {healed['filled']:,} packets to"
        f" {healed['addressed']:,} receivers, got {healed['received']:,}"
    )
