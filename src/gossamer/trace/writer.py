"""Stream rows into a Parquet file in constant memory, one row group at a time.

The file is written under a temporary name and gets its final name only when closed, so a half-written trace
never appears under the name that was asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.trace.buffer import Chunk, Codes, RowBuffer, pack
from gossamer.trace.schema import CODE, COLUMNS, METADATA_KEY, TraceError

_TYPES = {"int64": pa.int64(), "int32": pa.int32(), "string": pa.dictionary(pa.int32(), pa.string())}
_SCHEMA = pa.schema([pa.field(name, _TYPES[kind], nullable=False) for name, kind in COLUMNS.items()])
_STRINGS = [name for name, kind in COLUMNS.items() if kind == "string"]
_INTEGERS = [name for name, kind in COLUMNS.items() if kind != "string"]


class TraceWriter(RowBuffer):
    """Writes the trace of one run; a context manager that keeps the file only on success."""

    def __init__(self, path: str | os.PathLike[str], run: str, metadata: Mapping[str, object]) -> None:
        super().__init__()
        self._path = Path(path)
        if not self._path.parent.is_dir():
            raise TraceError(f"trace {self._path}: there is no directory {self._path.parent}")
        self._partial = self._path.with_name(f".{self._path.name}.{os.getpid()}.partial")
        self._metadata = {METADATA_KEY: json.dumps(dict(metadata))}
        self._run = run
        self._phases = Codes()
        self._file: pq.ParquetWriter | None = _open(self._partial)

    def close(self) -> None:
        """Write the waiting rows and give the file its name. On any error nothing is left behind."""
        if self._file is None:
            return
        try:
            self._spill_rest()
            self._file.add_key_value_metadata(self._metadata)
            self._file.close()
            os.replace(self._partial, self._path)
        except BaseException:
            self.abort()
            raise
        self._file = None

    def abort(self) -> None:
        """Give up the trace and delete the file."""
        file, self._file = self._file, None
        self._values.clear()
        self._chunks.clear()
        if file is None:
            return
        try:
            file.close()
        finally:
            self._partial.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.abort()

    def _take(self, chunks: list[Chunk]) -> None:
        if self._file is None:
            raise TraceError(f"{self._path}: a row was added after the trace was closed")
        try:
            packed = pack(chunks, self._phases)
        except TraceError as error:
            raise TraceError(f"{self._path}: {error}") from error
        packed["run"] = bytes(len(packed["kind"]))
        names: dict[str, Iterable[str]] = {"run": [self._run], "kind": CODE, "phase": self._phases}
        columns = [_array(kind, packed[name], names.get(name, ())) for name, kind in COLUMNS.items()]
        batch = pa.record_batch(columns, schema=_SCHEMA)
        self._file.write_batch(batch, row_group_size=len(batch))


def _open(path: Path) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path,
        _SCHEMA,
        store_schema=False,  # otherwise pyarrow would read the names back as dictionaries, not as strings
        compression="zstd",
        compression_level=1,
        use_dictionary=_STRINGS,
        column_encoding=dict.fromkeys(_INTEGERS, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
        write_statistics=["t_ns", "member", "sender"],
    )


def _array(kind: str, packed: bytes, names: Iterable[str]) -> pa.Array:
    """An Arrow column of packed integers or, if these are codes of `names`, of strings."""
    if kind == "string":
        codes = _array("int32", packed, ())
        return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()), safe=False)
    count = len(packed) * 8 // _TYPES[kind].bit_width
    return pa.Array.from_buffers(_TYPES[kind], count, [None, pa.py_buffer(packed)])
