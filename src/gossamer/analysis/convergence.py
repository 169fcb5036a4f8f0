"""How many rounds of gossip until every member has a packet (000 §4.2).

Rounds are synchronous; in each, every member contacts one member. Under *pull* a member asks its target for
what it lacks; under *push* a member offers its target what it has. Two models:

- the Markov chain, exact for uniform pull: the state is the number of members that have the packet;
- the recurrence, for any contact matrix and for push: one probability per member, with members treated as
  independent. They are not: if nobody contacts the first holder, all go without. So for pull from few
  holders the recurrence is optimistic by orders of magnitude; for push it is close.

A contact is uniform over all n members, including oneself: that is the i/n of the thesis. A real member does
not contact itself, so real gossip is a little faster.

`loss` is per message. A pull needs a request and a repair, a push needs a digest, a request and a repair
(000 §4: two messages against three), so one contact succeeds with probability (1 - loss)^2 or (1 - loss)^3.
"""

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np

from gossamer.analysis import checks
from gossamer.analysis.binomial import FloatArray, pmf

MESSAGES = {"pull": 2, "push": 3}
MODELS = ("markov", "recurrence")
ROUNDS_MAX = 10_000
FARTHEST = 1.1
"""At this many times the longest round-trip time, the chance of a biased contact is zero."""


def pull_markov(n: int, reached: int, rounds: int, loss: float = 0.0) -> float:
    """Probability that all n members have the packet after `rounds` of uniform pull. See `pull_failure`."""
    return 1.0 - pull_failure(n, reached, rounds, loss)


def pull_failure(n: int, reached: int, rounds: int, loss: float = 0.0) -> float:
    """Probability that some member still lacks the packet after `rounds`; accurate however small it is.

    With i holders, each of the n - i others independently pulls it with probability
    s_i = (i / n) (1 - loss)^2, so the number of new holders is binomial:

        p(i, j) = C(n - i, j - i) s_i^(j - i) (1 - s_i)^(n - j)   for j >= i, else 0.

    The failure is the mass on the states below n: a sum of positive terms, hence without cancellation.
    The scan has "0 if i < j" where it must be j < i: the number of holders never decreases.

    Reference: 000 §4.2.1
    """
    checks.group(n, reached)
    checks.whole("rounds", rounds, 0)
    checks.probability("loss", loss)
    return next(islice(_markov_failures(n, reached, loss), rounds, None))


def expected_rounds(n: int, reached: int, loss: float = 0.0) -> float:
    """Expected number of rounds of uniform pull until all n members have the packet.

    One step from state i: E_i = 1 + sum_j p(i, j) E_j with E_n = 0. The chain never goes down, so the
    system is triangular: E_i = (1 + sum_{j > i} p(i, j) E_j) / (1 - p(i, i)), from i = n - 1 downwards.

    Reference: 000 §4.2.1
    """
    checks.group(n, reached)
    checks.below_one("loss", loss)
    step, success = _pull_chain(n, loss), _pull_success(n, loss)
    expected = np.zeros(n + 1)
    for i in range(n - 1, reached - 1, -1):
        leaves = -np.expm1((n - i) * np.log1p(-success[i]))
        expected[i] = (1.0 + step[i, i + 1 :] @ expected[i + 1 :]) / leaves
    return float(expected[reached])


def recurrence(
    contact: FloatArray, initial: FloatArray, rounds: int, mechanism: str = "pull", loss: float = 0.0
) -> FloatArray:
    """P[k, i], the probability that member i has the packet after k rounds; shape (rounds + 1, n).

    contact[i, j] is the probability that i contacts j, initial[i] = P[0, i]. With d the probability that
    a contact's messages all arrive, P[k, i] = P[k-1, i] + (1 - P[k-1, i]) get[k, i] where

        pull: get[k, i] = d sum_{j != i} contact[i, j] P[k-1, j]
        push: get[k, i] = 1 - prod_{j != i} (1 - d contact[j, i] P[k-1, j]).

    The second treats "j has it" as independent from member to member, and so does the product over i that
    turns the result into the probability that all have it: prod_i P[k, i]. This is the approximation.

    Reference: 000 §4.2.2
    """
    checks.whole("rounds", rounds, 0)
    missing = _recurrence_missing(contact, initial, mechanism, loss)
    return 1.0 - np.array(list(islice(missing, rounds + 1)))


def rounds_needed(
    n: int,
    reached: int,
    failure: float = 1e-6,
    mechanism: str = "pull",
    model: str = "markov",
    loss: float = 0.0,
) -> int:
    """Fewest rounds after which some member lacks the packet with probability at most `failure`.

    Selection is uniform. model="markov" is exact, and for pull only; model="recurrence" is how the thesis
    itself arrives at its Figure 4-2, for pull and push.

    Reference: 000 §4.2, Figure 4-2
    """
    checks.group(n, reached)
    checks.target("failure", failure)
    checks.choice("mechanism", mechanism, MESSAGES)
    checks.choice("model", model, MODELS)
    checks.below_one("loss", loss)
    if model == "markov" and mechanism != "pull":
        raise ValueError(f"mechanism is {mechanism!r}; allowed: pull with model 'markov', else 'recurrence'")
    if model == "markov":
        failures = _markov_failures(n, reached, loss)
    else:
        initial = np.where(np.arange(n) < reached, 1.0, 0.0)
        failures = map(_some_missing, _recurrence_missing(uniform_contact(n), initial, mechanism, loss))
    for rounds, left in enumerate(islice(failures, ROUNDS_MAX + 1)):
        if left <= failure:
            return rounds
    raise ValueError(f"failure is {failure!r}; allowed: at least the {left:.3g} left after {rounds} rounds")


def rounds_bound(n: int, reached: int, failure: float) -> float:
    """The thesis's closed form for a sufficient number of rounds of lossless uniform pull.

    Beyond half of the group, a member's chance of missing the packet falls by at least a factor e per round,
    and by the union bound ln((n - reached) / failure) rounds are enough. Below half, the number of holders
    grows by at least a factor e per round, which adds at most 1 + ln(n / (2 reached)) rounds before. Together,
    for reached <= n / 2,

        k >= 1 + ln(n (n - reached) / (2 reached failure)).

    The thesis calls it a lower bound, meaning: on the k that are enough. (Where it writes P_k < delta it means
    1 - P_k.) "By a factor e per round" is not exact: a first round from half only halves the chance, and in a
    group of two every round does. Compared with `rounds_needed` for n = 3 to 300 and failures down to 1e-12,
    the bound is enough for the recurrence, and for the Markov chain from two or more holders; from one holder
    it can be short by seven rounds for n = 3, by two up to n = 13, by one up to n = 40.

    Reference: 000 §4.2.2
    """
    checks.group(n, reached)
    checks.target("failure", failure)
    if reached == n:
        return 0.0
    rounds = math.log((n - reached) / failure)
    if 2 * reached <= n:
        rounds += 1.0 + math.log(n / (2 * reached))
    return max(rounds, 0.0)


def uniform_contact(n: int) -> FloatArray:
    """Every member contacts every member, itself included, with probability 1 / n."""
    checks.whole("n", n, 2)
    return np.full((n, n), 1.0 / n)


def biased_contact(rtt_matrix: FloatArray, power: float) -> FloatArray:
    """Contact probabilities that fall with the round-trip time r: proportional to (1 - r / (1.1 r_max))^power.

    power 0 is `uniform_contact`, 1 the linear and 2 the quadratic bias of 000 §7.5, as the protocols draw their
    targets. The thesis says that the probability drops linearly (quadratically) with the increase in round-trip
    time, and gives no formula; 1.1 keeps the farthest member from being cut off. Each member has an r_max of its
    own. Each member keeps the chance 1 / n of contacting itself, so that only the bias differs between powers. The
    diagonal of `rtt_matrix` is ignored.
    """
    rtt = np.array(rtt_matrix, dtype=np.float64)
    n = _square("rtt_matrix", rtt)
    checks.at_least("power", power, 0.0)
    others = ~np.eye(n, dtype=bool)
    checks.positive("rtt_matrix, its smallest entry off the diagonal,", float(rtt[others].min()))
    np.fill_diagonal(rtt, 0.0)
    weight = (1.0 - rtt / (FARTHEST * rtt.max(axis=1, keepdims=True))) ** power
    np.fill_diagonal(weight, 0.0)
    contact: FloatArray = weight / weight.sum(axis=1, keepdims=True) * (n - 1) / n
    np.fill_diagonal(contact, 1.0 / n)
    return contact


def _pull_success(n: int, loss: float) -> FloatArray:
    """s_i of `pull_failure` for i = 0..n holders."""
    success: FloatArray = np.arange(n + 1) / n * (1.0 - loss) ** MESSAGES["pull"]
    return success


def _pull_chain(n: int, loss: float) -> FloatArray:
    """p[i, j], the chance that i holders become j in one round; see `pull_failure`."""
    holders = np.arange(n + 1)
    success = _pull_success(n, loss)[:, None]
    return pmf(holders[None, :] - holders[:, None], n - holders[:, None], success, 1.0 - success)


def _markov_failures(n: int, reached: int, loss: float) -> Iterator[float]:
    """The probability that some member lacks the packet after 0, 1, 2, ... rounds."""
    incomplete = _pull_chain(n, loss)[reached:n, reached:n]
    mass = np.zeros(n - reached)
    mass[:1] = 1.0
    while True:
        yield float(mass.sum())
        mass = mass @ incomplete


def _recurrence_missing(contact: FloatArray, initial: FloatArray, mechanism: str, loss: float) -> Iterator[FloatArray]:
    """1 - P[k] of `recurrence` for k = 0, 1, 2, ...: computed as the complement, because that is what becomes tiny."""
    contact = np.asarray(contact, dtype=np.float64)
    missing = 1.0 - np.asarray(initial, dtype=np.float64)
    n = _square("contact", contact)
    _check_contact(contact, missing, n)
    checks.choice("mechanism", mechanism, MESSAGES)
    checks.probability("loss", loss)
    arrives = (1.0 - loss) ** MESSAGES[mechanism]
    step = _pull_miss if mechanism == "pull" else _push_miss
    while True:
        yield missing
        missing = missing * step(contact, missing, arrives)


def _pull_miss(contact: FloatArray, missing: FloatArray, arrives: float) -> FloatArray:
    """1 - get: a message is lost, or a member contacts itself or another member that lacks the packet."""
    itself = np.diag(contact)
    result: FloatArray = (1.0 - arrives) + arrives * (itself + contact @ missing - itself * missing)
    return result


def _push_miss(contact: FloatArray, missing: FloatArray, arrives: float) -> FloatArray:
    """1 - get: no other member that has the packet gets through to this one."""
    hit = arrives * contact * (1.0 - missing)[:, None]
    np.fill_diagonal(hit, 0.0)
    result: FloatArray = np.prod(1.0 - hit, axis=0)
    return result


def _some_missing(missing: FloatArray) -> float:
    """1 - prod(1 - missing) without cancellation."""
    if missing.max() >= 1.0:
        return 1.0
    return float(-np.expm1(np.log1p(-missing).sum()))


def _square(name: str, matrix: FloatArray) -> int:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
        raise ValueError(f"{name} has shape {matrix.shape}; allowed: (n, n) with n 2 or more")
    return int(matrix.shape[0])


def _check_contact(contact: FloatArray, missing: FloatArray, n: int) -> None:
    if missing.shape != (n,):
        raise ValueError(f"initial has shape {missing.shape}; allowed: ({n},), one entry per member")
    checks.probability("initial, its lowest entry,", 1.0 - float(missing.max()))
    checks.probability("initial, its highest entry,", 1.0 - float(missing.min()))
    checks.at_least("contact, its lowest entry,", float(contact.min()), 0.0)
    worst = float(np.abs(contact.sum(axis=1) - 1.0).max())
    checks.between("contact, the farthest that a row's sum is from 1,", worst, 0.0, 1e-9)
