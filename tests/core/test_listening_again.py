"""A member that stops listening to a channel and begins again: what it is owed is what it awaits."""

from random import Random
from typing import Any

import pytest

from gossamer.core.effects import BecomeListener, Deliver
from gossamer.core.ids import FIRST_PASS, stream_of
from gossamer.core.inputs import ListenAsked, Received
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings
from gossamer.stack import Stack

CHANNEL = 0b10
STREAM = stream_of(1, 1)


def member(ordering: str, **more: Any) -> Stack:
    """One that hears the channel, and has received the first ten packets of a stream there."""
    settings = ProtocolSettings(ordering=ordering, channels=2, **more)
    made = Stack(0, (0, 1, 2), settings, Random(1), listening=dict.fromkeys(range(3), CHANNEL))
    made.step(0.0, ListenAsked(CHANNEL, {STREAM: -1}))
    made.step(0.1, Received(1, [Packet(STREAM, number, b"") for number in range(10)], FIRST_PASS))
    return made


def owed_again(stack: Stack, horizon: int) -> int:
    """After which number the member is owed the stream, if others say that they have seen it up to `horizon`."""
    stack.step(0.2, ListenAsked(0))
    out = stack.step(0.3, ListenAsked(CHANNEL, {STREAM: horizon}))
    return next(effect.horizon[STREAM] for effect in out if isinstance(effect, BecomeListener))


@pytest.mark.parametrize("ordering", ["none", "fifo", "two-phase"])
def test_it_is_not_owed_what_it_heard_before(ordering):
    """Whoever says how far the stream is may lack what this member had."""
    stack = member(ordering)
    assert owed_again(stack, horizon=5) == 9
    assert stack.streams[STREAM].start == 10


def test_in_one_order_it_is_owed_what_it_had_and_what_had_not_had_its_turn():
    """It gave that away when it stopped, and everybody else will deliver it."""
    stack = member("total")
    stack.order.turns.hand_over(0.1, STREAM, 0, 5, 0, out := [])
    assert [len(effect.run) for effect in out if isinstance(effect, Deliver)] == [6]
    assert owed_again(stack, horizon=9) == 5
    assert stack.streams[STREAM].start == 6, "they are awaited"


def test_what_is_still_in_its_own_buffer_need_not_come_again():
    stack = member("total", buffering="age", gc_rounds=10)
    stack.order.turns.hand_over(0.1, STREAM, 0, 5, 0, [])
    assert owed_again(stack, horizon=9) == 5
    assert stack.streams[STREAM].received(RangeSet.span(0, 20)).ranges() == [(6, 9)]
    stack.order.turns.hand_over(0.4, STREAM, 6, 9, 6, out := [])
    assert [packet.seqno for effect in out if isinstance(effect, Deliver) for packet in effect.run] == [6, 7, 8, 9]
    assert len(stack.buffer) == 10, "each is kept once"
