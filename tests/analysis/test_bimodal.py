"""004 §6 and Appendix A: almost all or almost none."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from gossamer.analysis import bimodal
from gossamer.analysis.binomial import pmf


def run(reaches, faulty, rounds, start):
    """Who has the packet after `rounds`, if i's gossip, sent once, gets through to j where reaches[i, j]."""
    has = start.copy()
    newly = start.copy()
    for _ in range(rounds):
        gossips = newly & ~faulty
        newly = (gossips[..., :, None] & reaches).any(axis=-2) & ~has
        has |= newly
    return has


def enumerate_outcomes(n, fanout, rounds, loss, crash):
    """Exact joint distribution of (reached, faulty), over every gossip that gets through and every crash."""
    p = fanout / n * (1 - loss)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    coins = np.array(list(product((False, True), repeat=len(pairs))))
    reaches = np.zeros((len(coins), n, n), dtype=bool)
    reaches[:, [i for i, _ in pairs], [j for _, j in pairs]] = coins
    weight = np.prod(np.where(coins, p, 1 - p), axis=1)
    start = np.zeros((len(coins), n), dtype=bool)
    start[:, 0] = True
    joint = np.zeros((n + 1, n + 1))
    for crashes in product((False, True), repeat=n):
        f = sum(crashes)
        reached = run(reaches, np.array(crashes), rounds, start).sum(axis=1)
        joint[:, f] += np.bincount(reached, weight, n + 1) * crash**f * (1 - crash) ** (n - f)
    return joint


def simulate(n, fanout, rounds, loss, crash, trials, seed):
    """(reached, faulty) of drawn runs."""
    rng = np.random.default_rng(seed)
    reaches = rng.random((trials, n, n)) < fanout / n * (1 - loss)
    faulty = rng.random((trials, n)) < crash
    start = np.zeros((trials, n), dtype=bool)
    start[:, 0] = True
    return run(reaches, faulty, rounds, start).sum(axis=1), faulty.sum(axis=1)


def exact_fractions(n, p, rounds, crash):
    """The chain of `delivery_distribution` in exact fractions."""
    mass = {(n - 1, 1): Fraction(1)}
    for _ in range(rounds):
        after = dict.fromkeys(((r, s) for r in range(n) for s in range(n)), Fraction(0))
        for (r, s), m in mass.items():
            for a in range(s + 1) if m else ():
                alive = math.comb(s, a) * (1 - crash) ** a * crash ** (s - a) * m
                miss = (1 - p) ** a
                for k in range(r + 1):
                    after[r - k, k] += alive * math.comb(r, k) * (1 - miss) ** k * miss ** (r - k)
        mass = after
    reached = [Fraction(0)] * (n + 1)
    for (r, _), m in mass.items():
        reached[n - r] += m
    return reached


def every_round_exactly(n, rounds, fanout, loss, reached):
    """Expected processes without the packet if every holder gossips in every round: the exact chain."""
    i = np.arange(n + 1)
    miss = (1 - fanout / n * (1 - loss)) ** i[:, None]
    step = pmf(i[None] - i[:, None], n - i[:, None], 1 - miss, miss)
    mass = np.eye(n + 1)[reached]
    without = []
    for _ in range(rounds + 1):
        without.append(mass @ (n - i))
        mass = mass @ step
    return np.array(without)


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_four_processes_equal_enumeration(rounds):
    """Every gossip and every crash of four processes: the distribution and both predicates.
    Reference: 004 Appendix A"""
    joint = enumerate_outcomes(4, 1.6, rounds, loss=0.2, crash=0.15)
    np.testing.assert_allclose(bimodal.delivery_distribution(4, 1.6, rounds, 0.2, 0.15), joint.sum(axis=1))
    s, f = np.indices(joint.shape)
    partial = joint[(s >= 0.3 * 4) & (s <= 0.7 * 4)].sum()
    quorum = joint[(s - f < 2.5) & (s + f >= 2.5)].sum()
    assert bimodal.failure(4, 1.6, rounds, "partial", 0.2, 0.15, sigma=0.3) == pytest.approx(partial)
    assert bimodal.failure(4, 1.6, rounds, "quorum", 0.2, 0.15) == pytest.approx(quorum)


def test_three_processes_by_hand():
    """The chain-binomial epidemic of three: q^2, 2 p q^2, the rest. Reference: 004 Appendix A"""
    p = 1.2 / 3 * 0.9
    q = 1 - p
    by_hand = [0, q**2, 2 * p * q**2, 1 - q**2 - 2 * p * q**2]
    np.testing.assert_allclose(bimodal.delivery_distribution(3, 1.2, 5, loss=0.1, crash=0.0), by_hand)
    two = bimodal.delivery_distribution(2, 1.0, 1, loss=0.1, crash=0.2)
    np.testing.assert_allclose(two, [0, 1 - 0.8 * 0.5 * 0.9, 0.8 * 0.5 * 0.9])


def test_distribution_is_accurate_at_1e_minus_30():
    """Against exact fractions, entry by entry. Reference: 004 Appendix A"""
    exact = exact_fractions(17, Fraction(19, 20), 3, Fraction(1, 1000))
    assert 0 < min(exact[1:]) < 1e-30
    computed = bimodal.delivery_distribution(17, 17, 3, loss=0.05, crash=0.001)
    np.testing.assert_allclose(computed, [float(x) for x in exact], rtol=1e-11)


def test_distribution_limits():
    """Nothing gossiped, nothing arriving, nothing lost; and rounds beyond n change nothing.
    Reference: 004 Appendix A"""
    for silent in (
        bimodal.delivery_distribution(10, 0, 5, reached=3),
        bimodal.delivery_distribution(10, 5, 5, loss=1.0, reached=3),
        bimodal.delivery_distribution(10, 5, 5, crash=1.0, reached=3),
        bimodal.delivery_distribution(10, 5, 0, reached=3),
    ):
        np.testing.assert_allclose(silent, np.eye(11)[3])
    all_at_once = bimodal.delivery_distribution(10, 10, 1, loss=0.0, crash=0.0)
    np.testing.assert_allclose(all_at_once, np.eye(11)[10])
    np.testing.assert_allclose(bimodal.delivery_distribution(10, 2, 10), bimodal.delivery_distribution(10, 2, 1000))


def test_distribution_and_failures_equal_simulation():
    """50,000 drawn runs of 20 processes; tolerance four standard errors. Reference: 004 Appendix A"""
    trials = 50_000
    reached, faulty = simulate(20, 2.5, 5, 0.1, 0.1, trials, seed=1)
    predicted = bimodal.delivery_distribution(20, 2.5, 5, 0.1, 0.1)
    observed = np.bincount(reached, minlength=21) / trials
    assert (np.abs(observed - predicted) <= 4 * np.sqrt(predicted / trials)).all()
    bad = {
        "partial": (reached >= 2) & (reached <= 18),
        "quorum": (reached - faulty < 10.5) & (reached + faulty >= 10.5),
    }
    for predicate, observed_bad in bad.items():
        p = bimodal.failure(20, 2.5, 5, predicate, 0.1, 0.1)
        assert abs(observed_bad.mean() - p) < 4 * math.sqrt(p * (1 - p) / trials)


def test_delivery_is_bimodal():
    """50 processes, fanout 7: almost all or almost none, and half with less than 1e-17.
    Reference: 004 §6 Figure 4"""
    reached = bimodal.delivery_distribution(50, 7, 10)
    assert reached.sum() == pytest.approx(1.0)
    assert reached[48:].sum() > 0.998
    assert reached[1] == pytest.approx(0.0019, rel=0.02)
    assert 0 < reached[15:30].max() < 1e-16


def test_risk_falls_with_size_and_fanout_and_quorum_is_safer():
    """Reference: 004 §6 Figure 4"""
    for predicate in bimodal.PREDICATES:
        by_size = [bimodal.failure(n, 7, 10, predicate) for n in (10, 20, 30, 40, 50)]
        by_fanout = [bimodal.failure(50, f, 10, predicate) for f in (3, 5, 7, 9)]
        assert by_size == sorted(by_size, reverse=True)
        assert by_fanout == sorted(by_fanout, reverse=True)
    assert bimodal.failure(50, 7, 10, "quorum") < 1e-8 * bimodal.failure(50, 7, 10, "partial")
    assert bimodal.failure(50, 7, 10, "quorum", crash=0.0) == 0.0


@pytest.mark.parametrize("predicate", bimodal.PREDICATES)
@pytest.mark.parametrize("fanout", [1.5, 4.0])
def test_bound_covers_every_milder_failure(predicate, fanout):
    """Whatever loss and crash the adversary picks below the stated ones. Reference: 004 eq. (3), (4)"""
    bound = bimodal.failure_bound(12, fanout, 6, predicate, loss=0.2, crash=0.05)
    milder = [
        bimodal.failure(12, fanout, 6, predicate, loss, crash) for loss in (0, 0.1, 0.2) for crash in (0, 0.02, 0.05)
    ]
    assert max(milder) < bound


def test_bound_is_exact_where_nothing_is_unknown():
    """Without loss and crashes, (3) is the binomial itself; and the other limit, when nobody is reached.
    Reference: 004 eq. (3)"""
    for fanout in (1.0, 3.0, 8.0):
        exact = bimodal.failure(15, fanout, 4, loss=0.0, crash=0.0)
        assert bimodal.failure_bound(15, fanout, 4, loss=0.0, crash=0.0) == pytest.approx(exact, rel=1e-9)
    assert bimodal.failure_bound(15, 0, 4) == 0.0


def test_bound_of_one_step_by_hand():
    """Two processes, one round, beta = 0.5, q_lo = 0.65. I with sigma = 0.5 is bad if one is reached:
    R(1, 1, i, 0) = q_lo^(1 - i). II is bad if one is faulty: after none, the other may be; R sums to
    q_lo + beta. Reference: 004 eq. (3), (4)"""
    partial = bimodal.failure_bound(2, 1.0, 1, loss=0.3, crash=0.2, sigma=0.5)
    quorum = bimodal.failure_bound(2, 1.0, 1, "quorum", loss=0.3, crash=0.2)
    assert partial == pytest.approx(0.8 * 0.65 + 0.2)
    assert quorum == pytest.approx(0.8 * 0.2 * (0.65 + 0.5) + 0.2)


def test_how_loose_the_bound_is():
    """50 processes: within a factor 4 for predicate I, a factor 40 for II, at fanout 7.
    Reference: 004 §6 Figure 4"""
    partial = bimodal.failure_bound(50, 7, 10) / bimodal.failure(50, 7, 10)
    quorum = bimodal.failure_bound(50, 7, 10, "quorum") / bimodal.failure(50, 7, 10, "quorum")
    assert 1 < partial < 4
    assert 1 < quorum < 40


def test_fanout_needed_is_where_the_risk_crosses():
    """At it the target is met, a little below not; though hardly any gossip is no risk either.
    Reference: 004 §6 Figure 4"""
    for predicate, target in (("partial", 1e-8), ("quorum", 1e-12)):
        fanout = bimodal.fanout_needed(30, target, predicate=predicate)
        assert bimodal.failure(30, fanout, 10, predicate) <= target
        assert bimodal.failure(30, fanout - 1e-4, 10, predicate) > target
    assert bimodal.failure(30, 0.01, 10) < 1e-3
    assert bimodal.fanout_needed(30, 1.0) == 0.0


def test_susceptible_first_round_by_hand():
    """1,000 processes, one holder: 999 (1 - beta (1 - loss)) are left. Reference: 004 Appendix A"""
    left = bimodal.susceptible(1000, 1, fanout=2.0, loss=0.1, crash=0.0)
    np.testing.assert_allclose(left, [999, 999 * (1 - 0.002 * 0.9)])
    assert bimodal.susceptible(1000, 0, crash=0.01)[0] == pytest.approx(999 * 0.99)
    assert (bimodal.susceptible(1000, 9, loss=1.0) == bimodal.susceptible(1000, 0)[0]).all()


def test_susceptible_after_a_good_first_pass_equals_simulation():
    """1,000 processes, 900 reached: the means are right within half a process (plus four standard errors of
    300 runs). Reference: 004 Figure 5, right"""
    rng = np.random.default_rng(5)
    holders, left = np.full(300, 900), [100.0]
    predicted = bimodal.susceptible(1000, 6, crash=0.0, reached=900)
    for t in range(1, 7):
        holders += rng.binomial(1000 - holders, 1 - (1 - 0.001 * 0.95) ** holders)
        left = 1000 - holders
        assert abs(left.mean() - predicted[t]) < 0.5 + 4 * left.std() / math.sqrt(300)


def test_susceptible_from_one_holder_is_up_to_a_tenth_of_the_group_early():
    """The recurrence of means ignores slow starts: at worst 9.4 points too few are without the packet, and
    the last percent gets it one round later than said. Reference: 004 Figure 5, left"""
    means = bimodal.susceptible(1000, 30, crash=0.0)
    exact = every_round_exactly(1000, 30, 1.0, 0.05, 1)
    assert means[1] == pytest.approx(exact[1])
    assert np.abs(means - exact).max() / 1000 == pytest.approx(0.094, abs=0.001)
    assert [int(np.argmax(x < 10)) for x in (means, exact)] == [16, 17]


def test_crashes_count_once_per_run():
    """The factor (1 - crash), printed as if once per round, would remove twenty times as many in twenty
    rounds: 2% of the group with a crash of 0.1%. Reference: 004 Appendix A, Predicting Latency"""
    once = bimodal.susceptible(1000, 20, loss=1.0, crash=0.001)
    assert once[20] == pytest.approx(999 * 0.999)
    per_round = 999 * 0.999**20
    assert 999 - per_round == pytest.approx(0.02 * 999, rel=0.02)


def test_latency_distribution():
    """A distribution with its peak near log2 n; 128 processes: 99% within 13 rounds by the means, 14 by the
    exact chain; the paper says 14 to 16. Reference: 004 §6 Figure 6"""
    for n, peak in ((10, 4), (128, 8), (1024, 11)):
        latency = bimodal.latency_distribution(n, 40)
        assert latency[0] == pytest.approx(1 / n)
        assert (latency >= 0).all()
        assert latency.sum() == pytest.approx(1.0)
        assert latency.argmax() == peak
    assert np.searchsorted(bimodal.latency_distribution(128, 40).cumsum(), 0.99) == 13
    assert np.argmax(every_round_exactly(128, 40, 1.0, 0.05, 1) <= 1.28) == 14


def test_latency_of_a_tagged_process_equals_simulation():
    """128 processes of which 64 have it: when does the last one get it? 4,000 drawn runs, in which every
    holder tosses its coins anew in every round; tolerance four standard errors. Reference: 004 Figure 6"""
    rng = np.random.default_rng(6)
    predicted = bimodal.latency_distribution(128, 8, crash=0.0, reached=64)
    has = np.tile(np.arange(128) < 64, (4_000, 1))
    for t in range(1, 9):
        chance = 1 - (1 - 0.95 / 128) ** has.sum(axis=1, keepdims=True)
        before, has = has, has | (rng.random(has.shape) < chance)
        p = 2 * predicted[t]
        assert abs((has[:, -1] & ~before[:, -1]).mean() - p) < 4 * math.sqrt(p * (1 - p) / 4_000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bimodal.delivery_distribution(1, 1, 5), "n is 1"),
        (lambda: bimodal.delivery_distribution(10, 11, 5), r"fanout is 11; allowed: \[0.0, 10\]"),
        (lambda: bimodal.delivery_distribution(10, 5, 5, reached=11), "reached is 11"),
        (lambda: bimodal.delivery_distribution(10, 5, 5, crash=-0.1), "crash is -0.1"),
        (lambda: bimodal.failure(10, 5, -1), "rounds is -1"),
        (lambda: bimodal.failure(10, 5, 5, loss=2), "loss is 2"),
        (lambda: bimodal.failure(10, 5, 5, "total"), "predicate is 'total'; allowed: partial, quorum"),
        (lambda: bimodal.failure(10, 5, 5, sigma=0.6), r"sigma is 0.6; allowed: \[0.0, 0.5\]"),
        (lambda: bimodal.failure_bound(10, 5, 5, "total"), "predicate is 'total'"),
        (lambda: bimodal.fanout_needed(10, 0.0), "failure is 0.0"),
        (lambda: bimodal.fanout_needed(10, 1e-9, rounds=1), "failure is 1e-09; allowed: .* or more"),
        (lambda: bimodal.susceptible(10, 5, fanout=-1), "fanout is -1"),
        (lambda: bimodal.latency_distribution(10, 5, reached=0), "reached is 0"),
        (lambda: bimodal.latency_distribution(10, 5, crash=1), r"crash is 1; allowed: \[0, 1\)"),
    ],
)
def test_bad_input_names_value_and_range(call, message):
    """Bad input is refused in one line that says what is wrong."""
    with pytest.raises(ValueError, match=message):
        call()
