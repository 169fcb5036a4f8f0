"""What waits for an earlier packet of its sender takes a limited amount of memory, and stops no other sender."""

from __future__ import annotations

from random import Random

from gossamer.core.effects import Deliver
from gossamer.core.ids import FIRST_PASS, PEER, Phase
from gossamer.core.inputs import Heard, Received, Started
from gossamer.core.messages import Heartbeat
from gossamer.core.packets import Packet, memory_of
from gossamer.core.ranges import RangeSet
from gossamer.presets import preset
from gossamer.stack import Stack

ME, FAST, SLOW = range(3)
ROOM_BYTES = 1 << 20
BODY = bytes(1000)


class Scene:
    """A member that hears two senders; of the first, everything after the first packet waits for the second one."""

    def __init__(self) -> None:
        changes = {"ordering": "fifo", "hold_bytes": ROOM_BYTES, "loss_patience": 1e9, "loggers": 0}
        self.stack = Stack(ME, (ME, FAST, SLOW), preset("rpbcast", changes), Random(1))
        self.delivered: dict[int, list[int]] = {FAST: [], SLOW: []}
        self.stack.step(0.0, Started({}))
        self.come(FAST, 0, 0)
        self.come(SLOW, 0, 0)

    def come(self, sender: int, first: int, last: int, phase: Phase = FIRST_PASS) -> None:
        """These packets come."""
        run = [Packet(sender, number, BODY) for number in range(first, last + 1)]
        for effect in self.stack.step(0.0, Received(sender, run, phase)):
            if isinstance(effect, Deliver):
                self.delivered[effect.run[0].sender] += [packet.seqno for packet in effect.run]

    def held_bytes(self) -> int:
        """What has come and was not delivered."""
        have = sum(len(stream.received(RangeSet.span(0, stream.last))) for stream in self.stack.streams.values())
        return (have - sum(map(len, self.delivered.values()))) * memory_of([Packet(FAST, 0, BODY)])

    def fill(self) -> int:
        """Until no more of the first sender is taken in; the next number of it."""
        number = 2
        while True:
            self.come(FAST, number, number + 9)
            number += 10
            if self.stack.streams[FAST].next < number:
                return self.stack.streams[FAST].next


def test_what_waits_takes_no_more_memory_than_it_may():
    scene = Scene()
    scene.fill()
    assert ROOM_BYTES // 2 < scene.held_bytes() <= ROOM_BYTES


def test_what_others_have_spoken_of_before_it_comes_takes_no_more_memory_either():
    scene = Scene()
    number = scene.fill()
    held = scene.held_bytes()
    scene.stack.step(0.0, Heard(FAST, Heartbeat(number + 10_000)))
    for first in range(number, number + 10_000, 10):
        scene.come(FAST, first, first + 9)
    assert scene.held_bytes() == held
    scene.come(FAST, 1, 1, PEER)  # there is room again
    scene.come(FAST, number, number + 9)
    assert scene.delivered[FAST] == list(range(number + 10))


def test_a_sender_of_which_little_waits_goes_on_while_much_of_another_does():
    scene = Scene()
    scene.fill()
    for first in range(1, 400, 4):  # the first of four is lost, and repaired
        scene.come(SLOW, first + 1, first + 3)
        scene.come(SLOW, first, first, PEER)
    assert scene.delivered[SLOW] == list(range(401))


def test_what_a_sender_of_which_little_waits_lacks_is_asked_for_at_once():
    scene = Scene()
    scene.fill()
    for first in (1, 5, 9):
        scene.come(SLOW, first + 1, first + 3)
    lacking = {SLOW: scene.stack.streams[SLOW].missing}
    assert scene.stack.order.urgent(lacking) == lacking
