"""SRM (Floyd, Jacobson, Liu, McCanne, Zhang: A Reliable Multicast Framework for Light-weight Sessions and Application
Level Framing; SIGCOMM 1995, IEEE/ACM ToN 1997), as 000 and 004 compare with it: sentence by sentence.
"""

from __future__ import annotations

from math import log10
from random import Random
from statistics import mean

import pytest

from gossamer.core.effects import Multicast
from gossamer.core.inputs import Heard, LeaveAsked, Received, ViewChanged
from gossamer.core.messages import AskAll, Data, Repair, Request, Session
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.schema import SettingError
from gossamer.presets import preset
from gossamer.repair.srm_timers import Spread
from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse

from .hand import Letter, Table

FAR = 0.1
"""One way between any two members, in seconds, unless a test says otherwise."""


def seated(members: int = 4, seed: int = 1, **settings) -> Table:
    """Members that know how far they are, and do not say how far they have seen."""
    table = Table("srm", members, seed=seed, **{"session_period": 3600.0, "peer_rounds": 4000, **settings})
    for member, stack in table.stacks.items():
        for other in range(members):
            if other != member:
                stack.round_trips.measured(other, 2 * FAR)
    return table


def gap(table: Table, member: int, count: int = 1) -> None:
    """Member 0 publishes; the first packets do not reach `member`, the last one does."""
    table.publish(0, count + 1)
    table.pass_on(lambda letter: letter.to != member or letter.message.packet.seqno == count)


def says(table: Table, member: int, kind: type, within: float) -> float:
    """How long until `member` says something of this kind; nobody hears it."""
    began = table.now
    while table.stacks[member].next_deadline() <= began + within:
        table.wait(table.stacks[member].next_deadline() - table.now, pass_on=False)
        if any(letter.source == member for letter in table.take(kind)):
            return table.now - began
    return float("inf")


def ask(table: Table, to: int, source: int, *numbers: int, sender: int = 0) -> None:
    table.hand(Letter(source, to, AskAll({sender: RangeSet((n, n) for n in numbers)})))


# Requests.


def test_a_request_waits_between_c1_and_c1_plus_c2_distances_of_the_source():
    """A timer uniform on [C1 d, (C1 + C2) d], d the estimated one-way delay to the source; C1 = C2 = 2."""
    waits = []
    for seed in range(200):
        table = seated(seed=seed)
        gap(table, 1)
        waits.append(says(table, 1, AskAll, 1.0) / FAR)
    assert all(2.0 <= wait <= 4.0 for wait in waits)
    assert mean(waits) == pytest.approx(3.0, abs=0.15)
    assert min(waits) < 2.2
    assert max(waits) > 3.8


def test_a_request_goes_to_everybody():
    table = seated()
    gap(table, 1)
    table.wait(0.41, pass_on=False)
    asked = table.take(AskAll)
    assert [letter.to for letter in asked] == [0, 2, 3]
    assert asked[0].message.wanted == {0: RangeSet([(0, 0)])}


def test_a_member_that_is_nearer_to_the_source_asks_before_one_that_is_farther():
    """Deterministic suppression, C2 = 0; in a chain there is one request, and one repair."""
    table = seated(4, request_spread=0.0, repair_spread=0.0)
    for member, stack in table.stacks.items():
        stack.round_trips.times = {other: 2 * FAR * abs(other - member) for other in range(4) if other != member}
    table.publish(0, 2)
    table.pass_on(lambda letter: letter.message.packet.seqno == 1)  # lost before it reached anybody
    table.wait(2 * FAR, pass_on=False)
    asked = table.take(AskAll)
    assert {letter.source for letter in asked} == {1}
    for letter in asked:
        table.hand(letter)
    table.wait(FAR, pass_on=False)
    assert {letter.source for letter in table.letters} == {0}
    table.pass_on()
    table.wait(2.0, pass_on=False)
    assert not table.take(AskAll, Repair)
    assert all(sorted(table.numbers(member, 0)) == [0, 1] for member in range(4))


def test_a_member_that_hears_its_own_request_backs_off_to_twice_the_interval():
    """Exponential backoff: the next timer is on [2 C1 d, 2 (C1 + C2) d]."""
    for seed in range(50):
        table = seated(seed=seed)
        gap(table, 1)
        ask(table, 1, 2, 0)
        assert 4.0 <= says(table, 1, AskAll, 2.0) / FAR <= 8.0


def test_a_request_that_brings_nothing_is_repeated_after_ever_longer_pauses():
    table = seated()
    gap(table, 1)
    for doublings in range(5):
        assert 2.0 * 2**doublings <= says(table, 1, AskAll, 20.0) / FAR <= 4.0 * 2**doublings


def test_a_further_request_soon_after_does_not_back_off_again():
    """The ignore-backoff time is halfway to the new timer: until then, requests are of the same round."""
    table = seated()
    gap(table, 1)
    ask(table, 1, 2, 0)
    losses = table.stacks[1].gaps.repairs[0].losses
    due = losses.next_due()
    table.now += (due - table.now) * 0.49
    ask(table, 1, 3, 0)
    assert losses.next_due() == due
    table.now += (due - table.now) * 0.5
    ask(table, 1, 3, 0)
    assert 2.0 * 4 <= (losses.next_due() - table.now) / FAR <= 4.0 * 4


def test_only_what_another_asked_for_is_not_asked_for():
    table = seated()
    gap(table, 1, 4)
    ask(table, 1, 2, 1, 2)
    says(table, 1, AskAll, 0.0)
    table.wait(0.41, pass_on=False)
    assert table.take(AskAll)[0].message.wanted == {0: RangeSet([(0, 0), (3, 3)])}


def test_a_packet_that_was_only_late_is_not_asked_for():
    table = seated()
    gap(table, 1)
    table.step(1, Received(0, [Packet(0, 0, b"late")], "first_pass"))
    table.wait(5.0, pass_on=False)
    assert not table.take(AskAll)


def test_a_request_tells_of_packets_that_were_not_known_to_exist():
    table = seated()
    ask(table, 1, 2, 3)
    assert table.stacks[1].streams[0].missing == RangeSet([(0, 3)])


# Repairs.


def test_anybody_who_has_a_packet_repairs_it_after_d1_to_d1_plus_d2_distances_of_the_requester():
    """Uniform on [D1 d, (D1 + D2) d], d the delay to the member that asked; D1 = D2 = log10 G."""
    waits = []
    for seed in range(200):
        table = seated(4, seed=seed)
        gap(table, 1)
        ask(table, 2, 1, 0)
        waits.append(says(table, 2, Repair, 1.0) / FAR)
    assert all(log10(4) <= wait <= 2 * log10(4) for wait in waits)
    assert mean(waits) == pytest.approx(1.5 * log10(4), abs=0.05)


def test_a_repair_goes_to_everybody():
    table = seated()
    gap(table, 1)
    ask(table, 2, 1, 0)
    table.wait(0.2, pass_on=False)
    assert [letter.to for letter in table.take(Repair)] == [0, 1, 3]


def test_a_member_that_hears_the_repair_is_silent():
    table = seated()
    gap(table, 1)
    ask(table, 2, 1, 0)
    table.hand(Letter(3, 2, Repair(Packet(0, 0, b"x" * 100), "peer")))
    table.wait(5.0, pass_on=False)
    assert not table.take(Repair)


@pytest.mark.parametrize(("pause", "answered"), [(2.9, False), (3.1, True)])
def test_requests_are_not_answered_for_three_distances_after_a_repair(pause, answered):
    """Hold-down: further requests for the packet are ignored for 3 d after a repair was sent or heard."""
    table = seated()
    gap(table, 1)
    ask(table, 2, 1, 0)
    said = says(table, 2, Repair, 1.0)
    assert said < 1.0
    table.now += pause * FAR
    ask(table, 2, 3, 0)
    table.wait(1.0, pass_on=False)
    assert bool(table.take(Repair)) == answered


def test_a_repair_that_was_heard_holds_down_as_well():
    table = seated()
    gap(table, 1)
    table.hand(Letter(3, 2, Repair(Packet(0, 0, b"x" * 100), "peer")))
    table.now += 2.9 * FAR
    ask(table, 2, 1, 0)
    table.wait(1.0, pass_on=False)
    assert not table.take(Repair)


def test_each_packet_of_a_request_has_a_timer_of_its_own():
    """So that several members share the repairs of a long gap."""
    table = seated()
    gap(table, 1, 20)
    ask(table, 2, 1, *range(20))
    waits = [says(table, 2, Repair, 1.0) for _ in range(20)]
    assert all(0.0 < wait < 1.0 for wait in waits)


# Session messages.


def test_session_messages_show_that_a_last_packet_was_lost():
    """Each member's session messages report the highest number that it has of every source."""
    table = seated()
    table.publish(0, 3)
    table.pass_on(lambda letter: letter.to != 1)
    table.hand(Letter(2, 1, Session({0: 2})))
    assert table.stacks[1].streams[0].missing == RangeSet([(0, 2)])


def test_a_member_that_leaves_says_how_far_it_came():
    table = seated()
    table.publish(0, 3)
    table.letters.clear()
    said = [effect.message for effect in table.step(0, LeaveAsked()) if isinstance(effect, Multicast)]
    assert said[0].lasts == {0: 2}


def test_times_in_session_messages_give_distances_whatever_time_they_were_held():
    """Host B returns A's time with the time that passed since: no clocks have to agree."""
    table = Table("srm", 2, session_period=1000.0)
    table.now = 5.0
    asked = table.stacks[0].gaps.repairs[0].sessions.messages(table.now)[0]
    table.now = 5.2
    table.step(1, Heard(0, asked))
    table.now = 7.2
    answer = table.stacks[1].gaps.repairs[0].sessions.messages(table.now)[0]
    table.now = 7.5
    table.step(0, Heard(1, answer))
    assert table.stacks[0].round_trips.times[1] == pytest.approx(0.2 + 0.3, abs=1e-5)


def test_known_distances_are_not_asked_for_in_every_message():
    """The kernel's echoes of gossip may have told them: one table for both."""
    table = seated()
    sessions = table.stacks[0].gaps.repairs[0].sessions
    stamps = [sessions.messages(1.0 + n)[0].stamp for n in range(15)]
    assert not any(stamps)
    assert sessions.messages(20.0)[0].stamp


@pytest.mark.parametrize("members", [12, 96])
def test_session_messages_take_a_twentieth_of_the_bandwidth_of_the_data(members):
    """The rate of session messages adapts to the number of members, so that they take no more than 5%.

    At first, while nobody knows how far the others are, they take more.
    """

    def after(seconds: float) -> int:
        table = {
            "duration": seconds,
            "linger": 1.0,
            "topology": {"kind": "star", "members": members},
            "traffic": {"senders": 1, "rate": 20.0, "size": 500, "arrivals": "steady"},
            "protocol": {"name": "srm"},
        }
        return simulate(parse(table))["overhead"]["bytes"]

    share = (after(120.0) - after(60.0)) / (60.0 * 20.0 * 500)
    assert 0.01 < share < 0.05


def test_in_an_idle_group_at_least_one_member_speaks_in_every_period():
    table = Table("srm", 20)
    table.wait(20.0)
    table.letters.clear()
    said = []
    for _ in range(100):
        table.wait(1.0, pass_on=False)
        said.append(len({letter.source for letter in table.take(Session)}))
    assert 0.7 < mean(said) < 2.0


def test_newcomers_hear_session_messages_soon():
    table = Table("srm", 3)
    table.wait(60.0)
    table.seat(3, (0, 1, 2, 3))
    for member in range(3):
        table.step(member, ViewChanged((0, 1, 2, 3)))
    table.wait(10.0)
    assert set(table.stacks[3].round_trips.times) == {0, 1, 2}


# The adaptive version.


def adapted(**history) -> Spread:
    spread = Spread(2.0, 2.0, 2.0, adapts=True)
    spread.begin(10)
    for _ in range(history.get("rounds", 1)):
        for _ in range(history.get("duplicates", 0)):
            spread.duplicates += 1
            if history.get("farther"):
                spread.duplicate_from_afar()
        for _ in range(5):
            spread.delayed(history.get("delay", 0.0))
        spread.begin(10)
    return spread


def test_many_duplicates_make_the_interval_later_and_wider():
    """At the average of one duplicate or more, C1 += 0.1 and C2 += 0.5."""
    first, width = adapted(duplicates=8).interval(10)
    assert (first, width) == (pytest.approx(2.0), pytest.approx(2.5))  # C1 is at its bound


def test_few_duplicates_and_a_long_delay_make_it_narrower_and_earlier():
    """C2 -= 0.1 if the delay is above one round trip; C1 -= 0.05 with less than a quarter of a duplicate."""
    assert adapted(delay=5.0).interval(10) == (pytest.approx(1.95), pytest.approx(1.9))
    assert adapted(delay=0.5).interval(10) == (pytest.approx(1.95), pytest.approx(2.0))


def test_a_member_that_asked_and_heard_duplicates_from_farther_away_narrows_its_interval():
    assert adapted(duplicates=8, farther=True).interval(10)[1] == pytest.approx(1.9)


def test_a_member_that_speaks_first_will_speak_sooner():
    spread = adapted()
    before = spread.interval(10)[0]
    spread.spoke(10)
    assert spread.interval(10)[0] == pytest.approx(before - 0.05)


def test_adapted_intervals_stay_within_their_bounds():
    """C1 in [0.5, 2], C2 in [1, G]; D1 in [0.5, log10 G], D2 in [1, G]."""
    assert adapted(duplicates=9, rounds=100).interval(10) == (2.0, 10.0)
    assert adapted(delay=9.0, rounds=100).interval(10) == (0.5, 1.0)
    repairs = Spread(-1.0, -1.0, -1.0, adapts=True)
    repairs.begin(1000)
    assert repairs.interval(1000) == (3.0, 3.0)


def test_adapted_requests_back_off_by_three():
    """Narrow intervals need a larger factor, or a request of the next round would come before the repair."""
    table = seated(adaptive_timers=True)
    gap(table, 1)
    ask(table, 1, 2, 0)
    assert 3 * 1.9 <= says(table, 1, AskAll, 5.0) / FAR <= 3 * 4.0


# How many requests and repairs there are.


def counted(topology: str, members: int, seed: int, **settings) -> tuple[int, int]:
    """Requests and repairs after one packet is lost on a link near its source, and by all beyond."""
    table = {
        "seed": seed,
        "duration": 12.0,
        "linger": 20.0,
        "topology": {"kind": topology, "members": members, "latency": 0.01, "branching": 4},
        "traffic": {"senders": 1, "rate": 1.0, "size": 500, "arrivals": "steady"},
        "protocol": {"name": "srm", **settings},
        "fault": [{"at": 9.0, "kind": "partition", "members": [[0], list(range(1, members))], "for": 1.0}],
    }
    result = simulate(parse(table))
    assert result["packets"]["everywhere"] == result["packets"]["sent"]
    return result["overhead_by_kind"]["request"]["packets"], result["repairs"]["sent"]


@pytest.mark.parametrize("width", [2.0, 10.0, 40.0])
def test_in_a_star_the_number_of_requests_falls_with_the_width_of_the_interval(width):
    """All are equally far, and a request is heard after as long as one from the source takes: 1 + (G - 2) / C2.

    Some go again before the repair can come, which the formula leaves out.
    """
    counts = [counted("star", 21, seed, request_spread=width) for seed in range(20)]
    expected = 1 + (21 - 2) / width
    assert mean(requests for requests, _ in counts) == pytest.approx(expected, rel=0.35)
    assert all(repairs == 1 for _, repairs in counts)  # nobody but the source has it


# The end of a gap, and the chain.


def test_a_gap_that_nobody_can_fill_is_lost_in_the_end():
    table = seated(peer_rounds=40)
    table.step(1, Received(2, [Packet(2, 5, b"x")], "first_pass"))
    table.wait(9.9)
    assert not table.lost.get(1)
    table.wait(0.2)
    assert [(lost.sender, lost.first, lost.last) for lost in table.lost[1]] == [(2, 0, 4)]
    table.letters.clear()
    table.wait(60.0, pass_on=False)
    assert not table.take(AskAll)


def test_with_a_logger_a_gap_moves_on_after_a_few_requests():
    """000 §4.3: SRM can be swapped in for gossip as long as missing packets move on to the logger in the end."""
    table = seated(loggers=(3,), request_tries=3)
    gap(table, 1)
    asked = 0
    while not (to_logger := table.take(Request)):
        at = min(stack.next_deadline() for stack in table.stacks.values())
        table.wait(at - table.now, pass_on=False)
        asked += bool(table.take(AskAll))
    assert asked == 3
    assert (to_logger[0].source, to_logger[0].to) == (1, 3)


def test_rpbcast_takes_srm_for_its_peers_and_the_logger_has_the_last_word():
    """000 §2.2, §4.3: the thesis's sentence."""
    table = Table("rpbcast", 5, loggers=(4,), repair=["srm", "logger"])
    table.publish(0, 6)
    table.pass_on(lambda letter: not (isinstance(letter.message, Data) and letter.to in (1, 2)))
    table.wait(10.0)
    assert all(sorted(table.numbers(member, 0)) == list(range(6)) for member in range(5))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"buffering": "none"}, "needs members that keep packets for each other"),
        ({"repair": ["logger", "srm"]}, "logger must come last"),
        ({"repair": ["srm", "srm"]}, "names a repair twice"),
        ({"session_share": 0.0}, "must be above 0"),
        ({"repair_wait": -2.0}, "must be at least -1"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(settings, says):
    with pytest.raises(SettingError, match=says) as refused:
        preset("srm", settings)
    assert "\n" not in str(refused.value)


# What others may claim.


def test_a_request_of_a_stranger_is_not_answered():
    table = seated()
    gap(table, 1)
    ask(table, 2, 99, 0)
    table.wait(5.0, pass_on=False)
    assert not table.take(Repair)
    assert table.stacks[2].ignored["not from a member"] == 1


def test_one_request_brings_a_limited_number_of_repairs():
    table = seated(service_limit=0)
    table.publish(0, 1000)
    table.pass_on()
    ask(table, 2, 1, *range(1000))
    table.wait(5.0, pass_on=False)
    assert len(table.take(Repair)) == 3 * 256


def test_repairs_keep_within_the_service_limit():
    table = seated(service_limit=50)
    table.publish(0, 1000)
    table.pass_on()
    for begin in range(0, 1000, 200):
        ask(table, 2, 1, *range(begin, begin + 200))
    table.wait(2.0, pass_on=False)
    assert 50 <= len(table.take(Repair)) / 3 <= 101


def test_forged_requests_for_every_other_packet_split_a_gap_only_so_far():
    table = seated()
    gap(table, 1, 5000)
    for _ in range(3):
        ask(table, 1, 2, *range(0, 5000, 2))
    for n in range(0, 2000, 2):
        ask(table, 1, 3, n)
    losses = table.stacks[1].gaps.repairs[0].losses
    assert sum(1 for _ in losses) <= 256
    assert sum(len(loss.numbers) for loss in losses) == 5000
    for _ in range(3):
        table.wait(60.0, pass_on=False)
        assert all(sum(map(len, letter.message.wanted.values())) <= 256 for letter in table.take(AskAll))


def test_what_nobody_has_is_asked_for_together_however_it_was_split():
    """A sender that comes back without its memory leaves out a thousand numbers, of which nobody can know anything."""
    table = seated(request_packets=16)
    for stack in table.stacks.values():
        for other in range(4):
            stack.round_trips.times[other] = 0.01
    for member in (1, 2, 3):
        table.step(member, Heard(0, Session({0: 399})))
    table.wait(20.0)
    for member in (1, 2, 3):
        (srm,) = table.stacks[member].gaps.repairs
        assert len(list(srm.losses)) <= 4
        assert sum(len(loss.numbers) for loss in srm.losses) == 400
    before = requests(table)
    table.wait(10.0)
    assert requests(table) - before <= 10 * 3 * 4


def requests(table: Table) -> int:
    """The requests of all members so far."""
    said = (effect for effects in table.effects.values() for effect in effects if isinstance(effect, Multicast))
    return sum(isinstance(effect.message, AskAll) for effect in said)


def test_a_member_that_has_lost_very_much_asks_for_it_in_parts():
    table = seated(peer_rounds=40_000)
    gap(table, 1, 20_000)
    table.wait(0.41, pass_on=False)
    asked = table.take(AskAll)[0].message
    assert sum(map(len, asked.wanted.values())) == 256


@pytest.mark.parametrize("claim", [Session({0: 1 << 62}), AskAll({0: RangeSet.span(0, 1 << 62)})])
def test_numbers_that_cannot_be_are_not_believed(claim):
    table = seated()
    table.step(1, Heard(2, claim))
    assert not table.stacks[1].streams.get(0)
    assert table.stacks[1].ignored["numbers too high"] == 1


def test_a_time_that_cannot_be_is_neither_believed_nor_returned():
    table = seated()
    table.now = 1e9
    table.step(1, Heard(2, Session({}, stamp=(1 << 63) - 1, echoes={1: 1})))
    assert table.stacks[1].round_trips.times[2] == 2 * FAR
    sessions = table.stacks[1].gaps.repairs[0].sessions
    assert sessions.messages(table.now)[0].echoes == {}


def test_a_member_that_lies_about_the_time_delays_a_request_by_seconds_at_most():
    table = seated()
    table.stacks[1].round_trips.times[0] = 50.0
    gap(table, 1)
    assert says(table, 1, AskAll, 10.0) <= 4.0


def test_session_messages_of_large_groups_name_a_part_of_it_in_turn():
    table = seated(2)
    stack = table.stacks[0]
    for sender in range(1, 200):
        stack.streams.begin(sender, 5)
    sessions = stack.gaps.repairs[0].sessions
    named = [set(sessions.messages(float(n))[0].lasts) for n in range(1, 5)]
    assert all(len(some) == 64 for some in named)
    assert set().union(*named) >= set(range(1, 200))


def test_a_process_that_is_no_member_asks_for_nothing():
    table = seated()
    gap(table, 1)
    table.stacks[1].end()
    table.wait(60.0, pass_on=False)
    assert not table.take(AskAll)
    assert not table.lost.get(1)


def test_timers_of_the_same_seed_are_the_same():
    draws = [[Spread(2.0, 2.0, 2.0, adapts=False).draw(0.1, 4, Random(7)) for _ in range(3)] for _ in range(2)]
    assert draws[0] == draws[1]
