"""Lies about what a sender has sent, told before it has: none of them costs a packet that it sends later."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.core.arrival import arrival
from gossamer.core.inputs import Started
from gossamer.core.messages import Data, Gossip, Heartbeat, Message, NeverSent, Request
from gossamer.core.packets import Packet
from gossamer.core.questions import Here, Where
from gossamer.core.ranges import RangeSet
from tests.papers.hand import Table

SENDER, READER, LOGGER = range(3)
FAR = 300
LIE, TRUE = b"lie", b"x" * 100


def table_of(members: int = 3, **settings: Any) -> Table:
    """A sender, a reader and a logger, in order; one packet has come."""
    usual = {"gossip_period": 0.1, "loss_patience": 1.0, "retention_age": 1e12}
    table = Table("rpbcast", members, loggers=(LOGGER,), ordering="fifo", **{**usual, **settings})
    publish(table, 1)
    return table


def publish(table: Table, count: int) -> None:
    """Each on its own, and heard by all."""
    for _ in range(count):
        table.publish(SENDER)
        table.settle()


def tell(table: Table, to: int, source: int, message: Message) -> None:
    table.step(to, arrival(source, message))


def lie_to_all(table: Table, message: Message, source: int = SENDER) -> None:
    for member in (READER, LOGGER):
        tell(table, member, source, message)


def has_everything(table: Table, count: int) -> bool:
    """Read once, in order, and logged."""
    numbers = [packet.seqno for packet in table.delivered[READER] if packet.body == TRUE]
    logged = [number for (_, number), packet in sorted(table.logs[LOGGER].items()) if packet.body == TRUE]
    return numbers == logged == list(range(count))


@pytest.mark.parametrize("wait_s", [0.0, 3.0])
def test_a_packet_is_read_and_logged_though_a_lie_came_before_under_its_number(wait_s):
    table = table_of()
    lie_to_all(table, Data(Packet(SENDER, FAR, LIE)))
    table.wait(wait_s)  # so long that what is below it is given up
    publish(table, FAR + 5)
    table.wait(5.0)
    assert has_everything(table, FAR + 6)


def test_several_lies_cost_nothing_wherever_they_are():
    table = table_of()
    for number in (FAR, FAR + 1, 2 * FAR, 3 * FAR):
        lie_to_all(table, Data(Packet(SENDER, number, LIE)))
        publish(table, 2)
    publish(table, 3 * FAR)
    table.wait(5.0)
    assert has_everything(table, 3 * FAR + 9)


@pytest.mark.parametrize("lie", [Data(Packet(SENDER, 5 * FAR, LIE)), Heartbeat(5 * FAR)])
def test_what_is_lost_after_a_lie_is_repaired(lie):
    table = table_of()
    lie_to_all(table, lie)
    lie_to_all(table, NeverSent({SENDER: RangeSet.span(1, 60)}, lost=True), LOGGER)
    lie_to_all(table, NeverSent({SENDER: RangeSet.span(1, 60)}, lost=True), SENDER)
    table.wait(3.0)
    for _ in range(10):
        table.publish(SENDER, 3)
        table.pass_on(lambda letter: not isinstance(letter.message, Data) or letter.message.packet.seqno % 3 == 0)
        table.settle()
    table.wait(5.0)
    assert has_everything(table, 31)


def test_a_logger_does_not_deny_what_its_sender_sends_later():
    """Somebody said in the sender's name that it is lost; the logger is asked for it before it has it."""
    table = table_of()
    tell(table, LOGGER, SENDER, NeverSent({SENDER: RangeSet.span(1, 50)}, lost=True))
    table.publish(SENDER, 2)
    table.pass_on(lambda letter: isinstance(letter.message, Data) and letter.message.packet.seqno == 2)
    table.take(Request, Where)
    tell(table, LOGGER, READER, Request({SENDER: RangeSet.span(1, 1)}))
    assert not table.take(NeverSent)
    table.wait(5.0)
    assert has_everything(table, 3)


def test_nobody_else_can_say_where_a_sender_is():
    table = table_of()
    publish(table, 2 * FAR)
    tell(table, READER, SENDER, Heartbeat(5))  # far below: it is asked
    assert [letter.to for letter in table.letters if isinstance(letter.message, Where)] == [SENDER]
    tell(table, READER, SENDER, Here(12345, 5))
    publish(table, 5)
    table.wait(5.0)
    assert has_everything(table, 2 * FAR + 6)


def test_a_packet_that_comes_late_is_not_delivered_after_it_was_reported_lost():
    table = Table("rpbcast", 2, ordering="fifo", repair=["negative"], buffer_packets=10, buffering="size")
    table.publish(SENDER)
    late = table.take(Data)[0]
    for _ in range(2 * FAR):
        table.publish(SENDER)
        table.pass_on(lambda letter: isinstance(letter.message, Data))
    table.wait(20.0)
    assert [(loss.first, loss.last) for loss in table.lost[READER]] == [(0, 0)]
    table.hand(late)
    table.wait(20.0)
    assert table.numbers(READER, SENDER) == list(range(1, 2 * FAR + 1))


def test_a_sender_that_goes_on_after_its_answer_has_not_lied():
    """Others speak of its next packet before the answer is here: what was reported as lost before stays lost."""
    table = Table("rpbcast", 2, ordering="none", repair=["negative"], buffer_packets=10, buffering="size")
    table.publish(SENDER)
    late = table.take(Data)[0]
    for _ in range(2 * FAR):
        table.publish(SENDER)
        table.pass_on(lambda letter: isinstance(letter.message, Data))
    table.wait(20.0)
    assert [(loss.first, loss.last) for loss in table.lost[READER]] == [(0, 0)]
    table.hand(late)
    table.pass_on(lambda letter: isinstance(letter.message, Where))
    answer = table.take(Here)[0]
    table.publish(SENDER)
    table.take(Data)
    tell(table, READER, SENDER, Heartbeat(2 * FAR + 1))
    table.hand(answer)
    stream = table.stacks[READER].streams[SENDER]
    assert (stream.abandoned.ranges(), stream.missing.ranges()) == ([(0, 0)], [(2 * FAR + 1, 2 * FAR + 1)])


def test_what_was_acknowledged_because_of_a_lie_is_not_collected():
    """The reader has given up what nobody could send, and the logger believes that it has everything."""
    table = table_of(retention_age=0.0)
    view = table.stacks[LOGGER].roster.signature
    lie_to_all(table, Heartbeat(5 * FAR))
    tell(table, LOGGER, READER, Gossip(seen={SENDER: 5 * FAR}, view=view))
    tell(table, LOGGER, SENDER, Gossip(seen={SENDER: 5 * FAR}, view=view))
    table.publish(SENDER, 2)
    table.pass_on(lambda letter: letter.to == LOGGER)
    table.pass_on(lambda letter: READER not in (letter.to, letter.source))  # the logger asks the sender
    table.pass_on(lambda letter: READER not in (letter.to, letter.source))
    table.wait(20.0, pass_on=False)
    assert (SENDER, 2) in table.logs[LOGGER]


def test_a_member_that_joined_with_a_lie_hears_what_comes():
    table = table_of(members=2)
    table.seat(LOGGER, (SENDER, READER, LOGGER), Started({SENDER: 5 * FAR}))
    table.seat(READER, (SENDER, READER, LOGGER), Started({SENDER: 5 * FAR}))
    table.stacks.pop(SENDER)
    table.seat(SENDER, (SENDER, READER, LOGGER))
    publish(table, 10)
    table.wait(5.0)
    assert table.numbers(READER, SENDER)[-10:] == list(range(10))


def test_a_lie_below_a_lie_does_not_say_where_the_sender_is():
    table = table_of(members=2)
    for member in (LOGGER, READER):
        table.seat(member, (SENDER, READER, LOGGER), Started({SENDER: 5 * FAR}))
    table.stacks.pop(SENDER)
    table.seat(SENDER, (SENDER, READER, LOGGER))
    lie_to_all(table, Data(Packet(SENDER, 2 * FAR, LIE)))
    table.settle()
    stream = table.stacks[READER].streams[SENDER]
    assert (stream.start, stream.next) == (0, 0)
    publish(table, 3)
    assert table.numbers(READER, SENDER)[-3:] == [0, 1, 2]


def test_a_logger_that_was_restarted_replaces_the_lies_in_its_log():
    table = table_of()
    lie_to_all(table, Heartbeat(FAR))  # or its packet would be too far ahead to be taken in
    lie_to_all(table, Data(Packet(SENDER, FAR, LIE)))
    table.settle()
    assert table.logs[LOGGER][SENDER, FAR].body == LIE
    table.seat(LOGGER, (SENDER, READER, LOGGER), Started({}, logged=table.holdings(LOGGER)))
    publish(table, FAR + 5)
    table.wait(5.0)
    assert has_everything(table, FAR + 6)


def publish_without(table: Table, away: int, count: int) -> None:
    """One member hears nothing of it, and is not heard."""
    for _ in range(count):
        table.publish(SENDER)
        while table.letters:
            table.pass_on(lambda letter: away not in (letter.to, letter.source))


@pytest.mark.parametrize("away", [READER, LOGGER])
@pytest.mark.parametrize("ahead", [250, 100, 33])
def test_a_lie_is_noticed_by_a_member_that_was_away_until_its_sender_had_come_near(away, ahead):
    table = table_of()
    lie_to_all(table, Data(Packet(SENDER, FAR, LIE)))
    publish_without(table, away, FAR - ahead)
    publish(table, 2 * ahead)
    table.wait(5.0)
    assert has_everything(table, FAR + ahead + 1)


@pytest.mark.parametrize("away", [READER, LOGGER])
def test_a_lie_does_not_take_the_place_of_what_was_sent_while_a_member_was_away(away):
    table = table_of()
    lie_to_all(table, Data(Packet(SENDER, FAR, LIE)))
    publish_without(table, away, FAR + 100)
    publish(table, 5)
    table.wait(5.0)
    assert has_everything(table, FAR + 106)


def test_what_comes_after_a_long_loss_is_taken_in_when_it_goes_on():
    table = table_of()
    publish_without(table, READER, FAR)
    for _ in range(2):
        table.publish(SENDER)
        table.pass_on(lambda letter: isinstance(letter.message, Data))
    assert table.stacks[READER].streams[SENDER].received(RangeSet.span(1, 2 * FAR)) == RangeSet.span(FAR + 1, FAR + 2)


def test_a_lie_is_not_in_the_log_of_a_logger_that_ends_before_it_can_ask():
    table = table_of()
    lie_to_all(table, Data(Packet(SENDER, FAR, LIE)))
    publish_without(table, LOGGER, FAR + 100)
    table.seat(LOGGER, (SENDER, READER, LOGGER), Started({}, logged=table.holdings(LOGGER)))
    publish(table, 5)
    table.wait(5.0)
    assert has_everything(table, FAR + 106)


def test_a_lie_near_its_sender_is_noticed_if_it_was_told_some_time_ago():
    table = table_of()
    lie_to_all(table, Data(Packet(SENDER, 5, LIE)))
    table.wait(0.5, pass_on=False)
    publish(table, 10)
    table.wait(5.0)
    assert has_everything(table, 11)


def test_a_logger_that_is_restarted_near_a_lie_asks_at_once():
    table = table_of()
    lie_to_all(table, Data(Packet(SENDER, FAR, LIE)))
    publish_without(table, LOGGER, FAR - 10)
    table.seat(LOGGER, (SENDER, READER, LOGGER), Started({}, logged=table.holdings(LOGGER)))
    publish(table, 20)
    table.wait(5.0)
    assert has_everything(table, FAR + 11)


def test_a_lie_is_replaced_in_the_log_though_its_sender_passes_it_while_it_is_asked():
    table = table_of()
    tell(table, LOGGER, SENDER, Data(Packet(SENDER, FAR, LIE)))
    table.publish(SENDER)
    table.pass_on(lambda letter: isinstance(letter.message, Data))
    table.pass_on(lambda letter: isinstance(letter.message, Where))
    answers = table.take(Here)
    for _ in range(FAR):
        table.publish(SENDER)
        table.pass_on(lambda letter: isinstance(letter.message, Data))
    for answer in answers:
        table.hand(answer)
    table.wait(5.0)
    assert len(answers) == 1
    assert has_everything(table, FAR + 2)


def test_packets_that_overtake_each_other_a_little_raise_no_doubt():
    table = table_of()
    table.publish(SENDER, 32)
    for letter in reversed(table.take(Data)):
        table.hand(letter)
    assert not table.take(Where)


def test_a_packet_of_which_somebody_says_that_it_never_was_is_kept_until_a_logger_has_it():
    """The logger believes it, as long as it lacks the packet; but it has acknowledged nothing."""
    table = table_of()
    table.publish(SENDER, 3)
    table.pass_on(lambda letter: isinstance(letter.message, Data) and letter.message.packet.seqno == 3)
    tell(table, LOGGER, SENDER, NeverSent({SENDER: RangeSet.span(1, 2)}))
    table.wait(5.0)
    assert [number for _, number in sorted(table.logs[LOGGER])] == [0, 1, 2, 3]
