"""The trace file: what is written is read back, and whatever is wrong is one clear TraceError."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.trace import buffer, reader
from gossamer.trace.rows import RowFeed, Rows, rows_from
from gossamer.trace.schema import COLUMNS, KINDS, Row, TraceError
from gossamer.trace.writer import TraceWriter

ROWS: list[Row] = [
    (0, 0, "join", -1, -1, -1, 0, ""),
    (5, 0, "publish", 0, 1, -1, 1024, ""),
    (5, 0, "send", 0, 1, -1, 1024, "first_pass"),
    (9, 1, "receive", 0, 1, 0, 1024, "first_pass"),
    (9, 1, "lost", 2**62, -(2**62), 0, 0, "gäve up"),
]


def write(path: Path, rows: list[Row], **metadata: object) -> None:
    with TraceWriter(path, "run-1", metadata) as trace:
        for row in rows:
            trace.row(*row)


def described(path: Path) -> list[Row]:
    shown = [rows.describe(i) for rows in reader.read(path) for i in range(len(rows))]
    names = ("t_ns", "member", "kind", "sender", "seqno", "peer", "bytes", "phase")
    return [tuple(row[name] for name in names) for row in shown]  # type: ignore[misc]


def test_rows_and_metadata_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, ROWS, promises=["fifo"], bounds={"buffer": 10})
    assert described(path) == ROWS
    assert reader.metadata(path) == {"promises": ["fifo"], "bounds": {"buffer": 10}}
    assert reader.row_count(path) == len(ROWS)
    assert [path] == list(tmp_path.iterdir())


def test_the_file_has_the_binding_schema_with_plain_strings(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, ROWS)
    schema = pq.read_schema(path)
    assert {field.name: str(field.type) for field in schema} == COLUMNS
    assert pq.read_table(path)["run"].to_pylist() == ["run-1"] * len(ROWS)


def test_an_empty_trace_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, [])
    assert described(path) == []
    assert reader.row_count(path) == 0


def test_many_rows_leave_as_row_groups_whether_by_row_or_by_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffer, "_GROUP_VALUES", 8 * 100)
    many: list[Row] = [(i, i % 7, KINDS[i % 20], i, i, -1, i, f"phase {i // 90}") for i in range(1_050)]
    write(tmp_path / "row.parquet", many)
    with TraceWriter(tmp_path / "append.parquet", "r", {}) as trace:
        for row in many:
            trace.append(row)
            trace.spill()
    for name in ("row.parquet", "append.parquet"):
        assert described(tmp_path / name) == many
        assert pq.ParquetFile(tmp_path / name).num_row_groups == 11


def test_batches_are_numbered_consecutively_and_can_be_narrowed() -> None:
    rows = rows_from(ROWS)
    assert [batch.first for batch in rows.batches(2)] == [0, 2, 4]
    assert list(rows.of("send", "lost").number) == [2, 4]
    assert list(rows.select(rows.phase_is("first_pass")).number) == [2, 3]
    assert rows.select(np.array([3])).describe(0)["peer"] == 0
    assert len(rows_from([])) == 0


def test_many_rows_alike_keep_their_place_among_the_others(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.parquet", "r", {}) as trace:
        trace.row(1, 5, "publish", 5, 0, -1, 10, "")
        trace.many(2, list(range(40, 0, -1)), "deliver", 5, 0, -1, 10, "first_pass")
        trace.row(3, 5, "lost", 5, 1, -1, 0, "gave up")
        trace.many(4, (7, 8), "deliver", 5, 2, -1, 10, "peer")
    delivered: list[Row] = [(2, member, "deliver", 5, 0, -1, 10, "first_pass") for member in range(40, 0, -1)]
    assert described(tmp_path / "a.parquet") == [
        (1, 5, "publish", 5, 0, -1, 10, ""),
        *delivered,
        (3, 5, "lost", 5, 1, -1, 0, "gave up"),
        (4, 7, "deliver", 5, 2, -1, 10, "peer"),
        (4, 8, "deliver", 5, 2, -1, 10, "peer"),
    ]


def test_rows_alike_can_be_taken_together_and_fed_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "_GROUP_VALUES", 8 * 4)
    batches: list[Rows] = []
    feed = RowFeed(batches.append)
    feed.many(7, range(6), "deliver", 2, 9, -1, 100, "first_pass")
    feed.row(8, 3, "lost", 2, 10, -1, 0, "gave up")
    feed.many(9, [], "deliver", 2, 9, -1, 100, "first_pass")
    feed.close()
    assert [batch.first for batch in batches] == [0, 6]
    assert [int(member) for batch in batches for member in batch.member] == [0, 1, 2, 3, 4, 5, 3]
    assert batches[1].describe(0)["phase"] == "gave up"


numbers = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=30)
@given(st.lists(st.tuples(numbers, numbers, numbers, st.sampled_from(KINDS), st.text()), max_size=20))
def test_any_values_are_read_back(values: list[tuple[int, int, int, str, str]]) -> None:
    rows: list[Row] = [(t, m, kind, s, t, m, -7, phase) for t, m, s, kind, phase in values]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "a.parquet", rows)
        assert described(Path(folder) / "a.parquet") == rows


def test_an_exception_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted() -> None:
        with TraceWriter(tmp_path / "a.parquet", "r", {}) as trace:
            trace.row(*ROWS[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_an_older_trace_survives_a_run_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, ROWS)
    with pytest.raises(KeyboardInterrupt), TraceWriter(path, "r", {}):
        raise KeyboardInterrupt
    assert described(path) == ROWS


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ((0, 0, "publsh", 0, 0, 0, 0, ""), "publsh"),
        ((0, None, "publish", 0, 0, 0, 0, ""), "number"),
        ((0, 0, "publish", 2**64, 0, 0, 0, ""), "a.parquet"),
        ((0, 0, "publish"), "8 values"),
    ],
)
def test_a_bad_row_is_refused_and_leaves_nothing_behind(tmp_path: Path, row: Row, word: str) -> None:
    with pytest.raises(TraceError, match=word), TraceWriter(tmp_path / "a.parquet", "r", {}) as trace:
        trace.append(row)
    assert list(tmp_path.iterdir()) == []


def test_a_closed_writer_takes_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "_GROUP_VALUES", 8)
    with TraceWriter(tmp_path / "a.parquet", "r", {}) as trace:
        pass
    with pytest.raises(TraceError, match="closed"):
        trace.row(*ROWS[0])


def bad(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        list(reader.read(path))
    text = str(caught.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    return text


def test_a_file_that_is_not_parquet_is_a_trace_error(tmp_path: Path) -> None:
    assert "no such file" in bad(tmp_path / "absent.parquet")
    assert bad(tmp_path)
    for name, content in (
        ("text", b"hello, world, this is no parquet"),
        ("empty", b""),
        ("magic", b"PAR1PAR1PAR1"),
    ):
        (tmp_path / name).write_bytes(content)
        assert "not a readable Parquet file" in bad(tmp_path / name)


def test_a_trace_truncated_anywhere_is_a_trace_error(tmp_path: Path) -> None:
    whole = tmp_path / "a.parquet"
    write(whole, ROWS)
    content = whole.read_bytes()
    for length in range(0, len(content), 97):
        (tmp_path / "cut").write_bytes(content[:length])
        bad(tmp_path / "cut")


def test_a_trace_with_damaged_bytes_is_read_or_is_a_trace_error(tmp_path: Path) -> None:
    whole = tmp_path / "a.parquet"
    write(whole, ROWS * 50)
    content = whole.read_bytes()
    for at in range(4, len(content), 41):
        (tmp_path / "bad").write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        try:
            list(reader.read(tmp_path / "bad"))
            reader.metadata(tmp_path / "bad")
        except TraceError:
            pass


def table() -> pa.Table:
    empty: dict[str, list[object]] = {name: ["publish" if kind == "string" else 0] for name, kind in COLUMNS.items()}
    return pa.table(empty, schema=pa.schema(list(COLUMNS.items())))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_or_wrong_column_is_named(tmp_path: Path, column: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table().drop_columns([column]), path)
    assert f"{column!r} is missing" in bad(path)
    at = table().schema.get_field_index(column)
    pq.write_table(table().set_column(at, column, pa.array([1.5])), path)
    assert f"{column!r} is double, but must be {COLUMNS[column]}" in bad(path)


def test_nulls_and_unknown_kinds_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table().set_column(3, "kind", pa.array(["gossp"])), path)
    assert "unknown kind 'gossp'" in bad(path)
    pq.write_table(table().set_column(4, "sender", pa.array([None], pa.int64())), path)
    assert "'sender' holds a null" in bad(path)


def test_a_file_by_another_writer_needs_no_metadata(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path)
    assert reader.metadata(path) == {}
    assert described(path)[0][2] == "publish"


@pytest.mark.parametrize("text", ["[1]", "{", "3", "[" * 100_000])
def test_metadata_that_is_not_an_object_is_a_trace_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table().replace_schema_metadata({"gossamer": text}), path)
    with pytest.raises(TraceError, match="metadata"):
        reader.metadata(path)


def test_the_schema_alone_loads_nothing_heavy() -> None:
    code = "import sys, json, gossamer.trace.schema; print(json.dumps([m for m in sys.modules if '.' not in m]))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "pyarrow", "scipy"} & set(json.loads(found.stdout))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 50), max_size=30), min_size=2, max_size=4), st.integers(1, 7))
def test_traces_are_read_together_in_the_order_of_time(times: list[list[int]], batch: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "BATCH_ROWS", batch)
        paths = [Path(folder) / f"{n}.parquet" for n in range(len(times))]
        for n, path in enumerate(paths):
            write(path, [(t, n, "drop", -1, k, -1, 0, f"{n}.{t}") for k, t in enumerate(sorted(times[n]))])

        rows = [rows.describe(i) for rows in reader.read_together(paths) for i in range(len(rows))]

    assert [row["row"] for row in rows] == list(range(sum(map(len, times))))
    assert [row["t_ns"] for row in rows] == sorted(t for each in times for t in each)
    for n in range(len(times)):
        mine = [row for row in rows if row["member"] == n]
        assert [row["seqno"] for row in mine] == list(range(len(times[n])))
        assert [row["phase"] for row in mine] == [f"{n}.{t}" for t in sorted(times[n])]


def test_a_clock_that_was_set_back_stands_still(tmp_path: Path) -> None:
    write(tmp_path / "a", [(t, 0, "drop", -1, -1, -1, 0, "") for t in (5, 9, 7, 12)])
    write(tmp_path / "b", [(8, 1, "drop", -1, -1, -1, 0, "")])

    rows = list(reader.read_together([tmp_path / "a", tmp_path / "b"]))

    assert [t for part in rows for t in part.t_ns] == [5, 8, 9, 9, 12]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"there is no directory .*nowhere"):
        TraceWriter(tmp_path / "nowhere" / "trace.parquet", "run", {})
