"""The rate that follows the path, on a link by hand: what it uses, what it drops, whom it leaves room for."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from gossamer.core.messages import SeenReport
from gossamer.flow.bucket import Bucket
from gossamer.flow.meter import Report
from gossamer.flow.path import Path
from gossamer.flow.rate import RateController
from gossamer.flow.repair_share import RepairShare
from gossamer.flow.sent_log import SentLog
from tests.flow.link import PACKET, Lab, Link
from tests.flow.others import Bbr, Greedy

MBIT = 125_000.0


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("delay", [0.0002, 0.001, 0.01, 0.05])
@pytest.mark.parametrize("mbit", [10, 100, 1000])
def test_a_link_is_used_without_overflowing_it(mbit, delay, loss):
    lab = Lab({1: Link(mbit * MBIT, delay, loss=loss)})
    lab.run(1.0)
    came, dropped = lab.over(4.0)[1]
    assert came >= 0.93 * (1 - loss) * mbit * MBIT
    assert dropped <= 0.012


@pytest.mark.parametrize(("delay", "used"), [(0.001, 0.98), (0.01, 0.95), (0.05, 0.8)])
def test_a_new_path_is_soon_full_and_what_overflows_at_first_does_not_slow_it_down(delay, used):
    assert Lab({1: Link(100 * MBIT, delay)}).over(1.0)[1][0] >= used * 100 * MBIT


@pytest.mark.parametrize("delay", [0.001, 0.01])
@pytest.mark.parametrize(("late", "used"), [(0.004, 0.97), (0.008, 0.97), (0.015, 0.8)])
def test_a_sender_on_a_busy_host_fills_a_link_although_it_is_late(late, used, delay):
    """It wakes, and its receiver reads, only so often: the queue has room for what it makes up for."""
    lab = Lab({1: Link(100 * MBIT, delay)}, wakes_every=late, reads_every=late)
    lab.run(2.0)
    came, dropped = lab.over(4.0)[1]
    assert came >= used * 100 * MBIT
    assert dropped <= 0.01


def test_a_late_sender_does_not_send_more_at_once_than_a_short_queue_takes():
    lab = Lab({1: Link(100 * MBIT, 0.001, queue_bytes=64_000)}, wakes_every=0.015, reads_every=0.015)
    lab.run(2.0)
    assert lab.over(4.0)[1][1] <= 0.02


@pytest.mark.parametrize("loss", [0.01, 0.05, 0.2])
def test_random_loss_does_not_slow_a_sender_down(loss):
    """A link so fast that nothing ever queues: what is lost has nothing to do with the rate."""
    rates = []
    for share in (0.0, loss):
        lab = Lab({1: Link(1e12, 0.001, loss=share)}, wants=lambda now: 40e6)
        lab.run(2.0)
        rates.append(lab.over(2.0)[1][0])
    assert rates[1] >= 0.97 * (1 - loss) * rates[0]


@pytest.mark.parametrize(("loss", "bytes_per_s"), [(0.2, 20e3), (0.6, 2e6)])
def test_a_sender_with_little_to_say_is_not_slowed_down_by_random_loss(loss, bytes_per_s):
    """What comes is then what was published, not what the path carries."""
    lab = Lab({1: Link(12.5e6, 0.01, loss=loss)}, wants=lambda now: bytes_per_s).run(10.0)
    assert not lab.controller.is_limiting(lab.now)
    assert lab.bucket.rate > 1e6


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("delay", "jitter"), [(0.01, 0.005), (0.05, 0.025), (0.2, 0.1)])
def test_a_sender_with_little_to_say_is_not_slowed_down_by_delays_that_pass_for_a_queue(delay, jitter, seed):
    line, published = Link(1e12, delay, jitter=jitter), 1_000 * PACKET
    lab = Lab({1: line, 2: line}, seed=seed, wants=lambda now: published)
    assert min(lab.run(0.005).bucket.rate for _ in range(600)) > 2 * published


@pytest.mark.parametrize("mbit", [42, 48])
@pytest.mark.parametrize("delay", [0.001, 0.01, 0.05])
def test_a_path_that_becomes_slower_than_what_is_published_is_followed(delay, mbit):
    """By one that was not limited by it before: a queue that grows is a queue."""
    link = Link(100 * MBIT, delay)
    lab = Lab({1: link}, wants=lambda now: mbit * MBIT).run(2.0)
    link.rate = 40 * MBIT
    came, dropped = lab.over(1.0)[1]
    assert came >= 0.97 * 40 * MBIT
    assert dropped <= 0.01


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize(("delay", "jitter"), [(0.01, 0.005), (0.05, 0.025), (0.2, 0.1)])
def test_packets_that_overtake_each_other_are_no_queue_and_not_lost(delay, jitter, loss, seed):
    """A sender of 1,000 packets a second, on lines that carry all of them, each after a time of its own."""
    line = Link(1e12, delay, jitter=jitter, loss=loss)
    lab = Lab({1: line, 2: line}, seed=seed, wants=lambda now: 1_000 * PACKET)
    waiting = max(lab.run(0.02).owed for _ in range(300))
    assert waiting < 100 * PACKET


@pytest.mark.parametrize(("delay", "jitter"), [(0.01, 0.005), (0.05, 0.025)])
def test_a_link_that_reorders_is_used_without_overflowing_it(delay, jitter):
    lab = Lab({1: Link(100 * MBIT, delay, jitter=jitter)})
    lab.run(2.0)
    came, dropped = lab.over(4.0)[1]
    assert came >= 0.85 * 100 * MBIT
    assert dropped <= 0.02


def test_the_queue_stays_short():
    lab = Lab({1: Link(100 * MBIT, 0.005)})
    lab.run(2.0)
    waits = [lab.run(0.01).links[1].queued / (100 * MBIT) for _ in range(200)]
    assert max(waits) <= 0.012
    assert sum(waits) / len(waits) <= 0.007


def test_a_link_that_becomes_slower_or_faster_is_followed():
    lab = Lab({1: Link(100 * MBIT, 0.002)}).run(3.0)
    for mbit in (10, 100, 40):
        lab.links[1].rate = mbit * MBIT
        lab.run(1.5)
        came, dropped = lab.over(2.0)[1]
        assert came >= 0.93 * mbit * MBIT
        assert dropped <= 0.01


def test_a_host_that_stands_still_now_and_then_does_not_lose_its_rate():
    lab = Lab({1: Link(100 * MBIT, 0.01)}).run(2.0)
    for _ in range(5):
        lab.stalled_until = lab.now + 0.05
        lab.run(0.5)
    came, dropped = lab.over(2.0)[1]
    assert came >= 0.95 * 100 * MBIT
    assert dropped <= 0.01


@pytest.mark.parametrize("delay", [0.001, 0.02])
@pytest.mark.parametrize("first", ["we", "they", "both"])
def test_a_flow_that_fills_the_queue_and_we_get_at_least_a_quarter_each(delay, first):
    link = Link(100 * MBIT, delay)
    lab = Lab({1: link}, wants=lambda now: 0.0 if first == "they" and now < 103.0 else 1e12)
    if first == "we":
        lab.run(3.0)
    link.others = Greedy(100 * MBIT, delay)
    lab.run(4.0)
    theirs = link.carried_of_others
    came, _ = lab.over(12.0)[1]
    assert came >= 0.25 * 100 * MBIT
    assert link.carried_of_others - theirs >= 0.25 * 100 * MBIT * 12.0


@pytest.mark.parametrize(("delay", "first"), [(0.01, "they"), (0.02, "they"), (0.01, "we")])
def test_beside_a_flow_that_minds_no_losses_we_get_a_fifth_at_least_and_leave_it_as_much(delay, first):
    """A model of BBR; beside the real one see `benchmarks/bench_network.py`."""
    link = Link(100 * MBIT, delay)
    lab = Lab({1: link}, wants=lambda now: 0.0 if first == "they" and now < 103.0 else 1e12)
    if first == "we":
        lab.run(3.0)
    link.others = Bbr(100 * MBIT, delay)
    lab.run(4.0)
    theirs = link.carried_of_others
    came, _ = lab.over(12.0)[1]
    assert came >= 0.2 * 100 * MBIT
    assert link.carried_of_others - theirs >= 0.2 * 100 * MBIT * 12.0


@pytest.mark.parametrize("delay", [0.01, 0.02])
def test_beside_a_flow_that_minds_no_losses_it_is_known_what_the_link_carries_in_all(delay):
    """Of what we send some is lost before a probe already: that is not ours to count as delivered."""
    link = Link(100 * MBIT, delay, others=Bbr(100 * MBIT, delay))
    lab = Lab({1: link}, wants=lambda now: 0.0 if now < 103.0 else 1e12)
    lab.run(8.0)
    known = [lab.run(0.1).controller.paths[1].share.capacity for _ in range(80)]
    assert 0.7 * 100 * MBIT <= sum(known) / len(known) <= 1.4 * 100 * MBIT


def test_a_receiver_that_shares_its_link_is_not_let_go_for_it():
    """A moment in which it is tried costs what the link cannot take. Beside one that minds no losses it has a third."""
    link = Link(100 * MBIT, 0.02, others=Bbr(100 * MBIT, 0.02))
    lab = Lab({1: link, 2: Link(100 * MBIT, 0.02)}, wants=lambda now: 0.0 if now < 104.0 else 1e12)
    lab.run(8.0)
    before, theirs = lab.received[1], link.carried_of_others
    assert not any(lab.run(0.02).lagging for _ in range(400))
    assert (lab.received[1] - before) * PACKET >= 0.3 * 100 * MBIT * 8.0
    assert link.carried_of_others - theirs >= 0.3 * 100 * MBIT * 8.0


def test_a_receiver_that_gets_most_of_its_link_is_let_go_even_if_others_seem_to_be_on_it():
    """As long as the sender goes at its pace, nobody was seen to take more."""
    controller, let_go = RateController(), list[int]()
    controller.view_changed(0.0, [1, 2, 3], 40 * MBIT)
    slow = controller.paths[3]
    slow.rate = slow.meter.came = slow.meter.sent = 10 * MBIT
    slow.share.measured(0.0, slow.meter, 0.005)
    slow.share.is_contested = True
    for path in controller.paths.values():
        path.share.capacity = 15 * MBIT
    for step in range(300):
        for path in controller.paths.values():
            path.heard_at = step / 100
        controller.judge(step / 100, let_go, let_go.append, let_go.remove)
    assert let_go == [3]


def test_a_link_that_has_become_slower_is_not_taken_for_one_that_others_use():
    lab = Lab({1: Link(100 * MBIT, 0.002)}).run(3.0)
    lab.links[1].rate = 20 * MBIT
    lab.run(5.0)
    assert not lab.controller.paths[1].share.is_contested
    assert lab.over(5.0)[1][1] <= 0.001


def test_a_receiver_beside_a_flow_that_fills_its_queue_is_waited_for():
    """It takes much less than the other, but not because its link carries less."""
    link = Link(100 * MBIT, 0.005)
    lab = Lab({1: Link(100 * MBIT, 0.005), 2: link})
    link.others = Greedy(100 * MBIT, 0.005)
    lab.run(4.0)
    theirs = link.carried_of_others
    came, _ = lab.over(8.0)[2]
    assert not lab.lagging
    assert came >= 0.25 * 100 * MBIT
    assert link.carried_of_others - theirs >= 0.25 * 100 * MBIT * 8.0


def test_a_receiver_whose_slow_link_others_use_too_does_not_hold_up_the_rest():
    link = Link(10 * MBIT, 0.005, others=Greedy(10 * MBIT, 0.005))
    lab = Lab({1: Link(100 * MBIT, 0.005), 2: Link(100 * MBIT, 0.005), 3: link})
    lab.run(6.0)
    assert lab.lagging == {3}
    assert lab.over(4.0)[1][0] >= 0.9 * 100 * MBIT


def test_a_receiver_that_is_much_slower_is_let_go_and_the_others_get_all():
    lab = Lab({1: Link(100 * MBIT, 0.001), 2: Link(100 * MBIT, 0.001), 3: Link(10 * MBIT, 0.001)})
    lab.run(2.0)
    assert lab.lagging == {3}
    for member in (1, 2):
        came, dropped = lab.over(1.0)[member]
        assert came >= 0.95 * 100 * MBIT
        assert dropped <= 0.01


@pytest.mark.parametrize("delay", [0.001, 0.01])
def test_a_receiver_through_which_next_to_nothing_comes_is_let_go_at_once(delay):
    """The others get in the first second what they get on their own; three times as much was dropped as there."""
    alone = Lab({1: Link(100 * MBIT, delay), 2: Link(100 * MBIT, delay)}).run(1.0)
    lab = Lab({1: Link(100 * MBIT, delay), 2: Link(100 * MBIT, delay), 3: Link(10 * MBIT, delay)})
    lab.run(0.15)
    assert lab.lagging == {3}
    lab.run(0.85)
    assert lab.received[1] >= 0.95 * alone.received[1]
    assert lab.dropped[1] <= 1.5 * alone.dropped[1]


def test_a_receiver_beside_a_flow_that_begins_with_us_is_not_let_go_at_once():
    """It gets a share of a path that carries as much as those of the others."""
    for delay in (0.001, 0.005, 0.02):
        links = {member: Link(100 * MBIT, delay) for member in (1, 2)}
        lab = Lab({**links, 3: Link(100 * MBIT, delay, others=Bbr(100 * MBIT, delay))})
        assert not any(lab.run(0.01).lagging for _ in range(70))


@pytest.mark.parametrize("late", [0.001, 0.004, 0.008])
@pytest.mark.parametrize("seed", range(1, 9))
def test_a_slow_receiver_is_let_go_soon_also_by_hosts_that_stand_still_at_times(seed, late):
    """Its queue may be gone for a moment, and nobody was seen to take more as long as it is waited for."""
    links = {member: Link(100 * MBIT, 0.001) for member in (1, 2, 4)}
    lab = Lab({**links, 3: Link(10 * MBIT, 0.001)}, seed=seed, wakes_every=late, reads_every=late)
    chance = Random(seed)
    while lab.now < 100.7:
        if chance.random() < 0.05:
            lab.stalled_until = lab.now + chance.choice((0.02, 0.05))
        if chance.random() < 0.05:
            lab.reads_at[3] = lab.now + chance.choice((0.02, 0.05))
        lab.run(0.01)
    assert lab.lagging == {3}


def test_a_receiver_that_is_a_little_slower_is_followed():
    lab = Lab({1: Link(100 * MBIT, 0.001), 2: Link(80 * MBIT, 0.001)})
    lab.run(4.0)
    assert not lab.lagging
    came, dropped = lab.over(10.0)[2]
    assert came >= 0.95 * 80 * MBIT
    assert dropped <= 0.01


def test_if_most_are_slow_the_sender_goes_at_their_rate():
    lab = Lab({1: Link(100 * MBIT, 0.001), 2: Link(10 * MBIT, 0.001), 3: Link(10 * MBIT, 0.001)})
    lab.run(3.0)
    assert not lab.lagging
    assert lab.over(2.0)[2][1] <= 0.01


def test_a_receiver_that_died_does_not_hold_the_rate_down():
    lab = Lab({1: Link(100 * MBIT, 0.001), 2: Link(100 * MBIT, 0.001)}).run(2.0)
    lab.controller.paths[2].rate = 1e5
    del lab.links[2]  # it says nothing any more
    lab.run(2.0)
    assert lab.bucket.rate >= 0.9 * 100 * MBIT


def test_a_receiver_that_was_cut_off_does_not_hold_the_rate_down_when_it_is_back():
    """That nothing came for seconds is no sign of a full path."""
    lab = Lab({1: Link(100 * MBIT, 0.001), 2: Link(100 * MBIT, 0.001)}).run(2.0)
    lab.links[2].loss = 1.0
    lab.run(3.0)
    lab.links[2].loss = 0.0
    lowest = min(lab.run(0.01).bucket.rate for _ in range(50))
    assert lowest >= 0.2 * 100 * MBIT
    assert not lab.lagging


def test_two_senders_whose_clocks_differ_by_years_see_the_same_path():
    labs = [Lab({1: Link(50 * MBIT, 0.004)}, clock_offset=offset).run(2.0) for offset in (0.0, 1e8)]
    rates = [lab.over(1.0)[1][0] for lab in labs]
    assert rates[0] == pytest.approx(rates[1], rel=0.02)


def test_reports_that_cannot_be_true_change_nothing():
    lab = Lab({1: Link(100 * MBIT, 0.001)}).run(2.0)
    before = lab.bucket.rate
    path = lab.controller.paths[1]
    newest = lab.sent - 1
    good = SeenReport(newest, newest, lab.received[1], 1)
    for report in (
        SeenReport(2**62, 2**62, 2**62, 2**62),  # never sent
        SeenReport(newest, newest, 0, 1),  # before it was sent, and from a clock that went back
        SeenReport(newest, 0, 2**62, 2**62),  # forgotten long ago, or older than the last
    ):
        lab.controller.reported(lab.now, 1, report)
    lab.controller.reported(lab.now, 77, good)  # not a receiver
    assert lab.controller.rate(lab.now, ()) == before
    assert 0.0 < path.rate < inf


def test_a_bucket_allows_a_millisecond_at_a_time():
    bucket = Bucket(10e6)
    sent = 0
    for step in range(1000):
        now = 1.0 + step * 0.001
        while bucket.room(now) > 0:
            bucket.spend(1000)
            sent += 1000
    assert sent == pytest.approx(10e6, rel=0.02)
    assert bucket.room(5.0) <= 96_000  # a sender that was late for seconds does not make up for them
    assert Bucket(200e6).room(5.0) == 200e3


def test_a_packet_that_is_longer_than_a_burst_goes_and_the_next_one_waits():
    bucket = Bucket(1e6)
    assert bucket.room(1.0) > 0
    bucket.spend(60_000)
    assert bucket.room(1.0) < 0
    assert bucket.wait(1.0) == pytest.approx(0.04, rel=0.1)


def test_the_log_of_bursts_forgets_the_oldest_and_knows_the_rest():
    log = SentLog()
    for burst in range(40_000):
        log.add(burst * 0.001, burst * 10, 10, 10_000)
    assert log.find(0) is None
    assert log.find(400_000) is None
    found = log.find(399_994)
    assert found is not None
    assert found.at == pytest.approx(39.999)
    assert found.total_bytes == pytest.approx(399_995_000)


def test_a_sender_that_has_let_go_of_everybody_keeps_the_rate_of_the_best():
    controller = RateController()
    controller.view_changed(0.0, [1, 2], 1e6)
    controller.paths[1].rate, controller.paths[2].rate = 2e6, 3e6
    assert controller.rate(0.0, [1, 2]) == 3e6


@pytest.mark.parametrize("limited", [False, True])
def test_repairs_take_half_of_a_rate_that_a_path_sets(limited):
    whole = Bucket(1.5e6)
    share = RepairShare(whole, lambda now: limited)
    granted = sum(share.take(ms / 1000, 100) for ms in range(1, 1001))
    if limited:
        assert 450 <= granted <= 550  # of 1,000 packets
        assert whole.room(1.0) < 0.3e6 + 0.5 * 1.5e6
        assert share.when(1.0) > 1.0
    else:
        assert granted == 100_000
        assert share.when(1.0) == 1.0


def test_without_receivers_there_is_no_limit():
    controller = RateController()
    controller.view_changed(0.0, [], inf)
    assert controller.rate(0.0, ()) == inf


def test_repairs_are_not_limited_once_the_last_receiver_of_a_full_path_has_left():
    controller = RateController()
    controller.view_changed(0.0, [1], inf)
    controller.had_to_wait(1.0)
    controller.view_changed(1.1, [], controller.rate(1.1, ()))
    share = RepairShare(Bucket(controller.rate(1.1, ())), controller.is_limiting)
    assert share.take(1.1, 100) == 100


def test_the_share_of_repairs_is_finite_however_it_is_asked_for_first():
    whole = Bucket(inf)
    share = RepairShare(whole, lambda now: True)
    whole.rate = 1.5e6
    assert share.when(1.0) == 1.0
    assert 0 < share.take(1.0, 100) < 100


def test_losses_by_chance_are_no_queue_that_overflows():
    path, rng, received, overflows = Path(0.0, 4e6), Random(1), 0, 0
    for turn in range(1, 2001):
        received += sum(rng.random() >= 0.05 for _ in range(60))
        report = Report(turn * 0.005 + 0.001, turn * 60 - 1, received, turn * 0.005, turn * 60.0 * 1100)
        path.reported(turn * 0.005 + 0.002, report, limited_at=turn * 0.005)
        overflows += turn > 500 and path.overflows  # by then it is known what the line loses
    assert overflows <= 0.002 * 1500


def test_a_bucket_whose_limit_ends_has_room_at_once():
    bucket = Bucket(1e6)
    bucket.spend(5000)
    assert not bucket.has_room(0.001)
    bucket.rate = inf
    assert bucket.has_room(0.001)
    assert bucket.wait(0.001) == 0.0
