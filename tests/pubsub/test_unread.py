"""What a worker of a queue has taken and not read yet, by packet."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gossamer.pubsub.unread import Unread


class Thing(tuple):
    """As an event: the sender and the number of its packet are in the fourth and fifth place."""


def thing(sender: int, seqno: int) -> Thing:
    return Thing(("subject", b"", {}, sender, seqno))


def test_what_is_left_is_counted_by_packet_and_only_what_was_read_since_is_looked_at():
    items = [thing(1, 7), thing(1, 7), thing(2, 3), "no event", thing(1, 8), thing(1, 8)]
    unread = Unread(items, Thing)
    assert unread.last(5) == Counter({(1, 7): 1, (2, 3): 1, (1, 8): 2})
    assert unread.last(3) == Counter({(1, 8): 2})
    assert unread.last(1) == Counter({(1, 8): 1})
    assert unread.last(0) == Counter()


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9), st.booleans())), st.data())
def test_it_is_what_a_search_finds(packets, data):
    items = []
    for seqno, (sender, count, lost) in enumerate(packets):
        items += [thing(sender, seqno)] * count + ["lost"] * lost
    unread = Unread(items, Thing)
    for left in sorted(data.draw(st.sets(st.integers(0, len(items)))), reverse=True):
        assert unread.last(left) == Counter((i[3], i[4]) for i in items[len(items) - left :] if isinstance(i, Thing))


def test_nothing_is_left_of_nothing():
    assert Unread((), Thing).last(0) == Counter()


def test_commits_in_the_middle_look_at_each_item_twice_in_all():
    looked_at = 0

    class Watched(list):
        def __getitem__(self, part):
            nonlocal looked_at
            found = super().__getitem__(part)
            looked_at += len(found)
            return found

    items = Watched(thing(1, n // 10) for n in range(1000))
    unread = Unread(items, Thing)
    for left in range(999, 0, -1):
        assert unread.last(left).total() == left
    assert looked_at <= 2 * len(items)
