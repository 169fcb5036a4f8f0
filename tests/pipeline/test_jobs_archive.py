"""The archive holds the log, event for event, whatever happened while it was made."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from gossamer.pipeline.archive import CHECKPOINT, archive, read_archive
from gossamer.pipeline.options import ReadOptions
from gossamer.pipeline.session import PipelineError
from gossamer.pipeline.table import Table
from gossamer.store import open_store
from tests.pipeline.log_makers import expected_values, in_fragments, simple

A, B = 11, 12


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with open_store(path) as log:
        log.append(simple(A, range(100)))
        log.append(simple(B, range(60)))
    return path


def contents(path: Path) -> Counter[bytes]:
    """What any reader of Parquet finds in the folder."""
    return Counter(ds.dataset(path, partitioning="hive").to_table(["value"]).column("value").to_pylist())


def expected(*parts: tuple[int, range]) -> Counter[bytes]:
    return Counter(value for sender, numbers in parts for value in expected_values(sender, numbers))


# The table


def put(table: Table, name: str, text: str) -> Path:
    staged = table.stage()
    file = staged / "date=1" / "subject=a" / name
    file.parent.mkdir(parents=True)
    pq.write_table(ds.pa.table({"value": [text]}), file)
    return staged


def values(table: Table) -> list[str]:
    return sorted(pq.read_table(file).column("value")[0].as_py() for file in table.files())


def test_an_archive_from_before_there_were_channels_can_be_read_and_continued(
    spark: SparkSession, tmp_path: Path
) -> None:
    with open_store(tmp_path / "store") as log:
        log.append(simple(5, range(4)))
    options = ReadOptions.parse({"store": str(tmp_path / "store")})
    archive(spark, options, tmp_path / "out")
    for file in (tmp_path / "out").glob("date=*/subject=*/*.parquet"):
        older = pq.read_table(file, partitioning=None).drop(["channel"])
        pq.write_table(older, file, use_deprecated_int96_timestamps=True)  # as Spark writes them
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    with open_store(tmp_path / "store") as log:
        log.append(simple(5, range(4, 8)))

    archive(spark, options, tmp_path / "out")

    rows = read_archive(spark, tmp_path / "out").collect()
    assert Counter(row.channel for row in rows) == {None: 12, 0: 12}


def test_a_change_adds_and_removes_at_once(tmp_path):
    table = Table(tmp_path)
    with table.changing():
        table.commit(put(table, "one.parquet", "one"), batch=0, query="q")
        table.commit(put(table, "two.parquet", "two"), batch=0, query="q", remove=["date=1/subject=a/one.parquet"])

    assert values(table) == values(Table(tmp_path)) == ["two"]
    assert not list((tmp_path / "_staging").rglob("*.parquet"))


@pytest.mark.parametrize("crash_at", range(6))
def test_a_crash_at_any_step_leaves_the_table_as_before_or_after_the_change(tmp_path, monkeypatch, crash_at):
    table = Table(tmp_path)
    with table.changing():
        table.commit(put(table, "one.parquet", "one"), batch=0, query="q")
        staged = put(table, "two.parquet", "two")
        put_next = staged / "date=1" / "subject=a" / "three.parquet"
        shutil.copy(staged / "date=1" / "subject=a" / "two.parquet", put_next)
        steps = iter(range(100))

        def crashing(real):
            def step(*arguments, **options):
                if next(steps) == crash_at:
                    raise KeyboardInterrupt
                return real(*arguments, **options)

            return step

        with monkeypatch.context() as patched:
            patched.setattr("os.replace", crashing(os.replace))
            patched.setattr("os.fsync", crashing(os.fsync))
            patched.setattr(Path, "unlink", crashing(Path.unlink))
            with pytest.raises(KeyboardInterrupt):
                table.commit(staged, batch=1, query="q", remove=["date=1/subject=a/one.parquet"])

    seen = values(Table(tmp_path))
    again = Table(tmp_path)
    with again.changing():
        assert values(again) == seen
        assert seen == (["one"] if again.last.batch == 0 else ["two", "two"])
    assert sorted(contents_of_folder(tmp_path)) == seen


def contents_of_folder(path: Path) -> list[str]:
    return ds.dataset(path, partitioning="hive").to_table(["value"]).column("value").to_pylist()


def test_two_changes_at_a_time_are_refused(tmp_path):
    with Table(tmp_path).changing(), pytest.raises(PipelineError, match="another process"), Table(tmp_path).changing():
        pass


# The job


def test_the_archive_equals_the_log_and_continues_where_it_stopped(spark: SparkSession, store: Path, tmp_path: Path):
    out = tmp_path / "table"
    options = ReadOptions.parse({"store": str(store), "maxOffsetsPerTrigger": "300"})

    done = archive(spark, options, out, merge_files=2)

    assert contents(out) == expected((A, range(100)), (B, range(60)))
    assert done.batches == 2
    assert done.merged > 0
    folders = {str(path.parent.relative_to(out)) for path in out.glob("*=*/*=*/*.parquet")}
    assert folders == {"date=2023-11-14/subject=quotes.a", "date=2023-11-14/subject=quotes.b"}
    assert len(list(out.glob("*=*/*=*/*.parquet"))) == 2
    with open_store(store) as log:
        assert [(c.name, c.committed) for c in log.consumers()] == [("archive", {A: 99, B: 59})]
        log.append(simple(A, range(100, 110)))
        log.append(in_fragments(A, 110, b"x" * 9000))

    assert archive(spark, options, out).batches == 1
    assert contents(out) == expected((A, range(110)), (B, range(60))) + Counter([b"x" * 9000])
    found = read_archive(spark, out)
    assert found.select("sender", "offset").distinct().count() == found.count() == 511

    shutil.rmtree(out / CHECKPOINT)
    with pytest.raises(PipelineError, match="is not the one that this archive was made with"):
        archive(spark, options, out)


def test_a_failure_of_spark_is_reported_in_one_line(spark: SparkSession, store: Path, tmp_path: Path):
    options = ReadOptions.parse({"store": str(store)})
    out = tmp_path / "table"
    archive(spark, options, out)
    shutil.rmtree(store)
    with open_store(store) as log:
        log.append(simple(A, range(10)))

    with pytest.raises(PipelineError) as failed:
        archive(spark, options, out)

    assert str(failed.value).startswith(f"the stream is at 100 of sender {A}, the log ends at 10")
    assert "\n" not in str(failed.value)
    assert json.loads(sorted((out / "_log").glob("*.json"))[-1].read_text())["batch"] == 0
