"""`gossamer graph`: the propagation graph that keeps the order of a group, in words or as a drawing."""

import json
from collections.abc import Mapping, Sequence
from itertools import cycle
from math import cos, pi, sin
from pathlib import Path
from typing import Annotated, Any
from xml.sax.saxutils import escape

import typer

from gossamer.cli.ids import with_ids
from gossamer.cli.options import Address, AsJson, GroupName, Insecure, Interface, Key, ask, settings_from
from gossamer.cli.stats import Wait, heard
from gossamer.core.schema import SettingError

_SIZE, _RADIUS, _NODE = 480, 180, 26
_BRANCH_COLOURS = ("#3a8f5c", "#a04878", "#7a5cc0", "#a88a28")


def graph(
    group: GroupName,
    wait: Wait = 1.0,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
    svg: Annotated[Path | None, typer.Option(help="Draw the graph to this SVG file.")] = None,
) -> int:
    """Show how a GROUP with one order for all keeps it: the primary, the sites, how far each is, who is blocked.

    Exit code 1 if nobody answers.

    Example:

        gossamer graph accounts
    """
    if svg is not None and not svg.parent.is_dir():
        raise SettingError(f"--svg {svg}: there is no directory {svg.parent}")
    profiles = ask(group, settings_from(address, interface, key, insecure), wait)
    found = graphs(profiles)
    if svg is not None and found:
        svg.write_text(drawing(found[0]), "utf-8")
    if as_json:
        typer.echo(json.dumps(with_ids(found)))
    elif found:
        typer.echo("\n".join(described(group, found)))
    elif profiles:
        typer.echo(f"group {group} has no order for all members: join it with order = total")
    return heard(group, profiles)


def graphs(profiles: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each graph that anybody is in, the latest first."""
    names = {profile["member"]: profile["name"] for profile in profiles}
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for profile in profiles:
        standing = profile["stats"].get("order")
        if standing:
            entry = found.setdefault(
                (standing["graph"], standing["primary"]), {**named(standing, names), "members": []}
            )
            entry["members"].append({"name": profile["name"], **_progress(standing)})
    return [found[which] for which in sorted(found, reverse=True)]


def named(standing: Mapping[str, Any], names: Mapping[int, str] | None = None) -> dict[str, Any]:
    """The graph that a member knows, with names for members."""

    def name(member: int) -> str:
        return (names or {}).get(member, str(member))

    def kept_by(known: Mapping[str, Any]) -> dict[str, Any]:
        return {"primary": name(known["primary"]), "sites": [name(member) for member in known["sites"]]}

    branches = [{"channels": known["channels"], **kept_by(known)} for known in standing.get("branches", ())]
    return {"graph": standing["graph"], **kept_by(standing), "branches": branches}


def _progress(standing: Mapping[str, Any]) -> dict[str, Any]:
    return {name: standing[name] for name in ("places", "delivered", "blocked", "blocked_seconds")}


def described(group: str, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines for an operator."""
    lines = []
    for entry in found:
        lines.append(
            f"group {group}, graph {entry['graph']}: primary {entry['primary']}; sites {', '.join(entry['sites'])}"
        )
        lines += [f"  {_of(branch)}: {', '.join(branch['sites'])}" for branch in entry["branches"]]
        for member in entry["members"]:
            why = f"  blocked: {member['blocked']}" if member["blocked"] else ""
            lines.append(f"  {member['name']}: {member['delivered']:,} of {member['places']:,} settled places{why}")
    return lines


def _of(branch: Mapping[str, Any]) -> str:
    channels = ", ".join(map(str, branch["channels"]))
    return f"branch for channel{'s' if len(branch['channels']) > 1 else ''} {channels}, primary {branch['primary']}"


def drawing(entry: Mapping[str, Any]) -> str:
    """The graph as SVG: the primary in the middle, the other sites around it, with what each has delivered.

    A branch is drawn as lines from its own primary to its sites.
    """
    others = [site for site in entry["sites"] if site != entry["primary"]]
    delivered = {member["name"]: f"{member['delivered']:,}" for member in entry.get("members", ())}
    middle = _SIZE / 2
    turns = [2 * pi * at / max(1, len(others)) - pi / 2 for at in range(len(others))]
    points = [(middle + _RADIUS * cos(turn), middle + _RADIUS * sin(turn)) for turn in turns]
    lines = [f'<line x1="{middle:.0f}" y1="{middle:.0f}" x2="{x:.0f}" y2="{y:.0f}" stroke="#888"/>' for x, y in points]
    at = {entry["primary"]: (middle, middle), **dict(zip(others, points, strict=True))}
    branches = entry.get("branches", ())
    for branch, colour in zip(branches, cycle(_BRANCH_COLOURS)):
        (x, y), ends = at[branch["primary"]], [at[site] for site in branch["sites"] if site != branch["primary"]]
        stroke = f'stroke="{colour}" stroke-width="3"'
        lines += [f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{u:.0f}" y2="{v:.0f}" {stroke}/>' for u, v in ends]
    nodes = [_node(middle, middle, entry["primary"], delivered, "#d9822b")]
    nodes += [_node(x, y, site, delivered, "#4878a8") for site, (x, y) in zip(others, points, strict=True)]
    depth = int(bool(others)) + bool(branches)
    title = f'<text x="10" y="20">graph {entry["graph"]}, {len(entry["sites"])} sites, depth {depth}</text>'
    for row, (branch, colour) in enumerate(zip(branches, cycle(_BRANCH_COLOURS)), 2):
        title += f'<text x="10" y="{20 * row}" fill="{colour}">{escape(_of(branch))}</text>'
    style = 'font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_SIZE}" height="{_SIZE}" {style}>'
    return "\n".join([head, title, *lines, *nodes, "</svg>", ""])


def _node(x: float, y: float, name: str, delivered: Mapping[str, str], colour: str) -> str:
    label = escape(f"{name} {delivered.get(name, '')}".strip())
    circle = f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{_NODE}" fill="{colour}"/>'
    return f'{circle}<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" fill="#fff">{label}</text>'
