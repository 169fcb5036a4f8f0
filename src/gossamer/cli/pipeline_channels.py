"""`gossamer pipeline channels`: find the channel map that wastes least for the traffic of a log and its subscribers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.pipeline import KeyFile, Master, log_options
from gossamer.cli.progress import progress_bar
from gossamer.core.schema import SettingError
from gossamer.pubsub.channel_map import CHANNELS_MAX, ChannelMap, ChannelMapError

if TYPE_CHECKING:
    from gossamer.pipeline.channels.job import Mapped

MEMBERS_SHOWN = 5


def channels(
    log: Annotated[Path, typer.Argument(help="Log store, or archive of one.")],
    interests: Annotated[
        Path,
        typer.Option(
            help="Who subscribes to what: a table with the columns member and pattern (.csv, .json, .parquet), or what "
            "`gossamer stats --json` printed over time, in a folder or appended to one .json file."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File of the map (TOML). An older map there is replaced by a new version.")],
    count: Annotated[
        int, typer.Option("--channels", min=1, max=CHANNELS_MAX, help="How many channels the map may use.")
    ] = 16,
    weight: Annotated[str, typer.Option(help="What to save: events or bytes.")] = "events",
    plot: Annotated[
        Path | None, typer.Option(help="Also draw channels x members to this file (.svg, .png, .pdf).")
    ] = None,
    key_file: KeyFile = None,
    master: Master = "local[*]",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Find the channel map that wastes least, from the events of a LOG and the subscriptions of the members.

    Waste is what reaches a member that did not subscribe to it: a member hears all of each channel that it listens
    to. The report compares the map with one channel for everything and with subjects hashed to channels.

    Examples:

        gossamer stats quotes --json > interests/$(date +%s).json

        gossamer pipeline channels /var/log/quotes --interests interests/ --channels 16 --out channels.toml
    """
    from gossamer.pipeline.channels.interests import read_interests
    from gossamer.pipeline.channels.picture import draw

    if weight not in ("events", "bytes"):
        raise typer.BadParameter(f"--weight {weight}: must be events or bytes")
    before = _map_in(out)
    wanted = read_interests(interests)
    options = log_options(log, key_file)
    mapped = _map(log, options, wanted, count, before, weight, master)
    _write(out, mapped.channel_map.to_toml())
    if plot is not None:
        draw(mapped.outcome, mapped.facts, plot)
    if as_json:
        typer.echo(json.dumps({"out": str(out), **mapped.facts}))
    else:
        _show(mapped.facts, out)
    return 0


def _map(
    log: Path, options: Any, interests: Any, count: int, before: ChannelMap | None, weight: str, master: str
) -> "Mapped":
    from gossamer.pipeline.channels.job import map_channels
    from gossamer.pipeline.errors import plain_errors
    from gossamer.pipeline.session import running
    from gossamer.pipeline.traces import read_events
    from gossamer.pipeline.watching import watching

    console = Console(stderr=True)
    say = (lambda text: console.print(text, highlight=False)) if console.is_terminal else (lambda text: None)
    with (
        running("gossamer channels", master) as spark,
        plain_errors(),
        progress_bar("tasks of Spark", 1.0) as bar,
        watching(spark, lambda done, known: bar(done / known if known else 0.0)),
    ):
        events = read_events(spark, log, options)
        return map_channels(spark, events, interests, count, before=before, weight=weight, say=say)


def _map_in(out: Path) -> ChannelMap | None:
    """The map that is in `out` now. Whether another can be written there is checked before the long work."""
    if not out.parent.is_dir():
        raise SettingError(f"--out {out}: there is no folder {out.parent}")
    if not out.exists():
        return None
    try:
        return ChannelMap.from_toml(out.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ChannelMapError) as error:
        raise SettingError(f"--out {out}: exists and is not a channel map ({error}); choose another file") from None


def _write(out: Path, text: str) -> None:
    """Write the whole file or nothing."""
    part = out.with_name(out.name + ".part")
    try:
        part.write_text(text, "utf-8")
        part.replace(out)
    except OSError as error:
        raise SettingError(f"--out {out}: {error.strerror}") from None


def _show(facts: dict[str, Any], out: Path) -> None:
    console = Console()
    what = facts["weight"]
    title = (
        f"{facts['events']:,} events, {facts['subjects']:,} subjects, {facts['members']:,} members: "
        f"version {facts['version']} of {out} with {facts['rules']:,} rules"
    )
    table = Table("", title=title, title_justify="left")
    table.add_column(f"{what} heard in vain", justify="right")
    table.add_column("for each that was wanted", justify="right")
    rows = [("one channel", "one_channel"), (f"hashed to {facts['channels']}", "hashed"), ("this map", "map")]
    for name, key in rows:
        waste = facts["waste"][key]
        table.add_row(
            name, f"{waste:,.0f}", f"{waste / max(facts['wanted'], 1):,.2f}", style="bold" if key == "map" else None
        )
    console.print(table)
    console.print(_by_channel(facts, what))
    worst = sorted(facts["by_member"], key=lambda row: -row["waste"])[:MEMBERS_SHOWN]
    told = ", ".join(f"{row['member']} ({row['waste']:,.0f} in {row['channels']} channels)" for row in worst)
    console.print(f"Most in vain: {told}. --json lists all members.", soft_wrap=True, highlight=False)
    if change := facts.get("change"):
        console.print(
            f"Against the map that was there, which now wastes {change['kept']:,.0f}: {change['moved']:.0%} of the "
            f"traffic moves, and a member joins {change['joined']:.1f} channels.",
            soft_wrap=True,
            highlight=False,
        )


def _by_channel(facts: dict[str, Any], what: str) -> Table:
    table = Table("channel")
    for name in ("subjects", "listeners", what, "in vain"):
        table.add_column(name, justify="right")
    for row in facts["by_channel"]:
        shown = (f"{row[name]:,.0f}" for name in ("subjects", "listeners", "weight", "waste"))
        table.add_row(str(row["channel"]), *shown)
    return table
