"""How many packets a budget pays for."""

from collections import deque
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from gossamer.flow.bucket import HEADERS_BYTES, within

LENGTHS = st.lists(st.sampled_from([0, 100, 100, 100, 700]), min_size=1, max_size=12)


@given(LENGTHS, st.integers(-500, 3000), st.integers(-2, 12))
def test_packets_go_as_long_as_anything_is_left(lengths, room, most):
    bodies = deque(bytes(length) for length in lengths)
    most = min(most, len(bodies))
    going, left = 0, room
    while going < most and left > 0:
        left -= lengths[going] + HEADERS_BYTES
        going += 1
    assert within(room, bodies, most) == going


def test_without_a_limit_all_of_them_go():
    assert within(inf, [b"x", b"yy"], 2) == 2
