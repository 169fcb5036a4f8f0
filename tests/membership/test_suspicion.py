"""Which members a member suspects: by hand."""

from __future__ import annotations

from random import Random

from gossamer.core.effects import Effect, Note, Unicast
from gossamer.core.inputs import Heard, Paused, Resumed, Started, Woke
from gossamer.core.messages import Gossip, Heartbeat
from gossamer.presets import preset
from gossamer.stack import Stack

ME, OTHERS = 0, (1, 2)


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
