"""Parity: a packet that was lost follows from the others of its block, without a round trip."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.inputs import Heard, Published
from gossamer.core.messages import Data, LossReport, Parity, Repair, Request
from gossamer.core.ranges import RangeSet
from gossamer.core.schema import SettingError
from gossamer.dissemination.parity_block import Block, recovered
from gossamer.presets import preset
from gossamer.sim.run import simulate
from gossamer.sim.scenario import load
from tests.papers.hand import Letter, Table

SCENARIOS = Path(__file__).parents[1] / "scenarios"
ROUND_TRIP = 0.02
LIVE = {
    "selection": "uniform",
    "membership": "static",
    "round_trips": True,
    "ask_again": 0.001,
    "gossip_period": 0.05,
    "request_packets": 64,
    "buffering": "size",
    "ordering": "fifo",
}


def table(parity: int, members: int = 3, **settings) -> Table:
    made = Table("rpbcast", members, **{**LIVE, "parity": parity, **settings})
    for stack in made.stacks.values():
        for peer in made.stacks:
            for _ in range(50):
                stack.round_trips.measured(peer, ROUND_TRIP)
    return made


def losing(*seqnos: int, member: int = 1):
    """Everything passes, but for these packets on their way to `member`, and requests."""

    def passes(letter: Letter) -> bool:
        message = letter.message
        if isinstance(message, Request):
            return False
        return not (letter.to == member and isinstance(message, Data) and message.packet.seqno in seqnos)

    return passes


def publish(made: Table, *bodies: bytes) -> None:
    for body in bodies:
        made.step(0, Published(body))


@given(st.lists(st.binary(max_size=60), min_size=2, max_size=8), st.data())
def test_any_packet_of_a_block_follows_from_the_others(bodies, data):
    block = Block(0)
    for body in bodies:
        block.add(body)
    at = data.draw(st.integers(0, len(bodies) - 1))
    assert recovered(block.parity(), bodies[:at] + bodies[at + 1 :]) == bodies[at]


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_packet_that_was_lost_is_there_when_the_parity_comes(lost):
    made = table(4)
    bodies = [b"a", b"bb" * 50, b"", b"dddd"]
    publish(made, *bodies)
    made.pass_on(losing(lost))
    assert [packet.body for packet in made.delivered[1]] == bodies
    assert made.stacks[1].recoveries == 1
    assert made.stacks[2].recoveries == 0


def test_a_packet_that_was_recovered_is_served_to_others():
    made = table(4)
    publish(made, b"1", b"2", b"3", b"4")
    made.pass_on(losing(2))
    made.letters.clear()
    made.step(1, Heard(2, Request({0: RangeSet.span(2, 2)})))
    (repair,) = made.take(Repair)
    assert (repair.message.packet.seqno, repair.message.packet.body) == (2, b"3")


def test_of_two_that_are_lost_the_one_that_is_repaired_brings_the_other():
    made = table(4)
    publish(made, b"1", b"2", b"3", b"4")
    made.pass_on(losing(1, 2))
    assert made.numbers(1, 0) == [0]
    made.hand(Letter(2, 1, Repair(made.stacks[2].buffer.get(0, 2), "peer")))
    assert [packet.body for packet in made.delivered[1]] == [b"1", b"2", b"3", b"4"]


def test_a_receiver_learns_how_long_parity_takes_and_asks_for_the_rest_after_that():
    made = table(4)
    for _ in range(10):
        for body in (b"1", b"2", b"3", b"4"):
            first = made.stacks[0].streams[0].next // 4 * 4
            publish(made, body)
            made.pass_on(losing(first))
            made.take(Request)
            made.wait(0.001, pass_on=False)
            made.pass_on(losing(first))
    publish(made, b"1", b"2", b"3", b"4")
    asked = made.take(Request)
    made.pass_on(losing(40, 41))
    assert not asked
    assert not made.take(Request)  # not yet
    made.wait(0.006, pass_on=False)
    assert made.take(Request)


def test_a_packet_that_was_only_late_was_neither_lost_nor_sent_twice():
    made = table(-1)
    rung = next(handler.__self__ for handler in made.stacks[1]._messages[Parity])
    made.step(0, Heard(1, LossReport(50, 500)))
    for _ in range(30):
        publish(made, b"1", b"2", b"3", b"4")
        late = [letter for letter in made.letters if isinstance(letter.message, Data) and letter.to == 1][1]
        made.letters.remove(late)
        made.pass_on(losing())
        made.wait(0.01, pass_on=False)
        made.hand(late)
        made.letters.clear()
    made.wait(0.2, pass_on=False)
    assert made.stacks[1].recoveries == 30
    assert made.stacks[1].duplicates == 0
    assert not rung._lost


def test_a_block_ends_when_its_packets_come_slowly_and_one_with_few_has_no_parity():
    made = table(6)
    publish(made, b"1", b"2", b"3", b"4")
    made.letters.clear()
    made.wait(0.0101, pass_on=False)
    assert [letter.message.count for letter in made.take(Parity) if letter.to == 1] == [4]
    publish(made, b"5", b"6")
    made.letters.clear()
    made.wait(0.1, pass_on=False)
    assert not made.take(Parity)


@pytest.mark.parametrize(("loss", "packets"), [(0.2, 3), (0.05, 4), (0.01, 10), (0.001, 0)])
def test_the_size_of_a_block_follows_from_the_losses_of_all_receivers(loss, packets):
    made = table(-1)
    for member in (1, 2):
        made.step(0, Heard(member, LossReport(round(1000 * loss), 1000)))
    publish(made, *[b"x"] * 60)
    sizes = {letter.message.count for letter in made.letters if isinstance(letter.message, Parity)}
    assert sizes == ({packets} if packets else set())


def test_a_single_bad_line_among_many_does_not_cost_everybody():
    made = table(-1, members=30)
    made.step(0, Heard(1, LossReport(100, 1000)))
    publish(made, *[b"x"] * 60)
    assert not made.take(Parity)


def test_without_losses_there_is_neither_parity_nor_a_report():
    made = table(-1)
    for _ in range(100):
        publish(made, *[b"x"] * 20)
        made.settle()
        made.wait(0.05)
    assert not made.take(Parity, LossReport)
    result = simulate(load(SCENARIOS / "parity.toml", ["loss.member=0.0"]))
    assert "parity" not in result["overhead_by_kind"]


def test_parity_ends_when_nobody_loses_anything_any_more():
    made = table(-1)
    for member in (1, 2):
        made.step(0, Heard(member, LossReport(50, 1000)))
    made.wait(6.0)
    publish(made, *[b"x"] * 60)
    assert not made.take(Parity)


def test_a_receiver_that_is_near_does_not_report():
    made = table(-1)
    for _ in range(50):
        for stack in made.stacks.values():
            stack.round_trips.measured(0, 0.0005)
    for seqno in range(0, 400, 2):
        publish(made, b"x", b"y")
        made.pass_on(
            lambda letter, seqno=seqno: (
                letter.to != 1 or not isinstance(letter.message, Data) or letter.message.packet.seqno != seqno
            )
        )
        made.settle()
    made.wait(2.0, pass_on=False)
    assert not made.take(LossReport)


@pytest.mark.parametrize(
    ("parity", "counted"),
    [
        (Parity(4, 1, 1, b"x"), "parities that cannot be"),
        (Parity(4, 1 << 40, 1, b"x"), "parities that cannot be"),
        (Parity((1 << 63) - 1, 4, 1, b"x"), "parities that cannot be"),
        (Parity(1 << 60, 4, 1, b"x"), "numbers too high"),
        (Parity(2, 3, 1000, b"x"), "parities that do not fit"),
        (Parity(2, 3, 0, b"not for these"), "parities that do not fit"),
    ],
)
def test_a_parity_that_cannot_be_is_refused_and_counted(parity, counted):
    made = table(4)
    publish(made, b"1", b"2", b"3", b"4")
    made.pass_on(losing())
    made.delivered.clear()
    made.step(1, Heard(0, parity))
    assert made.stacks[1].ignored[counted] == 1
    assert not made.delivered


def test_parities_of_packets_that_never_come_take_little_memory():
    made = table(4)
    rng = Random(1)
    for number in range(0, 4000, 4):
        made.step(1, Heard(0, Parity(number, 4, rng.randrange(100), rng.randbytes(100))))
    rung = next(handler.__self__ for handler in made.stacks[1]._messages[Parity])
    assert sum(map(len, rung._waiting.values())) <= 16


def test_losses_that_cannot_be_are_ignored():
    made = table(-1)
    for lost, of in ((0, 0), (5, 0), (10, 5), (0, 100)):
        made.step(0, Heard(1, LossReport(lost, of)))
    assert made.stacks[0].ignored["losses that cannot be"] == 4
    publish(made, *[b"x"] * 60)
    assert not made.take(Parity)


def test_parity_needs_multicast_and_copies():
    with pytest.raises(SettingError, match="parity = 4: needs a first pass"):
        preset("rpbcast", {"parity": 4, "dissemination": "trees"})
    with pytest.raises(SettingError, match="parity = 4: needs members that keep"):
        preset("unreliable", {"parity": 4})
    preset("unreliable", {"parity": -1, "dissemination": "trees"})  # there is none, then


def test_with_parity_most_losses_take_no_round_trip():
    scenario = SCENARIOS / "parity.toml"
    with_parity, without = simulate(load(scenario)), simulate(load(scenario, ["protocol.parity=0"]))
    for result in (with_parity, without):
        assert not result["outstanding"]
        assert not result["violations"]
        assert result["packets"]["lost"] == 0
    assert with_parity["deliveries"]["peer"] < 0.4 * without["deliveries"]["peer"]
    assert with_parity["latency"]["p99"] < 0.8 * without["latency"]["p99"]
    assert with_parity["repeated"] < 0.01 * with_parity["deliveries"]["actual"]
