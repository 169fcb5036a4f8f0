"""000 §4.2: rounds of gossip until everyone has a packet."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from gossamer.analysis import convergence


def enumerate_all_have(contact, holders, rounds, mechanism, arrives):
    """Exact probability that all have it, over every target and every loss of every member."""
    n = len(contact)
    if len(holders) == n:
        return Fraction(1)
    if rounds == 0:
        return Fraction(0)
    callers = [i for i in range(n) if (i in holders) == (mechanism == "push")]
    total = Fraction(0)
    for choices in product(product(range(n), (False, True)), repeat=len(callers)):
        chance, new = Fraction(1), set(holders)
        for caller, (target, ok) in zip(callers, choices, strict=True):
            chance *= contact[caller][target] * (arrives if ok else 1 - arrives)
            if ok and mechanism == "pull" and target in holders:
                new.add(caller)
            if ok and mechanism == "push":
                new.add(target)
        if chance:
            total += chance * enumerate_all_have(contact, frozenset(new), rounds - 1, mechanism, arrives)
    return total


def simulate(contact, initial, rounds, mechanism, loss, trials, seed):
    """has[k, trial, member], from drawn targets and drawn losses."""
    rng, n = np.random.default_rng(seed), len(contact)
    cumulative = np.cumsum(contact, axis=1)
    has = np.tile(np.asarray(initial, dtype=bool), (trials, 1))
    history = [has]
    for _ in range(rounds):
        draws = rng.random((trials, n, 1))
        target = np.minimum((draws > cumulative[None]).sum(axis=2), n - 1)
        ok = rng.random((trials, n)) < (1 - loss) ** convergence.MESSAGES[mechanism]
        new = has.copy()
        if mechanism == "pull":
            new |= ok & np.take_along_axis(has, target, axis=1)
        else:
            trial, caller = np.nonzero(ok & has)
            new[trial, target[trial, caller]] = True
        has = new
        history.append(has)
    return np.array(history)


def first(reached, n):
    return (np.arange(n) < reached).astype(float)


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_markov_equals_enumeration_of_three_members(rounds):
    """Every target and every loss of three members, by exact fractions. Reference: 000 §4.2.1"""
    contact = [[Fraction(1, 3)] * 3] * 3
    exact = enumerate_all_have(contact, frozenset({0}), rounds, "pull", Fraction(9, 16))
    assert convergence.pull_markov(3, 1, rounds, loss=0.25) == pytest.approx(float(exact), rel=1e-13)


def test_last_member_is_a_geometric_variable():
    """One missing member fails with 1 - (n-1)/n (1-loss)^2 in each round. Reference: 000 §4.2.1"""
    stays = 1 - 9 / 10 * 0.95**2
    for rounds in (0, 1, 7, 40):
        assert convergence.pull_failure(10, 9, rounds, loss=0.05) == pytest.approx(stays**rounds, rel=1e-12)
    assert convergence.expected_rounds(10, 9, loss=0.05) == pytest.approx(1 / (1 - stays))


def test_failure_is_accurate_at_1e_minus_30():
    """The chain in exact fractions, 80 rounds deep. Reference: 000 §4.2.1"""
    n, mass = 12, {1: Fraction(1)}
    for _ in range(80):
        after = dict.fromkeys(range(1, n), Fraction(0))
        for i, p in mass.items():
            for j in range(i, n):
                after[j] += p * math.comb(n - i, j - i) * Fraction(i, n) ** (j - i) * Fraction(n - i, n) ** (n - j)
        mass = after
    exact = float(sum(mass.values()))
    assert exact < 1e-30
    assert convergence.pull_failure(n, 1, 80) == pytest.approx(exact, rel=1e-11)


def test_markov_limits():
    """Nothing arrives, nothing is missing, or there is all the time. Reference: 000 §4.2.1"""
    assert convergence.pull_markov(20, 5, 30, loss=1.0) == 0.0
    assert convergence.pull_markov(20, 20, 0) == 1.0
    assert convergence.pull_markov(20, 1, 10_000, loss=0.5) == 1.0
    assert convergence.expected_rounds(20, 20) == 0.0


def test_markov_equals_simulation():
    """40,000 drawn runs of 20 members; tolerance four standard errors. Reference: 000 §4.2.1"""
    has = simulate(convergence.uniform_contact(20), first(3, 20), 6, "pull", 0.1, 40_000, seed=1)
    observed = has.all(axis=2).mean(axis=1)
    for rounds in (3, 4, 5, 6):
        p = convergence.pull_markov(20, 3, rounds, loss=0.1)
        assert abs(observed[rounds] - p) < 4 * math.sqrt(p * (1 - p) / 40_000)


def test_expected_rounds():
    """Two members flip a coin; in general it is the sum of the failures; and what is drawn.
    Reference: 000 §4.2.1"""
    assert convergence.expected_rounds(2, 1) == pytest.approx(2.0)
    assert convergence.expected_rounds(2, 1, loss=0.5) == pytest.approx(8.0)
    summed = sum(convergence.pull_failure(30, 2, k, 0.1) for k in range(60))
    assert convergence.expected_rounds(30, 2, 0.1) == pytest.approx(summed)
    has = simulate(convergence.uniform_contact(30), first(2, 30), 40, "pull", 0.1, 4_000, seed=2)
    needed = (~has.all(axis=2)).sum(axis=0)
    assert abs(needed.mean() - summed) < 4 * needed.std() / math.sqrt(4_000)


@pytest.mark.parametrize("mechanism", ["pull", "push"])
def test_recurrence_is_exact_in_the_first_round(mechanism):
    """From a certain start, members are still independent of each other under pull, and each member's own
    chance is right under push. By hand for three members, the first having it. Reference: 000 §4.2.2"""
    contact = np.array([[0.2, 0.3, 0.5], [0.4, 0.1, 0.5], [0.25, 0.5, 0.25]])
    arrives = 0.9 ** convergence.MESSAGES[mechanism]
    by_hand = [1.0, 0.4 * arrives, 0.25 * arrives] if mechanism == "pull" else [1.0, 0.3 * arrives, 0.5 * arrives]
    has = convergence.recurrence(contact, np.array([1.0, 0.0, 0.0]), 1, mechanism, loss=0.1)
    np.testing.assert_allclose(has[1], by_hand)


def test_recurrence_equals_the_quadratic_of_the_thesis():
    """Uniform pull from n0 holders is one quadratic recurrence. Reference: 000 §4.2.2"""
    n, n0, p = 100, 20, 0.0
    has = convergence.recurrence(convergence.uniform_contact(n), first(n0, n), 8)
    for k in range(9):
        np.testing.assert_allclose(has[k], [1.0] * n0 + [p] * (n - n0), atol=1e-14)
        p = n0 / n + (2 * (n - n0) - 1) / n * p - (n - n0 - 1) / n * p * p


@pytest.mark.parametrize("mechanism", ["pull", "push"])
@pytest.mark.parametrize("power", [0, 1, 2])
def test_recurrence_follows_simulation_of_biased_selection(mechanism, power):
    """Each member's chance, 30 members on a line, half of them having it: the independence costs under two
    points (plus four standard errors of 10,000 runs). Reference: 000 §4.2.2"""
    place = np.arange(30.0)
    contact = convergence.biased_contact(np.abs(place[:, None] - place) + 1.0, power)
    initial = (np.arange(30) % 2).astype(float)
    predicted = convergence.recurrence(contact, initial, 4, mechanism, loss=0.1)
    observed = simulate(contact, initial, 4, mechanism, 0.1, 10_000, seed=3).mean(axis=1)
    assert np.abs(predicted - observed).max() < 0.02 + 4 * 0.5 / math.sqrt(10_000)


def test_recurrence_limits():
    """Without arrivals nothing changes; with time everyone has it. Reference: 000 §4.2.2"""
    contact, initial = convergence.uniform_contact(10), first(4, 10)
    assert (convergence.recurrence(contact, initial, 5, loss=1.0) == initial).all()
    for mechanism in convergence.MESSAGES:
        has = convergence.recurrence(contact, initial, 200, mechanism, loss=0.5)
        assert (np.diff(has, axis=0) >= 0).all()
        np.testing.assert_allclose(has[-1], 1.0)


def test_recurrence_is_far_too_optimistic_from_one_holder():
    """100 members, one holder, 13 rounds: the recurrence fails once in 70 million, the exact chain once in
    58. From 20 holders on, both need the same rounds for 1e-6. Reference: 000 §4.2.2"""
    has = convergence.recurrence(convergence.uniform_contact(100), first(1, 100), 13)
    assert 1 - has[-1].prod() == pytest.approx(1.41e-8, rel=0.01)
    assert convergence.pull_failure(100, 1, 13) == pytest.approx(1.72e-2, rel=0.01)
    observed = simulate(convergence.uniform_contact(100), first(1, 100), 13, "pull", 0, 2_000, seed=4)
    assert (~observed[13].all(axis=1)).mean() == pytest.approx(1.72e-2, abs=4 * math.sqrt(1.72e-2 / 2_000))
    needed = {r: [convergence.rounds_needed(100, r, model=m) for m in convergence.MODELS] for r in (1, 10, 20)}
    assert needed == {1: [23, 13], 10: [10, 9], 20: [8, 8]}


def test_recurrence_is_close_for_push_from_one_holder():
    """100 members: every holder pushes, so there is no slow start; within a tenth of what is drawn (plus
    four standard errors of 5,000 runs). Reference: 000 §4.2.2"""
    contact = convergence.uniform_contact(100)
    observed = ~simulate(contact, first(1, 100), 14, "push", 0, 5_000, seed=7).all(axis=2)
    for rounds in (12, 14):
        p = 1 - convergence.recurrence(contact, first(1, 100), rounds, "push")[-1].prod()
        assert abs(observed[rounds].mean() - p) < 0.1 * p + 4 * math.sqrt(p * (1 - p) / 5_000)


def test_rounds_needed_is_the_first_that_suffices():
    """One round less would not do, in either model. Reference: 000 §4.2"""
    k = convergence.rounds_needed(60, 5, 1e-9, loss=0.05)
    assert convergence.pull_failure(60, 5, k, 0.05) <= 1e-9 < convergence.pull_failure(60, 5, k - 1, 0.05)
    k = convergence.rounds_needed(60, 5, 1e-6, "push", "recurrence", 0.05)
    has = convergence.recurrence(convergence.uniform_contact(60), first(5, 60), k, "push", 0.05)
    assert 1 - has[k].prod() <= 1e-6 < 1 - has[k - 1].prod()
    assert convergence.rounds_needed(60, 60) == 0


def test_pull_converges_faster_than_push():
    """100 members, failure below 1e-6, from any partial success of the first pass.
    Reference: 000 §4.2 Figure 4-2"""
    for reached in (1, 10, 50, 90, 99):
        pull = convergence.rounds_needed(100, reached, model="recurrence")
        assert pull < convergence.rounds_needed(100, reached, mechanism="push", model="recurrence")


def test_closed_bound_is_enough_for_the_recurrence_and_nearly_for_the_chain():
    """Enough for both from two holders on; from one holder the chain may need a round or more beyond it;
    for two members it is not enough. Reference: 000 §4.2.2"""
    for n in (3, 5, 10, 33, 100):
        for reached in {1, 2, n // 2, n // 2 + 1, n - 1}:
            for failure in (0.1, 1e-3, 1e-6, 1e-12):
                enough = math.ceil(convergence.rounds_bound(n, reached, failure))
                assert convergence.rounds_needed(n, reached, failure, model="recurrence") <= enough
                if reached > 1:
                    assert convergence.rounds_needed(n, reached, failure) <= enough
    assert convergence.rounds_needed(33, 1, 1e-12) == math.ceil(convergence.rounds_bound(33, 1, 1e-12)) + 1
    assert convergence.rounds_needed(2, 1, 1e-6) == 20 > convergence.rounds_bound(2, 1, 1e-6)
    assert convergence.rounds_bound(100, 1, 1e-6) == pytest.approx(1 - math.log(2e-6 / 9900))
    assert convergence.rounds_bound(100, 100, 1e-6) == 0.0


def test_biased_contact():
    """By hand for three members; the farthest is never cut off. Reference: 000 §7.5"""
    rtt = np.array([[9.0, 1.1, 2.2], [1.1, 9.0, 4.4], [2.2, 4.4, 9.0]])
    near, far = 1 - 1.1 / 2.42, 1 - 2.2 / 2.42
    expected = [1 / 3, 2 / 3 * near / (near + far), 2 / 3 * far / (near + far)]
    np.testing.assert_allclose(convergence.biased_contact(rtt, 1)[0], expected)
    squares = [1 / 3, 2 / 3 * near**2 / (near**2 + far**2), 2 / 3 * far**2 / (near**2 + far**2)]
    np.testing.assert_allclose(convergence.biased_contact(rtt, 2)[0], squares)
    np.testing.assert_allclose(convergence.biased_contact(rtt, 0), convergence.uniform_contact(3))
    assert convergence.biased_contact(rtt, 3).min() > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: convergence.pull_markov(1, 1, 3), "n is 1; allowed: a whole number, 2 or more"),
        (lambda: convergence.pull_markov(9, 10, 3), r"reached is 10; allowed: a whole number, \[1, 9\]"),
        (lambda: convergence.pull_markov(9, 0, 3), "reached is 0"),
        (lambda: convergence.pull_markov(9, 1, -1), "rounds is -1"),
        (lambda: convergence.pull_markov(9, 1, 3, 1.5), r"loss is 1.5; allowed: \[0.0, 1.0\]"),
        (lambda: convergence.pull_failure(9, 1, 3, float("nan")), "loss is nan"),
        (lambda: convergence.pull_failure(9.5, 1, 3), "n is 9.5; allowed: a whole number"),
        (lambda: convergence.expected_rounds(9, 1, 1.0), r"loss is 1.0; allowed: \[0, 1\)"),
        (lambda: convergence.rounds_needed(9, 1, 0.0), r"failure is 0.0; allowed: \(0, 1\]"),
        (
            lambda: convergence.rounds_needed(9, 1, mechanism="shove"),
            "mechanism is 'shove'; allowed: pull, push",
        ),
        (lambda: convergence.rounds_needed(9, 1, mechanism="push"), "mechanism is 'push'; .*'recurrence'"),
        (lambda: convergence.rounds_needed(9, 1, model="guess"), "model is 'guess'"),
        (
            lambda: convergence.rounds_needed(9, 1, loss=0.9999),
            "failure is 1e-06; allowed: at least the 1 left",
        ),
        (lambda: convergence.recurrence(np.ones((2, 3)), np.ones(2), 1), r"contact has shape \(2, 3\)"),
        (lambda: convergence.recurrence(np.eye(2) * 0.9, np.ones(2), 1), "row's sum"),
        (lambda: convergence.recurrence(np.eye(2), np.ones(3), 1), r"initial has shape \(3,\)"),
        (
            lambda: convergence.recurrence(np.eye(2), np.array([0, 2.0]), 1),
            "initial, its highest entry, is 2.0",
        ),
        (lambda: convergence.biased_contact(np.zeros((3, 3)), 1), "rtt_matrix, .* is 0.0"),
        (lambda: convergence.biased_contact(np.ones((3, 3)), -1), "power is -1"),
    ],
)
def test_bad_input_names_value_and_range(call, message):
    """Bad input is refused in one line that says what is wrong."""
    with pytest.raises(ValueError, match=message):
        call()
