"""What it costs to serve members behind a partition (001 §6).

*basic*: the source sends each packet to each member until that member acknowledges it.
*coordinator*: the members that are cut off elect one of them, which alone probes for the end of the partition
and then has the missed packets multicast to all of them. The source repeats nothing unless asked.
"""

import math

from gossamer.analysis import checks

ALGORITHMS = ("coordinator", "basic")
REFRESH_PERIODS = 2
"""A follower says that it is there after this many null periods, ..."""
REFRESH_S = 0.005
"""... or after so long for each member, if that is longer."""
MEASURE_REFRESHES = 8
"""Once in this many times it also asks another member for an answer, to measure the distance."""


def crossings(members: int, packets: int, algorithm: str = "coordinator", loss: float = 0.0) -> float:
    """Expected sends over the one link that reconnects `members` members that missed `packets` packets.

    basic: one copy per member and packet, k m; coordinator: one per packet, m, since the multicast copies
    a packet only beyond the link. A copy is lost on the link with probability `loss` and then sent again, so
    each takes 1 / (1 - loss) sends (geometric). The ratio is always k.

    Reference: 001 §6
    """
    checks.whole("members", members, 1)
    checks.whole("packets", packets, 0)
    checks.choice("algorithm", algorithm, ALGORITHMS)
    checks.below_one("loss", loss)
    copies = packets * members if algorithm == "basic" else packets
    return copies / (1.0 - loss)


def futile_sends(members: int, rate: float, outage_s: float, period_s: float, algorithm: str = "coordinator") -> float:
    """Expected sends into the partition while it lasts, none of which can arrive.

    basic: packets appear at `rate` per second and go to each member at once, and again every `period_s`
    until the end. One that appears x seconds before the end is sent 1 + floor(x / period) times; with
    whole = floor(outage / period), the integral over x gives

        members rate ((1 + whole) outage - period whole (whole + 1) / 2),

    which grows with the square of the outage. coordinator: one probe per period, whatever is published.

    Reference: 001 §6
    """
    checks.whole("members", members, 1)
    checks.at_least("rate", rate, 0.0)
    checks.at_least("outage_s", outage_s, 0.0)
    checks.positive("period_s", period_s)
    checks.choice("algorithm", algorithm, ALGORITHMS)
    whole = math.floor(outage_s / period_s)
    if algorithm == "coordinator":
        return float(whole)
    return members * rate * ((1 + whole) * outage_s - period_s * whole * (whole + 1) / 2)


def control_messages(
    members: int, rate: float, duration_s: float, silence_s: float, algorithm: str = "coordinator"
) -> float:
    """Expected messages that carry no data, in `duration_s` without failures.

    basic: one acknowledgment per packet and member. coordinator: a null message whenever the source has been
    silent for `silence_s`, so that members notice what they miss. With Poisson packets, a silence of at
    least j silence_s follows a packet with probability exp(-j rate silence_s); summed over j, that is

        1 / (exp(rate silence_s) - 1) per packet:   at most duration_s / silence_s, for any rate or group.

    Reference: 001 §4 and §6
    """
    checks.whole("members", members, 1)
    checks.at_least("rate", rate, 0.0)
    checks.at_least("duration_s", duration_s, 0.0)
    checks.positive("silence_s", silence_s)
    checks.choice("algorithm", algorithm, ALGORITHMS)
    if algorithm == "basic":
        return members * rate * duration_s
    expected = rate * silence_s
    per_silence = expected / math.expm1(min(expected, 700.0)) if expected > 0.0 else 1.0
    return per_silence * duration_s / silence_s


def tree_messages(members: int, null_period_s: float) -> float:
    """Expected control messages per second of our coordinator tree, while nothing is wrong and whoever publishes.

    One null message of the coordinator per period, and from each of its n - 1 followers, at the first end of a
    period after max(2 period, 5 ms n), a sign that it is there, and now and then a probe and its answer:

        1 / period + (n - 1) (1 + 2 / 8) / (max(2 period, 0.005 n) + period / 2).

    Reference: 001 §4, §6
    """
    checks.whole("members", members, 1)
    checks.positive("null_period_s", null_period_s)
    refresh = max(REFRESH_PERIODS * null_period_s, REFRESH_S * members) + null_period_s / 2.0
    return 1.0 / null_period_s + (members - 1) * (1.0 + 2.0 / MEASURE_REFRESHES) / refresh


def recovery_s(rate: float, outage_s: float, service_limit: float) -> float:
    """Expected time until what was published in an outage is sent to the other side, once: rate outage / limit.

    Reference: 001 §6
    """
    checks.at_least("rate", rate, 0.0)
    checks.at_least("outage_s", outage_s, 0.0)
    checks.positive("service_limit", service_limit)
    return rate * outage_s / service_limit


def notice_s(null_period_s: float, misses: int) -> float:
    """Expected time until a member that is cut off from its coordinator notices it: m periods without a null message.

    The last one is half a period old on average when the link fails, and a member looks once in a period, half of one
    too late on average: so it is m periods, and never more than one period less or more.

    Reference: 001 §4
    """
    checks.positive("null_period_s", null_period_s)
    checks.whole("misses", misses, 1)
    return misses * null_period_s
