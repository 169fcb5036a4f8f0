"""Which receivers a sender waits for: by hand, and whole groups in the simulator."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from gossamer.core.effects import Unicast
from gossamer.core.ids import FIRST_PASS, PEER, Phase
from gossamer.core.inputs import Heard, Input, Received, Started, Woke
from gossamer.core.messages import Heartbeat, SeenReport
from gossamer.core.packets import Packet
from gossamer.flow.window import Window
from gossamer.presets import preset
from gossamer.sim.checked import traced
from gossamer.sim.scenario import parse
from gossamer.stack import Stack

ME, SIZE, PATIENCE, REACH = 0, 64, 0.2, 640


class Sender:
    """A sender that always has something to send, its receivers, and a clock."""

    def __init__(self, *receivers: int, logged: bool = True) -> None:
        self.window = Window(SIZE, PATIENCE, REACH)
        self.now = 100.0
        self.head = 0
        self.logged = logged
        self.seen = dict.fromkeys(receivers, 0)
        self.window.view_changed(self.now, [*receivers], 0)

    def send(self) -> int:
        """As much as the window allows; how much that was."""
        before = self.head
        while not self.window.closed(self.now, self.head, logged=self.logged) and self.head < before + 10_000:
            self.head += 1
        return self.head - before

    def round(self, *keeping_up: int, seconds: float = 0.01) -> int:
        """Send, and let these receivers report all of it a little later; how much was sent."""
        sent = self.send()
        self.now += seconds
        for receiver in keeping_up:
            self.hear(receiver, self.head)
        return sent

    def hear(self, receiver: int, seen: int) -> None:
        """The report of a receiver."""
        self.seen[receiver] = seen
        self.window.reported(self.now, receiver, seen, self.head)


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


def test_a_sender_never_follows_the_slowest_receiver():
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


def test_a_receiver_that_has_caught_up_is_followed_again():
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


def crawl(sender: Sender, seconds: float) -> None:
    """Receivers 1 and 2 keep up, and receiver 3 moves by one packet in every 10 ms."""
    for _ in range(int(seconds * 100)):
        sender.round(1, 2)
        sender.hear(3, min(sender.head, sender.seen[3] + 1))


def test_a_receiver_that_moves_is_tolerated_for_longer_where_no_logger_could_help_it():
    for logged, let_go in ((True, [3]), (False, [])):
        sender = Sender(1, 2, 3, logged=logged)
        crawl(sender, 2 * PATIENCE)
        assert list(sender.window.lagging) == let_go


def test_a_receiver_that_does_not_move_is_let_go_just_as_soon_without_a_logger():
    sender = Sender(1, 2, 3, logged=False)
    rounds = [sender.round(1, 2) for _ in range(int(200 * PATIENCE))]
    assert list(sender.window.lagging) == [3]
    assert all(rounds[-10:])


def stalled_for_a_moment(*, logged: bool) -> Sender:
    """Receiver 3 is let go because it stands still, moves again, and has come to the end of the reach."""
    sender = Sender(1, 2, 3, logged=logged)
    while not sender.window.lagging:
        sender.round(1, 2)
    for _ in range(REACH // SIZE + 1):
        sender.hear(3, sender.seen[3] + 1)
        sender.round(1, 2)
    return sender


def test_a_sender_stops_at_the_end_of_its_reach_until_a_receiver_that_moves_has_caught_up():
    sender = stalled_for_a_moment(logged=False)
    assert sender.send() == 0
    for behind in (REACH // 2, SIZE):
        sender.now += 0.01
        sender.window.reported(sender.now, 3, sender.head - behind, sender.head)
        assert sender.send() == 0
    sender.window.reported(sender.now, 3, sender.head - SIZE // 2, sender.head)
    assert not sender.window.lagging
    assert sender.send() == SIZE // 2


def test_a_sender_with_a_logger_does_not_stop_for_receivers_that_were_let_go():
    sender = stalled_for_a_moment(logged=True)
    assert sender.send() == SIZE


def test_a_sender_does_not_stop_for_a_receiver_that_no_longer_moves():
    sender = stalled_for_a_moment(logged=False)
    sender.now += PATIENCE / 2
    assert sender.send() == 0
    sender.now += PATIENCE
    assert sender.send() == SIZE


def test_a_sender_does_not_stop_forever_for_a_receiver_that_crawls():
    sender = stalled_for_a_moment(logged=False)
    stopped = 0
    while not sender.round(1, 2):
        sender.hear(3, sender.seen[3] + 1)
        stopped += 1
    assert 5 * PATIENCE < stopped * 0.01 < 15 * PATIENCE
    crawl(sender, 10.0)
    assert sender.round(1, 2) == SIZE


def test_a_sender_does_not_stop_for_a_receiver_that_has_lost_something_anyway():
    sender = Sender(1, 2, 3, logged=False)
    for _ in range(int(100 * PATIENCE) + 2 * REACH // SIZE):
        sender.round(1, 2)
    assert sender.head - sender.seen[3] > REACH + SIZE
    sender.window.reported(sender.now, 3, 10, sender.head)
    assert sender.round(1, 2) == SIZE


def test_a_sole_receiver_that_comes_back_to_life_is_waited_for_too():
    sender = Sender(1, logged=False)
    sender.send()
    sender.now += 11 * PATIENCE
    while sender.head < REACH:
        assert not sender.window.closed(sender.now, sender.head, logged=False)
        sender.head += 1
    sender.window.reported(sender.now, 1, 1, sender.head)
    sender.head += 1
    assert sender.send() == 0
    sender.now += PATIENCE / 2
    assert sender.send() == 0  # nobody else's rate suffers
    sender.window.reported(sender.now, 1, sender.head - 1, sender.head)
    assert sender.send() == SIZE - 1


def test_a_receiver_reports_no_further_than_the_reach_from_its_first_gap():
    changes = {"window": 8, "reach": 20, "loggers": 0, "gossip_period": 3600.0}
    stack = Stack(1, (ME, 1), preset("rpbcast", changes), Random(1))
    stack.step(0.0, Started({}))

    def reports(first: int, last: int, phase: Phase = "first_pass") -> list[int]:
        run = [Packet(ME, number, b"") for number in range(first, last + 1)]
        effects = stack.step(1.0, Received(ME, run, phase))
        return [e.message.seen for e in effects if isinstance(e, Unicast) and isinstance(e.message, SeenReport)]

    assert reports(0, 9) == [10]
    assert reports(11, 15) == [16]
    assert reports(16, 40) == [20]  # the rest of its reach is for what it has not seen
    assert reports(41, 50) == []
    assert reports(10, 10, "peer") == [51]


class Receiver:
    """What one receiver of member 0 reports, and misses."""

    def __init__(self, **changes: Any) -> None:
        settings = {"window": 8, "loggers": 0, "gossip_period": 0.05, "peer_rounds": 3, **changes}
        self.stack = Stack(1, (ME, 1, 2), preset("rpbcast", settings), Random(1))
        self.reported(0.0, Started({}))

    def reported(self, now: float, happened: Input) -> list[int]:
        self.reports = [
            effect.message
            for effect in self.stack.step(now, happened)
            if isinstance(effect, Unicast) and isinstance(effect.message, SeenReport)
        ]
        return [report.seen for report in self.reports]

    def came(self, now: float, first: int, last: int, phase: Phase = FIRST_PASS) -> list[int]:
        return self.reported(now, Received(ME, [Packet(ME, number, b"") for number in range(first, last + 1)], phase))


@pytest.mark.parametrize("reach", [0, 1000])
def test_a_receiver_reports_what_came_and_not_what_it_was_told_of(reach):
    """By a heartbeat or a gossip: what goes by way of another member may still be waiting there."""
    receiver = Receiver(reach=reach)
    assert receiver.came(0.01, 0, 9) == [10]
    assert receiver.reported(0.02, Heard(ME, Heartbeat(99))) == []
    assert receiver.came(0.03, 10, 19) == [20]
    assert receiver.came(0.04, 30, 39) == [40], "what was lost below does not hold up the sender"
    assert receiver.came(0.05, 20, 29) == []
    assert receiver.came(0.06, 60, 61, PEER) == [62], "a repair has come, too"
    assert receiver.came(0.07, 98, 99) == [100]


def test_what_came_by_the_first_pass_shows_the_path_though_more_was_told_of():
    receiver = Receiver(congestion="delay")
    receiver.came(0.01, 0, 9)
    receiver.reported(0.02, Heard(ME, Heartbeat(99)))
    receiver.came(0.03, 10, 19)
    assert [(r.seen, r.newest, r.received) for r in receiver.reports] == [(20, 19, 20)]


def test_what_nobody_brings_does_not_hold_up_the_sender_for_ever():
    receiver = Receiver()
    receiver.came(0.01, 0, 9)
    receiver.reported(0.02, Heard(ME, Heartbeat(17)))
    said = [seen for tick in range(3, 60) for seen in receiver.reported(tick / 100, Woke())]
    assert said == [18]


STALLED = {
    "name": "stalled",
    "duration": 1.0,
    "linger": 30.0,
    "topology": {"kind": "lan", "members": 3, "latency": 0.001},
    "traffic": {"senders": 1, "rate": 32_000.0, "size": 100, "arrivals": "burst"},
    "protocol": {
        "name": "rpbcast",
        "ordering": "fifo",
        "loggers": 0,
        "gossip_period": 0.05,
        "buffering": "size",
        "buffer_packets": 3000,
        "window": 64,
        "reach": 2200,
        "patience": 0.05,
        "request_packets": 16,
        "service_limit": 20_000,
        "queue_packets": 100_000,
    },
    "fault": [{"at": 0.3, "kind": "perturb", "members": [2], "probability": 1.0, "for": 0.1}],
}


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_receiver_that_stands_still_for_a_moment_loses_nothing(seed):
    result = traced(parse(STALLED).with_seed(seed))
    assert result["violations"] == []
    assert result["packets"]["everywhere"] == result["packets"]["sent"] > 10_000


def test_a_sole_slow_receiver_is_waited_for_as_long_as_it_moves():
    sender = Sender(1)
    for seen in range(1, 100):  # 100 s at one packet a second
        sender.send()
        assert sender.head < seen + SIZE
        sender.now += 1.0
        sender.window.reported(sender.now, 1, seen, sender.head)
    assert not sender.window.lagging


def test_a_dead_receiver_is_let_go():
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


def test_a_receiver_that_has_left_is_not_waited_for_and_a_new_one_begins_at_the_current_packet():
    sender = Sender(1, 2)
    sender.round(1)
    assert sender.send() == 0
    sender.window.view_changed(sender.now, [1], sender.head)
    assert sender.round(1) == SIZE
    sender.window.view_changed(sender.now, [1, 3], sender.head)
    assert sender.send() == SIZE
    sender.window.view_changed(sender.now, [], sender.head)
    assert sender.send() > 10 * SIZE  # nobody is there


@pytest.mark.parametrize("seen", [SIZE + 1, 10**18])
def test_a_report_of_what_was_never_sent_is_ignored(seen):
    sender = Sender(1)
    sender.send()
    sender.window.reported(sender.now, 1, seen, sender.head)
    assert sender.send() == 0


def test_reports_of_strangers_and_old_reports_are_ignored():
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
