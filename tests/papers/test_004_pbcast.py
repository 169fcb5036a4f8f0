"""Bimodal multicast, mechanism by mechanism: the two phases, the seven optimizations, random trees, flow control.

Where an optimization is about cost, its test runs the simulator with and without it and compares the two.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pytest

from gossamer.core.effects import MarkStable, Multicast, MulticastRun, Refuse, ReportLost, Unicast
from gossamer.core.ids import FIRST_PASS, PEER
from gossamer.core.inputs import Heard, LeaveAsked, Published, Received, Started, ViewChanged, Woke
from gossamer.core.messages import Data, Digest, Echo, Gossip, Repair, Solicit
from gossamer.core.packets import Packet
from gossamer.core.parts import Pace
from gossamer.core.ranges import RangeSet
from gossamer.dissemination.trees import children
from gossamer.presets import preset
from gossamer.rungs import promises
from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse
from gossamer.stack import Stack

from .hand import Table

PERIOD = 0.1
G = 10


def pbcast(members=3, **settings):
    return Table("pbcast", members, **settings)


def alone(me=1, members=(0, 1, 2), **settings):
    """One stack whose peers are the test."""
    table = Table("pbcast", 0, **settings)
    table.seat(me, tuple(members))
    return table


def packets(*seqnos, sender=0, size=100):
    return [Packet(sender, seqno, b"x" * size) for seqno in seqnos]


def receive(table, *seqnos, me=1, sender=0, source=None, phase=FIRST_PASS, size=100):
    for packet in packets(*seqnos, sender=sender, size=size):
        table.step(me, Received(sender if source is None else source, [packet], phase))


def hear(table, message, source=2, me=1):
    """What `me` answers."""
    return [e.message for e in table.step(me, Heard(source, message)) if isinstance(e, Unicast | Multicast)]


def digest(*ranges, round=7, sender=0, idle=None):  # noqa: A002
    return Gossip(digest=Digest(round, {sender: RangeSet(ranges)} if ranges else {}, idle or {}))


def solicited(answers, sender=0):
    return [m.wanted[sender].ranges() for m in answers if isinstance(m, Solicit)]


def round_of(table, me=1):
    """The next round of `me`: the digest that it sends."""
    table.now = max(table.now, table.stacks[me].next_deadline())
    sent = [e.message for e in table.step(me, Woke()) if isinstance(e, Unicast)]
    return next((m.digest for m in sent if isinstance(m, Gossip)), None)


def repaired(answers):
    return [m.packet.seqno for m in answers if isinstance(m, Repair)]


class Rows:
    """Keeps the rows of a run."""

    def __init__(self):
        self.all = []

    def row(self, *row):
        self.all.append(row)

    def many(self, t_ns, members, *rest):
        self.all.extend((t_ns, member, *rest) for member in members)

    def of(self, kind, phase=None):
        return [r for r in self.all if r[2] == kind and (phase is None or r[7] == phase)]


def scene(seed=1, **sections):
    table = {
        "name": "test",
        "seed": seed,
        "duration": 5.0,
        "linger": 60.0,
        "topology": {"kind": "lan", "members": 35, "latency": 0.001},
        "traffic": {"senders": 1, "rate": 100.0, "arrivals": "steady"},
    }
    for name, section in sections.items():
        table[name] = {**table.get(name, {}), **section} if isinstance(section, dict) else section
    table["protocol"] = {"name": "pbcast", **sections.get("protocol", {})}
    return parse(table)


def run(seed=1, **sections):
    rows = Rows()
    return simulate(scene(seed, **sections), sink=rows), rows


def busiest(rows, seconds, by_member=False):
    """The most rows in any interval of so many seconds (of one member)."""
    step = round(seconds * 1e9)
    counts = Counter((row[0] // step, row[1] if by_member else 0) for row in rows)
    return max(counts.values(), default=0)


# What it promises (§3)


def test_what_pbcast_promises():
    """FIFO order, and of every packet that it is delivered or reported lost. Reference: 004 §3"""
    assert {"no-bogus", "at-most-once", "eventual-or-lost", "fifo"} <= set(promises(preset("pbcast")))


def test_packets_of_one_sender_are_delivered_in_order():
    """What comes early waits for the repair of what is missing before it. Reference: 004 §3 (ordering)"""
    table = alone()
    receive(table, 0, 2, 3)
    assert table.numbers(1, 0) == [0]
    receive(table, 1, source=2, phase=PEER)
    assert table.numbers(1, 0) == [0, 1, 2, 3]


def test_a_collected_packet_is_reported_as_stable():
    """Reference: 004 §3 (multicast stability), App. B (gossip_round)"""
    table = alone()
    receive(table, 0, 1)
    named = [round_of(table) for _ in range(G + 1)]
    assert [0 in d.buffered.get(0, ()) for d in named] == [True] * G + [False]
    stable = [e for e in table.effects[1] if isinstance(e, MarkStable)]
    assert [(e.sender, e.first, e.last) for e in stable] == [(0, 0, 1)]


def test_a_gap_that_nobody_fills_is_reported_lost_in_its_place_and_delivery_goes_on():
    """Reference: 004 §4 ("it gives up on that message and reports a gap"), §3 (detection of lost messages)"""
    table = alone()
    receive(table, 0, 3)
    for _ in range(G + 2):
        round_of(table)
    assert table.numbers(1, 0) == [0]
    round_of(table)
    assert [(e.first, e.last, e.reason) for e in table.lost[1]] == [(1, 2, "collected")]
    assert table.numbers(1, 0) == [0, 3]
    receive(table, 1, source=2, phase=PEER)  # too late: it was reported lost
    assert table.numbers(1, 0) == [0, 3]
    assert solicited(hear(table, digest((0, 3)))) == []


# The two phases (§4, appendix B)


def test_a_digest_is_answered_by_a_solicitation_and_that_by_a_repair():
    """P has what Q lacks. Reference: 004 §4, Fig. 3"""
    table = pbcast(2)
    table.publish(0, 2)
    table.pass_on(lambda letter: letter.message.packet.seqno != 0)
    assert table.numbers(1, 0) == []
    table.wait(2 * PERIOD)
    assert table.numbers(1, 0) == [0, 1]


def test_a_member_that_lacks_nothing_says_nothing():
    """The second phase runs only if needed. Reference: 004 §4"""
    table = alone()
    receive(table, 0, 1, 2)
    assert hear(table, digest((0, 2))) == []
    assert hear(table, digest(idle={0: 2})) == []


def test_the_solicitation_names_what_is_lacking_and_only_of_what_the_digest_names():
    """Reference: 004 App. B (rcv_gossip_msg)"""
    table = alone(cyclic=False)
    receive(table, 0, 1)
    assert solicited(hear(table, digest((0, 1), (4, 6)))) == [[(4, 6)]]  # 2 and 3 exist, but are not to be had here
    assert solicited(hear(table, digest((1, 3)))) == [[(2, 3)]]


def test_a_lost_last_packet_is_noticed_even_after_everyone_has_collected_it():
    """A digest tells how far senders have come who are silent now; 004 does not say how a tail is missed.

    Reference: 004 §3 (detection of lost messages)
    """
    table = alone()
    receive(table, 0)
    hear(table, digest(idle={0: 2}))
    for _ in range(G + 3):
        last = round_of(table)
    assert [(e.first, e.last) for e in table.lost[1]] == [(1, 2)]
    assert last.buffered == {}
    assert last.idle == {0: 2}


def test_many_idle_senders_take_turns_in_a_digest():
    """Everything has a bound, digests too."""
    table = alone(members=range(201))
    for sender in range(2, 201):
        receive(table, 0, sender=sender)
    rounds = [round_of(table) for _ in range(G + 5)]
    told = [d.idle for d in rounds if not d.buffered]
    assert {len(idle) for idle in told} == {64}
    assert len({sender for idle in told[:4] for sender in idle}) == 199


def test_every_round_goes_to_another_member_drawn_at_random():
    """Reference: 004 §4, App. B (randomly_selected_member)"""
    table = alone(members=range(10))
    receive(table, 0)
    targets = Counter()
    for _ in range(1000):
        receive(table, table.stacks[1].streams[0].next)
        round_of(table)
        targets.update(letter.to for letter in table.take(Gossip))
    assert set(targets) == {0, 2, 3, 4, 5, 6, 7, 8, 9}
    assert max(targets.values()) < 2 * min(targets.values())


# The optimizations (§4)


def test_a_solicitation_is_served_in_its_round_only():
    """Reference: 004 §4 opt. 1"""
    for same_round, late in ((True, []), (False, [0])):
        table = alone(same_round=same_round, multicast_after=0)
        receive(table, 0)
        now = round_of(table).round
        wanted = {0: RangeSet([(0, 0)])}
        assert repaired(hear(table, Solicit(now, wanted))) == [0]
        round_of(table)
        assert repaired(hear(table, Solicit(now, wanted))) == late


def test_members_that_answer_late_cost_the_others_less_if_only_the_round_is_served():
    """Sleepers answer all their digests when they wake, and are served for none of them. Reference: 004 §4 opt. 1"""
    sent = {}
    for same_round in (True, False):
        result, _ = run(
            loss={"member": 0.1},
            protocol={"same_round": same_round, "cyclic": False, "multicast_after": 0},
            fault=[{"kind": "perturb", "members": list(range(20, 35)), "probability": 0.9}],
        )
        sent[same_round] = result["repairs"]["sent"] / result["deliveries"]["peer"]
    assert sent[True] < 0.9 * sent[False]


def test_a_member_sends_a_limited_number_of_bytes_in_a_round():
    """Reference: 004 §4 opt. 2"""
    for limit, served in ((1000, 10), (0, 20)):
        table = alone(round_bytes=limit, service_limit=0)
        receive(table, *range(20))
        wanted = {0: RangeSet([(0, 19)])}
        assert len(repaired(hear(table, Solicit(round_of(table).round, wanted)))) == served
        assert len(repaired(hear(table, Solicit(round_of(table).round, wanted), source=0))) == served


def test_a_member_solicits_a_limited_number_of_bytes_in_a_round():
    """Reference: 004 App. B ("if this solicitation won't exceed limit on retransmissions per round")"""
    table = alone(round_bytes=1000)
    receive(table, 0)
    round_of(table)
    table.now += 0.5 * PERIOD
    assert solicited(hear(table, digest((0, 30)))) == [[(21, 30)]]
    assert solicited(hear(table, digest((0, 30)), source=0)) == []
    round_of(table)
    assert solicited(hear(table, digest((0, 30)), source=0)) == [[(11, 20)]]


def test_a_packet_larger_than_the_limit_goes_alone():
    """Else it could never be repaired. Reference: 004 §4 opt. 2"""
    table = alone(round_bytes=1000)
    receive(table, 0, 1, size=5000)
    assert solicited(hear(table, digest((0, 9)))) == [[(9, 9)]]
    wanted = {0: RangeSet([(0, 1)])}
    assert repaired(hear(table, Solicit(round_of(table).round, wanted))) == [1]


def test_the_byte_limit_keeps_a_burst_of_loss_from_flooding_the_group():
    """35 members, 100 packets of 1 KB a second; 30% of them discard 50 in a row. Reference: 004 §4 opt. 2, Fig. 14"""
    peak = {}
    for limit in (10_000, 0):
        result, rows = run(
            protocol={"round_bytes": limit, "service_limit": 0, "multicast_after": 0},
            fault=[{"at": 2.0, "kind": "lose", "members": list(range(1, 11)), "packets": 50}],
        )
        assert result["deliveries"]["actual"] > 0.99 * result["deliveries"]["expected"]
        peak[limit] = busiest(rows.of("repair"), PERIOD, by_member=True)
    assert peak[10_000] <= 18 < 30 < peak[0]  # a tenth of a second meets two rounds


def test_what_was_solicited_a_moment_ago_is_not_solicited_again():
    """Reference: 004 §4 opt. 3"""
    for cyclic, again in ((True, []), (False, [[(1, 2)]])):
        table = alone(cyclic=cyclic)
        receive(table, 0)
        table.now = 1.0
        assert solicited(hear(table, digest((0, 2)))) == [[(1, 2)]]
        table.now = 1.0 + 0.9 * PERIOD
        assert solicited(hear(table, digest((0, 2)), source=0)) == again
        table.now = 1.0 + 1.1 * PERIOD
        assert solicited(hear(table, digest((0, 2)), source=0)) == [[(1, 2)]]


def test_cycling_saves_redundant_repairs_where_they_take_long():
    """A round trip of 0.8 rounds: the next digest comes before the repair. Reference: 004 §4 opt. 3"""
    redundant = {}
    for cyclic in (True, False):
        result, _ = run(
            topology={"latency": 0.04},
            loss={"member": 0.1},
            protocol={"cyclic": cyclic, "fanout": 2, "multicast_after": 0},
        )
        redundant[cyclic] = result["repairs"]["sent"] / result["deliveries"]["peer"] - 1.0
    assert redundant[True] < 0.5 * redundant[False]


def test_the_most_recent_packets_are_recovered_first():
    """R missed M0..M4 and asks for M4 first. Reference: 004 §4 opt. 4"""
    for recent_first, asked, served in ((True, (3, 4), [4, 3, 2, 1, 0]), (False, (0, 1), [0, 1, 2, 3, 4])):
        table = alone(recent_first=recent_first, round_bytes=3000)  # nothing at hand: 1,500 bytes are assumed
        assert solicited(hear(table, digest((0, 4)))) == [[asked]]
        table = alone(recent_first=recent_first)
        receive(table, *range(5))
        wanted = {0: RangeSet([(0, 4)])}
        assert repaired(hear(table, Solicit(round_of(table).round, wanted))) == served


def test_most_recent_first_holds_over_several_senders():
    """Recent is what is least far behind its own sender. Reference: 004 §4 opt. 4"""
    table = alone(members=range(4), round_bytes=3000)
    answer = hear(table, Gossip(digest=Digest(1, {0: RangeSet([(0, 99)]), 3: RangeSet([(0, 5)])})))
    table_two = alone(members=range(4), round_bytes=3000)
    receive(table_two, *range(99), size=1500)
    receive(table_two, 100, size=1500)
    newest = hear(table_two, Gossip(digest=Digest(1, {0: RangeSet([(99, 99)]), 3: RangeSet([(0, 0)])})))
    assert [m.wanted for m in answer] == [{0: RangeSet([(98, 99)])}]
    assert list(newest[0].wanted) == [3, 0]


def test_rounds_are_counted_by_each_member_on_its_own():
    """A solicitation copies the round of the digest, whatever the solicitor's own. Reference: 004 §4 opt. 5"""
    table = alone()
    receive(table, 0)
    for _ in range(3):
        round_of(table)
    (answer,) = hear(table, digest((0, 1), round=1234))
    assert answer.round == 1234


def test_rounds_are_out_of_step_unless_they_are_synchronized():
    """Reference: 004 §4 opt. 5"""
    peak = {}
    for unsynchronized in (True, False):
        _, rows = run(protocol={"unsynchronized": unsynchronized}, duration=2.0)
        gossip = [row for row in rows.of("gossip") if row[0] > 0.5e9]
        peak[unsynchronized] = busiest(gossip, 0.01)
    assert peak[False] == 35
    assert peak[True] < 12


def test_a_partial_view_is_all_that_a_member_gossips_to_for_a_while():
    """It changes slowly, so that a member that is in nobody's view does not stay there. Reference: 004 §4 opt. 6"""
    for size in (0, 4):
        table = alone(members=range(30), view_size=size)
        receive(table, 0)
        targets = []
        for _ in range(800):
            receive(table, table.stacks[1].streams[0].next)
            round_of(table)
            targets += [letter.to for letter in table.take(Gossip)]
        assert len(set(targets)) > 20
        in_a_while = [len(set(targets[at : at + 15])) for at in range(0, 800, 16)]
        assert max(in_a_while) == (4 if size else max(in_a_while))
        assert size or min(in_a_while) > 4


def test_a_partial_view_follows_the_membership():
    """Who leaves is replaced; who joins gets into as many views as the others. Reference: 004 §4 opt. 6"""
    known = Counter()
    for seed in range(200):
        table = alone(members=range(20), view_size=5, seed=seed)
        receive(table, 0)
        round_of(table)
        peers = table.stacks[1].peers
        before = peers.pool()
        gone = before[0]
        table.step(1, ViewChanged(tuple(m for m in range(21) if m != gone)))
        after = peers.pool()
        assert len(set(after)) == 5
        assert gone not in after
        assert len(set(before) & set(after)) >= 3
        known[20] += 20 in after
    assert 30 < known[20] < 80  # 5 of 19, or 53 of 200, is fair


def test_gossip_within_partial_views_repairs_as_well_as_among_all():
    """64 members that know 10 each. Reference: 004 §4 opt. 6"""
    latency = Counter()
    for size, seed in product((0, 10), range(1, 5)):
        result, _ = run(seed, topology={"members": 64}, loss={"member": 0.05}, protocol={"view_size": size})
        assert result["deliveries"]["actual"] >= 0.999 * result["deliveries"]["expected"]
        latency[size] += result["latency"]["mean"]
    assert latency[10] < 1.3 * latency[0]


def test_a_repair_that_two_members_solicit_is_multicast():
    """Reference: 004 §4 opt. 7"""
    wanted = {0: RangeSet([(0, 0)])}
    for threshold, multicast in ((2, True), (0, False)):
        table = alone(members=range(4), multicast_after=threshold)
        receive(table, 0)
        table.step(1, Heard(2, Solicit(round_of(table).round, wanted)))
        table.step(1, Heard(2, Solicit(round_of(table).round, wanted)))  # the same member again
        assert not any(isinstance(e, Multicast) for e in table.effects[1])
        effects = table.step(1, Heard(3, Solicit(round_of(table).round, wanted)))
        assert any(isinstance(e, Multicast) for e in effects) == multicast


def test_multicast_repairs_smooth_over_a_first_pass_that_failed():
    """Ten multicasts in a row reach one member only. Reference: 004 §4 opt. 7, Fig. 14 (below)"""
    spread, sent = {}, {}
    for threshold in (2, 0):
        result, rows = run(
            protocol={"multicast_after": threshold},
            fault=[{"at": 2.0, "kind": "lose", "members": list(range(2, 35)), "packets": 10}],
        )
        spread[threshold] = result["everywhere_latency"]["max"]
        sent[threshold] = len(rows.of("repair"))
    assert sent[2] < 0.5 * sent[0]
    assert spread[2] < spread[0]


def test_a_repair_from_afar_is_multicast_again_in_the_region():
    """Reference: 004 §4 opt. 7"""
    for region_rtt, rtt, again in ((0.05, 0.08, True), (0.05, 0.02, False), (0.0, 0.08, False)):
        table = alone(region_rtt=region_rtt, region_hops=5)
        receive(table, 0)
        hear(table, digest((0, 1)))
        table.now += rtt
        effects = table.step(1, Received(2, packets(1), PEER))
        regional = [e for e in effects if isinstance(e, Multicast)]
        assert [(e.message, e.hops) for e in regional] == ([(Repair(*packets(1), PEER), 5)] if again else [])


def test_what_was_not_solicited_is_not_multicast_again():
    """Else a regional multicast would set off the next. Reference: 004 §4 opt. 7"""
    table = alone(region_rtt=0.05)
    receive(table, 0)
    hear(table, digest((0, 1)))
    table.now += 0.08
    assert not any(isinstance(e, Multicast) for e in table.step(1, Received(0, packets(1), PEER)))
    assert not any(isinstance(e, Multicast) for e in table.step(1, Received(2, packets(2), PEER)))


def test_regional_repairs_spare_the_far_links():
    """A region of a wide-area tree loses 20 packets; one member of it fetches each. Reference: 004 §4 opt. 7"""
    far = Counter()
    for region_rtt, seed in product((0.05, 0.0), range(1, 7)):
        result, rows = run(
            seed,
            topology={"kind": "tree", "members": 17, "branching": 4, "latency": 0.01},
            protocol={"region_rtt": region_rtt, "region_hops": 2, "multicast_after": 0, "gossip_period": 0.2},
            fault=[{"at": 2.0, "kind": "lose", "members": [1, 2, 3, 4], "packets": 20}],
        )
        assert result["packets"]["lost"] == 0
        far[region_rtt] += sum(1 for row in rows.of("repair") if row[1] not in (1, 2, 3, 4))
    assert far[0.05] < 0.8 * far[0.0]


def test_round_trip_times_are_measured_where_they_matter():
    """Near members are gossiped to more, and for that gossip is echoed. Reference: 004 §4 opt. 6"""
    table = alone(selection="quadratic")
    receive(table, 0)
    round_of(table)
    (letter,) = table.take(Gossip)
    table.now += 0.03
    hear(table, Echo(letter.message.stamp), source=letter.to)
    assert table.stacks[1].round_trips.times == {letter.to: pytest.approx(0.03, abs=1e-5)}
    table = alone(selection="uniform")
    receive(table, 0)
    round_of(table)
    assert [letter.message.stamp for letter in table.take(Gossip)] == [0]


# The first pass without IP multicast (§4)


def reached(members, tree, degree, sender):
    """Who gets a packet over one tree, and how often."""
    got, ahead = Counter([sender]), [sender]
    while ahead:
        for child in children(members, tree, degree, sender, ahead.pop()):
            got[child] += 1
            ahead.append(child)
    return got


@pytest.mark.parametrize(("count", "degree"), [(1, 2), (2, 1), (7, 2), (50, 2), (50, 3), (64, 8)])
def test_a_tree_reaches_every_member_once(count, degree):
    """Reference: 004 §4 (optimistic dissemination)"""
    members = tuple(Random(count).sample(range(1000), count))
    for tree in range(4):
        for sender in members:
            assert reached(members, tree, degree, sender) == Counter(members)
            assert len(children(members, tree, degree, sender, sender)) <= degree


def test_trees_differ_and_are_the_same_for_everyone():
    """Derived from the membership alone, in whatever order it is known. Reference: 004 §4"""
    members = tuple(range(40))
    shuffled = tuple(Random(1).sample(members, 40))
    trees = [[children(members, tree, 2, 7, me) for me in members] for tree in range(4)]
    assert trees == [[children(shuffled, tree, 2, 7, me) for me in members] for tree in range(4)]
    assert len({str(tree) for tree in trees}) == 4


def test_a_stranger_to_the_view_neither_sends_nor_forwards():
    """Views may differ for a moment; the repair does the rest. Reference: 004 §4"""
    assert children((1, 2, 3), 0, 2, 9, 1) == children((1, 2, 3), 0, 2, 1, 9) == ()


def test_a_first_copy_is_forwarded_and_a_repair_or_a_second_copy_is_not():
    """Reference: 004 §4 ("deliver the message and then forward it using the tree identifier")"""
    members = tuple(range(15))
    root_children = children(members, 0, 2, 0, 0)
    me = root_children[0]
    table = alone(me=me, members=members, dissemination="trees")
    forwarded = [e.to for e in table.step(me, Received(0, packets(0), FIRST_PASS)) if isinstance(e, Unicast)]
    assert forwarded == list(children(members, 0, 2, 0, me))
    assert not any(isinstance(e, Unicast) for e in table.step(me, Received(3, packets(0), FIRST_PASS)))
    assert not any(isinstance(e, Unicast) for e in table.step(me, Received(3, packets(1), PEER)))


def test_consecutive_packets_take_different_trees():
    """Reference: 004 §4 (a variety of spanning trees)"""
    table = alone(me=0, members=range(15), dissemination="trees", trees=3)
    ways = []
    for _ in range(6):
        effects = table.step(0, Published(b"x"))
        ways.append(tuple(e.to for e in effects if isinstance(e, Unicast) and isinstance(e.message, Data)))
    assert len(set(ways)) == 3
    assert ways[:3] == ways[3:]


def test_nobody_sends_more_copies_than_the_degree_allows():
    """Reference: 004 §4 ("tuned with respect to the number of random trees and the degree of nodes")"""
    result, rows = run(topology={"members": 31}, protocol={"dissemination": "trees", "tree_degree": 3})
    assert result["deliveries"]["actual"] == result["deliveries"]["expected"]
    per_packet = Counter((row[1], row[4]) for row in rows.of("send"))
    assert max(per_packet.values()) <= 3
    assert len({row[1] for row in rows.of("send")}) > 20  # over four trees most members take part


# Flow control (§5)


def first_pass(table, me=1):
    """How many packets have left so far."""
    return sum(map(leaving, table.effects[me]))


def leaving(effect):
    """How many packets this sends for the first time."""
    if isinstance(effect, MulticastRun):
        return len(effect.run)
    return int(isinstance(effect, Multicast) and isinstance(effect.message, Data))


def published_at(table, me, seconds):
    """When packets leave, relative to now."""
    start, end = table.now, table.now + seconds
    times = []
    while table.stacks[me].next_deadline() <= end:
        table.now = table.stacks[me].next_deadline()
        for effect in table.step(me, Woke()):
            times += [table.now - start] * leaving(effect)
    table.now = end
    return times


def test_a_sender_keeps_to_its_rate():
    """Reference: 004 §5 (flow control)"""
    table = alone(rate_limit=20.0)
    table.publish(1, 5)
    assert first_pass(table) == 1
    assert published_at(table, 1, 1.0) == pytest.approx([0.05, 0.1, 0.15, 0.2])
    assert table.numbers(1, 1) == [0, 1, 2, 3, 4]
    table.publish(1, 1)
    assert first_pass(table) == 6  # after a pause at once


def test_new_packets_wait_while_too_many_are_buffered():
    """As old ones are collected, new ones are admitted. Reference: 004 §5 (flow control)"""
    table = alone(admission=8)
    receive(table, *range(5))
    table.publish(1, 6)
    assert first_pass(table) == 3  # of the same or other sources
    waited = published_at(table, 1, 3.0)
    assert len(waited) == 3
    assert waited[0] > G * PERIOD


def test_a_full_queue_refuses_and_order_is_kept():
    """Reference: 004 §5 (flow control)"""
    table = alone(rate_limit=10.0, queue_packets=2)
    for body in (b"a", b"b", b"c", b"d"):
        table.step(1, Published(body))
    assert [e.body for e in table.effects[1] if isinstance(e, Refuse)] == [b"d"]
    published_at(table, 1, 1.0)
    assert [p.body for p in table.delivered[1]] == [b"a", b"b", b"c"]


def test_a_member_that_leaves_is_told_what_was_not_sent():
    """Reference: 004 §5"""
    table = alone(rate_limit=10.0)
    table.publish(1, 3)
    effects = table.step(1, LeaveAsked())
    assert [e.reason for e in effects if isinstance(e, Refuse)] == ["leaving", "leaving"]
    assert published_at(table, 1, 1.0) == []


def test_without_limits_nothing_stands_between_the_application_and_the_first_pass():
    """The paper's own experiments leave the rate to the application. Reference: 004 §5"""
    stack = Stack(0, (0, 1), preset("pbcast"), Random(1))
    stack.step(0.0, Started({}))
    assert type(stack.pace) is Pace
    assert sum(isinstance(e, Multicast) for _ in range(50) for e in stack.step(0.0, Published(b"x"))) == 50


def test_a_repository_of_last_resort_repairs_what_gossip_could_not():
    """A logger behind pbcast: what peers have collected is not lost. Reference: 004 §5 (recovery)"""
    lose = {"at": 2.0, "kind": "lose", "members": [3], "packets": 200}
    lost = {}
    for loggers in (0, 1):
        result, rows = run(topology={"members": 8}, protocol={"loggers": loggers}, fault=[lose])
        lost[loggers] = len(rows.of("lost"))
        assert (result["packets"]["lost"] == 0) == bool(loggers)
    assert lost[0] > 0 == lost[1]


def test_losses_come_in_the_order_of_the_packets():
    """Reference: 004 §3 ("an upcall is used ... in FIFO order from each sender")"""
    table = alone()
    receive(table, 0, 2, 4)
    for _ in range(G + 3):
        round_of(table)
    story = [e for e in table.effects[1] if isinstance(e, ReportLost) or type(e).__name__ == "Deliver"]
    taken = [e.first if isinstance(e, ReportLost) else e.run[0].seqno for e in story]
    assert taken == [0, 1, 2, 3, 4]
