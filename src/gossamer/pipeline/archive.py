"""`archive`: stream the log into a Parquet table by date and subject, every event exactly once.

Spark's checkpoint says which packets belong to which batch, and the table says which batch it got last. A batch that
is repeated after a crash has the same packets, so it is either in the table already and is skipped, or it is not and
is written again. Small files are merged as the stream goes on, each merge one change of the table.

The archive is a durable consumer of the log: what is not yet in the table is not collected.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from gossamer.pipeline.errors import plain_errors
from gossamer.pipeline.log import open_log
from gossamer.pipeline.log_rows import DDL
from gossamer.pipeline.options import ReadOptions
from gossamer.pipeline.session import PipelineError
from gossamer.pipeline.table import Change, Table, is_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKPOINT = "_checkpoint"
CONSUMER = "archive"
BY = ("date", "subject")

SMALL_BYTES = 32 << 20
"""A file smaller than this is small."""
MERGE_FILES = 8
"""How many small files of one date and subject are worth merging."""
POLL_S = 0.2
PACKETS_PER_BATCH = 200_000
"""What one batch takes from the log: few enough that little is repeated after a crash."""


@dataclass
class Archived:
    """What `archive` has done."""

    batches: int = 0
    files: int = 0
    merged: int = 0
    """Small files that were merged into larger ones."""


def archive(
    spark: SparkSession,
    options: ReadOptions,
    out: str | os.PathLike[str],
    *,
    every_s: float | None = None,
    merge_files: int = MERGE_FILES,
    on_batch: Callable[[Archived], None] = lambda done: None,
) -> Archived:
    """Archive the log to the table `out`: what is there now or, with `every_s`, for ever in batches that far apart."""
    from gossamer.pipeline.source import LogSource

    options = replace(
        options,
        consumer=options.consumer or CONSUMER,
        offsets_per_trigger_max=options.offsets_per_trigger_max or PACKETS_PER_BATCH,
    )
    with open_log(options) as log:
        log.check_key(log.extent())
    table = Table(out)
    checkpoint = table.path / CHECKPOINT
    spark.dataSource.register(LogSource)
    with table.changing(), plain_errors():
        archiving = _Archiving(spark, table, merge_files, on_batch)
        archiving.check_checkpoint()
        stream = spark.readStream.format("gossamer").options(**options.as_options()).load()
        writer = stream.writeStream.foreachBatch(archiving.take).option("checkpointLocation", str(checkpoint))
        trigger = {"availableNow": True} if every_s is None else {"processingTime": f"{every_s} seconds"}
        query = writer.trigger(**trigger).start()
        try:
            while query.isActive:  # so that an interrupt arrives while we sleep, not in the middle of a call to Java
                sleep(POLL_S)
            query.awaitTermination()  # raises what ended it
        finally:
            query.stop()
        archiving.merge(at_least=2)
    return archiving.done


def read_archive(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """Read the events of an archive, with the columns of `LogSource`, or of any Parquet with these columns."""
    if not Path(path).exists():
        raise PipelineError(f"{path}: no such archive; make one with: gossamer pipeline archive STORE --out {path}")
    if not is_table(path):
        return spark.read.parquet(str(path))
    files = Table(path).files()
    if not files:
        raise PipelineError(f"{path}: the archive is empty")
    return _read(spark, files)


class _Archiving:
    """Takes the batches of the stream into the table."""

    def __init__(
        self, spark: SparkSession, table: Table, merge_files: int, on_batch: Callable[[Archived], None]
    ) -> None:
        self._spark = spark
        self._table = table
        self._merge_files = merge_files
        self._on_batch = on_batch
        self.done = Archived()

    def check_checkpoint(self) -> None:
        """Check that the checkpoint belongs to the table: batch numbers mean nothing without it."""
        if self._table.last.query not in ("", self._query()):
            raise PipelineError(
                f"{self._table.path / CHECKPOINT} is not the one that this archive was made with; archive into another"
                " folder, or restore it"
            )

    def take(self, batch: DataFrame, number: int) -> None:
        """Take batch `number` of the stream, unless the table has it already."""
        if number > self._table.last.batch:
            change = self._change(batch, batch=number)
            self.done.batches += 1
            self.done.files += len(change.add)
            self.merge(at_least=self._merge_files)
            self._on_batch(self.done)

    def merge(self, at_least: int) -> None:
        """Merge the small files of each date and subject that has `at_least` this many."""
        small = self._small_files(at_least)
        if small:
            rows = _read(self._spark, [str(self._table.path / name) for name in small])
            merged = _dated(rows).repartition(*BY).sortWithinPartitions(*BY, "sender", "offset")
            self._change(merged, batch=self._table.last.batch, remove=small)
            self.done.merged += len(small)

    def _change(self, rows: DataFrame, *, batch: int, remove: Iterable[str] = ()) -> Change:
        """Add these rows and remove these files in one atomic change."""
        folder = self._table.stage()
        _dated(rows).write.partitionBy(*BY).parquet(str(folder))
        return self._table.commit(folder, batch=batch, query=self._query(), remove=remove)

    def _query(self) -> str:
        """The stream that the checkpoint belongs to."""
        try:
            metadata = json.loads((self._table.path / CHECKPOINT / "metadata").read_text("utf-8"))
            return str(metadata["id"])
        except (OSError, ValueError, KeyError):
            return "none"

    def _small_files(self, at_least: int) -> list[str]:
        by_folder: dict[Path, list[Path]] = defaultdict(list)
        for path in self._table.path.glob("*=*/*=*/*.parquet"):
            if path.stat().st_size < SMALL_BYTES:
                by_folder[path.parent].append(path)
        crowded = [paths for paths in by_folder.values() if len(paths) >= at_least]
        return sorted(str(path.relative_to(self._table.path)) for paths in crowded for path in paths)


def _read(spark: SparkSession, files: list[str]) -> DataFrame:
    """Read files of an archive; those from before a column was added have nulls in it."""
    return spark.read.schema(DDL).parquet(*files)


def _dated(rows: DataFrame) -> DataFrame:
    """Add the columns that become folders."""
    from pyspark.sql import functions as f

    return rows.withColumn("date", f.to_date("timestamp")).withColumn("subject", f.col("topic"))
