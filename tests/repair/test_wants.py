"""What a side lacks that has come back is asked for by one of its members, as much as its path carries."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.core.effects import Multicast
from gossamer.core.inputs import Heard, Received
from gossamer.core.messages import Data, Descendants, IAmCoordinator, Repair, Request
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from tests.papers.hand import Letter, Table

NEAR, FAR = (0, 1), (2, 3, 4)
MISSED = 500
FIRST = 32
"""What is asked for before anything is known of the path."""


def table(**settings: Any) -> Table:
    """Two sides; the far one has missed packets of member 0, and the link has just been mended."""
    made = Table("redelivery", 5, **{"request_packets": 512, "service_limit": 0, **settings})
    made.wait(1.0)
    made.publish(0)
    made.settle()
    cut(made)
    for _ in range(MISSED):
        made.publish(0)
        made.pass_on(same_side)
    cut(made, 2.0)
    made.letters.clear()
    made.effects.clear()
    return made


def same_side(letter: Letter) -> bool:
    return (letter.source in NEAR) == (letter.to in NEAR)


def cut(made: Table, seconds: float = 1.0) -> None:
    for _ in range(round(seconds / 0.01)):
        made.wait(0.01, pass_on=False)
        made.pass_on(same_side)
        made.pass_on(same_side)


def heal(made: Table) -> list[Letter]:
    """The far side hears the coordinator of the near one; returns what it says to it."""
    for member in FAR:
        made.step(member, Heard(0, IAmCoordinator({0: MISSED}, whole=False)))
    made.wait(0.1, pass_on=False)
    return [letter for letter in made.take(Descendants) if letter.to == 0 and letter.source in FAR]


def asked(letters: list[Letter]) -> dict[int, int]:
    """By member: for how many packets it has asked."""
    found: dict[int, int] = {}
    for letter in letters:
        if letter.message.asks:
            found[letter.source] = found.get(letter.source, 0) + sum(map(len, letter.message.missing.values()))
    return found


def fill(made: Table, member: int, *numbers: int) -> None:
    for number in numbers:
        made.step(member, Received(0, [Packet(0, number, b"x")], "peer"))


def test_the_member_that_led_its_side_asks_for_it_and_the_others_wait():
    made = table()
    said = heal(made)
    assert asked(said) == {2: FIRST}
    (desc,) = (letter.message for letter in said if letter.message.complete)
    assert (sorted(desc.others), desc.asks) == ([3, 4], False)


def test_if_nothing_comes_the_others_ask_for_themselves():
    made = table()
    heal(made)
    made.stacks.pop(2)
    made.wait(1.0, pass_on=False)
    assert sorted(asked([letter for letter in made.take(Descendants) if letter.to == 0])) == [3, 4]


def test_the_others_wait_as_long_as_something_comes():
    made = table()
    heal(made)
    for number in range(1, 40):
        fill(made, 3, number)
        made.wait(0.05, pass_on=False)
    assert 3 not in asked(made.take(Descendants))


def test_what_is_lost_in_passing_is_asked_for_at_once_even_while_somebody_is_missing():
    made = Table("redelivery", 5, request_packets=512)
    made.wait(1.0)
    del made.stacks[1]  # it died, and the group is not whole until it is forgotten
    made.wait(2.0)
    made.publish(0, 3)
    made.pass_on(lambda letter: not (isinstance(letter.message, Data) and letter.message.packet.seqno == 1))
    made.wait(0.03, pass_on=False)
    (letter,) = (letter for letter in made.take(Descendants) if letter.source == 3 and letter.message.asks)
    assert (letter.to, letter.message.missing) == (0, {0: RangeSet([(1, 1)])})


def test_what_is_passed_over_was_lost_and_each_that_lacks_it_asks_for_that_alone():
    made = table()
    heal(made)
    fill(made, 3, 1, 2, 5)
    made.wait(0.05, pass_on=False)
    (letter,) = (letter for letter in made.take(Descendants) if letter.source == 3 and letter.message.asks)
    assert letter.message.missing == {0: RangeSet([(3, 4)])}


def test_a_coordinator_sends_a_side_that_is_back_what_it_asks_for_and_knows_who_else_lacks_it():
    made = table()
    for letter in heal(made):
        if letter.message.complete:
            made.hand(letter)
    made.wait(1.0, pass_on=False)
    assert not [e for e in made.effects[0] if isinstance(e, Multicast) and e.to]
    made.effects.clear()
    made.step(0, Heard(2, Descendants({}, {0: RangeSet([(100, 109)])})))  # at once: nobody else will ask for them
    sent = {e.message.packet.seqno: e.to for e in made.effects[0] if isinstance(e, Multicast) and e.to}
    assert sent == dict.fromkeys(range(100, 110), (2, 3, 4))


def test_a_member_that_asks_again_is_believed_and_one_that_asks_for_what_is_on_its_way_to_it_is_not():
    made = table()
    for letter in heal(made):
        if letter.message.complete:
            made.hand(letter)
    wanted = {0: RangeSet([(100, 100)])}
    made.step(0, Heard(2, Descendants({}, wanted)))
    made.letters.clear()
    made.step(0, Heard(3, Descendants({}, wanted)))  # it was sent to all of them
    made.wait(0.1, pass_on=False)
    assert not [letter for letter in made.take(Repair) if letter.message.packet.seqno == 100]
    made.step(0, Heard(2, Descendants({}, wanted)))  # it had asked for it, and waited
    made.wait(0.1, pass_on=False)
    assert [letter.to for letter in made.take(Repair) if letter.message.packet.seqno == 100] == [2]


def test_a_member_that_led_others_does_not_fill_them_when_another_does():
    made = table()
    heal(made)
    made.letters.clear()
    fill(made, 2, *range(1, 20))
    made.wait(0.05, pass_on=False)
    assert not [letter for letter in made.take(Repair) if letter.source == 2]


def test_without_a_limit_everything_is_asked_for_and_sent_at_once():
    made = table(request_packets=0)
    said = heal(made)
    assert asked(said)[2] >= MISSED
    for letter in said:
        made.hand(letter)
    made.wait(0.1, pass_on=False)
    sent = [e.message.packet.seqno for e in made.effects[0] if isinstance(e, Multicast) and e.to]
    assert sent == list(range(1, MISSED + 1))


@pytest.mark.parametrize("limit", [0, 512])
def test_a_logger_waits_for_what_its_senders_repeat(limit):
    made = Table("redelivery", 4, loggers=(3,), request_packets=limit)
    made.wait(1.0)
    made.letters.clear()
    made.step(3, Heard(1, Descendants({0: MISSED}, {}, complete=True)))
    made.wait(0.2, pass_on=False)
    fill(made, 3, *range(20))
    made.wait(0.2, pass_on=False)
    assert not made.take(Request)
    made.wait(1.0, pass_on=False)  # but not for ever
    assert made.take(Request)
