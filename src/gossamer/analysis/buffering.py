"""How few members need to keep a packet (003 §3 to §5).

Member A keeps packet M for a long time if hash(M, A) n < C, so each of n members is a bufferer of M with
probability C / n, independently, and the expected number of bufferers is C. The first pass loses M at each
member independently with probability `loss`; a member that gets it from one bufferer needs no other.
"""

import math

from gossamer.analysis import checks
from gossamer.core import copies as at_work


def failure(n: int, copies: float, loss: float) -> float:
    """Probability that after the first pass some member lacks the packet and no bufferer has it.

    With C = copies and p = loss, the packet is safe if everyone received it although nobody is a bufferer,
    P1 = ((1 - C/n) (1 - p))^n, or if some bufferer received it, P2 = 1 - (1 - (C/n) (1 - p))^n. These
    events exclude each other, so

        failure = 1 - P1 - P2 = a^n - b^n,   a = 1 - (C/n)(1 - p),   b = (1 - C/n)(1 - p) = a - p.

    The scan's (1) has (1 - C/n)(1 - p)^n, in which only one member is not a bufferer, and its (3) has that in
    place of a^n: printed like this, it tends to 0 and not to the stated exp(-C (1 - p)), and without bufferers
    it is 0 although any loss is fatal. Computed as a^n (1 - (1 - p/a)^n), which avoids cancellation.

    Reference: 003 §3 eq. (1) to (3)
    """
    checks.whole("n", n, 2)
    checks.between("copies", copies, 0.0, n)
    checks.probability("loss", loss)
    return at_work.failure(n, copies, loss)


def failure_limit(copies: float, loss: float) -> float:
    """The limit of `failure` for large groups: exp(-copies (1 - loss)), and 0 if nothing is ever lost.

    (1 - x/n)^n tends to e^-x, with x = copies (1 - loss); the second term, that everyone received the packet,
    vanishes as (1 - loss)^n. So the copies needed for a given safety do not depend on the group's size.

    Reference: 003 §3
    """
    checks.at_least("copies", copies, 0.0)
    checks.probability("loss", loss)
    return math.exp(-copies * (1.0 - loss)) if loss > 0.0 else 0.0


def copies_needed(n: int, failure: float, loss: float) -> int:
    """Fewest copies for which the probability of failure is at most `failure`.

    The failure falls with every copy, its derivative being -(1 - p)(a^(n-1) - b^(n-1)); n copies, with every
    member a bufferer, fail with probability loss^n, and no target below that can be met.

    Reference: 003 §3
    """
    checks.whole("n", n, 2)
    checks.target("failure", failure)
    checks.probability("loss", loss)
    copies = at_work.copies_needed(n, failure, loss)
    if copies is not None:
        return copies
    raise ValueError(f"failure is {failure!r}; allowed: {loss**n:.3g} or more with n={n} and loss={loss!r}")


def occupancy(n: int, rate: float, hold_s: float, copies: float | None = None, short_term_s: float = 0.0) -> float:
    """Expected number of packets that one member holds, at `rate` packets per second in the group.

    By Little's law it is the rate times the mean time that a member holds a packet. Without bufferers
    (copies None), every member holds each packet for `hold_s`: the gossip period times the rounds that repair
    may take (`convergence.rounds_needed`), which grows as log n. With bufferers, a member holds a packet for
    `hold_s` if it is one of its bufferers, with probability copies / n, and otherwise only for `short_term_s`,
    which is independent of n: rate (C/n hold_s + (1 - C/n) short_term_s).

    Reference: 003 §4 and §5
    """
    checks.whole("n", n, 2)
    checks.at_least("rate", rate, 0.0)
    checks.at_least("hold_s", hold_s, 0.0)
    checks.between("short_term_s", short_term_s, 0.0, hold_s)
    copies = n if copies is None else copies
    checks.between("copies", copies, 0.0, n)
    share = copies / n
    return rate * (share * hold_s + (1.0 - share) * short_term_s)
