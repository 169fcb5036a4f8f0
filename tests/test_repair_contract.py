"""What every way of repair must do, whatever its name: one suite over all of them."""

from __future__ import annotations

import pytest

from gossamer.core.inputs import Received
from gossamer.core.messages import Data, Descendants, Gossip
from gossamer.core.packets import Packet

from .papers.hand import Table

REPAIRS = {
    "acknowledged": lambda: Table("basic", 4),
    "logger": lambda: Table("lbrm", 4, loggers=(3,)),
    "negative": lambda: Table("rpbcast", 4, loggers=(3,)),
    "negative, no logger": lambda: Table("rpbcast", 4),
    "negative, asking again": lambda: Table("rpbcast", 4, ask_again=0.01, round_trips=True, request_packets=4),
    "digest": lambda: Table("pbcast", 4),
    "digest, then logger": lambda: Table("pbcast", 4, loggers=(3,)),
    "negative, hashed bufferers": lambda: Table("rpbcast", 4, buffering="hashed", bufferers=2, short_rounds=1),
    "digest, hashed bufferers": lambda: Table("pbcast", 4, buffering="hashed", bufferers=2, short_rounds=1),
    "coordinator": lambda: Table("redelivery", 4),
    "coordinator, then logger": lambda: Table("redelivery", 4, loggers=(3,)),
    "srm": lambda: Table("srm", 4),
    "srm, adaptive": lambda: Table("srm", 4, adaptive_timers=True, request_packets=4),
    "srm, then logger": lambda: Table("srm", 4, loggers=(3,)),
    "negative, coordinator, logger": lambda: Table(
        "rpbcast", 4, loggers=(3,), repair=["negative", "coordinator", "logger"]
    ),
}


@pytest.fixture(params=REPAIRS)
def table(request):
    return REPAIRS[request.param]()


def lose(table, member: int, *numbers: int) -> None:
    """Hand over the first pass, but for these packets to this member."""
    table.pass_on(
        lambda letter: (
            not (letter.to == member and isinstance(letter.message, Data) and letter.message.packet.seqno in numbers)
        )
    )


def test_a_gap_in_the_middle_is_filled(table):
    table.publish(0, 5)
    lose(table, 1, 2)
    table.wait(3.0)
    assert sorted(table.numbers(1, 0)) == [0, 1, 2, 3, 4]


def test_a_lost_last_packet_is_noticed_and_filled(table):
    table.publish(0, 3)
    lose(table, 1, 2)
    table.wait(5.0)
    assert sorted(table.numbers(1, 0)) == [0, 1, 2]


def test_a_whole_stream_that_one_member_missed_is_filled(table):
    table.publish(0, 4)
    lose(table, 2, 0, 1, 2, 3)
    table.publish(0)
    table.wait(5.0)
    assert sorted(table.numbers(2, 0)) == [0, 1, 2, 3, 4]


def test_nothing_is_delivered_twice_however_often_it_comes(table):
    packet = Packet(0, 0, b"x")
    for phase in ("first_pass", "peer", "logger", "peer"):
        table.step(1, Received(2, [packet], phase))
    assert table.numbers(1, 0) == [0]


def test_without_loss_no_packet_is_sent_twice(table):
    table.publish(0, 10)
    sent = 0
    for _ in range(40):
        sent += sum(letter.message.kind == "repair" for letter in table.letters)
        table.pass_on()
        table.wait(0.1)
    assert sent == 0
    assert all(table.numbers(member, 0) == list(range(10)) for member in range(4))


def test_nobody_is_asked_for_what_is_not_missing(table):
    table.publish(0, 3)
    table.wait(2.0)
    table.letters.clear()
    table.wait(2.0, pass_on=False)
    assert not [letter for letter in table.letters if letter.message.kind == "request"]
    asking = (letter.message for letter in table.letters if isinstance(letter.message, Gossip | Descendants))
    assert not [message for message in asking if message.missing]


def test_a_forged_packet_in_ones_own_name_is_not_delivered(table):
    table.publish(0)
    table.step(0, Received(2, [Packet(0, 1, b"forged")], "first_pass"))
    assert [p.body for p in table.delivered[0]] == [b"x" * 100]


def test_a_large_jump_costs_no_more_than_a_small_one(table):
    """A hostile sequence number is one range, not a loop over everything below it."""
    table.step(1, Received(2, [Packet(2, 100_000, b"far")], "first_pass"))
    table.wait(1.0)
    assert table.stacks[1].streams[2].missing.range_count() <= 1


def test_an_impossible_jump_is_ignored(table):
    table.step(1, Received(2, [Packet(2, 2**60, b"far")], "first_pass"))
    assert 2 not in table.stacks[1].streams
    assert table.stacks[1].ignored["numbers too high"] == 1
