"""The buffer with hashed bufferers against a plain model of it, its bounds, and the fairness of its hashes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from scipy.stats import binom, chisquare

from gossamer.buffering.bufferers import Bufferers, copies_of
from gossamer.buffering.hashed import Hashed
from gossamer.buffering.hashes import BLOCK, HASHES, RANGE
from gossamer.core.packets import Packet, split_into_runs
from gossamer.core.parts import Membership
from gossamer.core.ranges import RangeSet
from gossamer.core.roster import Roster
from gossamer.presets import preset

SENDERS = (4, 2, 9)
SHORT, LONG = 2, 5


class Place:
    """As much of a member as a buffer needs; it writes down what the buffer collects, and what enters the long term."""

    def __init__(self, members=10, **settings):
        self.me = 3
        self.settings = preset("pbcast", {"buffering": "hashed", **settings})
        self.roster = Roster(self.me, tuple(range(members)))
        self.siblings = {}
        self.is_member = True
        self.membership = Membership(self)
        self.gone, self.entered = [], []

    def collected(self, now, numbers, aged, out, kept=None):
        self.gone += [(sender, seqno) for sender, some in numbers.items() for seqno in some]

    def note(self, kind, place, packets, out):
        if kind == "store":
            self.entered += [(sender, seqno) for sender, some in packets for seqno in some]


def packet(sender, seqno, size=20):
    return Packet(sender, seqno, b"%d/%d" % (sender, seqno) * size)


def is_mine(buffer, sender, seqno):
    return buffer.ladder.me in buffer.bufferers.of(sender, seqno)


@pytest.mark.parametrize("kind", HASHES)
@pytest.mark.parametrize("seed", range(3))
def test_it_keeps_all_for_a_short_time_and_for_long_what_hashes_to_the_member(seed, kind):
    """Reference: 003 §3, §5"""
    rng = Random(seed)
    place = Place(gc_rounds=LONG, short_rounds=SHORT, bufferers=4, buffer_hash=kind)
    buffer = Hashed(place)
    came: dict[tuple[int, int], int] = {}  # the number of the round
    unsent = {sender: list(range(400)) for sender in SENDERS}
    now, number = 0.0, 0
    for _ in range(300):
        now += rng.random()
        if rng.random() < 0.3:
            number += 1
            place.gone.clear()
            buffer.round_over(now, number, [])
            assert set(place.gone) == {packet_id for packet_id, at in came.items() if at + LONG == number - 1}
            came = {packet_id: at for packet_id, at in came.items() if at + LONG > number - 1}
        else:
            of = rng.choice(SENDERS)
            at = rng.randrange(3)  # not always in order
            taken = [packet(of, unsent[of].pop(at)) for _ in range(rng.randrange(1, 4))]
            for run in split_into_runs(taken):
                buffer.keep(now, run, [])
            came.update({(p.sender, p.seqno): number for p in taken})
        kept = {i for i, at in came.items() if at + SHORT > number - 1 or is_mine(buffer, *i)}
        assert {(s, n) for s, numbers in buffer.held().items() for n in numbers} == {
            i for i, at in came.items() if at < number
        }
        assert len(buffer) == len(kept)
        for sender in SENDERS:
            everything = RangeSet.span(0, 500)
            assert set(buffer.kept_of(sender, everything)) == {n for s, n in kept if s == sender}
            assert all((buffer.get(sender, n) is not None) == ((sender, n) in kept) for n in range(0, 400, 7))


def test_bytes_bound_what_is_kept_and_what_is_remembered():
    """Whatever comes, and however fast: rounds need not end for it."""
    place = Place(members=20, bufferers=4, buffer_bytes=20_000, short_bytes=4000)
    buffer = Hashed(place)
    for seqno in range(5000):
        buffer.keep(0.0, [Packet(7, seqno, b"x" * 100)], [])
        held = RangeSet.span(0, seqno)
        kept = buffer.kept_of(7, held)
        assert len(kept) * 100 <= 4000 + 20_000 // 16 + 20_000  # the short term, a bucket, and all of the long term
    remembered = buffer.held()[7]
    assert remembered.last - remembered.first + 1 == pytest.approx(200, abs=30)
    assert len(buffer) == pytest.approx(40 + 160 * 4 / 20, abs=25)
    assert remembered.first > 0
    assert not buffer.kept_of(7, RangeSet.span(0, remembered.first - 1))


def test_a_member_of_a_small_group_keeps_everything():
    """C above the group's size means everybody. Reference: 003 §3"""
    buffer = Hashed(Place(members=3, bufferers=50, gc_rounds=4, short_rounds=1))
    buffer.keep(0.0, [packet(1, n) for n in range(40)], [])
    for number in range(1, 4):
        buffer.round_over(number * 1.0, number, [])
        assert len(buffer) == 40
    assert buffer.bufferers.of(1, 3) == [0, 1, 2]


def test_the_number_of_bufferers_is_chosen_for_the_group_and_follows_it():
    """003 §6: about 6 where a receiver loses half a percent, for P_fail = 0.1%. Reference: 003 §3"""
    wanted = preset("pbcast", {"buffering": "hashed", "buffer_loss": 0.005})
    assert [copies_of(wanted, n) for n in (1, 2, 3, 100, 1000, 10_000)] == [1, 2, 3, 6, 7, 7]
    bufferers = Bufferers(wanted, Roster(0, tuple(range(4))))
    assert (bufferers.copies, bufferers.are_all) == (3, False)
    bufferers.follow(Roster(0, tuple(range(100))))
    assert (bufferers.copies, bufferers.are_all) == (6, False)
    assert bufferers.threshold == pytest.approx(0.06 * RANGE, abs=1)


def test_where_nothing_is_lost_one_bufferer_is_left():
    """A C of 0 would be too few for a loss that nobody expected."""
    wanted = preset("pbcast", {"buffering": "hashed", "buffer_loss": 0.0})
    assert copies_of(wanted, 100) == 1


def test_where_the_wanted_probability_is_out_of_reach_everybody_keeps_everything():
    wanted = preset("pbcast", {"buffering": "hashed", "buffer_loss": 0.5, "buffer_failure": 1e-9})
    assert copies_of(wanted, 10) == 10


@pytest.mark.parametrize("kind", HASHES)
def test_members_agree_on_the_bufferers_of_a_packet(kind):
    """Each looks at its own numbers, and everybody at those of all. Reference: 003 §3"""
    settings = preset("pbcast", {"buffering": "hashed", "bufferers": 6, "buffer_hash": kind})
    views = [Bufferers(settings, Roster(me, tuple(range(40)))) for me in range(40)]
    for first, last in ((0, 50), (3, 3), (255, 257), (1 << 40, (1 << 40) + 20)):
        chosen = {seqno: views[0].of(8, seqno) for seqno in range(first, last + 1)}
        for me, view in enumerate(views):
            assert view.mine(8, first, last) == [seqno for seqno, members in chosen.items() if me in members]


@pytest.mark.parametrize("kind", HASHES)
def test_views_that_differ_a_little_agree_on_most_bufferers(kind):
    """Reference: 003 §3"""
    settings = preset("pbcast", {"buffering": "hashed", "bufferers": 10, "buffer_hash": kind})
    one = Bufferers(settings, Roster(0, tuple(range(100))))
    other = Bufferers(settings, Roster(0, tuple(range(3, 100))))
    both = sum(len(set(one.of(5, n)) & set(other.of(5, n))) for n in range(200))
    either = sum(len(set(one.of(5, n)) | set(other.of(5, n))) for n in range(200))
    assert both / either > 0.9


def test_others_can_make_a_member_compute_only_so_much_in_a_round():
    settings = preset("pbcast", {"buffering": "hashed", "bufferers": 5})
    bufferers = Bufferers(settings, Roster(0, tuple(range(1000))))
    found = [bufferers.of(1, seqno * BLOCK) for seqno in range(100)]
    assert sum(one is not None for one in found) == 9
    bufferers.round_over()
    assert bufferers.of(1, 99 * BLOCK) is not None


_RNG = Random("ids")
REAL_IDS = [_RNG.getrandbits(63) for _ in range(64)]
"""As live members have them."""


@pytest.mark.parametrize("members", [range(64), REAL_IDS], ids=["numbered", "random ids"])
def test_the_fast_hash_is_fair(members):
    """By chi-square: over its range, over members, and in how many members keep a packet. Reference: 003 §3, §4"""
    members, packets, copies = list(members), 4096, 6
    threshold = copies * RANGE // len(members)
    numbers = {m: [n for b in range(packets // BLOCK) for n in HASHES["blake"](m, 17, b)] for m in members}
    over_range = Counter(n * 64 // RANGE for some in numbers.values() for n in some)
    assert chisquare([over_range[at] for at in range(64)]).pvalue > 1e-3
    by_member = [sum(n < threshold for n in some) for some in numbers.values()]
    assert chisquare(by_member).pvalue > 1e-3
    places = Counter(min(14, sum(some[at] < threshold for some in numbers.values())) for at in range(packets))
    expected = [packets * binom.pmf(k, len(members), copies / len(members)) for k in range(14)]
    expected.append(packets - sum(expected))  # 14 or more
    assert chisquare([places[k] for k in range(15)], expected).pvalue > 1e-3


def test_the_shuffle_table_is_as_the_paper_has_it():
    """A byte at a time, from the packet's id and the member's number. Reference: 003 §4"""
    from gossamer.buffering import hashes

    def plain(data: bytes) -> int:
        state = 0
        for byte in data:
            state ^= hashes._SHUFFLE[byte ^ (state & 0xFF)]
        return state

    for member, sender, block in ((0, 0, 0), (5, 1 << 40, 3), ((1 << 63) - 1, 7, 1 << 50)):
        ids = [sender.to_bytes(8, "big") + (block * BLOCK + at).to_bytes(8, "big") for at in range(BLOCK)]
        assert list(HASHES["shuffle"](member, sender, block)) == [plain(i + member.to_bytes(8, "big")) for i in ids]
