"""The list of commands."""

import typer

import gossamer.cli.log_consumers
import gossamer.cli.log_tail  # noqa: F401 - they add themselves to `gossamer log`
from gossamer import __version__
from gossamer.cli.bench import bench
from gossamer.cli.channels import app as channels
from gossamer.cli.check import check
from gossamer.cli.demo import demo
from gossamer.cli.doctor import doctor
from gossamer.cli.experiment import app as experiment
from gossamer.cli.graph import graph
from gossamer.cli.key import app as key
from gossamer.cli.log import app as log
from gossamer.cli.logger import logger
from gossamer.cli.partitions import partitions
from gossamer.cli.pipeline import app as pipeline
from gossamer.cli.pipeline_channels import channels as pipeline_channels
from gossamer.cli.plan import plan
from gossamer.cli.pub import pub
from gossamer.cli.report import report
from gossamer.cli.simulate import simulate
from gossamer.cli.stats import members, stats
from gossamer.cli.sub import sub
from gossamer.cli.who_buffers import who_buffers

app = typer.Typer(
    name="gossamer",
    help="Reliable multicast for Python: every subscriber hears every event, without a broker.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command()(demo)
app.command()(pub)
app.command()(sub)
app.command()(logger)
app.command()(members)
app.command()(stats)
app.command()(partitions)
app.command()(graph)
app.command("who-buffers")(who_buffers)
app.command()(simulate)
app.command()(check)
app.command()(plan)
app.command()(doctor)
app.command()(bench)
app.add_typer(channels, name="channels")
app.add_typer(key)
app.add_typer(log, name="log")
pipeline.command("channels")(pipeline_channels)
app.add_typer(pipeline, name="pipeline")
app.add_typer(experiment, name="experiment")
app.command()(report)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"gossamer {__version__}")
        raise typer.Exit
