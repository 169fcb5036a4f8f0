"""`gossamer report`: a run directory as a single page."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gossamer.cli.progress import waiting


def report(
    directory: Annotated[Path, typer.Argument(help="The run directory of a `gossamer experiment run`.")],
    markdown: Annotated[Path | None, typer.Option(help="Also write the verdicts as Markdown to this file.")] = None,
) -> int:
    """Write report.html for a run directory: figures, claims with verdicts and numbers, settings, commands.

    The report is one self-contained file: mail it, print it, open it offline. Exit code 1 if a claim fails.

    Example:

        gossamer report runs/thesis
    """
    from gossamer.pipeline.experiments.claims import FAILS
    from gossamer.pipeline.experiments.directory import Directory
    from gossamer.pipeline.experiments.markdown import verdict_table
    from gossamer.pipeline.experiments.report import read_outcome, write_report

    with waiting("drawing figures"):
        path = write_report(directory)
    kept, collection = Directory.open(directory)
    outcome = read_outcome(kept)
    if markdown is not None:
        markdown.write_text(verdict_table(collection, outcome), "utf-8")
    Console().print(f"written: {path} ({path.stat().st_size / 1e6:.1f} MB)", soft_wrap=True, highlight=False)
    failing = [verdict["says"] for verdict in outcome["verdicts"] if verdict["verdict"] == FAILS]
    if failing:
        Console().print(
            f"{len(failing)} of {len(outcome['verdicts'])} claims fail; the report says why we think they do"
        )
    return 1 if failing else 0
