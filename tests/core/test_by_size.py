"""The buffer by size against a plain model of it: packets that come in any order, again, and in runs of any length."""

from random import Random

import pytest

from gossamer.buffering.by_size import BySize
from gossamer.core.packets import Packet, split_into_runs
from gossamer.presets import preset

ROOM = 40


class Place:
    """As much of a member as a buffer needs; it writes down what the buffer collects."""

    tells_collected = True

    def __init__(self, **settings):
        self.settings = preset("pbcast", {"buffering": "size", "buffer_packets": ROOM, **settings})
        self.gone = []

    def collected(self, now, numbers, aged, out):
        self.gone += [(sender, seqno) for sender, some in numbers.items() for seqno in some]


def runs(rng):
    """Mostly what follows on, at times with a gap, at times what was left out or is here already."""
    following = {1: 0, 2: 0}
    for turn in range(1500):
        sender = rng.choice([1, 1, 1, 2])
        first = following[sender] + rng.choice([0, 0, 0, 1, 3])
        if rng.random() < 0.2:
            first = max(0, following[sender] - rng.randrange(2 * ROOM))
        run = [Packet(sender, first + at, b"%d" % turn) for at in range(rng.randrange(1, 15))]
        following[sender] = max(following[sender], run[-1].seqno + 1)
        yield run


@pytest.mark.parametrize("often", [1.0, 0.05, 0.005])
@pytest.mark.parametrize("seed", range(10))
def test_it_keeps_the_newest_and_finds_each_of_them_however_seldom_one_looks(seed, often):
    place, rng = Place(), Random(-1 - seed)
    buffer, model = BySize(place), {}  # in the order in which they came
    for run in runs(Random(seed)):
        place.gone = []
        buffer.keep(0.0, run, [])
        model |= {(packet.sender, packet.seqno): packet for packet in run if (packet.sender, packet.seqno) in model}
        gone = []
        for part in split_into_runs([packet for packet in run if (packet.sender, packet.seqno) not in model]):
            gone += [*model][: max(0, len(model) + len(part) - ROOM)]
            model = {key: model[key] for key in model if key not in gone}
            model |= {(packet.sender, packet.seqno): packet for packet in part}
        assert sorted(place.gone) == sorted(gone)
        assert len(buffer) == len(model)
        if rng.random() >= often:
            continue
        assert {(s, n) for s, numbers in buffer.held().items() for n in numbers} == set(model)
        near = range(max(0, run[0].seqno - ROOM), run[-1].seqno + ROOM)
        assert all(buffer.get(sender, seqno) is model.get((sender, seqno)) for sender in (1, 2) for seqno in near)


def test_bytes_are_counted_as_packets_leave():
    buffer = BySize(Place(buffer_bytes=1000))
    for first in range(0, 300, 3):
        buffer.keep(0.0, [Packet(1, first + at, bytes(100)) for at in range(3)], [])
        assert len(buffer) <= 10
    assert list(buffer.held()[1]) == list(range(291, 300))


def test_nobody_is_told_what_goes_if_nobody_wants_to_know():
    place = Place()
    place.tells_collected = False
    buffer = BySize(place)
    for number in range(2 * ROOM):
        buffer.keep(0.0, [Packet(1, number, b"")], [])
    assert (len(buffer), place.gone) == (ROOM, [])


def test_its_occupancy_is_the_mean_over_time():
    buffer = BySize(Place())
    buffer.keep(1.0, [Packet(1, number, b"") for number in range(30)], [])
    buffer.keep(2.0, [Packet(1, number, b"") for number in range(30, 60)], [])
    assert buffer.occupancy(4.0) == (ROOM, (1 * 30 + 2 * ROOM) / 4)
