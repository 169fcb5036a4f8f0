"""`latency`: from publish to delivery, by sender, by member and by subject, from the traces of the members.

A packet is published once, at `publish` in its sender's trace, and delivered at each member, at `deliver` in theirs. A
sender's own deliveries do not count. The result is only as good as the clocks of the hosts agree. Traces contain no
subjects; these come from the log or an archive, and so does the time of publishing if a sender kept no trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.core.ids import MEMBER_MASK
from gossamer.pipeline.traces import runs_apart

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ACCURACY = 10_000
"""Of percentiles: the rank is right to one part in this many."""


def latency(traces: DataFrame, events: DataFrame | None = None) -> DataFrame:
    """Rows `by, name, packets, mean_s, p50_s, p99_s, max_s`: for all, each sender, each member, each subject."""
    from pyspark.sql import functions as f

    delays = _delays(traces, events).cache()
    parts = [delays.groupBy().agg(*_statistics()).select(f.lit("all").alias("by"), f.lit("").alias("name"), "*")]
    for by in ("sender", "member"):
        grouped = delays.groupBy(by).agg(*_statistics()).orderBy(by)
        parts.append(grouped.select(f.lit(by).alias("by"), f.col(by).cast("string").alias("name"), *_NAMES))
    if events is not None:
        subjects = events.select("sender", "seqno", f.col("topic").alias("subject")).distinct()
        grouped = delays.join(subjects, ["sender", "seqno"]).groupBy("subject").agg(*_statistics()).orderBy("subject")
        parts.append(grouped.select(f.lit("subject").alias("by"), f.col("subject").alias("name"), *_NAMES))
    result = parts[0]
    for part in parts[1:]:
        result = result.unionByName(part)
    return result.where("packets > 0")


_NAMES = ["packets", "mean_s", "p50_s", "p99_s", "max_s"]


def _delays(traces: DataFrame, events: DataFrame | None) -> DataFrame:
    """Rows `sender, seqno, member, delay_s`, one for each delivery."""
    from pyspark.sql import functions as f

    keys = ["run", "sender", "seqno"] if runs_apart(traces) else ["sender", "seqno"]
    published = traces.where("kind = 'publish'").groupBy(*keys).agg(f.min("t_ns").alias("published_ns"))
    delivered = traces.where(f"kind = 'deliver' and member <> sender & {MEMBER_MASK}").groupBy(*keys, "member")
    joined = delivered.agg(f.min("t_ns").alias("delivered_ns")).join(published, keys, "left")
    if events is not None:
        logged = events.groupBy("sender", "seqno").agg((f.unix_micros(f.min("timestamp")) * 1000).alias("logged_ns"))
        joined = joined.join(logged, ["sender", "seqno"], "left")
        joined = joined.withColumn("published_ns", f.coalesce("published_ns", "logged_ns"))
    delay = (f.col("delivered_ns") - f.col("published_ns")) / 1e9
    return joined.where("published_ns is not null").select("sender", "seqno", "member", delay.alias("delay_s"))


def _statistics() -> list[Column]:
    from pyspark.sql import functions as f

    return [
        f.count("*").alias("packets"),
        f.mean("delay_s").alias("mean_s"),
        f.percentile_approx("delay_s", 0.5, ACCURACY).alias("p50_s"),
        f.percentile_approx("delay_s", 0.99, ACCURACY).alias("p99_s"),
        f.max("delay_s").alias("max_s"),
    ]
