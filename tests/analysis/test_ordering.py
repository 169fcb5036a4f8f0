"""002 §4, Tables 1 and 2: what an order costs."""

import numpy as np
import pytest

from gossamer.analysis import ordering

L, P = 10.0, 1.0


def fan_out(start, count):
    """When each of `count` messages, sent one after the other from `start`, arrives."""
    return [start + (i + 1) * P + L for i in range(count)]


def down_the_tree(children, site, start):
    """Arrival times below `site`, each site forwarding to its children in order."""
    arrivals = fan_out(start, len(children.get(site, ())))
    below = []
    for child, at in zip(children.get(site, ()), arrivals, strict=True):
        below += [at, *down_the_tree(children, child, at)]
    return below


def random_tree(rng, n):
    """Children by site and the depth of each of n sites, site 0 the root."""
    children, depth = {}, [0]
    for site in range(1, n):
        parent = int(rng.integers(site))
        children.setdefault(parent, []).append(site)
        depth.append(depth[parent] + 1)
    return children, depth


def test_table_1_two_phase_and_central_equal_a_walk_through_their_messages():
    """Reference: 002 §4.1 Table 1"""
    for n in (2, 5, 17):
        answered = max(fan_out(0, n)) + P + L
        assert ordering.point_to_point("two-phase", n, L, P) == (3 * n, max(fan_out(answered, n)))
        central = P + L
        assert ordering.point_to_point("central", n, L, P) == (n, max(fan_out(central, n - 1)))


def test_table_1_propagation_bounds_random_trees():
    """500 drawn trees: as many messages as sites, and no delay beyond the table's. Reference: 002 §4.1"""
    rng = np.random.default_rng(1)
    for _ in range(500):
        n = int(rng.integers(2, 30))
        children, depth = random_tree(rng, n)
        arrivals = down_the_tree(children, 0, P + L)
        cost = ordering.point_to_point("propagation", n, L, P, depth=max(depth))
        assert cost.messages == 1 + len(arrivals)
        assert max(arrivals) <= cost.delay_s + 1e-9


def test_table_1_propagation_is_met_by_a_star_and_by_a_chain():
    """Where the deepest member waits for every send. A star is the central method. Reference: 002 §4.1"""
    n = 8
    star, chain = {0: list(range(1, n))}, {i: [i + 1] for i in range(n - 1)}
    for children, depth in ((star, 1), (chain, n - 1)):
        cost = ordering.point_to_point("propagation", n, L, P, depth=depth)
        assert max(down_the_tree(children, 0, P + L)) == pytest.approx(cost.delay_s)
    assert ordering.point_to_point("propagation", n, L, P) == ordering.point_to_point("central", n, L, P)


def test_table_1_extra_sites_cost_a_message_each():
    """Reference: 002 §4.1"""
    cost = ordering.point_to_point("propagation", 4, L, P, depth=3, extra=2)
    assert cost == (6, 4 * L + 6 * P)


def test_propagation_is_faster_than_two_phase_up_to_depth_two():
    """Where latency dominates; deeper trees lose. Reference: 002 §4.1"""
    two_phase = ordering.point_to_point("two-phase", 10, 1.0, 1e-6)
    delays = [ordering.point_to_point("propagation", 10, 1.0, 1e-6, depth=d).delay_s for d in (1, 2, 3)]
    assert delays[0] < delays[1] < two_phase.delay_s < delays[2]


def test_table_2():
    """Reference: 002 §4.2 Table 2"""
    assert ordering.broadcast("two-phase", 10, 0.5) == (12, 6.0)
    assert ordering.broadcast("central", 10, 0.5) == (2, 1.0)
    assert ordering.broadcast("propagation", 10, 0.5, depth=3) == (4, 2.0)
    assert ordering.broadcast("propagation", 10, 0.5) == ordering.broadcast("central", 10, 0.5)


def test_table_2_propagation_is_a_lower_bound():
    """One message per level is too few where several sites of a level forward: random trees of 30 sites need
    more than twice the table's. Reference: 002 §4.2 Table 2"""
    rng = np.random.default_rng(2)
    needed, table = 0, 0.0
    for _ in range(300):
        children, depth = random_tree(rng, 30)
        messages = 1 + len(children)
        in_table = ordering.broadcast("propagation", 30, 1.0, depth=max(depth)).messages
        assert messages >= in_table
        needed, table = needed + messages, table + in_table
    assert needed > 2 * table


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ordering.point_to_point("vote", 5, L, P),
            "method is 'vote'; allowed: propagation, two-phase",
        ),
        (lambda: ordering.point_to_point("central", 1, L, P), "n is 1"),
        (lambda: ordering.point_to_point("central", 5, -1, P), "latency_s is -1"),
        (
            lambda: ordering.point_to_point("propagation", 5, L, P, depth=5),
            r"depth is 5; allowed: \[1.0, 4.0\]",
        ),
        (lambda: ordering.point_to_point("propagation", 5, L, P, extra=-1), "extra is -1"),
        (lambda: ordering.broadcast("central", 5, float("nan")), "slot_s is nan"),
    ],
)
def test_bad_input_names_value_and_range(call, message):
    """Bad input is refused in one line that says what is wrong."""
    with pytest.raises(ValueError, match=message):
        call()
