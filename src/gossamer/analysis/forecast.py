"""Predicts what a run of rpbcast with given settings will show: deliveries, latency, repairs, memory, traffic.

The rates are what the simulator measures in a group without faults, on a network whose only faults are
independent losses at each receiver and whose round-trip time is the same between all members.
"""

import math
from dataclasses import dataclass

import numpy as np

from gossamer.analysis.binomial import FloatArray
from gossamer.analysis.timeline import Timeline, found_survival, timeline

LOGGER_ROUNDS = 16
"""Once in this many rounds, a member gossips to the logger instead of a random member."""
SIGNATURE_ROUNDS = (0, 2, 6, *range(14, 400, 8))
"""Rounds after a change in which a signature is sent: at growing intervals, finally every eighth round."""
WRONG_PERIODS = 0.75
"""For how many periods a member that missed a change disagrees with the others: measured, see docs/analysis.md."""
ANSWERS_PER_LIST = 0.5
"""How often a list that arrives is answered with what it lacks: also measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The requirements of a group."""

    members: int
    loss: float
    failure: float = 1e-8
    rate: float = 100.0
    """Packets per second over all senders."""
    size: int = 1024
    rtt: float = 0.05
    senders: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes of each message on the wire, in a typical case."""

    data: int
    repair: int
    gossip: int
    """A gossip with nothing to report."""
    signature: int
    """What the hash of the idle senders adds to a gossip."""
    gap: int
    """What the first gap of a sender adds to a gossip."""
    next_gap: int
    """What each further gap of the same sender adds to a gossip."""
    seen: int
    """What each sender adds to a gossip to the logger."""
    request: int
    ack: int
    heartbeat: int
    heartbeats: int
    """An empty list of idle senders; each sender adds as much as `seen`."""


@dataclass(frozen=True, slots=True)
class Latency:
    """The time from publishing to delivery at any member, including the publisher (which needs no time)."""

    members: int
    loss: float
    rtt: float
    step_s: float
    late: FloatArray
    """late[i]: the share of what the first pass lost that arrives in step i after it was due."""

    def quantile(self, q: float) -> float:
        """The time within which a share q of all deliveries happens."""
        own = 1.0 / self.members
        first = own + (1.0 - own) * (1.0 - self.loss)
        if q <= own:
            return 0.0
        if q <= first or self.loss == 0.0:
            return self.rtt / 2
        wanted = (q - first) / (1.0 - first)
        step = int(np.searchsorted(self.late.cumsum(), wanted * (1.0 - 1e-12)))
        return self.rtt / 2 + (min(step, len(self.late) - 1) + 1) * self.step_s

    def within(self, seconds: float) -> float:
        """The share of all deliveries that happen within `seconds`."""
        own = 1.0 / self.members
        if seconds < self.rtt / 2:
            return own
        steps = int((seconds - self.rtt / 2) / self.step_s + 1e-9)
        late = float(self.late[:steps].sum()) if self.loss else 1.0
        return own + (1.0 - own) * (1.0 - self.loss * (1.0 - late))


@dataclass(frozen=True, slots=True)
class Forecast:
    """What to expect of a run. Rates are per second; `repair_rate` and `overhead` are averages per member."""

    first_pass: float
    latency: Latency
    repair_rate: float
    overhead: float
    buffer_packets: float
    hold_s: float
    logger_share: float
    logger_repairs: float
    logger_peer_repairs: float
    logger_acks: float
    logger_gossips: float
    gaps: float
    """Gaps found per second in the whole group."""


def forecast(
    demand: Demand,
    sizes: Sizes,
    *,
    period: float,
    fanout: int,
    kept: int,
    retry: float,
    survives: FloatArray | None = None,
) -> Forecast:
    """Predict the run of rpbcast with these settings; `survives` is `found_survival`, if already known."""
    n, loss, rate = demand.members, demand.loss, demand.rate
    if survives is None:
        survives = found_survival(rate, demand.senders, loss, period)
    course = timeline(n, loss, survives, period=period, rtt=demand.rtt, kept=kept, fanout=fanout, retry=retry)
    gaps = rate * (n - 1) * loss
    logged = rate * (1 - 1 / n if demand.senders == n else 1)  # the last member is the logger, and may also send
    resends = resends_per_packet(demand, course, period, retry) * logged
    to_logger = 1 / LOGGER_ROUNDS + (1 - 1 / LOGGER_ROUNDS) / (n - 1)
    share_asked = (1 / (n - 1) + course.rounds * fanout * to_logger) / (1 + course.rounds * fanout)
    acks = logged + resends * (1 - loss)
    hold = (kept + 0.5) * period
    return Forecast(
        first_pass=1 / n + (1 - 1 / n) * (1 - loss),
        latency=Latency(n, loss, demand.rtt, course.step_s, course.filled),
        repair_rate=(gaps * course.repairs + resends) / n,
        overhead=_overhead(demand, sizes, course, period, fanout, acks),
        buffer_packets=rate * hold,
        hold_s=hold,
        logger_share=course.collected if loss else 0.0,
        logger_repairs=gaps * course.collected / (1 - loss),
        logger_peer_repairs=gaps * (n - 2) / (n - 1) * course.repairs * share_asked,
        logger_acks=acks,
        logger_gossips=(1 - loss) * (n - 1) * to_logger * fanout / period,
        gaps=gaps,
    )


def resends_per_packet(demand: Demand, course: Timeline, period: float, retry: float) -> float:
    """How often a sender sends a packet to the logger again because no acknowledgement came (000 §3.1).

    A packet is sent again at the second tick after it was published, at an age between one and two retry
    periods, if the logger has it but its acknowledgement was lost, or if the logger still lacks it. Each
    later tick ends that with probability (1 - loss)^2. The logger's gossip also acknowledges (000 §5.2): it
    goes to each member with probability 1 / (n - 1) per round and says up to where it has all that member's
    packets, which includes this one if no older one is open: exp(-r loss int_age^inf P(open longer than x) dx).
    """
    n, loss = demand.members, demand.loss
    first, last = round(retry / course.step_s), round(2 * retry / course.step_s)
    is_open = np.pad(1.0 - course.filled.cumsum(), (0, last + 1), mode="edge").clip(0.0, 1.0)
    older_open = is_open[::-1].cumsum()[::-1] * course.step_s * demand.rate / demand.senders * loss
    in_order = float(np.exp(-older_open[: (first + last) // 2]).mean())
    late = float(is_open[first:last].mean())
    unacknowledged = (1 - loss) * loss + loss * (late + (1 - late) * loss)
    gossip = in_order * (1 - loss) / (n - 1) * retry / period
    goes_on = (1 - (1 - loss) ** 2) * math.exp(-gossip)
    return unacknowledged * math.exp(-1.5 * gossip) / (1 - goes_on)


def _overhead(demand: Demand, sizes: Sizes, course: Timeline, period: float, fanout: int, acks: float) -> float:
    """Bytes per second and member of everything that is neither data nor repair."""
    n, loss, rate = demand.members, demand.loss, demand.rate
    idle = math.exp(-rate / demand.senders * period)  # the chance of a pause of a period or more
    gossip = sizes.gossip + _signatures(demand, sizes, idle, period)
    gossip += _gaps_in_gossip(demand, sizes, course, period)
    gossip += sizes.seen * demand.senders * (1 / LOGGER_ROUNDS + 2 / n)
    # A gap of several packets is one request; a heartbeat between two lost packets makes it two.
    requests = rate * (n - 1) * loss * (1 - loss * (1 - idle * (1 - loss)))
    others = requests * sizes.request + acks * sizes.ack + rate * idle * sizes.heartbeat
    return gossip * fanout / period + others / n


def _gaps_in_gossip(demand: Demand, sizes: Sizes, course: Timeline, period: float) -> float:
    """Bytes that gaps take in a gossip: their number is roughly Poisson, and neighbours merge into one."""
    open_gaps = demand.rate / demand.senders * demand.loss * (1 - demand.loss) * period * course.rounds
    any_gap = -math.expm1(-open_gaps)
    return demand.senders * (any_gap * sizes.gap + (open_gaps - any_gap) * sizes.next_gap)


def _signatures(demand: Demand, sizes: Sizes, idle: float, period: float) -> float:
    """Bytes per gossip for agreeing on the idle senders: their hash, and the lists sent where hashes differ.

    Senders fall idle and wake at a total rate c = 2 rate idle. A hash is sent if any sender is idle, in the first
    round after a change and then more and more rarely. Two members disagree if a change is on its way between
    them, or if one has missed it and was not yet corrected: 1 - exp(-c (rtt / 2 + 2 loss (1 - loss) w)). Then the
    target sends its list, and sometimes gets back what it lacks.

    Reference: 000 §5.1
    """
    loss = demand.loss
    changes = 2 * demand.rate * idle
    per_round = changes * period
    in_time = -math.expm1(-per_round) * sum(math.exp(-per_round * k) for k in SIGNATURE_ROUNDS)
    signed = (1 - (1 - idle) ** demand.senders) * in_time
    wrong = 2 * loss * (1 - loss) * WRONG_PERIODS * period
    disagree = -math.expm1(-changes * (demand.rtt / 2 + wrong)) * (1 - loss)
    listed = sizes.heartbeats + sizes.seen * demand.senders * idle
    answered = ANSWERS_PER_LIST * (1 - loss) * (sizes.heartbeats + sizes.seen)
    return signed * (sizes.signature + disagree * (listed + answered))
