"""Traces as a Spark table: what members recorded while they ran, in the one schema."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.pipeline.archive import read_archive
from gossamer.pipeline.options import ReadOptions
from gossamer.pipeline.session import PipelineError
from gossamer.store import open_store
from gossamer.store.data_file import DATA_FILE
from gossamer.trace.reader import own_name, row_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_traces(spark: SparkSession, paths: Sequence[str | os.PathLike[str]]) -> DataFrame:
    """Read these files, or the files in these folders; `TraceError` names a file that is not a trace."""
    return spark.read.parquet(*check_traces(paths))


def check_traces(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The files at these paths or in these folders; `TraceError` if one is not a trace."""
    files = [file for path in paths for file in _files(Path(path))]
    for file in files:
        row_count(file)  # reads only the footer, and checks the schema
    return list(map(str, files))


def member_names(paths: Sequence[str | os.PathLike[str]], log: str | os.PathLike[str] | None = None) -> dict[int, str]:
    """The names of members by their numbers: live traces tell that of their member, a log store those of senders."""
    names: dict[int, str] = {}
    if log is not None and is_store(log):
        with open_store(Path(log), readonly=True) as store:
            names = store.names()
    told = (own_name(file) for path in paths for file in _files(Path(path)))
    return names | dict(each for each in told if each is not None)


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether this looks like a log store, rather than an archive."""
    return (Path(path) / DATA_FILE).exists()


def read_events(spark: SparkSession, where: str | os.PathLike[str], options: ReadOptions | None = None) -> DataFrame:
    """Read the events of a log store or an archive, whichever `where` is."""
    from gossamer.pipeline.source import LogSource

    if not is_store(where):
        return read_archive(spark, where)
    spark.dataSource.register(LogSource)
    given = options or ReadOptions.parse({"store": str(where)})
    return spark.read.format("gossamer").options(**given.as_options()).load()


def runs_apart(traces: DataFrame) -> bool:
    """Whether a sender published in more than one run, so that its numbers mean nothing without the run.

    Live members are numbered at random and never share a number, and each may name its run freely; members of
    simulations are always numbered from 0.
    """
    from pyspark.sql import functions as f

    published = traces.where("kind = 'publish'").groupBy("sender").agg(f.countDistinct("run").alias("runs"))
    return bool(published.where("runs > 1").limit(1).count())


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.parquet"))
    if not files:
        raise PipelineError(f"{path}: this folder contains no traces (*.parquet)")
    return files
