"""001 §6: what a partition costs."""

import math

import numpy as np
import pytest

from gossamer.analysis import redelivery
from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse
from tests.papers.test_004_pbcast import Rows


def test_crossings_by_hand():
    """k m against m. Reference: 001 §6"""
    assert redelivery.crossings(5, 40, "basic") == 200
    assert redelivery.crossings(5, 40, "coordinator") == 40
    assert redelivery.crossings(1, 40, "basic") == redelivery.crossings(1, 40)
    assert redelivery.crossings(5, 0, "basic") == 0


def test_crossings_equal_simulation():
    """Each copy is repeated until it crosses; 3,000 partitions, four standard errors. Reference: 001 §6"""
    rng = np.random.default_rng(1)
    for algorithm, copies in (("basic", 60), ("coordinator", 12)):
        sends = rng.geometric(1 - 0.2, (3_000, copies)).sum(axis=1)
        predicted = redelivery.crossings(5, 12, algorithm, loss=0.2)
        assert abs(sends.mean() - predicted) < 4 * sends.std() / math.sqrt(3_000)


def test_futile_sends_by_hand():
    """One packet/s to 2 members for 4 s, repeated every 2 s: those of the first half are sent twice, the
    others once. Reference: 001 §6"""
    assert redelivery.futile_sends(2, 1.0, 4.0, 2.0, "basic") == pytest.approx(2 * 4 * 1.5)
    assert redelivery.futile_sends(2, 1.0, 4.0, 2.0) == 2
    assert redelivery.futile_sends(2, 1.0, 0.0, 2.0, "basic") == 0


def test_futile_sends_grow_with_the_square_of_the_outage():
    """members rate outage^2 / (2 period) for long outages; probes only with the outage. Reference: 001 §6"""
    assert redelivery.futile_sends(3, 10, 1e6, 1.0, "basic") == pytest.approx(3 * 10 * 1e12 / 2, rel=1e-5)
    assert redelivery.futile_sends(3, 10, 1e6, 1.0) == 1e6


def test_futile_sends_equal_simulation():
    """Poisson packets in 4,000 outages; tolerance four standard errors. Reference: 001 §6"""
    rng = np.random.default_rng(2)
    left = [rng.random(rng.poisson(3.0 * 7.3)) * 7.3 for _ in range(4_000)]
    sends = np.array([2 * (1 + np.floor(x / 2.0)).sum() for x in left])
    predicted = redelivery.futile_sends(2, 3.0, 7.3, 2.0, "basic")
    assert abs(sends.mean() - predicted) < 4 * sends.std() / math.sqrt(4_000)


def test_control_messages_by_hand_and_in_the_limits():
    """An acknowledgment each, against a null message per silence: at most one per silence_s.
    Reference: 001 §6"""
    assert redelivery.control_messages(20, 10, 60, 1.0, "basic") == 12_000
    assert redelivery.control_messages(20, 0.0, 60, 2.0) == 30
    assert redelivery.control_messages(20, 1e-9, 60, 2.0) == pytest.approx(30)
    assert redelivery.control_messages(20, 1e6, 60, 2.0) == pytest.approx(0, abs=1e-200)


def test_control_messages_equal_simulation():
    """Poisson packets for 200,000 s: the nulls in each gap; tolerance four standard errors.
    Reference: 001 §4"""
    gaps = np.random.default_rng(3).exponential(1 / 0.5, 100_000)
    nulls = np.floor(gaps / 1.5)
    predicted = redelivery.control_messages(20, 0.5, 200_000, 1.5)
    assert abs(nulls.sum() - predicted) < 4 * nulls.std() * math.sqrt(100_000)


def test_tree_messages_equal_simulation():
    """No failures, 20 s, without the first election; within a twentieth. Reference: 001 §6"""
    for members in (4, 16):
        sent = [_control(members, duration) for duration in (5.0, 25.0)]
        assert (sent[1] - sent[0]) / 20.0 == pytest.approx(redelivery.tree_messages(members, 0.25), rel=0.05)


def _control(members: int, duration: float) -> int:
    table = {"duration": duration, "linger": 1.0, "topology": {"kind": "lan", "members": members}}
    made = parse({**table, "traffic": {"senders": 2, "rate": 10.0}, "protocol": {"name": "redelivery"}})
    return int(simulate(made)["overhead"]["packets"])


def test_recovery_by_hand():
    """100 packets/s missed for 30 s, at 1,000 repairs/s. Reference: 001 §6"""
    assert redelivery.recovery_s(100.0, 30.0, 1000.0) == 3.0


def test_a_side_notices_as_soon_as_predicted():
    """The first election of each member behind the link, over six moments of a period. Reference: 001 §4"""
    waits = [wait for at in (3.0, 3.04, 3.08, 3.12, 3.16, 3.2) for wait in elections_after(at)]
    expected = redelivery.notice_s(0.25, 3)
    assert sum(waits) / len(waits) == pytest.approx(expected, rel=0.1)
    assert all(abs(wait - expected) <= 0.25 for wait in waits)


def elections_after(at: float) -> list[float]:
    cut = {"at": at, "kind": "partition", "members": [[0, 1, 2], [3, 4, 5]], "for": 3.0}
    table = {"duration": 5.0, "topology": {"kind": "lan", "members": 6}, "traffic": {"senders": 2, "rate": 20.0}}
    rows = Rows()
    simulate(parse(table | {"protocol": {"name": "redelivery"}, "fault": [cut]}), sink=rows)
    elected = [row for row in rows.all if row[2] == "coordinator" and row[7] == "elected" and row[0] > at * 1e9]
    first = {row[1]: row[0] / 1e9 - at for row in reversed(elected)}
    return [first[member] for member in (3, 4, 5)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: redelivery.crossings(0, 5), "members is 0"),
        (lambda: redelivery.crossings(2, -5), "packets is -5"),
        (lambda: redelivery.crossings(2, 5, "magic"), "algorithm is 'magic'; allowed: coordinator, basic"),
        (lambda: redelivery.crossings(2, 5, loss=1.0), r"loss is 1.0; allowed: \[0, 1\)"),
        (lambda: redelivery.futile_sends(2, 1, 1, 0), "period_s is 0; allowed: more than 0"),
        (lambda: redelivery.futile_sends(2, 1, float("inf"), 1), "outage_s is inf"),
        (lambda: redelivery.control_messages(2, 1, 1, -1), "silence_s is -1"),
    ],
)
def test_bad_input_names_value_and_range(call, message):
    """Arguments that make no sense are refused by name."""
    with pytest.raises(ValueError, match=message):
        call()
