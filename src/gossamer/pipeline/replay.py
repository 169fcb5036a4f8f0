"""`replay`: publish the events of an archive to a group, in order of their timestamps, at their own rate or another.

One task publishes, so the group hears the events as if one sender had sent them all, with their original spacing. The
attributes of an archive are strings; those that look like numbers or booleans become such again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gossamer.pipeline.archive import read_archive
from gossamer.pipeline.errors import plain_errors
from gossamer.pipeline.sink import ORIGINAL, WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def replay(
    spark: SparkSession,
    archive: str | os.PathLike[str],
    group: str,
    *,
    rate: str = ORIGINAL,
    settings: Mapping[str, str] | None = None,
) -> int:
    """Publish everything in `archive` (or any Parquet with topic, value, timestamp); returns the number of events."""
    from gossamer.pipeline.source import LogSource

    options = {"group": group, "rate": rate, "headerTypes": "guess", **(settings or {})}
    WriteOptions.parse(options)
    spark.dataSource.register(LogSource)
    with plain_errors():
        events = read_archive(spark, archive)
        order = [name for name in ("timestamp", "sender", "offset") if name in events.columns]
        events.coalesce(1).sortWithinPartitions(*order).write.format("gossamer").options(**options).mode(
            "append"
        ).save()
        return events.count()
