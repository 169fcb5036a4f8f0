"""Timers, budgets, variable-length integers and settings."""

from dataclasses import dataclass
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core import varint
from gossamer.core.asking import Asking
from gossamer.core.budget import Budget
from gossamer.core.packets import Packet
from gossamer.core.peers import Peers
from gossamer.core.ranges import RangeSet
from gossamer.core.repair_queue import RepairQueue
from gossamer.core.request_window import RequestWindow
from gossamer.core.roster import Roster
from gossamer.core.round_trips import RoundTrips
from gossamer.core.schema import SettingError, build, setting
from gossamer.core.timers import Timers
from gossamer.presets import preset
from gossamer.stack import Stack


def test_timers_tell_the_earliest_and_go_off_in_order():
    timers, rang = Timers(), []
    a, b, c, d = (timers.new(lambda now, out, name=name: rang.append(name)) for name in "abcd")
    b.set(2.0)
    a.set(1.0)
    c.set(9.0)
    d.set(2.0)
    assert timers.next == 1.0
    timers.go_off(2.5, [])
    assert rang == ["a", "b", "d"]
    assert (timers.next, a.deadline) == (9.0, inf)
    c.arm(3.0)  # it is armed already
    assert timers.next == 9.0
    c.set(inf)
    timers.go_off(100.0, [])
    assert rang == ["a", "b", "d"]


def test_a_budget_never_grants_more_than_its_rate_in_a_second():
    budget = Budget(100)
    assert budget.take(0.0, 50) == 2  # 2% of it at once
    assert budget.take(0.0, 50) == 0
    assert budget.when(0.0) > 0.0
    granted = 2 + sum(budget.take(t / 1000, 5) for t in range(1, 1001))
    assert 98 <= granted <= 100


def test_a_budget_of_zero_is_no_limit():
    assert Budget(0).take(0.0, 10**6) == 10**6


@given(st.integers(0, 2**63))
def test_a_varint_is_decoded_again(value):
    out = bytearray()
    varint.put(out, value)
    assert varint.get(out, 0) == (value, len(out))
    assert varint.size(value) == len(out)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 11, b"\x80\x00"])
def test_a_varint_that_is_cut_short_too_long_or_padded_is_refused(data):
    with pytest.raises(ValueError, match="varint"):
        varint.get(data, 0)


def one_by_one(data: bytes, count: int) -> tuple[list[int], int] | None:
    found, at = [], 0
    for _ in range(count):
        try:
            value, at = varint.get(data, at)
        except ValueError:
            return None
        found.append(value)
    return found, at


@given(st.lists(st.integers(0, 2**63) | st.integers(0, 300), min_size=1, max_size=6), st.binary(max_size=30), st.data())
def test_many_varints_are_what_they_are_one_by_one(values, noise, data):
    out = bytearray()
    for value in values:
        varint.put(out, value)
    cut = data.draw(st.integers(0, len(out)))
    for given_bytes in (bytes(out), bytes(out) + noise, bytes(out[:cut]) + noise, noise):
        expected = one_by_one(given_bytes, len(values))
        for raw in (given_bytes, memoryview(given_bytes)):
            if expected is None:
                with pytest.raises(ValueError, match="varint"):
                    varint.get_many(raw, 0, len(values))
            else:
                assert varint.get_many(raw, 0, len(values)) == expected


@pytest.mark.parametrize("bad", [b"", b"\x80", b"\xff" * 10 + b"\x01", b"\xff" * 40, b"\x80\x00"])
def test_many_varints_of_which_the_last_is_cut_short_too_long_or_padded_are_refused(bad):
    with pytest.raises(ValueError, match="varint"):
        varint.get_many(b"\x07\x81\x01" + bad, 0, 3)


@dataclass(frozen=True)
class Sample:
    rate: float = setting(1.0, "How fast.", unit="1/s", above=0, high=10)
    kind: str = setting("a", "Which.", choices=("a", "b"))
    pair: tuple[float, float] = setting((0.0, 0.0), "Two.", low=0, high=1)
    for_: int = setting(0, "How long.", low=0)


def test_settings_are_built_with_integers_for_floats_and_keywords_as_keys():
    assert build(Sample, {"rate": 2, "pair": [0, 1], "for": 3}) == Sample(2.0, "a", (0.0, 1.0), 3)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"rat": 1}, r"unknown key x\.rat; did you mean rate\?"),
        ({"rate": 11}, r"x\.rate = 11\.0: must be above 0 and at most 10"),
        ({"rate": 0}, "above 0"),
        ({"rate": float("nan")}, "must be above 0"),
        ({"rate": "fast"}, r"x\.rate = 'fast': must be a number"),
        ({"rate": True}, "must be a number"),
        ({"kind": "c"}, "must be one of a, b"),
        ({"pair": [0, 2]}, "at least 0 and at most 1"),
        ({"pair": [0]}, "a list of 2"),
        ({"for": 1.5}, "a whole number"),
    ],
)
def test_invalid_settings_are_refused_by_name(table, says):
    with pytest.raises(SettingError, match=says):
        build(Sample, table, "x")


def test_a_buffer_by_size_keeps_a_packet_once_however_often_it_comes():
    """Who asks for the past gets packets again that are still in the buffer."""
    buffer = Stack(0, (0, 1), preset("pbcast", {"buffering": "size", "buffer_packets": 3}), Random(1)).buffer
    for run in ([0, 1], [1, 2], [0, 1, 2], [3], [4, 5]):
        buffer.keep(0.0, [Packet(7, seqno, b"") for seqno in run], [])
    assert list(buffer.held()[7]) == [3, 4, 5]
    assert len(buffer) == 3


def served(requests: list[tuple[int, RangeSet]], queue_packets: int, seconds: float) -> dict[int, list[int]]:
    """Who got what of sender 9 at 100 repairs a second, if all this is asked for at once, in this order."""
    timers, got = Timers(), {}
    service = RepairQueue(100, queue_packets, timers)

    def send(to: int, sender: int, first: int, last: int, out: list) -> None:
        got.setdefault(to, []).extend(range(first, last + 1))

    for requester, wanted in requests:
        service.enqueue(0.0, requester, {9: wanted}, send, [])
    while timers.next <= seconds:
        timers.go_off(timers.next, [])
    return got


def test_a_member_that_asks_for_everything_leaves_room_for_the_others():
    everything, little = RangeSet([(0, 10**9)]), RangeSet([(5, 14)])
    got = served([(1, everything), (2, everything), (1, everything), (3, little)], queue_packets=400, seconds=1.0)
    assert got[3] == list(little)
    got = served([(1, everything), (2, everything), (3, everything)], queue_packets=400, seconds=60.0)
    assert [len(set(got[n])) for n in (1, 2, 3)] == [len(got[n]) for n in (1, 2, 3)]  # nothing twice
    assert 200 <= len(got[1]) < 210  # half of the room, and what was sent at once
    assert 95 <= len(got[2]) <= 105
    assert 45 <= len(got[3]) <= 55


def test_a_request_is_served_whole_where_there_is_room():
    wanted = RangeSet([(3, 7), (20, 29)])
    assert served([(1, wanted)], queue_packets=400, seconds=5.0) == {1: list(wanted)}


def sent_at(service: RepairQueue, timers: Timers, packets: int, seconds: float) -> list[tuple[float, int]]:
    """When how many of these are sent, if the timers go off half a millisecond late."""
    times: list[tuple[float, int]] = []
    now = 0.0

    def send(to: int, sender: int, first: int, last: int, out: list) -> None:
        times.append((now, last - first + 1))

    service.enqueue(now, 1, {9: RangeSet.span(0, packets - 1)}, send, [])
    while timers.next < seconds:
        now = timers.next + 0.0005
        timers.go_off(now, [])
    return times


def test_smooth_repairs_come_in_no_bursts_and_at_the_full_rate():
    timers = Timers()
    times = sent_at(RepairQueue(20_000, 10_000, timers, smooth=True), timers, 4_000, 1.0)
    assert max(sent for _, sent in times) <= 50
    assert sum(sent for at, sent in times if at < 0.1) > 1_950
    assert sum(sent for _, sent in times) == 4_000


def test_repairs_stay_within_what_the_path_of_the_sender_carries():
    timers = Timers()
    service = RepairQueue(20_000, 10_000, timers, smooth=True)
    service.paced_by(Budget(1_000, burst=2))
    times = sent_at(service, timers, 900, 0.5)
    assert max(sent for _, sent in times) <= 2
    assert 490 <= sum(sent for _, sent in times) <= 502


def test_members_that_left_are_forgotten():
    trips = RoundTrips(wanted=True)
    peers = Peers(Roster(0, (0, 1)), "linear", 0, trips, Random(1))
    for newcomer in range(2, 10_000):
        peers.follow(Roster(0, (0, 1, newcomer)))
        trips.stamp(0.0, newcomer, 1)
        if newcomer % 2:
            trips.measured(newcomer, 0.1)
        peers.answered(newcomer, 0.5)
        trips.measured(1, 0.2)
    assert len(trips) + len(peers._odds) < 300
    assert trips.times[1] == pytest.approx(0.2)


def packets(*ranges):
    return {7: RangeSet(ranges)} if ranges else {}


def test_requests_are_limited_and_more_is_asked_for_when_half_has_come():
    asking = Asking(10)
    asking.add(7, 0, 29)
    assert asking.choose() == packets((0, 9))
    asking.asked(0.0, 1, asking.choose())
    assert asking.choose() == {}
    assert not asking.has_room()
    asking.remove(7, 0, 3)
    assert not asking.wants_more()
    asking.remove(7, 4, 5)
    assert asking.wants_more()
    assert asking.choose() == packets((10, 15))


def test_what_was_asked_for_a_tick_ago_is_asked_for_again_and_what_was_asked_for_since_is_not():
    asking = Asking(100)
    asking.add(7, 0, 4)
    asking.asked(0.0, 1, asking.choose())
    asking.age()
    asking.add(7, 8, 9)
    asking.asked(0.0, 1, asking.choose())
    asking.tick(0.0)
    assert asking.choose() == packets((0, 4))
    assert asking.on_their_way == 2


def test_packets_that_nobody_can_send_do_not_keep_others_from_being_asked_for():
    asking = Asking(4)
    asking.add(7, 0, 9)
    chosen = []
    for _ in range(4):
        chosen.append(asking.choose())
        asking.asked(0.0, 1, chosen[-1])
        asking.age()
        asking.tick(0.0)
    some_again = [packets((0, 1), (4, 5)), packets((0, 1), (6, 7)), packets((0, 1), (8, 9))]
    assert chosen == [packets((0, 3)), *some_again]


def test_without_a_limit_everything_is_asked_for_every_time():
    asking = Asking(0)
    asking.add(7, 0, 4)
    asking.asked(0.0, 1, asking.choose())
    assert asking.choose() == packets((0, 4))


ACTIONS = ["add", "remove", "ask", "tick", "again", "overdue"]


@given(
    st.booleans(), st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 30), st.integers(0, 9)), max_size=100)
)
def test_what_is_asked_for_is_wanted_and_within_the_limit(adapts, actions):
    asking, wanted = Asking(8, window=RequestWindow(8) if adapts else None), set()
    for now, (action, first, length) in enumerate(actions):
        last = first + length
        if action == "add":
            asking.add(7, first, last)
            wanted |= set(range(first, last + 1))
        elif action == "remove":
            assert asking.remove(7, first, last) == bool(wanted & set(range(first, last + 1)))
            wanted -= set(range(first, last + 1))
        elif action == "tick":
            asking.tick(now)
            asking.age()
        elif action == "overdue":
            assert asking.overdue(now) > now
        elif action == "again":
            asking.asked(now, 1, packets((first, last)))
        else:
            chosen = asking.choose()
            assert set(chosen.get(7, RangeSet())) <= wanted
            assert len(chosen.get(7, RangeSet())) <= 8
            asking.asked(0.0, 1, chosen)
            assert action == "ask"
        assert set(asking.wanted.get(7, RangeSet())) == wanted
        assert asking.wanted_count == len(wanted)
        assert 0 <= asking.on_their_way <= len(wanted)


def test_a_near_peer_that_is_busy_is_still_near():
    trips = RoundTrips(wanted=True)
    trips.measured(1, 0.0005)
    for _ in range(8):
        trips.measured(1, 0.02)
    assert trips.of(1) > 0.015
    assert not trips.is_far(1)


def test_a_near_peer_whose_repairs_wait_is_still_near_however_many_they_are():
    trips = RoundTrips(wanted=True)
    trips.measured(1, 0.0005)
    for _ in range(1000):
        trips.measured(1, 0.02, may_wait=True)
    assert trips.of(1) > 0.015
    assert not trips.is_far(1)
    trips.measured(1, 0.0001, may_wait=True)
    assert trips.shortest(1) == 0.0001


def test_a_peer_whose_path_has_become_longer_is_far_after_a_while():
    trips = RoundTrips(wanted=True)
    trips.measured(1, 0.0005)
    for _ in range(100):
        trips.measured(1, 0.02)
    assert trips.is_far(1)
    assert not trips.is_far(2)


def test_an_answer_is_waited_for_longer_where_round_trips_vary():
    steady, varying = RoundTrips(wanted=True), RoundTrips(wanted=True)
    for n in range(100):
        steady.measured(1, 0.02)
        varying.measured(1, 0.01 + 0.02 * (n % 2))
    assert steady.patience(1, 1.0) == pytest.approx(0.02, rel=0.01)
    assert varying.patience(1, 1.0) > 0.05
    assert steady.patience(2, 1.0) == steady.patience(1, 1.0)
    assert RoundTrips(wanted=True).patience(1, 1.0) == 1.0
