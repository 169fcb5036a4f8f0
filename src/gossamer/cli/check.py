"""`gossamer check`: check a trace against the specifications."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.progress import progress_bar

if TYPE_CHECKING:
    from gossamer.spec import Report


def check(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE...",
            help="A trace file (Parquet), from the simulator; or those of all members of a live group.",
        ),
    ],
    spec: Annotated[
        list[str] | None, typer.Option("--spec", help="Check only this specification. May be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> int:
    """Check a TRACE against the specifications that its protocol promises to meet.

    Each member of a live group writes a trace of its own. Give those of all members: what one delivers, another has
    published. Their clocks must agree, as on one machine.

    Prints violations with the offending rows. Exit code 1 if there are any.

    Example:

        gossamer check tree.parquet

        gossamer check publisher.parquet subscriber.parquet logger.parquet
    """
    from gossamer.spec import check as check_trace

    trace, *others = traces
    with progress_bar(f"checking {trace.name}", 1.0) as progress:
        report = check_trace(trace, spec, lambda done, total: progress(done / max(total, 1)), others)
    if as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        _show(traces, report)
    return 0 if report.ok else 1


def _show(traces: list[Path], report: "Report") -> None:
    console = Console()
    title = f"{', '.join(trace.name for trace in traces)}: {report.rows:,} rows, {report.seconds:.2f} s"
    table = Table("specification", "reference", "verdict", title=title, title_justify="left")
    for result in report.results:
        verdict = "[green]holds[/]" if result.ok else f"[bold red]{result.violations:,} violations[/]"
        table.add_row(result.name, result.reference, verdict)
    console.print(table)
    for violation in report.violations:
        console.print(f"[bold red]{violation.spec}[/]: {violation.message}", soft_wrap=True)
        for row in violation.described:
            console.print(f"    {row}", soft_wrap=True)
