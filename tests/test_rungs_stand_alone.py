"""No rung leans on another in silence: what one does must not depend on which others there are.

Each of these failed while only negative gossip served, answered, aged and carried views.
"""

from __future__ import annotations

import pytest

from gossamer.core.effects import Unicast
from gossamer.core.inputs import Heard, LeaveAsked, Received
from gossamer.core.messages import Echo, Gossip, Join, Repair, Request
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.views import MemberEntry
from gossamer.membership.view import JOINING
from gossamer.presets import LIVE, LIVE_PRESETS, preset
from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse
from tests.papers.hand import Table

LIVE_KINDS = ["rpbcast", "pbcast", "lbrm", "basic", "redelivery", "srm"]


def test_what_is_in_flight_when_a_member_leaves_is_not_repeated_to_it_forever():
    table = Table("basic", 4, membership="sponsored")
    table.publish(0, 3)
    table.pass_on(lambda letter: letter.to != 3)
    table.step(3, LeaveAsked())
    table.wait(5.0)
    del table.stacks[3]
    table.letters.clear()
    table.wait(10.0, pass_on=False)
    assert not [letter for letter in table.letters if letter.to == 3 and isinstance(letter.message, Repair)]
    assert table.stacks[0].buffered() == 0


def test_a_member_that_joins_a_basic_group_gets_what_its_sponsors_had_not_seen():
    """Nobody tells it of a last packet but the packet itself."""
    table = Table("basic", 3, membership="sponsored")
    table.publish(0, 1)
    table.pass_on(lambda letter: False)  # nobody has it yet
    table.seat(9, ())
    table.pass_on(lambda letter: isinstance(letter.message, Join) and letter.to != 0)
    table.settle()
    assert table.stacks[9].is_member
    table.wait(5.0)
    assert table.numbers(9, 0) == [0]


@pytest.mark.parametrize("protocol", LIVE_KINDS)
def test_healthy_members_are_not_suspected(protocol):
    """Twelve members, no loss, the settings of live groups, a minute."""
    made = parse(
        {
            "name": "healthy",
            "duration": 60.0,
            "linger": 1.0,
            "topology": {"kind": "lan", "members": 12, "latency": 0.0005},
            "traffic": {"senders": 2, "rate": 2.0},
            "protocol": {"name": protocol, **LIVE, **LIVE_PRESETS[protocol], "ordering": "fifo", "window": 64},
        }
    )
    assert simulate(made)["suspicions"] == {"false": 0, "true": 0}


@pytest.mark.parametrize("protocol", LIVE_KINDS)
def test_a_dead_member_is_suspected(protocol):
    made = parse(
        {
            "name": "dead",
            "duration": 30.0,
            "linger": 1.0,
            "topology": {"kind": "lan", "members": 6, "latency": 0.0005},
            "traffic": {"senders": 2, "rate": 2.0},
            "protocol": {"name": protocol, **LIVE, **LIVE_PRESETS[protocol], "ordering": "fifo", "window": 64},
            "fault": [{"at": 5.0, "kind": "crash", "members": [4], "memory": "lost"}],
        }
    )
    found = simulate(made)["suspicions"]
    assert found["true"] >= 1
    assert found["false"] == 0


@pytest.mark.parametrize("protocol", ["rpbcast", "pbcast", "lbrm", "basic", "unreliable"])
def test_everybody_answers_an_echo_and_keeps_round_trip_times(protocol):
    table = Table(protocol, 2, loggers=(1,) if preset(protocol).loggers else ())
    (answer,) = [e.message for e in table.step(0, Heard(1, Gossip(stamp=77))) if isinstance(e, Unicast)]
    assert answer == Echo(77)
    table.now = 1.0
    table.step(0, Heard(1, Echo(750_000)))
    assert table.stacks[0].round_trips.times == {1: pytest.approx(0.25)}


@pytest.mark.parametrize("protocol", ["rpbcast", "pbcast", "lbrm"])
@pytest.mark.parametrize("buffering", ["none", "age", "size"])
def test_a_logger_answers_a_request_wherever_the_packet_is(protocol, buffering):
    if buffering == "none" and protocol != "lbrm":
        pytest.skip("refused: peers keep nothing")
    table = Table(protocol, 4, loggers=(3,), buffering=buffering)
    table.publish(0, 2)
    table.pass_on(lambda letter: letter.to == 3)
    table.letters.clear()
    table.step(3, Heard(1, Request({0: RangeSet([(0, 1)])})))
    assert [letter.message.packet.seqno for letter in table.take(Repair)] == [0, 1]


@pytest.mark.parametrize("protocol", ["rpbcast", "pbcast", "lbrm", "basic", "unreliable"])
def test_a_buffer_by_age_ages_in_every_protocol(protocol):
    table = Table(protocol, 3, loggers=(2,) if preset(protocol).loggers else (), buffering="age", gc_rounds=3)
    table.step(1, Received(0, [Packet(0, 0, b"x")], "first_pass"))
    assert len(table.stacks[1].buffer) == 1
    table.wait(10 * table.settings.gossip_period, pass_on=False)
    assert len(table.stacks[1].buffer) == 0


@pytest.mark.parametrize("protocol", ["pbcast", "lbrm", "basic"])
def test_views_that_differ_become_one_without_negative_gossip(protocol):
    settings = {"membership": "sponsored", "gossip_period": 0.1}
    table = Table(protocol, 4, loggers=(3,) if protocol == "lbrm" else (), **settings)
    table.step(0, Heard(9, Join(MemberEntry(9, JOINING, 5))))
    table.letters.clear()  # nobody else hears of it, but by gossip
    table.wait(5.0)
    assert all(9 in table.stacks[member].roster.members for member in range(4))


@pytest.mark.parametrize("protocol", ["pbcast", "lbrm"])
def test_a_log_shrinks_without_negative_gossip(protocol):
    """Acknowledgements travel with whatever gossip there is."""
    table = Table(protocol, 4, loggers=(3,), membership="sponsored", gossip_period=0.05)
    table.publish(0, 5)
    table.wait(20.0)
    assert table.logs[3] == {}


def test_partial_views_hold_for_negative_gossip_too():
    table = Table("rpbcast", 30, view_size=3)
    targets: set[int] = set()
    for _ in range(12):
        table.wait(table.settings.gossip_period, pass_on=False)
        targets |= {letter.to for letter in table.take(Gossip) if letter.source == 1}
        table.letters.clear()
    assert len(targets) == 3
