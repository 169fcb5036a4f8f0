"""From requirements to settings: rpbcast for a group of n with a given loss, rate and odds.

`plan` chooses the few numbers that matter, the gossip period, the fanout and the rounds for which packets are
kept, and predicts their consequences: memory, bandwidth, latency, the logger's load. Every number comes with its
formula and the paper that it is from. What a finished plan predicts about a run is its `forecast`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from gossamer.analysis import bimodal, buffering, checks, convergence, ordering, redelivery
from gossamer.analysis.binomial import FloatArray, pmf
from gossamer.analysis.forecast import Demand, Forecast, Sizes, forecast
from gossamer.analysis.timeline import STEPS, found_survival

MEMBERS_MAX = 2000
"""The exact chain has as many states as there are members; with more than this it takes too long."""
FAILURE_MIN = 1e-30
"""The chain is exact down to here."""
PERIOD_RTTS = 5
"""A round takes at least this many round trips, so that it seldom asks for what is already on its way."""
PERIOD_MIN_S = 0.01
OVERHEAD_SHARE = 0.02
"""Gossip with nothing to report may take this share of the data's bandwidth, unless that makes a round too long."""
PERIOD_FOR_OVERHEAD_MAX_S = 1.0
ROUNDS_WANTED = 32
"""The fanout grows until packets need to be kept for at most this many rounds."""
FANOUT_MAX = 8
ROUNDS_MAX = 1000
BIMODAL_MEMBERS_MAX = 200
_IGNORED = 1e-45
NULL_PERIOD_S = 0.25
NULL_MISSES = 3
SERVICE_LIMIT = 1000.0
"""The defaults of `null_period` and `service_limit`."""
CRASH = 0.001
"""004 §6: the chance that a process crashes during a run, used for what pbcast alone would need."""

Lateness: TypeAlias = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One number of a plan. `value` is None if no value is enough."""

    name: str
    value: float | None
    unit: str
    formula: str
    reference: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to set, what follows from it, and why."""

    demand: Demand
    settings: Mapping[str, Any]
    """Settings of rpbcast, by name."""
    entries: tuple[PlanEntry, ...]
    forecast: Forecast

    def __getitem__(self, name: str) -> float | None:
        """The value of the entry `name`."""
        return {entry.name: entry.value for entry in self.entries}[name]


def plan(demand: Demand, sizes: Sizes) -> Plan:
    """Settings of rpbcast that meet `demand`, for messages of these `sizes`."""
    check(demand)
    period = gossip_period(demand.rtt, demand.rate * sizes.data, sizes.gossip)
    survives = found_survival(demand.rate, demand.senders, demand.loss, period)
    fanout, kept, left = fanout_and_rounds(demand, lateness(survives, demand.rtt / period))
    expected = forecast(demand, sizes, period=period, fanout=fanout, kept=kept, retry=period, survives=survives)
    busiest = max(expected.repair_rate, expected.logger_repairs + expected.logger_peer_repairs)
    settings = {
        "gossip_period": period,
        "fanout": fanout,
        "gc_rounds": kept,
        "peer_rounds": max(40, 2 * kept),
        "retry_period": period,
        "selection": "uniform",
        "service_limit": max(1000, math.ceil(10 * busiest)),
    }
    entries = (
        *_chosen(demand, period, fanout, kept, left),
        *_memory(sizes, expected),
        *_traffic(sizes, expected),
        *_latency(expected),
        *_logger(expected),
        *_pbcast(demand),
        *_coordinators(demand),
    )
    return Plan(demand, settings, entries, expected)


def with_order(made: Plan) -> Plan:
    """The plan of a group in which all members deliver in one order (002): what that costs beside the packets."""
    n, rtt = made.demand.members, made.demand.rtt
    two_phase, central = (ordering.point_to_point(method, n, rtt / 2, 0.0) for method in ("two-phase", "central"))
    cost, latencies, here, path = _order_of(n)
    load = "of the primary: order_messages times the rate"
    down = "by way of the primary, with first_pass = graph: 1 + (n - 2); by multicast 1"
    line = "on the primary's line, with first_pass = graph: rate (n - 1) size"
    entries = (
        PlanEntry("order_messages", cost, "per packet", here, "002 §4.2 Table 2, §5.2"),
        PlanEntry("order_delay", latencies * rtt / 2, "s", path, "002 §4.2 Table 2"),
        PlanEntry("order_load", made.demand.rate * cost, "messages/s", load, "002 §4.1 Graph 4"),
        PlanEntry("order_beats", 10, "messages/s", "of the primary, 10 in order_patience = 1 s", "002 §5.2"),
        PlanEntry("non_atomic_messages", 1, "per packet", "the place; but for beats", "002 §5.2.1"),
        PlanEntry("non_atomic_delay", rtt, "s", "to the primary, place: 2 latencies; may undo", "002 §5.2.1"),
        PlanEntry("graph_copies", n - 1, "per packet", down, "002 §4.1 Table 1"),
        PlanEntry("graph_load", made.demand.rate * (n - 1) * made.demand.size, "bytes/s", line, "002 §4.1 Graph 4"),
        PlanEntry("two_phase_messages", two_phase.messages, "per packet", "3 n, by unicast", "002 §4.1 Table 1"),
        PlanEntry("two_phase_delay", two_phase.delay_s, "s", "3 L + (2 n + 1) P, with P = 0", "002 §4.1 Table 1"),
        PlanEntry("central_messages", central.messages, "per packet", "n, by unicast", "002 §4.1 Table 1"),
        PlanEntry("central_delay", central.delay_s, "s", "2 L + n P, with P = 0; may undo", "002 §4.1 Table 1"),
    )
    return replace(made, entries=(*made.entries, *entries))


def _order_of(members: int) -> tuple[int, int, str, str]:
    """Messages about places for each packet, latencies until all deliver it, and what these are.

    The primary alone is most of two sites, and with any other most of up to four: these need not be told what is
    settled. In larger groups it asks as many as are most with it.
    """
    if members <= 2:
        return 1, 2, "the place, which is settled", "to the primary, place: 2 latencies"
    if members <= 4:
        kept = "to the primary, place, and kept: 3 latencies at the primary, 2 at the others"
        return 2, 3, "the place, and a word from one other site", kept
    here = "the place, a word from less than half of the sites, and that it is settled: 2 + (n - 1) // 2"
    return 2 + (members - 1) // 2, 4, here, "to the primary, place, kept, settled: 4 latencies"


def check(demand: Demand) -> None:
    """Raise ValueError, with the name, the value and what is allowed, for a demand that cannot be planned for."""
    checks.whole("members", demand.members, 2, MEMBERS_MAX)
    checks.below_one("loss", demand.loss)
    checks.between("failure", demand.failure, FAILURE_MIN, 1.0)
    checks.positive("rate", demand.rate)
    checks.whole("size", demand.size, 1, 65_000)
    checks.between("rtt", demand.rtt, 0.0, 60.0)
    checks.whole("senders", demand.senders, 1, demand.members)


def gossip_period(rtt: float, data_bandwidth: float, gossip_bytes: float) -> float:
    """The length of a round, in seconds, rounded up to a millisecond.

    At least five round trips, so that few rounds ask for what is already on its way (a share rtt / period of the
    gaps is asked for twice), and long enough to keep idle gossip at 2% of the data's bandwidth, though for that
    alone no longer than a second. With 50 ms it is the thesis's 0.25 s.

    Reference: 000 §4.1, Table 7.1
    """
    for_overhead = min(PERIOD_FOR_OVERHEAD_MAX_S, gossip_bytes / (OVERHEAD_SHARE * data_bandwidth))
    return math.ceil(max(PERIOD_MIN_S, PERIOD_RTTS * rtt, for_overhead) * 1000 - 1e-6) / 1000


def fanout_and_rounds(demand: Demand, late: Lateness) -> tuple[int, int, float]:
    """The smallest fanout for which packets are kept for at most 32 rounds, these rounds, and the odds after them.

    One target per round is enough for pull (000 §4.1) unless losses are heavy: more targets would mostly send the
    same packet twice. ValueError if even the largest fanout does not meet the target in a thousand rounds.
    """
    for fanout in range(_fanout_at_least(demand), FANOUT_MAX + 1):
        most = ROUNDS_WANTED if fanout < FANOUT_MAX else ROUNDS_MAX
        kept, left = rounds_kept(demand, late, fanout, most)
        if left <= demand.failure:
            return fanout, kept, left
    raise _too_lossy(demand)


def _fanout_at_least(demand: Demand) -> int:
    """Where to begin: one less than what the means of `lacking` ask for, which are quick to compute."""
    if _mean_lacking(demand, FANOUT_MAX, ROUNDS_MAX) > demand.failure:
        raise _too_lossy(demand)
    enough = (f for f in range(1, FANOUT_MAX) if _mean_lacking(demand, f, ROUNDS_WANTED) <= demand.failure)
    return max(1, next(enough, FANOUT_MAX) - 1)


def _mean_lacking(demand: Demand, fanout: int, attempts: int) -> float:
    n, loss = demand.members, demand.loss
    lack = (n - 1) * loss
    for attempt in range(attempts):
        lack *= (1.0 - (1.0 - loss) ** 2 * (n - lack) / (n - 1)) ** (fanout if attempt else 1)
    return lack


def _too_lossy(demand: Demand) -> ValueError:
    return ValueError(
        f"loss is {demand.loss!r}; allowed: less, because {ROUNDS_MAX} rounds with fanout {FANOUT_MAX} do not meet "
        f"failure={demand.failure!r}"
    )


def rounds_kept(demand: Demand, late: Lateness, fanout: int = 1, most: int = ROUNDS_MAX) -> tuple[int, float]:
    """Fewest rounds for which packets must be kept so that gossip meets the target, and the chance that it fails.

    If `most` rounds are too few, `most` and the chance after them. Reference: 000 §4.2.1, §4.3
    """
    left = left_after(demand, late, fanout)
    kept, chance = 1, next(left)
    while chance > demand.failure and kept < most:
        kept, chance = kept + 1, next(left)
    return kept, chance


def left_after(demand: Demand, late: Lateness, fanout: int = 1) -> Iterator[float]:
    """An upper bound on the chance that some member goes without, if packets are kept for 1, 2, ... rounds.

    A packet that is kept for g rounds of its holder is there for at least g periods. A member that finds its gap,
    and whose request arrives, in the k-th period after the first pass has g + 1 - k attempts in that time: one at
    once, then one per round. So the chance that some member goes without is at most

        sum_k P(found in period k) L(g + 1 - k),

    with L(a) the expected number of members without the packet after a attempts by all, from the exact chain
    (`lacking`): an upper bound, as P(at least one) is at most the mean, and close where it is small.
    late(k) = P(not found within k periods).

    Reference: 000 §4.2.1, §4.3
    """
    after = lacking(demand.members, demand.loss, fanout)
    lack = [next(after)]
    found: list[float] = []
    while True:
        lack.append(next(after))
        kept = len(found) + 1
        found.append(late(kept - 1) - late(kept))
        yield float(np.dot(found, lack[:0:-1])) + late(kept) * lack[0]


def lacking(n: int, loss: float, fanout: int = 1) -> Iterator[float]:
    """The expected number of members without the packet after 0, 1, 2, ... attempts by each of them to pull it.

    The chain of `convergence.pull_failure`, by the number m that lack the packet, with three differences specific
    to rpbcast: it begins after a first pass, m ~ Binomial(n - 1, loss); nobody asks itself, so an attempt
    succeeds with s = (1 - loss)^2 (n - m) / (n - 1); and from the second attempt on there are `fanout` at once,
    which all fail with (1 - s)^fanout. The next m is binomial.

    Reference: 000 §4.2.1
    """
    m = np.arange(n)
    mass = pmf(m, n - 1, loss, 1.0 - loss)
    yield float(mass @ m)
    step = _step(n, loss, 1)
    mass = mass @ step
    if fanout > 1:
        step = _step(n, loss, fanout)
    while True:
        likely = int(np.argmax(mass[::-1].cumsum() > _IGNORED))  # the number of unlikely states, counted from the top
        mass = mass[: len(mass) - likely]
        yield float(mass @ m[: len(mass)])
        mass = mass @ step[: len(mass), : len(mass)]


def _step(n: int, loss: float, fanout: int) -> FloatArray:
    m = np.arange(n)
    success = (1.0 - loss) ** 2 * (n - m) / (n - 1)
    success[0] = 0.0  # nobody has to ask
    stays = (1.0 - success) ** fanout
    return pmf(m[None, :], m[:, None], stays[:, None], 1.0 - stays[:, None])


def lateness(survives: FloatArray, rtt_periods: float) -> Lateness:
    """late(k): the chance that the first request for a gap arrives later than k periods after the first pass."""
    way = math.ceil(rtt_periods / 2 * STEPS)
    end = len(survives) - 1
    last, before = float(survives[end]), float(survives[max(end - STEPS, 0)])
    per_period = last / before if before > 0.0 else 0.0

    def late(k: int) -> float:
        at = k * STEPS - way if k else 0
        if at <= end:
            return float(survives[at])
        return last * math.pow(per_period, (at - end) / STEPS)  # the tail falls evenly

    return late


def _chosen(demand: Demand, period: float, fanout: int, kept: int, left: float) -> tuple[PlanEntry, ...]:
    n, loss = demand.members, demand.loss
    least = loss**n
    copies = n if least > demand.failure else buffering.copies_needed(n, demand.failure, loss)
    short = f"; even all {n} leave {least:.2g} to the sender and the logger" if least > demand.failure else ""
    return (
        PlanEntry(
            "gossip_period",
            period,
            "s",
            f"max({PERIOD_RTTS} rtt, min({PERIOD_FOR_OVERHEAD_MAX_S:g} s, gossip/({OVERHEAD_SHARE:.0%} rate size)))",
            "000 §4.1, Table 7.1",
        ),
        PlanEntry("fanout", fanout, "members/round", f"fewest with gc_rounds <= {ROUNDS_WANTED}", "000 §4.1; 004 §6"),
        PlanEntry(
            "gc_rounds", kept, "rounds", "fewest g: sum_k P(found in period k) L(g+1-k) <= failure", "000 §4.2.1, §4.3"
        ),
        PlanEntry("left_to_logger", left, "/packet", "that sum: L(a) lack it after a pulls, exact chain", "000 §4.2.1"),
        PlanEntry(
            "copies", copies, "bufferers", f"fewest C: a^n - (a-p)^n <= failure, a = 1 - C(1-p)/n{short}", "003 §3"
        ),
    )


def _memory(sizes: Sizes, expected: Forecast) -> tuple[PlanEntry, ...]:
    mean = expected.buffer_packets
    room = math.ceil(mean + 4.0 * math.sqrt(mean))
    return (
        PlanEntry("buffer_packets", mean, "packets", "mean: rate (gc_rounds + 1/2) gossip_period", "000 §4.1; 003 §4"),
        PlanEntry("buffer_room", room, "packets", "mean + 4 sqrt(mean), for random arrivals", "003 §4"),
        PlanEntry("buffer_bytes", room * sizes.data, "bytes", "buffer_room (size + header)", "003 §4"),
    )


def _traffic(sizes: Sizes, expected: Forecast) -> tuple[PlanEntry, ...]:
    return (
        PlanEntry("first_pass", expected.first_pass, "deliveries", "1/n + (1 - 1/n)(1 - loss)", "000 §3.1"),
        PlanEntry(
            "repair_rate",
            expected.repair_rate,
            "repairs/s per member",
            "rate ((n-1) loss sum_j P(attempt j) (1-loss) h_j + resends to the logger) / n",
            "000 §4.1, §3.1",
        ),
        PlanEntry(
            "repair_bandwidth",
            expected.repair_rate * sizes.repair,
            "bytes/s per member",
            "repair_rate (size + headers)",
            "000 §7.3",
        ),
        PlanEntry(
            "overhead_bandwidth",
            expected.overhead,
            "bytes/s per member",
            "gossip / gossip_period + requests + acks + heartbeats",
            "000 §7.4",
        ),
    )


def _latency(expected: Forecast) -> tuple[PlanEntry, ...]:
    formula = "quantile of rtt/2 or, repaired by attempt j, 3/2 rtt + found + (u+j-1) gossip_period"
    return tuple(
        PlanEntry(f"latency_{name}", expected.latency.quantile(q), "s", formula, "000 §4.1, §7.2; 004 App. A")
        for name, q in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    )


def _logger(expected: Forecast) -> tuple[PlanEntry, ...]:
    return (
        PlanEntry("logger_share", expected.logger_share, "repairs", "P(asked peers have collected it)", "000 §4.3"),
        PlanEntry(
            "logger_repairs",
            expected.logger_repairs,
            "repairs/s",
            "from the log: rate (n-1) loss logger_share / (1-loss)",
            "000 §4.3",
        ),
        PlanEntry(
            "logger_peer_repairs",
            expected.logger_peer_repairs,
            "repairs/s",
            "as a peer: 1/(n-1) of the requests, and every 16th gossip",
            "000 §4.1, §5.2",
        ),
        PlanEntry("logger_acks", expected.logger_acks, "acks/s", "rate (1 + resends (1-loss))", "000 §3.2"),
        PlanEntry(
            "logger_gossips",
            expected.logger_gossips,
            "gossips/s",
            "derived acks: (1-loss) (n-1) (1/16 + 15/16/(n-1)) fanout / gossip_period",
            "000 §5.2",
        ),
    )


def push_rounds(n: int, reached: int, failure: float, loss: float) -> int | None:
    """`convergence.rounds_needed` by the push recurrence, fast for any n; None if ten thousand are too few.

    Selection is uniform, so all that lack the packet do so with the same probability m, and with
    d = (1 - loss)^3 / n a round turns it into m (1 - d)^reached (1 - d (1 - m))^(n - reached - 1).

    Reference: 000 §4.2.2
    """
    d = (1.0 - loss) ** convergence.MESSAGES["push"] / n
    missing = 1.0
    for rounds in range(convergence.ROUNDS_MAX + 1):
        if missing < 1.0 and -math.expm1((n - reached) * math.log1p(-missing)) <= failure:
            return rounds
        missing *= (1.0 - d) ** reached * (1.0 - d * (1.0 - missing)) ** (n - reached - 1)
    return None


def _pbcast(demand: Demand) -> tuple[PlanEntry, ...]:
    """What digest gossip would need without a logger."""
    n, loss = demand.members, demand.loss
    reached = max(1, int(n * (1.0 - loss)))
    rounds = push_rounds(n, reached, demand.failure, loss) if reached < n else 0
    fanout, formula = _pbcast_fanout(demand, rounds)
    return (
        PlanEntry("pbcast_rounds", rounds, "rounds", "push recurrence from n (1-loss) members", "000 §4.2.2; 004 §6"),
        PlanEntry("pbcast_fanout", fanout, "gossips", formula, "004 App. A, Figure 4"),
    )


def _coordinators(demand: Demand) -> tuple[PlanEntry, ...]:
    """What coordinators would cost as a further repair, and save after a partition."""
    half = demand.members // 2
    return (
        PlanEntry(
            "coordinator_control",
            redelivery.tree_messages(demand.members, NULL_PERIOD_S),
            "messages/s",
            "1/null_period + 5/4 (n-1)/(max(2 null_period, 5 ms n) + null_period/2), whoever publishes",
            "001 §4, §6",
        ),
        PlanEntry(
            "coordinator_notice",
            redelivery.notice_s(NULL_PERIOD_S, NULL_MISSES),
            "s",
            "until a side that is cut off elects its own: null_misses null_period",
            "001 §4",
        ),
        PlanEntry(
            "coordinator_crossings",
            redelivery.crossings(half, 1, "coordinator", demand.loss),
            "copies/packet",
            "over a mended link: 1/(1-loss)",
            "001 §6",
        ),
        PlanEntry(
            "peer_crossings",
            redelivery.crossings(half, 1, "basic", demand.loss),
            "copies/packet",
            "without coordinators: one for each member behind the link, n/2 (1/(1-loss))",
            "001 §6",
        ),
        PlanEntry(
            "coordinator_recovery",
            redelivery.recovery_s(demand.rate, 1.0, SERVICE_LIMIT),
            "s/s of partition",
            f"rate/service_limit, {SERVICE_LIMIT:g} repairs/s",
            "001 §6",
        ),
    )


def _pbcast_fanout(demand: Demand, rounds: int | None) -> tuple[int | None, str]:
    n = demand.members
    if n > BIMODAL_MEMBERS_MAX:
        return rounds, "one per round of pbcast_rounds (the chain takes too long for this many members)"
    lost = 1.0 - (1.0 - demand.loss) ** 3

    def odds(fanout: int) -> float:
        return bimodal.failure(n, fanout, rounds=10, loss=lost, crash=CRASH)

    if (best := odds(n)) > demand.failure:
        return None, f"none: P(neither almost all nor almost none) is {best:.2g} at best"
    short, enough = 1, n
    while enough - short > 1:
        middle = (short + enough) // 2
        short, enough = (short, middle) if odds(middle) <= demand.failure else (middle, enough)
    return enough, "total per holder, fewest with P(neither almost all nor none) <= failure"
