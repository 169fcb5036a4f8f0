"""A queue as its members see it: one of them takes each event, and another if that one dies."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from gossamer.pubsub.queue import Queue


def event(sender: int, seqno: int, key: str = ""):
    return ("s", b"", {"key": key} if key else {}, sender, seqno, 0.0, len(key))


def queue(me: int, members, by="any", events_max=10**6) -> Queue:
    made = Queue(me, by, lambda e: e[2].get("key", ""), events_max)
    made.members_are(members)
    return made


@pytest.mark.parametrize("by", ["any", "sender", "key"])
def test_members_that_agree_take_each_event_once(by):
    members = [queue(me, (1, 2, 3, 4), by) for me in (1, 2, 3, 4)]
    taken = Counter()
    for sender in range(50):
        for seqno in range(20):
            events = [event(sender, seqno, f"k{sender}.{n}") for n in range(3)]
            for member in members:
                taken.update((e[3], e[4], e[2]["key"]) for e in member.arrived(events))
    assert len(taken) == 50 * 20 * 3
    assert set(taken.values()) == {1}


@pytest.mark.parametrize("by", ["sender", "key"])
def test_order_is_kept_by_one_member_for_each_sender_or_key_and_few_change_with_the_members(by):
    four = queue(1, (1, 2, 3, 4), by)
    five = queue(1, (1, 2, 3, 4, 5), by)
    keys = range(1000) if by == "sender" else [f"k{n}" for n in range(1000)]
    moved = [key for key in keys if four._chosen(key) != five._chosen(key)]
    assert all(five._chosen(key) == 5 for key in moved), "only to the new one"
    assert 120 < len(moved) < 280
    assert all(180 < n < 320 for n in Counter(map(four._chosen, keys)).values())


def test_what_a_member_that_left_had_not_done_goes_to_another():
    one, two, three = (queue(me, (1, 2, 3)) for me in (1, 2, 3))
    events = [event(9, n) for n in range(30)]
    taken = {id(m): {e[4] for e in m.arrived(events)} for m in (one, two, three)}
    theirs = sorted(taken[id(three)])
    for seqno in theirs[:4]:
        three.done(9, seqno)
    report = three.report({9: 29})
    for other in (one, two):
        assert other.reported(3, report, {9: 29}) == []
    again = [e[4] for m in (one, two) for e in m.members_are((1, 2))]
    assert sorted(again) == theirs[4:]


def test_an_event_that_each_thought_was_the_others_is_taken_when_they_agree():
    one, two = queue(1, (1, 2)), queue(2, (1, 2, 3))
    lost = next(n for n in range(100) if one.members[(n + 9) % 2] == 2 and two.members[(n + 9) % 3] != 2)
    assert one.arrived([event(9, lost)]) == []
    assert two.arrived([event(9, lost)]) == []
    assert two.reported(1, one.report({9: lost}), {9: lost}) == []
    found = one.reported(2, two.report({9: lost}), {9: lost})
    found += one.members_are((1, 2))
    found += two.members_are((1, 2))
    found += one.reported(2, two.report({9: lost}), {9: lost})
    assert found == [event(9, lost)]


def test_a_report_that_comes_before_the_packet_counts():
    one, two = queue(1, (1, 2)), queue(2, (1, 2))
    seqno = next(n for n in range(9) if one.members[(n + 9) % 2] == 2)
    two.arrived([event(9, seqno)])
    two.done(9, seqno)
    one.reported(2, two.report({9: seqno}), {9: seqno - 1})
    assert one.arrived([event(9, seqno)]) == []
    assert one.members_are((1,)) == [], "it was done"


def test_too_much_that_is_not_done_is_forgotten_and_counted():
    one = queue(1, (1, 2), events_max=10)
    one.arrived([event(9, n) for n in range(100)])
    assert one.forgotten == 45
    assert len(one.members_are((1,))) == 5


@pytest.mark.parametrize("by", ["any", "sender", "key"])
@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_left_out_whatever_the_members_know_and_when(seed, by):
    """Members come and go, and learn of it and of each other's reports late; every event is taken at least once."""
    rng = Random(seed)
    members = {me: Queue(me, by, lambda e: e[2].get("key", ""), 10**6) for me in (1, 2, 3)}
    taken: dict[int, set] = {me: set() for me in members}
    finished: set = set()
    seen = dict.fromkeys(members, -1)
    letters: list[tuple[int, int, object]] = []

    def take(me, events):
        for e in events:
            taken[me].add((e[4], e[2]["key"]))
            if rng.random() < 0.5:
                finished.add((e[4], e[2]["key"]))
                members[me].done(e[3], e[4])

    def report():
        for me, member in members.items():
            told = member.report({9: seen[me]})
            letters.extend((me, other, told) for other in members if other != me)

    def read():
        while letters:
            source, to, told = letters.pop(0)
            if to in members and source in members:
                take(to, members[to].reported(source, told, {9: seen[to]}))

    published = [[event(9, n, f"k{k}") for k in range(3)] for n in range(200)]
    for at in range(200):
        for me, member in members.items():
            if rng.random() < 0.1:
                take(me, member.members_are(rng.sample(sorted(members), rng.randint(1, len(members)))))
            if rng.random() < 0.7 or at == 199:
                new = published[seen[me] + 1 : at + 1]
                seen[me] = at
                take(me, member.arrived([e for packet in new for e in packet]))
        if rng.random() < 0.2:
            report()
        if rng.random() < 0.2:
            read()
    if rng.random() < 0.5:  # one dies with what it had not done
        del members[3]
    report()
    read()
    for _ in range(5):
        for me, member in members.items():
            take(me, member.members_are(tuple(members)))
        report()
        read()
    everything = finished | {e for me in members for e in taken[me]}
    assert everything == {(n, f"k{k}") for n in range(200) for k in range(3)}
