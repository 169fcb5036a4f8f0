"""Letters: each arrives once, whatever is lost on its way, and however long it is."""

from __future__ import annotations

from random import Random

import pytest

from gossamer.core.effects import HandLetter
from gossamer.core.inputs import Heard, LeaveAsked, LetterWritten
from gossamer.core.letters import Letter, LetterSeen
from gossamer.kernel.letters import PART_BYTES
from tests.papers.hand import Table

LETTERS = (Letter, LetterSeen)


def table(members: int = 3) -> Table:
    return Table("rpbcast", members, membership="sponsored")


def read(at: Table, member: int) -> list[HandLetter]:
    return [effect for effect in at.effects[member] if isinstance(effect, HandLetter)]


def test_a_letter_reaches_one_member_and_is_then_forgotten():
    here = table()
    here.step(0, LetterWritten(1, 7, b"hello"))
    sent = here.take(*LETTERS)
    assert [letter.to for letter in sent] == [1]
    for letter in sent:
        here.hand(letter)
    here.wait(0.01)
    assert read(here, 1) == [HandLetter(0, 7, b"hello")]
    assert not read(here, 2)
    here.wait(2.0, pass_on=False)
    assert not here.take(Letter), "it was acknowledged"


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1, 100 * PART_BYTES])
def test_a_letter_of_any_length_arrives_once_on_a_bad_line(size):
    here, rng = table(2), Random(size)
    content = rng.randbytes(size)
    here.step(0, LetterWritten(1, 1, content))
    for _ in range(400):
        here.pass_on(lambda letter: not isinstance(letter.message, LETTERS) or rng.random() > 0.3)
        here.wait(0.02, pass_on=False)
    assert read(here, 1) == [HandLetter(0, 1, content)]
    here.pass_on()
    assert not here.take(Letter)


def test_a_letter_that_comes_again_is_acknowledged_and_not_handed_over_again():
    here = table(2)
    here.step(0, LetterWritten(1, 1, b"x"))
    (letter,) = here.take(Letter)
    here.hand(letter)
    here.hand(letter)
    here.wait(0.005, pass_on=False)
    assert len(here.take(LetterSeen)) == 2
    assert len(read(here, 1)) == 1


def test_letters_to_a_member_that_left_are_dropped_and_counted():
    here = table(3)
    here.settle()
    here.step(0, LetterWritten(1, 1, b"x"))
    here.take(*LETTERS)
    here.step(1, LeaveAsked())
    here.wait(3.0)
    here.take(*LETTERS)
    here.wait(5.0, pass_on=False)
    assert not [letter for letter in here.take(Letter) if letter.to == 1]
    here.step(0, LetterWritten(1, 1, b"y"))
    assert here.stacks[0].ignored["letters to members that left"] == 2


def test_impossible_parts_are_ignored_and_counted():
    here = table(2)
    for part, parts, size in ((1, 1, 0), (0, 10**9, 0), (0, 1, PART_BYTES + 1)):
        here.step(1, Heard(0, Letter(5, 1, part, parts, bytes(size))))
    assert not read(here, 1)
    assert here.stacks[1].ignored["impossible letters"] == 3
