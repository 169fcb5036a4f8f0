"""Metrics from traces, as Spark SQL: the same queries for simulated and live runs.

A metric is a query over one view, `{trace}`, in the schema of `gossamer.trace`; all are per `run`, so one query
serves a whole campaign. Each has a name in `METRICS` and a sentence that says what a row is. What they have in common:

- a packet's first delivery at a member counts, later ones are duplicates;
- a packet is *everywhere* when every member that was there when it was published has it. A member is there from its
  plain `join` row until it leaves; a member that is down still counts;
- windows have the length `WINDOW_S`, and only whole windows between the first and the last publish count.

Traffic per link is not a metric of traces, because a trace does not see links. The simulator counts it, in
`results.links`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.pipeline.session import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW_S = 0.5
"""004 §7: "variance (computed over 500ms intervals)"."""
BIN_S = 0.005
"""Bin width of the histogram of inter-arrival times."""

SCHEMA = (
    "run string, t_ns bigint, member bigint, kind string, sender bigint, seqno bigint, peer bigint, bytes int,"
    " phase string"
)

_PUBLISHED = "published as (select run, sender, seqno, min(t_ns) t from {trace} where kind = 'publish' group by all)"
_DELIVERED = """
delivered as (select run, member, sender, seqno, min(t_ns) t, min_by(phase, t_ns) phase
              from {trace} where kind = 'deliver' group by run, member, sender, seqno)"""
_PRESENT = """
present as (select run, member, min(t_ns) filter (where kind = 'join' and sender = -1) from_t,
                   coalesce(max(t_ns) filter (where kind = 'leave'), 9223372036854775807) until_t
            from {trace} where kind in ('join', 'leave') group by run, member)"""
_SPAN = "span as (select run, min(t) first_t, max(t) last_t from published group by run)"
_STATISTICS = """
       avg({0}) mean, percentile({0}, 0.5) p50, percentile({0}, 0.99) p99, max({0}) max, stddev_pop({0}) std"""


@dataclass(frozen=True, slots=True)
class Metric:
    """A query, and what one of its rows is."""

    says: str
    sql: str


def _with(*parts: str) -> str:
    return "with " + ", ".join(parts)


_LATENCIES = """
latencies as (select d.*, (d.t - p.t) / 1e9 latency_s
              from delivered d join published p using (run, sender, seqno))"""

METRICS: dict[str, Metric] = {
    "latency": Metric(
        "per run: how long a delivery took",
        f"""{_with(_PUBLISHED, _DELIVERED, _LATENCIES)}
select run, count(*) deliveries, {_STATISTICS.format("latency_s")} from latencies group by run""",
    ),
    "phases": Metric(
        "per run and phase: deliveries by the rung that brought the packet",
        f"{_with(_DELIVERED)} select run, phase, count(*) deliveries from delivered group by run, phase",
    ),
    "packets": Metric(
        "per packet: how many members got it, whether that was all that were there, and how long it took",
        f"""{_with(_PUBLISHED, _DELIVERED, _PRESENT)},
owed as (select p.run, p.sender, p.seqno, p.t, count(*) owed
         from published p join present m on p.run = m.run and m.from_t <= p.t and p.t < m.until_t group by all),
came as (select d.run, d.sender, d.seqno, count(*) delivered, max(d.t) last_t
         from delivered d join published p using (run, sender, seqno)
         join present m on m.run = d.run and m.member = d.member and m.from_t <= p.t and p.t < m.until_t group by all)
select run, sender, seqno, owed.t published_ns, owed, coalesce(delivered, 0) delivered,
       coalesce(delivered, 0) >= owed everywhere,
       case when delivered >= owed then (last_t - owed.t) / 1e9 end everywhere_s
from owed left join came using (run, sender, seqno)""",
    ),
    "reach": Metric(
        "per packet and second of the run: how many members got it then",
        f"""{_with(_DELIVERED)}
select run, sender, seqno, cast(floor(t / 1e9) as int) second, count(*) reached
from delivered group by run, sender, seqno, second""",
    ),
    "load": Metric(
        "per run and member: repairs that it sent",
        "select run, member, count(*) repairs, sum(bytes) bytes from {trace} where kind = 'repair' group by all",
    ),
    "overhead": Metric(
        "per run and kind of message: what was sent besides packets and repairs",
        """select run, kind, count(*) packets, sum(bytes) bytes from {trace}
where kind in ('request', 'gossip', 'ack', 'heartbeat', 'join', 'leave', 'view', 'suspect') and bytes > 0
group by run, kind""",
    ),
    "received": Metric(
        "per run, member and kind: messages that reached it",
        "select run, member, phase kind, count(*) messages from {trace} where kind = 'receive' group by all",
    ),
    "fraction": Metric(
        "per run and member: how much it got of what was published while it was there",
        f"""{_with(_PUBLISHED, _DELIVERED, _PRESENT)},
owed as (select m.run, m.member, count(*) owed
         from published p join present m on p.run = m.run and m.from_t <= p.t and p.t < m.until_t group by all),
came as (select run, member, count(*) delivered from delivered group by all)
select run, member, owed, coalesce(delivered, 0) delivered, coalesce(delivered, 0) / owed fraction
from owed left join came using (run, member)""",
    ),
    "windows": Metric(
        f"per run, member and window of {WINDOW_S} s: packets delivered per second",
        f"""{_with(_PUBLISHED, _PRESENT, _SPAN)},
frames as (select run, member, first_t,
                  explode(sequence(0, cast((last_t - first_t) / {WINDOW_S * 1e9} as int) - 1)) frame
           from present join span using (run) where last_t - first_t >= {WINDOW_S * 1e9}),
counted as (select run, member, cast(floor((t_ns - first_t) / {WINDOW_S * 1e9}) as int) frame, count(*) delivered
            from {{trace}} join span using (run) where kind = 'deliver' group by all)
select run, member, frame, frame * {WINDOW_S}D start_s, coalesce(delivered, 0) / {WINDOW_S}D rate
from frames left join counted using (run, member, frame)""",
    ),
    "interarrival": Metric(
        f"per run and member: histogram of the time between deliveries, in bins of {BIN_S} s",
        f"""with gaps as (
    select run, member, t_ns - lag(t_ns) over (partition by run, member order by t_ns) gap
    from {{trace}} where kind = 'deliver')
select run, member, cast(floor(gap / {BIN_S * 1e9}) as int) bin, floor(gap / {BIN_S * 1e9}) * {BIN_S}D from_s,
       count(*) deliveries
from gaps where gap is not null group by all""",
    ),
    "buffers": Metric(
        "per run and member: how many packets its buffer held, at most and on average over time",
        """with ends as (select run, max(t_ns) end_t from {trace} group by run),
changes as (select run, member, t_ns, sum(case kind when 'store' then 1 else -1 end) change
            from {trace} where kind in ('store', 'collect') and phase <> 'log' group by run, member, t_ns),
levels as (select run, member, t_ns, sum(change) over w level,
                  lead(t_ns) over w next_t from changes window w as (partition by run, member order by t_ns))
select run, member, max(level) peak, sum(level * (coalesce(next_t, end_t) - t_ns)) / max(end_t) mean
from levels join ends using (run) group by run, member""",
    ),
    "places": Metric(
        "per packet: how many members kept it for long, where only some do (003)",
        f"""{_with(_PUBLISHED)},
kept as (select run, sender, seqno, count(distinct member) places
         from {{trace}} where kind = 'store' and phase = 'long-term' group by all)
select run, sender, seqno, coalesce(places, 0) places from published left join kept using (run, sender, seqno)""",
    ),
    "occupancy": Metric(
        f"per run, member and window of {WINDOW_S} s: the most packets that its buffer held",
        f"""with changes as (
    select run, member, t_ns, sum(case kind when 'store' then 1 else -1 end) change
    from {{trace}} where kind in ('store', 'collect') and phase <> 'log' group by run, member, t_ns),
levels as (select run, member, t_ns, sum(change) over (partition by run, member order by t_ns) level from changes)
select run, member, cast(floor(t_ns / {WINDOW_S * 1e9}) as int) frame, max(level) packets from levels group by all""",
    ),
}

SUMMARIES: dict[str, Metric] = {
    "everywhere": Metric(
        "per run: how many packets got everywhere, and how long that took",
        f"""select run, count(*) sent, count_if(everywhere) everywhere, {_STATISTICS.format("everywhere_s")}
from {{packets}} group by run""",
    ),
    "throughput": Metric(
        "per run and member: deliveries per second, and their standard deviation over windows",
        "select run, member, avg(rate) mean, stddev_pop(rate) std from {windows} group by run, member",
    ),
}
"""Metrics of metrics: each reads the metric that it names."""

SUMMARY_METRICS = ("latency", "everywhere", "phases", "overhead", "load")
"""What one wants to know about a trace first."""


def read_traces(spark: SparkSession, paths: Sequence[Path]) -> DataFrame:
    """Read trace files, of runs or of a live group, as one DataFrame."""
    if not paths:
        raise PipelineError("no trace to read; give at least one trace file")
    return spark.read.schema(SCHEMA).parquet(*map(str, paths))


def check_names(names: Sequence[str]) -> None:
    """Raise PipelineError for a metric that does not exist."""
    for name in names:
        if name not in METRICS and name not in SUMMARIES:
            known = ", ".join(sorted([*METRICS, *SUMMARIES]))
            raise PipelineError(f"metric {name!r}: must be one of {known}")


def measure(spark: SparkSession, name: str, trace: DataFrame) -> DataFrame:
    """Compute the metric `name` from these traces."""
    check_names([name])
    if name in METRICS:
        return spark.sql(METRICS[name].sql, trace=trace)
    source = {"everywhere": "packets", "throughput": "windows"}[name]
    arguments: dict[str, Any] = {source: measure(spark, source, trace)}
    return spark.sql(SUMMARIES[name].sql, **arguments)
