"""What a durable reader has taken, by packet."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gossamer.pubsub.taken import Taken


class Thing(tuple):
    """As an event: the sender and the number of its packet are in the fourth and fifth place."""


def thing(sender: int, seqno: int) -> Thing:
    return Thing(("subject", b"", {}, sender, seqno))


def test_the_first_unread_packet_of_each_sender_is_known():
    items = [thing(1, 7), thing(1, 7), thing(2, 3), "no event", thing(2, 4), thing(1, 8), thing(1, 8)]
    taken = Taken(items, Thing)
    assert taken.first(6) == {1: 7, 2: 3}
    assert taken.first(5) == {2: 3, 1: 8}
    assert taken.first(4) == taken.first(3) == {2: 4, 1: 8}
    assert taken.first(2) == taken.first(1) == {1: 8}
    assert taken.first(0) == {}


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 40), st.booleans())), st.data())
def test_it_is_what_a_search_finds(packets, data):
    items = []
    for seqno, (sender, count, lost) in enumerate(packets):
        items += [thing(sender, seqno)] * count + ["lost"] * lost
    taken = Taken(items, Thing)
    assert [part for begin, end, _ in taken.parts for part in items[begin:end]] == [i for i in items if i != "lost"]
    assert taken.places() == Counter((i[3], i[4]) for i in items if i != "lost")
    for left in sorted(data.draw(st.sets(st.integers(0, len(items)))), reverse=True):
        rest = [item for item in items[len(items) - left :] if item != "lost"]
        first = {}
        for item in rest:
            first.setdefault(item[3], item[4])
        assert taken.first(left) == first
        assert taken.places(left) == Counter((i[3], i[4]) for i in rest)


def test_of_packets_with_many_events_few_are_looked_at():
    looked_at = 0

    class Watched(list):
        def __getitem__(self, at):
            nonlocal looked_at
            looked_at += 1
            return super().__getitem__(at)

    items = Watched(thing(1, n // 1000) for n in range(100_000))
    assert Taken(items, Thing).places() == Counter({(1, seqno): 1000 for seqno in range(100)})
    assert looked_at <= 500


def test_nothing_was_taken():
    assert Taken().places() == Counter()
    assert Taken().first(0) == {}
