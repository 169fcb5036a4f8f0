"""Packets that travel down the propagation graph themselves, not only their places. Reference: 002 §3.2, appendix I"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.analysis.planner import with_order
from gossamer.core.effects import ReportLost, Unicast
from gossamer.core.ids import FIRST_PASS, PEER, stream_of
from gossamer.core.inputs import Heard, Published, Received, Started, Woke
from gossamer.core.messages import Data
from gossamer.core.packets import Packet
from gossamer.core.places import PlacesWanted
from gossamer.core.settings import ProtocolSettings
from gossamer.ordering.paths import Tree, tree_of
from gossamer.settings import plan
from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse
from gossamer.stack import Stack
from tests.ordering.test_graph import FIG_3, paper
from tests.ordering.test_total import BRANCHED, SCENARIOS, expect_one_order, in_branches, over_channels


def below(tree: Tree, site: str) -> str:
    return "".join(map(chr, tree.below.get(ord(site), ())))


def test_a_message_goes_down_every_subtree_that_has_members_of_its_group():
    """What d gets for {b, c, d, e} it sends to c and e; c, in turn, sends a copy to b. Reference: 002 §3.2, Fig. 3"""
    tree = tree_of(paper(FIG_3, prefer="dce"), 3)
    assert chr(tree.root) == "d"
    assert [below(tree, site) for site in "dceb"] == ["ce", "b", "", ""]


def test_a_member_on_the_way_that_does_not_listen_is_passed_over():
    """Reference: 002 §3.1, the group alpha-9, for which c is an extra node"""
    graph = paper((*FIG_3, "da"), prefer="dce")
    assert graph.extra(9) == [ord("c")]
    assert below(tree_of(graph, 9), "d") == "a"


def group(listening: dict[int, int], channels: int, **more: Any) -> dict[int, Stack]:
    """One stack for each member, in a group in which all know who listens to what."""
    settings = ProtocolSettings(ordering="total", dissemination="graph", channels=channels, **more)
    members = tuple(listening)
    stacks = {me: Stack(me, members, settings, Random(me), listening=listening) for me in members}
    for stack in stacks.values():
        stack.step(0.0, Started({}))
    return stacks


def copies(effects) -> list[tuple[int, Packet]]:
    return [(e.to, e.message.packet) for e in effects if isinstance(e, Unicast) and isinstance(e.message, Data)]


def spread(stacks: dict[int, Stack], source: int, channel: int) -> list[tuple[int, int]]:
    """Who sends a packet of `source` to whom."""
    effects = stacks[source].step(1.0, Published(b"x", channel=channel))
    waiting = [(source, *copy) for copy in copies(effects)]
    edges = []
    while waiting:
        sender, to, packet = waiting.pop(0)
        edges.append((sender, to))
        waiting += [(to, *copy) for copy in copies(stacks[to].step(1.0, Received(source, [packet], FIRST_PASS)))]
    return edges


def test_a_packet_goes_to_the_primary_and_from_there_to_each_other_member():
    """A message for each destination but the source. Reference: 002 §4.1, Table 1"""
    stacks = group(dict.fromkeys(range(5), 1), 1)
    assert stacks[3].order.standing(0.0)["primary"] == 0
    assert spread(stacks, 3, 0) == [(3, 0), (0, 1), (0, 2), (0, 4)]
    assert spread(stacks, 0, 0) == [(0, 1), (0, 2), (0, 3), (0, 4)]


@given(st.lists(st.integers(0, 30), min_size=2, max_size=9), st.integers(0, 8), st.integers(0, 4))
def test_every_listener_gets_a_packet_once_whoever_publishes_it(heard, source, channel):
    listening = {member: 2 * channels | 1 for member, channels in enumerate(heard)}
    source %= len(listening)
    stacks = group(listening, 6)
    edges = spread(stacks, source, channel)
    expected = [m for m, channels in listening.items() if channels >> channel & 1 and m != source]
    assert Counter(to for _, to in edges) == Counter(expected)


def test_a_repair_and_a_second_copy_are_not_passed_on():
    stacks = group(dict.fromkeys(range(4), 1), 1)
    first, second = (Packet(stream_of(3, 0), seqno, b"x") for seqno in (0, 1))
    assert len(copies(stacks[0].step(1.0, Received(3, [first], FIRST_PASS)))) == 2
    assert copies(stacks[0].step(1.0, Received(3, [first], FIRST_PASS))) == []
    assert copies(stacks[0].step(1.0, Received(2, [second], PEER))) == []


def test_a_packet_that_comes_after_its_place_is_not_missing_until_it_is_overdue():
    """Else it would be asked for in vain."""
    stacks = group(dict.fromkeys(range(3), 1), 1, order_patience=1.0)
    packet = Packet(stream_of(1, 0), 0, b"x")
    stacks[0].step(0.01, Received(1, [packet], FIRST_PASS))
    (answer,) = stacks[0].step(0.01, Heard(2, PlacesWanted(0, 0)))
    stacks[2].step(0.02, Heard(0, answer.message))
    assert stacks[2].order.standing(0.02)["places"] == 2, "where the order begins, and the packet's"
    assert not stacks[2].streams.of(packet.sender).missing
    assert stacks[2].streams.of(packet.sender).next == 0
    told = [effect for beat in (1, 2, 3) for effect in stacks[2].step(0.02 + beat / 10, Woke())]
    assert [effect.first for effect in told if isinstance(effect, ReportLost)] == [0], "there is no repair"


@pytest.mark.parametrize("name", SCENARIOS)
def test_packets_that_come_down_the_tree_are_delivered_in_one_order(name):
    expect_one_order(name, 1, dissemination="graph")
    expect_one_order(name, 2, dissemination="graph", order_failures="non-atomic")
    over_channels(name, 3, dissemination="graph")


@pytest.mark.parametrize("name", BRANCHED)
def test_so_they_are_with_branches(name):
    in_branches(name, 1, dissemination="graph")
    in_branches(name, 2, dissemination="graph", order_failures="non-atomic")


def test_a_primary_that_is_alone_in_its_branch_enters_the_trunk_there_once():
    """The trunk is settled within a run of packets, and there are no other sites to wait for."""
    in_branches("halves cut apart and suspected", 2001, dissemination="graph", order_failures="non-atomic")


def test_after_a_primary_fails_packets_go_by_way_of_the_next():
    """Nobody tells members that 0 stands still but the order: its view is fixed."""
    result = expect_one_order("the primary stands still", 1, dissemination="graph", order_patience=0.2)
    repairs = result["deliveries"]["peer"] / result["deliveries"]["actual"]
    assert result["order"]["primary"] != 0
    assert repairs < 0.25, "for 2.5 s of 5 s only member 0 lacks everything, and the others a loss in twenty"


def test_the_tree_takes_as_long_as_multicast_and_costs_a_copy_for_each_member():
    """A packet that comes earlier than its place has to wait. Lines are so fast that copies cost no time (P = 0).

    Reference: 002 §4, Tables 1 and 2
    """
    table = {
        "duration": 10.0,
        "topology": {"kind": "lan", "members": 8, "latency": 0.001, "bandwidth": 1e10},
        "traffic": {"senders": 3, "rate": 50.0, "arrivals": "steady"},
        "protocol": {"name": "unreliable", "ordering": "total", "order_failures": "non-atomic"},
    }
    made = [{**table["protocol"], "dissemination": word} for word in ("multicast", "graph")]
    multicast, tree = (simulate(parse({**table, "protocol": protocol})) for protocol in made)
    assert tree["deliveries"] == multicast["deliveries"]
    assert tree["latency"]["max"] == pytest.approx(multicast["latency"]["max"], rel=0.1)
    assert tree["overhead"] == multicast["overhead"]
    crossed = [sum(link["packets"] for link in result["links"].values()) for result in (multicast, tree)]
    planned = {e.name: e.value for e in with_order(plan(members=8, loss=0.01, rate=50.0, size=1024)).entries}
    assert planned["graph_copies"] == 7
    line = tree["links"][f"{tree['order']['primary']}-8"]["bytes"] / 10.0
    assert line == pytest.approx(planned["graph_load"], rel=0.05), "and a little for places and headers"
    assert crossed[1] - crossed[0] == tree["packets"]["sent"] * (2 * 7 - 8), "the lines of both ends; all lines once"
