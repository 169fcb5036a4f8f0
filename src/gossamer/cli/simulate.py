"""`gossamer simulate`: run a scenario and show the result."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.progress import progress_bar

if TYPE_CHECKING:
    from gossamer.sim.scenario import Scenario

BAR_WIDTH = 40


def simulate(
    scenario: Annotated[
        str, typer.Argument(help="A scenario file (TOML), or the name of one that comes with gossamer.")
    ],
    seed: Annotated[int | None, typer.Option(help="Seed to use instead of the file's.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key of the file: loss.member=0.05. May be repeated.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a trace of everything that happens to this Parquet file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    graph: Annotated[
        Path | None, typer.Option(help="Draw the propagation graph at the end, where there is one, to this SVG file.")
    ] = None,
    check: Annotated[bool, typer.Option(help="Check the run against the specifications.")] = True,
) -> int:
    """Run a SCENARIO in the simulator.

    The same scenario and seed always give the same run, byte for byte. Exit code 1 if a specification was violated.

    Examples:

        gossamer simulate thesis

        gossamer simulate lan --seed 7 --set loss.member=0.2 --set protocol.name=basic --json

        gossamer simulate my-network.toml --trace mine.parquet && gossamer check mine.parquet
    """
    from gossamer.sim.scenario import find, load

    parsed = load(find(scenario), settings or [])
    if seed is not None:
        parsed = parsed.with_seed(seed)
    result = _run(parsed, trace, check)
    if graph is not None:
        _draw(result, graph)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        show(result)
        if trace is not None:
            Console().print(f"trace written to {trace}; check it with: gossamer check {trace}", soft_wrap=True)
    return 1 if result["violations"] else 0


def _draw(result: dict[str, Any], path: Path) -> None:
    from gossamer.cli.graph import drawing, named

    order = result.get("order")
    if order is None:
        raise typer.BadParameter(f"--graph {path}: {result['name']} has no order for all; set protocol.ordering=total")
    path.write_text(drawing(named(order)), "utf-8")


def _run(scenario: "Scenario", trace: Path | None, check: bool) -> dict[str, Any]:
    from gossamer.sim.checked import traced
    from gossamer.sim.run import simulate as run_simulation

    with progress_bar(f"{scenario.name} ({scenario.protocol.name})", scenario.duration) as progress:
        if check or trace is not None:
            return traced(scenario, trace, check=check, progress=progress)
        return run_simulation(scenario, progress=progress)


def show(result: dict[str, Any]) -> None:
    """Print the result as tables."""
    console = Console()
    console.print(_summary(result))
    if result["repairs"]["by_member"]:
        console.print(_bars("repairs sent, by member", result["repairs"]["by_member"]))
    for violation in result["violations"]:
        console.print(f"[bold red]violation[/] {violation['spec']}: {violation['message']}", soft_wrap=True)


def _summary(result: dict[str, Any]) -> Table:
    title = f"{result['name']}: {result['protocol']}, {result['members']} members, seed {result['seed']}"
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column()
    for row in _summary_rows(result):
        table.add_row(*row)
    return table


def _summary_rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    packets, deliveries = result["packets"], result["deliveries"]
    latency, everywhere = result["latency"], result["everywhere_latency"]
    share = deliveries["actual"] / deliveries["expected"] if deliveries["expected"] else 1.0
    return [
        ("packets sent", f"{packets['sent']:,}", f"{packets['everywhere']:,} reached every member"),
        ("deliveries", f"{deliveries['actual']:,}", f"of {deliveries['expected']:,} expected ({share:.3%})"),
        ("  by the first pass", f"{deliveries['first_pass']:,}", ""),
        ("  repaired by a peer", f"{deliveries['peer']:,}", ""),
        ("  repaired by a logger", f"{deliveries['logger']:,}", ""),
        ("duplicate, bogus", f"{deliveries['duplicate']}, {deliveries['bogus']}", "must be 0, 0"),
        (
            "latency",
            f"{latency['p50'] * 1e3:.1f} ms",
            f"p99 {latency['p99'] * 1e3:.1f}, max {latency['max'] * 1e3:.1f}",
        ),
        (
            "until everywhere",
            f"{everywhere['mean'] * 1e3:.1f} ms",
            f"mean; p50 {everywhere['p50'] * 1e3:.1f}, p99 {everywhere['p99'] * 1e3:.1f}",
        ),
        ("repairs sent", f"{result['repairs']['sent']:,}", ""),
        ("overhead", f"{result['overhead']['packets']:,}", f"packets, {result['overhead']['bytes']:,} bytes"),
        (
            "violations",
            str(len(result["violations"])),
            "of the specifications" if result["violations"] else "",
        ),
        ("time", f"{result['virtual_seconds']:.1f} s", f"virtual, in {result['wall_seconds']:.2f} s of real time"),
    ]


def _bars(title: str, counts: dict[str, int]) -> Table:
    """One bar per name; the longest fills the width."""
    table = Table(title=title, show_header=False, title_justify="left", box=None)
    most = max(counts.values())
    for name, count in list(counts.items())[:64]:
        table.add_row(name, "█" * max(1, round(BAR_WIDTH * count / most)), f"{count:,}")
    if len(counts) > 64:
        table.add_row("", f"... and {len(counts) - 64} more", "")
    return table
