"""Negative gossip: what is asked for in one message."""

from random import Random

from gossamer.core.effects import Unicast
from gossamer.core.inputs import Received, Woke
from gossamer.core.messages import Request
from gossamer.core.packets import Packet
from gossamer.presets import preset
from gossamer.stack import Stack

ME, SENDER, OTHER, NOW = 0, 1, 2, 100.0


def requests_in(effects):
    return [list(effect.message.wanted[SENDER]) for effect in effects if isinstance(effect, Unicast)]


def test_what_repairs_make_room_for_is_asked_for_together():
    """They come many at a time, and each request costs three members a message."""
    settings = preset("rpbcast", {"loggers": 0, "request_packets": 32, "ask_again": 0.001, "gossip_period": 10.0})
    stack = Stack(ME, (ME, SENDER), settings, Random(1))
    stack.step(NOW, Received(SENDER, [Packet(SENDER, 0, b"x")], "first_pass"))
    stack.step(NOW, Received(SENDER, [Packet(SENDER, 200, b"x")], "first_pass"))
    (asked,) = requests_in(stack.step(NOW, Woke()))
    effects = []
    for number in asked[:24]:
        effects += stack.step(NOW, Received(SENDER, [Packet(SENDER, number, b"x")], "peer"))
    assert not [e for e in effects if isinstance(e, Unicast) and isinstance(e.message, Request)]
    (more,) = requests_in(stack.step(NOW, Woke()))
    assert len(more) >= 24
    assert not set(more) & set(asked)


def test_what_the_member_that_was_asked_sends_late_was_not_lost_even_if_another_was_faster():
    settings = preset("rpbcast", {"loggers": 0, "request_packets": 32, "ask_again": 0.001, "gossip_period": 0.05})
    stack = Stack(ME, (ME, SENDER, OTHER), settings, Random(1))
    stack.step(NOW, Received(SENDER, [Packet(SENDER, 0, b"x")], "first_pass"))
    stack.step(NOW, Received(SENDER, [Packet(SENDER, 9, b"x")], "first_pass"))
    (request,) = (e for e in stack.step(NOW, Woke()) if isinstance(e, Unicast) and isinstance(e.message, Request))
    slow, fast = request.to, SENDER + OTHER - request.to
    stack.step(NOW + 1.0, Woke())  # the answer takes too long
    (answers,) = (repair._asking._answers for repair in stack.gaps.repairs)
    (answer,) = answers._waiting[slow]
    for number in range(1, 9):
        stack.step(NOW + 1.0, Received(fast, [Packet(SENDER, number, b"x")], "peer"))
    assert answer.missing_count == 8
    for number in range(1, 7):
        stack.step(NOW + 1.0, Received(slow, [Packet(SENDER, number, b"x")], "peer"))
    assert answer.missing_count == 2
