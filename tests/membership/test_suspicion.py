"""Which members a member suspects: by hand, and in groups that are large."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

import gossamer
from gossamer.core.effects import Effect, Note, Unicast
from gossamer.core.inputs import Heard, Paused, Resumed, Started, Woke
from gossamer.core.messages import Gossip, Heartbeat
from gossamer.presets import preset
from gossamer.sim.run import simulate, stack_maker
from gossamer.sim.scenario import parse
from gossamer.stack import Stack

ME, OTHERS = 0, (1, 2)
PATIENCE = 1.0


class Watcher:
    """A member that suspects others after a second, and a clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        changes = {"suspect_after": 1.0, "gossip_period": 3600.0, "loggers": 0}
        self.stack = Stack(ME, (ME, *OTHERS), preset("rpbcast", changes), Random(1))
        self.stack.step(self.now, Started({}))

    def wait(self, seconds: float, *heard: int) -> list[Effect]:
        """Let the time go by, in which these are heard; what the member did."""
        done: list[Effect] = []
        end = self.now + seconds
        while (wakes := self.stack.next_deadline()) <= end:
            self.now = max(self.now, wakes)
            for member in heard:
                done += self.stack.step(self.now, Heard(member, Heartbeat(0)))
            done += self.stack.step(self.now, Woke())
        self.now = end
        return done


def suspected(effects: list[Effect]) -> set[int]:
    return {e.peer for e in effects if isinstance(e, Note) and e.kind == "suspect"}


def test_a_silent_member_is_asked_and_then_suspected():
    watcher = Watcher()
    asked = watcher.wait(1.9, 1)
    assert {e.to for e in asked if isinstance(e, Unicast) and isinstance(e.message, Gossip)} == {2}
    assert suspected(asked) == set()
    assert suspected(watcher.wait(1.0, 1)) == {2}
    assert 2 not in watcher.stack.roster.members


def test_a_member_that_did_not_listen_suspects_nobody():
    watcher = Watcher()
    watcher.stack.step(watcher.now, Paused())
    assert suspected(watcher.wait(10.0)) == set()
    watcher.stack.step(watcher.now, Resumed())
    assert suspected(watcher.wait(1.9, 1)) == set()
    assert suspected(watcher.wait(1.5, 1)) == {2}


def test_a_member_that_stood_still_suspects_nobody():
    watcher = Watcher()
    watcher.now += 60.0  # the whole process did, and no timer fired
    assert suspected(watcher.stack.step(watcher.now, Woke())) == set()
    assert watcher.stack.roster.members == (ME, *OTHERS)


def lan(members: int, seconds: float, *faults: dict[str, Any]) -> tuple[dict[str, Any], list[Stack]]:
    """An idle group with the settings of live ones, but less patience; what came of it, and its members at the end."""
    protocol = replace(gossamer.Settings().protocol_settings(), suspect_after=PATIENCE)
    scenario = replace(
        parse(
            {
                "duration": seconds,
                "linger": 0.0,
                "topology": {"kind": "lan", "members": members, "queue": 10_000, "bandwidth": 1e9},
                "traffic": {"rate": 0.001},
                "fault": [*faults, {"at": seconds + 1, "kind": "heal"}],  # or it would end once all is quiet
            }
        ),
        protocol=protocol,
    )
    make, stacks = stack_maker(scenario, members), [None] * members

    def made(me: int, group: tuple[int, ...], rng: Random) -> Stack:
        stacks[me] = make(me, group, rng)
        return stacks[me]

    return simulate(scenario, make_stack=made), stacks


@pytest.mark.parametrize("members", [100, 500])
def test_nobody_is_suspected_in_a_large_idle_group(members):
    result, stacks = lan(members, 6 * PATIENCE)
    assert result["suspicions"] == {"false": 0, "true": 0}
    assert {len(stack.roster) for stack in stacks} == {members}


def test_a_member_that_dies_in_a_large_idle_group_is_found():
    result, stacks = lan(120, 4 * PATIENCE, {"at": PATIENCE, "kind": "crash", "members": [7]})
    assert result["suspicions"]["false"] == 0
    assert 1 <= result["suspicions"]["true"] <= 3
    assert {len(stack.roster) for stack in stacks if stack.me != 7} == {119}


@pytest.mark.parametrize("half", [3, 50])
@pytest.mark.parametrize("mixed", [True, False])
def test_both_sides_of_a_partition_notice_it_soon(half, mixed):
    everybody = list(range(2 * half))
    sides = [everybody[::2], everybody[1::2]] if mixed else [everybody[:half], everybody[half:]]
    _, stacks = lan(2 * half, 5 * PATIENCE, {"at": PATIENCE, "kind": "partition", "members": sides})
    assert all(list(stacks[member].roster.members) == side for side in sides for member in side)
