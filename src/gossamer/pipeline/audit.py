"""`audit`: did every subscriber get every event of the log, by which rung of the ladder, and if not, why?

The log says what was published; the traces say what each member delivered. The result has a row for every packet at
every member but its sender: the rung (`first_pass`, `peer`, `logger`) by which it came, or `missing` and the reason.
Some reasons are excuses: a member is not owed what was sent before it joined or after it was gone, or in a channel
to which it did not listen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gossamer.core.ids import FIRST_PASS, LOGGER, MEMBER_BITS, MEMBER_MASK, PEER
from gossamer.pipeline.session import PipelineError
from gossamer.pipeline.traces import runs_apart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MISSING = "missing"
RUNGS = (FIRST_PASS, PEER, LOGGER)
EXCUSES = (
    "before it joined",
    "after it left",
    "after it crashed",
    "after its trace ends",
    "not listening to its channel",
)
RANGES_MAX = 1000
"""Ranges of missing packets that a report lists; it counts them all."""

_REASON = """
case when outcome <> 'missing' then ''
     when given_up is not null then concat('given up: ', given_up)
     when channel > 0 and (on_ns is null or published_ns < on_ns or published_ns >= off_ns)
          then 'not listening to its channel'
     when seqno <= joined_at or published_ns < joined_ns then 'before it joined'
     when gone_ns is not null and published_ns >= gone_ns
          then case gone_kind when 'leave' then 'after it left' else 'after it crashed' end
     when published_ns > last_ns then 'after its trace ends'
     when received then 'received, waiting for its turn'
     when dropped is not null then concat('dropped: ', dropped)
     else 'never arrived' end
"""


def audit(events: DataFrame, traces: DataFrame) -> DataFrame:
    """A row for each packet at each member: `member, sender, seqno, events, subjects, outcome, reason`."""
    from pyspark.sql import functions as f

    if runs_apart(traces):
        raise PipelineError("these traces are of several runs with the same senders; audit one run at a time")
    packets = events.groupBy("sender", "seqno").agg(
        f.count("*").alias("events"),
        f.sort_array(f.collect_set("topic")).alias("subjects"),
        (f.unix_micros(f.min("timestamp")) * 1000).alias("logged_ns"),
    )
    published = traces.where("kind = 'publish'").groupBy("sender", "seqno").agg(f.min("t_ns").alias("t_ns"))
    packets = packets.join(published, ["sender", "seqno"], "left")
    packets = packets.withColumn("published_ns", f.coalesce("t_ns", "logged_ns")).drop("t_ns", "logged_ns")
    packets = packets.withColumn("channel", f.expr(f"sender >> {MEMBER_BITS}"))
    owed = packets.crossJoin(f.broadcast(_members(traces))).where(f"member <> sender & {MEMBER_MASK}")
    seen = owed.join(_fates(traces), ["member", "sender", "seqno"], "left")
    seen = seen.join(f.broadcast(_joined_at(traces)), ["member", "sender"], "left")
    seen = seen.join(f.broadcast(_listening(traces)), ["member", "channel"], "left")
    judged = seen.withColumn("outcome", f.coalesce("rung", f.lit(MISSING))).withColumn("reason", f.expr(_REASON))
    return judged.select("member", "sender", "seqno", "events", "subjects", "outcome", "reason")


def summary(audited: DataFrame) -> dict[str, Any]:
    """The audit as plain data: for each member how its events arrived, and the ranges it did not get."""
    from pyspark.sql import functions as f

    audited = audited.cache()
    counted = audited.groupBy("member", "outcome", "reason").agg(
        f.count("*").alias("packets"), f.sum("events").alias("events")
    )
    members: dict[int, dict[str, Any]] = {}
    for row in counted.orderBy("member", "outcome", "reason").collect():
        counts = dict.fromkeys(("packets", "events", *RUNGS, MISSING, "excused"), 0)
        member = members.setdefault(row.member, {"member": row.member, **counts})
        member["packets"] += row.packets
        member["events"] += row.events
        member["excused" if row.reason in EXCUSES else row.outcome] += row.events
    return {"members": list(members.values()), "missing": _missing(audited)}


def _missing(audited: DataFrame) -> list[dict[str, Any]]:
    """What was not delivered, as ranges of packets with one reason."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    window = Window.partitionBy("member", "sender", "reason").orderBy("seqno")
    missing = audited.where(f.col("outcome") == MISSING)
    island = missing.withColumn("island", f.col("seqno") - f.row_number().over(window))
    ranges = island.groupBy("member", "sender", "reason", "island").agg(
        f.min("seqno").alias("first"), f.max("seqno").alias("last"), f.sum("events").alias("events")
    )
    columns = ["member", "sender", "first", "last", "events", "reason"]
    return [
        row.asDict() for row in ranges.select(*columns).orderBy("member", "sender", "first").limit(RANGES_MAX).collect()
    ]


def _members(traces: DataFrame) -> DataFrame:
    """Rows `member, joined_ns, last_ns, gone_ns, gone_kind`; a member is gone if it did not come back."""
    from pyspark.sql import functions as f

    came, went = "kind in ('join', 'recover')", "kind in ('leave', 'crash')"
    return (
        traces.groupBy("member")
        .agg(
            f.min(f.expr("case when kind = 'join' then t_ns end")).alias("joined_ns"),
            f.max("t_ns").alias("last_ns"),
            f.max(f.expr(f"case when {came} then t_ns end")).alias("came_ns"),
            f.max(f.expr(f"case when {went} then t_ns end")).alias("went_ns"),
            f.max_by("kind", f.expr(f"case when {went} then t_ns end")).alias("gone_kind"),
            f.max(f.expr("kind in ('join', 'receive', 'deliver')")).alias("listens"),
        )
        .where("listens")
        .withColumn("gone_ns", f.expr("case when went_ns >= coalesce(came_ns, -1) then went_ns end"))
        .drop("listens", "came_ns", "went_ns")
    )


def _joined_at(traces: DataFrame) -> DataFrame:
    """Rows `member, sender, joined_at`: the member is owed the sender's packets after this number (000 §5.3)."""
    from pyspark.sql import functions as f

    joins = traces.where("kind = 'join' and sender >= 0")
    return joins.groupBy("member", "sender").agg(f.min("seqno").alias("joined_at"))


def _listening(traces: DataFrame) -> DataFrame:
    """Rows `member, channel, on_ns, off_ns`: since when a member listens, for the last time, and until when."""
    from pyspark.sql import functions as f

    rows = traces.where("kind = 'channel'").withColumn("channel", f.col("seqno"))
    found = rows.groupBy("member", "channel").agg(
        f.max(f.expr("case when phase = 'on' then t_ns end")).alias("on_ns"),
        f.max(f.expr("case when phase = 'off' then t_ns end")).alias("off_ns"),
    )
    return found.withColumn("off_ns", f.expr("case when off_ns > on_ns then off_ns end"))


def _fates(traces: DataFrame) -> DataFrame:
    """What happened to each packet at each member: `rung`, `given_up`, `dropped`, `received`."""
    from pyspark.sql import functions as f

    data = traces.where("kind in ('deliver', 'lost', 'receive', 'drop') and seqno >= 0")
    first = {"rung": "deliver", "given_up": "lost", "dropped": "drop"}
    return data.groupBy("member", "sender", "seqno").agg(
        *(
            f.min_by("phase", f.expr(f"case when kind = '{kind}' then t_ns end")).alias(name)
            for name, kind in first.items()
        ),
        f.max(f.col("kind") == "receive").alias("received"),
    )
