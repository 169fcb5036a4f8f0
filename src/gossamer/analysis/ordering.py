"""What it costs to give a packet its place in one order (002 §4, Tables 1 and 2).

*two-phase*: the source sends the packet, each destination returns a number, the source sends the highest.
*central*: the source sends to one member, which numbers the packet and sends it to the other n - 1.
*propagation*: the source sends to the group's primary destination, and the packet goes down a tree.
"""

from typing import NamedTuple

from gossamer.analysis import checks

METHODS = ("propagation", "two-phase", "central")


class Cost(NamedTuple):
    """Messages for one ordered packet, and seconds until the last destination may deliver it."""

    messages: float
    delay_s: float


def point_to_point(
    method: str, n: int, latency_s: float, processing_s: float, depth: float = 1.0, extra: float = 0.0
) -> Cost:
    """Cost in a network without multicast, for n destinations.

    A site spends P = processing_s per message it sends, one after the other, and each travels for
    L = latency_s. A fan-out to m sites thus takes m P + L until the last has it.

        two-phase    3 n messages      (n P + L) + (P + L) + (n P + L)  = 3 L + (2 n + 1) P
        central      n messages        (P + L) + ((n - 1) P + L)        = 2 L + n P
        propagation  n + e messages    at most (d + 1) L + (n + e) P

    d = depth is how far below the primary destination the deepest member is, e = extra the number of
    sites on the way that are not members. The last delay is a bound: a path of d hops waits at most for all
    n - 1 + e sends in the tree, and reaches the bound only if it comes last at every site.

    Reference: 002 §4.1 Table 1
    """
    _check(method, n, depth, extra)
    checks.at_least("latency_s", latency_s, 0.0)
    checks.at_least("processing_s", processing_s, 0.0)
    if method == "two-phase":
        return Cost(3 * n, 3 * latency_s + (2 * n + 1) * processing_s)
    if method == "central":
        return Cost(n, 2 * latency_s + n * processing_s)
    return Cost(n + extra, (depth + 1) * latency_s + (n + extra) * processing_s)


def broadcast(method: str, n: int, slot_s: float, depth: float = 1.0) -> Cost:
    """Cost on a shared medium: a message reaches all sites at once and takes slot_s, one at a time.

        two-phase    n + 2 messages    the packet, n answers, the final number
        central      2 messages        to the central site, and to the group
        propagation  d + 1 messages    to the primary destination, and one per level above the deepest

    and the delay is slot_s per message. The last row assumes one forwarder per level, so it is a lower bound:
    if several sites of a level forward, each needs a message, and it takes 1 + the sites that forward.

    Reference: 002 §4.2 Table 2
    """
    _check(method, n, depth, 0.0)
    checks.at_least("slot_s", slot_s, 0.0)
    messages = {"two-phase": n + 2, "central": 2, "propagation": depth + 1}[method]
    return Cost(messages, messages * slot_s)


def _check(method: str, n: int, depth: float, extra: float) -> None:
    checks.choice("method", method, METHODS)
    checks.whole("n", n, 2)
    checks.at_least("extra", extra, 0.0)
    checks.between("depth", depth, 1.0, n - 1 + extra)
