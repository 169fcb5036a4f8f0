"""How much traffic each subject has: the log, aggregated by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gossamer.pipeline.session import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUBJECTS_MAX = 1_000_000
WEIGHTS = ("events", "bytes")


class Traffic(NamedTuple):
    """Events and bytes of payload, by subject."""

    events: dict[str, int]
    bytes: dict[str, int]


def traffic(events: DataFrame) -> Traffic:
    """Count the events and bytes of every subject."""
    from pyspark.sql import functions as f

    counted = events.groupBy("topic").agg(f.count("*").alias("events"), f.sum(f.length("value")).alias("bytes"))
    table = counted.orderBy(f.desc("events"), "topic").limit(SUBJECTS_MAX).toArrow()
    if not table.num_rows:
        raise PipelineError("there are no events in the log: a map needs some traffic to go by")
    subjects = table["topic"].to_pylist()
    found = [dict(zip(subjects, (n or 0 for n in table[name].to_pylist()), strict=True)) for name in WEIGHTS]
    return Traffic(*found)
