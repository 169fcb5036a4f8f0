"""Prediction against simulation: a plan's settings, run on a network that is what the plan assumes.

Every row states how far apart the two may be: chance (four standard deviations, so one row in 16,000 is a false alarm)
and what the model leaves out, which docs/analysis.md measures.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import hypot, sqrt
from time import perf_counter
from typing import Any

from gossamer.analysis.forecast import Forecast, Sizes, forecast
from gossamer.analysis.planner import Plan
from gossamer.analysis.timeline import found_survival, timeline
from gossamer.cli.progress import progress_bar
from gossamer.settings import wire_sizes
from gossamer.sim.run import simulate
from gossamer.sim.scenario import Scenario, parse

Result = dict[str, Any]

SIGMAS = 4.0
PACKETS_WANTED = 1500
DURATION_MIN_S, DURATION_MAX_S = 3.0, 120.0
PERIODS_MIN = 10

REPAIRS_ERROR = 0.05
TAIL_ERROR = 0.12
BUFFER_ERROR = 0.02
OVERHEAD_ERROR = 0.08
LOGGER_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity, predicted and observed."""

    name: str
    unit: str
    predicted: float
    observed: float
    low: float
    high: float
    reason: str

    @property
    def agrees(self) -> bool:
        """Whether the observed value is within the allowed range."""
        return self.low <= self.observed <= self.high


@dataclass(frozen=True, slots=True)
class Check:
    """All rows of a comparison."""

    rows: tuple[Row, ...]
    seeds: int
    duration_s: float
    wall_s: float

    @property
    def agrees(self) -> bool:
        """Whether every row agrees."""
        return all(row.agrees for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Convert to plain data."""
        rows = [asdict(row) | {"agrees": row.agrees} for row in self.rows]
        return {"agrees": self.agrees, "seeds": self.seeds, "duration_s": self.duration_s, "rows": rows}


def compare(plan: Plan, seeds: int) -> Check:
    """Run the plan's settings with this many seeds and compare the results with its forecast."""
    began = perf_counter()
    scenario = scenario_of(plan)
    results = []
    with progress_bar("checking the plan", seeds * scenario.duration) as progress:
        for seed in range(seeds):
            results.append(simulate(scenario.with_seed(seed + 1)))
            progress((seed + 1) * scenario.duration)
    seqno = int(plan.demand.rate * scenario.duration / plan.demand.senders / 2)
    sizes = wire_sizes(plan.demand.size, seqno)  # a short run ends before sequence numbers grow
    rows = _rows(plan, _expected(plan, sizes), sizes, scenario.duration, results)
    return Check(tuple(rows), seeds, scenario.duration, perf_counter() - began)


def scenario_of(plan: Plan) -> Scenario:
    """The plan's settings and load, on a switch without queues where all members are `rtt` apart."""
    demand = plan.demand
    enough = max(DURATION_MIN_S, PERIODS_MIN * plan.settings["gossip_period"], PACKETS_WANTED / demand.rate)
    return parse(
        {
            "name": "plan",
            "duration": min(enough, DURATION_MAX_S),
            "linger": 600.0,
            "topology": {"kind": "lan", "members": demand.members, "latency": demand.rtt / 2, "bandwidth": 0.0},
            "loss": {"member": demand.loss},
            "traffic": {"senders": demand.senders, "rate": demand.rate, "size": demand.size},
            "protocol": {"name": "rpbcast", **plan.settings},
        }
    )


def _expected(plan: Plan, sizes: Sizes) -> Forecast:
    """The plan's forecast with messages of these sizes."""
    settings = plan.settings
    return forecast(
        plan.demand,
        sizes,
        period=settings["gossip_period"],
        fanout=settings["fanout"],
        kept=settings["gc_rounds"],
        retry=settings["retry_period"],
    )


def _rows(plan: Plan, expected: Forecast, sizes: Sizes, duration: float, results: Sequence[Result]) -> list[Row]:
    n, loss, rate = plan.demand.members, plan.demand.loss, plan.demand.rate
    packets = rate * duration * len(results)
    gaps = expected.gaps * duration * len(results)
    together = 1 + rate * loss * plan.settings["gossip_period"]  # gaps in the same gossip share its fate
    traffic = SIGMAS / sqrt(packets)
    losses = SIGMAS * sqrt(together / gaps) if gaps else 0.0
    requests = min(1.0, expected.gaps * sizes.request / n / expected.overhead)  # of the overhead
    return [
        _first_pass(expected, packets * n, loss, n, results),
        *_latency(expected, rate * duration * n, together + n * loss, results),
        _relative(
            "repairs/s per member",
            "repairs/s",
            expected.repair_rate,
            _mean(results, lambda r: r["repairs"]["sent"] / n / duration),
            hypot(traffic, losses) + REPAIRS_ERROR,
            f"4 sd of traffic and losses, and {REPAIRS_ERROR:.0%}: means stand for chances",
        ),
        _logger_share(expected, gaps, _last_gaps(plan) * len(results), together + n * loss, results),
        _relative(
            "packets buffered",
            "packets",
            _mean(results, lambda r: _buffered(rate, expected.hold_s, duration, r["virtual_seconds"])),
            _mean(results, lambda r: sum(r["buffers"]["mean_packets"].values()) / n),
            traffic + BUFFER_ERROR,
            f"4 sd of traffic, and {BUFFER_ERROR:.0%}: rounds out of step; the mean of the run, start and end included",
        ),
        _relative(
            "overhead bytes/s per member",
            "bytes/s",
            expected.overhead,
            _mean(results, lambda r: _overhead(r, duration) / n),
            hypot(traffic, requests * losses) + OVERHEAD_ERROR,
            f"4 sd of traffic and losses, and {OVERHEAD_ERROR:.0%}: lists of idle senders, lengths of numbers",
        ),
        Row(
            "packets lost", "packets", 0.0, _mean(results, lambda r: r["packets"]["lost"]), 0.0, 0.0, "none may be lost"
        ),
    ]


def _first_pass(expected: Forecast, deliveries: float, loss: float, n: int, results: Sequence[Result]) -> Row:
    observed = _mean(results, lambda r: r["deliveries"]["first_pass"] / max(1, r["deliveries"]["expected"]))
    error = SIGMAS * sqrt((1 - 1 / n) * loss * (1 - loss) / deliveries)
    low, high = expected.first_pass - error, expected.first_pass + error
    reason = "4 sd of independent losses"
    return Row("delivered by first pass", "share", expected.first_pass, observed, low - 1e-12, high + 1e-12, reason)


def _latency(expected: Forecast, deliveries: float, together: float, results: Sequence[Result]) -> list[Row]:
    """Compare quantiles by probability: the allowed range is that of the quantiles near q, given chance and model."""
    latency, rows = expected.latency, []
    for name, q in (("p50", 0.5), ("p99", 0.99)):
        error = SIGMAS * sqrt(q * (1 - q) * together / deliveries) + TAIL_ERROR * (1 - q)
        low = latency.quantile(max(q - error, 0.0)) - latency.step_s
        high = latency.quantile(min(q + error, 1.0)) + latency.step_s
        observed = sum(result["latency"][name] for result in results) / len(results)
        reason = f"quantiles {max(q - error, 0):.4f} to {min(q + error, 1):.4f}: 4 sd, {TAIL_ERROR:.0%} of the tail"
        rows.append(Row(f"latency {name}, s", "s", latency.quantile(q), observed, max(low, 0.0), high, reason))
    return rows


def _logger_share(expected: Forecast, gaps: float, last_gaps: float, together: float, results: Sequence[Result]) -> Row:
    """A few repairs out of many: a Poisson number whose mean is known up to a factor."""
    mean = expected.logger_share * gaps
    ending = LOGGER_FACTOR * (mean + last_gaps)
    most = ending + SIGMAS * sqrt(ending * together) + 0.5
    least = mean / LOGGER_FACTOR - SIGMAS * sqrt(mean * together)
    logged = sum(r["deliveries"]["logger"] for r in results)
    repaired = logged + sum(r["deliveries"]["peer"] for r in results)
    reason = f"a factor {LOGGER_FACTOR:g}, as the last round alone decides; 4 sd; last packets are found late"
    observed = logged / max(1, repaired)
    low, high = max(0.0, least / max(gaps, 1.0)), most / max(gaps, 1.0)
    return Row("repaired from the log", "share", expected.logger_share, observed, low, high, reason)


def _last_gaps(plan: Plan) -> float:
    """Gaps that go to the logger because nothing follows a sender's last packet, so only heartbeats reveal them."""
    demand, settings = plan.demand, plan.settings
    period = settings["gossip_period"]
    silent = found_survival(1e-9, demand.senders, demand.loss, period)
    course = timeline(
        demand.members,
        demand.loss,
        silent,
        period=period,
        rtt=demand.rtt,
        kept=settings["gc_rounds"],
        fanout=settings["fanout"],
    )
    return demand.senders * (demand.members - 1) * demand.loss * course.collected


def _relative(name: str, unit: str, predicted: float, observed: float, error: float, reason: str) -> Row:
    return Row(name, unit, predicted, observed, predicted * (1 - error), predicted * (1 + error), reason)


def _mean(results: Sequence[Result], of: Callable[[Result], float]) -> float:
    return sum(map(of, results)) / len(results)


def _buffered(rate: float, hold: float, duration: float, end: float) -> float:
    """The mean over a run that begins empty, publishes for `duration` and stops at `end`, cutting some holds short."""
    whole = min(max(end - hold, 0.0), duration)  # published before this: held to the end
    area = whole * hold + ((end - whole) ** 2 - (end - duration) ** 2) / 2
    return rate * area / end


def _overhead(result: Result, duration: float) -> float:
    """Bytes per second: gossip continues until the end, everything else only while there is traffic."""
    by_kind = {kind: count["bytes"] for kind, count in result["overhead_by_kind"].items()}
    gossip = by_kind.pop("gossip", 0)
    return float(gossip / result["virtual_seconds"] + sum(by_kind.values()) / duration)
