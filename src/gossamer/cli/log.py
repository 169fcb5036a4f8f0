"""`gossamer log`: inspect a log store, export its events, make its file smaller."""

import json
import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.progress import progress_bar, waiting
from gossamer.core.schema import SettingError

if TYPE_CHECKING:
    import pyarrow as pa

    from gossamer.pipeline.log import Log

app = typer.Typer(
    help="Inspect a group's log, export its events to a file, or make its file smaller.",
    epilog="Example: gossamer log info /var/lib/quotes",
    no_args_is_help=True,
)

StorePath = Annotated[
    Path, typer.Argument(metavar="STORE", help="Directory of the log, as given to `gossamer logger --store`.")
]

RANGES_SHOWN = 4
LOSSES_SHOWN = 20


@app.command()
def info(
    store: StorePath,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every packet, and list those that are damaged.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Show what STORE holds: senders, ranges, sizes, consumers, age. A logger may be writing to it.

    Exit code 1 if the store is damaged; then shows what is still readable.

    Examples:

        gossamer log info /var/log/quotes

        gossamer log info /var/log/quotes --verify --json
    """
    from gossamer.store.survey import survey

    with progress_bar(f"reading {store}", 1.0) as progress:
        found = survey(store, verify=verify, progress=progress)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        _show(found)
    return 1 if found.get("error") or found.get("damaged") else 0


@app.command()
def export(
    store: StorePath,
    out: Annotated[Path, typer.Option(help="File to write: NAME.parquet or NAME.jsonl.")],
    key_file: Annotated[
        Path | None,
        typer.Option(help="File with the group's keys, one per line; GOSSAMER_KEY if not given.", exists=True),
    ] = None,
) -> int:
    """Write every event in STORE to a file, sender by sender, with the same columns as in Spark.

    In a .jsonl file, keys and values are strings if they are UTF-8, else {"base64": ...}. Exit code 1 if packets
    could not be read: they are listed, and all others are in the file.

    Examples:

        gossamer log export /var/log/quotes --out events.parquet

        gossamer log export /var/log/quotes --out events.jsonl --key-file quotes.key
    """
    if out.suffix not in (".parquet", ".jsonl"):
        raise typer.BadParameter(f"{out.name}: the name must end in .parquet or .jsonl", param_hint="--out")
    from gossamer.pipeline.log import open_log
    from gossamer.pipeline.options import ReadOptions

    losses: list[str] = []
    with open_log(ReadOptions.parse({"store": str(store), **keys_in(key_file)})) as log:
        held = log.store.held()
        total = sum(map(len, held.values()))
        with progress_bar(f"exporting {store}", max(total, 1)) as progress, _complete_or_nothing(out) as partial:
            rows = _write(partial, _batches(log, losses.append, progress))
    for loss in losses[:LOSSES_SHOWN]:
        typer.echo(loss, err=True)
    if len(losses) > LOSSES_SHOWN:
        typer.echo(f"... and {len(losses) - LOSSES_SHOWN:,} more", err=True)
    Console().print(f"{rows:,} events of {total:,} packets written to {out}", soft_wrap=True)
    return 1 if losses else 0


@app.command()
def compact(
    store: StorePath,
    as_json: Annotated[bool, typer.Option("--json", help="Print the sizes as JSON.")] = False,
) -> int:
    """Make the file of STORE as small as what it holds: a log never shrinks by itself, it reuses what was deleted.

    Stop the logger and all readers first; senders keep what they publish meanwhile. The copy needs as much free space
    as the log holds.

    Example:

        gossamer log compact /var/log/quotes
    """
    from gossamer.store.compacting import compact as rewrite

    with waiting(f"compacting {store}"):
        before, after = rewrite(store)
    if as_json:
        typer.echo(json.dumps({"bytes_before": before, "bytes_after": after}))
    else:
        Console().print(f"{store}: {before:,} bytes before, {after:,} now", soft_wrap=True)
    return 0


def keys_in(file: Path | None) -> dict[str, str]:
    """The keys in a file, as an option of a log; none without a file, so that those of the environment count."""
    if file is None:
        return {}
    try:
        return {"key": file.read_text("ascii")}
    except UnicodeDecodeError:
        raise SettingError(
            f"--key-file {file}: holds no keys; `gossamer key new --out FILE` makes a key file"
        ) from None


# The parts of export


def _batches(
    log: "Log", on_loss: Callable[[str], None], progress: Callable[[float], None]
) -> Iterator["pa.RecordBatch"]:
    from gossamer.pipeline.log_rows import Part, Reading

    done = 0
    for sender, numbers in log.store.held().items():
        part = Part(sender, numbers.first, numbers.last + 1, len(numbers))
        reading = Reading(log.store, part, log.open_datagram, on_loss)
        for batch in reading.batches():
            yield batch
            progress(done + reading.packets)
        done += len(numbers)


@contextmanager
def _complete_or_nothing(out: Path) -> Iterator[Path]:
    """A temporary file next to `out`, renamed to `out` at the end, or deleted after an error."""
    partial = out.with_name(f".{out.stem}.{os.getpid()}.partial{out.suffix}")
    try:
        yield partial
        os.replace(partial, out)
    finally:
        partial.unlink(missing_ok=True)


def _write(path: Path, batches: Iterator["pa.RecordBatch"]) -> int:
    """Write all rows, in the format that the file name asks for; returns their number."""
    return _write_parquet(path, batches) if path.suffix == ".parquet" else _write_lines(path, batches)


def _write_parquet(path: Path, batches: Iterator["pa.RecordBatch"]) -> int:
    import pyarrow.parquet as pq

    from gossamer.pipeline.log_rows import SCHEMA

    count = 0
    with pq.ParquetWriter(path, SCHEMA, compression="zstd", write_page_checksum=True) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _write_lines(path: Path, batches: Iterator["pa.RecordBatch"]) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for batch in batches:
            for row in batch.to_pylist():
                file.write(json.dumps(_plain(row), ensure_ascii=False) + "\n")
            count += batch.num_rows
    return count


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row to what JSON can represent."""
    return row | {
        "key": _text(row["key"]),
        "value": _text(row["value"]),
        "timestamp": row["timestamp"].isoformat(),
        "headers": dict(row["headers"]),
    }


def _text(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


# What info shows


def _show(found: dict[str, Any]) -> None:
    console = Console()
    if "error" in found:
        console.print(f"[bold red]damaged[/] {escape(found['error'])}", soft_wrap=True)
        console.print(f"readable: {found['packets']:,} packets", soft_wrap=True)
    else:
        console.print(_summary(found))
    console.print(_senders(found["senders"]))
    if found.get("consumers"):
        console.print(_consumers(found["consumers"]))
    for sender, seqno in found.get("damaged", [])[:LOSSES_SHOWN]:
        console.print(f"[bold red]damaged[/] packet {seqno} of sender {sender}")
    if "damaged" in found:
        console.print(f"{len(found['damaged']):,} of {found['packets']:,} packets are damaged")


def _summary(found: dict[str, Any]) -> Table:
    table = Table(title=found["store"], show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    table.add_row("group", escape(found["group"]) or "-")
    if not found["channels"]:
        table.add_row("channels", "from before there were channels: all of it is of channel 0")
    table.add_row("packets", f"{found['packets']:,}")
    table.add_row("on disk", f"{_size(found['bytes'])}, in a file of {_size(found['file_bytes'])}")
    table.add_row("created", ago(found["created_ns"]))
    table.add_row("oldest packet", ago(found["oldest_ns"]))
    table.add_row("newest packet", ago(found["newest_ns"]))
    return table


def _senders(senders: dict[str, Any]) -> Table:
    titles = ("name", "sender", "packets", "held", "collected", "oldest")
    table = Table(*titles, title="senders", title_justify="left")
    for number, sender in senders.items():
        held, collected = _ranges(sender["held"]), _ranges(sender["collected"])
        name = escape(sender.get("name", ""))
        table.add_row(name, number, f"{sender['packets']:,}", held, collected, ago(sender.get("oldest_ns")))
    return table


def _consumers(consumers: dict[str, Any]) -> Table:
    table = Table("consumer", "committed", "holds back", "last commit", title="consumers", title_justify="left")
    for name, consumer in consumers.items():
        positions = [f"{sender}: {number:,}" for sender, number in consumer["committed"].items()]
        shown = ", ".join(positions[:RANGES_SHOWN]) + (" ..." if len(positions) > RANGES_SHOWN else "")
        table.add_row(escape(name), shown, f"{consumer['behind']:,} packets", ago(consumer["time_ns"]))
    return table


def _ranges(ranges: list[tuple[int, int]]) -> str:
    shown = [f"{first}" if first == last else f"{first}-{last}" for first, last in ranges[:RANGES_SHOWN]]
    return ", ".join(shown) + (f" and {len(ranges) - RANGES_SHOWN:,} more" if len(ranges) > RANGES_SHOWN else "")


def _size(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"


def ago(time_ns: int | None) -> str:
    """How long ago that was, roughly."""
    if time_ns is None:
        return "-"
    seconds = max(0.0, time.time() - time_ns / 1e9)
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit} ago"
    return f"{seconds:,.0f} seconds ago"
