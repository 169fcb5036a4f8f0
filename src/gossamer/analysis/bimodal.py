"""Almost all or almost none: how many get a packet when gossip is the only way to get it (004 §6, Appendix A).

Two models of the same protocol, which the paper's footnote 9 distinguishes:

- *Once* (`delivery_distribution`, `failure`, `failure_bound`, `fanout_needed`). A process gossips in the
  one round after it received the packet, then never again; it tosses a coin of weight beta = fanout / n for
  every other process. Here `fanout` is the paper's fanout beta N: the total number of gossips that one holder
  sends. A protocol that sends b gossips per round and keeps a packet for g rounds has fanout b g.
- *Every round* (`susceptible`, `latency_distribution`). Every holder gossips in every round, and `fanout`
  is the number of gossips that one holder sends per round.

`loss` is the probability that a gossip does not get through. The paper folds the gossip, the solicitation
and the retransmission into one message; if each of the three is lost with probability e, use
loss = 1 - (1 - e)^3. `crash` is the probability that a process is faulty during the run. A faulty process
may receive the packet and counts as reached, but crashes before it gossips about it. The sender may be faulty, too.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from gossamer.analysis import checks
from gossamer.analysis.binomial import FloatArray, IntArray, pmf

PREDICATES = ("partial", "quorum")
_IGNORED = 1e-45  # less probable states are left out: they cannot matter at 1e-30
_FANOUT_ERROR = 1e-6


def delivery_distribution(
    n: int, fanout: float, rounds: int, loss: float = 0.05, crash: float = 0.001, reached: int = 1
) -> FloatArray:
    """Probability that exactly k processes get the packet, for k = 0..n; `fanout` is the total per holder.

    The state is (r, s): r processes without the packet, s that received it in the last round. Of the s,
    a ~ Binomial(s, 1 - crash) live to gossip. A process without the packet stays without it if none of
    the a gets through, with probability q^a where q = 1 - beta (1 - loss); so the next s is
    Binomial(r, 1 - q^a), and the next r is smaller by that. After `rounds` such steps, or when s = 0, the run
    is over and n - r processes have the packet. This is exactly the paper's chain with both its rates fixed;
    the paper, not knowing them, only bounds it: see `failure_bound`.

    Reference: 004 Appendix A, A recurrence relation; Figure 4
    """
    checks.group(n, reached)
    q = _miss(n, fanout, rounds, loss, crash)
    split = partial(_drop_faulty, _of(n, 1.0 - crash, crash))
    return _outcomes(n, q, rounds, reached, split, 1)[:, 0]


def failure(
    n: int,
    fanout: float,
    rounds: int,
    predicate: str = "partial",
    loss: float = 0.05,
    crash: float = 0.001,
    sigma: float = 0.1,
) -> float:
    """Probability that a run from a single holder ends badly; `fanout` is the total per holder.

    With S the number of processes reached and F the number of faulty ones, a run is bad

        "partial" (I):  if  sigma n <= S <= (1 - sigma) n
        "quorum" (II):  if  S - F < (n + 1) / 2 <= S + F

    that is, if it reaches neither almost none nor almost all, or if the faulty ones could decide whether a
    majority was reached. The text around (I) says "more than" and "less than"; we use the formula, which
    counts the borders as bad. (II) needs at least one faulty process: it is 0 without crashes.

    Exact for the model of `delivery_distribution`, down to 1e-30. For (II), the number of faulty processes
    among those reached is part of the state, and F adds Binomial(n - S, crash) among the others.

    Reference: 004 Appendix A, Failure Predicates
    """
    checks.whole("n", n, 2)
    bad = _bad(n, predicate, sigma)
    if predicate == "partial":
        return float(delivery_distribution(n, fanout, rounds, loss, crash) @ bad[:, 0])
    q = _miss(n, fanout, rounds, loss, crash)
    faulty = _of(n, crash, 1.0 - crash)
    counted = int(np.argmax(faulty[n, ::-1].cumsum()[::-1] < _IGNORED)) or n + 1
    split = partial(_count_faulty, _of(n, 1.0 - crash, crash))
    outcomes = _outcomes(n, q, rounds, 1, split, counted)
    added = _added(n + 1, n + 1)[:counted]
    return sum(float(outcomes[k] @ bad[k, added] @ faulty[n - k]) for k in range(n + 1))


def failure_bound(
    n: int,
    fanout: float,
    rounds: int,
    predicate: str = "partial",
    loss: float = 0.05,
    crash: float = 0.001,
    sigma: float = 0.1,
) -> float:
    """The paper's bound on `failure`, if `loss` and `crash` are only known to be upper bounds.

    An adversary may make any message and any process more reliable than that, and choose when a faulty
    process crashes. In a step from s infectious processes, f of them faulty, the chance that a process is
    reached lies between 1 - q_lo^(s - f) and 1 - q_hi^s, with q_lo = 1 - beta (1 - loss) and
    q_hi = 1 - beta. With X_lo, X_hi binomial over the r others with these chances, (3) bounds

        P(k are reached) <= R(s, r, f, k) = P(X_hi >= k) - P(X_lo >= k + 1),

    and (4), with (2) for the unknown number of faulty processes, works backwards from the last round:

        F_t(s, r, g) <= sum_f Binomial(s, crash; f) max_{i <= f} sum_k R(s, r, i, k) F_{t+1}(k, r - k, g + i)

    with g the faulty processes so far; it ends with the same sum over the s + r that have not gossiped, where
    the predicate takes the place of the inner sum. Since r falls with every k > 0 and the run is over at k = 0,
    we proceed by rising r and do all rounds t at once. The inner sum, too, bounds a probability: it is cut at 1.
    The bound is loose where it is not small, since R sums to more than 1 over k, once per round. The quorum
    takes memory proportional to rounds n^3.

    Reference: 004 Appendix A, eq. (1) to (4)
    """
    checks.whole("n", n, 2)
    bad = _bad(n, predicate, sigma)
    q_low, q_high = _miss(n, fanout, rounds, loss, crash), _miss(n, fanout, rounds, 0.0, crash)
    steps, counted = min(rounds, n), bad.shape[1]
    faulty = _of(n, crash, 1.0 - crash)
    bound = np.zeros((steps + 1, n + 1, n, counted))  # by round, s, r, g

    def worst(value: FloatArray, exposed: int) -> FloatArray:
        """The adversary's sum over f: value[..., g, i] is what it gains from i faulty processes."""
        most = np.maximum.accumulate(np.minimum(value, 1.0), axis=-1)
        total: FloatArray = most @ faulty[exposed, : exposed + 1]
        return total

    for r in range(n):
        for s in range(n - r + 1):
            bound[steps, s, r] = worst(bad[n - r, _added(counted, s + r + 1)], s + r)
        bound[:steps, 0, r] = bound[steps, 0, r]
        for s in range(1, n - r + 1):
            reach = np.arange(r + 1)
            after = np.einsum("tkg,ik->tgi", bound[1:, reach, r - reach], _step_bound(s, r, q_low, q_high))
            bound[:steps, s, r] = worst(after[:, _added(counted, s + 1), np.arange(s + 1)], s)
    return float(bound[0, 1, n - 1, 0])


def fanout_needed(
    n: int,
    failure: float,
    rounds: int = 10,
    predicate: str = "partial",
    loss: float = 0.05,
    crash: float = 0.001,
    sigma: float = 0.1,
) -> float:
    """Smallest fanout (total per holder) from which on the probability of a bad run is at most `failure`.

    A bad run is also unlikely with hardly any gossip, because nobody gets the packet. So this comes down from
    the largest fanout, n, in steps of a fifth, to the first that fails, and bisects. In a deployment, round
    up to whole gossips.

    Reference: 004 §6, Figure 4 (fanout required for a specified reliability)
    """
    checks.target("failure", failure)

    def fails(fanout: float) -> bool:
        return _chance_of_failure(n, fanout, rounds, predicate, loss, crash, sigma) > failure

    enough = float(n)
    if fails(enough):
        least = _chance_of_failure(n, enough, rounds, predicate, loss, crash, sigma)
        raise ValueError(f"failure is {failure!r}; allowed: {least:.3g} or more with n={n} and rounds={rounds}")
    short = enough
    while not fails(short):
        enough, short = short, 0.8 * short
        if short < _FANOUT_ERROR:
            return 0.0
    while enough - short > _FANOUT_ERROR:
        middle = (enough + short) / 2
        enough, short = (enough, middle) if fails(middle) else (middle, short)
    return enough


def susceptible(
    n: int,
    rounds: int,
    fanout: float = 1.0,
    loss: float = 0.05,
    crash: float = 0.001,
    reached: int = 1,
) -> FloatArray:
    """Expected number of correct processes without the packet after 0..rounds rounds; `fanout` is per round.

    With s holders, each gossiping to each process with probability fanout / n, a process is missed in a
    round with probability q^s, q = 1 - (fanout / n)(1 - loss). Of r processes, k = r (1 - q^s) are reached:
    s grows and r falls by k. Every quantity is replaced by its mean, which ignores chance in the early rounds:
    docs/analysis.md says how much too fast this is.

    Faulty processes crash before the first round, the worst case: s and r begin at (1 - crash) of what
    they would otherwise be. As printed, the factor applies again in every round, which would make `crash` a
    rate per round; but it is defined per run.

    Reference: 004 Appendix A, Predicting Latency to Delivery; Figure 5
    """
    checks.group(n, reached)
    q = _miss(n, fanout, rounds, loss, crash)
    without = np.empty(rounds + 1)
    holders, without[0] = reached * (1.0 - crash), (n - reached) * (1.0 - crash)
    for t in range(rounds):
        without[t + 1] = without[t] * q**holders
        holders += without[t] - without[t + 1]
    return without


def latency_distribution(
    n: int,
    rounds: int,
    fanout: float = 1.0,
    loss: float = 0.05,
    crash: float = 0.001,
    reached: int = 1,
) -> FloatArray:
    """Probability that a correct process gets the packet in round t, t = 0..rounds; `fanout` is per round.

    The fraction of the n (1 - crash) correct processes that leave `susceptible` in round t; those of round 0
    have the packet from the start. The paper divides by n, which counts the crashed as reached.

    Reference: 004 Appendix A, Predicting Latency to Delivery; Figure 6
    """
    checks.below_one("crash", crash)
    without = susceptible(n, rounds, fanout, loss, crash, reached)
    return np.append(reached / n, -np.diff(without) / (n * (1.0 - crash)))


_chance_of_failure = failure  # because `fanout_needed` has an argument named `failure`


def _outcomes(
    n: int,
    q: float,
    rounds: int,
    reached: int,
    split: Callable[[FloatArray], FloatArray],
    counted: int,
) -> FloatArray:
    """Probability mass by processes reached, and by faulty ones among them (0..counted - 1).

    received[r][t, s, g]: the chance that in round t there are r without the packet, s that just received it
    and g faulty ones before them. `split` turns the axis s into those that live to gossip. A step with
    k > 0 newly reached leads to a smaller r, and one with k = 0 ends the run; so going by falling r, all
    rounds are done at once and every binomial is computed once, in time n^3 and memory rounds n^2 counted.
    """
    steps = min(rounds, n)
    received = np.zeros((n - reached + 1, steps + 1, n + 1, counted))
    received[n - reached, 0, reached, 0] = 1.0
    outcomes = np.zeros((n + 1, counted))
    for r in range(n - reached, -1, -1):
        alive = split(received[r, :, : n - r + 1])
        k = np.arange(r + 1)
        likely = np.flatnonzero(alive[:steps].sum(axis=(0, 2)) > _IGNORED)
        miss: FloatArray = q ** likely[:, None].astype(np.float64)
        newly = np.einsum("tag,ak->ktg", alive[:steps, likely], pmf(k, r, 1.0 - miss, miss), optimize=True)
        received[r - k[1:], 1:, k[1:]] += newly[1:]
        outcomes[n - r] = alive[steps].sum(axis=0) + newly[0].sum(axis=0)
    return outcomes


def _drop_faulty(survive: FloatArray, received: FloatArray) -> FloatArray:
    """[t, s, g] -> [t, a, g]: of s that received the packet, a survive; the others are not counted."""
    size = received.shape[1]
    alive: FloatArray = np.einsum("tsg,sa->tag", received, survive[:size, :size], optimize=True)
    return alive


def _count_faulty(survive: FloatArray, received: FloatArray) -> FloatArray:
    """[t, s, g] -> [t, a, g + s - a]: of s that received the packet, a survive; the others are counted."""
    alive = np.zeros_like(received)
    _, size, counted = received.shape
    for f in range(min(counted, size)):
        chance = np.diagonal(survive, -f)[: size - f, None]
        alive[:, : size - f, f:] += received[:, f:, : counted - f] * chance
    return alive


def _step_bound(s: int, r: int, q_low: float, q_high: float) -> FloatArray:
    """R(s, r, i, k) of (3) for i = 0..s and k = 0..r.

    Each difference of upper tails equals one of lower tails; the smaller pair is the more accurate.
    """
    k = np.arange(r + 1)
    miss_low, miss_high = q_low ** np.arange(s, -1.0, -1.0)[:, None], q_high ** float(s)
    low, high = pmf(k, r, 1.0 - miss_low, miss_low), pmf(k, r, 1.0 - miss_high, miss_high)
    low_down, high_down = low.cumsum(axis=1), high.cumsum()
    low_up, high_up = low[:, ::-1].cumsum(axis=1)[:, ::-1], high[::-1].cumsum()[::-1]
    upper = high_up - np.pad(low_up[:, 1:], ((0, 0), (0, 1)))
    lower = low_down - np.pad(high_down[:-1], (1, 0))
    bound: FloatArray = np.where(high_up < low_down, upper, lower)
    return bound


def _of(n: int, success: float, failure: float) -> FloatArray:
    """Binomial probabilities [m, k]: k of m, for m and k up to n."""
    count = np.arange(n + 1)
    return pmf(count[None, :], count[:, None], success, failure)


def _bad(n: int, predicate: str, sigma: float) -> FloatArray:
    """1 where S processes reached and F faulty ones make a bad run; by [S, F], or by [S, 0] if F does not matter."""
    checks.choice("predicate", predicate, PREDICATES)
    checks.between("sigma", sigma, 0.0, 0.5)
    s, f = np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]
    if predicate == "quorum":
        return ((s - f < (n + 1) / 2) & (s + f >= (n + 1) / 2)).astype(np.float64)
    border = sigma * n - 1e-9
    return ((s >= border) & (n - s >= border)).astype(np.float64)


def _added(size: int, more: int) -> IntArray:
    """[g, i] -> g + i, but at most `size` - 1."""
    index: IntArray = np.minimum(np.arange(size)[:, None] + np.arange(more), size - 1)
    return index


def _miss(n: int, fanout: float, rounds: int, loss: float, crash: float) -> float:
    """q: the probability that a gossiping process does not get through to a given other process."""
    checks.whole("n", n, 2)
    checks.between("fanout", fanout, 0.0, n)
    checks.whole("rounds", rounds, 0)
    checks.probability("loss", loss)
    checks.probability("crash", crash)
    return 1.0 - fanout / n * (1.0 - loss)
