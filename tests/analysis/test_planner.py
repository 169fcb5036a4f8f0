"""The planner: exact small cases, limits, monotony, lots drawn, and the simulator as the judge."""

import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.analysis import convergence
from gossamer.analysis.forecast import Demand, Latency
from gossamer.analysis.planner import gossip_period, lacking, lateness, left_after, plan, push_rounds, rounds_kept
from gossamer.analysis.timeline import STEPS, found_survival, timeline
from gossamer.presets import preset
from gossamer.settings import plan as plan_on_the_wire
from gossamer.settings import wire_sizes


def at_once(k: int) -> float:
    """Every gap is found within the first period."""
    return 1.0 if k == 0 else 0.0


def kept(**demand: float) -> int:
    return rounds_kept(Demand(**demand), at_once)[0]  # type: ignore[arg-type]


# Who still lacks a packet


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.5])
def test_in_a_group_of_two_each_attempt_fails_with_the_same_probability(loss):
    fails = 1 - (1 - loss) ** 2
    expected = [loss * fails**k for k in range(5)]
    assert list(islice(lacking(2, loss), 5)) == pytest.approx(expected, rel=1e-12)


def test_a_group_of_three_by_enumeration():
    p = 0.2
    one, two = 2 * p * (1 - p), p * p  # members that the first pass left out
    one_fails, two_fail = 1 - (1 - p) ** 2, 1 - (1 - p) ** 2 / 2
    assert list(islice(lacking(3, p), 2)) == pytest.approx([one + 2 * two, one * one_fails + 2 * two * two_fail])


def test_in_a_random_simulation_members_lack_packets_as_often():
    rng = np.random.default_rng(1)
    n, loss, fanout, runs = 10, 0.3, 2, 20_000
    lack = rng.binomial(n - 1, loss, runs)
    means = [lack.mean()]
    for attempt in range(4):
        success = (1 - loss) ** 2 * (n - lack) / (n - 1)
        lack = rng.binomial(lack, (1 - success) ** (fanout if attempt else 1))
        means.append(lack.mean())
    assert list(islice(lacking(n, loss, fanout), 5)) == pytest.approx(means, rel=0.1)


def test_a_member_that_does_not_ask_itself_needs_no_more_rounds_than_the_thesis_says():
    """Its chain asks any of n, itself included (000 §4.2.1), and begins after the first pass with 122 of 128."""
    assert kept(members=128, loss=0.05, failure=1e-8) == 9
    assert convergence.rounds_needed(128, 122, 1e-8, loss=0.05) == 10


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 40),
    loss=st.floats(0.0, 0.4),
    more_loss=st.floats(0.0, 0.2),
    failure=st.sampled_from([1e-3, 1e-6, 1e-12]),
)
def test_a_worse_demand_never_needs_fewer_rounds(n, loss, more_loss, failure):
    base = kept(members=n, loss=loss, failure=failure)
    assert kept(members=n, loss=loss + more_loss, failure=failure) >= base
    assert kept(members=n, loss=loss, failure=failure / 10) >= base


def test_a_larger_group_may_need_fewer_rounds():
    """Of three, two may lack it, and then half of all requests go to the wrong one; among seven that is rare."""
    assert kept(members=3, loss=0.25, failure=1e-6) > kept(members=7, loss=0.25, failure=1e-6)


def test_a_gap_that_is_found_a_period_later_needs_one_more_round():
    demand = Demand(members=20, loss=0.1, failure=1e-6)
    later, _ = rounds_kept(demand, lambda k: 1.0 if k <= 1 else 0.0)
    assert later == rounds_kept(demand, at_once)[0] + 1


def test_what_is_left_is_what_the_chain_leaves():
    demand = Demand(members=2, loss=0.1)
    fails = 1 - 0.9**2
    assert list(islice(left_after(demand, at_once), 3)) == pytest.approx([0.1 * fails, 0.1 * fails**2, 0.1 * fails**3])


@pytest.mark.parametrize("n", [2, 10, 100])
@pytest.mark.parametrize("loss", [0.0, 0.05, 0.3])
def test_push_rounds_are_those_of_the_recurrence(n, loss):
    for reached in {1, n // 2, n - 1}:
        wanted = convergence.rounds_needed(n, reached, 1e-6, "push", "recurrence", loss)
        assert push_rounds(n, reached, 1e-6, loss) == wanted


# When a gap is found and filled


def test_without_loss_a_gap_is_found_by_the_next_packet_or_the_heartbeat():
    survives = found_survival(4.0, 1, 0.0, 0.25)
    before = np.arange(STEPS) / STEPS * 0.25
    assert survives[:STEPS] == pytest.approx(np.exp(-4.0 * before))
    assert survives[STEPS:] == pytest.approx(0.0)


def test_in_a_random_simulation_gaps_are_found_as_late():
    """The next packet that arrives, a heartbeat after a pause, or gossip after a lost heartbeat."""
    rate, loss, period = 8.0, 0.3, 0.25
    rng = np.random.default_rng(2)
    by_gossip = ((1 - loss) ** 3) / period

    def draw() -> float:
        at = 0.0
        while True:
            pause = rng.exponential(1 / rate)
            if pause > period:
                if rng.random() >= loss:
                    return at + period
                told = rng.exponential(1 / by_gossip)
                if period + told < pause:
                    return at + period + told
            at += pause
            if rng.random() >= loss:
                return at

    drawn = np.array([draw() for _ in range(20_000)])
    survives = found_survival(rate, 1, loss, period)
    for quarter in range(1, 9):
        at = quarter * STEPS // 4
        assert survives[at] == pytest.approx(np.mean(drawn > at * period / STEPS), abs=0.012)


def test_the_tail_beyond_the_table_falls_evenly():
    survives = found_survival(0.01, 1, 0.2, 0.25)
    late = lateness(survives, 0.2)
    assert late(0) == 1.0
    assert [late(k + 1) <= late(k) for k in range(200)] == [True] * 200
    assert late(70) / late(69) == pytest.approx(late(62) / late(61), rel=0.05)


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.4])
def test_with_two_members_and_no_distance_a_repair_is_sent_until_one_arrives(loss):
    found = found_survival(100.0, 1, loss, 0.25)
    course = timeline(2, loss, found, period=0.25, rtt=0.0, kept=60)
    success = (1 - loss) ** 2
    assert course.repairs == pytest.approx(1 / (1 - loss))
    assert course.rounds == pytest.approx(1 / success - 1)
    assert course.filled.sum() == pytest.approx(1.0)
    assert course.collected == pytest.approx(0.0, abs=1e-9)


def test_a_round_within_a_round_trip_asks_twice():
    loss, rtt, period = 0.1, 0.05, 0.25
    course = timeline(2, loss, found_survival(100.0, 1, loss, period), period=period, rtt=rtt, kept=30)
    needless = rtt / period * (1 - loss) ** 2 * (1 - loss)
    assert course.repairs == pytest.approx(1 / (1 - loss) + needless, rel=1e-3)


def test_what_is_not_kept_comes_from_the_log():
    loss, period = 0.3, 0.25
    found = found_survival(100.0, 1, loss, period)
    shares = [timeline(30, loss, found, period=period, rtt=0.01, kept=kept).collected for kept in (1, 2, 4, 8)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.1 > 0.01 > shares[-1] > 0.0


def test_quantiles_and_shares_are_inverse():
    latency = Latency(4, 0.5, 0.1, 0.01, np.array([0.5, 0.0, 0.25, 0.25]))
    assert [latency.quantile(q) for q in (0.2, 0.25, 0.5, 0.625)] == [0.0, 0.0, 0.05, 0.05]
    assert [latency.quantile(q) for q in (0.7, 0.9, 1.0)] == pytest.approx([0.06, 0.08, 0.09])
    assert [latency.within(t) for t in (0.0, 0.05, 0.06, 0.08, 0.09)] == [0.25, 0.625, 0.8125, 0.90625, 1.0]


# The plan


@pytest.mark.parametrize(
    ("rtt", "bandwidth", "period"),
    [
        (0.05, 1e6, 0.25),  # five round trips: the thesis's 250 ms
        (0.0, 1e9, 0.01),  # never shorter
        (0.001, 1000.0, 1.0),  # 29 bytes in 1.45 s would be 2% of 1000 bytes/s, but a second is enough
        (0.001, 10_000.0, 0.145),
        (1.0, 1000.0, 5.0),
    ],
)
def test_the_gossip_period_follows_its_rule(rtt, bandwidth, period):
    assert gossip_period(rtt, bandwidth, 29) == pytest.approx(period)


def test_without_loss_there_is_nothing_to_repair():
    made = plan_on_the_wire(members=20, loss=0.0, rate=100.0)
    assert made["gc_rounds"] == 1
    assert [made[name] for name in ("repair_rate", "logger_share", "left_to_logger", "copies")] == [0, 0, 0, 0]
    assert [made[f"latency_{q}"] for q in ("p50", "p99", "p99.9")] == [0.025] * 3
    assert made["first_pass"] == 1.0


def test_every_number_has_a_unit_a_formula_and_a_reference():
    made = plan_on_the_wire(members=128, loss=0.05, rate=200.0)
    for entry in made.entries:
        assert entry.unit
        assert entry.formula
        assert entry.reference[:3] in ("000", "001", "003", "004")
    assert len({entry.name for entry in made.entries}) == len(made.entries)
    assert preset("rpbcast", made.settings).gc_rounds == made["gc_rounds"] == 9


def test_heavy_loss_raises_the_fanout_before_the_rounds():
    light, heavy = (plan_on_the_wire(members=50, loss=loss) for loss in (0.1, 0.6))
    assert light["fanout"] == 1
    assert heavy["fanout"] > 1
    assert heavy["gc_rounds"] <= 32


def test_the_buffer_is_the_rate_times_the_rounds_kept():
    made = plan_on_the_wire(members=50, loss=0.1, rate=300.0, size=500)
    assert made["buffer_packets"] == pytest.approx(300 * (made["gc_rounds"] + 0.5) * made["gossip_period"])
    assert made["buffer_bytes"] == made["buffer_room"] * wire_sizes(500).data


def test_where_a_few_bufferers_cannot_suffice_all_members_buffer():
    made = plan_on_the_wire(members=4, loss=0.2, failure=1e-8)
    assert made["copies"] == 4


def test_pbcast_alone_cannot_promise_what_a_small_group_needs():
    """One process in a thousand crashes, and with few processes that alone is neither almost all nor almost none."""
    assert plan_on_the_wire(members=8, loss=0.05)["pbcast_fanout"] is None
    assert plan_on_the_wire(members=128, loss=0.05)["pbcast_fanout"] == 6


def test_a_plan_for_a_thousand_members():
    made = plan_on_the_wire(members=1000, loss=0.05, rate=200.0)
    assert made["gc_rounds"] == 10
    assert made["pbcast_fanout"] == made["pbcast_rounds"]
    assert made["latency_p99.9"] < 0.5


@settings(max_examples=8, deadline=None)
@given(loss=st.floats(0.01, 0.15), members=st.integers(3, 60))
def test_more_loss_is_never_cheaper(loss, members):
    worse = loss * 1.5  # the fanout stays 1
    before, after = (plan_on_the_wire(members=members, loss=x, rate=400.0).forecast for x in (loss, worse))
    assert after.first_pass < before.first_pass
    assert after.repair_rate > before.repair_rate
    for q in (0.99, 0.999):
        assert after.latency.quantile(q) >= before.latency.quantile(q)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"members": 1}, "members is 1; allowed: a whole number, [2, 2000]"),
        ({"loss": 1.0}, "loss is 1.0; allowed: [0, 1)"),
        ({"loss": -0.1}, "loss is -0.1"),
        ({"loss": math.nan}, "loss is nan"),
        ({"loss": 0.99}, "loss is 0.99; allowed: less, because 1000 rounds with fanout 8 do not meet failure=1e-08"),
        ({"failure": 0.0}, "failure is 0.0; allowed: [1e-30, 1.0]"),
        ({"failure": 2.0}, "failure is 2.0"),
        ({"rate": 0.0}, "rate is 0.0; allowed: more than 0"),
        ({"size": 0}, "size is 0"),
        ({"rtt": -1.0}, "rtt is -1.0"),
        ({"senders": 11}, "senders is 11; allowed: a whole number, [1, 10]"),
    ],
)
def test_a_demand_that_cannot_be_planned_is_refused_by_name(wrong, says):
    with pytest.raises(ValueError, match="allowed") as caught:
        plan_on_the_wire(**{"members": 10, "loss": 0.1, **wrong})
    assert says in str(caught.value)


def test_sizes_are_an_argument():
    """The planner knows nothing of the wire: longer repairs, more bandwidth, the same repairs."""
    demand = Demand(members=10, loss=0.1, senders=2)
    short, long = (plan(demand, wire_sizes(size)) for size in (1000, 4000))
    assert short["repair_rate"] == long["repair_rate"]
    assert long["repair_bandwidth"] - short["repair_bandwidth"] == pytest.approx(3000 * short["repair_rate"])


# The simulator


def test_the_simulator_agrees_with_a_small_plan():
    from gossamer.cli.plan_check import compare

    checked = compare(plan_on_the_wire(members=12, loss=0.1, rate=200.0, rtt=0.02), seeds=2)
    assert checked.agrees, [row for row in checked.rows if not row.agrees]


def test_the_simulator_agrees_on_how_much_the_logger_repairs():
    """With a lax target the logger has something to do."""
    from gossamer.cli.plan_check import compare

    checked = compare(plan_on_the_wire(members=16, loss=0.2, rate=100.0, failure=0.3), seeds=2)
    share = next(row for row in checked.rows if row.name == "repaired from the log")
    assert share.observed > 0.002
    assert checked.agrees, [row for row in checked.rows if not row.agrees]


@pytest.mark.soak
@pytest.mark.parametrize("members", [8, 16, 32, 64, 128])
@pytest.mark.parametrize("loss", [0.01, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("rate", [20.0, 100.0, 400.0])
def test_the_simulator_agrees(members, loss, rate):
    from gossamer.cli.plan_check import compare

    checked = compare(plan_on_the_wire(members=members, loss=loss, rate=rate), seeds=3)
    assert checked.agrees, [row for row in checked.rows if not row.agrees]
