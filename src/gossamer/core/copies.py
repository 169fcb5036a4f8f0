"""How many members should keep a packet for long, so that it is rarely out of reach (003 §3).

Plain arithmetic, used by members at work and by `analysis.buffering`, which explains and checks it.
"""

import math
from functools import lru_cache


def failure(n: int, copies: float, loss: float) -> float:
    """Probability that some of n members lack a packet that none of its expected `copies` bufferers has."""
    a = 1.0 - copies / n * (1.0 - loss)
    if a <= loss:  # all members are bufferers
        return loss**n
    return -(a**n) * math.expm1(n * math.log1p(-loss / a))


@lru_cache(maxsize=10_000)
def copies_needed(n: int, wanted: float, loss: float) -> int | None:
    """Fewest copies for which the probability of failure is at most `wanted`; None if n copies are not enough."""
    wanted *= 1 + 1e-9  # what all members together just reach must not fail by a rounding error
    return next((copies for copies in range(n + 1) if failure(n, copies, loss) <= wanted), None)
