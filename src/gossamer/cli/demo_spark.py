"""The last step of `gossamer demo --spark`: archive its events to Parquet and audit every event at every subscriber."""

from pathlib import Path

from rich.console import Console

from gossamer.cli.pipeline import named, show_audit
from gossamer.core.schema import SettingError


def archive_and_audit(console: Console, folder: Path) -> int:
    """Archive the demo's log and audit its traces; returns 1 if an event is missing anywhere, else 0."""
    from gossamer.pipeline.archive import archive, read_archive
    from gossamer.pipeline.audit import audit, summary
    from gossamer.pipeline.errors import plain_errors
    from gossamer.pipeline.options import ReadOptions
    from gossamer.pipeline.session import running
    from gossamer.pipeline.traces import member_names, read_traces

    traces = sorted(folder.glob("*.parquet"))
    if not traces:
        raise SettingError("--spark: the audit needs traces; leave out --no-trace")
    console.print("[dim]starting Spark ...[/]")
    options = ReadOptions.parse({"store": str(folder / "log")})
    with running("gossamer demo") as spark, plain_errors():
        archive(spark, options, folder / "archive")
        events = read_archive(spark, folder / "archive")
        console.print(f"{events.count():,} events archived to Parquet in {folder / 'archive'}", soft_wrap=True)
        found = named(summary(audit(events, read_traces(spark, traces)).cache()), member_names(traces, folder / "log"))
    show_audit(found)
    missing = sum(member["missing"] for member in found["members"])
    if not missing:
        console.print("[bold green]the audit finds every event at every member[/]")
    return 1 if missing else 0
