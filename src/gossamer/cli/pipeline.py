"""`gossamer pipeline`: Spark jobs on the events of a log and the traces of its members."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.ids import with_ids
from gossamer.cli.log import keys_in
from gossamer.cli.progress import waiting
from gossamer.core.ids import channel_of, owner_of
from gossamer.core.schema import SettingError

if TYPE_CHECKING:
    from gossamer.pipeline.options import ReadOptions

app = typer.Typer(
    help="Spark jobs: archive the log, replay it, and show how every event travelled.",
    epilog="Example: gossamer pipeline archive /var/lib/quotes --out archive",
    no_args_is_help=True,
)

Master = Annotated[str, typer.Option(help="Spark master to run on.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
KeyFile = Annotated[
    Path | None, typer.Option(help="File with the group's keys, one per line; GOSSAMER_KEY if not given.", exists=True)
]
Traces = Annotated[list[Path], typer.Argument(help="Trace files (Parquet) of the members, or folders of such files.")]

SHOWN = 20
"""Ranges of missing packets to print."""


@app.command()
def archive(
    store: Annotated[Path, typer.Argument(help="Directory of the log, as given to `gossamer logger --store`.")],
    out: Annotated[Path, typer.Option(help="Folder of the Parquet table; created if it does not exist.")],
    once: Annotated[
        bool, typer.Option("--once", help="Archive what is in the log now, then stop (the default).")
    ] = False,
    every: Annotated[float | None, typer.Option(help="Keep archiving, one batch every N seconds.", min=0.1)] = None,
    subscribe: Annotated[str, typer.Option(help="Archive only subjects that match this pattern.")] = ">",
    allow_loss: Annotated[
        bool,
        typer.Option("--allow-loss", help="Continue past packets that were deleted before they could be archived."),
    ] = False,
    batch: Annotated[int | None, typer.Option(help="Maximum number of events per batch.", min=1)] = None,
    key_file: KeyFile = None,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> int:
    """Copy the log in STORE to a Parquet table by date and subject, every event exactly once.

    Continues where it stopped, even after a crash, and merges small files. The log keeps whatever is not yet in the
    table: `gossamer log info` shows the consumer named archive.

    Examples:

        gossamer pipeline archive /var/log/quotes --out quotes.parquet

        gossamer pipeline archive /var/log/quotes --out quotes.parquet --every 60
    """
    from gossamer.pipeline.archive import archive as run
    from gossamer.pipeline.session import running

    if once and every is not None:
        raise typer.BadParameter("--once and --every cannot be used together")
    limit = {"maxOffsetsPerTrigger": str(batch)} if batch is not None else {}
    options = _options(store, key_file, subscribe=subscribe, failOnDataLoss=str(not allow_loss), **limit)
    _check_store(options)
    with waiting("Spark archives the log"), running("gossamer archive", master) as spark:
        done = run(spark, options, out, every_s=every)
    result = {"out": str(out), "batches": done.batches, "files": done.files, "merged": done.merged}
    _report(result, as_json, lambda: _show_counts(f"archive in {out}", result))
    return 0


@app.command()
def replay(
    archive: Annotated[
        Path, typer.Argument(help="An archive, or any Parquet with the columns topic, value and timestamp.")
    ],
    group: Annotated[str, typer.Argument(help="Name of the group to publish to.")],
    rate: Annotated[str, typer.Option(help="Events per second, or `original` for the original timing.")] = "original",
    key_file: KeyFile = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Setting of the group, e.g. address=239.1.2.3:7700. May be repeated."),
    ] = None,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> int:
    """Publish the events of an ARCHIVE to a GROUP again, in the order of their timestamps.

    Examples:

        gossamer pipeline replay quotes.parquet quotes-test

        gossamer pipeline replay quotes.parquet quotes-test --rate 5000 --set address=239.192.77.8:7700
    """
    from gossamer.pipeline.replay import replay as run
    from gossamer.pipeline.session import running
    from gossamer.pipeline.sink import WriteOptions

    given = dict(_pair(text) for text in settings or [])
    if key_file is not None:
        given["key"] = f"@{key_file}"
    WriteOptions.parse({"group": group, "rate": rate, **given})
    if not archive.exists():
        raise SettingError(
            f"{archive}: no such archive; make one with: gossamer pipeline archive STORE --out {archive}"
        )
    with waiting("Spark replays the archive"), running("gossamer replay", master) as spark:
        events = run(spark, archive, group, rate=rate, settings=given)
    result = {"group": group, "events": events}
    _report(result, as_json, lambda: _show_counts(f"replay of {archive}", result))
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--set {text}: write name=value")
    return name, value


@app.command()
def latency(
    traces: Traces,
    log: Annotated[Path | None, typer.Option(help="Log store or archive that supplies the subjects.")] = None,
    key_file: KeyFile = None,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> int:
    """Show the time from publish to delivery, by sender, by member, and with --log by subject.

    Example:

        gossamer pipeline latency traces/ --log /var/log/quotes
    """
    from gossamer.pipeline.errors import plain_errors
    from gossamer.pipeline.latency import latency as measure
    from gossamer.pipeline.session import running
    from gossamer.pipeline.traces import check_traces, member_names, read_events, read_traces

    check_traces(traces)
    options = log_options(log, key_file)
    names = member_names(traces, log)
    with waiting("Spark measures latencies"), running("gossamer latency", master) as spark, plain_errors():
        events = read_events(spark, log, options) if log is not None else None
        rows = [row.asDict() for row in measure(read_traces(spark, traces), events).collect()]
    for row in rows:
        row["source"] = "" if row["by"] not in ("sender", "member") else _known_as(int(row["name"]), names)
    _report({"latency": rows}, as_json, lambda: _show_latency(rows))
    return 0


@app.command()
def audit(
    log: Annotated[Path, typer.Argument(help="Log store, or archive of one.")],
    traces: Traces,
    out: Annotated[
        Path | None, typer.Option(help="Also write one row per packet and member to this folder, as Parquet.")
    ] = None,
    key_file: KeyFile = None,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> int:
    """Check that every member got every event of the LOG, and show by which rung, or why not.

    Exit code 1 if a member did not get what it was owed.

    Example:

        gossamer pipeline audit /var/log/quotes traces/
    """
    from gossamer.pipeline.audit import audit as examine
    from gossamer.pipeline.audit import summary
    from gossamer.pipeline.errors import plain_errors
    from gossamer.pipeline.session import running
    from gossamer.pipeline.traces import check_traces, member_names, read_events, read_traces

    check_traces(traces)
    options = log_options(log, key_file)
    names = member_names(traces, log)
    with waiting("Spark audits the traces"), running("gossamer audit", master) as spark, plain_errors():
        audited = examine(read_events(spark, log, options), read_traces(spark, traces)).cache()
        if out is not None:
            audited.write.mode("overwrite").parquet(str(out))
        found = named(summary(audited), names)
    _report(with_ids(found), as_json, lambda: show_audit(found))
    return 1 if any(member["missing"] for member in found["members"]) else 0


def named(found: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    """An audit with the names of members (`source`) and senders (`sender_source`) beside their numbers."""
    for row in (*found["members"], *found["missing"]):
        row["source"] = _known_as(row["member"], names)
        if "sender" in row:
            row["sender_source"] = _known_as(row["sender"], names)
    return found


def _known_as(stream: int, names: dict[int, str]) -> str:
    """The name of the member whose stream it is, and the channel if it is not the first; else the number."""
    name = names.get(owner_of(stream), "")
    if not name:
        return str(stream)
    return f"{name}, channel {channel_of(stream)}" if channel_of(stream) else name


def _options(store: Path, key_file: Path | None, **options: str) -> "ReadOptions":
    from gossamer.pipeline.options import ReadOptions

    return ReadOptions.parse({"store": str(store), **options, **keys_in(key_file)})


def log_options(log: Path | None, key_file: Path | None) -> "ReadOptions | None":
    """Options for reading a store, checked before Spark starts; None for an archive."""
    if log is None:
        return None
    from gossamer.pipeline.traces import is_store

    if not log.exists():
        raise SettingError(f"{log}: no such log store or archive")
    if not is_store(log):
        return None
    options = _options(log, key_file)
    _check_store(options)
    return options


def _check_store(options: "ReadOptions") -> None:
    """Detect a wrong store or key now, not after the seconds that Spark takes to start."""
    from gossamer.pipeline.log import open_log

    with open_log(options) as log:
        log.check_key(log.extent())


def _report(result: dict[str, Any], as_json: bool, show: Callable[[], None]) -> None:
    if as_json:
        typer.echo(json.dumps(result))
    else:
        show()


def _show_counts(title: str, counts: dict[str, Any]) -> None:
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, value in counts.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    Console().print(table)


def _show_latency(rows: list[dict[str, Any]]) -> None:
    table = Table("", "", title="publish to delivery, in milliseconds", title_justify="left")
    for name in ("packets", "mean", "p50", "p99", "max"):
        table.add_column(name, justify="right")
    for row in rows:
        times = [f"{row[name] * 1e3:,.2f}" for name in ("mean_s", "p50_s", "p99_s", "max_s")]
        table.add_row(row["by"], row["source"] or row["name"], f"{row['packets']:,}", *times)
    Console().print(table)


def show_audit(found: dict[str, Any]) -> None:
    """Print what every member got by which rung, and what it did not get."""
    console = Console()
    columns = ("packets", "events", "first_pass", "peer", "logger", "missing", "excused")
    table = Table(title="events of the log at every member, by rung", title_justify="left")
    table.add_column("member", overflow="fold")
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right")
    for member in found["members"]:
        shown = [f"{member[name]:,}" for name in columns]
        table.add_row(member["source"], *shown, style="bold red" if member["missing"] else None)
    console.print(table)
    for gap in found["missing"][:SHOWN]:
        where = f"{gap['first']}..{gap['last']}" if gap["first"] < gap["last"] else str(gap["first"])
        text = f"member {gap['source']}: {gap['events']:,} events, packets {where} of sender {gap['sender_source']}"
        console.print(f"{text}: {gap['reason']}", soft_wrap=True)
    if len(found["missing"]) > SHOWN:
        console.print(f"... and {len(found['missing']) - SHOWN:,} more ranges; --json or --out lists them all")
