"""The range set against Python's own set, and its cost at a million ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.ranges import RangeSet

numbers = st.integers(0, 60)
spans = st.tuples(numbers, numbers).map(lambda pair: (min(pair), max(pair)))


def filled(operations: list[tuple[bool, tuple[int, int]]]) -> tuple[RangeSet, set[int]]:
    ranges, model = RangeSet(), set()
    for adds, (first, last) in operations:
        if adds:
            ranges.add(first, last)
            model |= set(range(first, last + 1))
        else:
            ranges.discard(first, last)
            model -= set(range(first, last + 1))
    return ranges, model


histories = st.lists(st.tuples(st.booleans(), spans), max_size=12).map(filled)


@given(histories)
def test_a_range_set_holds_what_a_set_holds(history):
    ranges, model = history
    assert list(ranges) == sorted(model)
    assert len(ranges) == len(model)
    assert [n in ranges for n in range(62)] == [n in model for n in range(62)]


@given(histories)
def test_ranges_are_sorted_disjoint_and_do_not_touch(history):
    ranges = history[0].ranges()
    assert all(first <= last for first, last in ranges)
    assert all(ranges[i][1] + 1 < ranges[i + 1][0] for i in range(len(ranges) - 1))
    assert history[0].newest() == ranges[::-1]


def test_an_empty_window_contains_nothing():
    assert RangeSet([(5, 9)]).within(7, 6) == []


@given(histories, spans)
def test_gaps_and_parts_within_a_window(history, span):
    ranges, model = history
    window = set(range(span[0], span[1] + 1))
    assert {n for a, b in ranges.gaps(*span) for n in range(a, b + 1)} == window - model
    assert {n for a, b in ranges.within(*span) for n in range(a, b + 1)} == window & model


@given(histories, histories)
def test_set_algebra(one, other):
    assert set(one[0].difference(other[0])) == one[1] - other[1]
    assert set(one[0].intersection(other[0])) == one[1] & other[1]
    both = one[0].copy()
    both.update(other[0])
    assert set(both) == one[1] | other[1]
    both.subtract(other[0])
    assert set(both) == one[1] - other[1]


@given(histories)
def test_an_encoding_is_decoded_again_and_has_the_size_it_says(history):
    out = bytearray(b"before")
    history[0].encode(out)
    decoded, behind = RangeSet.decode(bytes(out), 6)
    assert decoded == history[0]
    assert behind == len(out) == 6 + history[0].encoded_size()


@given(st.binary(max_size=40))
def test_any_bytes_decode_or_raise_value_error(data):
    try:
        decoded, behind = RangeSet.decode(data, 0)
    except ValueError:
        return
    assert behind <= len(data)
    assert decoded.range_count() <= len(data)


def test_a_million_consecutive_ids_are_one_range():
    ranges = RangeSet()
    for start in range(0, 1_000_000, 1000):
        ranges.add(start, start + 999)  # each touches the one before
    assert ranges.range_count() == 1
    assert len(ranges) == 1_000_000
    assert ranges.encoded_size() <= 5


def test_a_range_that_ends_before_it_starts_is_refused():
    with pytest.raises(ValueError, match=r"5\.\.4"):
        RangeSet().add(5, 4)


@given(histories, histories)
def test_touching_gives_whole_ranges(one, other):
    ranges, touched = one[0].ranges(), one[0].touching(other[0])
    assert touched.ranges() == [part for part in ranges if other[0].within(*part)]
