"""Members that leave one after another, where no logger remembers who has left."""

from __future__ import annotations

from gossamer.core.effects import Multicast
from gossamer.core.inputs import Heard, LeaveAsked
from gossamer.core.messages import Leave
from tests.papers.hand import Table


def goodbye_of(table: Table, member: int) -> Leave:
    """What it says when it leaves; nobody hears it yet."""
    said = [effect.message for effect in table.step(member, LeaveAsked()) if isinstance(effect, Multicast)]
    table.letters.clear()
    (goodbye,) = [message for message in said if isinstance(message, Leave)]
    return goodbye


def test_whoever_hears_a_goodbye_knows_who_has_left_before():
    """A member that lets the last other one go would else wait for the one before, of which only that one knew."""
    table = Table("rpbcast", 3, membership="sponsored")
    table.wait(1.0)
    table.step(1, Heard(2, goodbye_of(table, 2)))
    table.step(0, Heard(1, goodbye_of(table, 1)))
    assert table.stacks[0].roster.members == (0,)
