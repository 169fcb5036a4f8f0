"""How far a stream may read: all that is there, nothing that may still come, and never past a loss in silence."""

import pytest

from gossamer.core.ranges import RangeSet
from gossamer.pipeline.options import parse_keys
from gossamer.pipeline.positions import Extent, from_offset, parse, to_offset
from gossamer.pipeline.session import PipelineError

S = 17


def never(*_: int) -> bool:
    return False


def always(*_: int) -> bool:
    return True


def extent(held: list[tuple[int, int]], collected: list[tuple[int, int]] = ()) -> Extent:
    return Extent({S: RangeSet(held)} if held else {}, {S: RangeSet(collected)} if collected else {})


@pytest.mark.parametrize(
    ("held", "collected", "begin_waiting", "begin_old"),
    [
        ([(0, 9)], [], 0, 0),
        ([(5, 9)], [], 0, 5),  # the beginning may still be under way
        ([(5, 9)], [(0, 4)], 5, 5),
        ([(8, 9)], [(0, 4)], 5, 8),
        ([(2, 3), (8, 9)], [(0, 1), (4, 5)], 2, 2),
        ([], [(0, 4)], 5, 5),
        ([], [], 0, 0),
    ],
)
def test_a_stream_begins_at_the_first_packet_that_is_there_or_may_come(held, collected, begin_waiting, begin_old):
    log = extent(held, collected)

    assert log.begin(S, never) == begin_waiting
    assert log.begin(S, always) == begin_old


@pytest.mark.parametrize(
    ("held", "collected", "at", "waits_at", "passes_to"),
    [
        ([(0, 9)], [], 0, 10, 10),
        ([(0, 9)], [], 10, 10, 10),
        ([(0, 9)], [], 12, 12, 12),
        ([(0, 4), (6, 9)], [], 0, 5, 10),
        ([(0, 4), (6, 9)], [], 5, 5, 10),
        ([(0, 4), (6, 9)], [(5, 5)], 0, 10, 10),
        ([(0, 4), (8, 9)], [(5, 6)], 2, 7, 10),
        ([], [], 0, 0, 0),
    ],
)
def test_a_stream_stops_at_a_gap_until_the_gap_is_old(held, collected, at, waits_at, passes_to):
    log = extent(held, collected)

    assert log.reach(S, at, never) == waits_at
    assert log.reach(S, at, always) == passes_to


def test_what_was_collected_after_it_was_read_is_no_loss():
    log = extent([(10, 20)], [(0, 9)])

    assert log.lost(S, 10, 21).ranges() == []
    assert log.lost(S, 7, 21).ranges() == [(7, 9)]
    assert log.lost(S, 7, 7).ranges() == []


def test_offsets_are_read_back_from_their_json():
    assert from_offset(to_offset({3: 1, 1: 2}, skipped=4)) == {1: 2, 3: 1}
    assert to_offset({1: 2}) == {"1": 2}
    assert parse("startingOffsets", '{"17": 5, "18": -2, "skipped": 3}') == {17: 5, 18: -2}


@pytest.mark.parametrize(
    "text", ["soon", "[1]", "1", '{"a": 1}', '{"1": "x"}', '{"1": 1.5}', '{"1": -3}', '{"1": true}']
)
def test_an_invalid_position_is_refused_in_one_line(text):
    with pytest.raises(PipelineError, match="startingOffsets") as refused:
        parse("startingOffsets", text)
    assert "\n" not in str(refused.value)


def test_keys_are_given_as_in_settings(tmp_path):
    key = bytes(range(32))
    (tmp_path / "group.key").write_text(key.hex() + "\n")
    assert parse_keys(f"@{tmp_path / 'group.key'}, {key.hex()}") == (key, key)
    with pytest.raises(PipelineError, match="32 bytes"):
        parse_keys("abcd")
    with pytest.raises(PipelineError, match="missing"):
        parse_keys(f"@{tmp_path / 'missing'}")
