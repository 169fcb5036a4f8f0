"""The buffer by age against a plain model of it, and what members in step share."""

from random import Random

import pytest

from gossamer.buffering.by_age import ByAge
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.presets import preset

ROUNDS = 3


class Place:
    """As much of a member as a buffer needs; it writes down what the buffer collects."""

    def __init__(self, siblings=None, **settings):
        self.settings = preset("pbcast", settings)
        self.siblings = {} if siblings is None else siblings
        self.gone = {}

    def collected(self, now, numbers, aged, out):
        self.gone = numbers


def by_age(rounds, siblings=None):
    return ByAge(Place(siblings, gc_rounds=rounds))


def round_over(buffer, now):
    buffer.ladder.gone = {}
    buffer.round_over(now, 1, [])
    return buffer.ladder.gone


def packet(sender, seqno):
    return Packet(sender, seqno, b"%d/%d" % (sender, seqno))


class Model:
    """Every packet with the time at which it came and the number of the round; nothing clever."""

    def __init__(self):
        self.kept, self.round, self.area, self.at = {}, 0, 0.0, 0.0

    def pass_time(self, now):
        self.area += len(self.kept) * (now - self.at)
        self.at = now

    def held(self):
        found = {}
        for (sender, seqno), since in self.kept.items():
            if since < self.round:
                found.setdefault(sender, set()).add(seqno)
        return found

    def round_over(self):
        gone = [key for key, since in self.kept.items() if since + ROUNDS <= self.round]
        for key in gone:
            del self.kept[key]
        self.round += 1
        return set(gone)


@pytest.mark.parametrize("seed", range(5))
def test_it_keeps_everything_for_the_set_number_of_rounds_and_says_what_it_holds(seed):
    rng, buffer, model = Random(seed), by_age(ROUNDS), Model()
    unsent = [[(sender, n) for n in range(200)] for sender in (4, 2, 9)]
    now = 0.0
    for _ in range(150):
        now += rng.random()
        model.pass_time(now)
        if rng.random() < 0.3:
            gone = round_over(buffer, now)
            assert {(s, n) for s, numbers in gone.items() for n in numbers} == model.round_over()
        else:
            of = rng.choice(unsent)
            at = rng.randrange(3)  # not always in order
            run = [packet(*of.pop(at)) for _ in range(1 if rng.random() < 0.8 or of[at + 1][1] != of[at][1] + 1 else 2)]
            buffer.keep(now, run, [])
            model.kept.update({(p.sender, p.seqno): model.round for p in run})
        assert {s: set(numbers) for s, numbers in buffer.held().items()} == model.held()
        assert len(buffer) == len(model.kept)
        assert buffer.occupancy(now)[1] == pytest.approx(model.area / now)
        asked = (rng.choice((4, 2, 9)), rng.randrange(40))
        assert buffer.get(*asked) == (packet(*asked) if asked in model.kept else None)
        assert (asked[1] in buffer.kept_of(asked[0], RangeSet.span(asked[1], asked[1]))) == (asked in model.kept)


def test_an_answer_of_held_is_not_changed_by_later_rounds():
    """A digest that is on its way still says what it said."""
    buffer = by_age(1)
    buffer.keep(0.0, [packet(1, 0), packet(1, 1)], [])
    round_over(buffer, 0.1)
    said = buffer.held()
    buffer.keep(0.2, [packet(1, 2)], [])
    round_over(buffer, 0.3)
    assert said == {1: RangeSet.span(0, 1)}
    assert buffer.held() == {1: RangeSet.span(2, 2)}


def test_buffers_in_step_share_what_they_hold_and_part_when_they_differ():
    runs = [[packet(1, n)] for n in range(12)]
    together = {}
    one, other = by_age(2, together), by_age(2, together)
    for start in (0, 3, 6, 9):
        for buffer in (one, other):
            for run in runs[start : start + 3]:
                if buffer is one or run[0].seqno != 7:
                    buffer.keep(float(start), run, [])
        for buffer in (one, other):
            round_over(buffer, start + 0.5)
        if start < 6:
            assert one.held() is other.held()
    assert one.held() == {1: RangeSet.span(6, 11)}
    assert other.held() == {1: RangeSet([(6, 6), (8, 11)])}
