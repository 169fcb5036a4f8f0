"""Hash-selected bufferers: who keeps a packet, how a request finds it, and what happens if all have lost it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from gossamer.core.effects import Multicast, Unicast
from gossamer.core.ids import FIRST_PASS
from gossamer.core.inputs import Heard, Received, ViewChanged
from gossamer.core.messages import Collected, Data, Digest, Gossip, MulticastAgain, Repair, Request, RequestFor, Solicit
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.schema import SettingError
from gossamer.presets import preset
from gossamer.sim.checked import traced
from gossamer.sim.run import simulate
from gossamer.sim.scenario import load, parse

from .hand import Letter, Table

MEMBERS = 8
COPIES = 3
SHORT, LONG = 2, 20
PROTOCOLS = ("rpbcast", "pbcast")


def hashed(protocol="rpbcast", members=MEMBERS, **settings):
    wanted = {"bufferers": COPIES, "short_rounds": SHORT, "gc_rounds": LONG, "stability": "none", **settings}
    return Table(protocol, members, buffering="hashed", **wanted)


def bufferers(table, seqno, sender=0, by=0):
    return table.stacks[by].buffer.bufferers_of(sender, seqno)


def told(packets, **settings):
    """A table at which everybody has received the packets of member 0, and the short term is over."""
    table = hashed(**settings)
    table.publish(0, packets)
    table.settle()
    pass_rounds(table, SHORT + 1)
    return table


def pass_rounds(table, rounds):
    table.wait(rounds * table.settings.gossip_period)


def keepers(table, seqno):
    return [m for m, stack in table.stacks.items() if stack.buffer.get(0, seqno) is not None]


def messages(effects, *kinds):
    return [(e.to, e.message) for e in effects if isinstance(e, Unicast) and isinstance(e.message, kinds)]


def test_everybody_keeps_a_packet_for_a_short_time_and_its_bufferers_for_long():
    """Reference: 003 §3, §5"""
    table = hashed()
    table.publish(0, 40)
    table.settle()
    assert all(keepers(table, seqno) == list(range(MEMBERS)) for seqno in range(40))
    pass_rounds(table, SHORT + 1)
    assert [keepers(table, seqno) for seqno in range(40)] == [bufferers(table, seqno) for seqno in range(40)]
    assert 0 < sum(len(keepers(table, n)) for n in range(40)) < 40 * MEMBERS / 2
    pass_rounds(table, LONG)
    assert all(keepers(table, seqno) == [] for seqno in range(40))


def test_a_request_for_what_others_keep_is_passed_on_to_a_bufferer_with_the_requester():
    """Reference: 003 §4"""
    table = told(40)
    seqno = next(n for n in range(40) if 1 not in bufferers(table, n) and 2 not in bufferers(table, n))
    asked = messages(table.step(1, Heard(2, Request({0: RangeSet([(seqno, seqno)])}))), RequestFor)
    assert len(asked) == 1
    to, message = asked[0]
    assert to in bufferers(table, seqno)
    assert (message.requester, message.wanted) == (2, {0: RangeSet([(seqno, seqno)])})
    answered = messages(table.step(to, Heard(1, message)), Repair)
    assert [(who, repair.packet.seqno) for who, repair in answered] == [(2, seqno)]


def test_a_digest_offers_what_others_keep_and_a_solicitation_for_it_is_passed_on():
    """Reference: 003 §2, §4"""
    table = hashed("pbcast")
    table.publish(0, 40)
    table.settle()
    pass_rounds(table, SHORT + 1)
    offered = table.gossip(1, 2).digest
    assert offered.buffered == {0: RangeSet.span(0, 39)}
    seqno = next(n for n in range(40) if 1 not in bufferers(table, n) and 2 not in bufferers(table, n))
    effects = table.step(1, Heard(2, Solicit(offered.round, {0: RangeSet([(seqno, seqno)])})))
    ((to, message),) = messages(effects, RequestFor)
    assert to in bufferers(table, seqno)
    assert message.requester == 2


def test_a_bufferer_that_does_not_have_the_packet_ignores_the_request():
    """It never passes it on, so that no request goes in a circle. Reference: 003 §4"""
    table = hashed()
    table.stacks[1].step(0.0, Received(0, [Packet(0, 50, b"x")], FIRST_PASS))  # 0 to 49 are missing
    wanted = {0: RangeSet.span(0, 49)}
    effects = table.step(1, Heard(2, RequestFor(3, wanted)))
    assert messages(effects, RequestFor, Repair, Collected) == []


def test_members_with_stale_views_do_not_send_a_request_round_in_circles():
    """1 takes 2 for the bufferer of some packets, 2 takes 1, and neither has them: a request goes one step."""
    table = hashed(members=4, bufferers=1, service_limit=0)
    table.publish(0, 200)
    table.settle()
    pass_rounds(table, SHORT + 1)
    table.step(1, ViewChanged((1, 2, 3)))
    for member in (1, 2):
        table.stacks[member].buffer._long.clear()
    table.letters.clear()
    for at, first in enumerate(range(0, 200, 50)):
        table.hand(Letter(3, 1 + at % 2, Request({0: RangeSet.span(first, first + 49)})))
    circulating = [letter for letter in table.letters if isinstance(letter.message, RequestFor)]
    assert {(letter.source, letter.to) for letter in circulating} >= {(1, 2), (2, 1)}
    table.letters = [letter for letter in circulating if letter.to in (1, 2)]
    table.pass_on()
    assert table.letters == []


def test_of_a_long_request_only_a_part_is_passed_on():
    """One message brings no more than a few, with 64 packets in all, whatever it asks for."""
    table = told(900, service_limit=0)
    effects = table.step(1, Heard(2, Request({0: RangeSet.span(0, 1 << 60)})))
    passed = messages(effects, RequestFor)
    assert len(passed) <= MEMBERS
    assert 0 < sum(len(message.wanted[0]) for _, message in passed) <= 64


def test_what_is_passed_on_counts_against_the_service_limit():
    table = hashed(service_limit=100)
    table.publish(0, 300)
    table.settle()
    pass_rounds(table, SHORT + 1)
    before = table.stacks[1].buffer.standing()["passed_on"]
    for first in range(0, 300, 10):
        table.step(1, Heard(2, Request({0: RangeSet.span(first, first + 9)})))
    assert table.stacks[1].buffer.standing()["passed_on"] - before < 100


def test_nothing_is_sent_to_a_requester_outside_the_view():
    table = told(40)
    seqno = next(n for n in range(40) if 1 in bufferers(table, n))
    for stranger in (99, 1 << 62, 1):
        assert messages(table.step(1, Heard(2, RequestFor(stranger, {0: RangeSet.span(seqno, seqno)}))), Repair) == []
    assert table.stacks[1].ignored["requests for strangers"] == 3


def test_a_packet_that_never_was_is_not_passed_on():
    table = told(10)
    effects = table.step(1, Heard(2, Request({0: RangeSet.span(10, 500), 5: RangeSet.span(0, 9)})))
    assert messages(effects, RequestFor, Collected) == []


def test_a_packet_that_everybody_has_collected_is_said_to_be():
    """Then the next repair, the logger, takes over. Reference: 000 §4.3, 003 §4"""
    table = told(10)
    pass_rounds(table, LONG)
    effects = table.step(1, Heard(2, Request({0: RangeSet.span(0, 9)})))
    assert messages(effects, RequestFor) == []
    assert [message.gone for _, message in messages(effects, Collected)] == [{0: RangeSet.span(0, 9)}]


def test_a_gap_that_outlasts_the_short_term_is_asked_of_its_bufferers():
    """Reference: 003 §4, §5"""
    table = hashed()
    table.publish(0, 40)
    lost = next(n for n in range(40) if 0 not in bufferers(table, n) and 1 not in bufferers(table, n))
    table.pass_on(
        lambda letter: not (letter.to == 1 and isinstance(letter.message, Data) and letter.message.packet.seqno == lost)
    )
    asked = []
    for _ in range(SHORT + 6):  # nobody hears what 1 asks for, until the short term is over
        table.wait(table.settings.gossip_period, pass_on=False)
        asked += [letter for letter in table.take(Request) if letter.source == 1]
        table.letters.clear()
    late = [letter.to for letter in asked[1:]]
    assert len(late) >= 3
    assert set(late) <= set(bufferers(table, lost))
    table.hand(asked[-1])
    table.settle()
    assert sorted(table.numbers(1, 0)) == list(range(40))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_gap_is_filled_long_after_the_short_term(protocol):
    """A member that misses what only bufferers keep gets it from them, or by way of anybody. Reference: 003 §4"""
    table = hashed(protocol)
    table.publish(0, 30)
    table.pass_on(lambda letter: letter.to != 5)  # member 5 heard nothing
    for _ in range(SHORT + 2):
        table.wait(table.settings.gossip_period, pass_on=False)
        table.pass_on(lambda letter: 5 not in (letter.to, letter.source))
    table.wait(LONG * table.settings.gossip_period / 2)
    kept_somewhere = [n for n in range(30) if bufferers(table, n) not in ([], [5])]
    assert set(table.numbers(5, 0)) >= set(kept_somewhere)
    assert len(kept_somewhere) >= 25


# Catastrophic losses.


def test_a_hole_that_two_members_share_is_multicast_again():
    """Reference: 003 §5, 1b and 1c"""
    table = hashed("pbcast")
    table.publish(0, 10)
    table.pass_on(lambda letter: letter.message.packet.seqno != 4)  # lost on its way out
    holes = Gossip(digest=Digest(1, {0: RangeSet([(0, 3), (5, 9)])}))
    asked = messages(table.step(1, Heard(2, holes)), MulticastAgain)
    assert asked == [(0, MulticastAgain({0: RangeSet([(4, 4)])}))]
    again = [e for e in table.step(0, Heard(1, asked[0][1])) if isinstance(e, Multicast)]
    assert [e.message.packet.seqno for e in again] == [4]


def test_a_gossip_of_what_is_missing_shows_shared_holes_too():
    """With negative gossip holes are said in so many words. Reference: 003 §5"""
    table = hashed()
    table.publish(0, 10)
    table.pass_on(lambda letter: letter.message.packet.seqno != 4)
    asked = messages(table.step(1, Heard(2, Gossip(missing={0: RangeSet([(4, 4), (7, 7)])}))), MulticastAgain)
    assert asked == [(0, MulticastAgain({0: RangeSet([(4, 4)])}))]


def test_a_shared_hole_is_asked_for_and_multicast_once_in_a_round():
    table = hashed("pbcast")
    table.publish(0, 10)
    table.pass_on(lambda letter: letter.message.packet.seqno != 4)
    holes = Gossip(digest=Digest(1, {0: RangeSet([(0, 3), (5, 9)])}))
    asked = [one for source in (2, 3, 4, 5) for one in messages(table.step(1, Heard(source, holes)), MulticastAgain)]
    assert len(asked) == 1
    again = [table.step(0, Heard(source, asked[0][1])) for source in (1, 2, 3, 4)]
    assert sum(isinstance(e, Multicast) for effects in again for e in effects) == 1


def test_a_sender_multicasts_again_only_what_is_its_own_and_a_part_of_a_long_request():
    table = told(300)
    for wanted in ({1: RangeSet.span(0, 5)}, {0: RangeSet.span(300, 1 << 60)}):
        assert not [e for e in table.step(0, Heard(1, MulticastAgain(wanted))) if isinstance(e, Multicast)]
    everything = table.step(0, Heard(1, MulticastAgain({0: RangeSet.span(0, 1 << 60)})))
    assert 0 < sum(isinstance(e, Multicast) for e in everything) <= 64


def test_a_sender_multicasts_only_so_much_again_in_a_round():
    table = told(900, bufferers=MEMBERS, service_limit=0)
    again = [
        effect
        for first in range(0, 900, 64)
        for effect in table.step(0, Heard(1, MulticastAgain({0: RangeSet.span(first, first + 63)})))
        if isinstance(effect, Multicast)
    ]
    assert len(again) == 256


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_send_omission_is_mended_by_a_second_multicast(protocol):
    """Nobody got the packets, and soon their sender keeps them no longer. Reference: 003 §5"""
    lacking, repairs = {}, {}
    for again in (True, False):
        table = hashed(protocol, members=30, multicast_again=again, multicast_after=0, gossip_period=0.1)
        table.publish(0, 20)
        table.pass_on(lambda letter: letter.message.packet.seqno not in (5, 6, 7))
        table.wait(3.0)
        lacking[again] = sum(len(table.numbers(member, 0)) < 20 for member in range(1, 30))
        effects = [e for some in table.effects.values() for e in some]
        repairs[again] = sum(isinstance(e, Unicast) and isinstance(e.message, Repair) for e in effects)
    assert lacking[True] == 0
    assert repairs[True] < 10
    assert lacking[False] > 0 or repairs[False] > 60


# Settings.


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"bufferers": -1}, "bufferers = -1"),
        ({"short_rounds": -1}, "short_rounds = -1"),
        ({"buffer_failure": 0.0}, "buffer_failure = 0"),
        ({"buffer_loss": 1.5}, "buffer_loss = 1.5"),
        ({"buffer_hash": "crc"}, "buffer_hash = 'crc': must be one of blake, shuffle"),
    ],
)
def test_wrong_settings_are_refused(changes, says):
    with pytest.raises(SettingError, match=says):
        preset("pbcast", {"buffering": "hashed", **changes})


def test_a_size_in_bytes_does_not_tell_stability_by_age():
    with pytest.raises(SettingError, match="stability = aged: needs a buffer by age"):
        preset("pbcast", {"buffering": "hashed", "stability": "aged", "buffer_bytes": 1000})
    assert preset("pbcast", {"buffering": "hashed", "stability": "aged"}).buffering == "hashed"


# Whole groups.

SCENARIOS = {
    "lossless": {},
    "loss 0.1%": {"loss": {"link": 0.001}},
    "loss 1.5%": {"loss": {"link": 0.015}},
    "churn": {
        "loss": {"link": 0.01},
        "fault": [
            {"at": 0.6, "kind": "leave", "members": [9]},
            {"at": 1.0, "kind": "leave", "members": [10]},
            {"at": 1.6, "kind": "join", "members": [9]},
            {"at": 1.9, "kind": "join", "members": [10]},
        ],
    },
    "crash of bufferers": {
        "loss": {"link": 0.01},
        "fault": [
            {"at": 0.7, "kind": "crash", "members": [4, 5, 6], "memory": "lost", "for": 1.0},
            {"at": 1.2, "kind": "crash", "members": [2], "memory": "kept", "for": 0.5},
        ],
    },
    "partition": {
        "loss": {"link": 0.005},
        "fault": [{"at": 0.6, "kind": "partition", "members": [[0, 1, 3, 4, 7, 8, 9, 10], [2, 5, 6, 11]], "for": 0.8}],
    },
}
ALONE = ("lossless", "loss 0.1%", "loss 1.5%", "partition")
"""Scenarios for members that do not join and leave by themselves."""


def story(name, protocol, seed, **settings):
    table = {
        "name": name,
        "seed": seed,
        "duration": 2.5,
        "linger": 120.0,
        "grace": 6.0 if protocol == "rpbcast" else 0.5,
        "topology": {"kind": "tree", "members": 12, "branching": 3, "latency": 0.002},
        "traffic": {"senders": 3, "rate": 60.0, "size": 200},
        "protocol": {
            "name": protocol,
            "buffering": "hashed",
            "bufferers": Random(seed).choice((0, 2, 4)),
            "buffer_hash": ("blake", "shuffle")[seed % 2],
            **settings,
        },
        **SCENARIOS[name],
    }
    return parse(table)


CASES = [(name, "rpbcast") for name in SCENARIOS] + [(name, "pbcast") for name in ALONE]


def expect_to_hold(name, protocol, seed):
    result = traced(story(name, protocol, seed))
    assert result["violations"] == [], f"{name}, {protocol}, seed {seed}"
    assert result["outstanding"] == 0, f"{name}, {protocol}, seed {seed}: still waiting at the end"
    if protocol == "rpbcast" or name == "lossless":
        assert result["packets"]["lost"] == 0


@pytest.mark.parametrize(("name", "protocol"), CASES)
def test_the_specifications_hold(name, protocol):
    for seed in range(3):
        expect_to_hold(name, protocol, seed)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "protocol"), CASES)
def test_the_specifications_hold_for_200_seeds(name, protocol):
    for seed in range(200):
        expect_to_hold(name, protocol, seed)


def test_crashed_bufferers_and_long_absences_cost_nothing():
    """The scenario file: bufferers crash for good, three members are away for longer than the short term."""
    made = load(Path(__file__).parents[2] / "scenarios" / "bufferers.toml")
    result = traced(made)
    assert result["violations"] == []
    assert result["packets"]["lost"] == 0
    kept = result["buffers"]["mean_packets"]
    assert sum(kept.values()) / len(kept) < 80  # 135 with a buffer by age


def test_a_member_keeps_less_in_a_larger_group():
    """Reference: 003 §4, Fig. 2"""
    means = {}
    for members in (16, 64):
        for buffering in ("age", "hashed"):
            table = {
                "duration": 4.0,
                "topology": {"kind": "lan", "members": members, "latency": 0.001},
                "loss": {"member": 0.005},
                "traffic": {"senders": 1, "rate": 100.0, "size": 100},
                "protocol": {"name": "pbcast", "buffering": buffering, "bufferers": 6},
            }
            buffers = simulate(parse(table))["buffers"]["mean_packets"]
            means[members, buffering] = sum(buffers.values()) / members
    assert means[64, "hashed"] < means[16, "hashed"] < means[16, "age"]
    assert means[64, "hashed"] < 0.5 * means[64, "age"]
