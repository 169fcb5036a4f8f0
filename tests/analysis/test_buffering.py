"""003 §3 to §5: how few copies are enough, and what they take."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from gossamer.analysis import buffering, convergence


def printed_eq_3(n, copies, loss):
    """Equation (3) as the scan has it."""
    b = (1 - copies / n) * (1 - loss)
    return (1 - copies / n) * (1 - loss) ** n - b**n


@pytest.mark.parametrize("copies", [0, 1, 2, 3])
def test_three_members_equal_enumeration(copies):
    """Every choice of bufferers and every loss, in exact fractions. Reference: 003 §3 eq. (3)"""
    bufferer, loss = Fraction(copies, 3), Fraction(1, 5)
    exact = Fraction(0)
    for chosen in product((False, True), repeat=3):
        for received in product((False, True), repeat=3):
            chance = math.prod(bufferer if c else 1 - bufferer for c in chosen)
            chance *= math.prod(1 - loss if r else loss for r in received)
            safe = all(received) or any(c and r for c, r in zip(chosen, received, strict=True))
            exact += 0 if safe else chance
    assert buffering.failure(3, copies, 0.2) == pytest.approx(float(exact), rel=1e-12)


def test_limits():
    """Large groups; nothing lost; all lost; nobody or everybody a bufferer. Reference: 003 §3"""
    assert buffering.failure(10**7, 6, 0.02) == pytest.approx(math.exp(-6 * 0.98), rel=1e-5)
    assert buffering.failure(10**7, 6, 0.02) == pytest.approx(buffering.failure_limit(6, 0.02), rel=1e-5)
    assert buffering.failure(50, 6, 0.0) == buffering.failure_limit(6, 0.0) == 0.0
    assert buffering.failure(50, 6, 1.0) == 1.0
    assert buffering.failure(50, 0, 0.02) == pytest.approx(1 - 0.98**50)
    assert buffering.failure(50, 50, 0.02) == pytest.approx(0.02**50)


def test_tiny_losses_do_not_cancel():
    """To first order in p, n members each lose it with p: failure = n p a^(n-1). Reference: 003 §3"""
    assert buffering.failure(20, 4, 1e-25) == pytest.approx(20 * 1e-25 * (1 - 4 / 20) ** 19, rel=1e-12)


def test_equation_3_as_printed_is_wrong():
    """It contradicts its own limit, 1000 members, 6 copies, 2% loss: 1.7e-9 and not 2.7e-3; at 0.01% it is
    0.9 in place of 2.4e-4; without bufferers it is 0. Reference: 003 §3 eq. (3)"""
    assert printed_eq_3(1000, 0, 0.02) == 0.0
    assert printed_eq_3(1000, 6, 0.02) == pytest.approx(1.7e-9, rel=0.05)
    assert buffering.failure(1000, 6, 0.02) == pytest.approx(2.7e-3, rel=0.05)
    assert printed_eq_3(1000, 6, 1e-4) == pytest.approx(0.9, rel=0.05)
    assert buffering.failure(1000, 6, 1e-4) == pytest.approx(2.4e-4, rel=0.05)


def test_failure_equals_simulation():
    """100,000 drawn packets in groups of 30; tolerance four standard errors. Reference: 003 §3"""
    rng, trials = np.random.default_rng(1), 100_000
    for copies, loss in ((1, 0.02), (4, 0.1)):
        bufferer = rng.random((trials, 30)) < copies / 30
        received = rng.random((trials, 30)) >= loss
        failed = ~(received.all(axis=1) | (bufferer & received).any(axis=1))
        p = buffering.failure(30, copies, loss)
        assert abs(failed.mean() - p) < 4 * math.sqrt(p * (1 - p) / trials)


def test_copies_needed_is_the_first_that_suffices():
    """One copy less would not do. Reference: 003 §3"""
    for n, loss, target in ((100, 0.01, 1e-3), (1000, 0.05, 1e-9), (10, 0.2, 1e-6)):
        copies = buffering.copies_needed(n, target, loss)
        assert buffering.failure(n, copies, loss) <= target < buffering.failure(n, copies - 1, loss)
    assert buffering.copies_needed(100, 1e-3, 0.0) == 0


def test_copies_of_the_simulations():
    """100 members, failure 0.1%: about 6 copies at 0.1% loss per link, about 9 at 1.5%, as the paper used.
    It does not give the length of its paths; 8 links make 7 and 8. Reference: 003 §6"""
    by_link_loss = {p: buffering.copies_needed(100, 1e-3, 1 - (1 - p) ** 8) for p in (0.001, 0.015)}
    assert by_link_loss == {0.001: 7, 0.015: 8}


def test_occupancy_by_hand_and_in_the_limits():
    """100 packets/s held 2 s; 5 of 50 members keep them so long. Reference: 003 §4, §5"""
    assert buffering.occupancy(50, 100, hold_s=2) == 200
    assert buffering.occupancy(50, 100, hold_s=2, copies=5) == 20
    assert buffering.occupancy(50, 100, hold_s=2, copies=5, short_term_s=0.5) == pytest.approx(20 + 45)
    assert buffering.occupancy(50, 100, hold_s=2, copies=50, short_term_s=0.5) == 200
    assert buffering.occupancy(10**9, 100, hold_s=2, copies=5, short_term_s=0.5) == pytest.approx(50)


def test_occupancy_grows_with_the_group_without_bufferers_and_shrinks_with_them():
    """Held for the rounds that repair from one holder may take, period 100 ms. Reference: 003 §4"""
    hold = {n: 0.1 * convergence.rounds_needed(n, 1, loss=0.05) for n in (16, 64, 256)}
    everyone = [buffering.occupancy(n, 100, hold[n]) for n in hold]
    bufferers = [buffering.occupancy(n, 100, hold[n], copies=6) for n in hold]
    assert everyone == sorted(everyone)
    assert bufferers == sorted(bufferers, reverse=True)


def test_occupancy_equals_simulation():
    """4,000 members watched at one instant of a Poisson stream; tolerance four standard errors.
    Reference: 003 §4, §5"""
    rng = np.random.default_rng(2)
    age = [rng.random(rng.poisson(100 * 3.0)) * 3.0 for _ in range(4_000)]
    held = np.array([(a < np.where(rng.random(len(a)) < 5 / 50, 2.0, 0.5)).sum() for a in age])
    predicted = buffering.occupancy(50, 100, hold_s=2, copies=5, short_term_s=0.5)
    assert abs(held.mean() - predicted) < 4 * held.std() / math.sqrt(4_000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: buffering.failure(1, 1, 0.1), "n is 1"),
        (lambda: buffering.failure(10, 11, 0.1), r"copies is 11; allowed: \[0.0, 10\]"),
        (lambda: buffering.failure(10, 5, -0.1), "loss is -0.1"),
        (lambda: buffering.failure_limit(-1, 0.1), "copies is -1"),
        (lambda: buffering.copies_needed(10, 0, 0.1), "failure is 0"),
        (lambda: buffering.copies_needed(10, 1e-12, 0.1), "failure is 1e-12; allowed: 1e-10 or more"),
        (lambda: buffering.occupancy(10, -1, 1), "rate is -1"),
        (lambda: buffering.occupancy(10, 1, 1, short_term_s=2), r"short_term_s is 2; allowed: \[0.0, 1\]"),
    ],
)
def test_bad_input_names_value_and_range(call, message):
    """Bad input is refused in one line that says what is wrong."""
    with pytest.raises(ValueError, match=message):
        call()


def test_what_all_members_together_just_reach_is_reached():
    assert buffering.copies_needed(4, 1e-8, 0.01) == 4
