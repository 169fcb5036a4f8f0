"""001, sentence by sentence: priority lists in action, the six pairs of events and actions, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gossamer.core.effects import Multicast, Note
from gossamer.core.inputs import Heard, Received
from gossamer.core.messages import (
    CoordinatorIs,
    Data,
    Descendants,
    IAmCoordinator,
    Repair,
    Request,
    Seek,
)
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.schema import SettingError
from gossamer.presets import preset
from gossamer.repair.coordinator import Coordinator
from gossamer.repair.priority_lists import fault_of
from gossamer.sim.checked import traced
from gossamer.sim.priorities import with_lists
from gossamer.sim.run import build_topology, simulate
from gossamer.sim.scenario import parse
from tests.papers.hand import Table

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
L1, L6 = [0, 1], [2, 5]
"""Links of Fig. 2.1 by the numbers of their nodes: that of h1, and the only one to h3, h4 and h5."""
A = [[], [0], [0, 1], [2, 0, 1], [2, 3, 0, 1]]
B = [[], [0, 3, 4], [0, 1, 3, 4], [0, 4], [0]]
"""The assignments of §5; host h1 is member 0."""


def rung(table: Table, member: int) -> Coordinator:
    (found,) = (repair for repair in table.stacks[member].gaps.repairs if isinstance(repair, Coordinator))
    return found


def coordinators(table: Table) -> dict[int, int | None]:
    return {member: rung(table, member).tree.coordinator for member in table.stacks}


def figure(protocol: str = "redelivery", fault: list[dict[str, Any]] | None = None, **settings: Any) -> Any:
    """The network of Fig. 2.1 with h1 as the source."""
    made = settings.pop("made", {})
    return parse(
        {
            "name": "figure-2-1",
            "duration": 10.0,
            "linger": 60.0,
            "topology": {"kind": "file", "path": "redelivery.edges"},
            "traffic": {"senders": 1, "rate": 40.0, "size": 500},
            "protocol": {"name": protocol, **settings},
            "fault": fault or [],
            **made,
        },
        str(SCENARIOS),
    )


def rows_of(made: Any, folder: Path, kind: str) -> list[dict[str, Any]]:
    path = folder / "trace.parquet"
    assert traced(made, path)["violations"] == []
    return [row for row in pq.read_table(path).to_pylist() if row["kind"] == kind]


# §4.2: correct lists.


@pytest.mark.parametrize(
    ("lists", "says"),
    [
        ([[1], [0]], "members 0, 1 lead each other in a circle"),
        ([[], []], "of members 0 and 1 neither may lead the other"),
        ([[], [0, 7]], "the list of member 1 names 7, which is no member"),
    ],
)
def test_lists_that_are_not_correct_are_refused_when_settings_are_made(lists, says):
    with pytest.raises(SettingError, match=f"protocol.lists: {says}; lists must be acyclic"):
        preset("redelivery", {"lists": lists})


def test_lists_must_be_there_for_all_members():
    with pytest.raises(SettingError, match=r"protocol\.lists: 2 lists for 5 members"):
        simulate(figure(lists=[[], [0]]))


# Appendix I.


def test_event_1_a_member_that_hears_no_coordinator_looks_for_one_along_its_list_and_round_again():
    table = Table("redelivery", 4)
    table.letters.clear()
    table.wait(2.0, pass_on=False)
    asked = [letter.to for letter in table.take(Seek) if letter.source == 3]
    assert asked[:7] == [0, 1, 2, 0, 1, 2, 0]
    assert coordinators(table) == {0: 0, 1: 1, 2: 2, 3: 3}


def test_event_2_a_member_that_is_probed_names_its_coordinator():
    table = Table("redelivery", 4)
    table.settle()
    table.wait(1.0)
    table.step(2, Heard(3, Seek(77)))
    assert [letter.message for letter in table.take(CoordinatorIs)] == [CoordinatorIs(0, 77)]


def test_event_2_a_member_that_knows_of_none_joins_the_search():
    table = Table("redelivery", 4)
    table.letters.clear()
    table.step(2, Heard(3, Seek(77)))
    assert coordinators(table)[2] == 2
    assert [letter.message for letter in table.take(CoordinatorIs)] == [CoordinatorIs(2, 77)]
    assert [letter.to for letter in table.take(Seek)] == [0]


def test_event_3_a_member_that_leads_itself_follows_the_coordinator_it_is_told_and_sends_desc():
    table = Table("redelivery", 4)
    table.wait(2.0, pass_on=False)
    table.letters.clear()
    table.step(3, Heard(2, CoordinatorIs(1, 1)))
    assert coordinators(table)[3] == 1
    (letter,) = table.take(Descendants)
    assert (letter.to, letter.message.complete) == (1, True)
    table.step(3, Heard(2, CoordinatorIs(2, 1)))  # it has one now
    assert coordinators(table)[3] == 1


@pytest.mark.parametrize("coordinator", [3, 2, 9, (1 << 63) - 1])
def test_event_3_nobody_follows_a_member_that_is_not_on_its_list(coordinator):
    table = Table("redelivery", 4)
    table.wait(2.0, pass_on=False)
    table.step(2, Heard(1, CoordinatorIs(coordinator, 1)))
    assert coordinators(table)[2] == 2


def test_event_4_fill_sends_each_packet_once_to_exactly_those_that_lack_it():
    """The example of appendix I, but for host k, which has no more than host j here."""
    table = Table("redelivery", 5)
    table.wait(1.0)
    i, j, k, source = 0, 1, 2, 4
    for number in (0, 1, 2, 3, 5, 6):
        table.step(i, Received(source, [Packet(source, number, b"x")], "first_pass"))
    table.wait(0.5, pass_on=False)
    table.letters.clear()
    table.effects.clear()
    missing, others = {source: RangeSet([(3, 3)])}, {k: {source: RangeSet([(2, 2)])}}
    table.step(i, Heard(j, Descendants({source: 4}, missing, others, complete=True)))
    table.wait(0.1, pass_on=False)
    sent = {e.message.packet.seqno: e.to for e in table.effects[i] if isinstance(e, Multicast) and e.to}
    assert sent == {3: (j, k), 5: (j, k), 6: (j, k)}
    assert 2 in [letter.message.packet.seqno for letter in table.take(Repair) if letter.to == k]


def test_event_4_what_cannot_be_filled_is_passed_on_to_the_coordinator():
    table = Table("redelivery", 4)
    table.wait(1.0)
    table.letters.clear()
    wanted = {0: RangeSet([(5, 9)])}
    table.step(1, Heard(3, Descendants({}, wanted)))
    (letter,) = table.take(Descendants)
    assert (letter.to, letter.message.missing) == (0, wanted)


def test_event_4_a_coordinator_asks_whoever_has_what_it_lacks():
    """Redelivery up the tree."""
    table = Table("redelivery", 4)
    table.wait(1.0)
    table.letters.clear()
    table.step(0, Heard(2, Descendants({3: 7}, {})))
    (letter,) = table.take(Request)
    assert (letter.to, letter.message.wanted) == (2, {3: RangeSet([(0, 7)])})


def test_event_4_what_a_side_brings_it_multicasts_to_all_that_lack_it():
    """Up the tree and down in one: it crosses the mended link once. Reference: 001 §4.1"""
    table = Table("redelivery", 5)
    table.wait(1.0)
    for number in range(8):
        table.step(3, Received(4, [Packet(4, number, b"x")], "first_pass"))
    for member in (1, 2):  # they have heard of it before the side is back
        table.step(0, Heard(member, Descendants({}, {4: RangeSet([(0, 7)])})))
    table.letters.clear()
    table.step(0, Heard(3, Descendants({4: 7}, {}, {4: {}}, complete=True)))
    (letter,) = table.take(Descendants)
    assert (letter.to, letter.message.missing, sorted(letter.message.others)) == (3, {4: RangeSet([(0, 7)])}, [1, 2])
    table.hand(letter)
    sent = {e.message.packet.seqno: sorted(e.to) for e in table.effects[3] if isinstance(e, Multicast) and e.to}
    assert sent == {seqno: [0, 1, 2] for seqno in range(8)}
    table.settle()
    table.wait(0.2)
    assert not [e for e in table.effects[0] if isinstance(e, Multicast) and e.to]  # and does not cross it again


def test_event_4_a_side_brings_it_whichever_of_its_members_is_heard_first():
    """One that says only that it follows may be faster than its old coordinator. Reference: 001 §4.1"""
    table = Table("redelivery", 5)
    table.wait(1.0)
    away = {member: table.stacks.pop(member) for member in (3, 4)}
    table.wait(3.0)
    table.stacks.update(away)
    table.letters.clear()
    table.step(0, Heard(3, Descendants({4: 7}, {})))
    (letter,) = (letter for letter in table.take(Descendants) if letter.source == 0)
    assert (letter.to, sorted(letter.message.others)) == (3, [1, 2])


def test_events_5_and_6_a_coordinator_says_so_and_those_that_hear_it_follow():
    table = Table("redelivery", 4)
    table.wait(1.0)
    assert coordinators(table) == dict.fromkeys(range(4), 0)
    table.letters.clear()
    table.wait(1.0, pass_on=False)
    assert {letter.source for letter in table.take(IAmCoordinator)} == {0}


def test_when_a_coordinator_goes_silent_another_is_elected_and_it_leads_again_when_it_is_back():
    table = Table("redelivery", 5)
    table.wait(1.0)
    gone = table.stacks.pop(0)
    table.wait(3.0)
    assert coordinators(table) == dict.fromkeys(range(1, 5), 1)
    table.stacks[0] = gone
    table.wait(3.0)
    assert coordinators(table) == dict.fromkeys(range(5), 0)


@pytest.mark.parametrize("lacking", [{}, {0: RangeSet([(7, 7)])}])
def test_what_nobody_has_is_given_up_though_members_take_over_for_a_moment_all_the_time(lacking):
    """Where many messages are lost, somebody does every second: that is no partition, though it lacks something."""
    table = Table("redelivery", 5, buffer_packets=2, gossip_period=0.1, peer_rounds=30)
    table.wait(1.0)
    table.publish(0, 8)
    table.pass_on(lambda letter: letter.to != 4 or letter.message.packet.seqno > 0)
    for second in range(20):
        table.step(0, Heard(1 + second % 3, Descendants({0: 7}, lacking, complete=True)))
        table.wait(1.0)
    assert [(loss.first, loss.last) for loss in table.lost[4]] == [(0, 0)]


# §3 (4) and §4.


def test_a_packet_that_reached_one_member_before_its_source_failed_reaches_all():
    """Epidemic propagation: h2 alone has it, and h1 is gone. Reference: 001 §3 (4)"""
    table = Table("redelivery", 5)
    table.wait(1.0)
    table.letters.clear()
    table.publish(4)
    table.pass_on(lambda letter: letter.to == 2)
    del table.stacks[4]
    table.wait(5.0)
    assert [table.numbers(member, 4) for member in range(4)] == [[0]] * 4


def test_a_gap_is_asked_for_at_the_nearest_member_of_the_list_and_then_elsewhere():
    """Transient failures. Reference: 001 §4.1"""
    table = Table("redelivery", 4)
    table.wait(1.0)
    table.stacks[3].round_trips.times.update({0: 0.5, 1: 0.1, 2: 0.3})
    table.letters.clear()
    table.publish(0, 3)
    table.pass_on(lambda letter: isinstance(letter.message, Data) and letter.message.packet.seqno != 1)
    asked = [(letter.source, letter.to) for letter in table.take(Request)]
    assert (3, 1) in asked


def test_a_member_that_lacks_what_it_is_asked_for_sends_it_on_when_it_comes():
    """On behalf of the original host. Reference: 001 §4.1"""
    table = Table("redelivery", 4)
    table.wait(1.0)
    table.publish(0, 3)
    table.pass_on(lambda letter: not (isinstance(letter.message, Data) and letter.message.packet.seqno == 1))
    table.letters.clear()
    table.step(1, Heard(3, Request({0: RangeSet([(1, 1)])})))
    table.letters.clear()
    table.step(1, Received(0, [Packet(0, 1, b"x")], "peer"))
    table.wait(0.1, pass_on=False)
    assert (3, 1) in [(letter.to, letter.message.packet.seqno) for letter in table.take(Repair)]


def test_a_red_alert_does_not_wait():
    """Out of order by default; FIFO if asked for. Reference: 001 §2.1"""
    for ordering, heard in (("none", [0, 2]), ("fifo", [0])):
        table = Table("redelivery", 3, ordering=ordering)
        table.publish(0, 3)
        table.pass_on(lambda letter: not (isinstance(letter.message, Data) and letter.message.packet.seqno == 1))
        assert table.numbers(1, 0) == heard


# The figures.


def test_figure_2_1_has_eleven_links_and_l6_is_the_only_way_to_three_hosts():
    topology = build_topology(figure())
    assert len(topology.links) == 11
    assert len(topology.members) == 5
    for link in (L1, L6):
        assert {(link[0], link[1])} <= {(k.a, k.b) for k in topology.links}


@pytest.mark.parametrize(
    ("lists", "tree"),
    [(A, {1: 1, 2: 1, 3: 2, 4: 2}), (B, {1: 3, 2: 1, 3: 4, 4: 4})],
    ids=["figure 4.1", "figure 5.1"],
)
def test_the_trees_of_the_figures_form_when_the_source_is_cut_off(lists, tree, tmp_path):
    """Whom each member found first, by its probes, and whom all follow then. Reference: 001 Fig. 4.1, Fig. 5.1"""
    made = figure(fault=[{"at": 3.0, "kind": "cut", "link": L1, "for": 6.0}], lists=lists, probe_period=0.05)
    found: dict[int, int] = {}
    follow: dict[int, int] = {}
    for row in rows_of(made, tmp_path, "coordinator"):
        if row["t_ns"] < 9e9:
            follow[row["member"]] = row["peer"]
            if row["t_ns"] > 3e9 and row["phase"] == "attached":
                found.setdefault(row["member"], row["sender"])
    root = next(member for member, parent in tree.items() if member == parent)
    assert {member: found.get(member, member) for member in tree} == tree
    assert follow == {0: 0, **dict.fromkeys(tree, root)}


def test_the_simulator_makes_sdf_lists_from_its_network():
    """Assignment A, whatever the bandwidth of l6. Reference: 001 §5.1"""
    made = with_lists(figure(priority="sdf"), build_topology(figure()))
    assert [list(named) for named in made.protocol.lists] == A
    assert fault_of(dict(enumerate(made.protocol.lists))) == ""


# §6.


def crossings(result: dict[str, Any]) -> int:
    return int(result["links"]["2-5"]["packets"])


def test_what_a_partition_missed_crosses_the_link_once_not_once_for_each_host():
    """m transmissions in place of k m. Reference: 001 §6"""
    cut = [{"at": 3.0, "kind": "cut", "link": L6, "for": 5.0}]
    ours, basic = simulate(figure(fault=cut)), simulate(figure("basic", fault=cut))
    for result in (ours, basic):
        assert result["packets"]["everywhere"] == result["packets"]["sent"]
    missed = 5.0 * 40.0
    assert 0.8 * missed < ours["repairs"]["sent"] < 1.2 * missed
    assert basic["repairs"]["sent"] > 3 * missed
    assert crossings(ours) < 1.4 * ours["packets"]["sent"]
    assert crossings(basic) > 3 * basic["packets"]["sent"]


def test_the_source_repeats_nothing_while_a_partition_lasts(tmp_path):
    """Reference: 001 §6"""
    made = figure(fault=[{"at": 3.0, "kind": "cut", "link": L6, "for": 6.0}])
    repairs = rows_of(made, tmp_path, "repair")
    assert repairs
    assert min(row["t_ns"] for row in repairs) > 9e9


def test_control_traffic_does_not_depend_on_the_number_of_packets_or_of_senders():
    """Reference: 001 §6; the paper replicates the protocol for every source, and we do not"""
    few, many, senders = (
        simulate(figure(made={"traffic": {"senders": n, "rate": rate, "size": 100}}))["overhead"]
        for n, rate in ((1, 5.0), (1, 500.0), (5, 500.0))
    )
    assert many["packets"] == pytest.approx(few["packets"], rel=0.05)
    assert senders["packets"] == pytest.approx(few["packets"], rel=0.1)
    assert senders["bytes"] < 1.6 * few["bytes"]


def test_a_note_is_made_whenever_a_member_follows_another():
    table = Table("redelivery", 3)
    table.wait(1.0)
    notes = [e for e in table.effects[2] if isinstance(e, Note) and e.kind == "coordinator"]
    assert [(note.peer, note.phase) for note in notes] == [(0, "told")]
