"""`gossamer channels`: the channel map of a group, to look at, to install, to compare."""

import json
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli.options import Address, AsJson, GroupName, Insecure, Interface, Key, run, settings_from
from gossamer.live.group import Group
from gossamer.pubsub.channel_map import ChannelMap, ChannelMapError, MapDiff
from gossamer.settings import Settings

app = typer.Typer(name="channels", help="The channel map of a group: show it, install another, compare.")

MapFile = Annotated[Path, typer.Argument(help="A channel map, as `gossamer pipeline channels` writes it.")]
Wait = Annotated[float, typer.Option(min=0.1, help="Seconds to wait until all members use it.")]


@app.command()
def show(
    group: GroupName,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> int:
    """Print the channel map that a GROUP uses, as TOML. Exit code 1 if it has none.

    Example:

        gossamer channels show quotes > channels.toml
    """
    found = run(_known(group, settings_from(address, interface, key, insecure)))
    if as_json:
        typer.echo(json.dumps(None if found is None else _plain(found)))
    elif found is not None:
        typer.echo(found.to_toml(), nl=False)
    else:
        typer.echo(f"gossamer: group {group!r} has no channel map: everything goes to channel 0", err=True)
    return 0 if found is not None else 1


@app.command()
def install(
    group: GroupName,
    file: MapFile,
    wait: Wait = 30.0,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> int:
    """Install the channel map in FILE in a GROUP, while it works; its version must be higher than the one in use.

    Exit code 1 if not all members use it in time; those that are away follow when they are back.

    Example:

        gossamer channels install quotes channels.toml
    """
    channels = _read(file)
    done = run(_install(group, channels, settings_from(address, interface, key, insecure), wait))
    if as_json:
        typer.echo(json.dumps({"version": channels.version, "used_by_all": done}))
    else:
        typer.echo(f"group {group}: version {channels.version} is {'in use' if done else 'known, not used by all yet'}")
    return 0 if done else 1


@app.command()
def diff(
    group: GroupName,
    file: MapFile,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> int:
    """Say what would change if the map in FILE were installed in a GROUP. Exit code 1 if anything would.

    Example:

        gossamer channels diff quotes channels.toml
    """
    channels = _read(file)
    known = run(_known(group, settings_from(address, interface, key, insecure)))
    found = MapDiff(channels.rules, (), (), False) if known is None else known.diff(channels)
    if as_json:
        before = None if known is None else known.version
        typer.echo(json.dumps({"from": before, "to": channels.version, **found._asdict()}))
        return 1 if found else 0
    for rule in found.removed:
        typer.echo(f"- {rule.pattern} -> {rule.channel}")
    for rule in found.added:
        typer.echo(f"+ {rule.pattern} -> {rule.channel}")
    for pattern, before, after in found.moved:
        typer.echo(f"~ {pattern} -> {after} (was {before})")
    if found.reordered:
        typer.echo("~ the order of rules")
    return 1 if found else 0


def _read(file: Path) -> ChannelMap:
    try:
        return ChannelMap.from_toml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ChannelMapError(f"{file}: cannot be read: {error}") from None
    except ChannelMapError as error:
        raise ChannelMapError(f"{file}: {error}") from None


def _plain(channels: ChannelMap) -> dict[str, object]:
    rules = [rule._asdict() for rule in channels.rules]
    return {"version": channels.version, "channels": channels.channels, "rules": rules}


async def _known(group: str, settings: Settings) -> ChannelMap | None:
    async with Group(group, settings) as member:
        return member.channels()


async def _install(group: str, channels: ChannelMap, settings: Settings, wait: float) -> bool:
    async with Group(group, settings) as member:
        member.install_channels(channels)
        return await member.channels_used(timeout=wait)
