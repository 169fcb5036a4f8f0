"""The rungs of a logger by hand: what it claims, what it keeps, how it fills its log, how the past is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gossamer.core.effects import Collect, PastKnown
from gossamer.core.inputs import Committed, DamageFound, Disconnecting, Heard, LogSpan, RewindAsked, Started, Woke
from gossamer.core.messages import Ack, Data, Gossip, Holdings, NeverSent, Recall, Repair, Request
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.sim.checked import traced
from gossamer.sim.scenario import load
from tests.papers.hand import Letter, Table

SENDER, READER, LOGGER, OTHER = range(4)
FOR_EVER = 1e12
SCENARIO = Path(__file__).parents[1] / "scenarios" / "two-loggers.toml"


def table_with(loggers: tuple[int, ...] = (LOGGER,), members: int = 3, **settings: Any) -> Table:
    """A sender, a reader and loggers that keep everything, unless it is said otherwise."""
    usual = {"gossip_period": 0.1, "retention_age": FOR_EVER}
    return Table("rpbcast", members, loggers=loggers, ordering="fifo", **{**usual, **settings})


def loggerless_table(**settings: Any) -> Table:
    """Two members, to which a logger may come."""
    usual = {"repair": ["negative", "logger"], "gossip_period": 0.1, "retention_age": FOR_EVER}
    return Table("rpbcast", 2, loggers=(), ordering="fifo", **{**usual, **settings})


def restarted(table: Table, member: int, **kept: Any) -> None:
    """`member` loses its memory, not its log."""
    started = Started({}, logged=table.holdings(member), **kept)
    table.seat(member, tuple(sorted(table.stacks)), started)


def numbers(per_sender: PacketSets, sender: int = SENDER) -> list[int]:
    return list(per_sender.get(sender, RangeSet()))


# Acknowledgements


def test_a_restarted_logger_acknowledges_only_what_it_holds():
    """Reference: 000 §3.2."""
    table = table_with()
    table.publish(SENDER, 2)
    table.settle()
    table.publish(SENDER, 3)
    table.pass_on(lambda letter: letter.to == READER)  # the logger hears nothing of these
    restarted(table, LOGGER)
    acks: list[Ack] = []
    for _ in range(40):
        table.wait(0.05, pass_on=False)
        acks += [letter.message for letter in table.letters if isinstance(letter.message, Ack)]
        for ack in acks:
            assert set(numbers(ack.have)) <= {seqno for _, seqno in table.logs[LOGGER]}
        table.pass_on()
    assert numbers(table.holdings(LOGGER)) == [0, 1, 2, 3, 4]
    assert table.stacks[SENDER].settled() == 5


def test_the_gossip_of_a_logger_claims_only_what_is_logged():
    """Reference: 000 §5.2: an acknowledgement may be derived from a logger's gossip, so it must be true."""
    table = table_with()
    table.publish(SENDER, 4)
    table.pass_on(lambda letter: letter.to == READER or letter.message.packet.seqno in (0, 1, 3))
    table.wait(0.5, pass_on=False)
    gossips = [
        letter.message
        for letter in table.letters
        if isinstance(letter.message, Gossip) and (letter.source, letter.to) == (LOGGER, SENDER)
    ]
    assert gossips
    assert all(gossip.logged <= 1 for gossip in gossips)


def test_a_logger_does_not_claim_what_was_sent_before_it_came():
    table = loggerless_table()
    table.publish(SENDER, 3)
    table.settle()
    table.loggers = (LOGGER,)
    table.seat(LOGGER, ())
    table.wait(2.0)
    assert LOGGER in table.stacks[SENDER].roster.loggers
    table.publish(SENDER, 2)
    table.wait(1.0)
    assert numbers(table.holdings(LOGGER)) == [3, 4]
    assert table.stacks[SENDER].settled() == 5


def test_a_logger_that_founds_its_group_alone_continues_after_its_log():
    """Its sender did not answer in time: what is in the log is not asked for again, nor waited for."""
    table = table_with(found_after=2)
    table.publish(SENDER, 5)
    table.wait(1.0)
    started = Started({}, logged=table.holdings(LOGGER))
    table.seat(LOGGER, (), started)
    table.wait(0.5, pass_on=False)
    table.letters.clear()
    table.publish(SENDER, 1)
    table.pass_on(lambda letter: isinstance(letter.message, Data))
    assert not table.stacks[LOGGER].streams[SENDER].missing


def test_a_logger_does_not_wait_for_what_its_sender_has_forgotten():
    """A new logger that founded its group alone, because the sender was busy: what was sent before is gone."""
    table = loggerless_table(gc_rounds=1)
    table.publish(SENDER, 3)
    table.wait(2.0)
    table.loggers = (LOGGER,)
    table.settings = replace(table.settings, found_after=2)
    table.seat(LOGGER, ())
    table.wait(0.5, pass_on=False)
    table.letters.clear()
    table.publish(SENDER, 2)
    table.wait(10.0)
    assert not table.stacks[LOGGER].streams[SENDER].missing
    assert table.numbers(LOGGER, SENDER) == [3, 4]
    assert numbers(table.holdings(LOGGER)) == [3, 4]
    assert table.lost[LOGGER][0].reason == "sent before the logger came"


# Damage


def test_damage_that_no_other_logger_can_repair_is_answered_as_lost():
    table = table_with(gc_rounds=1)
    table.publish(SENDER, 3)
    table.wait(1.0)
    table.step(LOGGER, DamageFound(SENDER, 1, 1))
    table.letters.clear()
    table.hand(Letter(READER, LOGGER, Request({SENDER: RangeSet([(1, 1)])})))
    (answer,) = table.take(NeverSent)
    assert answer.message == NeverSent({SENDER: RangeSet([(1, 1)])}, lost=True)


def test_damage_is_refilled_from_another_logger():
    table = table_with(loggers=(LOGGER, OTHER), members=4)
    table.publish(SENDER, 3)
    table.wait(1.0)
    del table.logs[LOGGER][SENDER, 1]
    table.step(LOGGER, DamageFound(SENDER, 1, 1))
    table.wait(10.0)
    assert numbers(table.holdings(LOGGER)) == [0, 1, 2]


def test_what_is_damaged_in_the_log_is_served_from_the_buffer_while_it_is_there():
    table = table_with()
    table.publish(SENDER, 3)
    table.settle()
    table.step(LOGGER, DamageFound(SENDER, 1, 1))
    table.letters.clear()
    table.hand(Letter(READER, LOGGER, Request({SENDER: RangeSet([(1, 1)])})))
    (answer,) = table.take(Repair)
    assert answer.message.packet.seqno == 1


def test_damage_that_the_other_logger_lacks_too_is_answered_as_lost():
    table = table_with(loggers=(LOGGER, OTHER), members=4, gc_rounds=1)
    table.publish(SENDER, 3)
    table.wait(1.0)
    table.step(LOGGER, DamageFound(SENDER, 1, 1))
    table.letters.clear()
    table.hand(Letter(OTHER, LOGGER, Holdings({SENDER: RangeSet([(0, 0), (2, 2)])})))
    table.letters.clear()
    table.hand(Letter(READER, LOGGER, Request({SENDER: RangeSet([(1, 1)])})))
    assert [letter.message.lost for letter in table.take(NeverSent)] == [True]


def test_a_member_hears_of_many_losses_within_two_retry_periods():
    """That a logger has lost a packet is an answer, too: then there is room to ask for the next."""
    settings = {"gc_rounds": 1, "peer_rounds": 1, "request_packets": 8, "retry_period": 10.0}
    table = table_with(loggers=(LOGGER, OTHER), members=4, **settings)
    table.publish(SENDER, 100)
    table.pass_on(lambda letter: letter.to != READER)
    table.wait(1.0, pass_on=False)
    for logger in (LOGGER, OTHER):
        table.step(logger, DamageFound(SENDER, 0, 99))
    table.letters.clear()
    table.publish(SENDER, 1)
    table.wait(20.0)
    lost = [number for item in table.lost[READER] for number in range(item.first, item.last + 1)]
    assert len(lost) == 100


# Refill


def test_a_logger_with_an_empty_log_fills_it_from_the_other():
    table = table_with(loggers=(LOGGER, OTHER), members=4, gc_rounds=1)
    table.publish(SENDER, 700)
    table.wait(2.0)
    table.logs[LOGGER] = {}
    restarted(table, LOGGER)
    table.wait(20.0)
    assert table.holdings(LOGGER) == table.holdings(OTHER)


def test_refill_continues_when_repairs_are_lost():
    table = table_with(loggers=(LOGGER, OTHER), members=4, gc_rounds=1)
    table.publish(SENDER, 300)
    table.wait(2.0)
    table.logs[LOGGER] = {}
    restarted(table, LOGGER)
    for _ in range(400):
        table.wait(0.1, pass_on=False)
        for _ in range(5):
            table.pass_on(lambda letter: not isinstance(letter.message, Repair) or table.now % 0.7 > 0.1)
    assert len(numbers(table.holdings(LOGGER))) == 300


# The past


def ask(table: Table, since_ns: int = 0, **positions: int) -> None:
    table.step(READER, RewindAsked(since_ns, {SENDER: positions["first"]} if positions else {}))


def known(table: Table) -> list[PastKnown]:
    return [effect for effect in table.effects[READER] if isinstance(effect, PastKnown)]


def test_the_past_is_what_any_of_the_loggers_holds():
    table = table_with(loggers=(LOGGER, OTHER), members=4)
    ask(table)
    table.letters.clear()
    table.hand(Letter(LOGGER, READER, Holdings({SENDER: RangeSet([(0, 4)])})))
    assert not known(table)
    table.hand(Letter(OTHER, READER, Holdings({SENDER: RangeSet([(3, 9)])})))
    assert known(table) == [PastKnown({SENDER: RangeSet([(0, 9)])})]
    assert list(table.stacks[READER].streams[SENDER].missing) == list(range(10))


def test_a_logger_that_does_not_answer_is_not_waited_for_forever():
    table = table_with(loggers=(LOGGER, OTHER), members=4)
    ask(table)
    table.hand(Letter(LOGGER, READER, Holdings({SENDER: RangeSet([(0, 4)])})))
    table.wait(3.0, pass_on=False)
    assert known(table) == [PastKnown({SENDER: RangeSet([(0, 4)])})]


def test_an_answer_to_an_earlier_question_is_not_taken_for_this_one():
    table = table_with()
    ask(table, since_ns=5)
    table.hand(Letter(LOGGER, READER, Holdings({SENDER: RangeSet([(0, 4)])}, since_ns=3)))
    assert not known(table)


def test_an_answer_in_parts_counts_when_all_parts_are_there():
    table = table_with()
    ask(table)
    table.hand(Letter(LOGGER, READER, Holdings({SENDER: RangeSet([(0, 4)])}, part=0, parts=2)))
    assert not known(table)
    table.hand(Letter(LOGGER, READER, Holdings({SENDER: RangeSet([(5, 6)])}, part=1, parts=2)))
    assert known(table) == [PastKnown({SENDER: RangeSet([(0, 6)])})]


def test_a_hole_in_the_past_is_asked_for_again_and_then_reported_in_its_place():
    table = table_with()
    ask(table)
    with_hole = Holdings({SENDER: RangeSet([(0, 1), (3, 3)])})
    table.letters.clear()
    table.hand(Letter(LOGGER, READER, with_hole))
    assert not known(table)  # it may be on its way to the log
    table.wait(3.0, pass_on=False)
    assert known(table)
    assert not table.stacks[READER].streams[SENDER].has(2)
    assert list(table.stacks[READER].streams[SENDER].missing) == [0, 1, 3]


def test_a_member_of_which_the_log_holds_nothing_yet_is_asked_for_again():
    """It published while no logger was there, and sends that again now that one is."""
    table = table_with()
    table.stacks[READER].streams.begin(SENDER, 1)  # 0 was before it came
    ask(table)
    table.letters.clear()
    table.hand(Letter(LOGGER, READER, Holdings({})))
    assert not known(table)
    table.hand(Letter(LOGGER, READER, Holdings({SENDER: RangeSet([(0, 0)])})))
    assert known(table) == [PastKnown({SENDER: RangeSet([(0, 0)])})]
    assert list(table.stacks[READER].streams[SENDER].missing) == [0]


def test_a_member_of_which_the_log_holds_nothing_is_not_waited_for_forever():
    table = table_with()
    table.stacks[READER].streams.begin(SENDER, 1)
    ask(table)
    table.letters.clear()
    table.hand(Letter(LOGGER, READER, Holdings({})))
    table.wait(3.0, pass_on=False)
    assert known(table) == [PastKnown({})]


def test_without_any_logger_the_past_is_unknown():
    table = loggerless_table()
    ask(table)
    table.wait(10.0)
    assert known(table) == [PastKnown(None)]
    assert not table.take(Recall)


# Retention


def aged(table: Table) -> list[int]:
    table.wait(10.0)
    return numbers(table.holdings(LOGGER))


def test_what_all_have_is_collected_at_once_or_kept_for_its_age():
    stable, for_an_hour = table_with(gc_rounds=1, retention_age=0.0), table_with(gc_rounds=1, retention_age=3600.0)
    for table in (stable, for_an_hour):
        table.publish(SENDER, 3)
    assert aged(stable) == []
    assert aged(for_an_hour) == [0, 1, 2]
    for_an_hour.now += 3600.0
    assert aged(for_an_hour) == []


def test_retention_by_size_keeps_the_newest():
    table = table_with(gc_rounds=1, retention_age=0.0, retention_bytes=250)
    table.publish(SENDER, 10)  # of 100 bytes each
    assert aged(table) == [8, 9]


def test_the_fail_safe_does_not_shorten_what_retention_keeps():
    """000 §5.2: the time-out stands in for members that never acknowledge; retention still keeps its share."""
    table = table_with(gc_rounds=1, log_timeout=5.0, retention_age=3600.0)
    table.publish(SENDER, 3)
    assert aged(table) == [0, 1, 2]


def test_a_member_that_is_gone_for_good_holds_nothing_back_beyond_the_fail_safe():
    table = table_with(gc_rounds=1, log_timeout=5.0, retention_age=0.0, retention_bytes=150)
    del table.stacks[READER]  # it never acknowledges
    table.publish(SENDER, 10)
    assert aged(table) == [9]


def test_a_sweep_is_short_however_many_senders_there_were():
    table = table_with(gc_rounds=1, log_timeout=5.0, retention_age=0.0)
    logged = {sender: RangeSet.span(0, 2) for sender in range(1000, 6000)}
    table.seat(LOGGER, tuple(sorted(table.stacks)), Started({}, logged=logged))
    table.effects.clear()
    table.now += 100.0
    table.step(LOGGER, Woke())
    collected = [e.sender for e in table.effects[LOGGER] if isinstance(e, Collect)]
    assert 0 < len(collected) <= 200
    for _ in range(30):
        table.now += 1.0
        table.step(LOGGER, Woke())
    collected = [e.sender for e in table.effects[LOGGER] if isinstance(e, Collect)]
    assert sorted(collected) == list(logged)


def test_age_and_size_count_across_a_restart():
    table = table_with(gc_rounds=1, retention_age=100.0)
    table.publish(SENDER, 4)
    table.wait(1.0)
    table.now = 1000.0
    restarted(table, LOGGER, stored=[LogSpan(890.0, SENDER, 1, 0), LogSpan(950.0, SENDER, 3, 0)])
    assert aged(table) == [2, 3]


def test_a_durable_consumer_holds_back_collection_until_it_commits():
    table = table_with(gc_rounds=1, retention_age=0.0)
    table.step(LOGGER, Committed({"archive": {SENDER: 1}}))
    table.publish(SENDER, 4)
    assert aged(table) == [2, 3]
    table.step(LOGGER, Committed({"archive": {SENDER: 3}}))
    assert aged(table) == []


# In the simulator


@pytest.mark.parametrize("seed", range(1, 21))
def test_two_loggers_that_crash_in_turn_lose_nothing(seed):
    """Reference: 000 §3, §6."""
    made = load(SCENARIO).with_seed(seed)
    result = traced(made)
    assert result["violations"] == []
    assert result["deliveries"]["actual"] == result["deliveries"]["expected"]
    assert result["deliveries"]["duplicate"] == result["packets"]["lost"] == 0
    assert result["deliveries"]["logger"] > 0


def test_a_slow_logger_is_not_sent_again_what_it_has_not_come_to_yet():
    """It acknowledges one packet after the other, long after they came: a repetition would make it slower still."""
    table = Table("lbrm", 2, loggers=(1,), request_packets=64, service_limit=0)
    table.publish(0, 20)
    table.letters.clear()
    for acknowledged in range(0, 10, 2):
        table.wait(table.settings.retry_period, pass_on=False)
        assert not table.take(Repair)
        table.step(0, Heard(1, Ack({0: RangeSet.span(0, acknowledged)})))
    table.step(0, Heard(1, Ack({0: RangeSet.span(12, 12)})))  # but what it skipped was lost
    table.wait(table.settings.retry_period, pass_on=False)
    assert [letter.message.packet.seqno for letter in table.take(Repair)] == [9, 10, 11]
    table.wait(table.settings.retry_period, pass_on=False)  # and while it says nothing, the oldest is a probe
    assert [letter.message.packet.seqno for letter in table.take(Repair)] == [9]


# Lies about what a sender has forgotten


def test_a_packet_that_comes_though_it_was_said_to_be_forgotten_is_logged():
    """Else it would be acknowledged, and in no log."""
    table = table_with(retention_age=3600.0)
    table.publish(SENDER, 3)
    table.settle()
    table.step(LOGGER, Heard(SENDER, NeverSent({SENDER: RangeSet.span(3, 9)}, lost=True)))
    assert table.gossip(LOGGER, SENDER).logged == 2
    table.publish(SENDER, 3)
    table.settle()
    assert numbers(table.holdings(LOGGER)) == list(range(6))


def test_what_one_log_has_is_not_sent_to_it_again_while_another_is_missing():
    table = table_with(log_copies=2, retry_period=0.25)
    table.publish(SENDER, 5)
    table.settle()
    sent = []
    for _ in range(20):
        table.wait(0.25, pass_on=False)
        sent += [x.message.packet.seqno for x in table.letters if x.to == LOGGER and isinstance(x.message, Repair)]
        table.settle()
    assert sent == []
    assert table.stacks[SENDER].settled() == 0  # they still wait for the other log


def test_a_gap_stays_with_peers_while_the_logger_is_away():
    """They may have the packet, and the logger cannot be asked; when it is back, it has its turn."""
    table = table_with(peer_rounds=5, loss_patience=60.0, retry_period=0.25, membership="sponsored")
    table.step(LOGGER, Disconnecting())
    table.settle()
    table.publish(SENDER, 2)
    table.pass_on(lambda letter: letter.to != LOGGER and not is_first(letter))
    asked = []
    for _ in range(40):
        table.wait(0.1, pass_on=False)
        asked += [x.to for x in table.letters if x.source == READER and isinstance(x.message, Request)]
        table.pass_on(
            lambda letter: LOGGER not in (letter.to, letter.source) and not isinstance(letter.message, Repair)
        )
    assert LOGGER not in asked
    assert table.stacks[READER].streams[SENDER].missing


def is_first(letter: Letter) -> bool:
    return isinstance(letter.message, Data) and letter.message.packet.seqno == 0


def test_what_a_silent_logger_was_asked_for_is_asked_of_peers_again():
    """Peers could not be heard when it was their turn; now they can, and the logger cannot."""
    usual = {"gossip_period": 0.1, "peer_rounds": 5, "loss_patience": 30.0, "suspect_after": 60.0}
    table = Table("rpbcast", 4, loggers=(LOGGER,), ordering="fifo", membership="sponsored", **usual)
    table.wait(1.0)
    table.publish(SENDER, 2)
    table.pass_on(lambda letter: letter.to != READER or letter.message == Data(Packet(SENDER, 1, b"x" * 100)))
    for _ in range(30):  # only the logger is heard, and it does not have it, either
        table.wait(0.1, pass_on=False)
        table.pass_on(lambda letter: {letter.source, letter.to} == {READER, LOGGER} and not is_packet(letter))
    assert not table.numbers(READER, SENDER)
    for _ in range(50):
        table.wait(0.1, pass_on=False)
        table.pass_on(lambda letter: LOGGER not in (letter.source, letter.to))
    assert table.numbers(READER, SENDER) == [0, 1]


def is_packet(letter: Letter) -> bool:
    return isinstance(letter.message, Data | Repair)
