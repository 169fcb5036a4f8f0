"""`gossamer partitions`: who follows whom in a group with coordinators, who is missing, and what a heal exchanged."""

import json
from typing import Any

import typer

from gossamer.cli.ids import with_ids
from gossamer.cli.options import Address, AsJson, GroupName, Insecure, Interface, Key, ask, settings_from
from gossamer.cli.stats import Wait, heard


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
    reached from here answer; their coordinators say who else is missing, and what was exchanged when somebody came
    back. Exit code 1 if nobody answers.

    Example:

        gossamer partitions quotes

        watch -n 1 gossamer partitions quotes
    """
    profiles = ask(group, settings_from(address, interface, key, insecure), wait)
    found = sides(profiles)
    if as_json:
        typer.echo(json.dumps(with_ids(found)))
    elif found:
        typer.echo("\n".join(described(group, found)))
    elif profiles:
        typer.echo(f"group {group} has no coordinators: its protocol is {profiles[0]['protocol']}")
    return heard(group, profiles)


def sides(profiles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each coordinator that anybody follows, the one with most followers first."""
    standing = {p["member"]: p["stats"].get("partition") or {} for p in profiles}
    told = {int(member): name for where in standing.values() for member, name in where.get("names", {}).items()}
    names = told | {profile["member"]: profile["name"] for profile in profiles}
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
    places = own.get("addresses", {})
    return {
        "coordinator": who(coordinator),
        "since_s": own.get("since_s"),
        "members": [{**who(m), "missing": standing[m]["missing"]} for m in members],
        "absent": [{**who(m), "address": places.get(str(m), "")} for m in own.get("absent", [])],
        "divided_s": own.get("divided_s"),
        "healed": own.get("healed"),
        "heals": own.get("heals", []),
    }


def described(group: str, found: list[dict[str, Any]]) -> list[str]:
    """The lines for an operator."""
    absent = any(side["absent"] for side in found)
    lines = [f"group {group}: " + ("divided" if absent or len(found) > 1 else "whole")]
    for side in found:
        members = ", ".join(m["name"] + (f" (lacks {m['missing']:,})" if m["missing"] else "") for m in side["members"])
        since = "" if side["since_s"] is None else f" for {_duration(side['since_s'])}"
        lines.append(f"  coordinator {side['coordinator']['name']}{since}: {members}")
        if side["absent"]:
            places = ", ".join(_place(member) for member in side["absent"])
            missing = "" if side["divided_s"] is None else f" for {_duration(side['divided_s'])}"
            lines.append(f"    absent{missing}: {places}")
        lines += [f"    {_heal(heal)}" for heal in side["heals"]]
    return lines


def _place(member: dict[str, Any]) -> str:
    """Absent members cannot be asked, but others may know what they are called, and the view where they were."""
    return str(member["name"] + (f" ({member['address']})" if member["address"] else ""))


def _heal(heal: dict[str, Any]) -> str:
    each = f", to {heal['addressed'] / heal['filled']:.1f} members each" if heal["filled"] else ""
    members = "a member" if heal["members"] == 1 else f"{heal['members']} members"
    exchanged = f"sent {heal['filled']:,} packets{each}; received {heal['received']:,}"
    return f"{_duration(heal['ago_s'])} ago {members} came back: {exchanged}"


def _duration(seconds: float) -> str:
    """As people say it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
