"""Read a trace as `Rows`, batch by batch.

Whatever is wrong with a file (absent, not Parquet, truncated, a column missing, of another type or with
nulls, an unknown kind) raises a `TraceError` of one line that begins with the path, never any other error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gossamer.trace.rows import Rows, joined
from gossamer.trace.schema import CODE, COLUMNS, KINDS, METADATA_KEY, TraceError

BATCH_ROWS = 65_536
_NAMES = ["kind", "phase"]
_READ = [name for name in COLUMNS if name != "run"]

Path = str | os.PathLike[str]


def read(path: Path, phases: dict[str, int] | None = None) -> Iterator[Rows]:
    """The rows of a trace in batches, in order, in constant memory; `phases` is for batches that share their codes."""
    phases = {} if phases is None else phases
    first = 0
    with _opened(path) as file:
        for batch in file.iter_batches(BATCH_ROWS, columns=_READ):
            rows = _rows(batch, first, phases)
            first += len(rows)
            yield rows


def read_together(paths: Sequence[Path]) -> Iterator[Rows]:
    """The rows of several traces of one run in the order of time, batch by batch: each member of a live group has one.

    Their clocks must be one, or so close that a message takes longer. A clock that was set back stands still.
    """
    phases: dict[str, int] = {}
    sources = [_forward(read(path, phases)) for path in paths]
    heads = [next(source, None) for source in sources]
    first = 0
    while known := [head for head in heads if head is not None]:
        until = min(int(head.t_ns[-1]) for head in known)
        parts: list[Rows] = []
        for i, head in enumerate(heads):
            if head is not None:
                cut = int(np.searchsorted(head.t_ns, until, side="right"))
                parts.append(head.select(slice(0, cut)))
                heads[i] = head.select(slice(cut, None)) if cut < len(head) else next(sources[i], None)
        rows = joined(parts, first, list(phases))
        first += len(rows)
        yield rows


def _forward(batches: Iterator[Rows]) -> Iterator[Rows]:
    """The same rows, in none of which the time goes back."""
    latest = np.iinfo(np.int64).min
    for rows in batches:
        if len(rows):
            t_ns = np.maximum.accumulate(np.maximum(rows.t_ns, latest))
            latest = t_ns[-1]
            yield replace(rows, t_ns=t_ns)


def metadata(path: Path) -> dict[str, Any]:
    """The JSON object that the writer stored with the rows; empty if there is none."""
    with _opened(path) as file:
        text = (file.metadata.metadata or {}).get(METADATA_KEY, b"{}")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TraceError(f"its metadata is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise TraceError(f"its metadata is not a JSON object but {text[:40]!r}")
        return found


def own_name(path: Path) -> tuple[int, str] | None:
    """The number and the name of the live member that wrote the trace; None if it says nothing, or is of others."""
    name = metadata(path).get("name")
    with _opened(path) as file:
        if not isinstance(name, str) or not name or not file.metadata.num_rows:
            return None
        first = next(file.iter_batches(batch_size=1, columns=["member"]))
        return first.column(0)[0].as_py(), name


def row_count(path: Path) -> int:
    """The number of rows in the trace, from its footer."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open the file and check its schema; every failure inside becomes a TraceError."""
    try:
        with pq.ParquetFile(path) as file:
            _check_schema(file.schema_arrow)
        with pq.ParquetFile(path, read_dictionary=_NAMES, page_checksum_verification=True) as file:
            yield file
    except TraceError as error:
        raise TraceError(f"{os.fspath(path)}: {error}") from error
    except FileNotFoundError as error:
        raise TraceError(f"{os.fspath(path)}: no such file") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(f"{os.fspath(path)}: not a readable Parquet file ({why})") from error


def _check_schema(schema: pa.Schema) -> None:
    for name, kind in COLUMNS.items():
        if name not in schema.names:
            raise TraceError(f"the column {name!r} is missing; a trace has {', '.join(COLUMNS)}")
        found = schema.field(name).type
        found = found.value_type if pa.types.is_dictionary(found) else found
        if str(found).removeprefix("large_") != kind:
            raise TraceError(f"the column {name!r} is {found}, but must be {kind}")


def _rows(batch: pa.RecordBatch, first: int, phases: dict[str, int]) -> Rows:
    batch.validate(full=True)  # Parquet pages from other writers may have no checksum
    for name in _READ:
        if batch.column(name).null_count:
            raise TraceError(f"the column {name!r} holds a null at or after row {first}")
    kind, kinds = _codes(batch.column("kind"))
    unknown = [name for name in kinds if name not in CODE]
    if unknown:
        raise TraceError(f"unknown kind {unknown[0]!r} at or after row {first}; known kinds: {', '.join(KINDS)}")
    phase, names = _codes(batch.column("phase"))
    return Rows(
        number=np.arange(first, first + len(batch), dtype=np.int64),
        t_ns=batch.column("t_ns").to_numpy(),
        member=batch.column("member").to_numpy(),
        kind=np.array([CODE[name] for name in kinds], np.int8)[kind],
        sender=batch.column("sender").to_numpy(),
        seqno=batch.column("seqno").to_numpy(),
        peer=batch.column("peer").to_numpy(),
        bytes=batch.column("bytes").to_numpy(),
        phase=np.array([phases.setdefault(name, len(phases)) for name in names], np.int32)[phase],
        phases=list(phases),
    )


def _codes(column: pa.Array) -> tuple[NDArray[np.int32], list[str]]:
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return column.indices.to_numpy(), column.dictionary.to_pylist()
