"""Whom a sender waits for, and whom a member suspects: by hand, and whole groups in the simulator."""

from __future__ import annotations

from random import Random

import pytest

from gossamer.core.effects import Effect, Note, Unicast
from gossamer.core.inputs import Heard, Paused, Resumed, Started, Woke
from gossamer.core.messages import Gossip, Heartbeat
from gossamer.dissemination.window import Window
from gossamer.presets import preset
from gossamer.sim.checked import traced
from gossamer.sim.scenario import parse
from gossamer.stack import Stack

ME, SIZE, PATIENCE = 0, 64, 0.2


class Sender:
    """A sender that always has something to send, its receivers, and a clock."""

    def __init__(self, *receivers: int) -> None:
        self.window = Window(SIZE, PATIENCE)
        self.now = 100.0
        self.head = 0
        self.window.view_changed(self.now, (ME, *receivers), ME, 0)

    def send(self) -> int:
        """As much as the window allows; how much that was."""
        before = self.head
        while not self.window.closed(self.now, self.head) and self.head < before + 10_000:
            self.head += 1
        return self.head - before

    def round(self, *keeping_up: int, seconds: float = 0.01) -> int:
        """Send, and let these receivers report all of it a little later; how much was sent."""
        sent = self.send()
        self.now += seconds
        for receiver in keeping_up:
            self.window.reported(self.now, receiver, self.head, self.head)
        return sent


def test_a_sender_is_at_most_a_window_ahead():
    sender = Sender(1, 2)
    assert sender.send() == SIZE
    assert sender.send() == 0
    sender.window.reported(sender.now, 1, SIZE, sender.head)
    assert sender.send() == 0  # the other has seen nothing yet
    sender.window.reported(sender.now, 2, 10, sender.head)
    assert sender.send() == 10


def test_a_window_is_reported_several_times_over():
    assert Window.stride(SIZE) * 4 <= SIZE
    assert Window.stride(1) == 1


def test_it_never_follows_the_slowest():
    """Reference: 004 §5 (throughput stability)"""
    sender = Sender(1, 2, 3, 4)
    rounds = [sender.round(1, 2, 3) for _ in range(200)]  # 2 s, and receiver 4 says nothing
    assert list(sender.window.lagging) == [4]
    blocked = sum(sent == 0 for sent in rounds)
    assert blocked * 0.01 <= 1.5 * PATIENCE
    assert all(rounds[-100:])


@pytest.mark.parametrize(("share", "rounds_full"), [(0.25, 0.6), (1.0, 1.0)])
def test_a_receiver_far_slower_than_the_others_does_not_set_their_rate(share, rounds_full):
    sender = Sender(1, 2, 3, 4)
    seen = 0
    rounds = []
    for _ in range(20_000):  # 200 s: receiver 4 takes a share of what the others could
        rounds.append(sender.round(1, 2, 3) + sender.send())  # a report is the time to look whether more may go
        seen = min(sender.head, seen + int(share * SIZE))
        sender.window.reported(sender.now, 4, seen, sender.head)
    full = sum(sent > SIZE // 2 for sent in rounds)
    assert full >= rounds_full * len(rounds)


def test_blame_wears_off():
    sender = Sender(1, 2, 3)

    def hiccup() -> None:
        """Receiver 3 is late by half the patience."""
        sender.round(1, 2)
        assert sender.send() == 0
        sender.now += PATIENCE / 2
        if not sender.send():
            sender.window.reported(sender.now, 3, sender.head, sender.head)

    for _ in range(20):
        hiccup()
        assert not sender.window.lagging
        sender.now += 20.0
    hiccup()
    hiccup()  # two in a row are too many
    hiccup()
    assert list(sender.window.lagging) == [3]


def test_one_who_has_caught_up_is_followed_again():
    sender = Sender(1, 2, 3)
    while not sender.window.lagging:
        sender.round(1, 2)
    sender.send()
    sender.window.reported(sender.now, 3, sender.head - SIZE, sender.head)
    assert sender.window.lagging  # too far behind yet
    sender.window.reported(sender.now, 3, sender.head - 1, sender.head)
    assert not sender.window.lagging
    sender.round(1, 2)
    assert sender.send() < SIZE  # it counts again


def test_a_sole_slow_receiver_is_waited_for_as_long_as_it_moves():
    sender = Sender(1)
    for seen in range(1, 100):  # 100 s at one packet a second
        sender.send()
        assert sender.head < seen + SIZE
        sender.now += 1.0
        sender.window.reported(sender.now, 1, seen, sender.head)
    assert not sender.window.lagging


def test_the_dead_are_let_go():
    sender = Sender(1)
    sender.send()
    sender.now += 9 * PATIENCE
    assert sender.send() == 0
    sender.now += 2 * PATIENCE
    assert sender.send() > 10 * SIZE
    assert list(sender.window.lagging) == [1]


def test_a_burst_after_a_long_silence_finds_everybody_alive():
    sender = Sender(1, 2)
    sender.round(1, 2)
    sender.now += 1000 * PATIENCE
    assert sender.send() == SIZE
    assert not sender.window.lagging


def test_who_has_left_is_not_waited_for_and_who_is_new_begins_here():
    sender = Sender(1, 2)
    sender.round(1)
    assert sender.send() == 0
    sender.window.view_changed(sender.now, (ME, 1), ME, sender.head)
    assert sender.round(1) == SIZE
    sender.window.view_changed(sender.now, (ME, 1, 3), ME, sender.head)
    assert sender.send() == SIZE
    sender.window.view_changed(sender.now, (ME,), ME, sender.head)
    assert sender.send() > 10 * SIZE  # nobody is there


@pytest.mark.parametrize("seen", [SIZE + 1, 10**18])
def test_a_report_of_what_was_never_sent_is_ignored(seen):
    sender = Sender(1)
    sender.send()
    sender.window.reported(sender.now, 1, seen, sender.head)
    assert sender.send() == 0


def test_reports_of_strangers_and_old_ones_are_ignored():
    sender = Sender(1, 2)
    sender.send()
    sender.window.reported(sender.now, 99, sender.head, sender.head)
    assert sender.send() == 0
    for receiver in (1, 2):
        sender.window.reported(sender.now, receiver, 20, sender.head)
    sender.window.reported(sender.now, 1, 0, sender.head)  # overtaken on its way
    assert sender.window.floor == 20


SCENARIO = {
    "name": "window",
    "duration": 2.0,
    "linger": 30.0,
    "topology": {"kind": "lan", "members": 6, "latency": 0.002},
    "loss": {"member": 0.05, "reorder": 0.05},
    "traffic": {"senders": 3, "rate": 300.0, "size": 200, "arrivals": "burst"},
    "protocol": {
        "name": "rpbcast",
        "ordering": "fifo",
        "gossip_period": 0.05,
        "window": 16,
        "suspect_after": 1.0,
        "queue_packets": 10_000,
    },
    "fault": [
        {"at": 0.5, "kind": "perturb", "members": [4], "for": 1.0},
        {"at": 0.7, "kind": "partition", "members": [[0, 1, 2, 5], [3, 4]], "for": 0.5},
    ],
}


@pytest.mark.parametrize("seed", range(1, 21))
def test_every_specification_holds_with_a_window(seed):
    result = traced(parse(SCENARIO).with_seed(seed))
    assert result["violations"] == [], f"seed {seed}"
    assert result["packets"]["everywhere"] == result["packets"]["sent"] > 300, f"seed {seed}"


# Suspicion, by hand.

OTHERS = (1, 2)


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


def test_who_is_silent_is_asked_and_then_suspected():
    watcher = Watcher()
    asked = watcher.wait(1.9, 1)
    assert {e.to for e in asked if isinstance(e, Unicast) and isinstance(e.message, Gossip)} == {2}
    assert suspected(asked) == set()
    assert suspected(watcher.wait(1.0, 1)) == {2}
    assert 2 not in watcher.stack.peers.all()


def test_who_did_not_listen_suspects_nobody():
    watcher = Watcher()
    watcher.stack.step(watcher.now, Paused())
    assert suspected(watcher.wait(10.0)) == set()
    watcher.stack.step(watcher.now, Resumed())
    assert suspected(watcher.wait(1.9, 1)) == set()
    assert suspected(watcher.wait(1.5, 1)) == {2}


def test_who_stood_still_suspects_nobody():
    watcher = Watcher()
    watcher.now += 60.0  # the whole process did, and no timer fired
    assert suspected(watcher.stack.step(watcher.now, Woke())) == set()
    assert watcher.stack.peers.all() == (ME, *OTHERS)
