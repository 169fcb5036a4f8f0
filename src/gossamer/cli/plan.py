"""`gossamer plan`: recommended settings and their consequences, before anything is deployed."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.settings import plan as make_plan

if TYPE_CHECKING:
    from gossamer.analysis.planner import Plan
    from gossamer.cli.plan_check import Check

PLOT_KINDS = (".svg", ".png", ".pdf")
SECTIONS_END = ("copies", "buffer_bytes", "overhead_bandwidth", "latency_p99.9", "logger_gossips", "pbcast_fanout")


def plan(
    members: Annotated[int, typer.Option(help="Members of the group, including the logger.")],
    loss: Annotated[float, typer.Option(help="Probability that a receiver loses a message.")],
    rate: Annotated[float, typer.Option(help="Packets per second, over all senders.")] = 100.0,
    failure: Annotated[
        float, typer.Option(help="Acceptable probability that gossip leaves a packet to the logger.")
    ] = 1e-8,
    size: Annotated[int, typer.Option(help="Size of a packet, in bytes.")] = 1024,
    rtt: Annotated[float, typer.Option(help="Round-trip time between members, in seconds.")] = 0.05,
    senders: Annotated[int | None, typer.Option(help="Members that publish; 4, or all but one, if not given.")] = None,
    order: Annotated[
        str, typer.Option(help="fifo, or total: also predict what one order for all members costs.")
    ] = "fifo",
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Plot the curves behind the plan to this .svg, .png or .pdf file.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Simulate the plan, and compare the results with the predictions.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Number of simulations for --check.", min=1)] = 3,
) -> int:
    """Recommend settings for rpbcast, and predict the resulting odds, memory, bandwidth and latency.

    Each number comes with its formula and the section of its paper. With --check, exit code 1 if the simulator
    disagrees beyond the stated confidence.

    Examples:

        gossamer plan --members 128 --loss 0.05 --rate 200 --failure 1e-8

        gossamer plan --members 64 --loss 0.05 --check --plot odds.svg
    """
    if plot is not None and (wrong := _unwritable(plot)):
        raise typer.BadParameter(f"--plot {plot}: {wrong}")
    if order not in ("fifo", "total"):
        raise typer.BadParameter(f"--order {order}: must be fifo or total")
    try:
        made = make_plan(members=members, loss=loss, failure=failure, rate=rate, size=size, rtt=rtt, senders=senders)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if order == "total":
        from gossamer.analysis.planner import with_order

        made = with_order(made)
    if plot is not None:
        from gossamer.cli.plan_plot import draw

        draw(made, plot)
    checked = _check(made, seeds) if check else None
    if as_json:
        typer.echo(json.dumps(as_dict(made, checked)))
    else:
        _show(made, checked, plot)
    return 0 if checked is None or checked.agrees else 1


def _unwritable(plot: Path) -> str:
    """What is wrong with the path of a plot; empty if nothing is."""
    if plot.suffix.lower() not in PLOT_KINDS:
        return f"must end in one of {', '.join(PLOT_KINDS)}"
    return "" if plot.parent.is_dir() else f"there is no folder {plot.parent}"


def as_dict(made: "Plan", checked: "Check | None" = None) -> dict[str, Any]:
    """Convert the plan to plain data."""
    entries = {
        e.name: {"value": e.value, "unit": e.unit, "formula": e.formula, "reference": e.reference} for e in made.entries
    }
    table = {"inputs": asdict(made.demand), "settings": dict(made.settings), "entries": entries}
    return table | ({"check": checked.as_dict()} if checked is not None else {})


def _check(made: "Plan", seeds: int) -> "Check":
    from gossamer.cli.plan_check import compare

    return compare(made, seeds)


def _show(made: "Plan", checked: "Check | None", plot: Path | None) -> None:
    console = Console()
    console.print(_table(made))
    settings = ", ".join(f"{name} = {value}" for name, value in made.settings.items())
    console.print(f"[bold]settings of rpbcast[/]  {settings}", highlight=False)
    if plot is not None:
        console.print(f"curves plotted to {plot}", soft_wrap=True)
    if checked is not None:
        console.print()
        console.print(_check_table(checked))
        for row in checked.rows:
            console.print(f"[dim]{row.name}: {row.reason}[/]", highlight=False)
        verdict = "[green]prediction and simulation agree[/]" if checked.agrees else "[bold red]they disagree[/]"
        console.print(
            f"{checked.seeds} runs of {checked.duration_s:g} s, in {checked.wall_s:.1f} s of real time: {verdict}"
        )


def _table(made: "Plan") -> Table:
    d = made.demand
    title = (
        f"rpbcast for {d.members} members, loss {d.loss:g}, {d.rate:g} packets/s of {d.size} bytes from {d.senders} "
        f"senders, rtt {d.rtt * 1e3:g} ms, failure {d.failure:g}; bandwidth and repairs are per member"
    )
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("formula, paper")
    before = ""
    for entry in made.entries:
        name = f"[bold]{entry.name}[/]" if entry.name in made.settings else entry.name
        why = f"{escape(entry.formula)} [dim]{entry.reference}[/]"
        shown = "the same" if why == before else why
        table.add_row(name, *_shown(entry.value, entry.unit), shown, end_section=entry.name in SECTIONS_END)
        before = why
    return table


def _shown(value: float | None, unit: str) -> tuple[str, str]:
    """Format a value and its unit for people."""
    unit = unit.removesuffix(" per member")
    if value is None:
        return "none", ""
    if unit == "s":
        return f"{value * 1e3:,.1f}", "ms"
    if unit.startswith("bytes"):
        for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= scale:
                return f"{value / scale:,.3g}", unit.replace("bytes", f"{letter}B")
    if isinstance(value, int) or value >= 1000:
        return f"{value:,.0f}", unit
    return f"{value:.3g}", unit


def _check_table(checked: "Check") -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("check", no_wrap=True)
    for name in ("predicted", "observed", "allowed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in checked.rows:
        verdict = "[green]ok[/]" if row.agrees else "[bold red]NO[/]"
        allowed = f"{row.low:.4g} to {row.high:.4g}"
        table.add_row(row.name, f"{row.predicted:.4g}", f"{row.observed:.4g}", allowed, verdict)
    return table
