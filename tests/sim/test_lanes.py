"""Members side by side: a run that reaches many at once does to each what its own step would have done."""

from random import Random

import pytest

from gossamer.core.effects import Deliver
from gossamer.core.inputs import LeaveAsked, Received, Started
from gossamer.core.packets import Packet
from gossamer.presets import preset
from gossamer.rungs import holds_back
from gossamer.sim.lanes import Lanes
from gossamer.stack import Stack

MEMBERS = (0, 1, 2, 3, 4)


def group(protocol, lanes):
    settings = preset(protocol)
    stacks = [Stack(m, MEMBERS, settings, Random(m), loggers=(4,) if settings.loggers else ()) for m in MEMBERS]
    for stack in stacks:
        if lanes is not None:
            lanes.enter(stack)
        stack.step(0.0, Started({}))
    return stacks


def delivered(effects):
    return [p.id for effect in effects if isinstance(effect, Deliver) for p in effect.run]


def together(stacks, lanes, now, members, happened):
    asked, indifferent = lanes.advance(now, members, happened)
    got = {m: [p.id for p in happened.run] for m in members if m not in asked and m not in indifferent}
    got |= {m: [] for m in indifferent}
    return got | {m: delivered(stacks[m].step(now, happened)) for m in asked}


def known(stack):
    streams = {s: (x.next, x.missing.ranges(), x.abandoned.ranges()) for s, x in stack.streams.items()}
    return streams, stack.buffer.arrivals, len(stack.buffer)


@pytest.mark.parametrize("protocol", ["unreliable", "pbcast", "lbrm"])
@pytest.mark.parametrize("seed", range(5))
def test_a_run_taken_in_together_does_what_each_step_would_do(protocol, seed):
    """Losses, repeats and repairs of two senders; one of them is a member that hears its own packets."""
    rng = Random(seed)
    lanes = Lanes(len(MEMBERS), ordered=holds_back(preset(protocol)))
    side_by_side, alone = group(protocol, lanes), group(protocol, None)
    nexts = {3: 0, 7: 0}
    for i in range(300):
        sender = rng.choice((3, 7))
        if rng.random() < 0.7:
            first, nexts[sender] = nexts[sender], nexts[sender] + rng.choice((1, 1, 2))
        else:
            first = rng.randrange(nexts[sender] + 1)
        run = [Packet(sender, n, b"") for n in range(first, max(first + 1, nexts[sender] if i % 7 else first))]
        happened = Received(1, run[:3], "first_pass")
        reached = [m for m in MEMBERS if rng.random() < 0.8]
        expected = {m: delivered(alone[m].step(i * 1.0, happened)) for m in reached}
        assert together(side_by_side, lanes, i * 1.0, reached, happened) == expected
        assert [known(s) for s in side_by_side] == [known(s) for s in alone]


def test_a_member_that_starts_again_knows_nothing_of_its_earlier_life():
    lanes = Lanes(len(MEMBERS), ordered=True)
    stacks = group("pbcast", lanes)
    for n in range(3):
        together(stacks, lanes, 0.0, [1, 2], Received(0, [Packet(0, n, b"")], "first_pass"))
    reborn = Stack(2, MEMBERS, preset("pbcast"), Random(2))
    lanes.enter(reborn)
    reborn.step(1.0, Started({0: 1}))
    assert lanes.advance(1.0, [1, 2], Received(0, [Packet(0, 2, b"")], "first_pass")) == ([], [1])
    assert reborn.streams[0].next == 3


def test_a_member_that_has_left_takes_in_nothing():
    lanes = Lanes(len(MEMBERS), ordered=True)
    stacks = group("pbcast", lanes)
    together(stacks, lanes, 0.0, [1], Received(0, [Packet(0, 0, b"")], "first_pass"))
    stacks[1].step(1.0, LeaveAsked())
    stacks[1].end()
    asked, _ = lanes.advance(1.0, [1], Received(0, [Packet(0, 1, b"")], "first_pass"))
    assert asked == [1]
    assert delivered(stacks[1].step(1.0, Received(0, [Packet(0, 1, b"")], "first_pass"))) == []
