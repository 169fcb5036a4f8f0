"""The maps that a group is between, as they are told: the latest of them, and whether these are all."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.pubsub.channel_map import MAP_BYTES_MAX, ChannelMap, ChannelMapError, Rule
from gossamer.pubsub.maps_in_use import EARLIER_MAX, MapsInUse


def small(version: int) -> ChannelMap:
    return ChannelMap(version, 3, (Rule("x", 1),))


def test_it_is_read_as_it_was_written():
    told = MapsInUse(2, (small(1), small(2)))
    assert MapsInUse.from_bytes(told.to_bytes()) == told


def test_of_too_many_the_latest_are_told_and_that_there_are_more():
    told = MapsInUse.from_bytes(MapsInUse(0, tuple(map(small, range(1, 12)))).to_bytes())
    assert [earlier.version for earlier in told.earlier] == list(range(12 - EARLIER_MAX, 12))
    assert not told.complete


def test_maps_that_are_too_large_together_are_left_out():
    large = [ChannelMap(v, 2, tuple(Rule(f"{n}.{'y' * 240}", 1) for n in range(3000))) for v in (1, 2)]
    content = MapsInUse(1, (*large, small(3))).to_bytes()
    assert len(content) <= MAP_BYTES_MAX + 100
    told = MapsInUse.from_bytes(content)
    assert [earlier.version for earlier in told.earlier] == [2, 3]
    assert not told.complete


@given(st.binary(max_size=60))
def test_anything_else_is_an_error_of_its_kind(data):
    with suppress(ChannelMapError):
        assert MapsInUse.from_bytes(data).to_bytes() == data


def test_what_is_cut_short_is_refused():
    content = MapsInUse(2, (small(1),)).to_bytes()
    for end in range(len(content)):
        with pytest.raises(ChannelMapError):
            MapsInUse.from_bytes(content[:end])
