"""How late packets come that others overtook."""

from gossamer.core.reordering import Reordering


def late(reordering: Reordering, times: int, by: float) -> None:
    for n in range(times):
        reordering.gap_found(0.0, 10 * n, 10 * n + 1)
        reordering.came_late(by, 10 * n)


def test_a_link_that_only_loses_is_given_no_time():
    reordering = Reordering()
    for n in range(100):
        reordering.gap_found(n, n, n)
        reordering.repaired()
    assert reordering.tolerance() == 0


def test_a_link_that_reorders_is_given_a_little_more_than_packets_were_late():
    reordering = Reordering()
    late(reordering, 5, by=0.004)
    late(reordering, 5, by=0.002)
    assert 0.004 < reordering.tolerance() < 0.005


def test_the_odd_packet_that_is_late_delays_no_repair():
    reordering = Reordering()
    for n in range(100):
        reordering.gap_found(0.0, n, n)
        if n % 20 == 0:
            reordering.came_late(1.0, n)
        else:
            reordering.repaired()
    assert reordering.tolerance() == 0


def test_a_link_that_reorders_no_more_is_forgiven():
    reordering = Reordering()
    late(reordering, 100, by=0.004)
    for _ in range(20):
        reordering.repaired()
    assert reordering.tolerance() == 0


def test_what_was_late_long_ago_is_forgotten():
    reordering = Reordering()
    late(reordering, 1, by=1.0)
    late(reordering, 200, by=0.001)
    assert reordering.tolerance() < 0.002


def test_a_packet_that_comes_twice_was_not_late():
    reordering = Reordering()
    reordering.gap_found(0.0, 5, 6)
    for _ in range(10):
        reordering.came_late(1.0, 4)
        reordering.came_late(1.0, 7)
    assert reordering.tolerance() == 0


def test_a_gap_of_long_ago_takes_no_memory():
    reordering = Reordering()
    for n in range(10_000):
        reordering.gap_found(n, n, n)
    assert len(reordering._firsts) == len(reordering._lasts) == len(reordering._found) < 2000
