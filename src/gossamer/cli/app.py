"""The list of commands."""

import typer

from gossamer import __version__
from gossamer.cli.check import check
from gossamer.cli.experiment import app as experiment
from gossamer.cli.plan import plan
from gossamer.cli.report import report
from gossamer.cli.simulate import simulate

app = typer.Typer(
    name="gossamer",
    help="Reliable multicast for Python: every subscriber hears every event, without a broker.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command()(simulate)
app.command()(check)
app.command()(plan)
app.add_typer(experiment, name="experiment")
app.command()(report)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        typer.echo(f"gossamer {__version__}")
        raise typer.Exit
