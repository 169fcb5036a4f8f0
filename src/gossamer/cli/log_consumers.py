"""`gossamer log consumers` and `gossamer log forget`: who reads a log durably, and how to end that."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.log import RANGES_SHOWN, StorePath, ago, app
from gossamer.live.readers import SUBSCRIBER


@app.command()
def consumers(
    store: StorePath,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """List the durable readers of STORE, how far each is, and how many packets it holds back.

    Subscribers are those of `subscribe(..., durable=NAME)`; the others are Spark's.

    Examples:

        gossamer log consumers /var/log/quotes
    """
    from gossamer.store.survey import survey

    found = {name: _described(name, row) for name, row in survey(store).get("consumers", {}).items()}
    if as_json:
        typer.echo(json.dumps(list(found.values())))
    elif found:
        Console().print(_table(list(found.values())))
    else:
        typer.echo(f"{store}: no durable readers")
    return 0


@app.command()
def forget(
    store: StorePath,
    name: Annotated[str, typer.Argument(help="The durable reader, as `gossamer log consumers` shows it.")],
) -> int:
    """Forget the durable reader NAME of STORE: it no longer holds back what is kept, and begins anew if it returns.

    A group with several loggers keeps it in each: forget it in all of their stores. Exit code 1 if there is none.

    Examples:

        gossamer log forget /var/log/quotes billing
    """
    from gossamer.store import open_store

    with open_store(store, readonly=True) as log:
        gone = [one for one in (SUBSCRIBER + name, name) if log.forget_consumer(one)]
        if gone:
            typer.echo(f"{store}: forgot {name}")
            return 0
        known = ", ".join(consumer.name.removeprefix(SUBSCRIBER) for consumer in log.consumers()) or "none"
    typer.echo(f"{store}: no durable reader {name!r}; there are: {known}", err=True)
    return 1


def _described(name: str, row: dict[str, Any]) -> dict[str, Any]:
    kind = "subscriber" if name.startswith(SUBSCRIBER) else "Spark"
    return {"name": name.removeprefix(SUBSCRIBER), "kind": kind, **row}


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("name", "kind", "committed", "holds back", "last commit")
    for row in rows:
        positions = [f"{sender}: {number:,}" for sender, number in row["committed"].items()]
        shown = ", ".join(positions[:RANGES_SHOWN]) + (" ..." if len(positions) > RANGES_SHOWN else "")
        table.add_row(escape(row["name"]), row["kind"], shown, f"{row['behind']:,} packets", ago(row["time_ns"]))
    return table
