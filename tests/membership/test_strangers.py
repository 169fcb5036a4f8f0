"""What processes outside the view can make a member do: little, and nothing that lasts."""

from __future__ import annotations

import pytest

from gossamer.core.effects import Unicast
from gossamer.core.inputs import Heard, Received
from gossamer.core.messages import (
    Data,
    Gossip,
    Heartbeat,
    Heartbeats,
    Join,
    Leave,
    Recall,
    Request,
    Solicit,
    ViewUpdate,
    Where,
)
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.views import MemberEntry
from gossamer.membership.view import JOINING, LEFT
from tests.papers.hand import Letter, Table

DAY_US = 86_400 * 10**6


def group(**changes) -> Table:
    return Table("rpbcast", 4, loggers=(3,), membership="sponsored", **changes)


@pytest.mark.parametrize("member", [0, 3])
def test_a_stranger_is_not_served(member):
    table = group()
    table.publish(0, 20)
    table.settle()
    everything = {0: RangeSet([(0, 19)])}
    for message in (Request(everything), Recall(0), Solicit(0, everything), Heartbeats({}, answer=True)):
        assert table.step(member, Heard(99, message)) == []


def test_a_gossip_of_a_stranger_is_answered_with_one_entry():
    table = group()
    (answer,) = table.step(0, Heard(99, Gossip(missing={0: RangeSet([(0, 9)])}, heartbeats=1, view=1, stamp=1)))
    assert isinstance(answer, Unicast)
    assert isinstance(answer.message, ViewUpdate)
    assert [entry.member for entry in answer.message.entries] == [0]


def test_a_member_that_was_said_to_have_left_hears_of_it_by_its_own_gossip():
    table = group()
    table.wait(1.0)
    for member in (0, 1, 3):
        table.step(member, Heard(9, ViewUpdate([MemberEntry(2, LEFT, 3600 * 10**6)])))
    assert 2 not in table.stacks[0].roster.members
    table.letters.clear()
    table.wait(5.0)
    assert all(stack.roster.members == (0, 1, 2, 3) for stack in table.stacks.values())


def test_one_whose_place_was_taken_by_a_lie_of_the_future_joins_again():
    table = group()
    lie = ViewUpdate([MemberEntry(7, LEFT, DAY_US - 1)])
    for member in range(4):
        table.step(member, Heard(9, lie))
    table.letters.clear()
    table.seat(7, ())
    table.wait(5.0)
    assert table.stacks[7].is_member
    assert all(7 in stack.roster.members for stack in table.stacks.values())


@pytest.mark.parametrize("message", [Leave(2**53), ViewUpdate([MemberEntry(1, LEFT, 2**53)])])
def test_what_is_centuries_ahead_of_the_clock_is_ignored(message):
    table = group()
    table.step(0, Heard(1, message))
    assert 1 in table.stacks[0].roster.members
    assert table.stacks[0].ignored["entries ahead of our clock"] == 1


def test_processes_that_want_to_join_and_never_come_are_forgotten():
    table = group()
    for number in range(100, 200):
        table.step(0, Heard(number, Join(MemberEntry(number, JOINING, 5))))
    table.letters.clear()
    table.wait(1.0)
    assert len(table.stacks[0].roster.joining) == 64
    table.wait(60.0)
    assert all(stack.roster.members == stack.roster.owed == (0, 1, 2, 3) for stack in table.stacks.values())


def test_senders_outside_the_view_are_limited_but_members_are_always_heard():
    table = group()
    for number in range(1000, 2000):
        table.step(0, Received(number, [Packet(number, 3, b"x")], "first_pass"))
    assert len(table.stacks[0].streams) < 300
    assert table.stacks[0].ignored["too many unknown senders"] > 700
    table.publish(1, 3)
    table.settle()
    assert table.numbers(0, 1) == [0, 1, 2]


@pytest.mark.parametrize("ordering", ["none", "fifo"])
def test_what_was_given_up_by_hearsay_is_delivered_when_its_sender_comes_to_it(ordering):
    table = Table("rpbcast", 3, loggers=(), membership="sponsored", ordering=ordering)
    table.publish(1, 3)
    table.settle()
    table.step(0, Heard(1, Heartbeat(50_000)))
    table.wait(30.0)
    assert not table.lost.get(0)  # its sender has said that there is no such packet
    table.publish(1, 5)
    table.settle()
    assert table.numbers(0, 1) == list(range(8))


@pytest.mark.parametrize("ordering", ["none", "fifo"])
@pytest.mark.parametrize("forged", [[900], [50_000], [400, 50_000, 90_000], list(range(30_000, 31_500))], ids=len)
def test_a_sender_is_heard_and_repaired_below_packets_that_were_forged_in_its_name(ordering, forged):
    table = Table("rpbcast", 3, loggers=(), membership="sponsored", ordering=ordering)
    table.publish(1, 3)
    table.settle()
    for number in forged:
        table.step(0, Received(1, [Packet(1, number, b"a lie")], "first_pass"))
    table.publish(1, 2)
    table.settle()
    assert [n for n in table.numbers(0, 1) if n < 100] == list(range(5))  # while the gap is still open
    table.wait(30.0)
    assert not table.lost.get(0)
    for at in range(5, 500, 5):
        table.publish(1, 5)
        table.pass_on(lambda letter, at=at: not (letter.to == 0 and _number_of(letter) == at + 2))  # that one is lost
        table.wait(0.2)
    table.wait(5.0)
    heard = [n for n in table.numbers(0, 1) if n < 400]
    assert (heard if ordering == "fifo" else sorted(heard)) == list(range(400))


def _number_of(letter: Letter) -> int:
    return letter.message.packet.seqno if isinstance(letter.message, Data) else -1


def test_a_packet_that_comes_a_little_late_stays_lost():
    table = Table(
        "rpbcast", 2, membership="sponsored", ordering="fifo", repair=["negative"], buffering="size", buffer_packets=1
    )
    table.publish(1, 6)
    late = [letter for letter in table.letters if _number_of(letter) in (3, 4)]
    table.pass_on(lambda letter: _number_of(letter) not in (3, 4))
    table.wait(30.0)
    assert [(lost.first, lost.last) for lost in table.lost[0]] == [(3, 4)]
    for letter in late:
        table.hand(letter)
    table.wait(30.0)
    assert table.numbers(0, 1) == [0, 1, 2, 5]


def test_a_true_number_that_is_too_high_is_believed_a_little_later():
    table = group()
    table.publish(1)
    table.settle()
    table.wait(10.0)
    far = 200_000 + 20_000_000
    table.step(0, Heard(1, Heartbeat(far)))
    assert table.stacks[0].streams[1].next == 1
    table.wait(20.0, pass_on=False)
    table.step(0, Heard(1, Heartbeat(far)))
    assert table.stacks[0].streams[1].next == far + 1


def test_many_lies_go_no_further_than_a_large_one():
    table = group()
    table.publish(1)
    table.settle()
    for lie in range(1, 100):
        table.step(0, Heard(1, Heartbeat(lie * 50_000)))
    assert table.stacks[0].streams[1].next <= 200_000


@pytest.mark.parametrize("ordering", ["none", "fifo"])
@pytest.mark.parametrize("comes_back_by", ["packet", "heartbeat"])
@pytest.mark.parametrize("given_up", [(3, 52), (3, 20_000)], ids=["in part", "all"])
def test_what_a_sender_sent_where_only_lies_were_known_of_is_asked_for(ordering, comes_back_by, given_up):
    """A member is away while the sender comes to numbers that were given up because of a lie, or goes past them."""
    table = Table("rpbcast", 3, loggers=(), membership="sponsored", ordering=ordering)
    table.publish(1, 3)
    table.settle()
    table.step(0, Heard(1, Heartbeat(20_000)))
    table.stacks[0].gaps.give_up(table.now, 1, *given_up, "a lie", [])
    table.publish(1, 50)
    table.pass_on(lambda letter: letter.to != 0)
    if comes_back_by == "packet":
        table.publish(1, 1)
        table.settle()
    else:
        table.step(0, Heard(1, Heartbeat(52)))
    table.wait(2.0)
    heard = table.numbers(0, 1)
    assert (heard if ordering == "fifo" else sorted(heard)) == list(range(54 if comes_back_by == "packet" else 53))


def test_a_silent_sender_puts_right_what_others_believe_of_it():
    """Its own word counts, though it is lower: nothing is sent for a while after a lie that was given up."""
    table = Table("rpbcast", 3, loggers=(), membership="sponsored")
    table.publish(1, 3)
    table.settle()
    table.wait(1.0)
    table.step(0, Heard(1, Heartbeat(20_000)))
    table.stacks[0].gaps.give_up(table.now, 1, 3, 20_000, "a lie", [])
    table.publish(1, 5)
    table.letters.clear()
    table.wait(1.0, pass_on=False)
    table.letters.clear()  # its heartbeat is lost, too: only the hashes are left
    table.wait(10.0)
    assert table.numbers(0, 1) == list(range(8))
    table.take(Heartbeats)
    table.wait(3.0, pass_on=False)
    assert not table.take(Heartbeats), "they agree"


def test_a_loss_that_waits_for_its_turn_is_not_reported_if_its_packets_come():
    """What was given up because of a lie waits for a packet that is lost; meanwhile its sender comes to it."""
    table = Table("rpbcast", 3, loggers=(), membership="sponsored", ordering="fifo")
    table.publish(1, 4)
    table.pass_on(lambda letter: letter.to != 0 or _number_of(letter) < 3)
    table.step(0, Heard(1, Heartbeat(20_000)))
    table.stacks[0].gaps.give_up(table.now, 1, 4, 20_000, "a lie", [])
    table.publish(1, 3)
    table.pass_on(lambda letter: isinstance(letter.message, Data))
    table.pass_on(lambda letter: isinstance(letter.message, Where))
    table.settle()
    table.wait(2.0)
    assert table.numbers(0, 1) == list(range(7))
    assert not table.lost.get(0)
