"""A member that was away for long catches up in short steps, however much waits for what it missed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from random import Random
from time import process_time
from typing import Any

import pytest

from gossamer.core.effects import Deliver
from gossamer.core.inputs import Input, Received, Woke
from gossamer.core.packets import Packet
from tests.papers.hand import Table

ME, SENDER, LOGGER = range(3)
LIVE = {"membership": "sponsored", "ordering": "fifo", "repair": ["negative", "logger"], "request_packets": 128}
MISSED, EARLY = 30_000, 200_000
STEP_S = 0.1
"""Of CPU time; it takes about a tenth of that."""


class Member:
    """A stack that is given packets; notes its longest step, and what it delivers."""

    def __init__(self, **settings: Any) -> None:
        self.stack = Table("rpbcast", 3, loggers=(LOGGER,), **{**LIVE, **settings}).stacks[ME]
        self.now = 100.0
        self.longest_s = 0.0
        self.delivered: list[int] = []
        self.deliveries = 0

    def step(self, happened: Input) -> None:
        began = process_time()
        effects = self.stack.step(self.now, happened)
        self.longest_s = max(self.longest_s, process_time() - began)
        for effect in effects:
            if isinstance(effect, Deliver):
                self.deliveries += 1
                self.delivered += [packet.seqno for packet in effect.run]

    def get(self, numbers: list[int], phase: str) -> None:
        for at, number in enumerate(numbers):
            source = SENDER if phase == "first_pass" else LOGGER
            self.step(Received(source, [Packet(SENDER, number, b"x" * 100)], phase))
            self.now += 1e-5
            if at % 500 == 0:
                self.go_on()

    def go_on(self) -> None:
        while self.stack.next_deadline() <= self.now:
            self.step(Woke())


@pytest.fixture
def spared_collector() -> Iterator[None]:
    """Live groups spare the garbage collector (`live/tuning.py`): it is the steps that are measured."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("spared_collector")
@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_no_step_is_long_while_a_member_catches_up(loss):
    rng = Random(1)
    member = Member()
    member.get(list(range(100)), "first_pass")
    member.now += 20.0
    early = [n for n in range(MISSED, MISSED + EARLY) if rng.random() >= loss]
    member.get(early, "first_pass")
    member.get(list(range(100, MISSED)), "logger")
    member.get(list(member.stack.streams[SENDER].missing), "logger")
    assert member.delivered == list(range(early[-1] + 1))
    assert member.longest_s < STEP_S


def test_what_waits_for_one_packet_is_delivered_at_once():
    member = Member()
    member.get([0, *range(2, 10_000)], "first_pass")
    before = member.deliveries
    member.get([1], "logger")
    assert member.delivered == list(range(10_000))
    assert member.deliveries <= before + 2  # what came by another rung is apart
