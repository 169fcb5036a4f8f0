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


KEYS = [f"k{n}" for n in range(999)]


def chooses(me: int, members, key: str) -> bool:
    return bool(queue(me, members, "key").arrived([event(9, 0, key)]))


def tell(members, seen) -> list:
    """Each tells all others; what they take because of it."""
    found = []
    for source in members:
        report = source.report(seen)
        for other in members:
            if other is not source:
                found += other.reported(source._me, report, seen)
    return found


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


def test_keys_are_shared_evenly_also_those_of_a_member_that_left():
    rng = Random(1)
    members = sorted(rng.getrandbits(62) for _ in range(10))
    events = [event(9, n, f"k{n}") for n in range(5000)]
    of = {me: {e[4] for e in queue(me, members, "key").arrived(events)} for me in members}
    assert max(map(len, of.values())) < 1.3 * min(map(len, of.values()))
    left = of.pop(members[0])
    of_left = [left & {e[4] for e in queue(me, members[1:], "key").arrived(events)} for me in of]
    assert max(map(len, of_left)) < 3 * min(map(len, of_left))


def test_what_a_member_that_left_had_not_done_goes_to_another():
    one, two, three = members = [queue(me, (1, 2, 3)) for me in (1, 2, 3)]
    events = [event(9, n) for n in range(30)]
    taken = {id(m): {e[4] for e in m.arrived(events)} for m in members}
    theirs = sorted(taken[id(three)])
    for seqno in theirs[:4]:
        three.done(9, seqno)
    assert tell(members, {9: 29}) == []
    again = [e[4] for m in (one, two) for e in m.members_are((1, 2))]
    assert sorted(again) == theirs[4:]


def test_an_event_that_each_thought_was_the_others_is_taken_when_they_agree():
    one, two = queue(1, (1, 2)), queue(2, (1, 2, 3))
    lost = next(n for n in range(100) if one.members[(n + 9) % 2] == 2 and two.members[(n + 9) % 3] != 2)
    assert one.arrived([event(9, lost)]) == []
    assert two.arrived([event(9, lost)]) == []
    found = two.reported(1, one.report({9: lost}), {9: lost})
    found += one.reported(2, two.report({9: lost}), {9: lost})
    found += one.members_are((1, 2))
    found += two.members_are((1, 2))
    found += one.reported(2, two.report({9: lost}), {9: lost})
    assert found == [event(9, lost)]


@pytest.mark.parametrize("by", ["any", "sender", "key"])
@pytest.mark.parametrize("dead", [(3,), (2, 3)], ids=["one dies", "two die at once"])
def test_what_a_dead_member_had_not_done_goes_to_none_that_came_later(dead, by):
    members = [queue(me, (1, 2, 3), by) for me in (1, 2, 3)]
    events = [event(9, n, f"k{n}") for n in range(60)]
    taken = {m._me: {e[4] for e in m.arrived(events)} for m in members}
    tell(members, {9: 59})
    here = (*(me for me in (1, 2) if me not in dead), 4, 5)
    members = [*(m for m in members if m._me in here), queue(4, here, by), queue(5, here, by)]
    found = [e for m in members for e in m.members_are(here)]
    for newcomer in members[-2:]:
        newcomer.arrived([event(9, 60, "new")])
    found += tell(members, {9: 60})
    assert sorted(e[4] for e in found if e[4] < 60) == sorted(n for me in dead for n in taken[me])


@pytest.mark.parametrize("by", ["any", "sender", "key"])
def test_what_came_before_a_new_member_is_not_left_to_it(by):
    """A new member greets before a packet is here that it never gets, since it was sent before."""
    one, two = queue(1, (1, 2), by), queue(2, (1, 2), by)
    one.reported(2, two.report({9: 29}), {})
    events = [event(9, n, f"k{n}") for n in range(30)]
    assert one.arrived(events) == events


def test_what_one_member_has_lost_goes_to_one_that_has_it():
    one, two = queue(1, (1, 2)), queue(2, (1, 2))
    found = one.arrived([event(9, n) for n in range(10)])
    found += two.arrived([event(9, n) for n in range(5)])
    two.lost(9, 8)
    found += two.arrived([event(9, 9)])
    found += tell([one, two], {9: 9})
    assert sorted(e[4] for e in found) == list(range(10))


@pytest.mark.parametrize("heard_first", [2, 3])
def test_until_all_know_who_has_what_an_event_may_be_done_twice_and_is_not_left_out(heard_first):
    members = [queue(me, (1, 2, 3, 4)) for me in (1, 2, 3)]
    four = queue(4, (1, 2, 3, 4))
    events = [event(9, n) for n in range(40)]
    theirs = {e[4] for e in four.arrived(events)}
    for m in members:
        m.arrived(events)
    reports = {m._me: m.report({9: 39}) for m in members}
    later = 5 - heard_first
    for m in members:
        if m._me != heard_first:
            m.reported(heard_first, reports[heard_first], {9: 39})
    found = [e for m in members for e in m.members_are((1, 2, 3))]
    for source in (1, later):
        for m in members:
            if m._me != source:
                found += m.reported(source, reports[source], {9: 39})
    found += tell(members, {9: 39})
    assert {e[4] for e in found} == theirs


@pytest.mark.parametrize("dead", [(1,), (2,), (1, 2)])
def test_what_nobody_has_any_more_is_reported_to_those_that_came_later(dead):
    """Some of it was taken before the newcomer came, and some while it was there."""
    members = [queue(me, (1, 2)) for me in (1, 2)]
    taken = {m._me: [e[4] for e in m.arrived([event(9, n) for n in range(20)])] for m in members}
    tell(members, {9: 19})
    newcomer = queue(3, (1, 2, 3))
    for m in members:
        newcomer.has_in_hand(m._me, m.in_hand())
        newcomer.reported(m._me, m.report({9: 19})._replace(since=dict(m.since)), {})
    for m in members:
        taken[m._me] += [e[4] for e in m.arrived([event(9, n) for n in range(20, 30)])]
        for seqno in taken[m._me][::2]:
            m.done(9, seqno)
    newcomer.arrived([event(9, 30)])
    tell([*members, newcomer], {9: 30})
    alive = [me for me in (1, 2) if me not in dead]
    assert all(e[4] == 30 for e in newcomer.members_are((*alive, 3))), "it has no more"
    left = sorted(n for me in dead for n in taken[me][1::2]) if not alive else []
    assert sorted(newcomer.left_undone().get(9, ())) == left
    assert newcomer.left_undone() == {}, "told once"


def test_what_is_taken_of_a_packet_of_which_one_has_done_all_goes_on_to_another():
    """One has done its events of a packet and then takes others of it, which a dead one left, within one report."""
    first = next(k for k in KEYS if chooses(1, (1, 2, 10), k))
    left = next(k for k in KEYS if chooses(10, (1, 2, 10), k) and chooses(1, (1, 2), k))
    one, two = members = [queue(me, (1, 2, 10), "key") for me in (1, 2)]
    events = [event(9, 0, first), event(9, 0, left)]
    assert [m.arrived(events) for m in members] == [events[:1], []]
    for m in members:
        m.reported(3 - m._me, queue(3 - m._me, (1, 2, 10)).report({})._replace(since={9: 0}), {9: 0})
    one.done(9, 0)
    assert [m.members_are((1, 2)) for m in members] == [events[1:], []]
    tell(members, {9: 0})
    assert events[1] in two.members_are((2,))


def test_what_another_has_is_what_it_chose_and_not_what_was_taken_for_its_before_a_third_came():
    before, now = (1, 40), (1, 40, 500)
    stays = next(k for k in KEYS if chooses(40, before, k) and chooses(40, now, k))
    goes = next(k for k in KEYS if chooses(40, before, k) and chooses(500, now, k))
    events = [event(9, 0, stays), event(9, 0, goes)]
    one, four, five = queue(1, before, "key"), queue(40, now, "key"), queue(500, now, "key")
    assert [m.arrived(events) for m in (one, four, five)] == [[], events[:1], events[1:]]
    one.members_are(now)
    four.done(9, 0)
    assert one.reported(40, four.report({9: 0}), {9: 0}) == []
    assert one.members_are((1,)) == events[1:], "the third had it, and nobody else"


def test_what_was_left_to_another_it_need_not_have_yet_though_it_has_done_its_own_part_of_the_packet():
    before, now = (1, 40, 500), (1, 40)
    own = next(k for k in KEYS if chooses(40, before, k))
    left = next(k for k in KEYS if chooses(500, before, k) and chooses(40, now, k))
    events = [event(9, 0, own), event(9, 0, left)]
    one, four = queue(1, before, "key"), queue(40, before, "key")
    one.reported(40, four.report({})._replace(since={9: 0}), {})
    assert [m.arrived(events) for m in (one, four)] == [[], events[:1]]
    four.done(9, 0)
    made = four.report({9: 0})._replace(list_hash=queue(40, now).report({}).list_hash)
    assert one.members_are(now) == []
    assert one.reported(40, made, {9: 0}) == []
    assert one.members_are((1,)) == events[1:]


def test_of_a_sender_that_is_gone_is_known_who_has_what_until_that_is_done():
    one = queue(1, (1, 2))
    for sender in (8, 9):
        one.arrived([event(sender, 0), event(sender, 1)])
    one.forget_but({8}.__contains__)
    assert set(one.since) == {8, 9}
    two = queue(2, (1, 2))
    two.arrived([event(9, 0), event(9, 1)])
    for member in (one, two):
        for seqno in (0, 1):
            member.done(9, seqno)
    tell([one, two], {9: 1})
    one.forget_but({8}.__contains__)
    assert set(one.since) == {8}


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


@pytest.mark.parametrize("by", ["any", "sender", "key"])
@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_left_out_while_members_are_killed_and_replaced(seed, by):
    """One stays. The others die, also two at once, and newcomers have only what is sent after they came."""
    rng = Random(seed)
    members: dict[int, Queue] = {}
    told: dict[int, dict[int, int]] = {}  # to each: from which number on it has heard of each of the others
    seen: dict[int, int] = {}
    letters: list[tuple[int, int, object]] = []
    taken: dict[int, set] = {}
    finished: set = set()

    def take(me, events):
        for e in events:
            taken[me].add((e[4], e[2]["key"]))
            if rng.random() < 0.3:
                finished.add((e[4], e[2]["key"]))
                members[me].done(e[3], e[4])

    def begin(me, at):
        members[me] = Queue(me, by, lambda e: e[2].get("key", ""), 10**6)
        seen[me], taken[me], told[me] = at, set(), {me: 0}

    def report():
        for me, member in members.items():
            made = member.report({9: seen[me]} if seen[me] >= 0 else {})
            for other in members:
                if other != me:
                    hello = made._replace(since=dict(member.since)) if me not in told[other] else made
                    letters.append((me, other, hello))
                    told[other].setdefault(me, 0)

    def read(count):
        for source, to, made in letters[:count]:
            if to in members and source in members:
                here = {*members[to].members, source}
                take(to, members[to].members_are(here))
                take(to, members[to].reported(source, made, {9: seen[to]}))
        del letters[:count]

    def mourn(me):
        take(me, members[me].members_are([one for one in members[me].members if one in members]))

    for me in (1, 2, 3):
        begin(me, -1)
    newest = 3
    published = [[event(9, n, f"k{k}") for k in range(3)] for n in range(150)]
    for at in range(150):
        for me in list(members):
            if rng.random() < 0.3:
                mourn(me)
            if rng.random() < 0.7:
                new = published[seen[me] + 1 : at + 1]
                seen[me] = at
                take(me, members[me].arrived([e for packet in new for e in packet]))
        if rng.random() < 0.1:
            for dead in rng.sample(sorted(set(members) - {1}), rng.randint(1, 2)):
                del members[dead]
                newest += 1
                begin(newest, at)
        if rng.random() < 0.3:
            report()
        if rng.random() < 0.5:
            read(rng.randint(1, 20))
    for me, member in members.items():
        take(me, member.arrived([e for packet in published[seen[me] + 1 :] for e in packet]))
        seen[me] = 149
    for _ in range(3):
        report()
        read(len(letters))
        for me in members:
            mourn(me)
    everything = finished | {e for me in members for e in taken[me]}
    assert everything == {(n, f"k{k}") for n in range(150) for k in range(3)}
