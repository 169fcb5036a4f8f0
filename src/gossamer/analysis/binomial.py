"""The binomial distribution with full relative accuracy in both tails.

Every chain in this package is made of binomial draws, and the probabilities asked for go down to 1e-30. So
nothing here (or in the callers) is computed as one minus something near one: a success probability is passed
together with its complement, and sums have only positive terms.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

_LOG_ZERO = -1e6  # finite, so that 0 * log 0 = 0; exp turns it into 0 again


def pmf(hits: IntArray, trials: IntArray | int, success: FloatArray | float, failure: FloatArray | float) -> FloatArray:
    """Probability of exactly `hits` successes, with failure = 1 - success; arguments broadcast.

    C(trials, hits) success^hits failure^(trials - hits), in logarithms; 0 where hits is not in 0..trials.
    The relative error is about 1e-16 times log(trials!), so 1e-12 for a thousand trials.
    """
    possible = (hits >= 0) & (hits <= trials)
    k = np.where(possible, hits, 0)
    misses = trials - k
    log_ways = gammaln(np.asarray(trials) + 1.0) - gammaln(k + 1.0) - gammaln(misses + 1.0)
    with np.errstate(divide="ignore"):
        log_success = np.maximum(np.log(success), _LOG_ZERO)
        log_failure = np.maximum(np.log(failure), _LOG_ZERO)
    result: FloatArray = np.where(possible, np.exp(log_ways + k * log_success + misses * log_failure), 0.0)
    return result
