"""`gossamer experiment`: grids of simulations on Spark, with figures and verdicts."""

import json
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.progress import waiting
from gossamer.core.schema import SettingError

app = typer.Typer(
    help="Run experiments on Spark: grids of simulations, with figures and verdicts on claims.",
    epilog="Example: gossamer experiment run thesis --out runs/thesis",
    no_args_is_help=True,
)

COLOURS = {"holds": "green", "fails": "bold red", "not decided": "yellow"}
SAY_EVERY_S = 10.0
ROWS_SHOWN = 40


@app.command("list")
def list_experiments(
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Directory of experiment files; experiments/, or those that come with gossamer, if not given."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> int:
    """List the experiments in a folder: the number of runs, the claims, and the question that each asks.

    Example:

        gossamer experiment list
    """
    from gossamer.pipeline.experiments.files import folder_here, load
    from gossamer.pipeline.experiments.study import plan

    folder = folder or folder_here()
    found = []
    with waiting(f"reading {folder}"):
        for path in sorted(folder.rglob("*.toml")):
            collection = load(path)
            runs = plan(collection)
            claims = sum(len(experiment.claim) for experiment in collection.experiments)
            title = collection.title
            found.append(
                {
                    "name": path.stem,
                    "file": str(path),
                    "title": title,
                    "runs": len(runs),
                    "claims": claims,
                    "estimate_s": round(sum(run.cost for run in runs), 1),
                }
            )
    if not found:
        raise SettingError(f"--folder {folder}: contains no experiment file (*.toml); give another folder")
    if as_json:
        typer.echo(json.dumps(found))
    else:
        _show_list(found)
    return 0


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="An experiment file, or a name from `gossamer experiment list`.")],
    out: Annotated[Path | None, typer.Option(help="Run directory; runs/NAME if not given.")] = None,
    master: Annotated[str, typer.Option(help="Spark master to run on.")] = "local[*]",
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs per point; as in the file if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> int:
    """Run an experiment: every point of its grid with every seed, then metrics, figures and verdicts.

    An interrupted run continues if given the same run directory. Exit code 1 if a specification was violated or a
    run could not be finished; a claim that fails is a finding, not an error, and is left to the report.

    Examples:

        gossamer experiment run thesis --out runs/thesis && gossamer report runs/thesis

        gossamer experiment run campaign --seeds 1000 --out runs/campaign
    """
    from gossamer.pipeline.experiments.directory import Directory
    from gossamer.pipeline.experiments.files import find, load
    from gossamer.pipeline.experiments.runner import session_conf
    from gossamer.pipeline.experiments.study import conduct, plan
    from gossamer.pipeline.session import running

    path = find(name)
    collection = load(path)
    plan(collection, seeds)  # finds wrong keys before Spark starts
    directory = Directory.create(out or Path("runs") / collection.name, collection, {"seeds": seeds, "master": master})
    console = Console(file=os.fdopen(os.dup(2), "w"))  # while Spark starts, standard error is sent elsewhere
    session = running(f"gossamer {collection.name}", master, **session_conf(master))
    with _Progress(console) as progress, session as spark:
        outcome = conduct(spark, collection, directory, seeds, progress.runs, progress.says)
    facts = outcome.as_dict()
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts, directory.path)
    return 1 if outcome.bad else 0


@app.command()
def measure(
    traces: Annotated[
        list[Path], typer.Argument(help="Trace files (Parquet), from the simulator or from live members.")
    ],
    metric: Annotated[
        list[str] | None, typer.Option(help="Metric to compute, the summaries if not given. May be repeated.")
    ] = None,
    master: Annotated[str, typer.Option(help="Spark master to run on.")] = "local[*]",
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> int:
    """Compute metrics from TRACES, of live or simulated runs, with the same queries that experiments use.

    Trace files of a live group count as one run if they name the same run.

    Example:

        gossamer experiment measure tree.parquet --metric latency --metric load
    """
    from gossamer.pipeline.metrics import SUMMARY_METRICS, check_names, read_traces
    from gossamer.pipeline.metrics import measure as compute
    from gossamer.pipeline.session import running
    from gossamer.trace.reader import metadata

    names = metric or list(SUMMARY_METRICS)
    check_names(names)
    for path in traces:
        metadata(path)  # raises an error for a file that is not a trace
    with waiting("Spark measures the traces"), running("gossamer measure", master) as spark:
        trace = read_traces(spark, traces).cache()
        tables = {name: [row.asDict() for row in compute(spark, name, trace).collect()] for name in names}
    if as_json:
        typer.echo(json.dumps(tables))
    else:
        for name, rows in tables.items():
            _show_table(name, rows)
    return 0


class _Progress:
    """Runs done, runs planned and time left: a status line on a terminal, an occasional line in a log."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("starting Spark") if console.is_terminal else None
        self._began = self._said = 0.0

    def __enter__(self) -> "_Progress":
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def says(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)
        else:
            self._console.print(text, highlight=False)

    def runs(self, progress: Any) -> None:
        now = time.monotonic()
        if not self._began:
            self._began = now
        if self._status is None and now - self._said < SAY_EVERY_S and progress.done < progress.planned:
            return
        self._said = now
        failed = f", {progress.failed} failed" if progress.failed else ""
        left = ""
        if progress.cost_done and progress.done < progress.planned:
            seconds = (now - self._began) * (progress.cost_planned / progress.cost_done - 1)
            left = f", about {seconds / 60:.1f} min left" if seconds > 90 else f", about {seconds:.0f} s left"
        self.says(f"{progress.done:,} of {progress.planned:,} runs{failed}{left}")


def _show_list(found: list[dict[str, Any]]) -> None:
    table = Table("name", "runs", "claims", "about", "what it asks", title_justify="left")
    for each in found:
        minutes = f"{each['estimate_s'] / 60:.1f} core min"
        table.add_row(each["name"], f"{each['runs']:,}", str(each["claims"]), minutes, each["title"])
    Console().print(table)


def _show_table(name: str, rows: list[dict[str, Any]]) -> None:
    table = Table(*(rows[0] if rows else ["nothing"]), title=name, title_justify="left")
    for row in rows[:ROWS_SHOWN]:
        table.add_row(*(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console().print(table)
    if len(rows) > ROWS_SHOWN:
        Console().print(f"... and {len(rows) - ROWS_SHOWN:,} more rows; --json prints all")


def _show(facts: dict[str, Any], directory: Path) -> None:
    console = Console()
    if facts["verdicts"]:
        table = Table("place", "claim", "verdict", title_justify="left")
        for verdict in facts["verdicts"]:
            colour = COLOURS[verdict["verdict"]]
            table.add_row(verdict["place"], verdict["says"], f"[{colour}]{verdict['verdict']}[/]")
        console.print(table)
    for each in facts["failed"][:20]:
        console.print(f"[bold red]run failed[/] {each['run']}: {each['status']}: {each['reason']}", soft_wrap=True)
    for each in facts["violations"][:20]:
        console.print(f"[bold red]violation[/] seed {each['seed']}: {each['spec']}: {each['message']}", soft_wrap=True)
        console.print(f"    replay: {each['replay']}", soft_wrap=True)
    counts = f"{facts['runs']:,} runs, {len(facts['failed'])} failed, {len(facts['violations'])} violations"
    console.print(f"{counts}; read it with: gossamer report {directory}", soft_wrap=True)
